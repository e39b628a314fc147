import { type Archive, archiveRef, bytesFromText, textFromBytes } from "@tare/prune";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import type { Database } from "./sqlite/database.ts";
import { corruptError } from "./sqlite/file_error.ts";

/**
 * Opens sessions' archives: texts are shared, who may read them is kept for each session. `keyOf` gives a session's
 * row, or throws.
 */
export function sessionArchives(database: Database, keyOf: (id: string) => number): (id: string) => Archive {
  const selectText = database.prepare<{ zstd: Uint8Array<ArrayBuffer> }>(
    "SELECT zstd FROM texts WHERE ref = ?",
  );
  const selectOwn = database.prepare(
    "SELECT 1 FROM archived JOIN sessions ON key = session WHERE id = ? AND ref = ?",
  );
  const upsertText = database.prepare(
    "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO UPDATE SET zstd = excluded.zstd WHERE zstd <> excluded.zstd",
  );
  const insertOwn = database.prepare("INSERT INTO archived VALUES (?, ?) ON CONFLICT DO NOTHING");
  // The last reference takes the text with it: see the schema's trigger.
  const deleteOwn = database.prepare(
    "DELETE FROM archived WHERE session = (SELECT key FROM sessions WHERE id = ?) AND ref = ?",
  );

  /** The stored text, if there is one, and whether it is what its reference says. */
  async function read(ref: string): Promise<{ content: string; whole: boolean } | undefined> {
    const row = selectText.get(ref);
    if (!row) return undefined;
    const content = decompress(row.zstd);
    return { content, whole: await archiveRef(content) === ref };
  }

  return (id) => ({
    async put(content) {
      const ref = await archiveRef(content);
      const kept = await read(ref);
      if (kept?.whole && kept.content !== content) {
        throw new Error(`Cannot archive a text under ${ref}: other content stands there`);
      }
      const zstd = zstdCompressSync(bytesFromText(content));
      database.transaction(() => {
        upsertText.run(ref, zstd);
        insertOwn.run(keyOf(id), ref);
      });
      return ref;
    },
    async get(ref) {
      if (!selectOwn.get(id, ref)) return undefined;
      const kept = await read(ref);
      if (!kept?.whole) {
        throw corruptError(
          database.path,
          `the archived text ${ref} was damaged, its content has another hash`,
        );
      }
      return kept.content;
    },
    delete(ref) {
      return Promise.try(() => void deleteOwn.run(id, ref));
    },
  });
}

/** What can't be decompressed comes out as a text that has another hash. */
function decompress(zstd: Uint8Array<ArrayBuffer>): string {
  try {
    return textFromBytes(new Uint8Array(zstdDecompressSync(zstd)));
  } catch {
    return "";
  }
}

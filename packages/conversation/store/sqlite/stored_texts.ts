import { bytesFromText, textFromBytes } from "@tare/prune/internal";
import { createHash } from "node:crypto";
import { zstdCompressSync, zstdDecompressSync } from "node:zlib";
import { otherTextError } from "../store_error.ts";
import type { Database } from "./database.ts";
import { corruptError } from "./file_error.ts";

/** A text and its `archiveRef`. */
interface StoredText {
  readonly ref: string;
  readonly content: string;
}

/** Archived texts: each is stored once, and who may read it is kept for each session. */
export interface StoredTexts {
  /** Keeps a text for a session's row, inside a transaction. */
  put(session: number, text: StoredText): void;
  /** Those of these texts that this session put. */
  get(sessionId: string, refs: readonly string[]): Map<string, string>;
}

/** The texts in a file. */
export function storedTexts(database: Database): StoredTexts {
  const selectText = database.prepare<{ zstd: Uint8Array<ArrayBuffer> }>(
    "SELECT zstd FROM texts WHERE ref = ?",
  );
  const selectOwn = database.prepare<{ ref: string; zstd: Uint8Array<ArrayBuffer> | null }>(
    `SELECT archived.ref, zstd FROM archived JOIN sessions ON key = session
       LEFT JOIN texts ON texts.ref = archived.ref
     WHERE id = ? AND archived.ref IN (SELECT value FROM json_each(?))`,
  );
  const upsertText = database.prepare(
    "INSERT INTO texts VALUES (?, ?) ON CONFLICT DO UPDATE SET zstd = excluded.zstd",
  );
  const insertOwn = database.prepare("INSERT INTO archived VALUES (?, ?) ON CONFLICT DO NOTHING");
  const write = ({ ref, content }: StoredText) => {
    const row = selectText.get(ref);
    const kept = row && unpackText(row.zstd, ref);
    if (kept !== undefined && kept !== content) throw otherTextError(ref);
    if (kept === undefined) upsertText.run(ref, packText(content));
  };
  const read = ({ zstd }: { readonly zstd: Uint8Array<ArrayBuffer> | null }, ref: string): string => {
    const content = zstd === null ? undefined : unpackText(zstd, ref);
    if (content !== undefined) return content;
    throw corruptError(database.path, `the archived text ${ref} was damaged, its content has another hash`);
  };
  return {
    put(session, text) {
      write(text);
      insertOwn.run(session, text.ref);
    },
    get: (sessionId, refs) =>
      new Map(
        selectOwn.all(sessionId, JSON.stringify(refs)).map((row) => [row.ref, read(row, row.ref)]),
      ),
  };
}

/** The shortest output that zlib reserves, in bytes, and the longest that is worth reserving at once. */
const [LEAST_OUTPUT, MOST_OUTPUT] = [64, 16 * 1024];

/** The text, compressed. Most are short: a compressor that is told how long has less to set up. */
export function packText(content: string): Uint8Array<ArrayBuffer> {
  const text = bytesFromText(content);
  const { length } = text;
  const chunkSize = Math.min(Math.max(length, LEAST_OUTPUT), MOST_OUTPUT);
  const options = { chunkSize, pledgedSrcSize: length };
  return new Uint8Array(zstdCompressSync(text, options));
}

/** The text, if it is what its reference says: `archiveRef`, but at once. */
export function unpackText(zstd: Uint8Array<ArrayBuffer>, ref: string): string | undefined {
  try {
    const bytes = new Uint8Array(zstdDecompressSync(zstd));
    const whole = createHash("sha256").update(bytes).digest("hex").startsWith(ref);
    return whole ? textFromBytes(bytes) : undefined;
  } catch {
    return undefined;
  }
}

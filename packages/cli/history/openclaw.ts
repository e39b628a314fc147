import { asRecord } from "@tare/wire/internal";
import { DatabaseSync } from "node:sqlite";
import { zstdDecompressSync } from "node:zlib";
import {
  filesIn,
  lineReader,
  type LogFormat,
  type LoggedSession,
  readLines,
  type ReadOptions,
} from "./log.ts";
import { readPiEntries } from "./pi.ts";

const readFile = lineReader(readPiEntries);

/** OpenClaw: pi's entries, in a database per agent; older versions have files of the same lines. */
export const OPENCLAW: LogFormat = {
  agent: "openclaw",
  *find(places) {
    const { home, env } = places;
    const folder = `${env("OPENCLAW_STATE_DIR") ?? `${home}/.openclaw`}/agents`;
    yield* filesIn(folder, /^openclaw-agent\.sqlite$/, places);
    // Sessions that were reset or deleted have a further ending.
    for (const path of filesIn(folder, /(?<!\.trajectory)\.jsonl(?:\.(?:reset|deleted)\..+)?$/, places)) {
      if (/\/(?:sessions|session-sqlite-import-archive)\//.test(path)) yield path;
    }
  },
  read: (path, options) => path.endsWith(".sqlite") ? readDatabase(path, options) : readFile(path, options),
};

/** Reads the sessions of a database, and those that it archived. @throws {Error} if a column is missing. */
function* readDatabase(path: string, options: ReadOptions): Generator<LoggedSession> {
  using database = new DatabaseSync(path, { readOnly: true });
  const read = (name: string, lines: Iterable<string>) =>
    readLines(readPiEntries, { ...options, name, path, lines });
  const eventsOf = database.prepare("SELECT * FROM transcript_events WHERE session_id = ? ORDER BY seq");
  const sessions = database.prepare("SELECT DISTINCT session_id FROM transcript_events").all();
  for (const { session_id: id } of sessions) {
    if (options.only !== undefined && options.only !== id) continue;
    yield* read(String(id), eventLines(eventsOf.iterate(id ?? "")));
  }
  const hasArchives = database.prepare(
    "SELECT 1 FROM sqlite_master WHERE name = 'session_transcript_archives'",
  ).get();
  if (!hasArchives) return;
  const archives = database.prepare(
    "SELECT session_id, encoding, archive_blob FROM session_transcript_archives",
  );
  for (const { session_id: id, encoding, archive_blob: blob } of archives.iterate()) {
    if (options.only !== undefined && options.only !== id) continue;
    yield* read(String(id), textOf(blob, encoding === "zstd").split("\n").filter((line) => line !== ""));
  }
}

function* eventLines(rows: Iterable<unknown>): Generator<string> {
  for (const row of rows) {
    const { event_json: text, event_zstd: packed } = asRecord(row) ?? {};
    yield typeof text === "string" ? text : textOf(packed, true);
  }
}

function textOf(blob: unknown, isPacked: boolean): string {
  if (!(blob instanceof Uint8Array)) return "";
  return new TextDecoder().decode(isPacked ? zstdDecompressSync(blob) : blob);
}

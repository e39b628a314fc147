/**
 * Backs up the running server's data to a file: `deno task backup FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { counted } from "@tare/server/internal/format";
import { sumContents } from "@tare/session/internal";
import { openFileContents } from "@tare/session/sqlite";
import { connect } from "./agent_client.ts";
import { callersPath, KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { withElapsed } from "./terminal/progress_bar.ts";

await runCommandLine({
  call: "deno task backup",
  summary: "Backs up the running server's data to a file, and verifies it",
  usage: ["[--url URL] FILE"],
  details:
    `To restore it, stop the server, empty its data folder and copy the file there as tare.db. Sessions in PostgreSQL are
backed up with PostgreSQL's tools: docs/several_servers.md.`,
  options: SERVER_OPTIONS,
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [file] }) => {
  if (file === undefined) return "usage";
  const path = callersPath(file);
  const part = `${path}.part`;
  const { client } = await connect(values.url);
  await withElapsed("Backing up", async () => receive(await client.backUp(), part));
  const contents = openFileContents(part);
  const { counts: { sessions, events } } = await withElapsed("Verifying", () => sumContents(contents))
    .finally(() => contents.close());
  await Deno.remove(`${part}.lock`);
  await Deno.rename(part, path);
  const mebibytes = (Deno.statSync(path).size / 2 ** 20).toFixed(1);
  console.log(
    `Wrote ${path}: ${counted(sessions, "session")}, ${
      counted(events, "event")
    }, ${mebibytes} MiB, all readable.`,
  );
  return 0;
});

/** Writes a file that only its owner may read, and syncs it to disk. */
async function receive(bytes: ReadableStream<Uint8Array>, path: string): Promise<void> {
  await Deno.remove(path).catch(() => {});
  using file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
  for await (const piece of whole(bytes)) {
    for (let at = 0; at < piece.length;) at += await file.write(piece.subarray(at));
  }
  await file.sync();
}

async function* whole(bytes: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  try {
    yield* bytes;
  } catch (cause) {
    throw new Error("Cannot back up: the connection to the server was lost. Try again.", { cause });
  }
}

/**
 * Writes all that a running server keeps into a file: `deno task backup FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { sumContents } from "@tare/session/internal";
import { openFileContents } from "@tare/session/sqlite";
import { connect } from "./agent_client.ts";
import { callersPath, KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";

await runCommandLine({
  call: "deno task backup",
  summary: "Writes all that a running server keeps into a file, from which a server can go on, and checks it",
  usage: ["[--url URL] FILE"],
  details:
    `To go back to it, end the server, empty its data folder and put the file there as tare.db. A server whose sessions are
in PostgreSQL is backed up by PostgreSQL's tools: docs/several_servers.md.`,
  options: SERVER_OPTIONS,
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [file] }) => {
  if (file === undefined) return "usage";
  const path = callersPath(file);
  const part = `${path}.part`;
  await receive(await (await connect(values.url)).client.backUp(), part);
  const contents = openFileContents(part);
  const { counts: { sessions, events } } = await sumContents(contents).finally(() => contents.close());
  await Deno.remove(`${part}.lock`);
  await Deno.rename(part, path);
  const mebibytes = (Deno.statSync(path).size / 2 ** 20).toFixed(1);
  console.log(`Wrote ${path}: ${sessions} sessions, ${events} events, ${mebibytes} MiB, all readable.`);
  return 0;
});

/** Writes it to the disk, readable by its owner only. */
async function receive(bytes: ReadableStream<Uint8Array>, path: string): Promise<void> {
  // An incomplete one.
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
    throw new Error("Cannot back up: the server broke off. Try again.", { cause });
  }
}

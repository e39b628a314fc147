/**
 * Writes all that a running server keeps into a file: `deno task backup FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { sumContents } from "@tare/conversation";
import { openFileContents } from "@tare/conversation/sqlite";
import { agentClient, serverAddress } from "./agent_client.ts";
import { commandLine } from "./command_line.ts";
import { shownText } from "./terminal/shown_text.ts";

const HELP =
  `Writes all that a running server keeps into a file, from which a server can go on, and checks it:

  deno task backup [--url URL] FILE

To go back to it, end the server, empty its data folder and put the file there as tare.db. A server whose sessions are
in PostgreSQL is backed up where that runs: docs/many_servers.md.

  --url URL  The server. Default: by TARE_HOST and TARE_PORT, or the one of this folder

The key that is sent along is TARE_TOKEN, or the owner's of a server on this machine.`;

try {
  const { values, positionals: [file] } = commandLine({
    allowPositionals: true,
    options: { url: { type: "string" }, help: { type: "boolean", short: "h" } },
  });
  if (values.help || file === undefined) {
    console.error(HELP);
    Deno.exit(values.help ? 0 : 2);
  }
  // A task runs in the project's folder, wherever it was started.
  const path = resolve(Deno.env.get("INIT_CWD") ?? ".", file);
  const part = `${path}.part`;
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  await receive(await agentClient(url, token).backUp(), part);
  const contents = openFileContents(part);
  const { counts: { sessions, events } } = await sumContents(contents).finally(() => contents.close());
  await Deno.remove(`${part}.lock`);
  await Deno.rename(part, path);
  const mebibytes = (Deno.statSync(path).size / 2 ** 20).toFixed(1);
  console.log(`Wrote ${path}: ${sessions} sessions, ${events} events, ${mebibytes} MiB, all readable.`);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}

/** Writes it for its owner alone, onto the disk. */
async function receive(bytes: ReadableStream<Uint8Array>, path: string): Promise<void> {
  // Of one that was broken off.
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

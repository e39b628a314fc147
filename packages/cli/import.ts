/**
 * Makes sessions of a file of chat messages or recorded sessions: `deno task import FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { resolve } from "@std/path";
import { agentClient, serverAddress } from "./agent_client.ts";
import { commandLine } from "./command_line.ts";
import { shownText } from "./terminal/shown_text.ts";

const HELP = `Makes sessions of a file, and prints their ids:

  deno task import [--url URL] FILE

FILE holds one session, a chat message a line of JSON, as deno task export writes it; or several sessions, one a line,
each an object with "messages". If a line is bad, its number is named and nothing is imported.

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
  const lines = await Deno.readFile(resolve(Deno.env.get("INIT_CWD") ?? ".", file));
  const { url, token } = await serverAddress((name) => Deno.env.get(name), values.url);
  const client = agentClient(url, token);
  for (const id of await client.importSessions(lines)) console.log(id);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}

/**
 * Makes sessions of a file of chat messages or recorded sessions: `deno task import FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { connect } from "./agent_client.ts";
import { callersPath, KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";

await runCommandLine({
  call: "deno task import",
  summary: "Makes sessions of a file, and prints their ids",
  usage: ["[--url URL] FILE"],
  details:
    `FILE holds one session, a chat message a line of JSON, as deno task export writes it; or several sessions, one a line,
each an object with "messages". If a line is bad, its number is named and nothing is imported.`,
  options: SERVER_OPTIONS,
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [file] }) => {
  if (file === undefined) return "usage";
  const lines = await Deno.readFile(callersPath(file));
  for (const id of await (await connect(values.url)).client.importSessions(lines)) console.log(id);
  return 0;
});

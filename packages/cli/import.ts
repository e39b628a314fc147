/**
 * Imports sessions from a file: `deno task import FILE`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { connect } from "./agent_client.ts";
import { callersPath, KEY_NOTE, runCommandLine, SERVER_OPTIONS } from "./command_line.ts";
import { withElapsed } from "./terminal/progress_bar.ts";

await runCommandLine({
  call: "deno task import",
  summary: "Imports sessions from a file, and prints their ids",
  usage: ["[--url URL] FILE"],
  details:
    `FILE contains one session with a chat message per line of JSON, as written by deno task export; or several sessions,
each a line with an object that has "messages". If a line is invalid, its number is printed and nothing is imported.`,
  options: SERVER_OPTIONS,
  notes: KEY_NOTE,
  hasWords: true,
}, async ({ values, positionals: [file] }) => {
  if (file === undefined) return "usage";
  const lines = await Deno.readFile(callersPath(file));
  const { client } = await connect(values.url);
  for (const id of await withElapsed("Importing", () => client.importSessions(lines))) console.log(id);
  return 0;
});

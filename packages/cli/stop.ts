/**
 * Ends the folder's server: `tare stop`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { runCommandLine } from "./command_line.ts";
import { isAlive } from "./launchers.ts";
import { findServer } from "./server/noted_server.ts";
import { shownText } from "./terminal/shown_text.ts";

/** Time between two checks whether it has ended, in milliseconds. */
const CHECK_MS = 25;

await runCommandLine({
  call: "tare stop",
  summary: "Ends the server of this folder in order, as Ctrl-C would at its terminal",
  options: {},
  notes: "Turns that run are interrupted; sessions stay.",
}, async () => {
  const { pid, folder } = await findServer(Deno.env.toObject());
  Deno.kill(pid, "SIGINT");
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  console.log(shownText(`The server of ${folder} has ended.`));
});

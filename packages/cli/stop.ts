/**
 * Stops the folder's server: `tare stop`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { runCommandLine } from "./command_line.ts";
import { isAlive } from "./launchers.ts";
import { findServer } from "./server/noted_server.ts";
import { printableText } from "./terminal/printable_text.ts";

/** Interval between checks of the process, in milliseconds. */
const CHECK_MS = 25;

await runCommandLine({
  call: "tare stop",
  summary: "Shuts down this folder's server, as Ctrl-C in its terminal does",
  options: {},
  notes: "Running turns are interrupted; sessions are kept.",
}, async () => {
  const { pid, folder } = await findServer(Deno.env.toObject());
  Deno.kill(pid, "SIGINT");
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  console.log(printableText(`The server of ${folder} has stopped.`));
});

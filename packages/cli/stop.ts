/**
 * Ends the folder's server: `tare stop`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { findServer } from "./server/noted_server.ts";
import { isAlive } from "./launchers.ts";
import { shownText } from "./terminal/shown_text.ts";

const HELP = `Ends the server of this folder in order, as Ctrl-C would at its terminal:

  tare stop

Turns that run are interrupted; sessions stay.`;

/** How often is looked whether it has ended, in milliseconds. */
const LOOK_MS = 25;

try {
  if (Deno.args.length > 0) {
    console.log(HELP);
    Deno.exit(Deno.args.some((arg) => arg === "--help" || arg === "-h") ? 0 : 2);
  }
  const { pid, folder } = await findServer(Deno.env.toObject());
  Deno.kill(pid, "SIGINT");
  while (isAlive(pid)) await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  console.log(shownText(`The server of ${folder} has ended.`));
  Deno.exit(0);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}

/**
 * Sees to it that a server runs for the folder, in the background: `tare` does it before it talks.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join, resolve } from "@std/path";
import { statedAddress } from "./agent_client.ts";
import { dataFolder } from "./server/data_folder.ts";
import { callersFolder, type FoundServer, runningServer } from "./server/noted_server.ts";
import { denoArgs } from "./tasks.ts";
import { shownText } from "./terminal/shown_text.ts";

/** What the server says goes there: nobody is at its terminal. */
const LOG_FILE = "server.log";

/** How often is looked whether it listens, in milliseconds. */
const LOOK_MS = 25;

/** Of what a server said that didn't start, so many characters are shown. */
const MOST_SAID = 2_000;

const HELP = `Starts the server of this folder in the background, if none runs:

  deno task --cwd packages/cli background

It goes by the variables that tare start goes by, writes what it says into ${LOG_FILE} of its data folder, and stays
until tare stop.`;

const environment = Object.fromEntries(
  Object.entries(Deno.env.toObject()).filter(([, value]) => value !== ""),
);

/** Starts one that stays, and resolves once it listens. @throws {Error} with what it said, if it ends before. */
async function start(): Promise<FoundServer> {
  const { TARE_DATA: own, INIT_CWD = "." } = environment;
  // What else the settings say is read by the server: it would take as long again.
  const data = own
    ? resolve(INIT_CWD, own)
    : dataFolder({ workspace: callersFolder(environment) }, environment);
  Deno.mkdirSync(data, { recursive: true, mode: 0o700 });
  const path = join(data, LOG_FILE);
  const log = openSync(path, "w", 0o600);
  const child = spawn(Deno.execPath(), [...denoArgs("start"), "--stays"], {
    // The terminal's Ctrl-C isn't meant for it, nor does it end with the terminal.
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  let hasEnded = false;
  child.on("exit", () => hasEnded = true);
  child.on("error", () => hasEnded = true);
  for (;;) {
    // Another one may have started it meanwhile.
    const isOver = hasEnded;
    const found = await runningServer(environment);
    if (found) {
      child.unref();
      return found;
    }
    if (isOver) throw new Error(Deno.readTextFileSync(path).trim().slice(-MOST_SAID) || "The server ended.");
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS));
  }
}

try {
  if (Deno.args.length > 0) {
    console.log(HELP);
    Deno.exit(Deno.args.some((arg) => arg === "--help" || arg === "-h") ? 0 : 2);
  }
  const isStated = statedAddress(environment.TARE_HOST, environment.TARE_PORT) !== undefined;
  if (!isStated && !await runningServer(environment)) {
    const began = performance.now();
    const { folder } = await start();
    const seconds = ((performance.now() - began) / 1000).toFixed(1);
    console.log(shownText(`Started a server for ${folder} in ${seconds} s. It stays: tare stop ends it.`));
  }
  Deno.exit(0);
} catch (error) {
  console.error(shownText((error as Error).message));
  Deno.exit(1);
}

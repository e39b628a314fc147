/**
 * Starts the folder's server in the background, if none runs. `tare` does this before a chat.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { spawn } from "node:child_process";
import { closeSync, openSync } from "node:fs";
import { join, resolve } from "@std/path";
import { statedAddress } from "./agent_client.ts";
import { runCommandLine } from "./command_line.ts";
import { dataFolder } from "./server/data_folder.ts";
import { callersFolder, type FoundServer, runningServer } from "./server/noted_server.ts";
import { denoArgs } from "./tasks.ts";
import { printableText } from "./terminal/printable_text.ts";

const LOG_FILE = "server.log";

const CHECK_MS = 25;

const MAX_OUTPUT_CHARS = 2_000;

const environment = Object.fromEntries(
  Object.entries(Deno.env.toObject()).filter(([, value]) => value !== ""),
);

/**
 * Starts a server that outlives this process. Resolves once it listens.
 *
 * @throws {Error} with its output, if it fails.
 */
async function start(): Promise<FoundServer> {
  const { TARE_DATA: own, INIT_CWD = "." } = environment;
  // Reading all settings would take as long as starting the server.
  const data = own
    ? resolve(INIT_CWD, own)
    : dataFolder({ workspace: callersFolder(environment) }, environment);
  Deno.mkdirSync(data, { recursive: true, mode: 0o700 });
  const path = join(data, LOG_FILE);
  const log = openSync(path, "w", 0o600);
  const child = spawn(Deno.execPath(), [...denoArgs("start"), "--stays"], {
    // Neither Ctrl-C nor closing the terminal ends it.
    detached: true,
    stdio: ["ignore", log, log],
  });
  closeSync(log);
  let hasEnded = false;
  child.on("exit", () => hasEnded = true);
  child.on("error", () => hasEnded = true);
  for (;;) {
    const isOver = hasEnded;
    const found = await runningServer(environment);
    if (found) {
      child.unref();
      return found;
    }
    if (isOver) {
      throw new Error(
        Deno.readTextFileSync(path).trim().slice(-MAX_OUTPUT_CHARS) ||
          "Cannot start the server: it ended at once.",
      );
    }
    await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  }
}

await runCommandLine({
  call: "deno task --cwd packages/cli background",
  summary: "Starts the server of this folder in the background, if none runs",
  options: {},
  notes:
    `It uses the same variables as tare start, logs to ${LOG_FILE} in its data folder, and runs until tare stop.`,
}, async () => {
  const isStated = statedAddress(environment.TARE_HOST, environment.TARE_PORT) !== undefined;
  if (isStated || await runningServer(environment)) return;
  const began = performance.now();
  const { folder } = await start();
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    printableText(
      `Started a server for ${folder} in ${seconds} s. It runs in the background; tare stop ends it.`,
    ),
  );
});

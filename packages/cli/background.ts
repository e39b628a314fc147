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
import { chooseModel, lacksModel } from "./choose_model.ts";
import { runCommandLine } from "./command_line.ts";
import { isAlive } from "./launchers.ts";
import { dataFolder } from "./server/data_folder.ts";
import { callersFolder, type FoundServer, runningServer } from "./server/noted_server.ts";
import {
  readSettingsFiles,
  settingsDigests,
  settingsPaths,
  storeSettings,
  withSettingsFiles,
} from "./server/settings_files.ts";
import { denoArgs } from "./tasks.ts";
import { printableText } from "./terminal/printable_text.ts";
import { withElapsed } from "./terminal/progress_bar.ts";

const LOG_FILE = "server.log";

const CHECK_MS = 25;

const ANSWER_MS = 5_000;

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

/** Variables whose values differ between this command and a running server, and those that only the server has. */
function differences({ settings, stored, instance }: FoundServer) {
  const here = settingsDigests(withSettingsFiles(environment, readSettingsFiles(environment)), instance);
  return {
    changed: [
      ...Object.keys(here).filter((name) => here[name] !== settings[name]),
      ...stored.filter((name) => !(name in here)),
    ],
    absent: Object.keys(settings).filter((name) => !(name in here) && !stored.includes(name)),
  };
}

/** Stops a server whose settings have changed, if this command can start it again. Its turns continue then. */
async function stopChanged(found: FoundServer): Promise<boolean> {
  const { changed, absent } = differences(found);
  if (changed.length === 0) return false;
  const names = changed.join(", ");
  if (!found.runsAlone || absent.length > 0) {
    const reason = found.runsAlone
      ? `${absent.join(", ")} of that server ${absent.length === 1 ? "isn't" : "aren't"} set here`
      : "it was not started in the background";
    console.log(
      `The running server has other settings (${names}), and can't be restarted: ${reason}. ` +
        "To use the new ones, stop it with tare stop.",
    );
    return false;
  }
  console.log(`Settings have changed (${names}). Restarting the server …`);
  Deno.kill(found.pid, "SIGTERM");
  while (isAlive(found.pid)) await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
  return true;
}

async function isReachable(url: string): Promise<boolean> {
  try {
    await (await fetch(`${url}/health`, { signal: AbortSignal.timeout(ANSWER_MS) })).body?.cancel();
    return true;
  } catch {
    return false;
  }
}

/** Asks for a model if a provider is set without one, and stores the answer for all folders. */
async function storeModel(): Promise<void> {
  const paths = settingsPaths(environment);
  const all = withSettingsFiles(environment, readSettingsFiles(environment));
  if (paths === undefined || !lacksModel(all) || !Deno.stdin.isTerminal()) return;
  const model = await chooseModel(all);
  if (!model) return;
  await storeSettings(paths.user, { TARE_MODEL: model });
  console.log(printableText(`Stored in ${paths.user}. tare settings TARE_MODEL=NAME changes it.`));
}

await runCommandLine({
  call: "deno task --cwd packages/cli background",
  summary: "Starts the server of this folder in the background, if none runs with its settings",
  options: {},
  notes:
    `It uses the same settings as tare start, logs to ${LOG_FILE} in its data folder, and runs until tare stop.`,
}, async () => {
  const stated = statedAddress(environment.TARE_HOST, environment.TARE_PORT);
  if (stated !== undefined && await isReachable(stated)) return;
  await storeModel();
  const found = await runningServer(environment);
  if (found && !await stopChanged(found)) return;
  const began = performance.now();
  const { folder } = await withElapsed(
    "Starting the server (the first time, its packages are downloaded)",
    start,
  );
  const seconds = ((performance.now() - began) / 1000).toFixed(1);
  console.log(
    printableText(
      `Started a server for ${folder} in ${seconds} s. It runs in the background; tare stop ends it.`,
    ),
  );
});

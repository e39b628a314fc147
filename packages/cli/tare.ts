/**
 * The command `tare`: runs the tasks of this project for the current folder.
 *
 * @module
 */
// deno-lint-ignore-file no-console
// An installed command runs without the project's configuration, so it can't use the import map.
import { denoArgs, TASKS } from "./tasks.ts";

const COMMANDS = [
  "start",
  "stop",
  "run",
  "wrap",
  "unwrap",
  "ask",
  "chat",
  "acp",
  "settings",
  "demo",
  "page",
  "spend",
  "doctor",
  "prompt",
  "history",
  "export",
  "import",
  "backup",
  "keys",
  "hooks",
  "move",
] as const;

const HELP =
  `Reduces the cost of long agent sessions. The model can read back everything that is evicted from its prompt.

  tare                    chat with the agent in this folder; starts its server in the background if none runs
  tare COMMAND [--help]
  tare --version

${COMMANDS.map((name) => `  ${name.padEnd(8)} ${TASKS[name]!.description}`).join("\n")}

The server's workspace is the folder where it is started, unless TARE_WORKSPACE or --workspace sets another.`;

const VERSION: string = JSON.parse(
  Deno.readTextFileSync(new URL("../planner/deno.json", import.meta.url)),
).version;

async function run(task: string, args: readonly string[]): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), { args: [...denoArgs(task), ...args] }).spawn();
  pass = (signal) => child.kill(signal);
  return (await child.status).code;
}

/** Forwards a signal that only this process receives. */
let pass = (_signal: Deno.Signal) => {};

// The terminal sends Ctrl-C to the program directly.
if (Deno.build.os !== "windows") {
  Deno.addSignalListener("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {
      try {
        pass(signal);
      } catch {
        // It has ended already.
      }
    });
  }
}

const [given, ...args] = Deno.args;
const name = COMMANDS.find((name) => name === given);
if (name !== undefined) Deno.exit(await run(name, args));
if (given === "--version" || given === "-V") {
  console.log(`tare ${VERSION} (Deno ${Deno.version.deno})`);
  Deno.exit(0);
}
const isHelp = given === "--help" || given === "-h";
if (!isHelp && (given === undefined || given.startsWith("-")) && Deno.stdin.isTerminal()) {
  const code = await run("background", []);
  Deno.exit(code === 0 ? await run("chat", Deno.args) : code);
}
console.log(
  isHelp || given === undefined ? HELP : `Cannot run ${given}: there is no such command.\n\n${HELP}`,
);
Deno.exit(isHelp || given === undefined ? 0 : 2);

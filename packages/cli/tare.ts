/**
 * The command `tare`: what the tasks of this project do, in the folder in which one stands.
 *
 * @module
 */
// deno-lint-ignore-file no-console
// An installed command is run without the project's configuration: nothing here may need its imports.
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
  "demo",
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

const HELP = `Keeps long tool-using agents cheap without making them forget:

  tare                    talk with the agent in this folder; starts its server in the background if none runs
  tare COMMAND [--help]

${COMMANDS.map((name) => `  ${name.padEnd(7)} ${TASKS[name]!.description}`).join("\n")}

The folder in which you start the server is its workspace, if TARE_WORKSPACE or --workspace names no other.`;

/** Runs a task with these arguments at this terminal, and resolves to its exit code. */
async function run(task: string, args: readonly string[]): Promise<number> {
  const child = new Deno.Command(Deno.execPath(), { args: [...denoArgs(task), ...args] }).spawn();
  pass = (signal) => child.kill(signal);
  return (await child.status).code;
}

/** Passes on a signal that this process alone is sent. */
let pass = (_signal: Deno.Signal) => {};

// The terminal's Ctrl-C reaches the program itself.
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
const isHelp = given === "--help" || given === "-h";
if (!isHelp && (given === undefined || given.startsWith("-")) && Deno.stdin.isTerminal()) {
  const code = await run("background", []);
  Deno.exit(code === 0 ? await run("chat", Deno.args) : code);
}
console.log(
  isHelp || given === undefined ? HELP : `Cannot do ${given}: there is no such command.\n\n${HELP}`,
);
Deno.exit(isHelp || given === undefined ? 0 : 2);

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
  "run",
  "wrap",
  "unwrap",
  "ask",
  "chat",
  "acp",
  "demo",
  "spend",
  "doctor",
  "history",
  "export",
  "import",
  "backup",
  "keys",
  "hooks",
  "move",
] as const;

const HELP = `Keeps long tool-using agents cheap without making them forget:

  tare COMMAND [--help]

${COMMANDS.map((name) => `  ${name.padEnd(7)} ${TASKS[name]!.description}`).join("\n")}

The folder in which you start the server is its workspace, if TARE_WORKSPACE or --workspace names no other.`;

const [given, ...args] = Deno.args;
const name = COMMANDS.find((name) => name === given);
if (name === undefined) {
  const isHelp = given === undefined || given === "--help" || given === "-h";
  console.log(isHelp ? HELP : `Cannot do ${given}: there is no such command.\n\n${HELP}`);
  Deno.exit(isHelp ? 0 : 2);
}
const child = new Deno.Command(Deno.execPath(), { args: [...denoArgs(name), ...args] }).spawn();
// The terminal's Ctrl-C reaches the program itself; what this one alone is sent it passes on.
if (Deno.build.os !== "windows") {
  Deno.addSignalListener("SIGINT", () => {});
  for (const signal of ["SIGTERM", "SIGHUP"] as const) {
    Deno.addSignalListener(signal, () => {
      try {
        child.kill(signal);
      } catch {
        // It has ended already.
      }
    });
  }
}
Deno.exit((await child.status).code);

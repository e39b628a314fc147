// An installed command is run without the project's configuration: nothing here may need its imports.
import { fileURLToPath } from "node:url";

type Tasks = Readonly<Record<string, { readonly description: string; readonly command: string }>>;

function tasksOf(config: string): Tasks {
  return JSON.parse(Deno.readTextFileSync(new URL(config, import.meta.url))).tasks;
}

/** The tasks of the project and of this package: what each does, and with which permissions. */
export const TASKS: Tasks = { ...tasksOf("../../deno.json"), ...tasksOf("deno.json") };

/** Returns the arguments with which Deno runs one of them, with its permissions and no others. */
export function denoArgs(task: string): readonly string[] {
  const [, ...flags] = TASKS[task]!.command.replace("cd ../.. && ", "").split(" ");
  const program = fileURLToPath(new URL(`../../${flags.pop()}`, import.meta.url));
  return [...flags, program];
}

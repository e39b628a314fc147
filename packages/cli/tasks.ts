// An installed command runs without the project's configuration, so it can't use the import map.
import { fileURLToPath } from "node:url";

type Tasks = Readonly<Record<string, { readonly description: string; readonly command: string }>>;

function tasksOf(config: string): Tasks {
  return JSON.parse(Deno.readTextFileSync(new URL(config, import.meta.url))).tasks;
}

export const TASKS: Tasks = { ...tasksOf("../../deno.json"), ...tasksOf("deno.json") };

/** Returns Deno's arguments for a task, with only that task's permissions. */
export function denoArgs(task: string): readonly string[] {
  const [, ...flags] = TASKS[task]!.command.replace("cd ../.. && ", "").split(" ");
  const program = fileURLToPath(new URL(`../../${flags.pop()}`, import.meta.url));
  return [...flags, program];
}

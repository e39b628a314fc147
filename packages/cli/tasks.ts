// An installed command is run without the project's configuration: nothing here may need its imports.
import { fileURLToPath } from "node:url";

/** The project's tasks: what each is, and with which permissions. */
export const { tasks: TASKS }: {
  readonly tasks: Readonly<Record<string, { readonly description: string; readonly command: string }>>;
} = JSON.parse(Deno.readTextFileSync(new URL("../../deno.json", import.meta.url)));

/** What Deno is told to run one of them, with the permissions that it has and no others. */
export function denoArgs(task: string): readonly string[] {
  const [, ...flags] = TASKS[task]!.command.split(" ");
  const program = fileURLToPath(new URL(`../../${flags.pop()}`, import.meta.url));
  return [...flags, program];
}

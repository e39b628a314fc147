import { dirname, join } from "@std/path";
import type { Done, Files, Made } from "./task.ts";

/** Writes files into a folder; those that are `null` are removed. */
export async function layFiles(
  folder: string,
  files: Readonly<Record<string, string | null>>,
): Promise<void> {
  for (const [path, text] of Object.entries(files)) {
    const at = join(folder, path);
    if (text === null) {
      await Deno.remove(at);
      continue;
    }
    await Deno.mkdir(dirname(at), { recursive: true });
    await Deno.writeTextFile(at, text);
  }
}

/** Creates a repository in a folder of its own, next to an agent's home, and removes both after `use`. */
export async function inFolder<T>(
  made: Made,
  use: (place: { readonly workspace: string; readonly home: string }) => Promise<T>,
): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "outcome-" });
  try {
    const [workspace, home] = [join(folder, "workspace"), join(folder, "home")];
    await Deno.mkdir(home);
    await layFiles(workspace, made.files);
    return await use({ workspace, home });
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

export async function deleteBefore(
  { deletes = {} }: Made,
  { at, workspace }: { readonly at: number; readonly workspace: string },
): Promise<void> {
  for (const path of deletes[at] ?? []) await Deno.remove(join(workspace, path));
}

async function filesIn(folder: string, within = ""): Promise<Files> {
  const files: Record<string, string> = {};
  for await (const { name, isDirectory } of Deno.readDir(join(folder, within))) {
    const path = within === "" ? name : `${within}/${name}`;
    if (isDirectory && !name.startsWith(".")) Object.assign(files, await filesIn(folder, path));
    else if (!isDirectory) files[path] = await Deno.readTextFile(join(folder, path));
  }
  return files;
}

/** Returns why a task isn't solved in a folder, after these answers; `undefined` if it is. */
export async function faultIn(
  folder: string,
  { made, answers }: { readonly made: Made; readonly answers: readonly string[] },
): Promise<string | undefined> {
  const done: Done = { files: await filesIn(folder), answers, run: (script) => failureOf(script, folder) };
  return await made.fault(done);
}

/** Runs a module that may only read the folder, and returns its error. */
async function failureOf(script: string, folder: string): Promise<string | undefined> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-prompt",
      "--no-config",
      "--no-lock",
      "--no-remote",
      "--no-npm",
      `--allow-read=${folder}`,
      "-",
    ],
    cwd: folder,
    env: { NO_COLOR: "1" },
    stdin: "piped",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const writer = child.stdin.getWriter();
  await writer.write(new TextEncoder().encode(script));
  await writer.close();
  const { success, stderr } = await child.output();
  return success ? undefined : new TextDecoder().decode(stderr).slice(0, 500);
}

/**
 * Workspaces with watched turns, and snapshots of them. Contains no tests.
 *
 * @module
 */
import { join } from "@std/path";
import { type Checkpoints, openCheckpoints } from "@tare/tools/undo";
import type { Tool } from "@tare/messages";
import { context } from "../fixture_test.ts";

/**
 * Returns the snapshot of a folder: for each path the permissions and content, the link's target, or that it
 * is a folder.
 */
export async function snapshot(root: string, base = ""): Promise<Readonly<Record<string, string>>> {
  const found: Record<string, string> = {};
  for await (const { name, isDirectory, isSymlink } of Deno.readDir(join(root, base))) {
    const path = `${base}${name}`;
    const absolute = join(root, path);
    if (isDirectory) Object.assign(found, { [path]: "folder" }, await snapshot(root, `${path}/`));
    else if (isSymlink) found[path] = `link ${await Deno.readLink(absolute)}`;
    else {
      const { mode } = await Deno.lstat(absolute);
      found[path] = `file ${((mode ?? 0) & 0o777).toString(8)} ${await Deno.readTextFile(absolute)}`;
    }
  }
  return found;
}

export function command(work: () => Promise<unknown>): Tool {
  return {
    definition: { type: "function", function: { name: "shell" } },
    async run() {
      await work();
      return "done";
    },
  };
}

export async function inTurn(
  checkpoints: Checkpoints,
  turn: number,
  work: () => Promise<unknown>,
  session = "one",
): Promise<void> {
  await checkpoints.watch(command(work), { session, turn }).run({}, context);
}

export function keep(
  { root, outside }: { readonly root: string; readonly outside: string },
  options: Partial<Parameters<typeof openCheckpoints>[0]> = {},
): Checkpoints {
  const onError = (error: unknown) => {
    throw error;
  };
  return openCheckpoints({ workspace: root, folder: join(outside, "undo"), onError, ...options });
}

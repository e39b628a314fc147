/**
 * Runs file tools with the server's permissions in a folder that another process swaps with a link, and
 * prints the results as JSON. Contains no tests.
 *
 * @module
 */
import { join } from "@std/path";
import type { Tool } from "@tare/messages";
import { workspaceTools } from "@tare/tools";
import { openCheckpoints } from "@tare/tools/undo";

export interface Outcome {
  readonly results: readonly string[];
  readonly refused: number;
}

if (import.meta.main) {
  const [workspace = "", own = "", what = "", times = ""] = Deno.args;
  const tools = workspaceTools({ workspace, hidden: own });
  const toolOf = (name: string) => tools.find(({ definition }) => definition.function.name === name)!;
  const context = { signal: new AbortController().signal, progress() {} };
  const results: string[] = [];
  let refused = 0;
  const call = async (name: string, args: Readonly<Record<string, unknown>>, id: number) => {
    const output = await toolOf(name).run(args, { ...context, callId: `call_${id}` });
    if (typeof output !== "string" && output.error) refused++;
    else results.push(typeof output === "string" ? output : output.content);
  };
  const actions: Readonly<Record<string, (id: number) => Promise<void>>> = {
    read: (id) => call("read_file", { path: "d/x" }, id),
    search: (id) => call("search_files", { pattern: "text", path: "d" }, id),
    list: (id) => call("list_files", { path: "d" }, id),
    write: (id) => call("write_file", { path: "d/x", content: `inside text ${id}\n` }, id),
    edit: (id) => call("edit_file", { path: "d/x", old_text: "text", new_text: `text ${id}` }, id),
    async undo(id) {
      const checkpoints = openCheckpoints({ workspace, folder: join(own, `undo-${id}`), hidden: own });
      const command: Tool = {
        definition: { type: "function", function: { name: "shell" } },
        async run() {
          await Deno.writeTextFile(join(workspace, "y"), `inside text of command ${id}\n`);
          return "";
        },
      };
      const watched = checkpoints.watch(command, { session: "one", turn: 1 });
      for (let round = 0; round < 4; round++) await watched.run({}, context);
      await checkpoints.undo("one", { force: true }).then(
        ({ files }) => results.push(JSON.stringify(files)),
        () => refused++,
      );
      await checkpoints.close();
    },
  };
  // A fast attacker may leave few calls that find the original folder.
  const mostCalls = 50 * Number(times);
  for (let id = 0; id < Number(times) || results.length === 0 && id < mostCalls; id++) {
    await actions[what]!(id);
  }
  await Deno.stdout.write(new TextEncoder().encode(JSON.stringify({ results, refused } satisfies Outcome)));
}

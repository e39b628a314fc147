import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import process from "node:process";
import { workspaceTools } from "@tare/tools";
import { openCheckpoints } from "@tare/tools/undo";
import { LINUX, needs } from "../needs.ts";

const FILES = 60_000;

/** Longest block of the event loop, in milliseconds. */
const MAX_BLOCKED_MS = 250;

/** Returns the longest delay of timers during `work`, without waiting for a processor. */
async function longestBlockMs(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  const read = () => ({ now: performance.now(), worked: process.cpuUsage().user / 1000 });
  let last = read();
  const timer = setInterval(() => {
    const next = read();
    longest = Math.max(longest, Math.min(next.now - last.now, next.worked - last.worked));
    last = next;
  }, 5);
  await work();
  // A block at the end shows in the next round.
  await new Promise((resolve) => setTimeout(resolve, 10));
  clearInterval(timer);
  return longest;
}

Deno.test(needs(LINUX, "large folder: any number of files blocks neither undo nor file tools"), async () => {
  const top = await Deno.realPath(await Deno.makeTempDir());
  const workspace = join(top, "workspace");
  await Deno.mkdir(join(workspace, "many"), { recursive: true });
  await new Deno.Command("sh", {
    args: ["-c", `seq -f "file%.0f" ${FILES} | xargs touch`],
    cwd: join(workspace, "many"),
  }).output();
  try {
    const context = { signal: new AbortController().signal, progress() {} };
    const checkpoints = openCheckpoints({ workspace, folder: join(top, "undo") });
    const shell = checkpoints.watch({
      definition: { type: "function", function: { name: "shell" } },
      async run() {
        await Deno.writeTextFile(join(workspace, "many/file1"), "changed");
        return "";
      },
    }, { session: "one", turn: 1 });
    const write = checkpoints.watch(
      workspaceTools({ workspace }).find(({ writes }) => writes)!,
      { session: "one", turn: 1 },
    );
    const undo = async () => {
      await shell.run({}, context);
      await write.run({ path: "many/new", content: "new" }, context);
      const { files, notCovered } = await checkpoints.undo("one");
      assertEquals(files, [{ path: "many/new", change: "deleted" }]);
      assertEquals(notCovered, [
        "shell: what it did outside of the workspace's files.",
        "Files that commands changed: the workspace isn't stored, because it holds more than 20000 files and folders.",
      ]);
      await checkpoints.close();
    };
    const list = workspaceTools({ workspace })[0]!;
    const blockedMs = [
      await longestBlockMs(undo),
      await longestBlockMs(async () => {
        const output = await list.run({ path: "many" }, context);
        assert(
          typeof output === "string" &&
            /^entries in many: more than 50000; .* folders with too many/.test(output),
          `${output}`.slice(0, 99),
        );
      }),
    ];
    assert(
      Math.max(...blockedMs) < MAX_BLOCKED_MS,
      `blocked for ${blockedMs.map(Math.round).join(" and ")} ms`,
    );
  } finally {
    await Deno.remove(top, { recursive: true });
  }
});

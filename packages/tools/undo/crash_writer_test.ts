// Program of crash_test.ts: restores files, runs a command or inspects a workspace until it is killed.
import { openCheckpoints } from "@tare/tools/undo";
import { command } from "./fixture_test.ts";

if (import.meta.main) {
  const [workspace = "", folder = "", what = ""] = Deno.args;
  const say = (text: string) => Deno.stdout.writeSync(new TextEncoder().encode(`${text}\n`));
  if (what === "inspect") {
    Object.assign(Deno, {
      readDir() {
        say("inspects");
        const next = () => new Promise(() => setInterval(() => {}, 1000));
        return { [Symbol.asyncIterator]: () => ({ next }) };
      },
    });
  }
  const checkpoints = openCheckpoints({ workspace, folder });
  if (what === "inspect") await checkpoints.close();
  else if (what === "undo") say((await checkpoints.undo("one")).notCovered.join("\n"));
  else {
    const hangs = command(async () => {
      await Deno.writeTextFile(`${workspace}/file0`, "command");
      say("written");
      await new Promise(() => setInterval(() => {}, 1000));
    });
    const context = { signal: new AbortController().signal, progress() {} };
    await checkpoints.watch(hangs, { session: "one", turn: 2 }).run({}, context);
  }
}

import { assert, assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl } from "@std/path";

const ROOT = fromFileUrl(new URL("../", import.meta.url));

/** Runs a task's command of `tests/apart/deno.json` in another folder, without a provider. */
async function runTask(task: string, args: readonly string[], folder: string) {
  const { tasks } = JSON.parse(await Deno.readTextFile(`${ROOT}tests/apart/deno.json`));
  const [deno, run, ...words]: string[] = tasks[task].command.replace("cd ../.. && ", "").split(" ");
  assertEquals([deno, run], ["deno", "run"]);
  const script = words.pop();
  const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--config", `${ROOT}deno.json`, ...words, `${ROOT}${script}`, "--name", "t", ...args],
    cwd: folder,
    env: {
      ...{ NO_COLOR: "1", OPENAI_API_KEY: "", OPENAI_BASE_URL: "", TARE_MODEL: "", TARE_PROFILE: "" },
      ...{ ANTHROPIC_API_KEY: "", ANTHROPIC_BASE_URL: "" },
    },
    stdin: "null",
  }).output();
  const [output, errors] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  return { code, output: output ?? "", errors: errors ?? "" };
}

Deno.test("experiments: they run with only their tasks' permissions, and report errors in a sentence", async () => {
  const cases: [task: string, args: string[], head: RegExp][] = [
    ["cache", ["--repeats", "1", "--tokens", "2000"], /^idle +still cached/],
    ["cache", ["--upgrade"], /^after +request/],
  ];
  for (const [task, args, head] of cases) {
    const folder = await Deno.makeTempDir();
    try {
      const { code, output, errors } = await runTask(task, args, folder);
      assertEquals(code, 0, errors);
      assertMatch(output, head);
      assertMatch(errors, /^No provider is configured: the simulator replies\./);
      const files = Array.from(Deno.readDirSync(`${folder}/.tare/measured`), ({ name }) => name);
      assert(files.includes("t.json"), files.join());
      const again = await runTask(task, [...args, "--budget", "0"], folder);
      // A repetition of finished work costs nothing.
      assertEquals([again.code, again.output], [0, output]);
      const refused = await runTask(task, ["--budget", "much"], folder);
      assertEquals([refused.code, refused.output], [1, ""]);
      assertMatch(refused.errors, /^Cannot start: --budget is "much", but it must be a number from 0\..*\n$/);
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  }
});

import { assertEquals } from "@std/assert";
import { context, makeWorkspace } from "../fixture_test.ts";
import { type CommandOptions, runCommand } from "./run_command.ts";

const PATH = "/usr/local/bin:/usr/bin:/bin";

async function run(command: string, options: Partial<CommandOptions> = {}) {
  await using ws = await makeWorkspace();
  const { output, status, ...outcome } = await runCommand(command, {
    cwd: ws.root,
    env: { PATH },
    timeoutMs: 60_000,
    maxOutputBytes: 1000,
    context,
    ...options,
  });
  return { ...outcome, code: status.code, text: output.text().text };
}

Deno.test("runCommand() gives the exit code and both outputs in order", async () => {
  assertEquals(await run("echo a; echo b >&2; echo c; exit 3"), {
    ending: "exited",
    leftProcesses: false,
    code: 3,
    text: "a\nb\nc\n",
  });
});

Deno.test("runCommand() reports a script that sh can't read as sh does", async () => {
  const { ending, code, text } = await run("echo 'open");
  assertEquals([ending, code === 0, text.length > 0], ["exited", false, true]);
});

Deno.test("runCommand() gives no input", async () => {
  assertEquals((await run("cat; echo done")).text, "done\n");
});

Deno.test("runCommand() reads on when the output is larger than what it keeps", async () => {
  const { code, text } = await run("head -c 5000000 /dev/zero | tr '\\0' x; echo end", {
    maxOutputBytes: 20,
  });
  assertEquals([code, text], [
    0,
    `${"x".repeat(10)}\n[… 4999984 bytes left out here …]\nxxxxxxend\n`,
  ]);
});

Deno.test("runCommand() does not wait for a process that left the group and holds the output", async () => {
  const { ending, text } = await run(
    "command -v setsid >/dev/null || exit; setsid sh -c 'echo $$ >pid; exec sleep 30' & " +
      "while ! [ -s pid ]; do sleep 0.01; done; cat pid",
  );
  assertEquals(ending, "exited");
  // `setsid` is not in POSIX; where it is missing there is nothing to end.
  if (text !== "") Deno.kill(Number(text), "SIGKILL");
});

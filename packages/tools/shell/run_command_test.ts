import { assertEquals, assertMatch } from "@std/assert";
import { context, makeWorkspace } from "../fixture_test.ts";
import { type CommandOptions, runShellCommand } from "./run_command.ts";
import { endLeftCommands } from "./shell_tool.ts";
import { LINUX, needs } from "../../../tests/needs.ts";

const PATH = "/usr/local/bin:/usr/bin:/bin";

async function run(command: string, options: Partial<CommandOptions> = {}) {
  await using ws = await makeWorkspace();
  const { output, status, ...outcome } = await runShellCommand(command, {
    cwd: ws.root,
    env: { PATH },
    timeoutMs: 60_000,
    maxOutputBytes: 1000,
    context,
    ...options,
  });
  return { ...outcome, code: status.code, text: output.text().text };
}

Deno.test("runShellCommand() returns the exit code and both outputs in order", async () => {
  assertEquals(await run("echo a; echo b >&2; echo c; exit 3"), {
    ending: "exited",
    leftProcesses: false,
    renamed: [],
    code: 3,
    text: "a\nb\nc\n",
  });
});

Deno.test("runShellCommand() reports a script that sh can't read as sh does", async () => {
  const { ending, code, text } = await run("echo 'open");
  assertEquals([ending, code === 0, text.length > 0], ["exited", false, true]);
});

Deno.test("runShellCommand() provides no input", async () => {
  assertEquals((await run("cat; echo done")).text, "done\n");
});

Deno.test("runShellCommand() continues reading when the output exceeds its buffer", async () => {
  const { code, text } = await run("head -c 5000000 /dev/zero | tr '\\0' x; echo end", {
    maxOutputBytes: 20,
  });
  assertEquals([code, text], [
    0,
    `${"x".repeat(10)}\n[… 4999984 bytes omitted …]\nxxxxxxend\n`,
  ]);
});

/** Leaves a process outside of the group that ignores SIGTERM, and prints its id. */
const STRAY = "setsid sh -c 'trap \"\" TERM; echo $$ >pid; while :; do sleep 0.05; done' & " +
  "while ! [ -s pid ]; do sleep 0.01; done; cat pid";

Deno.test(
  needs(
    LINUX,
    "runShellCommand() ends a process that left the group, and does not wait for it though it holds the output",
  ),
  async () => {
    const { ending, leftProcesses, text } = await run(STRAY);
    assertEquals([ending, leftProcesses], ["exited", true]);
    // Until init reaps it, it is a zombie.
    const stat = await Deno.readTextFile(`/proc/${text.trim()}/stat`).catch(() => "gone) Z");
    assertMatch(stat, /\) Z/);
  },
);

Deno.test(
  needs(LINUX, "endLeftCommands() ends what commands of its owner left running, and nothing of another"),
  async () => {
    const started = ["one", "two"].map((owner) =>
      new Deno.Command("/bin/sh", {
        args: ["-c", "echo; read -r _"],
        env: { TARE_COMMAND: `${owner}.id` },
        stdin: "piped",
        stdout: "piped",
      }).spawn()
    );
    // A starting process has no environment yet.
    for (const { stdout } of started) for await (const _ of stdout) break;
    assertEquals([await endLeftCommands("one"), await endLeftCommands("one")], [1, 0]);
    assertEquals((await started[0]!.status).signal, "SIGTERM");
    assertEquals(await endLeftCommands("two"), 1);
    await started[1]!.status;
    for (const { stdin } of started) await stdin.close();
  },
);

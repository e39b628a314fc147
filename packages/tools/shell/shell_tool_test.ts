import { assert, assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { shellTool } from "./shell_tool.ts";
import {
  abortOnProgress,
  call,
  callError,
  callOk,
  context,
  cutOff,
  makeWorkspace,
  type Workspace,
} from "../fixture_test.ts";

async function openPipe(ws: Workspace): Promise<{ readonly closed: Promise<void> }> {
  const { success } = await new Deno.Command("mkfifo", { args: [ws.at("alive")] }).output();
  assert(success);
  return {
    closed: Deno.open(ws.at("alive")).then(async (pipe) => {
      assertEquals(await new Response(pipe.readable).text(), "");
    }),
  };
}

Deno.test("shell runs a command in the workspace", async () => {
  await using ws = await makeWorkspace({ "a.txt": "hello\n" });
  const shell = shellTool({ workspace: ws.root });
  assertEquals(
    await callOk(shell, { command: "cat a.txt; pwd" }),
    `exit code 0; ${7 + ws.root.length} bytes of output\nhello\n${ws.root}\n`,
  );
  assertEquals(await callOk(shell, { command: "true" }), "exit code 0; no output");
});

Deno.test("shell reports a failed command as a result, not as an error of the tool", async () => {
  await using ws = await makeWorkspace();
  const shell = shellTool({ workspace: ws.root });
  assertEquals(
    await callOk(shell, { command: "echo oops >&2; exit 4" }),
    "exit code 4; 5 bytes of output\noops\n",
  );
  assertEquals(await callOk(shell, { command: "kill -9 $$" }), "ended by SIGKILL; no output");
});

Deno.test("shell returns and reports invalid UTF-8", async () => {
  await using ws = await makeWorkspace();
  assertEquals(
    await callOk(shellTool({ workspace: ws.root }), { command: "printf 'a\\377b'" }),
    "exit code 0; 3 bytes of output, invalid UTF-8 or NUL shown as \uFFFD\na\uFFFDb",
  );
});

Deno.test("shell returns the beginning and the end of long output", async () => {
  await using ws = await makeWorkspace();
  const shell = shellTool({ workspace: ws.root, maxOutputBytes: 10 });
  assertEquals(
    await callOk(shell, { command: "printf 1234567890abcdefghij" }),
    "exit code 0; 20 bytes of output\n12345\n[… 10 bytes omitted …]\nfghij",
  );
});

Deno.test("shell passes none of this process's environment", async () => {
  await using ws = await makeWorkspace();
  Deno.env.set("TARE_PLANTED_KEY", "secret");
  try {
    const env = await callOk(shellTool({ workspace: ws.root, env: { EXTRA: "1", LANG: "C" } }), {
      command: "env",
    });
    // Variables that sh adds differ between systems, the command's mark between calls.
    const lines = env.split("\n").slice(1).filter((line) =>
      /^(?!PWD=|OLDPWD=|SHLVL=|TARE_COMMAND=|_=).+/.test(line)
    )
      .sort();
    assertEquals(lines, [
      "EXTRA=1",
      `HOME=${ws.root}`,
      "LANG=C",
      "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      "TERM=dumb",
    ]);
  } finally {
    Deno.env.delete("TARE_PLANTED_KEY");
  }
});

Deno.test("shell reports output as progress", async () => {
  await using ws = await makeWorkspace();
  let signs = 0;
  let output = "";
  const watching = { ...context, progress: () => signs++, output: (text: string) => void (output += text) };
  await callOk(shellTool({ workspace: ws.root }), { command: "echo aä" }, watching);
  assertEquals([signs, output], [1, "aä\n"]);
});

Deno.test("shell stops the whole process group when the call is canceled", async () => {
  await using ws = await makeWorkspace();
  const pipe = await openPipe(ws);
  const command = "exec 3>alive; (sh -c 'sleep 1000; :'; :) & echo started; wait";
  assertEquals(
    await callError(shellTool({ workspace: ws.root }), { command }, abortOnProgress()),
    "Cannot finish the command: it was canceled; 8 bytes of output\nstarted\n",
  );
  await pipe.closed;
});

Deno.test("shell stops processes that ignore SIGTERM", async () => {
  await using ws = await makeWorkspace();
  const pipe = await openPipe(ws);
  const command = "trap '' TERM; exec 3>alive; echo started; while :; do sleep 0.05; done";
  await callError(shellTool({ workspace: ws.root }), { command }, abortOnProgress());
  await pipe.closed;
});

Deno.test("shell stops everything at its time limit, and returns the output until then", async () => {
  await using ws = await makeWorkspace();
  const pipe = await openPipe(ws);
  const shell = shellTool({ workspace: ws.root, timeoutMs: 60_000 });
  const command = "exec 3>alive; echo started; sleep 1000";
  const { content, timeoutMs } = await cutOff(shell, { command });
  assertEquals(
    content,
    `Cannot finish the command: its time limit of ${
      timeoutMs / 1000
    } s was over (timeout_ms may be up to 60000); ` +
      "8 bytes of output\nstarted\n",
  );
  await pipe.closed;
});

Deno.test("shell does not wait for background processes, and ends them", async () => {
  await using ws = await makeWorkspace();
  const pipe = await openPipe(ws);
  assertEquals(
    await callOk(shellTool({ workspace: ws.root }), { command: "exec 3>alive; sleep 1000 & echo started" }),
    "exit code 0 (background processes were ended); 8 bytes of output\nstarted\n",
  );
  await pipe.closed;
});

Deno.test("shell rejects commands that can't be run", async () => {
  await using ws = await makeWorkspace();
  const shell = shellTool({ workspace: ws.root });
  assertEquals(
    await callError(shell, { command: "echo a\0b" }),
    "Cannot run the command: it contains a NUL character.",
  );
  assertMatch(
    await callError(shell, { command: `: ${"x".repeat(3_000_000)}` }),
    /^Cannot run the command: .*longer/,
  );
  assertMatch(
    await callError(shellTool({ workspace: ws.at("gone") }), { command: "true" }),
    /^Cannot run the command: the workspace folder itself/,
  );
});

Deno.test("shell runs nothing once the call is aborted", async () => {
  await using ws = await makeWorkspace();
  const signal = AbortSignal.abort();
  const run = call(shellTool({ workspace: ws.root }), { command: "touch ran" }, { ...context, signal });
  await assertRejects(() => run, DOMException);
  assertEquals([...Deno.readDirSync(ws.root)], []);
});

Deno.test("shell starts in a workspace that is a link", async () => {
  await using ws = await makeWorkspace();
  const alias = join(ws.outside, "alias");
  await Deno.symlink(ws.root, alias);
  assertStringIncludes(await callOk(shellTool({ workspace: alias }), { command: "pwd" }), ws.root);
});

Deno.test("shellTool() declares its stance and limits", () => {
  const { stance, timeoutMs, definition } = shellTool({
    workspace: "/",
    timeoutMs: 20_000,
    maxOutputBytes: 2048,
  });
  assertEquals([stance, timeoutMs], ["once", 25_000]);
  assertStringIncludes(
    definition.function.description ?? "",
    "independent inspections in one script",
  );
  assertStringIncludes(definition.function.description ?? "", "over 2 KiB");
  assertStringIncludes(definition.function.description ?? "", "Stopped after 20 s");
});

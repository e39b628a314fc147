import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { abortOnProgress, call, callOk, makeWorkspace } from "../fixture_test.ts";
import { clearWorkspaces } from "./guard.ts";
import { shellTool } from "../shell/shell_tool.ts";
import { sandboxOf } from "./sandbox_fixture_test.ts";
import { BUBBLEWRAP, needs } from "../../../tests/needs.ts";

async function shellIn(root: string) {
  const sandbox = await sandboxOf(root);
  if ("why" in sandbox) throw new Error(sandbox.why);
  return shellTool({ workspace: root, sandbox, env: { PATH: "/usr/local/bin:/usr/bin:/bin" } });
}

Deno.test(needs(BUBBLEWRAP, "shell in a sandbox works in the workspace as without one"), async () => {
  await using ws = await makeWorkspace({ "a.txt": "hello\n" });
  const shell = await shellIn(ws.root);
  assertEquals(
    await callOk(shell, { command: "cat a.txt; echo b >b.txt; echo c >&2; exit 3" }),
    "exit code 3; 8 bytes of output\nhello\nc\n",
  );
  assertEquals(await Deno.readTextFile(ws.at("b.txt")), "b\n");
  assertEquals(
    await callOk(shell, { command: "echo x >/tmp/x; cat /tmp/x; printf %s $HOME" }),
    [
      `exit code 0; ${2 + ws.root.length} bytes of output`,
      "x",
      ws.root,
    ].join("\n"),
  );
  assertMatch(await callOk(shell, { command: "cat /tmp/x" }), /^exit code 1/);
});

Deno.test(
  needs(BUBBLEWRAP, "shell in a sandbox stops a command when it is canceled or times out"),
  async () => {
    await using ws = await makeWorkspace();
    const shell = await shellIn(ws.root);
    const command = "trap '' TERM; echo a; while :; do sleep 0.05; done";
    assertEquals(await call(shell, { command }, abortOnProgress()), {
      content: "Cannot finish the command: it was canceled; 2 bytes of output\na\n",
      error: true,
    });
    const { content } = await call(shell, { command, timeout_ms: 500 });
    assertStringIncludes(content, "its time limit of 0.5 s was over");
  },
);

Deno.test(
  needs(BUBBLEWRAP, "shell in a sandbox creates no repository, and removes the temporary .git"),
  async () => {
    await using ws = await makeWorkspace();
    const shell = await shellIn(ws.root);
    const commands = [
      "mkdir .git/hooks",
      "rmdir .git",
      "mv .git other",
      "rm -rf .git; mkdir .git && echo won",
    ];
    const results = await Promise.all(commands.map((command) => callOk(shell, { command })));
    assertEquals(results.map((result) => result.startsWith("exit code 1;")), commands.map(() => true));
    clearWorkspaces();
    assertEquals(await Array.fromAsync(Deno.readDir(ws.root)), []);
    await Deno.symlink(ws.outside, ws.at(".git"));
    assertStringIncludes((await call(shell, { command: "true" })).content, "the workspace's .git is a link");
  },
);

Deno.test(needs(BUBBLEWRAP, "shell in a sandbox works in a folder that can't be changed"), async () => {
  const shell = await shellIn("/sys/kernel");
  assertEquals(
    await callOk(shell, { command: "pwd; mkdir .git 2>/dev/null || echo none" }),
    "exit code 0; 17 bytes of output\n/sys/kernel\nnone\n",
  );
});

Deno.test(needs(BUBBLEWRAP, "findSandbox() returns the reason if there is none"), async () => {
  await using ws = await makeWorkspace({ "home/project/": "" });
  const home = ws.at("home");
  for (const workspace of [home, ws.root, "/", "/usr"]) {
    const found = await sandboxOf(workspace, { home });
    assertMatch("why" in found ? found.why : "", /is the home folder or contains what a sandbox must hide$/);
  }
  const project = join(home, "project");
  assertEquals(await sandboxOf(project, { home, path: ws.root }), {
    why: "bubblewrap (bwrap) is not installed",
  });
  const tryOut = () => Promise.resolve("bwrap: No permissions\n");
  assertEquals(await sandboxOf(project, { home, tryOut }), {
    why: "bwrap fails here: bwrap: No permissions",
  });
});

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { dirname, join } from "@std/path";
import { workspaceTools } from "@tare/tools";
import { clearWorkspaces, isProtected } from "@tare/tools/internal";
import { BackgroundCommands } from "@tare/tools/shell";
import { sandboxOf } from "../../packages/tools/sandbox/sandbox_fixture_test.ts";
import fc, { cases } from "../cases.ts";
import { BUBBLEWRAP, GIT, needs } from "../needs.ts";

async function sandboxedWorkspace(files: Readonly<Record<string, string>> = {}) {
  const root = await Deno.realPath(await Deno.makeTempDir());
  for (const [path, text] of Object.entries(files)) {
    await Deno.mkdir(join(root, dirname(path)), { recursive: true });
    await Deno.writeTextFile(join(root, path), text);
  }
  const sandbox = await sandboxOf(root);
  if ("why" in sandbox) throw new Error(sandbox.why);
  const background = new BackgroundCommands();
  const env = { PATH: "/usr/local/bin:/usr/bin:/bin" };
  const tools = workspaceTools({ workspace: root, shell: { sandbox, background, env } });
  const call = async (name: string, args: Record<string, unknown>) => {
    const tool = tools.find(({ definition }) => definition.function.name === name)!;
    const signal = new AbortController().signal;
    const output = await tool.run(args, { signal, progress() {}, session: "s" });
    return typeof output === "string" ? output : String(output.content);
  };
  return {
    root,
    call,
    shell: (command: string) => call("shell", { command }),
    text: (path: string) => Deno.readTextFile(join(root, path)),
    isThere: (path: string) => Deno.lstat(join(root, path)).then(() => true, () => false),
    async [Symbol.asyncDispose]() {
      await background.close();
      clearWorkspaces();
      await Deno.remove(root, { recursive: true });
    },
  };
}

const NAMES = [
  ...[".envrc", "AGENTS.md", "CLAUDE.md", "GEMINI.md", ".mcp.json", ".npmrc", ".cursorrules", ".gitmodules"],
  ...[".vscode/tasks.json", ".claude/settings.json", ".husky/pre-commit", ".idea/run.xml", ".git/config"],
];

const folders = fc.array(fc.constantFrom("a", "b c", "packages", "ä"), { maxLength: 4 });
const paths = fc.uniqueArray(
  fc.tuple(folders, fc.constantFrom(...NAMES)).map(([folders, name]) => [...folders, name].join("/")),
  { minLength: 1, maxLength: 6 },
).map((paths) => paths.filter((path) => path !== ".git/config"));

Deno.test(
  needs(BUBBLEWRAP, "protected paths: a command changes none that exists, whatever its depth"),
  async () => {
    await fc.assert(
      fc.asyncProperty(paths, async (paths) => {
        await using workspace = await sandboxedWorkspace(
          Object.fromEntries(paths.map((path) => [path, "user's"])),
        );
        const attacks = paths.flatMap((path) => [
          `echo evil >'${path}'`,
          `rm -f '${path}'`,
          `mv '${path}' other`,
          `d='${
            path.split("/")[0]
          }'; mv "$d" moved && mkdir -p "$(dirname '${path}')" && echo evil >'${path}'`,
        ]);
        await workspace.shell(attacks.map((attack) => `(${attack})`).join("\n"));
        for (const path of paths) {
          assert(isProtected(path));
          assertEquals(await workspace.text(path), "user's", path);
        }
      }),
      { numRuns: cases(10) },
    );
  },
);

Deno.test(
  needs(BUBBLEWRAP, "protected paths: one that a command makes is renamed, named and not lost"),
  async () => {
    await fc.assert(
      fc.asyncProperty(paths, async (paths) => {
        await using workspace = await sandboxedWorkspace({ "src/a.ts": "" });
        const made = paths.map((path) => `mkdir -p "$(dirname '${path}')"; echo evil >'${path}'`);
        // A folder's owner can rename in it, whatever its permissions.
        made.push(...paths.map((path) => `chmod 500 "$(dirname '${path}')"`));
        const result = await workspace.shell(made.join("\n"));
        for (const path of paths) {
          assertEquals(await workspace.isThere(path), false, path);
          const parts = path.split("/");
          const at = parts.findIndex((part) => isProtected(part));
          assertStringIncludes(
            result,
            `${join(workspace.root, ...parts.slice(0, at + 1))} was renamed to ${parts[at]}.blocked-`,
          );
        }
        const files: string[] = [];
        const walk = async (folder: string) => {
          for await (const { name, isDirectory } of Deno.readDir(folder)) {
            if (isDirectory) await walk(join(folder, name));
            else files.push(await Deno.readTextFile(join(folder, name)));
          }
        };
        await walk(workspace.root);
        assertEquals(files.filter((text) => text === "evil\n").length, paths.length);
      }),
      { numRuns: cases(10) },
    );
  },
);

Deno.test(
  needs(BUBBLEWRAP, "protected paths: a link is not led elsewhere, and a background command is watched"),
  async () => {
    await using workspace = await sandboxedWorkspace({ "AGENTS.md": "user's", "docs/x": "" });
    await Deno.symlink("AGENTS.md", join(workspace.root, "CLAUDE.md"));
    const result = await workspace.shell("echo evil >evil; ln -sfn evil CLAUDE.md; echo evil >>AGENTS.md");
    assertStringIncludes(result, "CLAUDE.md was renamed to CLAUDE.md.blocked-");
    assertEquals(await workspace.text("AGENTS.md"), "user's");

    const command = "echo evil >docs/.envrc; while [ -e docs/.envrc ]; do sleep 0.05; done; echo gone";
    const [name] = /bg_\w+/.exec(await workspace.call("shell", { command, background: true })) ?? [];
    const args = { name, wait_ms: 60_000, until: "gone" };
    assertStringIncludes(await workspace.call("background", args), "gone");
    // Content that the user has approved stays.
    await workspace.call("shell", { command: "sleep 1000", background: true });
    await workspace.call("write_file", { path: "src/.envrc", content: "approved" });
    await workspace.shell("true");
    assertEquals(await workspace.text("src/.envrc"), "approved");
  },
);

Deno.test(
  needs(
    [BUBBLEWRAP, GIT],
    "protected paths: no command makes a folder a repository that the user's git obeys",
  ),
  async () => {
    await using workspace = await sandboxedWorkspace({
      "src/a.ts": "",
      "bare/HEAD": "ref: refs/heads/main\n",
    });
    const { root } = workspace;
    const evil =
      `[core]\\n\\trepositoryformatversion = 0\\n\\tbare = false\\n\\tworktree = ${root}\\n\\tfsmonitor = \\"echo won >>${root}/won; false\\"\\n`;
    for (const folder of [".", "src", "new"]) {
      await workspace.shell(
        `mkdir -p ${folder} && cd ${folder} && mkdir -p objects refs && echo 'ref: refs/heads/main' >HEAD && printf "${evil}" >config`,
      );
      const { stderr } = await new Deno.Command("git", {
        args: ["status"],
        cwd: join(root, folder),
        stdout: "null",
      }).output();
      assertStringIncludes(new TextDecoder().decode(stderr), "not a git repository");
    }
    assertEquals(await workspace.isThere("won"), false);
    await Deno.mkdir(join(root, "sub"));
    await Deno.writeTextFile(join(root, "sub/.git"), "gitdir: ../src\n");
    await workspace.shell(`echo "gitdir: ${root}/new" >sub/.git`);
    assertEquals(await workspace.text("sub/.git"), "gitdir: ../src\n");
  },
);

Deno.test(
  needs(BUBBLEWRAP, "sandbox: no user namespace, no setuid bit, and nothing hidden on its command line"),
  async () => {
    await using workspace = await sandboxedWorkspace({ secret: "s" });
    const hidden = await Deno.realPath(await Deno.makeTempDir({ dir: "/var/tmp" }));
    const sandbox = await sandboxOf(workspace.root, {
      hiddenFolders: [hidden],
      hiddenFiles: [join(workspace.root, "secret")],
    });
    if ("why" in sandbox) throw new Error(sandbox.why);
    const [shell] = workspaceTools({ workspace: workspace.root, shell: { sandbox } })
      .filter(({ definition }) => definition.function.name === "shell");
    const run = async (command: string) => {
      const signal = new AbortController().signal;
      const output = await shell!.run({ command }, { signal, progress() {} });
      return typeof output === "string" ? output : String(output.content);
    };
    assertStringIncludes(
      await run("unshare -U true && echo won; unshare -Ur true && echo won; echo done"),
      "done",
    );
    assertEquals((await run("unshare -U true && echo won")).includes("won"), false);
    const commandLine = await run("tr '\\0' '\\n' </proc/1/cmdline; ls -l /proc/self/fd");
    assertEquals([hidden, "secret"].filter((path) => commandLine.includes(path)), []);
    // No pipe of the sandbox's creation is left.
    assertEquals(/socket:/.test(commandLine), false, commandLine);
    await run(
      "touch a b; chmod 4755 a; chmod u+s b; install -m 6755 /bin/true c; mkdir d; chmod 2777 d; cp -p /usr/bin/passwd e; " +
        '(umask 0; python3 -c \'import os; os.open("f", os.O_CREAT | os.O_WRONLY, 0o4777); os.mknod("g", 0o104755)\')',
    );
    const modes: string[] = [];
    for await (const { name } of Deno.readDir(workspace.root)) {
      const { mode } = await Deno.lstat(join(workspace.root, name));
      if ((mode! & 0o6000) !== 0) modes.push(name);
    }
    assertEquals(modes, []);
    await Deno.remove(hidden);
  },
);

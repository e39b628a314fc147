import { assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { ownerOf } from "../../../tests/crash/owner.ts";
import { startProcess } from "../server_process_fixture_test.ts";

const PROGRAM = fromFileUrl(new URL("prompt.ts", import.meta.url));

/** Returns Deno's cache folder, which is empty under another home folder. */
async function denoDir(): Promise<string> {
  const { stdout } = await new Deno.Command(Deno.execPath(), { args: ["info", "--json"] }).output();
  return JSON.parse(new TextDecoder().decode(stdout)).denoDir;
}

async function prompt(args: readonly string[], env: Readonly<Record<string, string>>) {
  const command = new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--allow-read", "--allow-run", "--allow-env", PROGRAM, ...args],
    env: { PATH: Deno.env.get("PATH") ?? "", NO_COLOR: "1", ...env },
    clearEnv: true,
  });
  const { code, stdout, stderr } = await command.output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

Deno.test("tare prompt shows the start of a session's prompt in a folder, and later changes of files are appended", async () => {
  const top = await Deno.realPath(await Deno.makeTempDir());
  const home = join(top, "ann");
  const workspace = join(home, "repo", "w");
  const data = join(top, "data");
  const skills = [join(home, ".claude/skills"), join(workspace, ".agents/skills")];
  const mine = join(skills[0]!, "mine");
  for (const folder of [join(home, "repo/.git"), join(top, "dotfiles"), mine, join(skills[1]!, "theirs")]) {
    await Deno.mkdir(folder, { recursive: true });
  }
  await Deno.writeTextFile(join(home, "repo/.git/HEAD"), "ref: refs/heads/main\n");
  await Deno.writeTextFile(join(home, "repo/AGENTS.md"), "Above the workspace.");
  await Deno.writeTextFile(join(workspace, "AGENTS.md"), "In the workspace.");
  await Deno.writeTextFile(join(top, "dotfiles/mine"), "Personal instructions.");
  await Deno.symlink(join(top, "dotfiles/mine"), join(home, ".claude/CLAUDE.md"));
  for (const name of ["mine", "theirs"]) {
    const path = join(skills[name === "mine" ? 0 : 1]!, name, "SKILL.md");
    await Deno.writeTextFile(path, `---\ndescription: Skill of ${name}\n---\n`);
  }
  const file = join(top, "instructions.md");
  await Deno.writeTextFile(file, "You are brief.\n");

  const env = { HOME: home, DENO_DIR: await denoDir() };
  const settings = ["--workspace", workspace, "--data", data, "--instructions", file];
  const server = await startProcess(["--port", "0", ...settings], env);
  const headers = { ...ownerOf(data), "content-type": "application/json" };
  const ask = async (method: string, path: string, body?: unknown) => {
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) };
    return await (await fetch(`${server.url}${path}`, init)).text();
  };
  const path = `/tare/v1/sessions/${JSON.parse(await ask("POST", "/tare/v1/sessions", {})).id}`;
  const messages = async (): Promise<{ role: string; content: string }[]> =>
    (await ask("GET", `${path}/export`)).trimEnd().split("\n").map((line) => JSON.parse(line));
  const [system] = await messages();
  const visible = await prompt(settings, env);
  assertEquals([visible.code, visible.err], [0, ""]);
  assertStringIncludes(visible.out, `${system!.content}\n\n`);
  for (
    const part of [
      "You are brief.",
      "Personal instructions.",
      "Above the",
      "In the workspace.",
      "branch main",
      "- mine: Skill of mine",
      "- theirs: Skill of theirs",
    ]
  ) {
    assertStringIncludes(system!.content, part);
  }
  const rows = visible.out.slice(system!.content.length).trim().split("\n").map((row) => row.split(/ {2,}/));
  assertEquals(rows.map(([part]) => part), [
    "part",
    file,
    join(home, ".claude/CLAUDE.md"),
    join(home, "repo/AGENTS.md"),
    join(workspace, "AGENTS.md"),
    ...skills,
    "environment",
    "whole message",
    "11 tools",
  ]);

  await Deno.writeTextFile(join(home, "repo/AGENTS.md"), "Other words.");
  await ask("POST", `${path}/turns`, { input: "Which files are there?" });
  const [first, changed, requests] = await messages();
  assertEquals(first, system);
  assertEquals(changed!.role, "system");
  assertStringIncludes(changed!.content, 'repo/AGENTS.md">\nOther words.\n</file>');
  assertEquals(requests, { role: "user", content: "Which files are there?" });
  assertEquals((await server.end("SIGTERM")).code, 0);
  await Deno.remove(top, { recursive: true });
});

Deno.test("tare prompt reports invalid settings", async () => {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "x".repeat(2 ** 16 + 1));
  const env = { HOME: Deno.env.get("HOME") ?? "" };
  const missing = await prompt(["--instructions", `${file}.none`], env);
  assertEquals([missing.code, missing.out], [1, ""]);
  assertStringIncludes(missing.err, "It must be a file that exists.");
  const long = await prompt(["--instructions", file], env);
  assertEquals(long.code, 1);
  assertStringIncludes(long.err, "they have 65537 characters, and the limit is 65536. File: ");
  assertEquals((await prompt(["--help"], env)).code, 0);
  await Deno.remove(file);
});

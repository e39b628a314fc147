import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";

const PROGRAM = fromFileUrl(new URL("../../packages/cli/tare.ts", import.meta.url));

/** Runs a command in a folder, without settings of this environment. */
async function run([program = "", ...args]: readonly string[], cwd: string) {
  const env = { NO_COLOR: "1", TARE_HOST: "", TARE_PORT: "1", TARE_TOKEN: "", INIT_CWD: "" };
  const { code, stdout, stderr } = await new Deno.Command(program, { args, cwd, env }).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

Deno.test("tare: an installed command works in the current folder", async () => {
  const root = await Deno.makeTempDir();
  const workspace = join(root, "workspace");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, "a.ts"), "const a = 1;\n");
  const install = ["install", "--global", "--root", root, "--allow-all", "--name", "tare", PROGRAM];
  assertEquals((await run([Deno.execPath(), ...install], root)).code, 0);
  const installed = join(root, "bin", Deno.build.os === "windows" ? "tare.cmd" : "tare");
  // The installed program is compiled separately; coverage counts the lines of this one.
  const tare = [Deno.execPath(), "run", "--allow-all", PROGRAM];

  const demo = await run([installed, "demo"], workspace);
  assertEquals(demo.code, 0, demo.err);
  assertStringIncludes(demo.out, `about ${await Deno.realPath(workspace)}, played three times`);
  const start = await run([...tare, "start", "--port", "x"], workspace);
  assertEquals([start.code, start.err], [
    1,
    'Cannot start: --port is "x". It must be a whole number from 0 to 65535.\n',
  ]);
  for (
    const command of [
      "wrap",
      "unwrap",
      "ask",
      "chat",
      "stop",
      "page",
      "settings",
      "acp",
      "spend",
      "doctor",
      "prompt",
      "history",
      "export",
      "import",
      "backup",
      "move",
    ]
  ) {
    const { code, out, err } = await run([...tare, command, "--help"], workspace);
    assertEquals(code, 0, err);
    assertMatch(out + err, new RegExp(`(deno task|tare) ${command}\\b`));
  }
  assertMatch(
    (await run([...tare, "ask", "Hello?"], workspace)).err,
    /^Cannot reach the server at .*:1\. Start it/,
  );
  assertMatch(
    (await run(tare, workspace)).out,
    /\n {2}tare COMMAND \[--help\]\n[^]*\n {2}chat {5}Chat with/,
  );
  const unknown = await run([...tare, "fly"], workspace);
  assertEquals([unknown.code, unknown.out.split("\n")[0]], [2, "Cannot run fly: there is no such command."]);
  await Deno.remove(root, { recursive: true });
});

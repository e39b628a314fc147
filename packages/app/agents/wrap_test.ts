import { assertEquals, assertStringIncludes } from "@std/assert";
import { newMachine } from "./agents_fixture_test.ts";

const SETTINGS =
  '{\r\n\t// mine\r\n\t"model": "opus",\r\n\t"env": { "ANTHROPIC_BASE_URL": "https://mine" }, \r\n}';

const CONFIG = '\ufeffmodel = "gpt-5.5"\n\n[analytics]\nenabled = false # never\n';

const ours = { ANTHROPIC_BASE_URL: "http://127.0.0.1:8787" };

Deno.test("tare wrap writes into an agent's configuration, and tare unwrap makes it what it was, byte for byte", async () => {
  await using machine = await newMachine();
  await machine.write(".claude/settings.json", SETTINGS);
  await machine.write(".codex/config.toml", CONFIG);
  const claude = await machine.run("wrap", ["claude", "--yes"]);
  assertEquals([claude.code, claude.err], [0, ""]);
  assertStringIncludes(
    await machine.read(".claude/settings.json"),
    `"ANTHROPIC_BASE_URL": "${ours.ANTHROPIC_BASE_URL}"`,
  );
  assertStringIncludes(await machine.read(".claude/settings.json"), "\t// mine\r\n");
  for (const name of ["codex", "opencode", "pi", "kilo"]) {
    assertEquals((await machine.run("wrap", [name, "--yes"])).err, "");
  }
  assertEquals(
    await machine.read(".codex/config.toml"),
    `\ufeffopenai_base_url = "http://127.0.0.1:8787/v1"\n${CONFIG.slice(1)}`,
  );
  assertEquals(JSON.parse(await machine.read(".pi/agent/models.json")), {
    providers: {
      openai: { baseUrl: "http://127.0.0.1:8787/v1" },
      anthropic: { baseUrl: "http://127.0.0.1:8787" },
    },
  });
  assertEquals(
    (await machine.run("wrap", ["claude", "--yes"])).err,
    `Cannot wrap claude: it is already, in ${machine.home}/.claude/settings.json. tare unwrap claude undoes it.\n`,
  );
  const { code, err } = await machine.run("unwrap", ["--yes"]);
  assertEquals([code, err], [0, ""]);
  assertEquals(await machine.read(".claude/settings.json"), SETTINGS);
  assertEquals(
    new TextDecoder("utf-8", { ignoreBOM: true }).decode(
      await Deno.readFile(`${machine.home}/.codex/config.toml`),
    ),
    CONFIG,
  );
  // What wasn't there is gone again, folders included.
  const left = (await Array.fromAsync(Deno.readDir(machine.home))).map(({ name }) => name).sort();
  assertEquals(left, [".claude", ".codex", "a", "b", "bin", "data"]);
  assertEquals((await machine.run("unwrap", [])).out, "No agent is wrapped.\n");
});

Deno.test("tare unwrap takes only what Tare has written out of a file that was changed since", async () => {
  await using machine = await newMachine();
  await machine.write(".claude/settings.json", SETTINGS);
  await machine.run("wrap", ["claude", "--yes"]);
  await machine.run("wrap", ["pi", "--yes"]);
  const change = async (path: string, from: string, to: string) =>
    await machine.write(path, (await machine.read(path)).replace(from, to));
  await change(".claude/settings.json", '"opus"', '"sonnet"');
  await change(".claude/settings.json", '"ENABLE_TOOL_SEARCH": "true"', '"ENABLE_TOOL_SEARCH": "auto"');
  await change(".pi/agent/models.json", '"anthropic": {', '"own": { "baseUrl": "x" }, "anthropic": {');
  const { out, err } = await machine.run("unwrap", ["--yes"]);
  assertEquals(err, "");
  assertStringIncludes(out, "It was changed since: only what Tare has written goes.\n");
  assertEquals(
    await machine.read(".claude/settings.json"),
    [
      "{",
      "\t// mine",
      '\t"model": "sonnet",',
      '\t"env": {',
      '\t\t"ANTHROPIC_BASE_URL": "https://mine",',
      '\t\t"ENABLE_TOOL_SEARCH": "auto"',
      "\t},",
      "}",
    ].join("\r\n"),
  );
  assertEquals(JSON.parse(await machine.read(".pi/agent/models.json")), {
    providers: { own: { baseUrl: "x" } },
  });
});

Deno.test("tare wrap and unwrap ask, and say what is wrong", async () => {
  await using machine = await newMachine();
  const said = async (command: string, ...args: string[]) => (await machine.run(command, args)).err;
  assertEquals(
    await said("wrap", "pi"),
    "Cannot ask whether to write this: there is no terminal. --yes says so.\n",
  );
  assertEquals(
    await said("wrap", "emacs"),
    "Cannot wrap emacs: there are claude, codex, opencode, kilo, pi.\n",
  );
  assertEquals(
    await said("wrap", "qwen"),
    "Cannot wrap qwen: Qwen Code has no file for it; tare run qwen starts it behind Tare.\n",
  );
  assertEquals(await said("unwrap", "pi"), "Cannot unwrap pi: nothing was written into its configuration.\n");
  await machine.write(".claude/settings.json", '{\n  "env": {\n');
  assertEquals(
    await said("wrap", "claude", "--yes"),
    `Cannot change ${machine.home}/.claude/settings.json: it is no object in JSON (line 3). Mend it, and try again.\n`,
  );
  await machine.write(".claude/settings.json", "{}");
  await machine.run("wrap", ["claude", "--yes"]);
  await machine.write(".claude/settings.json", "{");
  assertStringIncludes(
    await said("unwrap", "--yes"),
    `What it said before stands in ${machine.home}/data/tare/wrapped/claude.json`,
  );
  await Deno.remove(`${machine.home}/.claude/settings.json`);
  assertStringIncludes((await machine.run("unwrap", ["--yes"])).out, "It was deleted since, and stays so.");
});

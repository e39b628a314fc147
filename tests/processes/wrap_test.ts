import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { newMachine } from "./agents_fixture.ts";
import { needs, NOT_WINDOWS } from "../needs.ts";

const SETTINGS =
  '{\r\n\t// mine\r\n\t"model": "opus",\r\n\t"env": { "ANTHROPIC_BASE_URL": "https://mine" }, \r\n}';

const CONFIG = '\ufeffmodel = "gpt-5.5"\n\n[analytics]\nenabled = false # never\n';

/** A free port: a server there would be asked where it forwards to. */
const PORT = freePort();
const BEHIND = `http://127.0.0.1:${PORT}`;

const ours = { ANTHROPIC_BASE_URL: BEHIND };

Deno.test("tare wrap changes an agent's configuration, and tare unwrap restores it byte for byte", async () => {
  await using machine = await newMachine({ TARE_PORT: PORT });
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
    `\ufeffopenai_base_url = "${BEHIND}/v1"\n${CONFIG.slice(1)}`,
  );
  assertEquals(JSON.parse(await machine.read(".pi/agent/models.json")), {
    providers: {
      openai: { baseUrl: `${BEHIND}/v1` },
      anthropic: { baseUrl: BEHIND },
    },
  });
  assertEquals(
    (await machine.run("wrap", ["claude", "--yes"])).err,
    `Cannot wrap claude: it is already wrapped, in ${machine.home}/.claude/settings.json. Run tare unwrap claude first.\n`,
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
  // Created files and folders are removed.
  const left = (await Array.fromAsync(Deno.readDir(machine.home))).map(({ name }) => name).sort();
  assertEquals(left, [".claude", ".codex", "a", "b", "bin"]);
  assertEquals((await machine.run("unwrap", [])).out, "No agent is wrapped.\n");
});

Deno.test({
  ...needs(
    NOT_WINDOWS,
    "tare unwrap lists servers' data, and removes it with --data once none runs",
  ),
  async fn() {
    await using machine = await newMachine({ TARE_PORT: PORT });
    await machine.run("wrap", ["claude", "--yes"]);
    await machine.run("wrap", ["pi", "--yes"]);
    const server = await startProcess([], { ...machine.env, INIT_CWD: `${machine.home}/a` });
    const [data] =
      (await machine.run("unwrap", ["--yes"])).out.match(/\S+\/data\/tare\/a-\w+(?= {2}\d+\.\d MB\n)/) ?? [];
    assert(data !== undefined);
    const removal = await machine.run("unwrap", ["--data", "--yes"]);
    assertEquals(removal.err, `Cannot remove ${data}: its server runs at ${server.url}. Stop it first.\n`);
    await server.end("SIGTERM");
    assertStringIncludes((await machine.run("unwrap", [])).out, "tare unwrap --data removes them:\n");
    assertEquals(
      (await machine.run("unwrap", ["--data"])).err,
      "Cannot ask for confirmation: there is no terminal. Use --yes.\n",
    );
    assertEquals(
      (await machine.run("unwrap", ["pi", "--data"])).err,
      "Cannot remove the data of one agent: --data removes all data. Omit AGENT.\n",
    );
    await machine.run("unwrap", ["--data", "--yes"]);
    const left = (await Array.fromAsync(Deno.readDir(`${machine.home}/data`))).map(({ name }) => name);
    assertEquals(left, []);
  },
});

/** Configurations as written by Cline, Continue and users. */
const CLINE = JSON.stringify(
  {
    version: 1,
    providers: {
      anthropic: { settings: { provider: "anthropic", apiKey: "key" } },
      "openai-compatible": { settings: { provider: "openai-compatible", baseUrl: "https://elsewhere/v1" } },
    },
  },
  undefined,
  2,
);
const CONTINUE = [
  "# mine",
  "models:",
  "  - name: Claude   # the good one",
  "    provider: anthropic",
  "    model: claude-sonnet-4-6",
  "  - { name: GPT, provider: openai, apiBase: 'https://api.openai.com/v1/', model: gpt-5 }",
  "  - name: Local",
  "    provider: ollama",
  "    model: qwen",
  "rules: []",
  "",
].join("\n");

Deno.test("tare wrap redirects configured providers that the server forwards to, and no others", async () => {
  await using machine = await newMachine({ TARE_PORT: PORT });
  await machine.write(".cline/data/settings/providers.json", CLINE);
  await machine.write(".continue/config.yaml", CONTINUE);
  for (const name of ["cline", "continue", "openclaw"]) {
    assertEquals((await machine.run("wrap", [name, "--yes"])).err, "");
  }
  const { providers } = JSON.parse(await machine.read(".cline/data/settings/providers.json"));
  assertEquals(
    [providers.anthropic.settings.baseUrl, providers["openai-compatible"].settings.baseUrl],
    [`${BEHIND}/v1`, "https://elsewhere/v1"],
  );
  assertEquals(
    await machine.read(".continue/config.yaml"),
    CONTINUE.replace("    model: claude", `    apiBase: "${BEHIND}/v1"\n    model: claude`)
      .replace("'https://api.openai.com/v1/'", `"${BEHIND}/v1"`),
  );
  assertEquals(JSON.parse(await machine.read(".openclaw/openclaw.json")), {
    models: {
      providers: {
        openai: { baseUrl: `${BEHIND}/v1` },
        anthropic: { baseUrl: BEHIND, api: "anthropic-messages" },
      },
    },
  });
  const moved = CONTINUE.replace(/( {2}- name: Claude[^]*?)( {2}- \{.*\n)/, "$2$1");
  await machine.write(
    ".continue/config.yaml",
    moved.replace("    model: claude", `    apiBase: "${BEHIND}/v1"\n    model: claude`)
      .replace("'https://api.openai.com/v1/'", `"${BEHIND}/v1"`),
  );
  assertEquals((await machine.run("unwrap", ["--yes"])).err, "");
  assertEquals(await machine.read(".cline/data/settings/providers.json"), CLINE);
  // Tare's entries are removed from a file that was reordered since.
  assertEquals(
    await machine.read(".continue/config.yaml"),
    moved.replaceAll("'https", '"https').replaceAll("v1/'", 'v1/"'),
  );
  await machine.write(".continue/config.yaml", "models: [\n");
  assertStringIncludes(
    (await machine.run("wrap", ["continue", "--yes"])).err,
    `Cannot change ${machine.home}/.continue/config.yaml: `,
  );
});

Deno.test("tare unwrap removes only Tare's entries from a file that was changed since", async () => {
  await using machine = await newMachine({ TARE_PORT: PORT });
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
  assertStringIncludes(out, "The file was changed since: only Tare's entries are removed.\n");
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

Deno.test("tare wrap and tare unwrap ask for confirmation, and report errors", async () => {
  await using machine = await newMachine({ TARE_PORT: PORT });
  const errorOf = async (command: string, ...args: string[]) => (await machine.run(command, args)).err;
  assertEquals(
    await errorOf("wrap", "pi"),
    "Cannot ask for confirmation: there is no terminal. Use --yes.\n",
  );
  assertEquals(
    await errorOf("wrap", "emacs"),
    "Cannot wrap emacs: it is not a known agent. Use one of claude, codex, opencode, kilo, pi, cline, continue, openclaw.\n",
  );
  assertEquals(
    await errorOf("wrap", "qwen"),
    "Cannot wrap qwen: Qwen Code has no suitable configuration file. Use tare run qwen.\n",
  );
  assertEquals(await errorOf("unwrap", "pi"), "Cannot unwrap pi: it is not wrapped.\n");
  await machine.write(".claude/settings.json", '{\n  "env": {\n');
  assertEquals(
    await errorOf("wrap", "claude", "--yes"),
    `Cannot read ${machine.home}/.claude/settings.json: it isn't a JSON object (line 3). Fix it, and retry.\n`,
  );
  await machine.write(".claude/settings.json", "{}");
  await machine.run("wrap", ["claude", "--yes"]);
  await machine.write(".claude/settings.json", "{");
  assertStringIncludes(
    await errorOf("unwrap", "--yes"),
    `Its original text is "before" in ${machine.home}/data/tare/wrapped/claude.json`,
  );
  await Deno.remove(`${machine.home}/.claude/settings.json`);
  assertStringIncludes(
    (await machine.run("unwrap", ["--yes"])).out,
    "The file was deleted since and is not restored.",
  );
});

function freePort(): string {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return String(port);
}

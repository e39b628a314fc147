import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { newMachine } from "./agents_fixture.ts";
import { needs, NOT_WINDOWS } from "../needs.ts";

/** Returns the data folders with a recorded server. */
async function noted(home: string): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir(`${home}/data/tare`)) {
    for await (const file of Deno.readDir(`${home}/data/tare/${name}`)) {
      if (file.name === "server.json") found.push(name);
    }
  }
  return found;
}

Deno.test({
  ...needs(
    NOT_WINDOWS,
    "tare run starts a server for the agent, forwards its key and exit status, and stops the server",
  ),
  async fn() {
    await using machine = await newMachine();
    const { code, out, err } = await machine.run("run", ["claude", "--exit", "7"]);
    assertEquals([code, out], [7, `in ${machine.home}/a, tool search true\nanswered 200\n`], err);
    assertMatch(
      err,
      /^Tare: 1 call cost \$[\d.]+, about as much as without Tare\.\n(Avoidable: |No avoidable).*\.\n$/,
    );
    const codex = await machine.run("run", ["codex", "--exit", "0"]);
    assertEquals([codex.code, codex.out], [
      0,
      `in ${machine.home}/a, tool search undefined\nanswered 200\n`,
    ], codex.err);
    const any = await machine.run("run", ["--", "claude", "--chat"]);
    assertStringIncludes(any.out, "answered 200");
    assertEquals(machine.keys, ["their-key", "Bearer their-key", "Bearer their-key"]);
    const quiet = await machine.run("run", ["claude", "--quiet"]);
    assertMatch(
      quiet.err,
      /^Tare: no call of Claude Code went through http:\S+\. tare doctor claude explains why\.\n$/,
    );
    assertEquals(await noted(machine.home), []);
  },
});

Deno.test({
  ...needs(
    NOT_WINDOWS,
    "tare run gives an agent with a configuration file a temporary copy of it",
  ),
  async fn() {
    await using machine = await newMachine();
    const { OPENAI_BASE_URL: forwardsTo } = machine.env;
    const settings = '{"providers": {"openai-compatible": {"settings": {"baseUrl": "' + forwardsTo + '"}}}}';
    const models = "models:\n  - name: GPT\n    provider: openai\n    model: gpt-5\n";
    await machine.write(".cline/data/settings/providers.json", settings);
    await machine.write(".continue/config.yaml", models);
    for (const name of ["cline", "continue", "openclaw"]) {
      const { code, out, err } = await machine.run("run", [name, "--exit", "3"]);
      assertEquals([code, out.split("\n")[1]], [3, "answered 200"], err);
      assertMatch(err, /^Tare: 1 call cost /);
    }
    assertEquals(await machine.read(".cline/data/settings/providers.json"), settings);
    assertEquals(await machine.read(".continue/config.yaml"), models);
    const names = async (folder: string) =>
      (await Array.fromAsync(Deno.readDir(`${machine.home}/${folder}`))).map(({ name }) => name);
    assertEquals(await names(".cline/data/settings"), ["providers.json"]);
    assertEquals(await names(".continue"), ["config.yaml"]);
    assertEquals((await names(".")).includes(".openclaw"), false);
    await machine.write(".continue/config.yaml", "models: []\n");
    assertEquals(
      (await machine.run("run", ["continue"])).err,
      `Cannot redirect ${machine.home}/.continue/config.yaml: it contains no model of a provider that the ` +
        "server forwards to. Configure the agent first.\n",
    );
  },
});

/** Starts a company's gateway, the only one that may get the company's tokens. */
function company() {
  const tokens: string[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ method, headers }) => {
    if (method === "POST") tokens.push(headers.get("authorization") ?? headers.get("x-api-key") ?? "");
    return Response.json({ data: [] });
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  return { url, tokens, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test({
  ...needs(
    NOT_WINDOWS,
    "tare run: only the address in the agent's own settings gets its requests and token",
  ),
  async fn() {
    await using machine = await newMachine();
    await using own = company();
    const env = { ANTHROPIC_BASE_URL: own.url, ANTHROPIC_AUTH_TOKEN: "company" };
    await machine.write(".claude/settings.json", JSON.stringify({ env }));
    await machine.write(".codex/config.toml", `openai_base_url = "${own.url}/v1"\n`);
    const options = { baseURL: `${own.url}/v1`, apiKey: "company" };
    const openCode = JSON.stringify({ provider: { openai: { options } } });
    await machine.write(".config/opencode/opencode.json", openCode);
    await machine.write(
      ".pi/agent/models.json",
      JSON.stringify({ providers: { openai: { baseUrl: `${own.url}/v1`, apiKey: "company" } } }),
    );
    await machine.write(
      ".openclaw/openclaw.json",
      `// JSON5\n{models: {providers: {'openai': {baseUrl: '${own.url}/v1', n: .5,}}}}\n`,
    );
    for (const name of ["claude", "codex", "opencode", "pi", "openclaw"]) {
      const { code, out, err } = await machine.run("run", [name]);
      assertEquals([code, out.split("\n")[1]], [0, "answered 200"], `${name}: ${err}`);
    }
    const company1 = "Bearer company";
    const theirs = "Bearer their-key";
    assertEquals([own.tokens, machine.keys], [[company1, theirs, company1, company1, theirs], []]);
    // An unset variable isn't replaced.
    const kilo = { provider: { openai: { options: { baseURL: "{env:NOWHERE}" } } } };
    await machine.write(".config/kilo/kilo.json", JSON.stringify(kilo));
    assertMatch(
      (await machine.run("run", ["kilo"])).err,
      /kilo\.json contains \{env:NOWHERE\}, which is not an HTTP address/,
    );

    const server = await startProcess([], { ...machine.env, INIT_CWD: `${machine.home}/a` });
    for (
      const [name, file, variable, to] of [
        ["claude", ".claude/settings.json", "ANTHROPIC_BASE_URL", own.url],
        ["opencode", ".config/opencode/opencode.json", "OPENAI_BASE_URL", `${own.url}/v1`],
      ]
    ) {
      const { code, err } = await machine.run("run", [name!]);
      assertEquals(code, 1);
      assertStringIncludes(err, `${machine.home}/${file} names ${to}, and the server forwards `);
      assertStringIncludes(
        err,
        `Start it with ${variable}=${to}, or stop it: then tare run starts a suitable one.`,
      );
      assertStringIncludes(
        (await machine.run("wrap", [name!, "--yes"])).err,
        `Start it with ${variable}=${to}`,
      );
    }
    await machine.write(".claude/settings.json", "{}");
    const wrapped = await machine.run("wrap", ["claude", "--yes"]);
    assertStringIncludes(wrapped.out, `ANTHROPIC_BASE_URL=${machine.env.ANTHROPIC_BASE_URL} `, wrapped.err);
    await server.end("SIGTERM");
    assertEquals([own.tokens.length, machine.keys], [5, []]);
  },
});

Deno.test({
  ...needs(NOT_WINDOWS, "tare run uses the folder's running server, and reports an unsuitable one"),
  async fn() {
    await using machine = await newMachine();
    const env = { ...machine.env, ANTHROPIC_API_KEY: "its-key", OPENAI_API_KEY: "", OPENAI_BASE_URL: "" };
    const server = await startProcess([], { ...env, INIT_CWD: `${machine.home}/a` });
    const { code, err } = await machine.run("run", ["claude"]);
    assertEquals([code, machine.keys], [0, ["its-key"]], err);
    const lacking = await machine.run("run", ["codex"]);
    assertEquals([lacking.code, lacking.out, lacking.err], [
      1,
      "",
      `Cannot connect Codex to the server at ${server.url}: it doesn't forward chat completions and responses. Start it ` +
      "with OPENAI_BASE_URL=https://api.openai.com/v1, or stop it: then tare run starts a suitable one.\n",
    ]);
    await server.end("SIGTERM");
    await machine.write(".codex/auth.json", '{"tokens": {}}');
    const theirs = await startProcess([], { ...machine.env, INIT_CWD: `${machine.home}/a` });
    assertStringIncludes(
      (await machine.run("run", ["codex"])).err,
      `it forwards responses to ${machine.env.OPENAI_BASE_URL}, and the login is for https://chatgpt.com/backend-api/codex.`,
    );
    await theirs.end("SIGTERM");
  },
});

Deno.test({
  ...needs(
    NOT_WINDOWS,
    "tare run forwards signals, and replaces a server that ended with another command",
  ),
  async fn() {
    await using machine = await newMachine();
    // The folder's server reuses its last port, which isn't the default port.
    await (await startProcess(["--port", "0"], { ...machine.env, INIT_CWD: `${machine.home}/a` })).end(
      "SIGTERM",
    );
    const first = machine.start("run", ["claude", "--stay"]);
    await first.prints("stays");
    const second = machine.start("run", ["claude", "--stay"]);
    await second.prints("stays");
    first.kill("SIGTERM");
    assertEquals((await first.ended).code, 9);
    await machine.write("a/go", "");
    const { code, out, err } = await second.ended;
    assertEquals([code, out.trim().split("\n").at(-1)], [0, "answered again"]);
    assertMatch(err, /^Tare: 2 calls cost /);
    assertEquals(await noted(machine.home), []);
  },
});

Deno.test({
  ...needs(NOT_WINDOWS, "tare run reports unknown agents, missing programs and a taken port"),
  async fn() {
    await using taken = Deno.serve(
      { hostname: "127.0.0.1", port: 0, onListen() {} },
      () => new Response(null, { status: 404 }),
    );
    const port = String(taken.addr.port);
    await using machine = await newMachine({ TARE_PORT: port });
    const outputOf = async (...args: string[]) => {
      const { code, out, err } = await machine.run("run", args);
      return [code, out.split("\n")[0], err.split("\n")[0]];
    };
    assertEquals(await outputOf("emacs"), [
      1,
      "",
      "Cannot run emacs: it is not a known agent. Use one of claude, codex, opencode, kilo, pi, qwen, copilot, cline, continue, openclaw; for other programs tare run -- emacs",
    ]);
    await Deno.remove(`${machine.home}/bin/codex`);
    assertEquals(
      (await outputOf("--", "no-such-program"))[2],
      "Cannot start no-such-program: the program no-such-program is not in PATH. Install it, and retry.",
    );
    assertEquals(await outputOf("--"), [
      1,
      "",
      "Cannot run a program: none follows --. Use tare run -- PROGRAM.",
    ]);
    assertEquals(
      (await outputOf("claude"))[2],
      `Cannot start: TARE_HOST is "127.0.0.1" and TARE_PORT is ${port}: another program listens there. Set TARE_PORT ` +
        "to another port, or to 0 for a free one.",
    );
    const [code, help] = await outputOf("--help");
    assertEquals([code, help], [
      0,
      "Starts an installed agent with Tare as its gateway, for this process only:",
    ]);
  },
});

Deno.test({
  ...needs(NOT_WINDOWS, "tare run: keys in the settings file don't replace the agent's own"),
  async fn() {
    await using machine = await newMachine();
    const stored = { OPENAI_API_KEY: "stored", ANTHROPIC_API_KEY: "stored", TARE_MODEL: "gpt-5" };
    await machine.write(".config/tare/settings.json", JSON.stringify(stored));
    for (const agent of ["claude", "codex"]) assertEquals((await machine.run("run", [agent])).code, 0);
    assertEquals(machine.keys.length > 1 && machine.keys.filter((key) => key.includes("stored")), []);
  },
});

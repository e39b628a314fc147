import { assertEquals, assertStringIncludes } from "@std/assert";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { newMachine } from "./agents_fixture.ts";
import { needs, NOT_WINDOWS } from "../needs.ts";

Deno.test({
  ...needs(NOT_WINDOWS, "tare doctor AGENT checks version, server, configuration, key, streaming and calls"),
  async fn() {
    await using machine = await newMachine();
    const none = await machine.run("doctor", ["claude"]);
    assertStringIncludes(none.err, `Cannot find a server for ${machine.home}/a: none runs there`);
    const env = { ...machine.env, OPENAI_API_KEY: "", ANTHROPIC_API_KEY: "" };
    const server = await startProcess([], { ...env, INIT_CWD: `${machine.home}/a` });
    const settings = `${machine.home}/.claude/settings.json`;
    const url = machine.env.ANTHROPIC_BASE_URL;
    const output = async (...args: string[]) => {
      const { code, out, err } = await machine.run("doctor", args);
      return [code, ...out.trim().split("\n"), ...(err ? [err] : [])];
    };
    const first = [
      "?      Claude Code is 1.2.3; the tested version is 2.1.332.",
      `ok     The server at ${server.url} is running for ${machine.home}/a.`,
      `ok     It forwards Messages to ${url}.`,
    ];
    const asksItself = "?      Claude Code uses this server only if tare run claude starts it.";
    const passes = "ok     The key works: the provider lists its models. --model NAME also checks streaming.";
    assertEquals(await output("claude"), [
      0,
      ...first,
      asksItself,
      passes,
      "?      Claude Code has made no calls through this server yet.",
    ]);
    await machine.run("wrap", ["claude", "--yes"]);
    await machine.run("run", ["claude"]);
    const through = [
      "ok     1 call went through, with 0 % of the prompt tokens read from the cache.",
      "ok     Its prompts have cache breakpoints, or need none.",
    ];
    assertEquals(await output("claude", "--model", "claude-opus-4-8"), [
      0,
      ...first,
      `ok     ${settings} redirects Claude Code to this server.`,
      "ok     The key works, and claude-opus-4-8 streams.",
      ...through,
    ]);
    const text = await machine.read(".claude/settings.json");
    await machine.write(".claude/settings.json", text.replace('"ENABLE_TOOL_SEARCH": "true"', '"A": "1"'));
    assertEquals(await output("claude"), [
      1,
      ...first,
      `FAIL   ${settings} redirects Claude Code to this server only in part: env.ENABLE_TOOL_SEARCH isn't true. ` +
      "Run tare unwrap claude, then tare wrap claude.",
      passes,
      ...through,
    ]);
    assertStringIncludes(
      (await machine.run("doctor", ["emacs"])).err,
      "Cannot check emacs: it is not a known agent. Use one of claude, codex, ",
    );
    await server.end("SIGTERM");
  },
});

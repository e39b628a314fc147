import { assertEquals, assertStringIncludes } from "@std/assert";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { newMachine } from "./agents_fixture.ts";
import { needs, NOT_WINDOWS } from "../needs.ts";

Deno.test({
  ...needs(NOT_WINDOWS, "tare doctor AGENT looks at version, server, configuration, key, stream and calls"),
  async fn() {
    await using machine = await newMachine();
    const none = await machine.run("doctor", ["claude"]);
    assertStringIncludes(none.err, `Cannot find a server for ${machine.home}/a: none runs there`);
    const env = { ...machine.env, OPENAI_API_KEY: "", ANTHROPIC_API_KEY: "" };
    const server = await startProcess([], { ...env, INIT_CWD: `${machine.home}/a` });
    const settings = `${machine.home}/.claude/settings.json`;
    const url = machine.env.ANTHROPIC_BASE_URL;
    const said = async (...args: string[]) => {
      const { code, out, err } = await machine.run("doctor", args);
      return [code, ...out.trim().split("\n"), ...(err ? [err] : [])];
    };
    const first = [
      "?      Claude Code is 1.2.3; tested is 2.1.332.",
      `ok     The server at ${server.url} answers, for ${machine.home}/a.`,
      `ok     It passes Messages on to ${url}.`,
    ];
    const asksItself = "?      Claude Code asks its provider itself unless tare run claude starts it.";
    const passes =
      "ok     The key passes: the provider lists its models. --model NAME asks one, and shows that it streams.";
    assertEquals(await said("claude"), [
      0,
      ...first,
      asksItself,
      passes,
      "?      Claude Code hasn't called a model through this server yet.",
    ]);
    await machine.run("wrap", ["claude", "--yes"]);
    await machine.run("run", ["claude"]);
    const through = [
      "ok     1 call came through, 0 % of their prompts from the cache.",
      "ok     What it sends is marked for the cache, or needs no marks.",
    ];
    assertEquals(await said("claude", "--model", "claude-opus-4-8"), [
      0,
      ...first,
      `ok     ${settings} says that Claude Code asks this server.`,
      "ok     The key passes, and claude-opus-4-8 streams.",
      ...through,
    ]);
    const text = await machine.read(".claude/settings.json");
    await machine.write(".claude/settings.json", text.replace('"ENABLE_TOOL_SEARCH": "true"', '"A": "1"'));
    assertEquals(await said("claude"), [
      1,
      ...first,
      `WRONG  ${settings} says only in part that Claude Code asks this server: env.ENABLE_TOOL_SEARCH isn't true. ` +
      "tare unwrap and wrap claude mend it.",
      passes,
      ...through,
    ]);
    assertStringIncludes(
      (await machine.run("doctor", ["emacs"])).err,
      "Cannot look at emacs: there are claude, codex, ",
    );
    await server.end("SIGTERM");
  },
});

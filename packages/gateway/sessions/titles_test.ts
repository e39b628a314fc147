import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { gateway, type GatewayOptions } from "@tare/gateway";
import { BASH, chatStep, codexOpening, codexStep, type Json, SUMMARIZE } from "../agents_fixture_test.ts";
import { completion, OPTIONS, post } from "../fixture_test.ts";
import { responsesUpstream } from "../responses_fixture_test.ts";

function titled(fetch: typeof globalThis.fetch, options: Partial<GatewayOptions> = {}) {
  const made = gateway({ ...OPTIONS, fetch, ...options });
  return {
    close: () => made.close(),
    ask: async (body: object, path?: string) => await (await made.fetch(post(body, {}, path)))?.text(),
    titles: async (search = "") =>
      (await made.sessions.list({ limit: 9, search }))?.sessions.map(({ title }) => title),
  };
}

const SUMMARY = "1. Goal: the four constants of src/. Eight files were read, and none of them was written.";

const CHAT: typeof globalThis.fetch = async (...args) => {
  const { messages } = await new Request(...args).json();
  return completion({ content: JSON.stringify(messages.at(-1)).includes("TEXT ONLY") ? SUMMARY : "Hi" });
};

Deno.test("titles: a session has the user's text as its title, without preceding rules and environments", async () => {
  const { fetch } = responsesUpstream([() => []]);
  const { ask, titles } = titled((...args) => fetch(...args));
  const body = (input: readonly Json[]) => ({ model: "gpt-5", input, store: false });
  const one = codexOpening("Find the constants.");
  await ask(body(one), "/responses");
  await ask(body([...one, ...codexStep("a", "1")]), "/responses");
  // Its beginning is the same, so that it is a fork.
  const two = codexOpening("Write a test.");
  await ask(body(two), "/responses");
  await ask(body([...two, ...codexStep("b", "2")]), "/responses");
  assertEquals(await titles(), ["Write a test.", "Find the constants."]);
  assertEquals([await titles("CONSTANTS"), await titles("rule-7")], [["Find the constants."], []]);
});

Deno.test("titles: a session retains its title after a summary and after a restart", async () => {
  const store = memoryStore();
  const first = titled(CHAT, { store });
  const body = (messages: readonly Json[]) => ({ model: "m", messages, tools: [BASH] });
  const content = "<current_datetime>2026-11-20</current_datetime>\n\nFind the constants.";
  const messages = [{ role: "user", content }, ...chatStep("a", "1")];
  await first.ask(body(messages.slice(0, 1)));
  await first.ask(body(messages));
  await first.ask(body([...messages, { role: "user", content: SUMMARIZE }]));
  const fresh = [{ role: "user", content: `Where we stand:\n${SUMMARY}` }];
  await first.ask(body(fresh));
  const before = await first.titles();
  await first.close();
  const second = titled(CHAT, { store });
  const after = await second.titles();
  await second.ask(body([...fresh, ...chatStep("b", "2")]));
  assertEquals([before, after, await second.titles()], Array(3).fill(["Find the constants."]));
  await second.close();
});

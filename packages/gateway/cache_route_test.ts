import { assertEquals, assertMatch, assertNotEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { completion, gatewayed, post, READ, UPSTREAM } from "./fixture_test.ts";

const OPENAI = "https://api.openai.com/v1";
const CODEX = "https://chatgpt.com/backend-api/codex";

const user = (content: string) => ({ role: "user", content });
const assistant = (content: string) => ({ role: "assistant", content });

function routed(baseURL: string, options: Parameters<typeof gatewayed>[1] = {}) {
  const upstream = { ...UPSTREAM, baseURL };
  const answer = () => completion({ content: "Yes." });
  const { fetch, seen } = gatewayed(answer, {
    upstreams: { chat: upstream, responses: upstream },
    ...options,
  });
  const ask = async (
    messages: readonly object[],
    { more = {}, headers = {} }: {
      readonly more?: object;
      readonly headers?: Record<string, string>;
    } = {},
  ) => {
    await (await fetch(post({ model: "gpt-5.4", messages, ...more }, headers))).text();
    return seen.at(-1)!;
  };
  return { ask, fetch, seen };
}

const SYSTEM = { role: "system", content: "Be brief." };
const FIRST = [SYSTEM, user("Mend the parser, please.")];

Deno.test("cache routing: conversations with the same beginning send the same key", async () => {
  const { ask } = routed(OPENAI);
  const keyOf = async (...args: Parameters<typeof ask>) => (await ask(...args)).body.prompt_cache_key;
  const key = await keyOf(FIRST);
  assertMatch(key, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-8[0-9a-f]{3}-[0-9a-f]{12}$/);
  const gone = [...FIRST, assistant("Yes."), user("Now the printer.")];
  assertEquals(await keyOf(gone), key);
  assertEquals(await keyOf([...gone.slice(0, -1), user("Now the lexer.")]), key);
  assertEquals(await routed(OPENAI).ask(FIRST).then(({ body }) => body.prompt_cache_key), key);
  // Different conversations of an agent need different caches.
  assertNotEquals(await keyOf([SYSTEM, user("Write a test, please.")]), key);
});

Deno.test("cache routing: a day's retention is requested where it is free, unless the client sets one", async () => {
  const { ask } = routed(OPENAI);
  const send = async (model: string, more: object = {}) => {
    const { body } = await ask(FIRST, { more: { ...more, model } });
    return [typeof body.prompt_cache_key, body.prompt_cache_retention];
  };
  assertEquals(await send("gpt-5.4"), ["string", "24h"]);
  assertEquals(await send("gpt-5.4-2026-03-05"), ["string", "24h"]);
  assertEquals(await send("gpt-5.6-sol"), ["string", undefined]);
  assertEquals(await send("gpt-4o"), ["string", undefined]);
  assertEquals(await send("gpt-5.4", { prompt_cache_retention: "in_memory" }), ["string", "in_memory"]);
  const { body } = await ask(FIRST, { more: { prompt_cache_key: "mine" } });
  assertEquals([body.prompt_cache_key, body.prompt_cache_retention], ["mine", "24h"]);
});

Deno.test("cache routing: headers name a conversation unless the client sends them", async () => {
  const { ask } = routed(CODEX);
  const { headers, body } = await ask(FIRST);
  assertEquals(headers.get("session_id"), body.prompt_cache_key);
  assertEquals([headers.get("session-id"), body.prompt_cache_retention], [body.prompt_cache_key, undefined]);
  const own = await ask(FIRST, { headers: { "session-id": "mine" } });
  assertEquals([own.headers.get("session-id"), own.headers.get("session_id")], ["mine", null]);
  const grok = await routed("https://api.x.ai/v1/").ask(FIRST);
  assertEquals([typeof grok.headers.get("x-grok-conv-id"), "prompt_cache_key" in grok.body], [
    "string",
    false,
  ]);
});

Deno.test("cache routing: other providers and unchanged requests get no key", async () => {
  const sent = JSON.stringify({ model: "gpt-5.4", messages: FIRST });
  for (
    const baseURL of ["https://proxy.example/v1", "https://api.openai.com.example/v1", "http://localhost/v1"]
  ) {
    const { seen, fetch } = routed(baseURL);
    await (await fetch(post(sent))).text();
    assertEquals(seen[0]?.text, sent);
  }
  for (const headers of [{ "x-tare": "off" }, { "x-tare": "dry-run" }]) {
    const { seen, fetch } = routed(OPENAI);
    await (await fetch(post(sent, headers))).text();
    assertEquals(seen[0]?.text, sent);
  }
  const holdout = routed(OPENAI, { holdout: 1 });
  await (await holdout.fetch(post(sent))).text();
  assertEquals(holdout.seen[0]?.text, sent);
  const counted = routed(OPENAI);
  const input = JSON.stringify({ model: "gpt-5.4", input: "Hi" });
  await (await counted.fetch(post(input, {}, "/responses/input_tokens"))).text();
  assertEquals(counted.seen[0]?.text, input);
});

Deno.test("cache routing: the key survives a new history and a restart", async () => {
  const store = memoryStore();
  const headers = { "x-tare-session": "n" };
  const before = routed(OPENAI, { store });
  // Without tools or answers it may be for a title.
  const more = { tools: [READ] };
  const { body: { prompt_cache_key: key } } = await before.ask(FIRST, { more, headers });
  const summary = [SYSTEM, user("Here is what was done: all of it.")];
  assertEquals((await before.ask(summary, { more, headers })).body.prompt_cache_key, key);
  const after = routed(OPENAI, { store });
  const gone = [...summary, assistant("Yes.")];
  assertEquals((await after.ask(gone, { more, headers })).body.prompt_cache_key, key);
  assertNotEquals((await after.ask(summary, { more })).body.prompt_cache_key, key);
});

Deno.test("cache routing: the client's own request is sent if the provider rejects the key", async () => {
  const upstream = { ...UPSTREAM, baseURL: OPENAI };
  const { fetch, seen } = gatewayed(
    ({ body }) =>
      "prompt_cache_key" in body
        ? Response.json({ error: { message: "Unsupported parameter: prompt_cache_key" } }, { status: 400 })
        : completion({ content: "Yes." }),
    { upstreams: { chat: upstream } },
  );
  const sent = JSON.stringify({ model: "m", messages: FIRST });
  const response = await fetch(post(sent));
  assertEquals([response.status, seen.length, seen[1]?.text], [200, 2, sent]);
});

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { BASH, chatStep } from "./agents_fixture_test.ts";
import { completion, gatewayed, post, UPSTREAM } from "./fixture_test.ts";
import type { GatewayUpstream } from "./options.ts";

const TOO_LONG =
  "This model's maximum context length is 40000 tokens. However, your messages resulted in 50000 tokens.";

async function play(windowTokens: GatewayUpstream["windowTokens"], model = "gpt-5") {
  let isRefused = false;
  // Reads are nearly free there, so that nothing is evicted unless the window is full.
  const { windowTokens: _, ...rest } = { ...UPSTREAM, profile: profileNamed("local") };
  const chat = windowTokens === undefined ? rest : { ...rest, windowTokens };
  const { fetch, seen } = gatewayed(
    ({ text }) =>
      isRefused
        ? Response.json({ error: { message: TOO_LONG } }, { status: 400 })
        : completion({ content: "Hi" }, Math.ceil(text.length / 4)),
    { upstreams: { chat }, holdout: 0 },
  );
  const messages: object[] = [{ role: "user", content: "Read all." }];
  const visible = async (more: readonly object[]) => {
    messages.push(...more);
    await (await fetch(post({ model, messages, tools: [BASH] }))).text();
    return seen.at(-1)?.text.match(/all of file\d: one/g)?.length;
  };
  let before: number | undefined;
  for (let at = 0; at < 7; at++) {
    before = await visible(chatStep(`file${at}`, `all of file${at}: ${"one two three four ".repeat(1_500)}`));
  }
  isRefused = true;
  await visible([]);
  isRefused = false;
  const after = await visible([{ role: "assistant", content: "Hi" }, { role: "user", content: "Go on." }]);
  return { before: before === 7, after: after === 7 };
}

Deno.test("window: the published window counts until an error of the provider reports another", async () => {
  assertEquals(await play(undefined), { before: true, after: false });
  // This model has no published window.
  assertEquals(await play(undefined, "other"), { before: true, after: false });
});

Deno.test("window: an error overrides the option's function, and its number only if smaller", async () => {
  const windowOf = (tokens: number) => (model: string) => model === "gpt-5" ? tokens : undefined;
  assertEquals(await play(windowOf(30_000)), { before: false, after: false });
  assertEquals(await play(windowOf(200_000)), { before: true, after: false });
  assertEquals(await play(200_000), { before: true, after: false });
  assertEquals(await play(30_000), { before: false, after: false });
});

function longConversation(results: number): object[] {
  return [
    { role: "user", content: "Read all." },
    ...Array.from(
      { length: results },
      (_, at) => chatStep(`file${at}`, `all of file${at}: ${"one two three four ".repeat(1_500)}`),
    ).flat(),
  ];
}

Deno.test("window: a request rejected for its length is shortened and sent once more", async () => {
  const { windowTokens: _, ...rest } = { ...UPSTREAM, profile: profileNamed("local") };
  const { fetch, seen } = gatewayed(
    ({ text }) =>
      Math.ceil(text.length / 4) > 40_000
        ? Response.json({ error: { message: TOO_LONG } }, { status: 400 })
        : completion({ content: "Hi" }, Math.ceil(text.length / 4)),
    { upstreams: { chat: rest }, holdout: 0 },
  );
  const response = await fetch(post({ model: "other", messages: longConversation(8), tools: [BASH] }));
  assertEquals([response.status, (await response.json()).choices[0].message.content], [200, "Hi"]);
  assertEquals(seen.map(({ text }) => text.length > 160_000), [true, false]);
});

Deno.test("window: user text beyond the window is rejected in the protocol's format, with advice", async () => {
  const chat = { ...UPSTREAM, windowTokens: 10_000 };
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }), {
    upstreams: { chat, messages: chat },
    holdout: 0,
  });
  const messages = [{ role: "user", content: "so many words ".repeat(20_000) }];
  const chatted = await fetch(post({ model: "m", messages }));
  const { error } = await chatted.json();
  assertEquals([chatted.status, error.code, error.type], [
    400,
    "context_length_exceeded",
    "invalid_request_error",
  ]);
  assertStringIncludes(error.message, "> 10000 maximum");
  assertStringIncludes(error.message, "use a model with a larger window");
  const request = post({ model: "claude", max_tokens: 9, messages });
  const messaged = await fetch(
    new Request(request.url.replace("/chat/completions", "/messages"), {
      method: "POST",
      headers: request.headers,
      body: await request.text(),
    }),
  );
  const body = await messaged.json();
  assertEquals([messaged.status, body.type, body.error.type], [400, "error", "invalid_request_error"]);
  assertStringIncludes(body.error.message, "prompt is too long: ");
  assertEquals(seen, []);
});

function longMessages(results: number): object[] {
  // Texts differ, so that nothing is deduplicated.
  const messagesUpTo = (at: number) =>
    Array.from({ length: 1_900 }, (_, line) => `word ${at}/${line} said`).join("\n");
  return [
    { role: "user", content: "Read all." },
    ...Array.from({ length: results }, (_, at) => [
      {
        role: "assistant",
        content: [{ type: "tool_use", id: `t${at}`, name: "bash", input: { command: `cat file${at}` } }],
      },
      {
        role: "user",
        content: [{ type: "tool_result", tool_use_id: `t${at}`, content: messagesUpTo(at) }],
      },
    ]).flat(),
  ];
}

const CLAUDE_BASH = { name: "bash", input_schema: { type: "object" } };

async function firstSight(
  { results, profile = "anthropic-5m", headers = {}, model = "claude-sonnet-4-5" }: {
    readonly results: number;
    readonly profile?: string;
    readonly headers?: Record<string, string>;
    readonly model?: string;
  },
) {
  const { windowTokens: _, ...rest } = { ...UPSTREAM, profile: profileNamed(profile) };
  const { fetch } = gatewayed(() =>
    Response.json({
      ...{ id: "m", type: "message", role: "assistant", content: [{ type: "text", text: "Hi" }] },
      ...{ stop_reason: "end_turn", usage: { input_tokens: 9, output_tokens: 1 } },
    }), { upstreams: { messages: rest }, holdout: 0 });
  const system = [{ type: "text", text: "You read files.", cache_control: { type: "ephemeral" } }];
  const body = { model, max_tokens: 100, system, messages: longMessages(results), tools: [CLAUDE_BASH] };
  const response = await fetch(post(body, { "x-api-key": "k", ...headers }, "/messages"));
  await response.text();
  const tokens = (name: string) => Number(response.headers.get(`x-tare-tokens-${name}`));
  return { received: tokens("received"), sent: tokens("sent") };
}

Deno.test("window: a long history is reduced to the window in its first request", async () => {
  for (const [results, window] of [[46, 200_000], [20, 200_000], [1, 200_000]] as const) {
    const { received, sent } = await firstSight({ results });
    const isRight = received < 0.8 * window ? sent >= received : sent > 0.3 * window && sent < 0.9 * window;
    assert(isRight, `${received} tokens became ${sent}`);
  }
});

Deno.test("window: a million tokens are recognized by beta header or model name", async () => {
  const million = { "anthropic-beta": "oauth-2025-04-20,context-1m-2025-08-07" };
  const whole = async (given: Partial<Parameters<typeof firstSight>[0]>) => {
    const { received, sent } = await firstSight({ results: 60, profile: "local", ...given });
    return sent >= received;
  };
  assertEquals(await whole({}), false);
  assertEquals(await whole({ headers: million }), true);
  assertEquals(await whole({ headers: { "anthropic-beta": "context-management-2025-06-27" } }), false);
  assertEquals(await whole({ model: "claude-sonnet-4-5[1m]" }), true);
  assertEquals(await whole({ headers: million, results: 160 }), false);
});

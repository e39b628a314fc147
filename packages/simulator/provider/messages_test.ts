import { assertEquals, assertMatch } from "@std/assert";
import { scripted, type SimulatedReply, simulator, toolCall } from "@tare/simulator";
import { profileNamed } from "@tare/planner";
import { searchBlocks } from "@tare/wire/internal";

const MARK = { cache_control: { type: "ephemeral" } };
const HOUR = { cache_control: { type: "ephemeral", ttl: "1h" } };
const tokenizer = { encode: (text: string) => text.split(" ").map((word) => word.length) };
const words = (tokens: number, word = "w") => Array.from({ length: tokens }, () => word).join(" ");
const text = (text: string, mark: object = {}) => ({ type: "text", text, ...mark });

function provider(replies: readonly SimulatedReply[] | number, now: () => number = () => 0) {
  const script = typeof replies === "number"
    ? Array.from({ length: replies }, () => ({ content: "Hi" }))
    : replies;
  const simulated = simulator({
    model: scripted(script),
    profile: profileNamed("anthropic-5m"),
    tokenizer,
    apiKey: "key",
    now,
  });
  const ask = async (body: object, headers: Record<string, string> = { "x-api-key": "key" }) =>
    await simulated.fetch(
      new Request("http://provider/v1/messages", {
        method: "POST",
        headers,
        body: JSON.stringify({ model: "m", max_tokens: 10, ...body }),
      }),
    );
  const usage = async (body: object) => {
    const { usage } = await (await ask(body)).json();
    return [usage.cache_read_input_tokens, usage.cache_creation_input_tokens, usage.input_tokens];
  };
  return { ask, usage, requests: simulated.requests };
}

Deno.test("simulator() caches Messages requests up to their breakpoints only", async () => {
  let now = 0;
  const { usage } = provider(8, () => now);
  const system = [text(words(1_996), MARK)];
  const user = (...content: object[]) => ({ role: "user", content });
  const one = user(text(words(996), MARK));
  assertEquals(await usage({ system, messages: [one] }), [0, 3_000, 0]);
  const plain = user(text(words(996)));
  assertEquals(await usage({ system, messages: [plain, user(text(words(96), MARK))] }), [3_000, 100, 0]);
  assertEquals(await usage({ system, messages: [plain, user(text(words(96, "x")))] }), [2_000, 0, 1_100]);
  assertEquals(await usage({ system, messages: [one, user(text(words(96, "y")))] }), [3_000, 0, 100]);
  assertEquals(await usage({ messages: [user(text(words(900), MARK))] }), [0, 0, 904]);
  now = 299_000;
  assertEquals(await usage({ system, messages: [plain] }), [2_000, 0, 1_000]);
  now = 600_000;
  assertEquals(await usage({ system, messages: [plain] }), [0, 2_000, 1_000]);
});

Deno.test("simulator() searches 20 blocks before a breakpoint and supports one-hour entries", async () => {
  let now = 0;
  const { usage, requests } = provider(4, () => now);
  const blocks = (number: number, mark: object) => [{
    role: "user",
    content: Array.from(
      { length: number },
      (_, at) => text(words(1_096, `${at}`), at === number - 1 ? mark : {}),
    ),
  }];
  assertEquals(await usage({ messages: blocks(1, HOUR) }), [0, 1_100, 0]);
  now = 3_000_000;
  assertEquals(await usage({ messages: blocks(21, MARK) }), [1_100, 22_000, 0]);
  assertEquals(requests.map(({ hourWriteTokens }) => hourWriteTokens), [1_100, 0]);
  assertEquals(await usage({ messages: blocks(43, MARK) }), [0, 47_300, 0]);
});

Deno.test("simulator() adds deferred tools to the prompt where they are found", async () => {
  const { usage } = provider(4);
  const tool = (name: string, more: object = {}) => ({
    name,
    description: words(1_100, name),
    input_schema: { type: "object" },
    ...more,
  });
  const later = ["x", "y"].map((name) => tool(name, { defer_loading: true }));
  const messages = [
    { role: "user", content: [text("Go.", MARK)] },
    { role: "assistant", content: [{ type: "tool_use", id: "c", name: "find", input: {} }] },
    {
      role: "user",
      content: [{
        type: "tool_result",
        tool_use_id: "c",
        content: [{ type: "tool_reference", tool_name: "y" }],
        ...MARK,
      }],
    },
  ];
  const first = messages.slice(0, 1);
  const [, alone = 0] = await usage({ tools: [tool("a", MARK)], messages: first });
  assertEquals(await usage({ tools: [...later, tool("a", MARK)], messages: first }), [alone, 0, 0]);
  const [read, written = 0] = await usage({ tools: [later[0], tool("a", MARK), later[1]], messages });
  assertEquals([read, written > 1_100, written < 1_150], [alone, true, true]);
  assertEquals(await usage({ tools: [tool("a", MARK), ...later], messages }), [alone + written, 0, 0]);
});

Deno.test("simulator() replies in the Messages format, complete and streamed", async () => {
  const reply = {
    content: "Look.",
    reasoning_content: "Hm.",
    tool_calls: [toolCall("read", { a: 1 }, { id: "c" })],
  };
  const { ask } = provider([reply, reply, { content: "Done." }]);
  const messages = [{ role: "user", content: "Go." }];
  const whole = await (await ask({ messages })).json();
  assertEquals([whole.stop_reason, whole.content], ["tool_use", [
    { type: "thinking", thinking: "Hm.", signature: "mo7i4zzgtu" },
    { type: "text", text: "Look." },
    { type: "tool_use", id: "c", name: "read", input: { a: 1 } },
  ]]);
  const streamed = await (await ask({ messages, stream: true }, { authorization: "Bearer key" })).text();
  assertMatch(
    streamed,
    /^event: message_start\n.*event: message_stop\ndata: \{"type":"message_stop"\}\n\n$/s,
  );
  const result = { type: "tool_result", tool_use_id: "c", content: "A." };
  const next = [...messages, { role: "assistant", content: whole.content }, {
    role: "user",
    content: [result],
  }];
  assertEquals((await (await ask({ messages: next })).json()).stop_reason, "end_turn");
});

Deno.test("simulator() rejects invalid Messages requests with the provider's messages", async () => {
  const { ask } = provider([{ fault: { type: "rate_limit", retryAfterMs: 10 } }]);
  const replyTo = async (body: object, headers?: Record<string, string>) => {
    const response = await ask(body, headers);
    const { type, error } = await response.json();
    return [response.status, type, error.type, error.message];
  };
  const five = Array.from({ length: 5 }, (_, at) => text(`${at}`, MARK));
  assertEquals(await replyTo({ messages: [{ role: "user", content: five }] }), [
    400,
    "error",
    "invalid_request_error",
    "A maximum of 4 blocks with cache_control may be provided. Found 5.",
  ]);
  const turned = { system: [text("S", MARK)], messages: [{ role: "user", content: [text("Go.", HOUR)] }] };
  assertEquals((await replyTo(turned)).slice(2), [
    "invalid_request_error",
    "A cache_control block with ttl 1h must not come after one with ttl 5m.",
  ]);
  const lone = [{ type: "tool_result", tool_use_id: "c", content: "A." }];
  assertEquals((await replyTo({ messages: [{ role: "user", content: lone }] }))[0], 400);
  assertEquals((await replyTo({ messages: [{ role: "robot", content: "" }] }))[2], "invalid_request_error");
  const messages = [{ role: "user", content: "Go." }];
  assertEquals((await replyTo({ messages }, { "x-api-key": "other" })).slice(0, 3), [
    401,
    "error",
    "authentication_error",
  ]);
  assertEquals((await replyTo({ messages })).slice(0, 3), [429, "error", "rate_limit_error"]);
});

Deno.test("simulator() searches for deferred tools, adds them, and reports the usage of all passes", async () => {
  const tool = (name: string) => ({
    name,
    description: words(300, name),
    input_schema: { type: "object" },
    defer_loading: true,
  });
  const search = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };
  const tools = [search, tool("weather"), tool("mail")];
  const { ask, requests } = provider([
    { content: "I look.", tool_calls: [toolCall(search.name, { query: "the weather" })] },
    { tool_calls: [toolCall("weather", {}, { id: "c1" })] },
    { content: "Sunny." },
  ]);
  const user = { role: "user", content: [text(words(1_100), MARK)] };
  const { content, stop_reason, usage } = await (await ask({ tools, messages: [user] })).json();
  const [ownText, searching, found, call] = content;
  assertEquals([ownText.text, searching.input, call.name, stop_reason], [
    "I look.",
    { query: "the weather" },
    "weather",
    "tool_use",
  ]);
  assertEquals(found.content.tool_references, [{ type: "tool_reference", tool_name: "weather" }]);
  const { cache_creation_input_tokens: first, cache_read_input_tokens: again, input_tokens: new_ } = usage;
  assertEquals([first, new_ > 300, new_ < 400], [again, true, true]);
  const result = { role: "user", content: [{ type: "tool_result", tool_use_id: "c1", content: "Sun." }] };
  await (await ask({ tools, messages: [user, { role: "assistant", content }, result] })).json();
  const [, next] = requests;
  assertEquals([next!.tools.length, next!.cachedTokens], [1, first]);
  assertEquals(next!.promptTokens > first + 300, true);
});

Deno.test("simulator() rejects invalid deferred tools", async () => {
  const { ask } = provider(5);
  const tool = (more: object) => ({ name: "a", input_schema: { type: "object" }, ...more });
  const search = { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" };
  const messages = [{ role: "user", content: "Go." }];
  const found = {
    role: "assistant",
    content: searchBlocks({ id: "s", name: search.name, input: {}, found: ["b"] }),
  };
  const refused = async (body: object) => {
    const { error } = await (await ask({ messages, ...body })).json();
    return error?.message;
  };
  assertEquals([
    await refused({ tools: [tool({ defer_loading: true })] }),
    await refused({ tools: [search, tool({ defer_loading: true, ...MARK })] }),
    await refused({ tools: [search, tool({ defer_loading: true, input_examples: [{}] })] }),
    await refused({
      tools: [search, tool({ defer_loading: true })],
      messages: [...messages, found, ...messages],
    }),
    await refused({ tools: [search, tool({ defer_loading: true })] }),
  ], [
    "Not all tools may be deferred.",
    "The tool a is deferred, and so it may have no cache_control.",
    "The tool a is deferred, and so it may have no input_examples.",
    "A reference names the tool b, which isn't listed.",
    undefined,
  ]);
});

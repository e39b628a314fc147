import { assert, assertEquals, assertMatch } from "@std/assert";
import { profileNamed } from "@tare/planner";
import type { JsonRecord } from "@tare/wire";
import { type Forwarded, gatewayed, post, sse, UPSTREAM } from "./fixture_test.ts";

const tool = (name: string): JsonRecord => ({
  name,
  description: `Does ${name} for people who ask for it, and says what became of it. `.repeat(20),
  input_schema: { type: "object", properties: { id: { type: "string" } } },
});
const OWN = tool("Bash");
const SERVED = Array.from({ length: 40 }, (_, at) => tool(`mcp__tracker__${at}`));
const TOOLS = [OWN, ...SERVED];

const text = (text: string) => ({ type: "text", text });
const use = (name: string, id = "c1") => ({ type: "tool_use", id, name, input: {} });
const searches = (...found: readonly string[]): readonly JsonRecord[] => [
  { type: "server_tool_use", id: "s1", name: "tool_search_tool_bm25", input: { query: "it" } },
  {
    type: "tool_search_tool_result",
    tool_use_id: "s1",
    content: {
      type: "tool_search_tool_search_result",
      tool_references: found.map((tool_name) => ({ type: "tool_reference", tool_name })),
    },
  },
];

function message(content: readonly JsonRecord[], stop_reason: string, usage: JsonRecord = {}): JsonRecord {
  const counted = { input_tokens: 5_000, output_tokens: 5, ...usage };
  return {
    id: "m",
    type: "message",
    role: "assistant",
    model: "claude",
    content,
    stop_reason,
    usage: counted,
  };
}

function claude(answer: (request: Forwarded, index: number) => JsonRecord | Response) {
  const provider = {
    ...UPSTREAM,
    profile: profileNamed("anthropic-5m"),
    defersTools: (model: string) => model !== "other",
  };
  const made = gatewayed((request, index) => {
    const answered = answer(request, index);
    return answered instanceof Response ? answered : Response.json(answered);
  }, { upstreams: { messages: provider }, recall: false });
  const ask = (messages: readonly JsonRecord[], fields: JsonRecord = {}, path = "/messages") => {
    const body = {
      model: "claude-sonnet-5",
      max_tokens: 10,
      system: "You help.",
      tools: TOOLS,
      messages,
      ...fields,
    };
    return made.fetch(post(body, { "anthropic-version": "2023-06-01" }, path));
  };
  return { ...made, ask };
}

const user = (ownText: string): JsonRecord => ({ role: "user", content: [text(ownText)] });
const result = (id = "c1"): JsonRecord => ({
  role: "user",
  content: [{ type: "tool_result", tool_use_id: id, content: "Done." }],
});
const deferredIn = ({ body }: Forwarded) =>
  (body.tools as readonly JsonRecord[]).filter((tool) => tool.defer_loading).map(({ name }) => name);

Deno.test("deferred tools: gateway continues a reply that the provider paused in a hidden search", async () => {
  const { ask, seen } = claude((_, index) =>
    index === 0
      ? message([text("I look."), ...searches("mcp__tracker__1")], "pause_turn")
      : message([text("Found."), use("mcp__tracker__1")], "tool_use")
  );
  const { content, stop_reason } = await (await ask([user("Go.")])).json();
  assertEquals([content, stop_reason], [
    [text("I look."), text("Found."), use("mcp__tracker__1")],
    "tool_use",
  ]);
  assertEquals(seen[1]!.body.messages.slice(1), [
    { role: "assistant", content: [text("I look."), ...searches("mcp__tracker__1")] },
  ]);
  await (await ask([user("Go."), { role: "assistant", content }, result()])).text();
  assertEquals(seen[2]!.body.messages.slice(1, 3), [
    { role: "assistant", content: [text("I look."), ...searches("mcp__tracker__1")] },
    { role: "assistant", content: [text("Found."), use("mcp__tracker__1")] },
  ]);
});

Deno.test("deferred tools: the client receives the usage of one call, the ledger records all", async () => {
  const reads = { input_tokens: 3_000, cache_read_input_tokens: 8_000, cache_creation_input_tokens: 1_000 };
  const { ask, ledger } = claude(() =>
    message([...searches("mcp__tracker__1"), use("mcp__tracker__1")], "tool_use", {
      ...reads,
      server_tool_use: { tool_search_requests: 1 },
    })
  );
  const { usage } = await (await ask([user("Go.")])).json();
  const { input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens, ...more } =
    usage;
  assertEquals([input_tokens, cache_read_input_tokens, cache_creation_input_tokens, output_tokens], [
    1_500,
    3_500,
    1_000,
    5,
  ]);
  assertEquals(Object.keys(more), ["cache_creation"]);
  assertEquals((await ledger()).planned.promptTokens, 12_000);
});

Deno.test("deferred tools: blocks after a search are streamed with the client's indexes and the first usage", async () => {
  const blocks = [text("I look."), ...searches("mcp__tracker__1"), use("mcp__tracker__1")];
  const counted = (read: number, output: number) => ({
    input_tokens: 10,
    cache_read_input_tokens: read,
    output_tokens: output,
  });
  const events = [
    { type: "message_start", message: { ...message([], "", {}), usage: counted(4_000, 1) } },
    ...blocks.flatMap((content_block, index) => [
      { type: "content_block_start", index, content_block },
      { type: "content_block_stop", index },
    ]),
    { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: counted(8_100, 9) },
    { type: "message_stop" },
  ];
  const { ask } = claude(() => sse(...events));
  const streamed = await (await ask([user("Go.")], { stream: true })).text();
  const seen = streamed.split("\n").filter((line) => line.startsWith("data: ")).map((line) =>
    JSON.parse(line.slice(6))
  );
  assertEquals(seen.flatMap(({ type, index }) => type === "content_block_start" ? [index] : []), [0, 1]);
  const { usage } = seen.find(({ type }) => type === "message_delta");
  assertEquals([usage.cache_read_input_tokens, usage.input_tokens, usage.output_tokens], [4_000, 10, 9]);
});

Deno.test("deferred tools: a forced tool is not deferred, in that request only", async () => {
  const { ask, seen } = claude(() => message([text("Yes.")], "end_turn"));
  const messages = [user("Go.")];
  await (await ask(messages)).text();
  messages.push({ role: "assistant", content: [text("Yes.")] }, user("Now."));
  await (await ask(messages, { tool_choice: { type: "tool", name: "mcp__tracker__3" } })).text();
  messages.push({ role: "assistant", content: [text("Yes.")] }, user("And?"));
  await (await ask(messages)).text();
  const all = SERVED.map(({ name }) => name);
  assertEquals(seen.map(deferredIn), [all, all.filter((name) => name !== "mcp__tracker__3"), all]);
});

Deno.test("deferred tools: token counts use the sent prompt, and requests without tools omit searches", async () => {
  const { ask, seen } = claude(({ url }, index) =>
    url.includes("count_tokens")
      ? { input_tokens: 1 }
      : index === 0
      ? message([...searches("mcp__tracker__1"), use("mcp__tracker__1")], "tool_use")
      : message([text("A summary.")], "end_turn")
  );
  const { content } = await (await ask([user("Go.")])).json();
  const messages = [user("Go."), { role: "assistant", content }, result()];
  await (await ask(messages, {}, "/messages/count_tokens")).text();
  assertEquals(deferredIn(seen[1]!).length, SERVED.length);
  assertMatch(JSON.stringify(seen[1]!.body.messages), /tool_reference/);
  await (await ask([...messages, { role: "assistant", content: [text("Well.")] }, user("Sum up.")], {
    tools: undefined,
  })).text();
  assertEquals(/tool_reference|server_tool_use/.test(seen[2]!.text), false);
  assert(seen[2]!.text.includes("mcp__tracker__1"));
});

Deno.test("deferred tools: the client's own request is sent after a rejection, which ends deferring", async () => {
  const { ask, seen } = claude(({ body }) =>
    (body.tools as readonly JsonRecord[]).some((tool) => tool.defer_loading)
      ? Response.json({ type: "error", error: { type: "invalid_request_error", message: "no" } }, {
        status: 400,
      })
      : message([text("Yes.")], "end_turn")
  );
  const messages: JsonRecord[] = [];
  for (const ownText of ["Go.", "Go on.", "And on."]) {
    messages.push(user(ownText));
    const { content } = await (await ask(messages)).json();
    messages.push({ role: "assistant", content });
  }
  assertEquals(seen.map((one) => deferredIn(one).length > 0), [true, false, false, false]);
});

Deno.test("deferred tools: a model without search gets all tools and no searches", async () => {
  const { ask, seen } = claude((_, index) =>
    index === 0
      ? message([...searches("mcp__tracker__1"), use("mcp__tracker__1")], "tool_use")
      : message([text("Yes.")], "end_turn")
  );
  const { content } = await (await ask([user("Go.")])).json();
  const messages = [user("Go."), { role: "assistant", content }, result()];
  await (await ask(messages, { model: "other" })).text();
  await (await ask([...messages, { role: "assistant", content: [text("Yes.")] }, user("On.")])).text();
  assertEquals(seen.map((one) => [deferredIn(one).length, one.text.includes("server_tool_use")]), [
    [SERVED.length, false],
    [0, false],
    [SERVED.length, true],
  ]);
});

import { assertEquals, assertStrictEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { MESSAGES_PROTOCOL, RESPONSES_PROTOCOL, toolsInFront, writeRequest } from "@tare/wire/internal";
import { decode, newReaders, requestOf, visible } from "./request_fixture_test.ts";

const tool = (name: string, more: object = {}) => ({
  name,
  description: `Does ${name}.`,
  input_schema: { type: "object" },
  ...more,
});
const LATER = { defer_loading: true };
const SEARCH = { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" };
const reference = (tool_name: string) => ({ type: "tool_reference", tool_name });

/** Results of the client's and the provider's tool searches. */
const MESSAGES = [
  { role: "user", content: "Go." },
  { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "ToolSearch", input: {} }] },
  {
    role: "user",
    content: [{ type: "tool_result", tool_use_id: "c1", content: [reference("b"), reference("gone")] }],
  },
  {
    role: "assistant",
    content: [
      { type: "server_tool_use", id: "s1", name: "tool_search_tool_regex", input: {} },
      {
        type: "tool_search_tool_result",
        tool_use_id: "s1",
        content: {
          type: "tool_search_tool_search_result",
          tool_references: [reference("c"), reference("b")],
        },
      },
    ],
  },
];

const found = (message: Message | undefined) =>
  (message && "findsTools" in message ? message.findsTools ?? [] : []).map((tool) => tool.function.name);

Deno.test("readRequest() places deferred tools only where they are found", () => {
  const readers = newReaders();
  const read = (tools: readonly object[]) =>
    requestOf({ model: "m", messages: MESSAGES, tools }, MESSAGES_PROTOCOL, readers);
  const messagesOf = ({ items }: ReturnType<typeof read>) =>
    items.flatMap(({ parts }) => parts.map(({ message }) => message));
  const tools = [tool("a"), SEARCH, tool("b", LATER), tool("c", LATER)];
  const request = read(tools);
  const messages = messagesOf(request);
  assertEquals(toolsInFront(request).map(({ function: { name } }) => name), [
    "a",
    `${SEARCH.name} ${JSON.stringify(SEARCH)}`,
  ]);
  assertEquals(messages.map(found), [[], [], ["b"], ["c", "b"]]);
  assertEquals(messages.map((message) => "keep" in message && message.keep), [false, false, true, true]);
  // Cached data stays valid until the found tools change.
  const more = read([...tools, tool("d", LATER)]);
  messagesOf(more).forEach((message, at) => assertStrictEquals(message, messages[at]));
  const changed = messagesOf(read(tools.with(2, tool("b", { ...LATER, description: "Other." }))));
  assertEquals(changed.map((message, at) => message === messages[at]), [true, true, false, false]);
  const sizes = [messages, changed].map((list) => countMessageTokens(list[2]!, estimateTokens));
  assertEquals(
    sizes[0]! > countMessageTokens({ ...messages[2]!, findsTools: [] } as Message, estimateTokens),
    true,
  );
});

Deno.test("writeRequest() keeps deferred and server tools unchanged whatever happens to others", () => {
  const tools = [tool("b", LATER), tool("a"), SEARCH];
  const body = JSON.stringify({ model: "m", messages: MESSAGES, tools });
  const request = requestOf(body, MESSAGES_PROTOCOL);
  const whole = { ...visible(request), tools: toolsInFront(request) };
  assertStrictEquals(writeRequest(request, whole), request.bytes);
  const brief = { type: "function", function: { name: "a", parameters: { type: "object" } } } as const;
  const recall = { type: "function", function: { name: "recall", parameters: {} } } as const;
  const written = JSON.parse(decode(writeRequest(request, {
    ...whole,
    tools: [brief, ...whole.tools.slice(1), recall],
  })));
  assertEquals(written.tools, [
    tools[0],
    { name: "a", input_schema: { type: "object" } },
    SEARCH,
    { name: "recall", input_schema: {} },
  ]);
  assertEquals(written.messages, MESSAGES);
});

Deno.test("RESPONSES_PROTOCOL counts all tokens of tools found by a search", () => {
  const described = { type: "function", name: "f", description: "Long. ".repeat(1_000), parameters: {} };
  const item = { type: "tool_search_output", call_id: null, execution: "server", tools: [described] };
  const [part] = RESPONSES_PROTOCOL.readItem(item);
  assertEquals(part?.message.content, JSON.stringify(item));
  assertEquals(part?.text, undefined);
  const body = { model: "m", input: [item], tools: [{ ...described, ...LATER }] };
  assertEquals(toolsInFront(requestOf(body, RESPONSES_PROTOCOL)), []);
});

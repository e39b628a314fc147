import { assertEquals } from "@std/assert";
import type { Message, StableMessages } from "@tare/messages";
import { messagesBody } from "@tare/wire";

const go: Message = { role: "user", content: "go" };
const system: Message = { role: "system", content: "s" };
const definition = { type: "function", function: { name: "f" } } as const;

function step(name: string, calls: number): Message[] {
  const ids = Array.from({ length: calls }, (_, at) => `${name}${at}`);
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: ids.map((id) => ({ id, type: "function", function: { name: "f", arguments: "{}" } })),
    },
    ...ids.map((id): Message => ({ role: "tool", tool_call_id: id, content: "r" })),
  ];
}

function marked(messages: readonly Message[], stable?: StableMessages, tools = [definition]): string[] {
  const body = messagesBody({ messages, tools, ...(stable && { stable }) }, { maxTokens: 9 });
  const places: string[] = [];
  JSON.stringify(body, (_, value) => {
    if (value?.cache_control) places.push(value.tool_use_id ?? value.text ?? value.name ?? value.type);
    return value;
  });
  return places;
}

Deno.test("messagesBody() sets breakpoints at the ends of system prompt, tools and prompt", () => {
  assertEquals(marked([system, go]), ["s", "f", "go"]);
  assertEquals(marked([system, go, ...step("a", 2)]), ["s", "f", "a1"]);
  assertEquals(marked([go], undefined, []), ["go"]);
  assertEquals(marked([system], undefined, []), ["s", "[empty message]"]);
});

Deno.test("messagesBody() sets a breakpoint at the previous request's end beyond the lookback", () => {
  // 20 blocks after the previous request's end, then 21.
  assertEquals(marked([system, go, ...step("a", 10)]), ["s", "f", "a9"]);
  assertEquals(marked([system, go, ...step("a", 10), go]), ["s", "f", "go", "go"]);
  assertEquals(marked([system, go, ...step("a", 1), ...step("b", 11)]), ["s", "f", "a0", "b10"]);
});

Deno.test("messagesBody() sets breakpoints before the change and after the last rewrite", () => {
  const messages = [system, go, ...step("a", 1), ...step("b", 1), ...step("c", 30)];
  // The last request that this one extends ended before `a`.
  assertEquals(marked(messages, { shared: 3, edited: 0 }), ["s", "f", "go", "c29"]);
  assertEquals(marked(messages, { shared: 4, edited: 0 }), ["s", "f", "a0", "c29"]);
  // The system prompt's breakpoint covers the tools.
  assertEquals(marked(messages, { shared: 6, edited: 4 }), ["s", "a0", "b0", "c29"]);
  assertEquals(marked(messages, { shared: 0, edited: 0 }), ["s", "f", "c29"]);
});

Deno.test("messagesBody() sets no breakpoint on thinking, and begins with the user", () => {
  const thought: Message = {
    role: "assistant",
    content: null,
    carried: { items: [{ type: "thinking", thinking: "t", signature: "s" }] },
  };
  assertEquals(marked([go, thought], undefined, []), ["go"]);
  assertEquals(
    messagesBody({ messages: [{ role: "assistant", content: "A summary." }, go], tools: [] }, {
      maxTokens: 9,
      cacheTtlMs: 0,
    }),
    {
      max_tokens: 9,
      messages: [
        { role: "user", content: [{ type: "text", text: "[Earlier messages were removed.]" }] },
        { role: "assistant", content: [{ type: "text", text: "A summary." }] },
        { role: "user", content: [{ type: "text", text: "go" }] },
      ],
    },
  );
});

Deno.test("messagesBody() writes replies of other providers", () => {
  const messages: Message[] = [
    go,
    { role: "assistant", content: null, refusal: "No.", reasoning_content: "unsigned" },
    { role: "developer", content: [{ type: "refusal", refusal: "R" }] },
    { role: "assistant", tool_calls: [{ id: "1", type: "custom", custom: { name: "c", input: "plain" } }] },
    { role: "tool", tool_call_id: "1", content: "r" },
  ];
  assertEquals(messagesBody({ messages, tools: [] }, { maxTokens: 9, cacheTtlMs: 0 }).messages, [
    { role: "user", content: [{ type: "text", text: "go" }] },
    { role: "assistant", content: [{ type: "text", text: "No." }] },
    { role: "user", content: [{ type: "text", text: "R" }] },
    { role: "assistant", content: [{ type: "tool_use", id: "1", name: "c", input: { input: "plain" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "r" }] },
  ]);
});

import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "../../tests/cases.ts";
import { fromAnthropic, fromResponses, toAnthropic, toResponses } from "@tare/wire";

/** A block or an item of a request. */
type Json = Readonly<Record<string, unknown>>;

const text = fc.string({ minLength: 1, unit: "grapheme" });
const mark = fc.constantFrom({}, {}, {}, { cache_control: { type: "ephemeral" } });
const marked = (block: fc.Arbitrary<Json>) =>
  fc.tuple(block, mark).map(([one, more]) => ({ ...one, ...more }));
const image = fc.base64String({ minLength: 4 }).map((data): Json => ({
  type: "image",
  source: { type: "base64", media_type: "image/png", data },
}));
const words = text.map((text): Json => ({ type: "text", text }));

/** Steps of a Messages conversation. */
const steps = fc.array(
  fc.record({
    thinking: fc.option(fc.record({ type: fc.constant("thinking"), thinking: text, signature: text })),
    sealed: fc.option(fc.record({ type: fc.constant("redacted_thinking"), data: text })),
    content: fc.option(words),
    calls: fc.array(
      fc.record({
        input: fc.dictionary(text, fc.jsonValue()),
        result: fc.oneof(text, fc.array(fc.oneof(words, image), { minLength: 1 })),
        failed: fc.option(fc.boolean(), { nil: undefined }),
        more: mark,
      }),
      { maxLength: 3 },
    ),
    asks: fc.array(marked(fc.oneof(words, image)), { maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 6 },
).map((steps) => {
  const messages: { readonly role: string; readonly content: string | readonly Json[] }[] = [
    { role: "user", content: "Find it." },
  ];
  for (const [step, { thinking, sealed, content, calls, asks }] of steps.entries()) {
    const uses = calls.map(({ input }, at) => ({
      type: "tool_use",
      id: `${step}.${at}`,
      name: "read",
      input,
    }));
    const reply = [thinking, sealed, content, ...uses].filter((block) => block !== null);
    if (reply.length > 0) messages.push({ role: "assistant", content: reply });
    const results = calls.map(({ result: content, failed, more }, at): Json => ({
      type: "tool_result",
      tool_use_id: `${step}.${at}`,
      content,
      ...(failed !== undefined && { is_error: failed }),
      ...more,
    }));
    if (results.length + asks.length > 0) messages.push({ role: "user", content: [...results, ...asks] });
  }
  return messages;
});

const anthropicTools = [{ name: "read", description: "Reads.", input_schema: { type: "object" } }];

function everything({ messages, tools }: ReturnType<typeof fromAnthropic>) {
  return { messages, tools, places: messages.map((_, at) => at) };
}

Deno.test("toAnthropic() returns identical messages if nothing was evicted", () => {
  fc.assert(fc.property(steps, (messages) => {
    const request = { model: "claude-sonnet-5", system: "You read.", messages, tools: anthropicTools };
    const before = structuredClone(request);
    const again = toAnthropic(request, everything(fromAnthropic(request)));
    assertEquals(again, before);
    again.messages.forEach((message, at) => assertStrictEquals(message, messages[at]));
    assertStrictEquals(again.tools, request.tools);
  }));
});

Deno.test("toAnthropic() changes only the texts of evicted results", () => {
  fc.assert(fc.property(steps, fc.infiniteStream(fc.boolean()), (messages, choose) => {
    const request = { model: "claude-sonnet-5", messages };
    const view = everything(fromAnthropic(request));
    const left = new Set<string>();
    const visible = view.messages.map((message) => {
      if (message.role !== "tool" || !choose.next().value) return message;
      left.add(message.tool_call_id);
      return { ...message, content: "[elided]" };
    });
    const written = toAnthropic(request, { ...view, messages: visible });
    const expected = messages.map(({ role, content }) => ({
      role,
      content: typeof content === "string"
        ? content
        : content.map((block) =>
          block.type === "tool_result" && left.has(String(block.tool_use_id))
            ? { ...block, content: "[elided]" }
            : block
        ),
    }));
    assertEquals(withoutBreakpoints(written.messages), withoutBreakpoints(expected));
  }));
});

/** Eviction may add and move cache breakpoints. */
function withoutBreakpoints(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value, (name, field) => name === "cache_control" ? undefined : field));
}

Deno.test("fromAnthropic() returns identical messages for unchanged input and reads changed input again", () => {
  const [question, image, result] = [
    { role: "user", content: "Why?" },
    { role: "user", content: [{ type: "image", source: { type: "url", url: "https://a.test/1.png" } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "A line." }] },
  ] as const;
  const reply = {
    role: "assistant",
    content: [{ type: "tool_use", id: "1", name: "look", input: { at: { x: 1 } } }],
  };
  const first = fromAnthropic({ messages: [question, image, reply], tools: anthropicTools });
  const second = fromAnthropic({ messages: [question, image, reply, result], tools: anthropicTools });
  first.messages.forEach((message, at) => assertStrictEquals(second.messages[at], message));
  assertStrictEquals(second.tools[0], first.tools[0]);
  reply.content[0]!.input.at.x = 2;
  const third = fromAnthropic({ messages: [question, image, reply, result] });
  assertEquals(third.messages[2], {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "look", arguments: '{"at":{"x":2}}' } }],
  });
  assertStrictEquals(third.messages[3], second.messages[3]);
});

Deno.test("toAnthropic() omits evicted messages, writes placeholders and adds tools", () => {
  const messages: readonly { readonly role: string; readonly content: string | readonly Json[] }[] = [
    { role: "user", content: [{ type: "text", text: "Why?" }] },
    { role: "assistant", content: [{ type: "text", text: "So." }] },
    { role: "user", content: [{ type: "text", text: "And now?", cache_control: { type: "ephemeral" } }] },
  ];
  const request = { model: "m", system: [{ type: "text", text: "You know." }], messages };
  const { messages: [system, , , last], tools } = fromAnthropic(request);
  const recall = { type: "function", function: { name: "recall", parameters: { type: "object" } } } as const;
  const line = { role: "user", content: "[elided: 2 messages]" } as const;
  const view = { messages: [system!, line, last!], tools: [...tools, recall], places: [0, -1, 3] };
  assertEquals<unknown>(toAnthropic(request, view), {
    ...request,
    messages: [{ role: "user", content: "[elided: 2 messages]" }, messages[2]!],
    tools: [{ name: "recall", input_schema: { type: "object" } }],
  });
});

/** Items of a Responses conversation. */
const items = fc.array(
  fc.record({
    thought: fc.option(fc.record({ summary: text, sealed: text })),
    content: fc.option(text),
    calls: fc.array(
      fc.record({
        arguments: fc.json(),
        output: fc.oneof(
          text,
          text.map((text) => [{ type: "input_text", text }, {
            type: "input_image",
            image_url: "data:image/png;base64,AAAA",
          }]),
        ),
      }),
      { maxLength: 3 },
    ),
    asks: fc.option(text),
  }),
  { minLength: 1, maxLength: 6 },
).map((steps): Json[] =>
  steps.flatMap(({ thought, content, calls, asks }, step): Json[] => [
    ...(thought && (content !== null || calls.length > 0)
      ? [{
        type: "reasoning",
        id: `rs_${step}`,
        summary: [{ type: "summary_text", text: thought.summary }],
        encrypted_content: thought.sealed,
      }]
      : []),
    ...(content !== null
      ? [{
        type: "message",
        id: `m_${step}`,
        role: "assistant",
        content: [{ type: "output_text", text: content, annotations: [] }],
      }]
      : []),
    ...calls.map(({ arguments: args }, at) => ({
      type: "function_call",
      id: `fc_${step}.${at}`,
      call_id: `${step}.${at}`,
      name: "read",
      arguments: args,
    })),
    ...calls.map(({ output }, at) => ({ type: "function_call_output", call_id: `${step}.${at}`, output })),
    ...(asks !== null ? [{ role: "user", content: asks }] : []),
  ])
);

Deno.test("toResponses() returns identical items if nothing was evicted", () => {
  fc.assert(fc.property(items, (input) => {
    const tools = [{ type: "function", name: "read", parameters: { type: "object" }, strict: false }];
    const request = { model: "gpt-5.5", instructions: "You read.", input, tools };
    const before = structuredClone(request);
    const again = toResponses(request, everything(fromResponses(request)));
    assertEquals(again, before);
    again.input.forEach((item, at) => assertStrictEquals(item, input[at]));
  }));
});

Deno.test("toResponses() changes the texts of evicted results and keeps reasoning with its item", () => {
  fc.assert(fc.property(items, fc.infiniteStream(fc.boolean()), (input, choose) => {
    const request = { model: "gpt-5.5", input };
    const view = everything(fromResponses(request));
    const left = new Set<string>();
    const visible = view.messages.map((message) => {
      if (message.role !== "tool" || !choose.next().value) return message;
      left.add(message.tool_call_id);
      return { ...message, content: "[elided]" };
    });
    const isLeft = ({ type, call_id: id }: Json) => type === "function_call_output" && left.has(String(id));
    assertEquals(
      toResponses(request, { ...view, messages: visible }).input,
      input.map((item) => isLeft(item) ? { ...item, output: "[elided]" } : item),
    );
  }));
});

Deno.test("toResponses() omits reasoning only with the call after it", () => {
  const thought = { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "sealed" };
  const input = [
    { role: "user", content: "Why?" },
    thought,
    { type: "function_call", call_id: "1", name: "read", arguments: "{}" },
    { type: "function_call_output", call_id: "1", output: "A line." },
    { ...thought, id: "rs_2" },
    { type: "message", role: "assistant", content: [{ type: "output_text", text: "So." }] },
  ];
  const request = { model: "gpt-5.5", input };
  const { messages, tools } = fromResponses(request);
  assertEquals(messages.map(({ role }) => role), ["user", "assistant", "tool", "assistant"]);
  const view = { tools, messages: [messages[0]!, messages[3]!], places: [0, 3] };
  assertEquals(toResponses(request, view).input, [input[0], input[4], input[5]]);
});

Deno.test("fromResponses() accepts an input of one text", () => {
  const request = { model: "gpt-5.5", input: "Why?" };
  const prompt = fromResponses(request);
  assertEquals(prompt.messages.at(-1), { role: "user", content: "Why?" });
  assertEquals(toResponses(request, everything(prompt)), request);
});

Deno.test("fromAnthropic() and fromResponses() throw for another API's messages with its name", () => {
  const chat = [{ role: "user", content: "Hi." }, { role: "tool", tool_call_id: "1", content: "A line." }];
  assertThrows(
    () => fromAnthropic({ messages: chat }),
    TypeError,
    "Cannot run fromAnthropic(): request.messages[1] must be a message of Anthropic's Messages API, but",
  );
  assertThrows(
    () => fromResponses({ input: chat }),
    TypeError,
    "Cannot run fromResponses(): request.input[1] must be an item of OpenAI's Responses API, but",
  );
  const view = { messages: [], tools: [], places: [] };
  assertThrows(
    () => toAnthropic({ messages: [], tools: [{}] }, view),
    TypeError,
    "request.tools[0] must be",
  );
  assert(fromAnthropic({ messages: chat.slice(0, 1) }).messages.length === 1);
});

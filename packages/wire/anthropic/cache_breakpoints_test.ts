import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { MESSAGES_PROTOCOL, readCacheBreakpoints, readItems, writeRequest } from "@tare/wire/internal";
import { decode, newReaders, requestOf, visible } from "../request_fixture_test.ts";

const SHORT = { type: "ephemeral" };
const HOUR = { type: "ephemeral", ttl: "1h" };
const text = (text: string, mark?: object) => ({
  type: "text",
  text,
  ...(mark && { cache_control: mark }),
});
const result = (id: string, content: unknown, mark?: object) => ({
  type: "tool_result",
  tool_use_id: id,
  content,
  ...(mark && { cache_control: mark }),
});
const use = (id: string, mark?: object) => ({
  type: "tool_use",
  id,
  name: "read",
  input: {},
  ...(mark && { cache_control: mark }),
});
const user = (...content: object[]) => ({ role: "user", content });
const reply = (...content: object[]) => ({ role: "assistant", content });

/**
 * Returns the written breakpoints as `message.block`, with `h` for an hour; `changed` as in
 * {@linkcode visible}.
 */
function breakpointsOf(
  body: { readonly messages: readonly object[]; readonly system?: unknown; readonly tools?: unknown },
  changed: Parameters<typeof visible>[1],
  more: {
    readonly sharedCount?: number;
    readonly line?: number;
    readonly completesBreakpoints?: "some" | "any";
    readonly isLast?: boolean;
  } = {},
): string {
  const request = requestOf({ model: "m", system: "S", ...body }, MESSAGES_PROTOCOL);
  // Indexes start at the last message of the system prompt.
  const front = request.items[0]!.parts.length - 1;
  const prompt = visible(
    request,
    Object.fromEntries(Object.entries(changed ?? {}).map(([at, change]) => [Number(at) + front, change])),
  );
  const messages: Message[] = [...prompt.messages];
  const places = [...prompt.places];
  if (more.line !== undefined) {
    messages.splice(more.line + front, 0, { role: "user", content: "[elided: 2 messages]" });
    places.splice(more.line + front, 0, -1);
  }
  const history = request.items.flatMap(({ parts }) => parts.map(({ message }) => message));
  const edited = 1 + messages.findLastIndex((message, at) => message !== history[places[at]!]);
  const stable = { shared: messages.length, edited };
  const { completesBreakpoints, isLast = false } = more;
  const sharedCount = more.sharedCount === undefined ? undefined : more.sharedCount + front;
  const bytes = writeRequest(request, {
    ...prompt,
    messages,
    places,
    stable,
    sharedCount,
    completesBreakpoints,
    isLast,
  });
  return standing(JSON.parse(decode(bytes)).messages);
}

function standing(messages: readonly { readonly content: unknown }[]): string {
  return messages.flatMap(({ content }, at) =>
    (Array.isArray(content) ? content : []).flatMap((block, index) => {
      const mark = block.cache_control;
      return mark ? [`${at}.${index}${mark.ttl ? "h" : ""}`] : [];
    })
  ).join(" ");
}

const TWO_STEPS = (mark: object) => [
  { role: "user", content: "Go." },
  reply(use("a"), use("b")),
  user(result("a", "A."), result("b", "B.", mark), text("Hm?")),
  reply(use("c")),
  user(result("c", "C.", mark)),
];

Deno.test("arrangeItems() moves the breakpoint of an evicted block to the nearest block before", () => {
  const messages = TWO_STEPS(SHORT);
  const four = [text("S", SHORT), text("T", SHORT)];
  const breakpointsAt = (changed: Parameters<typeof visible>[1], line?: number) =>
    breakpointsOf({ system: four, messages }, changed, line === undefined ? {} : { line });
  // All breakpoints are taken.
  assertEquals(breakpointsAt({ 3: { content: "[1]" } }), "2.1 4.0");
  assertEquals(breakpointsAt({ 4: { content: "[2]" } }), "2.1 4.0");
  assertEquals(breakpointsAt({ 4: null }), "2.0 4.0");
  // Only the text next to the evicted results stays.
  assertEquals(breakpointsAt({ 2: null, 3: null, 4: null }), "0.0 3.0");
  assertEquals(breakpointsAt({ 2: null, 3: null, 4: null }, 2), "1.0 4.0");
  assertEquals(breakpointsAt({ 6: null, 7: null }), "2.1 2.2");
});

Deno.test("arrangeItems() moves a breakpoint inside a result to the result", () => {
  const messages = [{ role: "user", content: "Go." }, reply(use("a")), user(result("a", [text("A.", HOUR)]))];
  const system = [text("S", HOUR), text("T", HOUR), text("U", HOUR)];
  assertEquals(breakpointsOf({ system, messages }, { 3: { content: "[1]" } }), "2.0h");
});

Deno.test("arrangeItems() skips thinking and empty texts, and converts a text to a block", () => {
  const system = [text("S", SHORT), text("T", SHORT), text("U", SHORT)];
  const thoughts = { type: "thinking", thinking: "Hm.", signature: "s" };
  const messages = [
    { role: "user", content: "Go." },
    { role: "user", content: "" },
    reply(thoughts),
    reply(use("a"), use("b", SHORT)),
    user(result("a", "A."), result("b", "B.")),
    { role: "user", content: "More." },
  ];
  assertEquals(breakpointsOf({ system, messages }, { 4: null, 5: null, 6: null }), "0.0");
});

Deno.test("arrangeItems() adds a breakpoint before a change, then after the last change", () => {
  const unmarked = TWO_STEPS(SHORT).map((message, at) =>
    at === 2 ? user(result("a", "A."), result("b", "B."), text("Hm?")) : message
  );
  const system = [text("S", SHORT), text("T", SHORT)];
  const breakpointsAt = (sharedCount?: number) =>
    breakpointsOf(
      { system, messages: unmarked },
      { 4: { content: "[2]" } },
      sharedCount === undefined ? {} : { sharedCount },
    );
  assertEquals(breakpointsAt(), "2.2 4.0");
  // System, user, reply and first result are unchanged.
  assertEquals(breakpointsAt(4), "2.0 4.0");
  assertEquals(breakpointsAt(3), "1.1 4.0");
  const few = breakpointsOf({ messages: unmarked }, { 4: { content: "[2]" } }, { sharedCount: 3 });
  assertEquals(few, "1.1 2.2 4.0");
});

Deno.test("arrangeItems() adds no breakpoint to a request with none or four, or one that only grows", () => {
  const plain = TWO_STEPS(SHORT).map((message) =>
    JSON.parse(JSON.stringify(message, (name, value) => name === "cache_control" ? undefined : value))
  );
  assertEquals(breakpointsOf({ messages: plain }, { 3: { content: "[1]" } }, { sharedCount: 3 }), "");
  const system = [text("S", SHORT), text("T", SHORT)];
  const tools = [{ name: "t", input_schema: { type: "object" }, cache_control: SHORT }];
  assertEquals(breakpointsOf({ system, tools, messages: TWO_STEPS(SHORT).slice(2) }, {}), "0.1 2.0");
  assertEquals(
    breakpointsOf({ system, tools: [...tools, ...tools], messages: plain }, { 3: { content: "[1]" } }),
    "",
  );
});

Deno.test("arrangeItems() completes a continued conversation's missing end breakpoint within the four", () => {
  const plain = JSON.parse(
    JSON.stringify(TWO_STEPS(SHORT)).replaceAll(`,"cache_control":${JSON.stringify(SHORT)}`, ""),
  );
  const front = (mark: object) => ({ system: [text("S", mark)] });
  const completed = (
    body: Parameters<typeof breakpointsOf>[0],
    changed = {},
    completesBreakpoints: "some" | "any" = "some",
  ) => breakpointsOf(body, changed, { completesBreakpoints });
  assertEquals(completed({ ...front(SHORT), messages: plain }), "4.0");
  // The last edit also gets one.
  assertEquals(completed({ ...front(SHORT), messages: plain }, { 4: { content: "[2]" } }), "2.2 4.0");
  // The prefix is cached for an hour; new text for the shorter time.
  assertEquals(completed({ ...front(HOUR), messages: plain }), "4.0");
  assertEquals(completed({ ...front(HOUR), messages: TWO_STEPS(HOUR).slice(0, 3) }), "2.1h");
  const older = [...TWO_STEPS(HOUR).slice(0, 3), ...plain.slice(3)];
  assertEquals(completed({ ...front(HOUR), messages: older }), "2.1h 4.0h");
  // Nothing is added to a breakpoint at the end, four, none, or a request without a reply.
  assertEquals(completed({ ...front(SHORT), messages: TWO_STEPS(SHORT).slice(0, 3) }), "2.1");
  assertEquals(completed({ ...front(SHORT), messages: plain, cache_control: SHORT } as never), "");
  assertEquals(
    completed({ system: ["S", "T", "U", "V"].map((one) => text(one, SHORT)), messages: plain }),
    "",
  );
  assertEquals(completed({ messages: plain }), "");
  assertEquals(completed({ messages: plain }, {}, "any"), "4.0");
  assertEquals(completed({ messages: plain.slice(0, 1) }, {}, "any"), "");
  assertEquals(completed({ ...front(SHORT), messages: plain.slice(0, 1) }), "");
  assertEquals(breakpointsOf({ ...front(SHORT), messages: plain }, {}), "");
});

Deno.test("arrangeItems() sets a final request's breakpoint on the cached prefix instead of the end", () => {
  const messages = (end?: object, system?: object) => ({
    system: [{ type: "text", text: "S", cache_control: SHORT }, { type: "text", text: "T", ...system }],
    messages: [
      user(text("a")),
      reply(use("1")),
      user(result("1", "one")),
      reply(use("2", SHORT)),
      user(result("2", "two"), text("Sum up.", end)),
    ],
  });
  const more = { sharedCount: 3, completesBreakpoints: "some" } as const;
  assertEquals(breakpointsOf(messages(), {}, { ...more, isLast: true }), "1.0 3.0");
  assertEquals(breakpointsOf(messages(), {}, more), "1.0 3.0 4.1");
  const four = messages(SHORT, { cache_control: SHORT });
  assertEquals(breakpointsOf(four, {}, { ...more, isLast: true }), "1.0 3.0");
  assertEquals(breakpointsOf(four, {}, more), "3.0 4.1");
});

Deno.test("arrangeItems() gives an added breakpoint the lifetime of the next one", () => {
  const messages = [
    { role: "user", content: "Go." },
    reply(use("a")),
    user(result("a", "A.")),
    reply(use("b")),
    user(result("b", "B.", HOUR)),
    { role: "user", content: [text("C.", SHORT)] },
  ];
  assertEquals(breakpointsOf({ messages }, { 3: { content: "[1]" } }), "2.0h 4.0h 5.0");
  const whole = { messages: messages.slice(0, 3), cache_control: HOUR };
  assertEquals(breakpointsOf(whole, { 3: { content: "[1]" } }), "2.0h");
});

Deno.test("arrangeItems() keeps breakpoints of replaced messages and adds one after added items", () => {
  const readers = newReaders();
  const messages = [
    { role: "user", content: "Go." },
    reply(text("Found."), use("a", SHORT)),
    user(result("a", "A.", SHORT)),
  ];
  const request = requestOf({ model: "m", messages }, MESSAGES_PROTOCOL, readers);
  const system = [text("S", SHORT), text("T", SHORT)];
  const full = requestOf({ model: "m", system, messages }, MESSAGES_PROTOCOL, readers);
  const itemsOf = (...values: object[]) =>
    readItems(values.map((value) => JSON.stringify(value)), { protocol: MESSAGES_PROTOCOL, readers });
  const hidden = itemsOf(reply(use("r")), user(result("r", "R.")), reply(text("Found."), use("a")));
  const added = itemsOf(reply(use("s")), user(result("s", "S.")));
  const items = [...request.items.slice(0, 2), ...hidden, ...request.items.slice(3), ...added];
  const written = JSON.parse(decode(writeRequest(request, visible({ ...request, items })))).messages;
  assertEquals(written.length, 7);
  assertEquals(standing(written), "3.1 4.0 6.0");
  // If all four are taken, the last one moves to the end.
  const more = [...full.items, ...added];
  const history = JSON.parse(decode(writeRequest(full, visible({ ...full, items: more })))).messages;
  assertEquals(standing(history), "1.1 4.0");
  // The same with three, if one is needed before the change.
  const three = requestOf(
    { model: "m", system, messages: messages.with(1, reply(use("a"))) },
    MESSAGES_PROTOCOL,
    readers,
  );
  const changed = { ...three, items: [...three.items, ...added] };
  const moved = (sharedCount?: number) =>
    standing(
      JSON.parse(
        decode(writeRequest(three, { ...visible(changed, { 4: { content: "line" } }), sharedCount })),
      )
        .messages,
    );
  assertEquals([moved(), moved(3)], ["2.0 4.0", "0.0 4.0"]);
});

Deno.test("readCacheBreakpoints() returns all breakpoints in prompt order", () => {
  const body = {
    model: "m",
    tools: [{ name: "t", input_schema: {} }, { name: "u", input_schema: {}, cache_control: HOUR }],
    system: [text("S", HOUR), text("T")],
    messages: TWO_STEPS(SHORT),
    cache_control: SHORT,
  };
  const request = requestOf(body, MESSAGES_PROTOCOL);
  const [hour, short] = [3_600_000, 300_000];
  assertEquals(readCacheBreakpoints(request), [
    { of: "tool", at: 1, ttlMs: hour },
    { of: "message", at: 0, ttlMs: hour },
    { of: "message", at: 5, ttlMs: short },
    { of: "message", at: 8, ttlMs: short },
    { of: "message", at: 8, ttlMs: short },
  ]);
  const ttl = (body: object) =>
    MESSAGES_PROTOCOL.cacheTtlMs?.(requestOf({ model: "m", messages: [], ...body }, MESSAGES_PROTOCOL));
  assertEquals([ttl({}), ttl({ system: [text("S", HOUR)] }), ttl(body)], [0, hour, short]);
});

Deno.test("writeRequest() reports the message counts before its breakpoints, including added ones", () => {
  const endsOf = (body: object, changed: Parameters<typeof visible>[1], sharedCount?: number) => {
    const request = requestOf({ model: "m", messages: TWO_STEPS(SHORT), ...body }, MESSAGES_PROTOCOL);
    let ends: readonly number[] = [];
    const stable = { shared: 0, edited: 1 + Math.max(-1, ...Object.keys(changed ?? {}).map(Number)) };
    writeRequest(request, { ...visible(request, changed), sharedCount, stable, marked: (at) => ends = at });
    return [...ends].sort((a, b) => a - b);
  };
  assertEquals(endsOf({}, {}), [4, 7]);
  const tools = [{ name: "read", input_schema: {}, cache_control: SHORT }];
  assertEquals(endsOf({ tools, system: [text("S", SHORT)] }, {}), [0, 1, 5, 8]);
  // The first block of a system prompt may be cached without the second.
  assertEquals(endsOf({ system: [text("S", SHORT), text("T"), text("U", SHORT), text("V")] }, {}), [
    1,
    3,
    8,
    11,
  ]);
  assertEquals(endsOf({ cache_control: SHORT }, {}), [4, 7, 7]);
  // Breakpoints are added before the edited result and after its message.
  assertEquals(endsOf({}, { 2: { content: "line" } }, 2), [2, 4, 5, 7]);
  // An edited result keeps its breakpoint.
  assertEquals(endsOf({}, { 3: { content: "B" } }), [4, 5, 7]);
  const messages = [{ role: "user", content: "Go." }];
  assertEquals(endsOf({ messages }, {}), []);
});

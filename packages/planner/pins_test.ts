import { assert, assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import {
  type Pin,
  plannerSession,
  profileNamed,
  type PromptSessionOptions,
  type SessionView,
} from "@tare/planner";
import { makePin } from "@tare/planner/internal";
import { memoryArchive } from "@tare/prune";

const OFF = { context: false, schemas: false, truncate: false, references: false, normalization: false };
const DAY_MS = 24 * 60 * 60 * 1_000;
const question: Message = { role: "user", content: "And now?" };
const answer: Message = { role: "assistant", content: "ok" };

function turn(id: string, tokens: number): Message[] {
  const call = { id, type: "function", function: { name: "read", arguments: `{"of":"${id}"}` } } as const;
  return [
    { role: "user", content: `Read ${id}.` },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: id, content: `${id}${"x".repeat(4 * tokens - 1)}` },
    answer,
  ];
}

function make(options: Partial<PromptSessionOptions>) {
  const session = plannerSession({
    profile: { ...profileNamed("anthropic-5m"), minTokens: 0 },
    archive: memoryArchive(),
    countTokens: estimateTokens,
    mechanisms: OFF,
    ...options,
  });
  const call = async (messages: readonly Message[], { nowMs = 0, pins = [] as readonly Pin[] } = {}) => {
    const view = await session.view({ messages, tools: [] }, { nowMs, pins, recall: true });
    const { promptTokens, predictedCachedTokens } = view;
    session.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 1 }, view);
    return view;
  };
  return { session, call };
}

const visibleAt = ({ messages, places }: SessionView, place: number) => messages[places.indexOf(place)];
const rewritesOf = ({ rewrites }: SessionView) =>
  rewrites.map(({ mechanism, pins }) => ({ mechanism, pins }));

Deno.test("pins: a warm prefix isn't broken for a pin, which waits for the next rewrite or a cold cache", async () => {
  const { call } = make({});
  const messages: Message[] = [...turn("a", 10_000), ...turn("b", 400), question];
  let view = await call(messages);
  while (view.rewrites.length === 0) {
    messages.push(answer, question);
    view = await call(messages);
  }
  messages.push(answer, ...turn("c", 300), question);
  view = await call(messages);
  const place = messages.findLastIndex(({ role }) => role === "tool");
  assert(visibleAt(view, 2) !== messages[2] && visibleAt(view, place) === messages[place]);
  const pins = [
    makePin(messages, { place: 2, wish: "retain", by: "ada" }, { countTokens: estimateTokens }),
    makePin(messages, { place, wish: "evict" }, { countTokens: estimateTokens }),
  ];
  for (let calls = 0; calls < 3; calls++) {
    const before = view;
    messages.push(answer, question);
    view = await call(messages, { pins });
    assertEquals(view.rewrites, []);
    assertEquals(view.messages.slice(0, before.messages.length), before.messages);
  }
  messages.push(answer, question);
  view = await call(messages, { pins, nowMs: 10_000_000_000 });
  assertEquals(rewritesOf(view), [{
    mechanism: "pins",
    pins: [
      { place, wish: "evict", by: "user" },
      { place: 2, wish: "retain", by: "ada" },
    ],
  }]);
  assertEquals([visibleAt(view, 2) === messages[2], visibleAt(view, place) === messages[place]], [
    true,
    false,
  ]);
  messages.push(answer, question);
  view = await call(messages, { pins, nowMs: 10_000_001_000 });
  assertEquals([view.rewrites, visibleAt(view, 2)], [[], messages[2]]);
});

Deno.test("pins: a retained result is restored with its call, and an evicted one stays evicted", async () => {
  const { call } = make({
    profile: profileNamed("none"),
    windowTokens: 100_000,
    mechanisms: { ...OFF, prune: false, context: true },
  });
  const messages: Message[] = [];
  const play = async (id: string, pins: readonly Pin[] = []) => {
    const [prompt, ...rest] = turn(id, 5_000);
    messages.push(prompt!);
    await call(messages, { pins });
    messages.push(...rest.slice(0, 2));
    const view = await call(messages, { pins });
    messages.push(...rest.slice(2));
    return view;
  };
  for (const id of "abcd") await play(id);
  messages.push(question);
  let view = await call(messages);
  assertEquals([1, 2].map((place) => visibleAt(view, place)), [undefined, undefined]);
  const retained = makePin(messages, { place: 2, wish: "retain" }, { countTokens: estimateTokens });
  messages.push(answer, question);
  view = await call(messages, { pins: [retained] });
  assertEquals([1, 2].map((place) => visibleAt(view, place)), messages.slice(1, 3));

  messages.push(answer);
  const place = messages.length + 2;
  const pins = [
    retained,
    makePin([...messages, ...turn("e", 5_000)], { place, wish: "evict" }, { countTokens: estimateTokens }),
  ];
  view = await play("e", pins);
  assertEquals(visibleAt(view, place), messages[place]);
  for (let calls = 0; calls < 3; calls++) {
    messages.push(question);
    view = await call(messages, { pins });
    messages.push(answer);
    assertEquals([visibleAt(view, place) === messages[place], visibleAt(view, 2)], [false, messages[2]]);
  }
  assertEquals(view.rewrites, []);
});

Deno.test("pins: a full window evicts retained messages last, ends their pins and warns", async () => {
  const { call } = make({ windowTokens: 10_000, profile: profileNamed("none") });
  const messages: Message[] = [...turn("a", 4_000), question];
  const pins = [makePin(messages, { place: 2, wish: "retain" }, { countTokens: estimateTokens })];
  await call(messages, { pins });
  messages.push(answer, ...turn("b", 3_000), question);
  const some = await call(messages, { pins });
  assertEquals([visibleAt(some, 2), some.endedPins], [messages[2], undefined]);
  messages.push(answer, { role: "user", content: "y".repeat(4 * 6_000) });
  const full = await call(messages, { pins });
  assertEquals([full.endedPins, visibleAt(full, 2) === messages[2]], [pins, false]);
  assertEquals(full.warnings, [
    "The window is full: message 2, pinned by user, was evicted. The pin has ended.",
  ]);
  // Messages without room aren't restored.
  messages.push(answer, question);
  const back = await call(messages, { pins });
  assertEquals([back.endedPins, visibleAt(back, 2) === messages[2]], [pins, false]);
  assertEquals(back.warnings, [
    "Cannot restore message 2, pinned by user: it would fill the window. The pin has ended.",
  ]);
});

Deno.test("pins: the pin of a new result that is truncated ends, permanently", async () => {
  const { session, call } = make({ windowTokens: 10_000, mechanisms: { truncate: false } });
  const [question, reply, result] = turn("a", 1);
  await call([question!]);
  // The provider's count of such characters is unknown yet.
  const messages = [question!, reply!, { ...result!, content: "字".repeat(4_500) }];
  const pins = [makePin(messages, { place: 2, wish: "retain" }, { countTokens: estimateTokens })];
  const cut = await session.view({ messages, tools: [] }, { nowMs: 0, pins, recall: true });
  assertEquals([cut.endedPins, cut.places, visibleAt(cut, 2) === messages[2]], [pins, [0, 1, 2], false]);
  const { state } = session;
  const again = await session.view({ messages, tools: [] }, { nowMs: 0, recall: true });
  assertStrictEquals(session.state, state);
  assertEquals([again.messages, again.rewrites], [cut.messages, []]);
});

Deno.test("pins: a new result keeps its form when a possible source is restored with it", async () => {
  const { session, call } = make({
    mechanisms: { ...OFF, references: true, truncate: true },
    truncateTokens: 500,
  });
  const [prompt, reply] = turn("a", 1);
  const content = Array.from({ length: 80 }, (_, at) => `line ${at} of the file`).join("\n");
  const read: Message[] = [prompt!, reply!, { role: "tool", tool_call_id: "a", content }, answer];
  const messages: Message[] = [...read, question];
  await call(messages);
  await call(messages, {
    nowMs: DAY_MS,
    pins: [makePin(messages, { place: 2, wish: "evict" }, { countTokens: estimateTokens })],
  });
  // An evicted step makes everything be evaluated again.
  const calls = [...turn("b", 5_000).slice(1, 3), ...turn("c", 1).slice(1, 2)];
  messages.push(
    {
      role: "assistant",
      tool_calls: calls.flatMap((one) => "tool_calls" in one ? one.tool_calls ?? [] : []),
    },
    calls[1]!,
    { role: "tool", tool_call_id: "c", content },
  );
  const pins = [makePin(messages, { place: 2, wish: "retain" }, { countTokens: estimateTokens })];
  const view = () => session.view({ messages, tools: [] }, { nowMs: 2 * DAY_MS, pins, recall: true });
  const back = await view();
  assertEquals([visibleAt(back, 2), visibleAt(back, 7)], [messages[2], messages[7]]);
  const { state } = session;
  const again = await view();
  assertStrictEquals(session.state, state);
  assertEquals(again.messages, back.messages);
});

Deno.test("pins: another message in a pin's place is not affected, and nothing is in a dry run", async () => {
  const history = [...turn("a", 4_000), question];
  const pins = [makePin(history, { place: 2, wish: "evict" }, { countTokens: estimateTokens })];
  const { call, session } = make({ profile: profileNamed("none"), mechanisms: { ...OFF, prune: false } });
  assertEquals((await call(history, { pins })).messages, history);
  assertEquals(session.noPins, "this session's prompts are sent unchanged");
  const other = make({ profile: profileNamed("none") });
  const changed = [...turn("z", 80), question];
  assertEquals((await other.call(changed, { pins })).rewrites.flatMap(({ pins = [] }) => pins), []);
  assertEquals(other.session.noPins, undefined);
});

Deno.test("pins: an image of a known tool is evicted with all its content, and restored", async () => {
  const archive = memoryArchive();
  const tools = { read: {} };
  const { call } = make({ archive, tools });
  const content = [
    { type: "text", text: "a picture" },
    { type: "image_url", image_url: { url: "data:image/png;base64,AQID" } },
  ] as const;
  const [prompt, reply] = turn("a", 1);
  const history: Message[] = [
    prompt!,
    reply!,
    { role: "tool", tool_call_id: "a", content },
    answer,
    question,
  ];
  const pinned = (
    wish: Pin["wish"],
  ) => [makePin(history, { place: 2, wish }, { countTokens: estimateTokens, tools })];
  await call(history);
  const view = await call(history, { pins: pinned("evict"), nowMs: DAY_MS });
  const line = visibleAt(view, 2)?.content;
  const [, ref = ""] = /ref ([0-9a-f]{16})/.exec(String(line)) ?? [];
  assertEquals(await archive.get(ref), JSON.stringify(content));
  assertEquals(visibleAt(await call(history, { pins: pinned("retain"), nowMs: 2 * DAY_MS }), 2), history[2]);
});

Deno.test("makePin() throws with the reason if a message can't be evicted or retained", () => {
  const image = { type: "image_url", image_url: { url: "data:," } } as const;
  const history: Message[] = [
    { role: "developer", content: "Be brief." },
    ...turn("a", 10),
    { role: "tool", tool_call_id: "p", content: [image] },
    { role: "tool", tool_call_id: "k", content: "x".repeat(400), keep: true },
  ];
  for (
    const [place, wish, why] of [
      [0, "retain", "instructions are never evicted"],
      [7, "evict", "the session has 7 messages, numbered from 0"],
      [2, "evict", "it is the assistant's. Only tool results can be evicted"],
      [3, "evict", "it is no longer than its placeholder"],
      [5, "evict", "only its text could be recalled"],
      [6, "evict", "the provider requires it in its place"],
    ] as const
  ) {
    assertThrows(() => makePin(history, { place, wish }, { countTokens: estimateTokens }), RangeError, why);
  }
});

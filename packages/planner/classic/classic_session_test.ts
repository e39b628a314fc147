import { assertEquals, assertMatch, assertStrictEquals, assertThrows } from "@std/assert";
import {
  countRequestTokens,
  estimateTokens,
  type Message,
  type Tool,
  type ToolDefinition,
} from "@tare/messages";
import { type Mechanisms, profileNamed, type PromptSession, type SessionView } from "@tare/planner";
import { type ClassicOptions, classicSession, type ClassicTriggers } from "./classic_session.ts";
import { type Archive, memoryArchive } from "@tare/prune";

const HOUR = 60 * 60 * 1000;
const OFF = {
  context: false,
  prune: false,
  schemas: false,
  truncate: false,
  references: false,
  normalization: false,
};

const read: Tool = {
  definition: {
    type: "function",
    function: {
      name: "read",
      description: "Reads a file. ".repeat(200),
      parameters: { type: "object", properties: { path: { type: "string", description: "A path." } } },
    },
  },
  stance: "rederivable",
  run: () => "",
};

function named(name: string): ToolDefinition {
  return { ...read.definition, function: { ...read.definition.function, name } };
}

function tokensOf(messages: readonly Message[]): number {
  return countRequestTokens({ messages }, estimateTokens);
}

function refOf(message: Message | undefined, form: RegExp): string {
  assertMatch(String(message?.content), form);
  return form.exec(String(message?.content))![1]!;
}

function turn(id: string, tokens: number, answer?: string): Message[] {
  const call = { id, type: "function", function: { name: "read", arguments: `{"path":"${id}"}` } } as const;
  return [
    { role: "user", content: `Read ${id}.` },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: id, content: `${id} `.repeat(tokens * 4 / (id.length + 1)) },
    ...(answer === undefined ? [] : [{ role: "assistant", content: answer } as const]),
  ];
}

interface Harness {
  readonly session: PromptSession;
  readonly archive: Archive;
  readonly view: (messages: readonly Message[], step: number, nowMs?: number) => Promise<SessionView>;
}

function harness(on: Partial<Mechanisms>, options: Partial<ClassicOptions> = {}): Harness {
  const archive = memoryArchive();
  const session = classicSession({
    mechanisms: { ...OFF, ...on },
    profile: profileNamed("none"),
    windowTokens: 1_000_000,
    tools: { read },
    archive,
    countTokens: estimateTokens,
    ...options,
  });
  return {
    session,
    archive,
    view(messages, step, nowMs = 0) {
      const turnStart = messages.findLastIndex(({ role }) => role === "user");
      return session.view({ messages, tools: [read.definition] }, { nowMs, turnStart, step });
    },
  };
}

const usage = { promptTokens: 100, cachedTokens: 0, outputTokens: 1 };

Deno.test("classicSession() with everything off shows all", async () => {
  const { view } = harness({});
  const messages = [...turn("a", 20_000, "ok"), ...turn("b", 20_000)];
  const seen = await view(messages, 2);
  assertEquals([seen.messages, seen.tools, seen.rewrites, seen.warnings, seen.saved], [
    messages,
    [read.definition],
    [],
    [],
    { context: 0, schemas: 0, prune: 0, truncate: 0, references: 0, normalization: 0 },
  ]);
});

Deno.test("classicSession() truncates a huge result before its first send, permanently", async () => {
  const { view, archive, session } = harness({ truncate: true });
  const messages = turn("big", 20_000);
  const first = await view(messages, 2);
  assertEquals(first.rewrites.map(({ mechanism, removed }) => [mechanism, removed.replace(/^\d+/, "N")]), [
    ["truncate", "N tokens of 1 result of read"],
  ]);
  session.sent(usage);
  const later = await view([...messages, { role: "assistant", content: "ok" }, ...turn("b", 10)], 2);
  assertEquals(later.messages.slice(0, 3), first.messages);
  assertEquals([later.rewrites, later.saved.truncate], [[], first.saved.truncate]);
  const ref = /ref ([0-9a-f]{16})/.exec(String(first.messages[2]!.content))![1]!;
  assertEquals(await archive.get(ref), messages[2]!.content);
});

Deno.test("classicSession() keeps a warm history unchanged until the window fills up, then prunes once, permanently", async () => {
  const { view, session } = harness({ prune: true }, { windowTokens: 60_000 });
  const history = [...turn("a", 10_000, "ok"), ...turn("b", 10_000, "ok"), ...turn("c", 10_000, "ok")];
  const warm = await view([...history, { role: "user", content: "go on" }], 1);
  assertEquals([warm.messages.slice(0, -1), warm.rewrites], [history, []]);
  session.sent(usage);
  const full = [...history, ...turn("d", 18_000)];
  const pruned = await view(full, 2);
  assertEquals(pruned.rewrites.map(({ mechanism }) => mechanism), ["prune"]);
  const changed = pruned.messages.flatMap((message, index) => message === full[index] ? [] : [index]);
  assertEquals(changed, [2, 6, 10]);
  assertMatch(String(pruned.messages[2]!.content), /^\[elided: read result, \d+ bytes; run again/);
  const again = await view(
    [...full, { role: "assistant", content: "ok" }, { role: "user", content: "more" }],
    1,
  );
  assertEquals(again.messages.slice(0, full.length), pruned.messages);
  assertEquals([again.rewrites, again.saved.prune], [[], pruned.saved.prune]);
});

Deno.test("classicSession() corrects for a tokenizer that counts more", async () => {
  const { view, session } = harness({ prune: true }, { windowTokens: 60_000 });
  const history = [...turn("a", 18_000, "ok"), ...turn("b", 18_000, "ok")];
  const messages: Message[] = [...history, { role: "user", content: "go on" }];
  const first = await view(messages, 1);
  assertEquals(first.rewrites, []);
  session.sent({ ...usage, promptTokens: 1.4 * 36_800 });
  assertEquals((await view(messages, 1)).rewrites.map(({ mechanism }) => mechanism), ["prune"]);
});

Deno.test("classicSession() prunes on cold resume, not on warm resume and not when the last use is unknown", async () => {
  let nowMs = 0;
  const profile = { ...profileNamed("none"), coldAfterMs: HOUR };
  const messages = [...turn("a", 10_000, "ok"), ...turn("b", 18_000, "ok"), ...turn("c", 10)];
  for (const [idleMs, used, expected] of [[HOUR, true, 1], [HOUR - 1, true, 0], [HOUR, false, 0]] as const) {
    const { view, session } = harness({ prune: true }, { profile });
    await view(messages.slice(0, 4), 1, nowMs);
    if (used) session.sent(usage);
    nowMs += idleMs;
    assertEquals((await view(messages, 1, nowMs)).rewrites.length, expected);
  }
});

Deno.test("classicSession() counts every successful request of a long turn as a use", async () => {
  let nowMs = 0;
  const profile = { ...profileNamed("none"), coldAfterMs: HOUR };
  const { view, session } = harness({ prune: true }, { profile });
  const messages = [...turn("a", 10_000, "ok"), ...turn("b", 18_000, "ok"), ...turn("c", 10)];
  for (let step = 1; step <= 4; step++) {
    assertEquals((await view(messages, step, nowMs)).rewrites, []);
    session.sent(usage);
    nowMs += HOUR / 2;
  }
  assertEquals((await view(messages, 1, nowMs)).rewrites, []);
});

Deno.test("classicSession() changes nothing and warns when the archive fails", async () => {
  const archive: Archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { view } = harness({ prune: true, truncate: true }, { archive, windowTokens: 40_000 });
  const messages = [...turn("a", 20_000, "ok"), ...turn("b", 18_000)];
  const seen = await view(messages, 2);
  assertEquals(seen.messages, messages);
  assertEquals(seen.warnings, [
    "Cannot archive a result of read: the disk is full. Nothing was evicted.",
    "Cannot archive a result of read: the disk is full. Nothing was evicted.",
  ]);
});

Deno.test("classicSession() fits old turns into a budget from the second call of a turn on, archived, and reports it once", async () => {
  const { view, session, archive } = harness({ context: true });
  const history = [...turn("a", 15_000, "ok"), ...turn("b", 10_000, "ok")];
  const active = turn("c", 10);
  const first = await view([...history, active[0]!], 1);
  assertEquals([first.messages.length, first.rewrites], [9, []]);
  session.sent(usage);
  const second = await view([...history, ...active], 2);
  const [line, ...rest] = second.messages;
  assertEquals(rest, [...history.slice(4), ...active]);
  assertEquals([line?.role, second.places], ["user", [-1, 4, 5, 6, 7, 8, 9, 10]]);
  const ref = refOf(line, /^\[elided: 4 messages, \d+ bytes; ref ([0-9a-f]{16})\]$/);
  assertEquals((await archive.get(ref))?.split("\n").map((json) => JSON.parse(json)), history.slice(0, 4));
  assertEquals(second.rewrites.map(({ mechanism, removed }) => [mechanism, removed]), [[
    "context",
    "1 old turn",
  ]]);
  assertEquals(second.saved.context, tokensOf([...history, ...active]) - tokensOf(second.messages));
  session.sent(usage);
  const third = await view([...history, ...active, ...turn("d", 10).slice(1)], 3);
  assertEquals([third.rewrites, third.messages.slice(0, second.messages.length)], [[], second.messages]);
});

Deno.test("classicSession() keeps all turns if it can't archive them, and warns", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { view } = harness({ context: true }, { archive });
  const messages = [...turn("a", 20_000, "ok"), ...turn("b", 10)];
  const seen = await view(messages, 2);
  assertEquals([seen.messages, seen.places.at(-1), seen.rewrites, seen.warnings], [messages, 6, [], [
    "Cannot archive 4 messages to omit: the disk is full. Nothing was evicted.",
  ]]);
});

Deno.test("classicSession() uses configured triggers", async () => {
  const history = [...turn("a", 3_000, "ok"), ...turn("b", 3_000, "ok")];
  const messages = [...history, ...turn("c", 10)];
  const small = harness({ context: true }, { triggers: { historyBudgetTokens: 4_000 } });
  assertEquals((await small.view(messages, 2)).messages.slice(1), messages.slice(4));
  const rewritesIn = async (triggers: ClassicTriggers, nowMs = 0) => {
    const { view, session } = harness({ prune: true }, { triggers, windowTokens: 10_000 });
    await view(history.slice(0, 1), 1);
    session.sent(usage);
    return (await view([...history, { role: "user", content: "go on" }], 1, nowMs)).rewrites
      .map(({ removed }) => removed.replace(/^\d+/, "N"));
  };
  const both = "N tokens of 2 results of read";
  assertEquals(await rewritesIn({ protectTokens: 0 }), []);
  assertEquals(await rewritesIn({ protectTokens: 0, pruneAt: 0.6 }), [both]);
  assertEquals(await rewritesIn({ protectTokens: 3_500, pruneAt: 0.6 }), ["N tokens of 1 result of read"]);
  assertEquals(await rewritesIn({ protectTokens: 0, minBytes: 20_000, pruneAt: 0.6 }), []);
  assertEquals(await rewritesIn({ protectTokens: 0, coldAfterMs: HOUR }, HOUR - 1), []);
  assertEquals(await rewritesIn({ protectTokens: 0, coldAfterMs: HOUR }, HOUR), [both]);
  // The trigger takes precedence over the profile.
  const profiled = async (idleMs: number, triggers: ClassicTriggers = {}) => {
    const { view, session } = harness({ prune: true }, {
      profile: profileNamed("anthropic-5m"),
      triggers: { protectTokens: 0, ...triggers },
    });
    await view(history.slice(0, 1), 1);
    session.sent(usage);
    return (await view([...history, { role: "user", content: "go on" }], 1, idleMs)).rewrites.length;
  };
  assertEquals([await profiled(2 * HOUR - 1), await profiled(2 * HOUR)], [0, 1]);
  assertEquals(await profiled(2 * HOUR, { coldAfterMs: 3 * HOUR }), 0);
  const limited = harness({ truncate: true }, { truncateTokens: 1_000 });
  assertEquals((await limited.view(turn("a", 3_000), 2)).rewrites.length, 1);
});

Deno.test("classicSession() throws for triggers out of range", () => {
  const refused: readonly (readonly [Partial<ClassicOptions>, string])[] = [
    [{ triggers: { historyBudgetTokens: -1 } }, "historyBudgetTokens is -1. It must be 0 or more."],
    [{ triggers: { coldAfterMs: NaN } }, "coldAfterMs is NaN. It must be 0 or more."],
    [{ truncateTokens: -1 }, "truncateTokens is -1; it must be a number of 0 or more"],
    [{ triggers: { pruneAt: 0.95 } }, "pruneAt is 0.95 and summarizeAt is 0.9. They must be shares"],
    [{ triggers: { summarizeAt: 90 } }, "pruneAt is 0.8 and summarizeAt is 90. They must be shares"],
  ];
  for (const [options, message] of refused) assertThrows(() => harness({}, options), RangeError, message);
});

Deno.test("classicSession() shows schemas in full until a request with them has succeeded, compact from the second call on", async () => {
  const { view, session } = harness({ schemas: true });
  const first: Message[] = [{ role: "user", content: "q" }];
  assertEquals((await view(first, 1)).tools, [read.definition]);
  assertEquals((await view(first, 1)).tools, [read.definition]);
  const second: Message[] = [...first, { role: "assistant", content: "hm" }, { role: "user", content: "?" }];
  const later = (messages: readonly Message[], step: number) =>
    session.view({ messages, tools: [read.definition] }, { nowMs: 0, turnStart: 0, step });
  assertEquals((await later(second, 2)).tools, [read.definition]);
  session.sent(usage);
  const compact = await later(second, 2);
  assertEquals(compact.tools[0]!.function.description, undefined);
  assertEquals(compact.rewrites.map(({ mechanism }) => mechanism), ["schemas"]);
  session.sent(usage);
  assertEquals((await later(second, 3)).rewrites, []);
});

Deno.test("classicSession() shows uncalled tools in full in each turn's first call", async () => {
  const { session } = harness({ schemas: true });
  const list = named("list");
  const tools = [read.definition, list];
  const forms: string[][] = [];
  const ask = async (messages: readonly Message[]) => {
    const turnStart = messages.findLastIndex(({ role }) => role === "user");
    const seen = await session.view({ messages, tools }, { nowMs: 0, turnStart });
    forms.push(seen.tools.map((tool, at) => tool === tools[at] ? "full" : "compact"));
    session.sent(usage);
  };
  const done = turn("a", 10, "ok");
  await ask(done.slice(0, 1));
  await ask(done.slice(0, 3));
  await ask([...done, { role: "user", content: "more" }]);
  await ask([...done, ...turn("b", 10)]);
  assertEquals(forms, [["full", "full"], ["compact", "compact"], ["compact", "full"], [
    "compact",
    "compact",
  ]]);
});

Deno.test("classicSession() shows a changed definition in full once, also after a restart", async () => {
  const messages = turn("a", 10);
  const changed = {
    ...read.definition,
    function: { ...read.definition.function, description: "Other. ".repeat(400) },
  };
  const { session } = harness({ schemas: true });
  const see = async (one: PromptSession, tool: ToolDefinition) => {
    const { tools } = await one.view({ messages, tools: [tool] }, { nowMs: 0 });
    one.sent(usage);
    return tools[0] === tool ? "full" : "compact";
  };
  assertEquals([await see(session, read.definition), await see(session, read.definition)], [
    "full",
    "compact",
  ]);
  const state = JSON.parse(JSON.stringify(session.state));
  const restored = harness({ schemas: true }, { state }).session;
  assertEquals([await see(restored, read.definition), await see(restored, changed)], ["compact", "full"]);
  assertEquals([await see(restored, changed), await see(restored, read.definition)], ["compact", "compact"]);
  // A stored state with names only.
  const old = harness({ schemas: true }, { state: { ...state, exposed: ["read"] } }).session;
  assertEquals([await see(old, read.definition), await see(old, read.definition)], ["full", "compact"]);
});

Deno.test("classicSession() never compacts the tools in alwaysFull", async () => {
  const { view, session } = harness({ schemas: true }, { alwaysFull: ["read"] });
  await view(turn("a", 10), 2);
  session.sent(usage);
  assertEquals((await view(turn("a", 10), 2)).tools, [read.definition]);
});

Deno.test("classicSession() gives a request that isn't a turn the last view, and changes nothing", async () => {
  const { view, session } = harness({ context: true, schemas: true });
  const messages = [...turn("a", 20_000, "ok"), ...turn("b", 10)];
  await view(messages.slice(0, 5), 1);
  session.sent(usage);
  const visible = await view(messages, 2);
  session.sent(usage);
  const { state } = session;
  const more: Message[] = [...messages, { role: "assistant", content: "ok" }, {
    role: "user",
    content: "A title?",
  }];
  const seen = await session.view({ messages: more, tools: [read.definition] }, { nowMs: 0, oneShot: true });
  assertEquals([seen.messages, seen.places], [[...visible.messages, ...more.slice(-2)], [-1, 4, 5, 6, 7, 8]]);
  assertEquals([seen.tools, seen.saved, seen.rewrites], [visible.tools, visible.saved, []]);
  assertStrictEquals(session.state, state);
  assertEquals(session.sent(usage, seen), undefined);
  assertStrictEquals(session.state, state);
  const other = turn("other", 10);
  const foreign = await session.view({ messages: other, tools: [] }, { nowMs: 0, oneShot: true });
  assertEquals([foreign.messages, foreign.tools], [other, []]);
});

Deno.test("classicSession() restored from its state shows the same bytes", async () => {
  const options = { windowTokens: 60_000 };
  const { view, session } = harness({ prune: true, truncate: true, schemas: true }, options);
  const messages = [...turn("a", 10_000, "ok"), ...turn("b", 20_000, "ok"), ...turn("c", 18_000, "ok")];
  for (const end of [3, 7, 11]) {
    await view(messages.slice(0, end), 2);
    session.sent(usage);
  }
  const next: Message[] = [...messages, { role: "user", content: "more" }];
  const state = JSON.parse(JSON.stringify(session.state));
  const restored = harness({ prune: true, truncate: true, schemas: true }, { ...options, state });
  const [before, after] = [await view(next, 1), await restored.view(next, 1)];
  assertEquals(
    JSON.stringify([after.messages, after.tools]),
    JSON.stringify([before.messages, before.tools]),
  );
  assertEquals([after.saved, after.rewrites], [before.saved, before.rewrites]);
});

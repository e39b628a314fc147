import {
  assert,
  assertEquals,
  assertGreater,
  assertMatch,
  assertStrictEquals,
  assertThrows,
} from "@std/assert";
import { estimateTokens, type Message, type Tool, type ToolDefinition, type Usage } from "@tare/messages";
import {
  plannerSession,
  type PlanningSession,
  profileNamed,
  type PromptSessionOptions,
  type SessionView,
} from "@tare/planner";
import { type Archive, memoryArchive, RECALL_TOOL } from "@tare/prune";

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

function turn(id: string, tokens: number): Message[] {
  const call = { id, type: "function", function: { name: "read", arguments: `{"path":"${id}"}` } } as const;
  return [
    { role: "user", content: `Read ${id}.` },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: id, content: "word ".repeat(tokens * 4 / 5) },
    { role: "assistant", content: "ok" },
  ];
}

function make(
  options: Partial<PromptSessionOptions> = {},
): { session: PlanningSession; archive: Archive; view: View } {
  const archive = options.archive ?? memoryArchive();
  const session = plannerSession({
    profile: profileNamed("none"),
    windowTokens: 1_000_000,
    tools: { read },
    archive,
    countTokens: estimateTokens,
    ...options,
  });
  const view: View = (messages, nowMs = 0) =>
    session.view({ messages, tools: [read.definition] }, { nowMs, model: "m" });
  return { session, archive, view };
}

type View = (messages: readonly Message[], nowMs?: number) => Promise<SessionView>;

function usage(promptTokens: number, cachedTokens = 0): Usage {
  return { promptTokens, cachedTokens, outputTokens: 1 };
}

const history = [...turn("a", 10_000), ...turn("b", 10_000), ...turn("c", 20_000)];
const question: Message = { role: "user", content: "And now?" };
const answer: Message = { role: "assistant", content: "ok" };

Deno.test("plannerSession() reports the unchanged part of a prompt, also after a restart", async () => {
  const options = { mechanisms: { ...OFF, prune: true, truncate: true }, truncateTokens: 9_000 };
  const { session, view, archive } = make({
    ...options,
    profile: { ...profileNamed("anthropic-5m"), minTokens: 0 },
  });
  const sent: (object | undefined)[] = [];
  let visible: SessionView | undefined;
  const call = async (messages: readonly Message[]) => {
    const before = visible;
    visible = await view(messages);
    const { stable, promptTokens } = visible;
    sent.push(stable);
    const { shared } = stable!;
    assertEquals(visible.messages.slice(0, shared), before?.messages.slice(0, shared) ?? []);
    session.sent(usage(promptTokens), visible);
  };
  // The result is truncated at ingestion, so the model has never seen another form.
  const first = turn("a", 10_000);
  await call(first.slice(0, 3));
  await call([...first, question]);
  assertEquals(sent, [{ shared: 0, edited: 0 }, { shared: 3, edited: 0 }]);
  // Until its carrying cost has paid for it: the old result is evicted, and messages before it are shared.
  const messages = [...first, question];
  while (visible!.rewrites.length === 0) {
    messages.push(answer, question);
    await call(messages);
  }
  assertEquals(sent.at(-1), { shared: 2, edited: 3 });
  assertEquals(sent.at(-2), { shared: messages.length - 4, edited: 0 });
  const more = [...messages, answer, question];
  const again = make({ ...options, archive, state: structuredClone(session.state) });
  const stable = { shared: messages.length, edited: 3 };
  assertEquals((await again.view(more)).stable, stable);
  assertEquals((await view(more)).stable, stable);
});

Deno.test("plannerSession() rewrites at once without a cache, permanently", async () => {
  const { session, view } = make({ mechanisms: { ...OFF, prune: true } });
  const asked = [...history, question, answer, question];
  const first = await view(asked);
  assertEquals(first.rewrites.map(({ mechanism, removed }) => [mechanism, removed]), [
    ["planner", "3 old results"],
  ]);
  assertMatch(String(first.messages[2]!.content), /^\[elided: read result/);
  const entry = session.sent(usage(30_000));
  assertEquals([entry?.usage.promptTokens, entry?.decision?.cause], [30_000, "price"]);
  const second = await view([...asked, answer, question]);
  assertEquals(second.messages.slice(0, first.messages.length), first.messages);
  assertEquals([second.rewrites, second.saved.prune], [[], first.saved.prune]);
  assertEquals([second.saved.context, second.saved.schemas, second.saved.truncate], [0, 0, 0]);
});

Deno.test("plannerSession() keeps a warm prompt until the carrying cost has paid for the rewrite", async () => {
  let nowMs = 0;
  const { session, view } = make({
    mechanisms: { ...OFF, prune: true },
    profile: profileNamed("anthropic-5m"),
  });
  const answer = "I wrote down what I know. ".repeat(460);
  let messages: readonly Message[] = turn("a", 10_000);
  let rewrittenAt = 0;
  let cached = 0;
  for (let step = 1; step <= 300 && rewrittenAt === 0; step++) {
    messages = [...messages, question];
    const seen = await view(messages, nowMs);
    if (seen.rewrites.length > 0) rewrittenAt = step;
    const tokens = estimateTokens(JSON.stringify([seen.messages, seen.tools]));
    session.sent(usage(tokens, cached));
    cached = tokens;
    messages = [...messages, { role: "assistant", content: step <= 6 ? answer : "Go on." }];
    nowMs += 1_000;
  }
  // Its carrying cost is that of a thousand tokens per step, from the fourth step on; reading the rest again
  // costs 21 times as much.
  assertGreater(rewrittenAt, 25);
});

Deno.test("plannerSession() truncates a huge result before its first send, after evicted turns too", async () => {
  const { session, view, archive } = make();
  const old = Array.from({ length: 8 }, (_, index) => turn(`old${index}`, 10_000)).flat();
  const first = await view([...old, question]);
  assertEquals(first.messages.length < old.length, true);
  session.sent(usage(10_000));
  const huge = turn("huge", 30_000).slice(0, 3);
  const second = await view([...old, ...huge]);
  const truncated = second.rewrites.find(({ mechanism }) => mechanism === "truncate");
  assertEquals(truncated?.removed, "the middle of 1 result of read");
  const ref = /ref ([0-9a-f]{16})/.exec(String(second.messages.at(-1)!.content))?.[1];
  assertEquals(await archive.get(ref ?? ""), huge[2]!.content);
  assertGreater(second.saved.truncate, 13_000);
});

Deno.test("plannerSession() with every mechanism off shows everything", async () => {
  const { view } = make({ mechanisms: OFF });
  const messages = [...history, question];
  const seen = await view(messages);
  assertEquals([seen.messages, seen.tools, seen.rewrites], [messages, [read.definition], []]);
  assertEquals([seen.saved, seen.warnings], [
    { context: 0, prune: 0, schemas: 0, truncate: 0, references: 0, normalization: 0 },
    [],
  ]);
});

Deno.test("plannerSession() changes nothing and warns when the archive fails", async () => {
  const archive: Archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  const { view } = make({ archive, mechanisms: { schemas: false, context: false } });
  const messages = [...history, ...turn("huge", 30_000).slice(0, 3)];
  const seen = await view(messages);
  assertEquals(seen.messages, messages);
  assertEquals(seen.warnings.length, 2);
  for (const warning of seen.warnings) assertMatch(warning, /the disk is full\. Nothing was evicted\.$/);
});

Deno.test("plannerSession() requests a summary when messages other than results fill the window", async () => {
  const text = Array.from({ length: 40 }, (_, index): Message[] => [
    { role: "user", content: `Question ${index}.` },
    { role: "assistant", content: `Answer ${index}. `.repeat(1_000) },
  ]).flat();
  let requestCount = 0;
  const { view } = make({
    windowTokens: 100_000,
    profile: profileNamed("anthropic-5m"),
    summarize: () => (requestCount++, Promise.resolve({ text: "They counted.", usage: usage(90_000) })),
  });
  const seen = await view([...text, question]);
  assertEquals([requestCount, seen.rewrites.length], [
    seen.messages.length < text.length ? requestCount : -1,
    1,
  ]);
  const total = seen.messages.reduce((sum, { content }) => sum + estimateTokens(String(content)), 0);
  assertEquals(total < 90_000, true);
});

Deno.test("plannerSession() restored from its state shows the same bytes and decides alike", async () => {
  const messages = [...history, question];
  const { session, view, archive } = make({ profile: profileNamed("openai") });
  await view(messages);
  session.sent(usage(40_000, 0));
  const state = JSON.parse(JSON.stringify(session.state));
  const restored = make({ profile: profileNamed("openai"), archive, state });
  const next = [...messages, { role: "assistant", content: "ok" } as const, question];
  assertEquals(await restored.view(next), await view(next));
  const reported = usage(40_100, 39_936);
  assertEquals(restored.session.sent(reported), session.sent(reported));
  assertEquals(restored.session.state, session.state);
});

Deno.test("plannerSession() mentions recall if the call's tools offer it, or the call states it", async () => {
  const messages = turn("a", 20_000).slice(0, 3);
  const seen = async (tools: readonly ToolDefinition[], recall?: boolean) => {
    const { messages: [, , result] } = await make().session.view(
      { messages, tools },
      { nowMs: 0, ...(recall !== undefined && { recall }) },
    );
    return String(result?.content).includes("recall with ref");
  };
  const tools = [read.definition, RECALL_TOOL];
  assertEquals(
    [await seen([read.definition]), await seen(tools), await seen(tools, false), await seen([], true)],
    [false, true, false, true],
  );
});

Deno.test("plannerSession() removes edits of messages that don't exist any more", async () => {
  const { session, view } = make({ mechanisms: { ...OFF, prune: true } });
  await view([...history, question]);
  const other = [...turn("a", 10_000), ...turn("other", 100), question];
  const seen = await view(other);
  assertEquals(editsOf(session), [2]);
  assertEquals(seen.messages.slice(3), other.slice(3));
});

Deno.test("plannerSession() makes concurrent views one after the other, and records the passed one", async () => {
  const { session, view } = make({ mechanisms: { ...OFF, prune: true } });
  const asked = [...history, question, answer, question];
  const [first, second] = await Promise.all([view(asked), view([...asked, question])]);
  assertEquals([first.rewrites.length, second.rewrites.length, editsOf(session)], [1, 0, [2, 6, 10]]);
  assertEquals(
    session.sent(usage(30_000), first)?.shares.placeholders,
    session.sent(usage(30_000))?.shares.placeholders,
  );
  const other = make().session;
  for (const book of [() => other.sent(), () => other.sent(usage(1), first)]) {
    assertThrows(book, Error, "Cannot record a call: this session made no view for it. Call view() first.");
  }
});

Deno.test("plannerSession() predicts the cached tokens of the view", async () => {
  const { session, view } = make({ profile: profileNamed("openai"), mechanisms: OFF });
  const messages: readonly Message[] = [...turn("a", 4_000), question];
  assertEquals((await view(messages)).predictedCachedTokens, 0);
  session.sent();
  const { promptTokens, predictedCachedTokens } = await view([...messages, {
    role: "assistant",
    content: "ok",
  }, question]);
  assertGreater(predictedCachedTokens, promptTokens - 200);
  assertEquals([predictedCachedTokens % 128, session.profile.name], [0, "openai"]);
});

Deno.test("plannerSession() goes back to an earlier position of the history", async () => {
  const { session, view } = make({ mechanisms: { ...OFF, prune: true } });
  await view([...history, question]);
  session.cutBack(8);
  assertEquals(editsOf(session), [2, 6]);
  const seen = await view([...history.slice(0, 8), question]);
  assertEquals(seen.rewrites, []);
});

Deno.test("plannerSession() has no saving or loss by a client's own compaction", async () => {
  const { session } = make({ mechanisms: OFF, profile: profileNamed("openai") });
  const book = async (messages: readonly Message[], nowMs: number) => {
    const view = await session.view({ messages, tools: [read.definition] }, { nowMs, model: "m" });
    const { promptTokens, predictedCachedTokens: cachedTokens } = view;
    return session.sent({ promptTokens, cachedTokens, outputTokens: 1 }, view);
  };
  for (let length = 3; length <= history.length; length += 2) await book(history.slice(0, length), length);
  session.cutBack(1);
  const fresh = [
    history[0]!,
    { role: "user", content: "A summary. ".repeat(400) } as const,
    answer,
    question,
  ];
  const entry = await book(fresh, 100);
  assertEquals([entry?.costUnits, Math.round(entry?.savedCostUnits ?? NaN)], [entry?.baselineCostUnits, 0]);
});

Deno.test("plannerSession() forks with the plan of the start, and an account of its own", async () => {
  const { session, view, archive } = make({ mechanisms: { ...OFF, prune: true } });
  session.sent(usage((await view([...history, question])).promptTokens));
  const state = session.state;
  const own = memoryArchive();
  for (const index of [2, 6, 10]) await own.put(String(history[index]?.content));
  const fork = session.fork(8, own);
  assertEquals(editsOf(fork), [2, 6]);
  const aside = [answer, question];
  const messages = [...history.slice(0, 8), ...turn("d", 20_100), question, ...aside, ...aside, ...aside];
  const look = (messages: readonly Message[]) =>
    fork.view({ messages, tools: [read.definition] }, { nowMs: 0, model: "m" });
  assertEquals((await look(messages.slice(0, 11))).rewrites, []);
  const first = fork.sent(usage(25_000));
  const seen = await look(messages);
  assertEquals(seen.rewrites.map(({ removed }) => removed), ["1 old result"]);
  const entry = fork.sent(usage(5_000));
  assert(first && entry);
  const saved = first.baselineCostUnits - first.costUnits + entry.baselineCostUnits - entry.costUnits;
  assertEquals(Math.round(entry.savedCostUnits), Math.round(saved));
  const ref = /ref ([0-9a-f]{16})/.exec(String(seen.messages[10]?.content))?.[1] ?? "";
  assertEquals([await own.get(ref), await archive.get(ref)], [messages[10]?.content, undefined]);
  assertStrictEquals(session.state, state);
});

Deno.test("plannerSession() sends everything unchanged once it is reverted, after a restart too", async () => {
  const { session, view, archive } = make();
  const messages = [...history, ...turn("huge", 30_000).slice(0, 3)];
  assertGreater((await view(messages)).rewrites.length, 0);
  session.sent(usage(30_000));
  session.revert();
  const { view: restored } = make({ archive, state: JSON.parse(JSON.stringify(session.state)) });
  for (const reverted of [view, restored]) {
    const seen = await reverted(messages);
    assertEquals([seen.messages, seen.tools, seen.rewrites], [messages, [read.definition], []]);
  }
});

Deno.test("plannerSession() shows a changed definition in full once, also after a restart", async () => {
  const options = { mechanisms: { ...OFF, schemas: true } };
  const messages = [...turn("a", 10), question];
  const { description: _, ...rest } = read.definition.function;
  const changed = { ...read.definition, function: { ...rest, description: "Other. ".repeat(400) } };
  const see = async (session: PlanningSession, tool: ToolDefinition) => {
    const { tools, promptTokens } = await session.view({ messages, tools: [tool] }, { nowMs: 0 });
    session.sent(usage(promptTokens));
    return tools[0] === tool ? "full" : "compact";
  };
  const { session } = make(options);
  assertEquals([await see(session, read.definition), await see(session, read.definition)], [
    "full",
    "compact",
  ]);
  const state = JSON.parse(JSON.stringify(session.state));
  const restored = make({ ...options, state }).session;
  assertEquals([await see(restored, read.definition), await see(restored, changed)], ["compact", "full"]);
  assertEquals([await see(restored, changed), await see(restored, read.definition)], ["compact", "compact"]);
});

Deno.test("plannerSession() takes the limit of results and the tools that stay in full from its options", async () => {
  const { session, view } = make({ truncateTokens: 1_000, alwaysFull: ["read"] });
  const messages = turn("a", 3_000).slice(0, 3);
  const { rewrites, promptTokens } = await view(messages);
  assertEquals(rewrites.map(({ mechanism }) => mechanism), ["truncate"]);
  session.sent(usage(promptTokens));
  assertEquals((await view([...messages, answer, question])).tools, [read.definition]);
});

function editsOf({ state }: PlanningSession): readonly number[] {
  const { edits } = state as { readonly edits: readonly { readonly index: number }[] };
  return edits.map(({ index }) => index);
}

Deno.test("quote() calculates a history that went back, whatever was edited after that", async () => {
  const { session, view } = make({ truncateTokens: 1_000 });
  const history: Message[] = [...turn("a", 5_000), ...turn("b", 5_000)];
  for (const content of ["And now?", "Go on."]) {
    history.push({ role: "user", content });
    session.sent(undefined, await view(history));
    history.push({ role: "assistant", content: "ok" });
  }
  for (const length of [1, 5]) {
    const back = { messages: history.slice(0, length), tools: [] };
    const visible = await session.view(back, { nowMs: 1, model: "m", oneShot: true });
    const { asIs } = session.quote!(back, { nowMs: 1, model: "m" });
    assertEquals(asIs.promptTokens, visible.promptTokens);
  }
});

Deno.test("sent() claims nothing if neither the provider's cache is known nor usage reported", async () => {
  const session = plannerSession({
    profile: profileNamed("none"),
    archive: memoryArchive(),
    countTokens: estimateTokens,
  });
  const messages: Message[] = [];
  const claims: number[] = [];
  for (let at = 0; at < 12; at++) {
    messages.push(...turn(`${at}.ts`, 30_000));
    const view = await session.view({ messages, tools: [RECALL_TOOL] }, { nowMs: at });
    const isReported = at > 9;
    const usage = { promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 9 };
    const { costUnits, baselineCostUnits, savedCostUnits } = session.sent(isReported ? usage : undefined)!;
    claims.push(Math.round(baselineCostUnits - costUnits));
    if (!isReported) assertEquals(savedCostUnits, 0);
  }
  assertEquals(claims.slice(0, 10), Array.from({ length: 10 }, () => 0));
  assertGreater(Math.min(...claims.slice(10)), 0);
});

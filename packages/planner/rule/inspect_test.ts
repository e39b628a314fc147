import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertGreater,
  assertLess,
  assertRejects,
} from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import { countRequestTokens, estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import {
  plannerSession,
  type PlanningSession,
  profileNamed,
  type PromptCall,
  type PromptSessionOptions,
  PromptTooLong,
  type SessionView,
} from "@tare/planner";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";
import { loadTokenizer } from "@tare/tiktoken";
import { Layout } from "../edits/view.ts";
import { allowedCost, sharePrompt } from "./inspect.ts";

const textOf = (tokens: number) => "x".repeat(4 * (tokens - 4));

Deno.test("sharePrompt() puts every token of a prompt into one class", () => {
  const call = (id: string): Message => ({
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
  });
  const messages: Message[] = [
    { role: "system", content: textOf(100) },
    { role: "user", content: textOf(20) },
    call("1"),
    { role: "tool", tool_call_id: "1", content: textOf(5_000) },
    { role: "assistant", content: textOf(30) },
    { role: "user", content: textOf(40) },
    call("2"),
    { role: "tool", tool_call_id: "2", content: textOf(17_000) },
  ];
  const layout = new Layout(estimateTokens);
  const text = "[elided: read result, 19984 bytes; ref 0123456789abcdef]";
  layout.update(messages, [{ type: "elide", index: 3, toolCallId: "1", ref: "0123456789abcdef", text }]);
  const shares = sharePrompt(layout, { activeStart: 5, toolTokens: 7 });
  const sum = Object.values(shares).reduce((all, tokens) => all + tokens, 0);
  assertEquals(sum, 7 + layout.tokens);
  assertEquals(shares, {
    tools: 7,
    core: 100,
    oldTurns: 20 + 6 + 30,
    activeTurn: 40 + 6,
    results: 17_000,
    placeholders: sum - 7 - 100 - 56 - 46 - 17_000,
  });
});

const user = (content: string): Message => ({ role: "user", content });
const ANSWER: Message = { role: "assistant", content: "ok" };

let ids = 0;

function step(content: string, name = "look", path = `${ids}.ts`): Message[] {
  const id = `call_${ids++}`;
  const call = { name, arguments: JSON.stringify({ file_path: path }) };
  return [
    { role: "assistant", tool_calls: [{ id, type: "function", function: call }] },
    { role: "tool", tool_call_id: id, content },
  ];
}

/** Returns text of this many tokens with distinct lines. */
function lines(name: string, tokens: number): string {
  const all = Array.from(
    { length: tokens },
    (_, at) => `  const ${name}${at} = compute(${at * 7919}, "${name}");`,
  );
  return all.join("\n").slice(0, 4 * tokens);
}

function make(options: Partial<PromptSessionOptions> = {}): PlanningSession {
  return plannerSession({
    profile: profileNamed("anthropic-5m"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
    windowTokens: 1_000_000,
    ...options,
  });
}

Deno.test("PromptTooLong names the longest part: a message, or the tools' definitions", async () => {
  const tool: ToolDefinition = {
    type: "function",
    function: { name: "look", description: lines("tool", 30_000) },
  };
  const thrown = (messages: readonly Message[], tools: readonly ToolDefinition[]) =>
    assertRejects(
      () => make({ windowTokens: 4_000 }).view({ messages, tools }, { nowMs: 0 }),
      PromptTooLong,
    );
  const tools = await thrown([user("Go."), ANSWER, user("On.")], [tool]);
  assert(tools.message.includes("The tools' definitions"), tools.message);
  const { longest, promptTokens } = await thrown([user("Go."), ANSWER, user(lines("input", 45_000))], [tool]);
  assertEquals([tools.longest.place, longest.place], [-1, 2]);
  const first = await thrown([user(lines("input", 45_000))], []);
  assert(first.message.includes("Message 0 (user)"), first.message);
  assertAlmostEquals(longest.tokens / promptTokens, 45_000 / 75_000, 0.02);
  assertAlmostEquals(tools.longest.tokens / tools.promptTokens, 1, 0.02);
});

Deno.test("rejected() without a number: a longer prompt that succeeds proves a larger window", async () => {
  const messages = [user("Read."), ...[1, 2, 3].flatMap((at) => step(lines(`r${at}`, 3_000)))];
  for (const limit of [undefined, 8_000]) {
    const session = make();
    const view = () => session.view({ messages, tools: [] }, { nowMs: 0 });
    const before = await view();
    session.rejected(limit);
    session.sent({ promptTokens: 15_000, cachedTokens: 0, outputTokens: 1 }, before);
    // A reported window stays.
    const isWhole = (await view()).promptTokens === before.promptTokens;
    assertEquals([limit, isWhole], [limit, limit === undefined]);
  }
});

Deno.test("rejected() without a number: a prompt that can't be shortened is still sent", async () => {
  const messages = [user(lines("input", 9_000))];
  const session = make();
  const view = () => session.view({ messages, tools: [] }, { nowMs: 0 });
  await view();
  session.rejected(undefined);
  assertEquals((await view()).messages, messages);
  session.rejected(8_000, { promptTokens: 9_000 });
  await assertRejects(view, PromptTooLong);
});

Deno.test("rejected() takes a reported window exactly, whatever the refused prompt had", async () => {
  const session = make();
  const view = (tokens: number) =>
    session.view({ messages: [user("word ".repeat(0.8 * tokens))], tools: [] }, { nowMs: 0 });
  const { promptTokens } = await view(11_000);
  session.rejected(10_000, { promptTokens });
  await view(9_000);
  await assertRejects(() => view(10_500), PromptTooLong);
});

Deno.test("view() evicts nothing from a long history that it sees for the first time, unless it is requested", async () => {
  const messages = [
    ...[1, 2].flatMap((at) => [user("Read."), ...step(lines(`r${at}`, 10_000)), ANSWER]),
    user("And now?"),
  ];
  const rewrites = async (windowTokens: number, evictNow = false, profile = "none") => {
    const session = make({ profile: profileNamed(profile), windowTokens });
    const counts: number[] = [];
    for (let call = 0; call < 2; call++) {
      const view = await session.view({ messages, tools: [] }, { nowMs: call, recall: true, evictNow });
      session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view);
      counts.push(view.rewrites.length);
    }
    return counts;
  };
  // It has 20,000 tokens: more than half of the first window.
  assertEquals(await rewrites(36_000), [0, 1]);
  assertEquals(await rewrites(44_000), [1, 0]);
  assertEquals(await rewrites(36_000, true), [1, 0]);
  // Nor from one that its provider may have cached.
  assertEquals((await rewrites(1_000_000, false, "openai"))[0], 0);
});

Deno.test("baseline: a history that went back, or was forked, costs what its client would pay", async () => {
  const profile = { ...profileNamed("anthropic-5m"), minTokens: 0, blockTokens: 1 };
  const options = {
    ...{ profile, countTokens: estimateTokens, windowTokens: 1_000_000 },
    mechanisms: { schemas: false },
  };
  const first = [
    ...[1, 2].flatMap((at) => [user(`Read ${at}.`), ...step(lines(`r${at}`, 10_000)), ANSWER]),
    user("And now?"),
    ...step(lines("r3", 5_000)),
  ];
  const second = [...first.slice(0, 8), user(lines("input", 3_000))];
  const own: ToolDefinition[] = [
    { type: "function", function: { name: "look", description: lines("tool", 3_000) } },
  ];
  const tools = [RECALL_TOOL, ...own];
  const copied = (value: unknown) => JSON.parse(JSON.stringify(value));
  for (const how of ["goes back", "restarts", "forks", "stores a fork", "is stored and forks"]) {
    const archive = memoryArchive();
    const caches = [new PrefixCache(profile), new PrefixCache(profile)];
    const call = async (session: PlanningSession, messages: readonly Message[], nowMs: number) => {
      const view = await session.view({ messages, tools }, { nowMs, evictNow: nowMs === 0 });
      const { promptTokens, predictedCachedTokens } = view;
      const entry = session.sent(
        { promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 1 },
        view,
      )!;
      const [baseline, resend] = [own, tools].map((tools, at) => {
        const units = PrefixCache.unitsOf({ messages, tools }, estimateTokens);
        const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
        const cachedTokens = caches[at]!.lookup(units, nowMs);
        caches[at]!.store(units, nowMs);
        return promptCost(profile, { promptTokens, cachedTokens });
      });
      return { entry, baseline: baseline!, resend: resend! };
    };
    const before = plannerSession({ ...options, archive });
    const { entry: whole } = await call(before, first, 0);
    assertGreater(whole.baselineCostUnits, 1.5 * whole.costUnits);
    const forked = before.fork(8, archive);
    const session = {
      "goes back": before,
      restarts: plannerSession({
        ...{ ...options, archive },
        ...{ state: copied(before.state), advanced: { inspected: copied(before.inspected) } },
      }),
      forks: forked,
      "stores a fork": plannerSession({ ...options, archive, state: copied(forked.state) }),
      "is stored and forks": plannerSession({ ...options, archive, state: copied(before.state) })
        .fork(8, archive),
    }[how]!;
    // The loss limit includes the recall.
    const resent = () => (session.state as { readonly planner: { readonly resend: number } }).planner.resend;
    const resentBefore = resent();
    const { entry, baseline, resend } = await call(session, second, 1_000);
    // With only the state known, the definition of recall counts as the client's own.
    assertAlmostEquals(
      entry.baselineCostUnits / baseline,
      1,
      how === "is stored and forks" ? 0.05 : 0.01,
      how,
    );
    assertAlmostEquals((resent() - resentBefore) / resend, 1, 0.01, how);
  }
});

Deno.test("baseline: contains deferred definitions, and no call that only looks them up", async () => {
  const profile = profileNamed("openai");
  const { count } = await loadTokenizer();
  const look: ToolDefinition = {
    type: "function",
    function: { name: "look", description: "Looks at a file. ".repeat(500) },
  };
  const costs = async (deferred?: PromptCall["deferred"]) => {
    const session = make({ profile, countTokens: count });
    const messages = [user("Go."), ...step("Seen.")];
    const view = await session.view({ messages, tools: [] }, {
      nowMs: 0,
      ...(deferred && { deferred }),
    });
    const entry = session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view)!;
    const { planner: { resend } } = session.state as { readonly planner: { readonly resend: number } };
    return [entry.baselineCostUnits, resend] as const;
  };
  const [baseline, resend] = await costs();
  const deferred = { tools: [look], tokens: countRequestTokens({ messages: [], tools: [look] }, count) };
  const [withoutDeferring, resendDeferred] = await costs({ ...deferred, isDetour: false });
  assertAlmostEquals(withoutDeferring - baseline, deferred.tokens * profile.write, 1);
  assertAlmostEquals(resendDeferred - resend, deferred.tokens * profile.write, 1);
  assertEquals((await costs({ ...deferred, isDetour: true }))[0], 0);
  const session = make({ profile, countTokens: count });
  const saved: number[] = [];
  for (
    const call of [{ deferred: { ...deferred, isDetour: false } }, {
      deferred: { ...deferred, isDetour: true },
    }, {}]
  ) {
    const messages = [user("Go."), ...step("Seen.")];
    const view = await session.view({ messages, tools: [] }, { nowMs: 0, ...call });
    saved.push(session.sent({ promptTokens: 100, cachedTokens: 0, outputTokens: 1 }, view)!.savedCostUnits);
  }
  assertEquals(saved, [deferred.tokens, deferred.tokens - 100, deferred.tokens - 100]);
});

const usageOf = ({ promptTokens, predictedCachedTokens: cachedTokens }: SessionView) => ({
  promptTokens,
  cachedTokens,
  outputTokens: 1,
});

Deno.test("baseline: the front stays cached for a model that is used again after a compaction", async () => {
  const { count } = await loadTokenizer();
  const profile = profileNamed("openai");
  const look: ToolDefinition = {
    type: "function",
    function: { name: "look", description: "Looks at a file. ".repeat(500) },
  };
  const session = make({ profile, countTokens: count });
  const tokensOf = (tools: readonly ToolDefinition[]) => countRequestTokens({ messages: [], tools }, count);
  const deferred = { tools: [look], tokens: tokensOf([look]), isDetour: false };
  let nowMs = 0;
  const call = async (model: string, messages: readonly Message[]) => {
    const view = await session.view({ messages, tools: [] }, { nowMs: nowMs += 10_000, model, deferred });
    return session.sent(usageOf(view), view)!.baseline;
  };
  const front = [{ role: "system", content: "Be brief. ".repeat(700) }, user("Go.")] as const;
  await call("usual", [...front, ...step(lines("a", 2_000))]);
  await call("other", [...front, ...step(lines("a", 2_000)), ...step(lines("b", 30_000))]);
  await call("other", [...front, user("The summary.")]);
  const { cachedTokens } = await call("usual", [...front, user("The summary."), ...step("Seen.")]);
  const frontTokens = deferred.tokens + countRequestTokens({ messages: front }, count);
  assertAlmostEquals(cachedTokens, frontTokens, 2 * profile.blockTokens);
});

Deno.test("baseline: the start of the tools stays cached when deferred tools change", async () => {
  const { count } = await loadTokenizer();
  const profile = profileNamed("openai");
  const tools = Array.from({ length: 20 }, (_, at): ToolDefinition => ({
    type: "function",
    function: { name: `look_${at}`, description: `Looks at part ${at}. `.repeat(100) },
  }));
  const session = make({ profile, countTokens: count });
  const tokensOf = (tools: readonly ToolDefinition[]) => countRequestTokens({ messages: [], tools }, count);
  let nowMs = 0;
  const call = async (tools: readonly ToolDefinition[]) => {
    const [pair] = tools.map(({ function: { name } }): ToolDefinition => ({
      type: "function",
      function: { name: "find_tools", description: `Finds ${name} and ${tools.length - 1} others.` },
    }));
    const deferred = { tools, tokens: tokensOf(tools) - tokensOf([pair!]), isDetour: false };
    const history = { messages: [user("Go.")], tools: [pair!] };
    const view = await session.view(history, { nowMs: nowMs += 10_000, deferred });
    return session.sent(usageOf(view), view)!.baseline;
  };
  await call(tools);
  const { cachedTokens } = await call(tools.slice(0, -1));
  assertAlmostEquals(cachedTokens, tokensOf(tools.slice(0, -1)), 2 * profile.blockTokens);
});

Deno.test("baseline: deferred definitions are estimated by those that were sent, as JSON or rendered briefly", async () => {
  const { count } = await loadTokenizer();
  const profile = profileNamed("openai");
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 8, max: 15 }),
      fc.integer({ min: 20, max: 80 }),
      fc.integer({ min: 5, max: 40 }),
      fc.integer({ min: 3, max: 8 }),
      fc.boolean(),
      async (front, deferrable, sentences, parameters, isBrief) => {
        const names = Array.from({ length: parameters }, (_, at) => `option_${at}`);
        // The sent tools have short descriptions.
        const definition = (at: number): ToolDefinition => ({
          type: "function",
          function: {
            name: `part_${at}`,
            description: `Runs part ${at} of the environment, and returns its output. `
              .repeat(at < front ? 2 : sentences),
            parameters: {
              type: "object",
              properties: Object.fromEntries(
                names.map((name) => [name, { type: "string", description: `Value of ${name}.` }]),
              ),
            },
          },
        });
        const all = Array.from({ length: front + deferrable }, (_, at) => definition(at));
        const tools = all.slice(0, front);
        const briefly = ({ function: { name, description } }: ToolDefinition) =>
          count(
            [`${name}: ${description}`, ...names.map((name) => `${name}: string, Value of ${name}.`)].join(
              "\n",
            ),
          );
        const tokensOf = (tools: readonly ToolDefinition[]) =>
          countRequestTokens({ messages: [], tools }, count);
        const reported = ({ messages, tools }: Pick<SessionView, "messages" | "tools">) =>
          countRequestTokens({ messages }, count) +
          (isBrief ? tools.reduce((sum, tool) => sum + briefly(tool), 0) : tokensOf(tools));
        const deferred = { tools: all, tokens: tokensOf(all.slice(front)), isDetour: false };
        const session = make({ profile, countTokens: count });
        const messages: Message[] = [user("Go.")];
        for (let call = 0; call < 12; call++) {
          messages.push(...step(lines(`seen${call}`, 200)));
          const view = await session.view({ messages, tools }, { nowMs: 10_000 * call, deferred });
          const usage = { promptTokens: reported(view), cachedTokens: 0, outputTokens: 1 };
          const { baseline } = session.sent(usage, view)!;
          const direct = reported({ messages, tools: all });
          // The JSON of brief definitions alone is a quarter longer.
          assertLess(Math.abs(baseline.promptTokens - direct), 0.12 * direct);
        }
      },
    ),
    { numRuns: cases(20) },
  );
});

Deno.test("baseline: contains no call that only follows a recall", async () => {
  const baseline = async (name: string) => {
    const session = make({ profile: profileNamed("openai") });
    const view = await session.view({ messages: [user("Go."), ...step("Seen.", name)], tools: [] }, {
      nowMs: 0,
    });
    return session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view)!
      .baselineCostUnits;
  };
  assertEquals(await baseline("recall"), 0);
  assertGreater(await baseline("look"), 0);
});

Deno.test("view() evaluates everything again once its provider's prices change", async () => {
  let profile = profileNamed("local");
  const session = make({ profile: () => profile });
  const messages = [user("Read all.")];
  const rewrites: number[] = [];
  for (let call = 0; call < 12; call++) {
    messages.push(...step(lines(`r${call}`, 1_000)));
    if (call === 11) profile = profileNamed("none");
    const view = await session.view({ messages, tools: [] }, { nowMs: call, recall: true });
    session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view);
    rewrites.push(view.rewrites.length);
  }
  assertEquals(rewrites, [...Array(11).fill(0), 1]);
});

Deno.test("view() reports the tokens removed by each mechanism, which add up to the difference", async () => {
  const session = make({ truncateTokens: 4_000, mechanisms: { references: true } });
  const tools: ToolDefinition[] = [
    RECALL_TOOL,
    { type: "function", function: { name: "look", description: lines("tool", 3_000) } },
  ];
  const text = lines("same", 1_500);
  const numbered = lines("numbered", 2_000).split("\n")
    .map((line, at) => `${String(at + 1).padStart(6)}→${line}`).join("\n");
  const messages = [
    user("Read all."),
    ...step(text, "Read"),
    ...step(`${text}\n${lines("other", 100)}`, "Read"),
    ...step(numbered, "Read"),
    ...step(lines("huge", 9_000)),
  ];
  const view = async (messages: readonly Message[], nowMs: number, evictNow = false) => {
    const view = await session.view({ messages, tools }, { nowMs, evictNow });
    session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view);
    const missing = countRequestTokens({ messages, tools }, estimateTokens) - view.promptTokens;
    assertEquals(Object.values(view.saved).reduce((sum, tokens) => sum + tokens, 0), missing);
    return view;
  };
  for (const length of [3, 5, 7]) await view(messages.slice(0, length), length);
  const { saved, stable } = await view(messages, 9);
  assertEquals([saved.context, saved.prune], [0, 0]);
  assertAlmostEquals(saved.truncate, 5_000, 200);
  assertAlmostEquals(saved.references, 1_500, 100);
  assertAlmostEquals(saved.normalization, 230, 50);
  assertAlmostEquals(saved.schemas, 3_000, 300);
  // A result that was compressed at ingestion counts as unedited.
  assertEquals(stable!.edited, 0);

  const more = [...messages, ANSWER, user("And now?")];
  const { saved: then, stable: after } = await view(more, 10, true);
  // A truncated result that is evicted counts as evicted.
  assertEquals([then.truncate, then.context, after!.edited], [0, 0, 9]);
  assertAlmostEquals(then.prune, 9_000, 200);
  assertEquals([then.references, then.normalization], [saved.references, saved.normalization]);
});

Deno.test("view() keeps a result whose eviction frees next to nothing because of references to it", async () => {
  const isRetained = async (second: string) => {
    const session = make({ profile: profileNamed("deepseek"), mechanisms: { references: true } });
    const messages = [
      user("Read all."),
      ...step(lines("first", 6_000), "Read"),
      ...step(`${lines(second, 6_000)}\n${lines("more", 100)}`, "Read"),
      ...Array.from({ length: 14 }, (_, at) => step(lines(`later${at}`, 4_000))).flat(),
    ];
    let visible: readonly Message[] = [];
    let rewrites = 0;
    for (let length = 3; length <= messages.length; length += 2) {
      const call = { nowMs: length, recall: true };
      const view = await session.view({ messages: messages.slice(0, length), tools: [] }, call);
      session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view);
      rewrites += view.rewrites.length;
      visible = view.messages;
    }
    assertGreater(rewrites, 0);
    return visible.includes(messages[2]!);
  };
  assertEquals([await isRetained("first"), await isRetained("second")], [true, false]);
});

Deno.test("view() evicts nothing if the session may cost more than its loss limit over resending everything", async () => {
  const profile = profileNamed("anthropic-5m");
  const archive = memoryArchive();
  // Messages after the results make their eviction expensive.
  const messages = [
    user("Read."),
    ...[1, 2, 3].flatMap((at) => step(lines(`r${at}`, 3_000))),
    ANSWER,
    user(lines("input", 1_500)),
  ];
  for (let at = 0; at < 60; at++) messages.push(...step("Nothing."));
  const cache = new PrefixCache(profile);
  const copied = (value: unknown) => JSON.parse(JSON.stringify(value));
  let session = make({ archive, profile });
  for (let length = 9; length <= messages.length; length += 2) {
    const call = { nowMs: 1_000 * length, recall: true };
    const history = { messages: messages.slice(0, length), tools: [] };
    const { state, inspected } = copied({ state: session.state, inspected: session.inspected });
    const view = await session.view(history, call);
    if (view.rewrites.length > 0) {
      const { paid, resend } = state.planner;
      const isRewritten = async (lossLimit: number, share: number) => {
        const planner = { ...state.planner, paid: paid + share * resend, rewritten: "here" };
        session = make({
          archive,
          profile,
          advanced: { lossLimit, inspected },
          state: { ...state, planner },
        });
        return (await session.view(history, call)).rewrites.length > 0;
      };
      assertEquals([await isRewritten(0.05, 0), await isRewritten(0.6, 0.3)], [true, true]);
      const cost = 0.1 * view.rewrites[0]!.tokensBefore;
      for (const share of [0.3, 0.05 + cost / resend]) assertEquals(await isRewritten(0.05, share), false);
      return;
    }
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const cachedTokens = cache.lookup(units, call.nowMs);
    cache.store(units, call.nowMs);
    session.sent({ promptTokens: view.promptTokens, cachedTokens, outputTokens: 1 }, view);
  }
  throw new Error("Nothing was rewritten.");
});

Deno.test("view() keeps a result longer the later another one refers to it", async () => {
  const goneAt = async (place: number) => {
    const session = make({ profile: profileNamed("none"), mechanisms: { references: true } });
    const messages = [user("Read all."), ...step(lines("first", 6_000), "Read")];
    for (let at = 0; at < 20; at++) {
      messages.push(
        ...(at === place
          ? step(`${lines("first", 300)}\n${lines("more", 100)}`, "Read")
          : step(`Nothing ${at}`)),
      );
    }
    for (let length = 3; length <= messages.length; length += 2) {
      const call = { nowMs: length, recall: true };
      const view = await session.view({ messages: messages.slice(0, length), tools: [] }, call);
      session.sent({ promptTokens: view.promptTokens, cachedTokens: 0, outputTokens: 1 }, view);
      if (!view.messages.includes(messages[2]!)) return length;
    }
    return Infinity;
  };
  const [never, early, late] = [await goneAt(-1), await goneAt(1), await goneAt(4)];
  assertLess(never, early);
  assertLess(early, late);
  assertLess(late, Infinity);
});

Deno.test("rejected() without a number makes room as in a window of four fifths of the refused prompt", async () => {
  const session = make({ windowTokens: 20_000 });
  const words = (of: number) => `${"abcdefghijklmnop"[of]}word `.repeat(800);
  const messages = [user("Read."), ...Array.from({ length: 14 }, (_, at) => step(words(at))).flat()];
  const view = () => session.view({ messages, tools: [] }, { nowMs: 0, recall: true });
  const before = await view();
  session.rejected(undefined, { promptTokens: before.promptTokens });
  // A full window is emptied to three fifths at worst, and keeps the newest result.
  const { promptTokens, messages: left } = await view();
  assertLess(promptTokens, 0.6 * 0.8 * before.promptTokens);
  assertEquals(left.at(-1), messages.at(-1));
});

Deno.test("view() counts a prompt by its model's tokenizer, whatever another model has counted since", async () => {
  const session = make({ windowTokens: 10_000 });
  const view = (tokens: number, model: string) =>
    session.view({ messages: [user("word ".repeat(0.8 * tokens))], tools: [] }, { nowMs: 0, model });
  for (const [model, times] of [["a", 2], ["b", 1]] as const) {
    const first = await view(4_000, model);
    const promptTokens = times * first.promptTokens;
    session.sent({ promptTokens, cachedTokens: 0, outputTokens: 1 }, first);
  }
  await view(6_000, "b");
  await assertRejects(() => view(6_000, "a"), PromptTooLong);
});

Deno.test("rejected() leaves less room than the window has if the refused prompt should have fitted", async () => {
  const session = make();
  const view = (tokens: number) =>
    session.view({ messages: [user("word ".repeat(0.8 * tokens))], tools: [] }, { nowMs: 0 });
  await view(9_000);
  session.rejected(10_000, { promptTokens: 9_000 });
  await view(6_000);
  await assertRejects(() => view(8_500), PromptTooLong);
});

Deno.test("allowedCost() bounds what was paid, and at twice the share the weighted refetches", () => {
  const cost = (refetched: number, paid = 80_000) => allowedCost(0.05, { resend: 100_000, paid, refetched });
  assertAlmostEquals(cost(0), 25_000);
  assertAlmostEquals(cost(1_000), 25_000);
  assertAlmostEquals(cost(10_000), -1_000);
  assertAlmostEquals(cost(0, 110_000), -5_000);
  assertEquals(allowedCost(Infinity, { resend: 0, paid: 9, refetched: 9 }), Infinity);
  fc.assert(fc.property(fc.nat(100_000), fc.nat(100_000), (paid, refetched) => {
    const spent = Math.max(0, cost(refetched, paid + refetched));
    // Weighted cost stays within a tenth, unless it already exceeds that.
    const without = paid + 3 * refetched;
    assert(without + spent <= Math.max(without, 1.1 * (100_000 - refetched)) + 1e-6);
  }));
});

import { assert, assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import {
  type LedgerEntry,
  plannerSession,
  type Profile,
  profileNamed,
  type PromptSessionOptions,
} from "@tare/planner";
import type { CompactionHabit } from "@tare/planner/internal";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";

const PROFILE = profileNamed("anthropic-5m");
const WINDOW_TOKENS = 60_000;
const REPLY_TOKENS = 20_000;
const READ = { type: "function", function: { name: "read_file", parameters: {} } } as const;

const task: Message = { role: "user", content: "Read all files. ".repeat(200) };

function reading(step: number, tool: string, result: string): Message[] {
  const call = { name: tool, arguments: `{"path":"file${step}.ts"}` };
  return [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: `call_${step}`, type: "function", function: call }],
    },
    { role: "tool", tool_call_id: `call_${step}`, content: result },
  ];
}

const file = (step: number) => `const line${step} = ${step};\n`.repeat(400);

type Played = Partial<Omit<PromptSessionOptions, "profile">> & { readonly profile?: Profile };

async function play(steps: number, { profile = PROFILE, ...options }: Played = {}) {
  const session = plannerSession({
    profile,
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: WINDOW_TOKENS,
    ...options,
  });
  const cache = new PrefixCache(profile);
  const messages: Message[] = [task];
  const entries: LedgerEntry[] = [];
  for (let step = 0; step < steps; step++) {
    const nowMs = 1_000 * step;
    const view = await session.view({ messages, tools: [READ, RECALL_TOOL] }, {
      nowMs,
      replyTokens: REPLY_TOKENS,
    });
    if (options.dryRun) assertEquals([view.messages, view.tools, view.rewrites], [messages, [READ], []]);
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    entries.push(session.sent({ promptTokens: view.promptTokens, cachedTokens, outputTokens: 10 })!);
    messages.push(...reading(step, "read_file", file(step)));
  }
  return entries;
}

/** Returns the cost for a client that resends everything and compacts from this size on. */
function alone(steps: number, habit: CompactionHabit, from: number) {
  const { resultChars, retainedChars, retainedTokens = 0, keepsFront, isLate = false } = habit;
  const cost = (promptTokens: number, cachedTokens: number) =>
    promptCost(PROFILE, { promptTokens, cachedTokens });
  const sizes = { call: 0, result: 0, chars: 0, cut: 0 };
  const front = PrefixCache.unitsOf({ messages: [task], tools: [READ] }, estimateTokens)
    .reduce((sum, { tokens }) => sum + tokens, 0);
  let [paid, compactions, others, held, last] = [0, 0, 0, 0, 0];
  let retainedCount = 0;
  const prompt = () => front + others + retainedCount * (sizes.call + sizes.result);
  for (let step = 0; step < steps; step++) {
    if ((isLate ? last : prompt()) > from) {
      const stay = Math.min(retainedCount, Math.floor((retainedChars?.(from) ?? 0) / sizes.chars));
      paid += resultChars === undefined ? cost(prompt(), held) : cost((retainedCount - stay) * sizes.cut, 0);
      compactions++;
      [retainedCount, others, held] = [stay, retainedTokens, keepsFront ? front : 0];
    }
    paid += cost(prompt(), held);
    held = last = prompt();
    const [call, result] = reading(step, "read_file", file(step)) as [Message, Message];
    sizes.call = countMessageTokens(call, estimateTokens);
    sizes.result = countMessageTokens(result, estimateTokens);
    sizes.chars = JSON.stringify([call, result]).length;
    sizes.cut = estimateTokens((result.content as string).slice(0, resultChars));
    retainedCount++;
  }
  return { paid, compactions };
}

const HABITS: readonly (readonly [string, CompactionHabit])[] = [
  ["from a summary", { keepsFront: true }],
  ["with the newest messages", { resultChars: 2_000, retainedChars: () => 40_000, keepsFront: true }],
  ["with other things", { retainedTokens: 10_000, keepsFront: false }],
  ["when it has sent too much", {
    fullFrom: (windowTokens, replyTokens = 0) => windowTokens - replyTokens,
    isLate: true,
    keepsFront: true,
  }],
];

for (const [name, compaction] of HABITS) {
  Deno.test(`sent() includes the client's own compaction in the baseline: ${name}`, async () => {
    const entries = await play(100, { advanced: { compaction } });
    const claimed = entries.reduce((sum, { baselineCostUnits }) => sum + baselineCostUnits, 0);
    const from = compaction.fullFrom?.(WINDOW_TOKENS, REPLY_TOKENS) ?? WINDOW_TOKENS - 12_000;
    const { paid, compactions } = alone(100, compaction, from);
    assert(Math.abs(claimed - paid) < 0.05 * paid, `${claimed} against ${paid}`);
    assertEquals(entries.filter(({ baselineCompaction }) => baselineCompaction).length, compactions);
    assert(compactions > 2);
    // The cost of resending everything is reported as long as it fits.
    const fits = entries.findLastIndex(({ resendCostUnits }) => resendCostUnits !== undefined) + 1;
    assert(fits > 20 && fits < 40);
    assert(entries.every(({ resendCostUnits }, at) => (resendCostUnits !== undefined) === at < fits));
  });
}

Deno.test("sent() credits nothing for a reply that only recalls, and excludes its answer from the baseline", async () => {
  const session = plannerSession({
    profile: profileNamed("none"),
    archive: memoryArchive(),
    countTokens: estimateTokens,
  });
  const tools = [READ, RECALL_TOOL];
  const messages: Message[] = [task];
  const call = async (outputTokens: number) => {
    const { promptTokens } = await session.view({ messages, tools }, { nowMs: 0 });
    return session.sent({ promptTokens, cachedTokens: 0, outputTokens })!;
  };
  for (let step = 0; step < 12; step++) {
    await call(10);
    messages.push(...reading(step, "read_file", file(step)));
  }
  const before = await call(60);
  assert(before.baseline.promptTokens > before.usage.promptTokens);
  messages.push(...reading(12, RECALL_TOOL.function.name, file(0)));
  const recalled = await call(400);
  assertEquals(recalled.baseline, { promptTokens: 0, cachedTokens: 0, outputTokens: 340 });
  assertEquals(Math.round(recalled.savedCostUnits - before.savedCostUnits), -recalled.usage.promptTokens);
  messages.push({ role: "assistant", content: "Done." }, { role: "user", content: "More." });
  const { baseline, usage } = await call(10);
  const more = messages.slice(-2).reduce(
    (sum, message) => sum + countMessageTokens(message, estimateTokens),
    0,
  );
  assertEquals(baseline.promptTokens, before.baseline.promptTokens + more);
  assert(usage.promptTokens < baseline.promptTokens);
});

Deno.test("sent() charges a call that only reads evicted content again, also after a restart", async () => {
  const options = { profile: profileNamed("none"), archive: memoryArchive(), countTokens: estimateTokens };
  let session = plannerSession(options);
  const messages: Message[] = [task];
  const call = async () => {
    const { promptTokens } = await session.view({ messages, tools: [READ, RECALL_TOOL] }, { nowMs: 0 });
    return session.sent({ promptTokens, cachedTokens: 0, outputTokens: 10 })!;
  };
  for (let step = 0; step < 13; step++) {
    await call();
    messages.push(...reading(step, "read_file", file(step)));
  }
  const before = await call();
  assert(before.baseline.promptTokens > before.usage.promptTokens);
  const [, again] = reading(0, "read_file", file(0));
  messages.push(reading(0, "read_file", "")[0]!, again!);
  assertEquals((await call()).baseline.promptTokens, 0);
  session = plannerSession({ ...options, state: JSON.parse(JSON.stringify(session.state)) });
  messages.push(...reading(13, "read_file", file(13)));
  const added = messages.slice(-2).reduce((sum, one) => sum + countMessageTokens(one, estimateTokens), 0);
  assertEquals((await call()).baseline.promptTokens, before.baseline.promptTokens + added);
});

Deno.test("sent() finds evicted content again in results of several files, by file", async () => {
  const options = { profile: profileNamed("none"), archive: memoryArchive(), countTokens: estimateTokens };
  const session = plannerSession(options);
  const messages: Message[] = [task];
  const call = async () => {
    const { promptTokens } = await session.view({ messages, tools: [READ, RECALL_TOOL] }, { nowMs: 0 });
    return session.sent({ promptTokens, cachedTokens: 0, outputTokens: 10 })!.baseline.promptTokens;
  };
  let calls = 0;
  const read = async (...files: readonly number[]) => {
    const [path, ...also] = files.map((file) => ({ path: `src/file${file}.ts` }));
    const id = `call_${calls++}`;
    const sections = files.map((at) => `==> src/file${at}.ts <== lines 1-400 of 400\n${file(at)}`);
    messages.push(
      {
        role: "assistant",
        content: null,
        tool_calls: [{
          ...{ id, type: "function" },
          function: { name: "read_file", arguments: JSON.stringify({ ...path, also }) },
        }],
      },
      { role: "tool", tool_call_id: id, content: sections.join("") },
    );
    return await call();
  };
  await call();
  for (let step = 0; step < 24; step += 2) await read(step, step + 1);
  const before = await call();
  // The first results are evicted by now: a call that reads their files again only costs.
  const found: boolean[] = [];
  for (const files of [[1], [0, 3], [2, 50, 51]]) found.push(await read(...files) === 0);
  assertEquals([before > 0, ...found], [true, true, true, false]);
});

Deno.test("plannerSession() in a dry run sends everything, and records the plan's cost", async () => {
  const sum = (entries: readonly LedgerEntry[], of: (entry: LedgerEntry) => number) =>
    entries.reduce((all, entry) => all + of(entry), 0);
  for (const profile of ["anthropic-5m", "openai", "deepseek", "none"].map(profileNamed)) {
    const steps = 25;
    const observed = await play(steps, { dryRun: true, profile });
    const edited = await play(steps, { profile });
    const [paid, projected] = [sum(observed, (one) => one.costUnits), sum(edited, (one) => one.costUnits)];
    assertEquals(sum(observed, (one) => one.baselineCostUnits), paid);
    assertEquals(observed.map(({ savedCostUnits }) => savedCostUnits), observed.map(() => 0));
    const projectedSum = sum(observed, ({ projected }) => projected!.costUnits - projected!.refetchCostUnits);
    assert(
      Math.abs(projectedSum - projected) < 0.02 * projected,
      `${profile.name}: ${projectedSum} against ${projected}`,
    );
    const claimed = sum(edited, (one) => one.baselineCostUnits);
    assert(Math.abs(claimed - paid) < 0.02 * paid, `${profile.name}: ${claimed} against ${paid}`);
    const refetches = sum(observed, ({ projected }) => projected!.refetchCostUnits);
    assertEquals(refetches > 0, observed.some(({ decision }) => decision?.cause === "price"), profile.name);
  }
});

Deno.test("PlanningSession.fork(): the baseline doesn't repeat the parent's compaction", async () => {
  const session = plannerSession({
    profile: PROFILE,
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: WINDOW_TOKENS,
  });
  const messages: Message[] = [task];
  const call = async (of = session) => {
    const { promptTokens, predictedCachedTokens } = await of.view({ messages, tools: [READ] }, { nowMs: 0 });
    return of.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 10 })!;
  };
  let compacted = 0;
  // Until some calls after a compaction.
  for (let step = 0; compacted < 4; step++) {
    const { baselineCompaction } = await call();
    if (baselineCompaction || compacted > 0) compacted++;
    messages.push(...reading(step, "read_file", file(step)));
  }
  const parent = await call();
  const { baselineCompaction, baseline } = await call(session.fork(messages.length, memoryArchive()));
  assertEquals([baselineCompaction, baseline.promptTokens], [undefined, parent.baseline.promptTokens]);
  assert(baseline.promptTokens < 0.5 * WINDOW_TOKENS);
});

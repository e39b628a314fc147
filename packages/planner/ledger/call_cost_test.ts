import { assert, assertAlmostEquals, assertEquals, assertObjectMatch } from "@std/assert";
import { estimateTokens, type Message, type Usage } from "@tare/messages";
import { type LedgerEntry, listPrice, plannerSession, profileNamed } from "@tare/planner";
import { budgetUsd, callCost, comparedUsd, PrefixCache } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";

const PROFILE = profileNamed("anthropic-5m");
const READ: Usage = { promptTokens: 1_000_000, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 0 };

function usd(model: string, more: Partial<Usage>): number | undefined {
  return callCost({ ...READ, ...more }, { profile: PROFILE, price: listPrice(model) }).usd;
}

Deno.test("callCost() prices tiers, regions, server tools and inner calls, or nothing", () => {
  const inner = { promptTokens: 180_000, cachedTokens: 0, cacheWriteTokens: 0, outputTokens: 3_500 };
  const cases: readonly [model: string, more: Partial<Usage>, usd: number | undefined][] = [
    ["claude-opus-4-8", {}, 5],
    ["claude-opus-4-8", { tier: "fast" }, 10],
    ["claude-opus-4-6", { tier: "fast" }, 30],
    ["claude-sonnet-5", { tier: "fast" }, undefined],
    ["claude-opus-4-8", { tier: "fast", region: "us" }, 11],
    ["claude-opus-4-6", { region: "us" }, 5.5],
    ["claude-opus-4-6", { region: "eu" }, undefined],
    ["claude-opus-4-8", { tier: "priority" }, undefined],
    ["gpt-5.6-sol", { tier: "priority" }, 16],
    ["gpt-5.5", { tier: "priority" }, undefined],
    ["gpt-5.5", { tier: "priority", promptTokens: 100_000 }, 1.25],
    ["gpt-5.5", { tier: "flex" }, 5],
    ["gpt-5", { tier: "scale" }, undefined],
    ["gemini-3.1-pro", { tier: "priority", promptTokens: 100_000 }, 0.36],
    ["claude-opus-4-6", { serverTools: { web_search: 100, web_fetch: 7 } }, 6],
    ["claude-opus-4-6", { serverTools: { code_execution: 1 } }, undefined],
    ["gpt-4o", { serverTools: { web_search: 1 } }, undefined],
    ["claude-opus-4-8", { serverTools: { toString: 1 } }, undefined],
    ["claude-opus-4-8", { innerCalls: [{ type: "compaction", ...inner }] }, 5.987_5],
    ["claude-opus-4-8", { tier: "fast", innerCalls: [{ type: "compaction", ...inner }] }, 11.975],
    [
      "claude-sonnet-5",
      { innerCalls: [{ type: "advisor_message", model: "claude-opus-5", ...inner }] },
      2.987_5,
    ],
    [
      "claude-sonnet-5",
      { innerCalls: [{ type: "advisor_message", model: "claude-next", ...inner }] },
      undefined,
    ],
    ["claude-sonnet-5", { innerCalls: [{ type: "news", ...inner }] }, undefined],
    ["claude-fable-5-2", { model: "claude-opus-5" }, 5],
    // The provider's own report wins, whatever it contains.
    ["unknown", { reportedUsd: 0.25 }, 0.25],
    ["claude-opus-4-8", { tier: "odd", serverTools: { odd: 1 }, reportedUsd: 0 }, 0],
    // A prompt that is read twice is not longer.
    ["gpt-5.5", { firstRead: { promptTokens: 200_000, cachedTokens: 0 } }, 5],
  ];
  for (const [model, more, expected] of cases) {
    const found = usd(model, more);
    if (expected === undefined || found === undefined) assertEquals(found, expected, JSON.stringify(more));
    else assertAlmostEquals(found, expected, 1e-9, `${model} ${JSON.stringify(more)}`);
  }
});

Deno.test("budgetUsd() counts at least the list price of the tokens", () => {
  const rates = { profile: PROFILE, price: listPrice("claude-opus-4-8") };
  assertEquals(budgetUsd({ ...READ, tier: "priority", serverTools: { odd: 1 } }, rates), 5);
  assertEquals(budgetUsd({ ...READ, tier: "fast" }, rates), 10);
  assertEquals(budgetUsd(READ, { profile: PROFILE }), 0);
});

Deno.test("comparedUsd() scales a baseline to a reported cost, and claims no more than the prices do", () => {
  const half = { ...READ, promptTokens: 500_000 };
  const compare = (actual: Usage, other: Usage, price = listPrice("claude-opus-4-8")) =>
    comparedUsd([other], { actual, rates: { profile: PROFILE, price }, costUnits: 2, actualUnits: 1 });
  assertEquals(compare(half, READ), 5);
  assertEquals(compare({ ...half, reportedUsd: 2.5 }, READ), 5);
  // Half the list price halves the saving; twice the list price may pay for something else.
  assertEquals(compare({ ...half, reportedUsd: 1.25 }, READ), 2.5);
  assertEquals(compare({ ...half, reportedUsd: 5 }, READ), 7.5);
  // A loss is scaled in full.
  assertEquals(compare({ ...READ, reportedUsd: 10 }, half), 5);
  const rates = { profile: PROFILE };
  const gain = { actual: { ...half, reportedUsd: 3 }, rates, costUnits: 2, actualUnits: 1 };
  assertEquals([comparedUsd([READ], gain), comparedUsd([READ], { ...gain, costUnits: 0.5 })], [3, 1.5]);
  assertEquals(comparedUsd([READ], { ...gain, actual: half }), undefined);
});

/** Returns the ledger of a session that evicts results; `billed` returns what each reply reports besides tokens. */
async function play(billed: (read: Usage) => Usage): Promise<{ entries: LedgerEntry[]; prompts: number[] }> {
  const session = plannerSession({
    profile: PROFILE,
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: 200_000,
    // A longer bill would allow dearer rewrites.
    advanced: { lossLimit: Infinity },
  });
  const cache = new PrefixCache(PROFILE);
  const entries: LedgerEntry[] = [];
  const prompts: number[] = [];
  let messages: Message[] = [{ role: "user", content: "Review all of src." }];
  for (let at = 0; at < 40; at++) {
    const nowMs = at * 20_000;
    const view = await session.view({ messages, tools: [] }, { nowMs });
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    prompts.push(view.promptTokens);
    const { promptTokens } = view;
    const cacheWriteTokens = promptTokens - cachedTokens;
    const entry = session.sent(billed({ promptTokens, cachedTokens, cacheWriteTokens, outputTokens: 20 }));
    if (entry) entries.push(entry);
    const [id, path] = [`${at}`, `src/${at}.ts`];
    const call = { name: "read_file", arguments: JSON.stringify({ path }) };
    const text = Array.from(
      { length: 400 },
      (_, line) => `const v${at}_${line} = ${(at * 7_919 + line * 104_729) % 99_991};`,
    );
    messages = [
      ...messages,
      { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: call }] },
      { role: "tool", tool_call_id: id, content: text.join("\n") },
    ];
  }
  return { entries, prompts };
}

Deno.test("ledger: tier, region, server tools and advisors change neither the plan nor the estimated saving", async () => {
  const plain = await play((usage) => usage);
  const saving = ({ entries }: typeof plain) => entries.at(-1)!.savedCostUnits;
  assert(saving(plain) > 10_000);
  const innerCalls = [{ type: "advisor_message", promptTokens: 9_000, cachedTokens: 0, outputTokens: 500 }];
  const more: Partial<Usage> = { tier: "fast", region: "us", serverTools: { web_search: 2 }, innerCalls };
  const billed = await play((usage) => ({ ...usage, ...more }));
  assertEquals(billed.prompts, plain.prompts);
  assertAlmostEquals(saving(billed), saving(plain), 1e-3);
  for (const [at, { baseline, costUnits, baselineCostUnits }] of billed.entries.entries()) {
    assertObjectMatch({ ...baseline }, more);
    const alike = plain.entries[at]!;
    const units = 9_000 * PROFILE.write;
    assertAlmostEquals(costUnits - alike.costUnits, units, 1e-6);
    assertAlmostEquals(baselineCostUnits - alike.baselineCostUnits, units, 1e-6);
  }
});

Deno.test("ledger: later reads of a prompt for the provider's own tools are the baseline's, too", async () => {
  const plain = await play((usage) => usage);
  const again = await play(({ promptTokens, cachedTokens, cacheWriteTokens = 0, outputTokens }) => ({
    promptTokens: 2 * promptTokens + 100,
    cachedTokens: cachedTokens + promptTokens,
    cacheWriteTokens: cacheWriteTokens + 100,
    outputTokens,
    firstRead: { promptTokens, cachedTokens, cacheWriteTokens },
    serverTools: { web_search: 1 },
  }));
  assertEquals(again.prompts, plain.prompts);
  const [saved, alike] = [again, plain].map(({ entries }) => entries.at(-1)!.savedCostUnits);
  assertAlmostEquals(saved!, alike!, 1e-3);
});

Deno.test("ledger: nothing is claimed for a prompt that the provider compacted", async () => {
  const compaction = { type: "compaction", promptTokens: 30_000, cachedTokens: 0, outputTokens: 900 };
  const { entries } = await play((usage) => ({ ...usage, innerCalls: [compaction] }));
  for (const { costUnits, baselineCostUnits } of entries) {
    assertAlmostEquals(costUnits, baselineCostUnits, 1e-6);
  }
});

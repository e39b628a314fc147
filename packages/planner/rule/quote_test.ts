import type { Removal } from "../retention/retention.ts";
import { decide } from "./decide.ts";
import { quotePrompt } from "./decide.ts";
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";
import fc from "../../../tests/cases.ts";

const profile = profileNamed("anthropic-5m");

function removal(start: number, tokens: number): Removal {
  const how = { type: "drop", from: 0, to: 1 } as const;
  return { start, tokens, parts: [{ name: `${start}`, tokens }], idle: true, evicts: true, loss: 0, how };
}

Deno.test("quotePrompt() returns the cost of a prompt warm and cold, unchanged and rewritten", () => {
  const prompt = { profile, promptTokens: 20_000, cachedTokens: 16_000, cacheHitProbability: 0.9 };
  const asIs = { promptTokens: 20_000, cachedTokens: 16_000, warmCostUnits: 6_600, coldCostUnits: 25_000 };
  assertEquals(quotePrompt([], prompt), { asIs, rewritten: asIs, cacheHitProbability: 0.9 });
  assertEquals(quotePrompt([removal(4_000, 3_000.4), removal(9_000, 6_000)], prompt), {
    asIs,
    rewritten: { promptTokens: 11_000, cachedTokens: 4_000, warmCostUnits: 9_150, coldCostUnits: 13_750 },
    cacheHitProbability: 0.9,
  });
  const { rewritten } = quotePrompt([removal(18_000, 1_000)], prompt);
  assertEquals(rewritten.cachedTokens, 16_000);
});

Deno.test("quotePrompt() differs between rewritten and unchanged prompts by the price that decides", () => {
  fc.assert(fc.property(
    fc.array(fc.record({ start: fc.nat(10_000), tokens: fc.integer({ min: 1, max: 500 }) }), {
      maxLength: 8,
    }),
    fc.nat(20_000),
    (found, cachedTokens) => {
      // All of them are evicted, or none.
      const removals = found.toSorted((a, b) => a.start - b.start).map(({ start, tokens }, at) => ({
        ...removal(start, tokens),
        idle: at === 0,
      }));
      const prompt = { profile, promptTokens: 20_000, cachedTokens, cacheHitProbability: 1 };
      const { asIs, rewritten } = quotePrompt(removals, prompt);
      const { decision } = decide({
        ...prompt,
        removals,
        carried: 0,
        idleSince: {},
        allowedRewriteCost: Infinity,
        stopped: false,
        windowTokens: Infinity,
      });
      assertAlmostEquals(rewritten.warmCostUnits - asIs.warmCostUnits, decision?.rewriteCost ?? 0);
    },
  ));
});

function call(id: string, name = "run"): Message {
  return {
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name, arguments: "{}" } }],
  };
}

Deno.test("quote() returns the result of view() and sent() for the call, and changes nothing", async () => {
  const archived: string[] = [];
  const archive = memoryArchive();
  const session = plannerSession({
    profile,
    countTokens: estimateTokens,
    archive: { ...archive, put: (text) => (archived.push(text), archive.put(text)) },
    mechanisms: { truncate: false },
  });
  const messages: Message[] = [{ role: "user", content: "Read." }];
  for (let id = 1; id <= 4; id++) {
    messages.push(call(`${id}`, id === 4 ? "read" : "run"), {
      role: "tool",
      tool_call_id: `${id}`,
      content: `${id} `.repeat(20_000),
    });
  }
  const now = { nowMs: 0 };
  const first = session.quote({ messages, tools: [] }, now);
  assertEquals([first.cacheHitProbability, first.asIs.cachedTokens, archived], [0, 0, []]);
  const evictingNow = { ...now, evictNow: true };
  const { rewrites: [rewrite], promptTokens } = await session.view({ messages, tools: [] }, evictingNow);
  assert(rewrite);
  assertEquals(first.asIs.promptTokens, rewrite.tokensBefore);
  assert(Math.abs(first.rewritten.promptTokens - promptTokens) < 0.1 * rewrite.tokensBefore);
  const entry = session.sent({ promptTokens, cachedTokens: 0, outputTokens: 1 });
  assertEquals(entry?.costUnits, promptCost(profile, { promptTokens, cachedTokens: 0 }));

  const { state } = session;
  messages.push({ role: "assistant", content: "ok" });
  const { asIs, cacheHitProbability } = session.quote({ messages, tools: [] }, now);
  assertEquals(session.state, state);
  await session.view({ messages, tools: [] }, now);
  const sent = session.sent({
    promptTokens: asIs.promptTokens,
    cachedTokens: asIs.cachedTokens,
    outputTokens: 1,
  });
  assertEquals([cacheHitProbability > 0.9, sent?.predictedCachedTokens, sent?.costUnits], [
    true,
    asIs.cachedTokens,
    asIs.warmCostUnits,
  ]);
});

import type { Removal } from "../retention/find_removals.ts";
import type { PlanRequest } from "./plan.ts";
import { Planner } from "./planner.ts";
import { quotePrompt } from "./quote.ts";
import { weighCuts } from "./weigh_cuts.ts";
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { profileNamed, promptCost } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import fc from "fast-check";

const profile = profileNamed("anthropic-5m");

function removal(start: number, tokens: number): Removal {
  const how = { type: "drop", from: 0, to: 1 } as const;
  return { start, tokens, parts: [{ name: `${start}`, tokens }], idle: true, goes: true, loss: 0, how };
}

Deno.test("quotePrompt() quotes a prompt warm and cold, as it stands and rewritten", () => {
  const prompt = { profile, promptTokens: 20_000, cachedTokens: 16_000, alive: 0.9 };
  const asIs = { promptTokens: 20_000, cachedTokens: 16_000, warmTokenUnits: 6_600, coldTokenUnits: 25_000 };
  assertEquals(quotePrompt([], prompt), { asIs, rewritten: asIs, alive: 0.9 });
  assertEquals(quotePrompt([removal(4_000, 3_000.4), removal(9_000, 6_000)], prompt), {
    asIs,
    rewritten: { promptTokens: 11_000, cachedTokens: 4_000, warmTokenUnits: 9_150, coldTokenUnits: 13_750 },
    alive: 0.9,
  });
  const { rewritten } = quotePrompt([removal(18_000, 1_000)], prompt);
  assertEquals(rewritten.cachedTokens, 16_000);
});

Deno.test("quotePrompt() tells rewritten and standing prompts apart by the price that decides", () => {
  fc.assert(fc.property(
    fc.array(fc.record({ start: fc.nat(10_000), tokens: fc.integer({ min: 1, max: 500 }) }), {
      maxLength: 8,
    }),
    fc.nat(20_000),
    (found, cachedTokens) => {
      const removals = found.toSorted((a, b) => a.start - b.start).map(({ start, tokens }) =>
        removal(start, tokens)
      );
      const prompt = { profile, promptTokens: 20_000, cachedTokens, alive: 1 };
      const { asIs, rewritten } = quotePrompt(removals, prompt);
      const whole = weighCuts(
        found.toSorted((a, b) => a.start - b.start).map((at) => ({ ...at, rent: 0, idle: true })),
        prompt,
      );
      assertAlmostEquals(rewritten.warmTokenUnits - asIs.warmTokenUnits, whole.at(-1)?.price ?? 0);
    },
  ));
});

function call(id: string, name = "run"): Message {
  return {
    role: "assistant",
    tool_calls: [{ id, type: "function", function: { name, arguments: "{}" } }],
  };
}

Deno.test("Planner.quote() tells what plan() and sent() would make of the call, and changes nothing", async () => {
  const archived: string[] = [];
  const archive = memoryArchive();
  const planner = new Planner({
    profile,
    countTokens: estimateTokens,
    archive: { ...archive, put: (text) => (archived.push(text), archive.put(text)) },
  });
  const messages: Message[] = [{ role: "user", content: "Read." }];
  for (let id = 1; id <= 4; id++) {
    messages.push(call(`${id}`, id === 4 ? "read" : "run"), {
      role: "tool",
      tool_call_id: `${id}`,
      content: `${id} `.repeat(20_000),
    });
  }
  const request: PlanRequest = { messages, tools: [], edits: [], nowMs: 0 };
  const first = planner.quote(request);
  assertEquals([first.alive, first.asIs.cachedTokens, archived], [0, 0, []]);
  const plan = await planner.plan(request);
  assertEquals(plan.edits.length > 0, true);
  assertEquals(first.asIs.promptTokens, plan.tokensBefore);
  assert(Math.abs(first.rewritten.promptTokens - plan.promptTokens) < 0.1 * plan.tokensBefore);
  const entry = planner.sent(plan, { promptTokens: plan.promptTokens, cachedTokens: 0, outputTokens: 1 });
  assertEquals(entry.tokenUnits, promptCost(profile, { promptTokens: plan.promptTokens, cachedTokens: 0 }));

  const { state } = planner;
  const next: PlanRequest = {
    ...request,
    messages: [...messages, { role: "assistant", content: "ok" }],
    edits: plan.edits,
  };
  const { asIs, alive } = planner.quote(next);
  assertEquals(planner.state, state);
  const planned = await planner.plan(next);
  const usage = { promptTokens: asIs.promptTokens, cachedTokens: asIs.cachedTokens, outputTokens: 1 };
  const sent = planner.sent(planned, usage);
  assertEquals([alive > 0.9, sent.predictedCachedTokens, sent.tokenUnits], [
    true,
    asIs.cachedTokens,
    asIs.warmTokenUnits,
  ]);
});

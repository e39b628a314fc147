import { assertEquals, assertStrictEquals } from "@std/assert";
import fc from "../../tests/cases.ts";
import { groupTurns, toolLoopContext } from "@tare/context";
import { estimateTokens, type Message } from "@tare/messages";
import { callPairs } from "../../tests/call_pairs.ts";
import { conversations, messyConversations } from "../../tests/conversations.ts";

const budgets = fc.oneof(fc.constant(0), fc.nat({ max: 100 }), fc.nat({ max: 10_000 }));
const anyConversation = fc.oneof(conversations(), messyConversations());

function view(messages: readonly Message[], historyBudgetTokens: number, activeTurnStart?: number) {
  return toolLoopContext(messages, {
    countTokens: estimateTokens,
    historyBudgetTokens,
    ...(activeTurnStart !== undefined && { activeTurnStart }),
  });
}

Deno.test("invariant 2, pairs stay whole: a view of toolLoopContext() separates no call from its answer", () => {
  const startSeed = fc.option(fc.nat(), { nil: undefined });
  fc.assert(fc.property(anyConversation, budgets, startSeed, (messages, budget, seed) => {
    const start = seed === undefined ? undefined : seed % (messages.length + 1);
    const visible = new Set(view(messages, budget, start).messages);
    for (const { call, answer } of callPairs(messages).pairs) {
      assertEquals(visible.has(messages[call]!), visible.has(messages[answer]!));
    }
  }));
});

Deno.test("invariant 2, pairs stay whole: in a view of a whole conversation each call has its answer", () => {
  fc.assert(fc.property(conversations(), budgets, (messages, budget) => {
    const { unanswered, orphans } = callPairs(view(messages, budget).messages);
    assertEquals([unanswered, orphans], [[], []]);
  }));
});

Deno.test("invariant 2, messages are never altered: a view contains the same objects, in order", () => {
  fc.assert(fc.property(anyConversation, budgets, (messages, budget) => {
    const before = structuredClone(messages);
    const { messages: visible, removed } = view(messages, budget);
    const retained = new Set(visible);
    const expected = messages.filter((message) => retained.has(message));
    assertEquals(visible.length, expected.length);
    visible.forEach((message, i) => assertStrictEquals(message, expected[i]));
    assertEquals(removed.length, messages.length - visible.length);
    // The input array is not mutated.
    assertEquals(messages, before);
  }));
});

Deno.test("invariant 3, prefix: follow-up calls of a turn only add to the view", () => {
  fc.assert(fc.property(conversations(), budgets, (messages, budget) => {
    const { start } = groupTurns(messages).at(-1) ?? { start: 0 };
    const ends = messages.flatMap((message, at) => at >= start && message.role === "assistant" ? [at] : []);
    let previous: readonly Message[] | undefined;
    for (const end of ends) {
      const sent = messages.slice(0, end);
      const visible = view(sent, budget, start).messages;
      if (previous) assertEquals(visible.slice(0, previous.length), previous);
      if (sent.slice(start).some(({ role }) => role === "tool")) previous = visible;
    }
  }));
});

Deno.test("invariant 4, determinism: equal conversations give equal views", () => {
  fc.assert(fc.property(anyConversation, budgets, (messages, budget) => {
    const again = view(structuredClone(messages), budget);
    assertEquals(JSON.stringify(view(messages, budget)), JSON.stringify(again));
  }));
});

Deno.test("invariant 5, idempotence: a view of a view is that view", () => {
  fc.assert(fc.property(anyConversation, budgets, (messages, budget) => {
    const once = view(messages, budget);
    const twice = view(once.messages, budget);
    assertStrictEquals(twice.messages, once.messages);
    assertEquals([twice.removed, twice.tokensBefore], [[], once.tokensAfter]);
  }));
});

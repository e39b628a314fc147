import { assertEquals } from "@std/assert";
import fc from "./cases.ts";
import { callPairs } from "./call_pairs.ts";
import { conversations, messyConversations } from "./conversations.ts";

Deno.test("conversations() generates conversations in which each call has one answer", () => {
  fc.assert(fc.property(conversations(), (messages) => {
    const { unanswered, orphans } = callPairs(messages);
    assertEquals([unanswered, orphans], [[], []]);
  }));
});

Deno.test("messyConversations() generates unanswered calls, orphans and user messages inside a pair, among others", () => {
  const sample = fc.sample(messyConversations(), { numRuns: 500, seed: 1 });
  const seen = new Set(sample.flatMap((messages) => {
    const { pairs, unanswered, orphans } = callPairs(messages);
    return [
      ...(unanswered.length ? ["unanswered"] : []),
      ...(orphans.length ? ["orphan"] : []),
      ...(pairs.some(({ call, answer }) => messages.slice(call, answer).some((m) => m.role === "user"))
        ? ["user inside a pair"]
        : []),
    ];
  }));
  assertEquals([...seen].sort(), ["orphan", "unanswered", "user inside a pair"]);
});

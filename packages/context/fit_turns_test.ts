import { assertEquals, assertThrows } from "@std/assert";
import { groupTurns } from "@tare/context";
import { type Message, MESSAGE_OVERHEAD_TOKENS } from "@tare/messages";
import { fitTurns } from "./fit_turns.ts";

const countTokens = (text: string) => text.length;

/** Turns of one message each that cost this many tokens. */
function turnsOf(...tokens: readonly number[]): { messages: Message[]; costs: (budget: number) => number[] } {
  const messages = tokens.flatMap((cost): Message[] => [
    { role: "user", content: "u".repeat(cost - 2 * MESSAGE_OVERHEAD_TOKENS) },
    { role: "assistant", content: "" },
  ]);
  const turns = groupTurns(messages);
  return {
    messages,
    costs: (historyBudgetTokens) =>
      fitTurns(messages, turns, { countTokens, historyBudgetTokens }).map((turn) =>
        tokens[turns.indexOf(turn)] ?? -1
      ),
  };
}

Deno.test("fitTurns() keeps the most recent turns that fit, to the last token", () => {
  const { costs } = turnsOf(40, 30, 20, 10);
  assertEquals(
    [100, 99, 60, 59, 30, 29, 10, 9, 0].map(costs),
    [[40, 30, 20, 10], [30, 20, 10], [30, 20, 10], [20, 10], [20, 10], [10], [10], [], []],
  );
  assertEquals(costs(Infinity), [40, 30, 20, 10]);
});

Deno.test("fitTurns() stops at the first turn that doesn't fit, even if an older one would", () => {
  assertEquals(turnsOf(10, 90, 10).costs(50), [10]);
});

Deno.test("fitTurns() doesn't count system and developer messages", () => {
  const messages: Message[] = [
    { role: "user", content: "" },
    { role: "system", content: "x".repeat(1_000) },
    { role: "developer", content: "x".repeat(1_000) },
  ];
  const turns = groupTurns(messages);
  assertEquals(fitTurns(messages, turns, { countTokens, historyBudgetTokens: 4 }), turns);
});

Deno.test("fitTurns() refuses a budget that is negative or not a number", () => {
  for (const budget of [-1, NaN]) {
    assertThrows(
      () => turnsOf(10).costs(budget),
      RangeError,
      `historyBudgetTokens is ${budget}, it must be 0`,
    );
  }
});

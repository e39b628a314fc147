import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import { groupTurns, toolLoopContext } from "@tare/context";
import { countRequestTokens, type Message, type ToolCall } from "@tare/messages";
import { MESSAGE_OVERHEAD_TOKENS } from "@tare/messages/internal";
import { fitTurns } from "./tool_loop_context.ts";

const countTokens = (text: string) => text.length;

const system: Message = { role: "system", content: "Be brief." };
const user = (content: string): Message => ({ role: "user", content });
const text = (content: string): Message => ({ role: "assistant", content });
const result = (id: string, content = "result"): Message => ({ role: "tool", tool_call_id: id, content });
function calls(...ids: readonly string[]): Message {
  const toCall = (id: string): ToolCall => ({
    id,
    type: "function",
    function: { name: "f", arguments: "{}" },
  });
  return { role: "assistant", content: null, tool_calls: ids.map(toCall) };
}
/** Returns a turn of 2 messages and 1,000 tokens. */
const oldTurn = (name: string) => [user(`${name}?`), text(name.padEnd(1_000 - 9 - name.length, "."))];

Deno.test("toolLoopContext() doesn't change a small context", () => {
  const messages = [system, ...oldTurn("a"), user("b"), calls("1"), result("1")];
  const tokens = countRequestTokens({ messages }, countTokens);
  const view = toolLoopContext(messages, { countTokens });
  assertEquals(view, {
    messages,
    removed: [],
    removedAt: 0,
    tokensBefore: tokens,
    tokensAfter: tokens,
    removedTurns: 0,
  });
  assertStrictEquals(view.messages, messages);
});

Deno.test("toolLoopContext() sends the whole conversation in the first model call of a turn", () => {
  const messages = [system, ...oldTurn("a"), ...oldTurn("b"), user("c")];
  assertStrictEquals(toolLoopContext(messages, { countTokens, historyBudgetTokens: 0 }).messages, messages);
});

Deno.test("toolLoopContext() cuts a long history to the budget, 16,000 tokens by default", () => {
  const history = Array.from({ length: 40 }, (_, i) => oldTurn(`turn ${i}`));
  const active = [user("now"), calls("1"), result("1")];
  const messages = [system, ...history.flat(), ...active];
  const retained = [system, ...history.slice(-16).flat(), ...active];
  assertEquals(toolLoopContext(messages, { countTokens }), {
    messages: retained,
    removed: history.slice(0, -16).flat(),
    removedAt: 1,
    tokensBefore: countRequestTokens({ messages }, countTokens),
    tokensAfter: countRequestTokens({ messages: retained }, countTokens),
    removedTurns: 24,
  });
  const { messages: fewer } = toolLoopContext(messages, { countTokens, historyBudgetTokens: 2_999 });
  assertEquals(fewer, [system, ...history.slice(-2).flat(), ...active]);
});

Deno.test("toolLoopContext() retains recent turns complete, with all their calls and results", () => {
  const recent = [user("b"), calls("1"), result("1"), calls("2"), result("2"), text("b")];
  const active = [user("c"), calls("3"), result("3")];
  const messages = [...oldTurn("a"), ...recent, ...active];
  const cost = countRequestTokens({ messages: recent }, countTokens);
  const view = (historyBudgetTokens: number) =>
    toolLoopContext(messages, { countTokens, historyBudgetTokens }).messages;
  assertEquals(view(cost), [...recent, ...active]);
  assertEquals(view(cost - 1), active);
});

Deno.test("toolLoopContext() retains call/result pairing, also of parallel calls and of a user message amid them", () => {
  const recent = [
    user("b"),
    calls("1", "2", "3"),
    result("2"),
    user("hurry"),
    result("3"),
    result("1"),
    text("b"),
  ];
  const active = [user("c"), calls("1", "2"), result("2"), result("1")];
  const messages = [...oldTurn("a"), ...recent, ...active];
  for (const budget of [0, 20, 40, 60, 80, 100, 120]) {
    const view = toolLoopContext(messages, { countTokens, historyBudgetTokens: budget });
    const whole = countRequestTokens({ messages: recent }, countTokens) <= budget;
    assertEquals(view.messages, whole ? [...recent, ...active] : active);
  }
});

Deno.test("toolLoopContext() retains an oversized active turn", () => {
  const active = [
    user("b"),
    calls("1"),
    result("1", "x".repeat(100_000)),
    calls("2"),
    result("2", "y".repeat(100_000)),
  ];
  const { messages, tokensAfter } = toolLoopContext([...oldTurn("a"), ...active], {
    countTokens,
    historyBudgetTokens: 10,
  });
  assertEquals(messages, active);
  assertEquals(tokensAfter > 200_000, true);
});

Deno.test("toolLoopContext() doesn't change a history without a user message", () => {
  const messages = [system, calls("1"), result("1"), text("a"), calls("2"), result("2")];
  assertStrictEquals(toolLoopContext(messages, { countTokens, historyBudgetTokens: 0 }).messages, messages);
  assertEquals(toolLoopContext([], { countTokens }).removed, []);
});

Deno.test("toolLoopContext() treats user→user as one turn", () => {
  const active = [user("one more thing"), user("and another"), calls("1"), result("1")];
  const { messages, removedTurns } = toolLoopContext([user("a"), user("b"), text("c"), ...active], {
    countTokens,
    historyBudgetTokens: 0,
  });
  assertEquals([messages, removedTurns], [active, 1]);
});

Deno.test("toolLoopContext() retains a system or developer message in the middle", () => {
  const developer: Message = { role: "developer", content: "From now on, in French." };
  const active = [user("c"), calls("1"), system, result("1")];
  const [question, answer] = oldTurn("a");
  const messages = [system, question!, developer, answer!, ...oldTurn("b"), ...active];
  const view = toolLoopContext(messages, { countTokens, historyBudgetTokens: 0 });
  assertEquals(view.messages, [system, developer, ...active]);
  assertEquals([view.removed.length, view.removedTurns], [4, 2]);
  // The line for removed messages follows the instructions among them.
  assertEquals([view.removed, view.removedAt], [[question, answer, ...oldTurn("b")], 2]);
});

Deno.test("toolLoopContext() with budget zero retains only instructions and the active turn", () => {
  const active = [user("c"), calls("1"), result("1")];
  const messages = [system, ...oldTurn("a"), ...oldTurn("b"), ...active];
  const view = toolLoopContext(messages, { countTokens, historyBudgetTokens: 0 });
  assertEquals(view.messages, [system, ...active]);
});

Deno.test("toolLoopContext() honours an explicit start of the active turn", () => {
  // The start of the active turn is not stored: without the option it would belong to the turn before.
  const active = [calls("1"), result("1")];
  const messages = [system, ...oldTurn("a"), ...oldTurn("b"), ...active];
  const options = { countTokens, historyBudgetTokens: 0 };
  assertEquals(toolLoopContext(messages, { ...options, activeTurnStart: 5 }).messages, [system, ...active]);
  assertEquals(toolLoopContext(messages, options).messages, [system, ...oldTurn("b"), ...active]);
  // The results before the start belong to no active turn.
  assertStrictEquals(toolLoopContext(messages, { ...options, activeTurnStart: 7 }).messages, messages);
});

Deno.test("toolLoopContext() counts a result in the old format of functions, too", () => {
  const active: Message[] = [user("b"), text(""), { role: "function", name: "f", content: "result" }];
  const { messages } = toolLoopContext([...oldTurn("a"), ...active], { countTokens, historyBudgetTokens: 0 });
  assertEquals(messages, active);
});

Deno.test("toolLoopContext() retains the caller's message type, and the objects", () => {
  type Stored = Message & { readonly storedAt: number };
  const messages: Stored[] = [...oldTurn("a"), user("b"), calls("1"), result("1")]
    .map((message, storedAt) => ({ ...message, storedAt }));
  const view = toolLoopContext(messages, { countTokens, historyBudgetTokens: 0 });
  assertEquals(view.messages.map(({ storedAt }) => storedAt), [2, 3, 4]);
  view.messages.forEach((message, i) => assertStrictEquals(message, messages[i + 2]));
});

Deno.test("toolLoopContext() mutates neither the messages nor their list", () => {
  const messages = [system, ...oldTurn("a"), user("b"), calls("1"), result("1")];
  const before = structuredClone(messages);
  messages.forEach((message) => Object.freeze(message));
  const { removed } = toolLoopContext(Object.freeze(messages), { countTokens, historyBudgetTokens: 0 });
  assertEquals([removed.length > 0, messages], [true, before]);
});

Deno.test("toolLoopContext() rejects an invalid budget or start", () => {
  const messages = [user("a")];
  for (const historyBudgetTokens of [-1, NaN]) {
    assertThrows(
      () => toolLoopContext(messages, { countTokens, historyBudgetTokens }),
      RangeError,
      `historyBudgetTokens is ${historyBudgetTokens}`,
    );
  }
  for (const activeTurnStart of [-1, 2, 0.5]) {
    assertThrows(
      () => toolLoopContext(messages, { countTokens, activeTurnStart }),
      RangeError,
      `activeTurnStart is ${activeTurnStart}`,
    );
  }
});

/** Returns turns of one message each that cost this many tokens. */
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

Deno.test("fitTurns() returns the most recent turns that fit, to the last token", () => {
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

Deno.test("fitTurns() rejects a budget that is negative or not a number", () => {
  for (const budget of [-1, NaN]) {
    assertThrows(
      () => turnsOf(10).costs(budget),
      RangeError,
      `historyBudgetTokens is ${budget}, it must be 0`,
    );
  }
});

import { assertEquals, assertThrows } from "@std/assert";
import { type LoopEvent, run, type RunOptions, type TurnResult } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import type { Content, Message } from "@tare/messages";
import { call, callTools, say, scripted } from "./fixture_test.ts";

const clock = { definition: { type: "function", function: { name: "clock" } }, run: () => "12:00" } as const;

async function play(options: RunOptions): Promise<{ events: LoopEvent[]; result: TurnResult }> {
  const turn = run(options);
  const events: LoopEvent[] = [];
  for (;;) {
    const { done, value } = await turn.next();
    if (done) return { events, result: value };
    events.push(value);
  }
}

Deno.test("run() adds user messages before the next model call", async () => {
  const { model, requests } = scripted(callTools(call("1", "clock")), say("Noted."));
  const queue: Content[][] = [[], ["Be brief."], []];
  const { events, result } = await play({
    model,
    tools: [clock],
    history: [],
    input: "What time is it?",
    steering: () => queue.shift() ?? [],
  });
  assertEquals(events.map(({ type }) => type).filter((type) => !type.endsWith("delta")), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call",
    "tool_result",
    "step_end",
    "step_start",
    "user_message",
    "assistant_message",
    "step_end",
    "turn_end",
  ]);
  assertEquals(requests[1]!.messages.slice(-2), [
    { role: "tool", tool_call_id: "1", content: "12:00" },
    { role: "user", content: "Be brief." },
  ]);
  assertEquals(result.messages.map(({ role }) => role), ["user", "assistant", "tool", "user", "assistant"]);
});

Deno.test("run() continues after a user message during the answer", async () => {
  const { model } = scripted(say("One."), say("Two."));
  const queue: Content[][] = [[], ["And then?"]];
  const { events, result } = await play({
    model,
    history: [],
    input: "Count.",
    steering: () => queue.shift() ?? [],
  });
  assertEquals(events.filter(({ type }) => type === "user_message"), [
    { type: "user_message", step: 1, input: "And then?" },
  ]);
  assertEquals([result.reason, result.text, result.ledger.calls], ["completed", "Two.", 2]);
});

Deno.test("run() ends a turn that is over budget with the returned sentence", async () => {
  const { model } = scripted(callTools(call("1", "clock")), say("Never asked."));
  const seen: number[] = [];
  const { result } = await play({
    model,
    tools: [clock],
    history: [],
    input: "What time is it?",
    costs: {
      overBudget({ promptTokens }) {
        seen.push(promptTokens);
        return promptTokens > 5 ? "The turn may cost 5 tokens." : undefined;
      },
    },
  });
  assertEquals([result.reason, result.message, result.messages.length, seen], [
    "budget",
    "The turn may cost 5 tokens.",
    3,
    [0, 10],
  ]);
});

Deno.test("run() counts the cost of subagents in its budget and its end, and not in its steps", async () => {
  const { model } = scripted(callTools(call("1", "clock")), say("It is 12:00."));
  const own: number[] = [];
  const checked: number[] = [];
  const { result } = await play({
    model,
    tools: [clock],
    history: [],
    input: "What time is it?",
    limits: { maxSteps: 2 },
    costs: {
      totalOf(ledger) {
        if (own.at(-1) !== ledger.calls) own.push(ledger.calls);
        return addLedgers(ledger, { ...EMPTY_LEDGER, calls: 7, promptTokens: 100 });
      },
      overBudget: ({ promptTokens }) => void checked.push(promptTokens),
    },
  });
  assertEquals([result.reason, result.ledger.calls, result.ledger.promptTokens], ["completed", 9, 120]);
  assertEquals([own, checked], [[0, 1, 2], [100, 110]]);
});

Deno.test("run() without an input continues the history", async () => {
  const { model, requests } = scripted(say("It is 12:00."));
  const history: Message[] = [
    { role: "user", content: "Hello." },
    { role: "assistant", content: "Hello." },
    { role: "user", content: "What time is it?" },
    { role: "assistant", content: null, tool_calls: [call("1", "clock")] },
    { role: "tool", tool_call_id: "1", content: "12:00" },
  ];
  const starts: number[] = [];
  const { events, result } = await play({
    model,
    history,
    context: ({ messages, tools, turnStart }) => (starts.push(turnStart), { messages, tools }),
  });
  assertEquals(events[0], { type: "turn_start" });
  assertEquals([requests[0]!.messages, starts], [history, [2]]);
  assertEquals(result.messages, [{ role: "assistant", content: "It is 12:00." }]);
  assertThrows(() => run({ model, history: [] }), RangeError, "neither an input nor a history");
});

Deno.test("run() adds input that it has received, also to an aborted turn", async () => {
  const stop = new AbortController();
  const waiting: Content[] = ["Too late"];
  const turn = run({
    model: scripted(say("One.")).model,
    history: [],
    input: "Count.",
    steering: () => stop.signal.aborted ? waiting.splice(0) : [],
    signal: stop.signal,
  });
  let ended: TurnResult | undefined;
  while (!ended) {
    const { done, value } = await turn.next();
    if (done) ended = value;
    else if (value.type === "step_end") stop.abort();
  }
  assertEquals([ended.reason, waiting], ["cancelled", []]);
  assertEquals(ended.messages.map(({ content }) => content), ["Count.", "One.", "Too late"]);
});

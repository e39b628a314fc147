import { assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { Message, Usage } from "@tare/messages";
import { NO_APPROVALS } from "../approvals/approvals.ts";
import { HISTORY_EVENTS, rebuildHistory } from "./history.ts";
import type { SessionEvent } from "./session_types.ts";

const call = (id: string) => ({ id, type: "function", function: { name: "read", arguments: "{}" } }) as const;
const usage: Usage = { promptTokens: 10, cachedTokens: 5, outputTokens: 2 };
const ledger = { ...EMPTY_LEDGER, calls: 1, ...usage };

function reply(step: number, content: string, ...ids: string[]): SessionEvent {
  return {
    type: "assistant_message",
    step,
    message: { role: "assistant", content, ...(ids.length > 0 && { tool_calls: ids.map(call) }) },
  };
}

function result(step: number, id: string): SessionEvent {
  return {
    type: "tool_result",
    step,
    id,
    name: "read",
    content: `of ${id}`,
    error: false,
    bytes: 4,
    durationMs: 0,
  };
}

const stepEnd = (step: number): SessionEvent => ({ type: "step_end", step, usage, finishReason: "stop" });
const turnEnd: SessionEvent = { type: "turn_end", reason: "completed", text: "", ledger };
const roles = (messages: readonly Message[]) =>
  messages.map((message) =>
    message.role === "tool" ? message.content : `${message.role}: ${message.content}`
  );

Deno.test("rebuildHistory() puts answers in the order of their calls, and steering inputs after them", () => {
  const { messages, interrupted, ...totals } = rebuildHistory([
    { type: "turn_start", input: "q" },
    reply(1, "look", "a", "b"),
    result(1, "b"),
    result(1, "a"),
    stepEnd(1),
    { type: "user_message", step: 2, input: "more" },
    reply(2, "done"),
    stepEnd(2),
    turnEnd,
  ]);
  assertEquals(roles(messages), [
    "user: q",
    "assistant: look",
    "of a",
    "of b",
    "user: more",
    "assistant: done",
  ]);
  assertEquals([interrupted, totals], [undefined, { ledger, turns: 1, questions: NO_APPROVALS }]);
});

Deno.test("rebuildHistory() returns the missing part of an unfinished turn", () => {
  const start: SessionEvent[] = [{ type: "turn_start", input: "q" }, turnEnd, { type: "turn_start" }];
  const first = [reply(1, "look", "a", "b", "c"), result(1, "b")];
  assertEquals(rebuildHistory(start).interrupted, {
    ...{ step: 1, isReplied: false, resumed: 0 },
    unanswered: [],
    ledger: EMPTY_LEDGER,
  });
  const midway = rebuildHistory([...start, ...first]);
  assertEquals(midway.interrupted, {
    isReplied: true,
    resumed: 0,
    step: 1,
    unanswered: [call("a"), call("c")].map((call) => ({ call, denied: undefined })),
    ledger: EMPTY_LEDGER,
  });
  assertEquals(roles(midway.messages), ["user: q", "assistant: look", "of b"]);
  const later = rebuildHistory([...start, reply(1, "look", "a"), result(1, "a"), stepEnd(1)]);
  assertEquals(later.interrupted, { step: 2, isReplied: false, resumed: 0, unanswered: [], ledger });
  assertEquals([later.ledger.calls, later.turns], [2, 1]);
  assertEquals(rebuildHistory([...start, reply(1, "done")]).interrupted?.answer, "done");
});

Deno.test("rebuildHistory() appends messages that were exchanged elsewhere unchanged", () => {
  const added: Message[] = [
    { role: "developer", content: "d", name: "n" },
    { role: "assistant", content: null, tool_calls: [call("a"), call("b")] },
    { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "x" }] },
    { role: "tool", tool_call_id: "a", content: "y" },
  ];
  const events = added.map((message): SessionEvent => ({ type: "message_added", message }));
  assertEquals(rebuildHistory(events), {
    messages: added,
    ledger: EMPTY_LEDGER,
    turns: 0,
    questions: NO_APPROVALS,
  });
  const { messages } = rebuildHistory([
    ...events,
    { type: "turn_start", input: "q" },
    reply(1, "a"),
    turnEnd,
  ]);
  assertEquals(messages.slice(0, 4), added);
  assertEquals(roles(messages.slice(4)), ["user: q", "assistant: a"]);
});

Deno.test("rebuildHistory() needs no events but HISTORY_EVENTS", () => {
  const events: SessionEvent[] = [
    { type: "turn_start", input: "q" },
    { type: "step_start", step: 1 },
    { type: "warning", message: "w" },
    { type: "text_delta", step: 1, text: "l" },
    reply(1, "look", "a"),
    { type: "tool_call", step: 1, id: "a", name: "read", arguments: "{}" },
    result(1, "a"),
    stepEnd(1),
    turnEnd,
  ];
  const retained = events.filter(({ type }) => HISTORY_EVENTS.includes(type));
  assertEquals(retained.length, 5);
  assertEquals(rebuildHistory(retained), rebuildHistory(events));
});

Deno.test("rebuildHistory() returns the cost of an interrupted turn if each call reports its cost", () => {
  const cost = { costUnits: 7, usd: 0.5 };
  const begun: SessionEvent[] = [{ type: "turn_start", input: "q" }, { ...stepEnd(1), cost } as SessionEvent];
  const ledgerOf = (events: readonly SessionEvent[]) => {
    const { costUnits, usd } = rebuildHistory(events).ledger;
    return { costUnits, usd };
  };
  assertEquals(ledgerOf([...begun, { ...stepEnd(2), cost } as SessionEvent]), { costUnits: 14, usd: 1 });
  assertEquals(ledgerOf([...begun, stepEnd(2)]), { costUnits: undefined, usd: undefined });
});

const turns = fc.array(
  fc.record({
    hasAnswer: fc.boolean(),
    steps: fc.array(fc.record({ calls: fc.integer({ min: 0, max: 3 }), steered: fc.boolean() }), {
      maxLength: 3,
    }),
    unanswered: fc.boolean(),
    ends: fc.constantFrom("completed", "approval", "never"),
  }),
  { minLength: 1, maxLength: 5 },
);

Deno.test("rebuildHistory() continues from an earlier result as if it had read all events", () => {
  fc.assert(fc.property(turns, fc.nat(), (made, nth) => {
    const starts: number[] = [];
    const events: SessionEvent[] = [];
    for (const [turn, { hasAnswer, steps, unanswered, ends }] of made.entries()) {
      starts.push(events.length);
      events.push({ type: "turn_start", ...(turn % 2 === 0 && { input: `q ${turn}` }) });
      if (hasAnswer) {
        events.push({ type: "message_added", message: { role: "system", content: `tools ${turn}` } });
      }
      for (const [index, { calls, steered }] of steps.entries()) {
        const ids = Array.from({ length: calls }, (_, at) => `${turn}.${index}.${at}`);
        events.push(reply(index + 1, `reply ${index}`, ...ids));
        for (const id of ids.toReversed().slice(unanswered ? 1 : 0)) events.push(result(index + 1, id));
        events.push(stepEnd(index + 1));
        if (steered) events.push({ type: "user_message", step: index + 1, input: "more" });
      }
      if (ends === "never" && turn === made.length - 1) break;
      const callCount = made[turn]!.steps.at(-1)?.calls ?? 0;
      for (let at = 0; at < (ends === "approval" && unanswered ? callCount : 0); at++) {
        const id = `${turn}.${steps.length - 1}.${at}`;
        events.push({ type: "approval_requested", step: steps.length, id, name: "read", arguments: "{}" });
      }
      events.push({ ...turnEnd, reason: ends === "approval" ? "approval" : "completed" });
    }
    const cut = starts[nth % starts.length]!;
    const { interrupted: _, ...before } = rebuildHistory(events.slice(0, cut));
    assertEquals(rebuildHistory(events.slice(cut), before), rebuildHistory(events));
  }));
});

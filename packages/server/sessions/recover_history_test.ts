import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { Tool, ToolCall } from "@tare/messages";
import { recoveryEvents } from "./history.ts";

function tool(name: string, stance?: Tool["stance"]): Tool {
  return {
    definition: { type: "function", function: { name } },
    ...(stance && { stance }),
    run() {
      throw new Error("A tool was run again.");
    },
  };
}

const call = (id: string, name: string): ToolCall => ({
  id,
  type: "function",
  function: { name, arguments: "{}" },
});

Deno.test("recoveryEvents() answers each open call, reports inputs that no model call received, and ends the turn", () => {
  const ledger = { ...EMPTY_LEDGER, calls: 2 };
  const events = recoveryEvents({
    step: 3,
    unanswered: [
      { call: call("a", "read") },
      { call: call("b", "write") },
      { call: call("c", "gone") },
      { call: { id: "d", type: "custom", custom: { name: "read", input: "x" } } },
    ],
    ledger,
  }, {
    tools: [tool("read", "rederivable"), tool("write")],
    waiting: ["also", [{ type: "text", text: "and" }]],
    end: { reason: "interrupted", message: "It ended." },
  });
  const unknown = "Cannot report the result: interrupted, outcome unknown.";
  const reads = `${unknown} It is read-only: call it again if needed.`;
  const acts = `${unknown} It may have taken effect: check before calling it again.`;
  const result = (id: string, name: string, content: string) => ({
    type: "tool_result" as const,
    step: 3,
    id,
    name,
    content,
    error: true,
    bytes: content.length,
    durationMs: 0,
  });
  assertEquals(events, [
    result("a", "read", reads),
    result("b", "write", acts),
    result("c", "gone", acts),
    result("d", "read", acts),
    { type: "user_message", step: 3, input: "also" },
    { type: "user_message", step: 3, input: [{ type: "text", text: "and" }] },
    { type: "turn_end", reason: "interrupted", text: "", message: "It ended.", ledger },
  ]);
});

Deno.test("recoveryEvents() completes a turn that was interrupted between its answer and its end", () => {
  const cutOff = { step: 2, unanswered: [], answer: "It is done.", ledger: EMPTY_LEDGER };
  const end = { reason: "interrupted", message: "It ended." } as const;
  const text = "It is done.";
  assertEquals(recoveryEvents(cutOff, { tools: [], waiting: [], end }), [
    { type: "turn_end", reason: "completed", text, ledger: EMPTY_LEDGER },
  ]);
  assertEquals(recoveryEvents(cutOff, { tools: [], waiting: ["also"], end }), [
    { type: "user_message", step: 2, input: "also" },
    { type: "turn_end", text, ledger: EMPTY_LEDGER, ...end },
  ]);
  const failure = { reason: "internal_error", message: "It failed." } as const;
  assertEquals(recoveryEvents(cutOff, { tools: [], waiting: [], end: failure }), [
    { type: "turn_end", text, ledger: EMPTY_LEDGER, ...failure },
  ]);
});

import type { LoopEvent } from "@tare/loop";
import type { Tool, ToolCall } from "@tare/messages";
import type { RebuiltHistory } from "./rebuild_history.ts";

/**
 * The events that end a turn which a crash cut off: an error result for each call that has none, and the turn's end.
 * Nothing is run again; the model is told what it may safely repeat.
 */
export function recoveryEvents(
  { step, unanswered, ledger }: NonNullable<RebuiltHistory["interrupted"]>,
  tools: readonly Tool[],
): LoopEvent[] {
  const results = unanswered.map((call): LoopEvent => {
    const name = call.type === "custom" ? call.custom.name : call.function.name;
    const content = interruptedResult(
      call,
      tools.find(({ definition }) => definition.function.name === name),
    );
    const bytes = new TextEncoder().encode(content).length;
    return { type: "tool_result", step, id: call.id, name, content, error: true, bytes, durationMs: 0 };
  });
  return [...results, {
    type: "turn_end",
    reason: "interrupted",
    text: "",
    message: "The server ended in the middle of this turn. It can be continued.",
    ledger,
  }];
}

function interruptedResult({ type }: ToolCall, tool: Tool | undefined): string {
  const advice = type === "function" && tool?.stance === "rederivable"
    ? "It only reads: call it again if you need it."
    : "It may have taken effect: find out before you call it again.";
  return `Cannot tell the result: interrupted, outcome unknown. ${advice}`;
}

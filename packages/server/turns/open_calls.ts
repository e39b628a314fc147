import { describeCall, type Message, pairCalls, type ToolCall, type ToolMessage } from "@tare/messages";

/** The calls at a history's end that nobody has answered: the last turn left them to its client. */
export function openCalls(history: readonly Message[]): readonly ToolCall[] {
  const last = history.findLastIndex(({ role }) => role === "assistant");
  if (last < 0) return [];
  return pairCalls(history.slice(last)).filter(({ answer }) => !answer).map(({ call }) => call);
}

/** An answer to each call, in their order: its result, or an error where there is none, for no call may stay open. */
export function answersTo(
  calls: readonly ToolCall[],
  results: readonly ToolMessage[],
): readonly ToolMessage[] {
  return calls.map((call) => {
    const { name } = describeCall(call);
    return results.find(({ tool_call_id: id }) => id === call.id) ?? {
      role: "tool",
      tool_call_id: call.id,
      content: `Cannot tell the result of ${name}: whoever was asked to run it went on without telling.`,
    };
  });
}

import { countRequestTokens, type Message } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { applyElisions, elide, type Elision, memoryArchive } from "@tare/prune";
import type { CallPolicy, CallPolicyOptions } from "@tare/simulator/economy";

/** Evicts all results but the newest `keep` permanently whenever the prompt exceeds `triggerTokens`. */
export function clearOver(triggerTokens: number, keep: number): (options: CallPolicyOptions) => CallPolicy {
  return (options) => {
    const { countTokens } = options;
    const archive = memoryArchive();
    const elisions: Elision[] = [];
    return {
      async view({ messages, tools }) {
        const view = applyElisions(messages, elisions);
        if (countRequestTokens({ messages: view, tools }, countTokens) > triggerTokens) {
          const newest = newestResults(view, keep);
          // From the view, because evicted results are too short to be selected again.
          const evicted = anyResult(view, options).filter(({ index }) => !newest.has(index));
          elisions.push(...await elide(messages, evicted, { countTokens, archive, recall: true }));
        }
        return { messages: applyElisions(messages, elisions), tools };
      },
    };
  };
}

const PLACEHOLDER_TOKENS = 35;

/** Returns every result that a placeholder would at least halve, oldest first. */
function anyResult(
  messages: readonly Message[],
  { countTokens }: CallPolicyOptions,
): Omit<Elision, "ref" | "text">[] {
  const tools = new Map<string, string>();
  return messages.flatMap((message, index): Omit<Elision, "ref" | "text">[] => {
    for (const call of message.role === "assistant" ? message.tool_calls ?? [] : []) {
      tools.set(call.id, call.type === "custom" ? call.custom.name : call.function.name);
    }
    if (message.role !== "tool") return [];
    const tokensBefore = countMessageTokens(message, countTokens);
    if (tokensBefore < 2 * PLACEHOLDER_TOKENS) return [];
    const { tool_call_id: toolCallId } = message;
    const tool = tools.get(toolCallId) ?? "tool";
    return [{ index, toolCallId, tool, tokensBefore, tokensAfter: PLACEHOLDER_TOKENS, reason: "old" }];
  });
}

function newestResults(messages: readonly Message[], keep: number): Set<number> {
  const results = messages.flatMap(({ role }, index) => role === "tool" ? [index] : []);
  return new Set(results.slice(-keep));
}

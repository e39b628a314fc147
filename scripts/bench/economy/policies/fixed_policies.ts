import { groupTurns, toolLoopContext } from "@tare/context";
import { countMessageTokens, countRequestTokens, type Message } from "@tare/messages";
import {
  applyElisions,
  elide,
  type Elision,
  isColdResume,
  memoryArchive,
  pressure,
  selectElisions,
} from "@tare/prune";
import { shownTools } from "@tare/schemas";
import type { CallPolicy, CallPolicyOptions, PolicyCall } from "@tare/simulator/economy";

/** Keeps a history of 16,000 tokens from the first follow-up call of each turn on. */
export function toolLoop({ countTokens }: CallPolicyOptions): CallPolicy {
  return {
    view({ messages, tools }) {
      if (!inFollowUp(messages)) return { messages, tools };
      return { messages: toolLoopContext(messages, { countTokens }).messages, tools };
    },
  };
}

/** Shows each tool in full in the first call that offers it, and compact from then on. */
export function schemasEager({ countTokens }: CallPolicyOptions): CallPolicy {
  let exposed: ReadonlySet<number> = new Set();
  return {
    view({ messages, tools }) {
      const shown = shownTools(tools, { exposed, countTokens });
      exposed = shown.exposed;
      return { messages, tools: shown.tools };
    },
  };
}

/** Prunes when the prompt takes 0.8 of the window, or after 24 idle hours. */
export function underPressure(options: CallPolicyOptions): CallPolicy {
  let lastUsedAtMs: number | undefined;
  return sticky(options, ({ promptTokens, messages, nowMs }) => {
    const { windowTokens } = options;
    const cold = isColdResume({ lastUsedAtMs, nowMs });
    lastUsedAtMs = nowMs;
    if (!cold && pressure({ promptTokens, windowTokens }) === "none") return [];
    return selectElisions(messages, selectOptions(options));
  });
}

/** Clears all results but the newest `keep` whenever the prompt exceeds `triggerTokens`. */
export function clearOver(triggerTokens: number, keep: number): (options: CallPolicyOptions) => CallPolicy {
  return (options) =>
    sticky(options, ({ promptTokens, messages }) => {
      if (promptTokens <= triggerTokens) return [];
      return anyResult(messages, options).filter(({ index }) => !newestResults(messages, keep).has(index));
    });
}

/** Always shows only the newest `keep` results. */
export function maskAllBut(keep: number): (options: CallPolicyOptions) => CallPolicy {
  return clearOver(0, keep);
}

/**
 * At the end of a turn spares the last two turns and the newest 40,000 tokens of older results, and elides the
 * rest if that frees more than 20,000 tokens.
 */
export function protect40k(options: CallPolicyOptions): CallPolicy {
  return sticky(options, ({ messages }) => {
    if (inFollowUp(messages)) return [];
    // The turn that just began is the third from last to go.
    const spared = groupTurns(messages).at(-3)?.start ?? 0;
    const candidates = anyResult(messages, options).filter(({ index }) => index < spared);
    let kept = 0;
    const going = candidates.toReversed().filter(({ tokensBefore }) => {
      kept += tokensBefore;
      return kept > 40_000;
    });
    const freed = going.reduce((sum, { tokensBefore, tokensAfter }) => sum + tokensBefore - tokensAfter, 0);
    return freed > 20_000 ? going : [];
  });
}

/** A policy that elides what `choose` says, once and for all. */
function sticky(
  options: CallPolicyOptions,
  choose: (call: PolicyCall & { readonly promptTokens: number }) => readonly Omit<Elision, "ref" | "text">[],
): CallPolicy {
  const { countTokens } = options;
  const archive = memoryArchive();
  const elisions: Elision[] = [];
  return {
    async view({ messages, tools, nowMs }) {
      const view = applyElisions(messages, elisions);
      const promptTokens = countRequestTokens({ messages: view, tools }, countTokens);
      // Chosen by the view, in which what went is too short to go again.
      const candidates = choose({ messages: view, tools, nowMs, promptTokens });
      elisions.push(...await elide(messages, candidates, { countTokens, archive, recall: true }));
      return { messages: applyElisions(messages, elisions), tools };
    },
  };
}

function selectOptions({ countTokens, windowTokens }: CallPolicyOptions) {
  return { countTokens, windowTokens, recall: true };
}

/** Tokens of a placeholder, about. */
const PLACEHOLDER_TOKENS = 35;

/** Every result that a placeholder would at least halve, whatever its age and kind, oldest first. */
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

/** Whether the turn's first call has been made. */
function inFollowUp(messages: readonly Message[]): boolean {
  const turn = groupTurns(messages).at(-1);
  return turn !== undefined && messages.slice(turn.start).some(({ role }) => role === "tool");
}

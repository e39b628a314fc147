import type { CountTokens, Message } from "@tare/messages";
import { PrefixCache, type Profile, promptCost, type PromptUnit, promptUnits } from "@tare/planner";
import type { Policy } from "./policy.ts";
import type { Recording } from "./recording.ts";
import { callWords, messageWords, ShownWords } from "./words.ts";

/** What a session cost under a policy. */
export interface Replay {
  readonly calls: number;
  readonly cost: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  /** Largest prompt. */
  readonly maxPromptTokens: number;
  /** Stretches of calls each of which starts with the one before. */
  readonly epochs: number;
  /** Words in the arguments of calls that had occurred earlier in the session. */
  readonly references: number;
  /** Of these, words that the view showed nowhere. */
  readonly lostReferences: number;
  /** Calls of tools that had at least one of them. */
  readonly callsWithLostReference: number;
  readonly toolCalls: number;
}

/** Replays a session call by call against a simulated prefix cache. */
export async function replay(
  { messages, tools, calls }: Recording,
  policy: Policy,
  { profile, countTokens }: { readonly profile: Profile; readonly countTokens: CountTokens },
): Promise<Replay> {
  const cache = new PrefixCache(profile);
  const shown = new ShownWords();
  const seen = new Set<string>();
  let seenMessages = 0;
  let before: readonly PromptUnit[] = [];
  const sums = {
    calls: calls.length,
    cost: 0,
    promptTokens: 0,
    cachedTokens: 0,
    maxPromptTokens: 0,
    epochs: 0,
    references: 0,
    lostReferences: 0,
    callsWithLostReference: 0,
    toolCalls: 0,
  };
  for (const call of calls) {
    const view = await policy.view({ messages: messages.slice(0, call.messages), tools, nowMs: call.timeMs });
    const units = promptUnits(view, countTokens);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const cachedTokens = cache.lookup(units, call.timeMs);
    cache.store(units, call.timeMs);
    policy.sent?.({ promptTokens, cachedTokens, outputTokens: 0 });
    sums.cost += promptCost(profile, { promptTokens, cachedTokens });
    sums.promptTokens += promptTokens;
    sums.cachedTokens += cachedTokens;
    sums.maxPromptTokens = Math.max(sums.maxPromptTokens, promptTokens);
    if (!startsWith(units, before)) sums.epochs++;
    before = units;
    for (; seenMessages < call.messages; seenMessages++) {
      for (const word of messageWords(messages[seenMessages] as Message)) seen.add(word);
    }
    shown.show(view.messages, units.slice(view.tools.length));
    const answer = messages[call.messages];
    for (const toolCall of answer?.role === "assistant" ? answer.tool_calls ?? [] : []) {
      let lost = 0;
      for (const word of callWords(toolCall)) {
        if (!seen.has(word)) continue;
        sums.references++;
        if (!shown.has(word)) lost++;
      }
      sums.toolCalls++;
      sums.lostReferences += lost;
      if (lost > 0) sums.callsWithLostReference++;
    }
  }
  return sums;
}

function startsWith(units: readonly PromptUnit[], prefix: readonly PromptUnit[]): boolean {
  return prefix.length > 0 && prefix.every(({ hash }, index) => units[index]?.hash === hash);
}

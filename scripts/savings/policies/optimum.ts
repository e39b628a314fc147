import { countRequestTokens, type CountTokens } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { WINDOW_SHARE } from "@tare/planner/internal";
import { applyElisions, elide, type Elision, memoryArchive, selectElisions } from "@tare/prune";
import type { CallPolicy, CallPolicyOptions, Recording } from "@tare/simulator/economy";

export interface OptimumOptions {
  readonly profile: Profile;
  readonly countTokens: CountTokens;
  readonly windowTokens: number;
  readonly protectTokens: number;
}

export interface Optimum {
  readonly cost: number;
  /** Indices of the calls before which the prompt is rewritten. */
  readonly rewrites: readonly number[];
  readonly removable: readonly Removable[];
}

export interface Removable {
  readonly elision: Elision;
  readonly from: number;
}

/**
 * Returns the cheapest choice of calls before which to rewrite. Each rewrite evicts everything evictable: results of at
 * least 1,024 bytes that report no error and precede the protected tail. Like `planner-age`, it must rewrite before a call
 * whose prompt exceeds {@linkcode WINDOW_SHARE} of the window, if that makes it fit.
 *
 * Exact, by dynamic programming over pairs of successive rewrites: a call's cost depends only on the last rewrite, except
 * that of a rewritten call, which also depends on the previous one, because its cache serves everything before the first
 * result that was not evicted yet. O(n²) in the number of calls.
 *
 *     V(i) = min over h < i of V(h) + cost of the calls h + 1 … i − 1 + cost of call i, rewritten, after h
 */
export async function optimum(recording: Recording, options: OptimumOptions): Promise<Optimum> {
  const { profile, windowTokens } = options;
  const { calls } = recording;
  const removable = await findRemovable(recording, options);
  const limit = WINDOW_SHARE * windowTokens;
  const ends = messageEnds(recording, options.countTokens);
  const saved = [0];
  for (const { elision } of removable) saved.push(saved.at(-1)! + elision.tokensBefore - elision.tokensAfter);
  const goneBy = calls.map((_, call) => {
    const first = removable.findIndex(({ from }) => from > call);
    return first < 0 ? removable.length : first;
  });
  const fullTokens = calls.map(({ messages }) => ends[messages]!);
  const warm = calls.map(({ timeMs }, call) => call > 0 && timeMs - calls[call - 1]!.timeMs <= profile.ttlMs);
  const costOf = (call: number, promptTokens: number, prefixTokens: number): number => {
    const tokens = Math.min(prefixTokens, promptTokens - 1);
    const blocks = Math.floor(tokens / profile.blockTokens) * profile.blockTokens;
    const cachedTokens = warm[call] && blocks >= profile.minTokens ? blocks : 0;
    return promptCost(profile, { promptTokens, cachedTokens });
  };

  const best = calls.map(() => Infinity);
  const before = calls.map(() => -1);
  let cost = Infinity;
  let last = -1;
  for (let h = -1; h < calls.length; h++) {
    let sum = h < 0 ? 0 : best[h]!;
    if (sum === Infinity) continue;
    const gone = h < 0 ? 0 : goneBy[h]!;
    let prefixTokens = h < 0 ? 0 : fullTokens[h]! - saved[gone]!;
    let call = h + 1;
    for (; call < calls.length; call++) {
      const promptTokens = fullTokens[call]! - saved[gone]!;
      const canRewrite = goneBy[call]! > gone;
      const rewrittenTokens = fullTokens[call]! - saved[goneBy[call]!]!;
      if (canRewrite) {
        const omittedTokens = ends[removable[gone]!.elision.index]! - saved[gone]!;
        const rewritten = sum + costOf(call, rewrittenTokens, Math.min(prefixTokens, omittedTokens));
        if (rewritten < best[call]!) [best[call], before[call]] = [rewritten, h];
      }
      if (canRewrite && promptTokens > limit && rewrittenTokens <= limit) break;
      sum += costOf(call, promptTokens, prefixTokens);
      prefixTokens = promptTokens;
    }
    if (call === calls.length && sum < cost) [cost, last] = [sum, h];
  }
  const rewrites: number[] = [];
  for (let call = last; call >= 0; call = before[call]!) rewrites.unshift(call);
  return { cost, rewrites, removable };
}

async function findRemovable(
  { messages, calls }: Recording,
  { countTokens, windowTokens, protectTokens }: OptimumOptions,
): Promise<Removable[]> {
  const options = {
    countTokens,
    windowTokens,
    protectTokens,
    recall: true,
  };
  const removable = new Map<number, Removable>();
  const archive = memoryArchive();
  for (const [from, call] of calls.entries()) {
    const candidates = selectElisions(messages.slice(0, call.messages), { ...options, minBytes: 240 })
      .filter(({ index }) => !removable.has(index));
    for (const elision of await elide(messages, candidates, { ...options, archive })) {
      removable.set(elision.index, { elision, from });
    }
  }
  return [...removable.values()].sort((a, b) => a.elision.index - b.elision.index);
}

function messageEnds({ messages, tools }: Recording, countTokens: CountTokens): number[] {
  const ends = [countRequestTokens({ messages: [], tools }, countTokens)];
  for (const message of messages) {
    ends.push(ends.at(-1)! + countRequestTokens({ messages: [message] }, countTokens));
  }
  return ends;
}

/** Returns a policy that rewrites at the calls of {@linkcode optimum}, regardless of refetches. */
export async function clairvoyant(options: CallPolicyOptions): Promise<CallPolicy> {
  const { recording } = options;
  const { rewrites, removable } = await optimum(recording, {
    ...options,
    protectTokens: 16_384,
  });
  const times = new Map(
    rewrites.map((call) => [recording.messages[recording.calls[call]!.messages - 1]!, call]),
  );
  let gone: readonly Removable[] = [];
  return {
    view({ messages, tools }) {
      const call = times.get(messages.at(-1)!);
      if (call !== undefined) gone = removable.filter(({ from }) => from <= call);
      const places = new Map(messages.map((message, index) => [message, index]));
      const elisions = gone.map(({ elision }) => ({
        ...elision,
        index: places.get(recording.messages[elision.index]!)!,
      }));
      return { messages: applyElisions(messages, elisions), tools };
    },
  };
}

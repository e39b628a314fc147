import {
  checkGiven,
  type CountTokens,
  countToolTokens,
  hashPiece,
  type ToolDefinition,
} from "@tare/messages";
import { type Profile, profileForTtl } from "../providers.ts";

/** A request, as far as the cache is concerned. Tokens are counted here. */
export interface SentRequest {
  /** Tells its tools, as the model saw them, from any others: one number each. */
  readonly tools: readonly number[];
  /** Tokens of its messages with which what the model sees now still starts. */
  readonly messageTokens: number;
  /** Tokens that it had, tools included. */
  readonly promptTokens: number;
  /** Whether it was what its client would have sent without Tare. */
  readonly isWhole: boolean;
  /** Tokens that its client would have sent without Tare, had it compacted nothing. */
  readonly ownTokens: number;
  /** The same with what only Tare added, such as recalls. */
  readonly wholeTokens: number;
  /** Tells the tools that its client would have sent, in full, from any others. */
  readonly ownTools: readonly number[];
  /** When it was made. */
  readonly atMs: number;
  /** When what the cache holds of it was used last, if that was later: by a ping, or where it lasts an hour by a request. */
  readonly usedMs?: number;
  /** Whether a ping made that last an hour since its last use. Absent: no. */
  readonly forAnHour?: boolean;
  /** The model that it went to. */
  readonly model?: string | undefined;
}

/** What the cache is expected to do for a request. */
export interface Prediction {
  /** Tokens with which it starts like one that was sent before, counted here. */
  readonly sharedTokens: number;
  /** Probability that they are still cached. */
  readonly alive: number;
  /** Time since they were last used. */
  readonly idleMs: number;
  /** Whether they are there for an hour since, whatever the provider's usual time. Absent: no. */
  readonly forAnHour?: boolean;
}

const HOUR_MS = 3_600_000;

/** When what the cache holds of a request was last used. */
export function lastUseMs({ atMs, usedMs = atMs }: SentRequest): number {
  return usedMs;
}

/** How long that is there for, since then. */
export function timeToLive({ forAnHour = false }: SentRequest, { ttlMs }: Pick<Profile, "ttlMs">): number {
  return forAnHour ? Math.max(ttlMs, HOUR_MS) : ttlMs;
}

/** How likely that is still there. */
export function sentWarmth(
  sent: SentRequest,
  { profile, warmth, nowMs }: {
    readonly profile: Profile;
    readonly warmth: WarmthRecord;
    readonly nowMs: number;
  },
): Pick<Prediction, "alive" | "idleMs" | "forAnHour"> {
  const idleMs = nowMs - lastUseMs(sent);
  // What the session showed of the usual time says nothing of the hour.
  return sent.forAnHour
    ? { idleMs, alive: priorWarmth(profileForTtl(profile, HOUR_MS), idleMs), forAnHour: true }
    : { idleMs, alive: estimateWarmth(profile, idleMs, warmth) };
}

/** The tools of a request, as the model sees them. */
interface ShownTools {
  readonly tools: readonly ToolDefinition[];
  readonly countTokens: CountTokens;
}

/** What the cache holds of a request, how likely, and since when: of those sent to its model the one that serves most. */
export function predict(
  sent: readonly SentRequest[],
  { profile, warmth, nowMs, model, ...shown }: ShownTools & {
    readonly profile: Profile;
    readonly warmth: WarmthRecord;
    readonly nowMs: number;
    readonly model: string | undefined;
  },
): Prediction {
  let best: Prediction = { sharedTokens: 0, alive: 0, idleMs: 0 };
  for (const one of sent) {
    if (one.model !== model) continue;
    const shared = sharedTokens(one, shown);
    const warm = sentWarmth(one, { profile, warmth, nowMs });
    const better = warm.alive * shared > best.alive * best.sharedTokens;
    if (better || best.sharedTokens === 0) best = { sharedTokens: shared, ...warm };
  }
  return best;
}

/** Tokens with which a request that was sent starts like what the model sees now, counted here. */
export function sharedTokens(sent: SentRequest, shown: ShownTools): number {
  const { tokens, isAll } = sharedTools(sent.tools, shown);
  return isAll ? tokens + sent.messageTokens : tokens;
}

/** Tokens with which a request that its client sent alone would start like one that was sent. */
export function sharedAlone(sent: SentRequest, { ownTokens, ...own }: ShownTools & {
  /** Tokens of the request. */
  readonly ownTokens: number;
}): number {
  const { tokens, isAll } = sharedTools(sent.ownTools, own);
  return isAll ? Math.min(sent.ownTokens, ownTokens) : tokens;
}

/** Tokens of the tools in front that are those of which the hashes are known, and whether there are no others. */
function sharedTools(hashes: readonly number[], { tools, countTokens }: ShownTools) {
  let tokens = 0;
  for (const [at, tool] of tools.entries()) {
    if (hashPiece(tool) !== hashes[at]) return { tokens, isAll: false };
    tokens += countToolTokens(tool, countTokens);
  }
  return { tokens, isAll: tools.length === hashes.length };
}

/** What a warm cache serves of a prompt, as the provider counts, if it shares so many tokens that are counted here. */
export function servedOf(
  profile: Profile,
  scale: TokenScale,
  { promptTokens, sharedTokens }: { readonly promptTokens: number; readonly sharedTokens: number },
): number {
  if (sharedTokens === 0) return 0;
  return servedTokens(profile, { promptTokens, sharedTokens: scaled(scale, sharedTokens) });
}

/** Whether nothing was sent before; or another model, or other tools, than now. */
export type CacheChange = "first_call" | "model_changed" | "tools_changed" | "none";

/** A request, as far as it may differ from one that was sent. */
interface AskedCall {
  readonly model?: string | undefined;
  /** Those of its client, in full. */
  readonly tools: readonly ToolDefinition[];
}

/** In what a request differs from one that was sent. */
export function findChange(
  sent: SentRequest | undefined,
  request: AskedCall,
): CacheChange {
  if (!sent) return "first_call";
  if (sent.model !== request.model) return "model_changed";
  const { tools } = request;
  const isSame = tools.length === sent.ownTools.length &&
    tools.every((tool, at) => hashPiece(tool) === sent.ownTools[at]);
  return isSame ? "none" : "tools_changed";
}

/** Tells each tool, as it is shown, from any other. */
export function hashEach(tools: readonly ToolDefinition[]): readonly number[] {
  return tools.map(hashPiece);
}

/**
 * How much of a prompt a warm cache serves if the prompt shares so many tokens with one that it holds: whole blocks
 * of at least the smallest size, and never the last token.
 */
export function servedTokens(
  profile: Pick<Profile, "minTokens" | "blockTokens">,
  prompt: { readonly promptTokens: number; readonly sharedTokens: number },
): number {
  checkGiven("servedTokens()", { profile, prompt }, {
    profile: { minTokens: "number", blockTokens: "number" },
    prompt: { promptTokens: "number", sharedTokens: "number" },
  });
  const { minTokens, blockTokens } = profile;
  const { promptTokens, sharedTokens } = prompt;
  const tokens = Math.floor(Math.min(sharedTokens, promptTokens - 1) / blockTokens) * blockTokens;
  return tokens >= minTokens ? tokens : 0;
}

/**
 * What a session has shown of how its provider counts: sums over its calls, of prompts as counted here (`ours`) and as
 * the provider reported them (`theirs`). Plain data.
 */
export interface TokenRecord {
  readonly calls: number;
  readonly ours: number;
  readonly theirs: number;
  readonly oursSquared: number;
  readonly product: number;
}

/** A session that has shown nothing yet of how its provider counts. */
export const NO_TOKENS: TokenRecord = { calls: 0, ours: 0, theirs: 0, oursSquared: 0, product: 0 };

/** Turns tokens that are counted here into the provider's. */
export interface TokenScale {
  /** What the provider counts for each token: another tokenizer than ours counts more or less. */
  readonly perToken: number;
  /** What it counts that isn't to be seen here, such as a prefix that the client adds. */
  readonly unseen: number;
}

/** So much the prompts of a session must differ in length, in tokens, to tell another tokenizer from an unseen prefix. */
const PRIOR_SPREAD_TOKENS = 4_000;

/** The record after one more call. */
export function observeTokens(
  { ours, theirs }: { readonly ours: number; readonly theirs: number },
  record: TokenRecord,
): TokenRecord {
  return {
    calls: record.calls + 1,
    ours: record.ours + ours,
    theirs: record.theirs + theirs,
    oursSquared: record.oursSquared + ours * ours,
    product: record.product + ours * theirs,
  };
}

/** The scale that fits a session's calls best: a ridge regression (Hoerl, Kennard 1970) towards one to one. */
export function tokenScale({ calls, ours, theirs, oursSquared, product }: TokenRecord): TokenScale {
  if (calls === 0) return { perToken: 1, unseen: 0 };
  const prior = PRIOR_SPREAD_TOKENS ** 2;
  const perToken = (product - ours * theirs / calls + prior) / (oursSquared - ours * ours / calls + prior);
  // In steps, so that what was judged by it stays judged while it hardly moves.
  const bounded = Math.min(3, Math.max(0.5, Math.round(50 * perToken) / 50));
  // Who counts less than is seen here has a coarser tokenizer, whatever the slope.
  const unseen = (theirs - bounded * ours) / calls;
  return unseen >= 0 ? { perToken: bounded, unseen } : { perToken: theirs / ours, unseen: 0 };
}

/** So many tokens from the start of a prompt, as the provider counts them. */
export function scaled({ perToken, unseen }: TokenScale, tokens: number): number {
  return Math.max(0, unseen + perToken * tokens);
}

/** How many tokens counted here are so many of the provider's. */
export function unscaled({ perToken, unseen }: TokenScale, tokens: number): number {
  return Math.max(0, tokens - unseen) / perToken;
}

/** What one call of a session showed of its provider's cache. */
export interface WarmthObservation {
  /** Time since the call before, in milliseconds. */
  readonly idleMs: number;
  /** Whether the prefix was still there. */
  readonly warm: boolean;
}

/** What a session has shown so far. Plain data. */
export interface WarmthRecord {
  /** Calls that came before the end of the profile's first line. */
  readonly promptCalls: number;
  /** Of these, calls that found the prefix gone. */
  readonly misses: number;
  /** How likely each hypothesis is (see {@linkcode estimateWarmth}), relative to the others; empty at first. */
  readonly weights: readonly number[];
}

/** A session that has shown nothing yet of its provider's cache. */
export const NO_WARMTH: WarmthRecord = { promptCalls: 0, misses: 0, weights: [] };

/** How often a provider may lose a prefix before its time: seldom, now and then, often. */
const LOSS_RATES = [0.02, 0.1, 0.3] as const;

/** How often a prefix is found that should be gone by a hypothesis. */
const SURVIVAL_RATE = 0.03;

/** So many calls of the session outweigh the prior of the profile's first line. */
const PRIOR_CALLS = 50;

/** What of a profile this goes by. */
type WarmthRules = Pick<Profile, "warmth" | "ttlMs">;

interface Hypothesis {
  readonly ttlMs: number;
  readonly lossRate: number;
  readonly weight: number;
}

/** The profile's probability that a prefix last used this long ago is still cached. */
export function priorWarmth({ warmth }: Pick<Profile, "warmth">, idleMs: number): number {
  return warmth.find((line) => idleMs <= line.idleMs)?.probability ?? 0;
}

/**
 * The probability that a prefix last used this long ago is still cached, as the profile's prior says and this
 * session corrects it.
 *
 * Recorded sessions differ less from call to call than from one another: one keeps its prefixes for five minutes,
 * another for an hour. So each line of the profile's table is taken as a hypothesis on this session's time to live,
 * as likely at first as the probability that the table loses at its end, each with three rates at which prefixes are
 * lost before their time, as likely as the profile's own rate lets them be; Bayes' rule weighs them by what was seen. Calls within the first line tell nothing of the
 * time to live: they only correct that line's own probability.
 */
export function estimateWarmth(
  profile: WarmthRules,
  idleMs: number,
  { promptCalls, misses, weights }: WarmthRecord,
): number {
  const first = profile.warmth[0];
  if (!first) return 0;
  if (idleMs <= first.idleMs) {
    return (PRIOR_CALLS * first.probability + promptCalls - misses) / (PRIOR_CALLS + promptCalls);
  }
  let warm = 0;
  let all = 0;
  for (const hypothesis of hypotheses(profile, weights)) {
    warm += hypothesis.weight * warmBy(hypothesis, idleMs);
    all += hypothesis.weight;
  }
  return all > 0 ? warm / all : 0;
}

/** The record after one more call. */
export function observeWarmth(
  profile: WarmthRules,
  { idleMs, warm }: WarmthObservation,
  record: WarmthRecord,
): WarmthRecord {
  const first = profile.warmth[0];
  if (!first) return record;
  if (idleMs <= first.idleMs) {
    return { ...record, promptCalls: record.promptCalls + 1, misses: record.misses + (warm ? 0 : 1) };
  }
  const weighed = hypotheses(profile, record.weights).map((hypothesis) => {
    const chance = warmBy(hypothesis, idleMs);
    return hypothesis.weight * (warm ? chance : 1 - chance);
  });
  const all = weighed.reduce((sum, weight) => sum + weight, 0);
  return { ...record, weights: weighed.map((weight) => weight / all) };
}

function warmBy({ ttlMs, lossRate }: Hypothesis, idleMs: number): number {
  return idleMs <= ttlMs ? 1 - lossRate : SURVIVAL_RATE;
}

function hypotheses({ warmth, ttlMs: statedMs }: WarmthRules, weights: readonly number[]): Hypothesis[] {
  const [seldom, ...oftener] = LOSS_RATES;
  const lost = 1 - priorWarmth({ warmth }, statedMs);
  // A profile that loses a tenth before its time is open to any rate; one that loses a hundredth hardly to a high one.
  const open = Math.min(1, (10 * lost) ** 2);
  const rates = [
    { lossRate: Math.min(seldom, lost), chance: 1 },
    ...oftener.map((lossRate) => ({ lossRate, chance: open })),
  ];
  return warmth.flatMap(({ idleMs: ttlMs, probability }, line) =>
    rates.map(({ lossRate, chance }, rate) => ({
      ttlMs,
      lossRate,
      // A line that loses nothing stays possible.
      weight: weights[line * rates.length + rate] ??
        chance * Math.max(1e-6, probability - (warmth[line + 1]?.probability ?? 0)),
    }))
  );
}

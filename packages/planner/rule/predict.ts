import {
  type CountTokens,
  countToolTokens,
  hashPiece,
  hashText,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { servedTokens } from "../cache/prefix_cache.ts";
import { scaled, type TokenScale } from "../cache/provider_tokens.ts";
import { estimateWarmth, type WarmthRecord } from "../cache/warmth.ts";
import type { Profile } from "../providers.ts";
import type { CacheStory } from "../ledger/ledger.ts";
import type { PlanRequest } from "./plan.ts";
import type { SentRequest } from "./planner_state.ts";

/** What the cache is expected to do for a request. */
export interface Prediction {
  /** Tokens with which it starts like one that was sent before, counted here. */
  readonly sharedTokens: number;
  /** Probability that they are still cached. */
  readonly alive: number;
  /** Time since they were last used. */
  readonly idleMs: number;
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
    const idleMs = nowMs - one.atMs;
    const alive = estimateWarmth(profile, idleMs, warmth);
    const better = alive * shared > best.alive * best.sharedTokens;
    if (better || best.sharedTokens === 0) best = { sharedTokens: shared, alive, idleMs };
  }
  return best;
}

/** Tokens with which a request that was sent starts like what the model sees now, counted here. */
export function sharedTokens(sent: SentRequest, { tools, countTokens }: ShownTools): number {
  let tokens = 0;
  for (const [at, tool] of tools.entries()) {
    if (hashPiece(tool) !== sent.tools[at]) return tokens;
    tokens += countToolTokens(tool, countTokens);
  }
  return tools.length === sent.tools.length ? tokens + sent.messageTokens : tokens;
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

/** In what a request differs from one that was sent. */
export function findChange(sent: SentRequest | undefined, request: PlanRequest): CacheStory["change"] {
  if (!sent) return "first_call";
  if (sent.model !== request.model) return "model_changed";
  return sent.toolsHash === hashTools(request.tools) ? "none" : "tools_changed";
}

/** Tells each tool, as it is shown, from any other. */
export function hashEach(tools: readonly ToolDefinition[]): readonly number[] {
  return tools.map(hashPiece);
}

/** Tells the full definitions of tools from any others. */
export function hashTools(tools: readonly ToolDefinition[]): number {
  return hashText(hashEach(tools).join());
}

/** What it would take now to send everything, had everything been sent so far. */
export function resendOf(
  sent: readonly SentRequest[],
  request: PlanRequest,
  { profile, scale, promptTokens, alive }: {
    readonly profile: Profile;
    readonly scale: TokenScale;
    readonly promptTokens: number;
    readonly alive: number;
  },
): Pick<Usage, "promptTokens" | "cachedTokens"> {
  const { fullTokens = 0 } = sent.find((one) => findChange(one, request) === "none") ?? {};
  const cachedTokens = servedOf(profile, scale, { promptTokens, sharedTokens: fullTokens });
  return { promptTokens, cachedTokens: alive * cachedTokens };
}

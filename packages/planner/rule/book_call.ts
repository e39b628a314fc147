import type { CountTokens, Usage } from "@tare/messages";
import { observeTokens, scaled, tokenScale } from "../cache/provider_tokens.ts";
import { observeWarmth } from "../cache/warmth.ts";
import { explainUncached, type LedgerEntry } from "../ledger/ledger.ts";
import { promptCost } from "../ledger/price.ts";
import { type Profile, recogniseProfile } from "../providers.ts";
import type { Plan } from "./plan.ts";
import type { PlannerState, SentRequest } from "./planner_state.ts";
import { findChange, hashEach, hashTools, resendOf, servedOf, sharedTokens } from "./predict.ts";

/** Share of the cached tokens that were expected which must be served for the prefix to count as still there. */
const WARM_SHARE = 0.8;

/** So many models and sets of tools of a session are remembered with what they were sent last. */
const REMEMBERED_REQUESTS = 4;

const NOTHING = { promptTokens: 0, cachedTokens: 0 };

/** A request that succeeded. */
export interface SentPlan {
  readonly plan: Plan;
  /** What the provider reported of this very request; absent or `estimated` if it reported nothing. */
  readonly usage: Usage | undefined;
  /** What was paid for summaries since the last request. */
  readonly summary: Usage | undefined;
  /** Tokens of its messages with which what the model sees now still starts. */
  readonly messageTokens: number;
  readonly profile: Profile;
  readonly countTokens: CountTokens;
  readonly lossLimit: number;
}

/** What is known of a session after a request that succeeded, and what that cost. */
export function bookCall(
  before: PlannerState,
  { plan, usage, summary, messageTokens, profile, countTokens, lossLimit }: SentPlan,
): { readonly state: PlannerState; readonly entry: LedgerEntry } {
  const { request, predicted, promptTokens, fullTokens } = plan;
  const { nowMs, model, tools } = request;
  const last = before.sent[0];
  const late = last && nowMs - last.atMs > profile.ttlMs;
  const reported = usage && !usage.estimated ? usage : undefined;
  const counted = reported
    ? observeTokens({ ours: promptTokens, theirs: reported.promptTokens }, before.counted)
    : before.counted;
  const scale = tokenScale(counted);
  const prompt = reported?.promptTokens ?? Math.round(scaled(scale, promptTokens));
  const expected = Math.round(servedOf(profile, scale, { promptTokens: prompt, ...predicted }));
  const actual: Usage = reported ?? {
    promptTokens: prompt,
    cachedTokens: predicted.alive < 0.5 ? 0 : expected,
    outputTokens: usage?.outputTokens ?? 0,
    estimated: true,
  };
  // A rewrite at the very front leaves nothing to go by but the estimate.
  const served = expected > 0 ? actual.cachedTokens / expected : predicted.alive;
  const cost = promptCost(profile, actual) + (summary ? promptCost(profile, summary) : 0);
  const resendTokens = prompt + scale.perToken * (fullTokens - promptTokens);
  const resend = request.deferred?.isDetour ? NOTHING : resendOf(before.sent, request, {
    profile,
    scale,
    promptTokens: resendTokens,
    alive: served >= WARM_SHARE ? 1 : served,
  });
  const resendCost = promptCost(profile, resend);
  const paid = before.paid + cost;
  const resent = before.resend + resendCost;
  const recognised = recogniseProfile(actual, profile) ?? before.recognised;
  const idleSince: Record<string, number> = {};
  for (const { parts } of plan.pending) {
    for (const { name } of parts) idleSince[name] = before.idleSince[name] ?? before.carried;
  }
  const shown = plan.view.tools;
  const toolsHash = hashTools(tools);
  const now: SentRequest = {
    tools: hashEach(shown),
    messageTokens,
    promptTokens,
    fullTokens,
    toolsHash,
    atMs: nowMs,
    model,
  };
  const state: PlannerState = {
    seen: request.messages.length,
    sent: [now, ...before.sent.filter((other) => other.model !== model || other.toolsHash !== toolsHash)]
      .slice(0, REMEMBERED_REQUESTS),
    // What waits stands in front of what breaks, so that it is served if anything is.
    carried: before.carried + (actual.cachedTokens > 0 ? profile.read : profile.write),
    idleSince,
    warmth: reported && expected > 0
      ? observeWarmth(profile, { idleMs: predicted.idleMs, warm: served >= WARM_SHARE }, before.warmth)
      : before.warmth,
    counted,
    paid,
    resend: resent,
    stopped: before.stopped || paid > (1 + 2 * lossLimit) * resent,
    ...(recognised && { recognised }),
  };
  const lastShared = last ? sharedTokens(last, { tools: shown, countTokens }) : 0;
  const entry: LedgerEntry = {
    usage: actual,
    predictedCachedTokens: expected,
    shares: plan.shares,
    uncached: explainUncached({
      uncachedTokens: actual.promptTokens - actual.cachedTokens,
      change: findChange(last, request),
      brokenTokens: last ? scale.perToken * (last.promptTokens - lastShared) : 0,
      // What a rewrite moved in a cold cache was gone before.
      missingTokens: late && actual.cachedTokens === 0
        ? scaled(scale, last.promptTokens)
        : expected - actual.cachedTokens,
      late: late ?? false,
    }),
    ...(summary && { summary }),
    tokenUnits: cost,
    resend: {
      promptTokens: Math.round(resend.promptTokens),
      cachedTokens: Math.round(resend.cachedTokens),
    },
    resendTokenUnits: resendCost,
    savedTokenUnits: resent - paid,
    stopped: state.stopped,
    ...(plan.decision && { decision: plan.decision }),
  };
  return { state, entry };
}

import { contentText, type CountTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import { addUsage, countMessageTokens } from "@tare/messages/internal";
import {
  type BaselinePrompt,
  baselineShared,
  baselineTokensOf,
  type CacheChange,
  type CacheLifetimeRecord,
  cacheStateOf,
  type DeferredTools,
  findChange,
  hashEach,
  lastUseMs,
  NO_CACHE_LIFETIME,
  observeCacheLifetime,
  type Prediction,
  providerShared,
  type SentRequest,
  servedOf,
  servedTokens,
  servesMost,
  sharedTokens,
  timeToLive,
  toProvider,
} from "../cache/prefix.ts";
import {
  type ByKind,
  NO_TOKENS,
  observeTokens,
  omittedStructure,
  scaled,
  type SizeRecord,
  type TokenRecord,
  type TokenScale,
  tokenScale,
} from "../cache/prompt_size.ts";
import { afterKeepAlive, afterRequest, type ClockState, NEW_CLOCK } from "../clock/clock.ts";
import type { CompactionHabit } from "../agents.ts";
import { listPrice, listWindow, type Profile, recognizeProfile } from "../providers.ts";
import type {
  Decision,
  KeepAliveEntry,
  LedgerEntry,
  ProjectedCall,
  PromptShares,
  SentKeepAlive,
  UncachedTokens,
} from "./entry.ts";

/** The planner's state of a session. Plain data, a few numbers per evictable part. */
export interface PlannerState {
  /** The last successful request per model and set of tools, newest first; each has its own prefix. */
  readonly sent: readonly SentRequest[];
  readonly seen: number;
  /** Positions of results that returned evicted content again. Absent: none. */
  readonly reread?: readonly number[];
  /** Cost of carrying one token so far, in cost units; tokens are the provider's. */
  readonly carried: number;
  /**
   * {@linkcode PlannerState.carried} when each part became evictable. The increase since, times its tokens,
   * is its carrying cost.
   */
  readonly idleSince: Readonly<Record<string, number>>;
  readonly cacheLifetime: CacheLifetimeRecord;
  readonly counted: TokenRecord;
  readonly sizes: readonly SizeRecord[];
  readonly windows: Readonly<Record<string, LearnedWindow>>;
  /**
   * Whether a prompt was refused for its length before any was reported, so that the tokenizer is unknown.
   */
  readonly doubted?: boolean;
  readonly paid: number;
  readonly resend: number;
  /** Part of `paid` for replies that only recall. Absent: 0. */
  readonly refetched?: number;
  readonly baseline: number;
  readonly clock: ClockState;
  /** Tokens that a cold cache would have evicted from the newest prompt, as the provider counts. */
  readonly waitingTokens: number;
  readonly compacted: OwnCompaction;
  /** Whether the client compacts a prompt of the newest size by itself. Absent: false. */
  readonly isFull?: boolean;
  readonly outputTokens: number;
  readonly stopped: boolean;
  /** Whether it was forked and has sent nothing since. Absent: false. */
  readonly forked?: boolean;
  /** Place of the last rewrite: this session, its parent before the fork, or none. */
  readonly rewritten: "here" | "before_fork" | "never";
  readonly recognized?: string;
  /** Consecutive calls without cache reads that should have had some. */
  readonly unreadCalls: number;
}

interface LearnedWindow {
  readonly tokens: number;
  /** Whether the provider reported it. Otherwise a longer prompt that succeeds refutes it. */
  readonly isReported: boolean;
}

/** The baseline's compaction: what its prompts omit of the client's; negative if the client's omit more. */
export interface OwnCompaction {
  readonly tokens: number;
  /** The same as the provider counts. */
  readonly providerTokens: number;
  readonly messages: number;
  readonly gone: number;
  /**
   * Tokens of the conversation without compaction that the client has compacted since, counted locally. Absent: it has
   * not.
   */
  readonly repeatedTokens?: number;
  /**
   * Extra cost of the compaction and the calls after it. Absent: none, or several, which were unavoidable
   * then.
   */
  readonly extraCostUnits?: number;
}

const NOT_COMPACTED: OwnCompaction = { tokens: 0, providerTokens: 0, messages: 0, gone: 0 };

export const NEW_SESSION: PlannerState = {
  sent: [],
  seen: 0,
  carried: 0,
  idleSince: {},
  cacheLifetime: NO_CACHE_LIFETIME,
  counted: NO_TOKENS,
  sizes: [],
  windows: {},
  paid: 0,
  resend: 0,
  baseline: 0,
  clock: NEW_CLOCK,
  waitingTokens: 0,
  compacted: NOT_COMPACTED,
  outputTokens: 0,
  stopped: false,
  rewritten: "never",
  unreadCalls: 0,
};

/** Consecutive calls without cache reads after which a provider is planned as without a cache. */
export const UNREAD_CALLS = 2;

const SHOULD_READ = 0.5;

/** Cost units over the baseline that never stop rewriting: a few messages of a short session. */
const LEAST_LOSS = 2_000;

/**
 * Returns the cost of resending everything, at least this call's cost if the session hasn't rewritten: no
 * rewrite caused a loss then.
 */
export function resendCostOf({ rewritten }: PlannerState, resend: number, cost: number): number {
  return rewritten === "here" ? resend : Math.max(resend, cost);
}

export function forkAccount(account: PlannerState, length: number): PlannerState {
  const { rewritten, seen, reread, clock, compacted, sent } = account;
  const { extraCostUnits: _, ...inherited } = compacted;
  return {
    ...account,
    refetched: 0,
    seen: Math.min(seen, length),
    ...(reread && { reread: reread.filter((at) => at < length) }),
    forked: true,
    rewritten: rewritten === "never" ? rewritten : "before_fork",
    // A prompt without edits equals the baseline, whatever the parent has sent.
    sent: sent.map((one) => ({ ...one, isWhole: true })),
    paid: 0,
    resend: 0,
    baseline: 0,
    clock: { ...clock, keepAliveRequests: 0, spent: 0, credited: 0, baseline: 0 },
    compacted: compacted.messages > length ? NOT_COMPACTED : inherited,
    stopped: false,
  };
}

/** Share of the expected cached tokens from which a prefix counts as cached. */
const SERVED_SHARE = 0.8;

const REMEMBERED_REQUESTS = 4;

/** Recorded part of a request's plan. Tokens are counted locally. */
export interface RecordedPlan {
  readonly request: {
    readonly messages: readonly Message[];
    readonly nowMs: number;
    readonly model?: string | undefined;
  };
  readonly view: { readonly tools: readonly ToolDefinition[] };
  readonly promptTokens: number;
  readonly kinds: ByKind;
  readonly baseline: BaselineRequest;
  /** Whether the baseline request was sent. */
  readonly isWhole: boolean;
  readonly shares: PromptShares;
  readonly predicted: Prediction;
  readonly pending: readonly {
    readonly tokens: number;
    readonly parts: readonly { readonly name: string }[];
  }[];
  /** Expected refetch cost of its evictions; used in dry runs only. */
  readonly refetches: number;
  readonly decision?: Decision;
}

export interface BookCallOptions {
  readonly plan: RecordedPlan;
  readonly usage: Usage | undefined;
  readonly summary: Usage | undefined;
  readonly heldTokens: number | undefined;
  readonly messageTokens: number;
  readonly profile: Profile;
  /** Rules of a provider with a cache, whatever this one has reported. */
  readonly cachingProfile: Profile;
  readonly countTokens: CountTokens;
  readonly lossLimit: number;
  readonly windowTokens: number;
  readonly habit: CompactionHabit;
  readonly dryRun: boolean;
}

export function bookCall(
  before: PlannerState,
  {
    plan,
    usage,
    summary,
    heldTokens,
    messageTokens,
    profile,
    cachingProfile,
    countTokens,
    lossLimit,
    windowTokens,
    habit,
    dryRun,
  }: BookCallOptions,
): { readonly state: PlannerState; readonly entry: LedgerEntry } {
  const { request } = plan;
  const { nowMs, model } = request;
  const { cacheLifetime } = before;
  const hitProbabilityBy = (sent: SentRequest) =>
    cacheStateOf(sent, { profile, cacheLifetime, nowMs }).cacheHitProbability;
  const visible = { tools: plan.view.tools, countTokens };
  const promptTokens = dryRun ? plan.baseline.ownTokens : plan.promptTokens;
  const last = before.sent[0];
  const late = last && nowMs - lastUseMs(last) > timeToLive(last, profile);
  const reported = usage && !usage.estimated ? usage : undefined;
  const once = reported && { ...reported, ...reported.firstRead };
  const isCounted = once !== undefined && !once.firstRead?.estimated;
  const counted = isCounted
    ? observeTokens({ ours: promptTokens, theirs: once.promptTokens }, before.counted)
    : before.counted;
  const scale = tokenScale(counted);
  const deferred = plan.baseline.deferred && estimateDeferred(plan.baseline.deferred, counted);
  const baseline = { ...plan.baseline, ...(deferred && { deferred }) };
  const { tools, ownTokens } = baseline;
  const own = { tools, ownTokens, deferred, countTokens, scale };
  const { providerTokens, ...known } = dryRun
    ? predictBaseline(baseline, {
      sent: before.sent,
      countTokens,
      nowMs,
      scale,
      hitProbabilityOf: hitProbabilityBy,
    })
    : plan.predicted;
  const predicted: Prediction = heldTokens !== undefined
    ? { ...known, sharedTokens: heldTokens }
    : providerTokens === undefined
    ? known
    : { ...known, providerTokens };
  const prompt = once?.promptTokens ?? Math.round(scaled(scale, promptTokens));
  const expected = Math.round(servedOf(profile, scale, { promptTokens: prompt, ...predicted }));
  const actual: Usage = reported ?? {
    promptTokens: prompt,
    cachedTokens: predicted.cacheHitProbability < 0.5 ? 0 : expected,
    outputTokens: usage?.outputTokens ?? 0,
    estimated: true,
  };
  const read = once ?? actual;
  const readable = servedOf(cachingProfile, scale, { promptTokens: prompt, ...predicted });
  // After a rewrite at the very start only the estimate is left.
  const served = expected > 0 ? read.cachedTokens / expected : predicted.cacheHitProbability;
  const inner = innerUnits(profile, actual);
  const cost = promptCost(profile, actual) + inner + (summary ? promptCost(profile, summary) : 0);
  const lastTokens = dryRun ? last?.ownTokens ?? 0 : last?.promptTokens ?? 0;
  const lastShared = !last
    ? 0
    : dryRun
    ? baselineShared(last, own).sharedTokens
    : sharedTokens(last, visible);
  const isEvidence = late || lastShared >= lastTokens;
  const cacheHitProbability = served >= SERVED_SHARE
    ? 1
    : isEvidence
    ? served
    : predicted.cacheHitProbability;
  // A provider that served this call is assumed to hold other prefixes for their lifetime: no saving is claimed for a miss
  // that only the baseline would have had.
  const hitProbabilityOf = (sent: SentRequest) => {
    const idleMs = nowMs - lastUseMs(sent);
    if (idleMs === predicted.idleMs) return cacheHitProbability;
    return served >= SERVED_SHARE && idleMs <= timeToLive(sent, profile) ? 1 : hitProbabilityBy(sent);
  };
  // Restored content finds a cache that its eviction broke.
  const isSame = plan.isWhole && before.sent.every(({ isWhole }) => isWhole) && before.compacted.tokens === 0;
  const baselineSize = baselineSizeOf(before.sent, baseline, {
    ...{ scale, countedTokens: promptTokens },
    promptTokens: read.promptTokens,
  });
  const baselineCall = baselineCallOf(before.compacted, baseline, {
    ...{ profile, scale, windowTokens, habit, countTokens, nowMs, hitProbabilityOf },
    sent: before.sent,
    usage: read,
    baselineTokens: baselineSize.providerTokens,
    countedTokens: promptTokens,
    cacheHitProbability: served >= SERVED_SHARE ? 1 : served,
    front: heldTokens === undefined ? undefined : { tokens: known.sharedTokens, heldTokens },
  });
  // The provider's own tools make it read the prompt again; a search for deferred tools is Tare's.
  const later = baseline.deferred ? undefined : laterReads(reported);
  const resent = dryRun ? actual : baselineCall.resend;
  // Nothing is claimed without reports and a known cache, or for a prompt that the provider compacted.
  const isUnclaimed = !reported && profile.name === "none" ||
    actual.innerCalls?.some(({ type }) => type === "compaction");
  const taken: BaselineCall = isUnclaimed
    ? { usage: actual, whole: actual, resend: actual, compacted: before.compacted }
    : isSame || dryRun
    ? { usage: actual, whole: actual, resend: resent, compacted: before.compacted }
    : later
    ? withReads(baselineCall, later)
    : baselineCall;
  const nextClock = afterRequest(before.clock, {
    atMs: nowMs,
    usage: read,
    // The reply continued the last request, and this one continues the reply.
    sharedTokens: Math.min(
      prompt,
      last ? scaled(scale, lastShared) + (lastShared < lastTokens ? 0 : before.outputTokens) : 0,
    ),
    costUnits: cost - inner + outputPrice(profile, model) * actual.outputTokens,
  }, profile);
  const { retainedTokens, credit, upgrade, clock } = nextClock;
  const projected = dryRun
    ? project(plan, { actual, isSame, profile, scale, cacheHitProbability, predicted })
    : undefined;
  const outputTokens = Math.max(0, actual.outputTokens - (baseline.isDetour ? before.outputTokens : 0));
  const { compaction } = taken;
  const baselinePrompt = retainedTokens === 0 ? taken.usage : cooled(
    taken.usage,
    isSame || dryRun || !last ? retainedTokens : providerShared(baselineShared(last, own), scale),
  );
  const alike = promptCost(profile, baselinePrompt) + inner +
    (compaction ? promptCost(profile, compaction) : 0);
  const extra = extraOf(before.compacted, taken, alike - inner - promptCost(profile, taken.whole));
  const { extraCostUnits = 0 } = before.compacted;
  // A conversation that would still have fitted wasn't compacted, even if that would have been cheaper.
  const wouldFit = last?.baseline !== undefined && last.baseline.providerTokens <= windowTokens;
  const refuted = !taken.refutes ? 0 : wouldFit ? extraCostUnits : Math.max(0, extraCostUnits);
  const isInherited = before.rewritten === "before_fork" && !baseline.isDetour && !dryRun;
  const baselineCost = isInherited ? Math.max(alike - refuted, cost) : alike - refuted;
  // Estimates don't decide whether rewriting pays.
  const planned = projected ? projected.costUnits - projected.refetchCostUnits : cost;
  const paid = before.paid + planned;
  const baselineTotal = before.baseline + baselineCost;
  const resendCost = resendCostOf(before, promptCost(profile, taken.resend) + inner, planned);
  const resend = before.resend + (projected && isSame ? planned : resendCost);
  const recognized = recognizeProfile(actual, profile) ?? before.recognized;
  const idleSince: Record<string, number> = {};
  for (const { parts } of plan.pending) {
    for (const { name } of parts) idleSince[name] = before.idleSince[name] ?? before.carried;
  }
  const ownTools = hashEach(baseline.tools);
  const now: SentRequest = {
    tools: hashEach(visible.tools),
    messageTokens,
    promptTokens: plan.promptTokens,
    isWhole: plan.isWhole,
    ownTokens: baseline.ownTokens,
    wholeTokens: baseline.wholeTokens,
    ownTools,
    ownToolTokens: baseline.toolTokens,
    ...(isCounted && { baseline: baselineSize }),
    atMs: nowMs,
    model,
  };
  const state: PlannerState = {
    seen: request.messages.length,
    ...(before.reread && { reread: before.reread }),
    sent: [
      now,
      ...before.sent.flatMap((other) => {
        if (findChange(other, baseline) !== "none") return [other];
        return other.forAnHour && clock.hourTokens > 0 ? [{ ...other, usedMs: nowMs }] : [];
      }),
    ].slice(0, REMEMBERED_REQUESTS),
    // Pending parts are before the broken ones, so they are served if anything is.
    carried: before.carried + (actual.cachedTokens > 0 ? profile.read : profile.write),
    idleSince,
    cacheLifetime: reported && expected > 0 && last && !predicted.forAnHour
      ? observeCacheLifetime(
        profile,
        { idleMs: predicted.idleMs, warm: served >= SERVED_SHARE },
        before.cacheLifetime,
      )
      : before.cacheLifetime,
    counted,
    sizes: before.sizes,
    windows: before.windows,
    ...(before.doubted && !reported && { doubted: true }),
    paid,
    resend,
    ...((before.refetched || baseline.isDetour) &&
      { refetched: (before.refetched ?? 0) + (baseline.isDetour ? planned : 0) }),
    baseline: baselineTotal,
    clock,
    waitingTokens: dryRun ? 0 : scale.perToken * plan.pending.reduce((sum, { tokens }) => sum + tokens, 0),
    compacted: extra === undefined ? taken.compacted : { ...taken.compacted, extraCostUnits: extra },
    outputTokens: actual.outputTokens,
    stopped: before.stopped || paid - resend > Math.max(2 * lossLimit * resend, LEAST_LOSS),
    rewritten: before.rewritten,
    ...(recognized && { recognized }),
    unreadCalls: unreadAfter(before, {
      usage: isCounted ? once : undefined,
      readable,
      predicted,
      profile: cachingProfile,
    }),
    ...(read.promptTokens >= FULL_SHARE * fullFromOf(habit, windowTokens, baseline) && { isFull: true }),
  };
  const entry: LedgerEntry = {
    usage: actual,
    predictedCachedTokens: expected,
    shares: plan.shares,
    uncached: explainUncached({
      uncachedTokens: actual.promptTokens - actual.cachedTokens,
      change: findChange(last, baseline),
      brokenTokens: scale.perToken * (lastTokens - lastShared),
      missingTokens: late && read.cachedTokens === 0
        ? scaled(scale, lastTokens)
        : readable - read.cachedTokens,
      // With breakpoints, the cache holds less than the requests have in common.
      unmarkedTokens: profile.writes && heldTokens !== undefined
        ? servedOf(profile, scale, { promptTokens: prompt, ...known }) - expected
        : 0,
      late: late ?? false,
    }),
    ...(summary && { summary }),
    costUnits: cost,
    baseline: {
      ...roundTokens(baselinePrompt),
      outputTokens,
      ...firstOf(baselinePrompt, later),
      ...billedAlike(actual),
    },
    ...(compaction && {
      baselineCompaction: { ...roundTokens(compaction), outputTokens: SUMMARY_TOKENS, ...ratedAlike(actual) },
    }),
    baselineCostUnits: baselineCost,
    ...(taken.whole.promptTokens - (later?.promptTokens ?? 0) <= windowTokens &&
      { resendCostUnits: promptCost(profile, taken.whole) + inner }),
    ...(projected && { projected }),
    ...((retainedTokens > 0 || upgrade) && {
      keepAlive: {
        retainedTokens: Math.round(retainedTokens),
        creditCostUnits: credit,
        ...(upgrade && { upgrade }),
      },
    }),
    savedCostUnits: saved(state, dryRun),
    stopped: state.stopped,
    ...(plan.decision && { decision: plan.decision }),
  };
  return { state, entry };
}

/**
 * Returns the consecutive calls without reported cache reads that should have had some. Calls with another
 * start, too short, after the lifetime, or with free reads (which aren't reported) don't count. Cache writes
 * prove a cache.
 */
function unreadAfter(
  { unreadCalls }: PlannerState,
  { usage, readable, predicted, profile }: {
    readonly usage: PromptUsage | undefined;
    readonly readable: number;
    readonly predicted: Prediction;
    readonly profile: Profile;
  },
): number {
  if (!usage) return unreadCalls;
  if (usage.cachedTokens > 0 || (usage.cacheWriteTokens ?? 0) > 0) return 0;
  const shouldRead = readable > 0 && predicted.cacheHitProbability >= SHOULD_READ &&
    predicted.idleMs <= profile.ttlMs &&
    profile.read > 0;
  return shouldRead ? unreadCalls + 1 : unreadCalls;
}

export function recordKeepAlive(
  before: PlannerState,
  request: SentKeepAlive,
  { profile, dryRun }: Pick<BookCallOptions, "profile" | "dryRun">,
): { readonly state: PlannerState; readonly entry: KeepAliveEntry } {
  const costUnits = promptCost(profile, request.usage);
  const { clock, isWarm, upgrade } = afterKeepAlive(before.clock, { ...request, costUnits });
  const [newest, ...others] = before.sent;
  const isUpgraded = clock.isUpgraded;
  const state: PlannerState = {
    ...before,
    clock,
    sent: newest
      ? [
        { ...newest, usedMs: request.atMs, ...(isUpgraded && { forAnHour: true }) },
        // Requests with the same start share the hour's lifetime.
        ...others.flatMap((other) =>
          !other.forAnHour || !isSameKind(other, newest)
            ? [other]
            : isUpgraded
            ? []
            : [{ ...other, usedMs: request.atMs }]
        ),
      ]
      : [],
  };
  const savedCostUnits = saved(state, dryRun);
  return { state, entry: { ...request, costUnits, isWarm, savedCostUnits, ...(upgrade && { upgrade }) } };
}

function isSameKind(a: SentRequest, b: SentRequest): boolean {
  return a.model === b.model && a.ownTools.length === b.ownTools.length &&
    a.ownTools.every((tool, at) => tool === b.ownTools[at]);
}

function saved({ baseline, paid, clock }: PlannerState, dryRun: boolean): number {
  return dryRun ? clock.credited - clock.spent : baseline - paid - clock.spent;
}

function cooled(usage: PromptUsage, tokens: number): PromptUsage {
  const { cachedTokens, cacheWriteTokens } = usage;
  const gone = Math.min(cachedTokens, tokens);
  return {
    ...usage,
    cachedTokens: cachedTokens - gone,
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens: cacheWriteTokens + gone }),
  };
}

/** Returns the price of an output token in cost units; 0 if unknown. */
function outputPrice({ price }: Profile, model: string | undefined): number {
  const { input = 0, output = 0 } = price ?? (model === undefined ? undefined : listPrice(model)) ?? {};
  return input > 0 ? output / input : 0;
}

function project(
  { promptTokens, baseline, predicted: shared, refetches }: RecordedPlan,
  { actual, isSame, profile, scale, cacheHitProbability, predicted }: {
    readonly actual: Usage;
    readonly isSame: boolean;
    readonly profile: Profile;
    readonly scale: TokenScale;
    readonly cacheHitProbability: number;
    readonly predicted: Prediction;
  },
): ProjectedCall {
  const prompt = Math.max(0, actual.promptTokens + scale.perToken * (promptTokens - baseline.ownTokens));
  const warm = shared.idleMs === predicted.idleMs ? cacheHitProbability : shared.cacheHitProbability;
  const served = warm * servedOf(profile, scale, { promptTokens: prompt, ...shared });
  // Content cached by other sessions would have been served of an unchanged prompt, too.
  const cachedTokens = isSame ? Math.max(served, actual.cachedTokens) : served;
  const sent = writtenLike(actual, prompt, Math.min(cachedTokens, prompt));
  return {
    promptTokens: Math.round(sent.promptTokens),
    cachedTokens: Math.round(sent.cachedTokens),
    costUnits: promptCost(profile, sent) + innerUnits(profile, actual) + refetches,
    refetchCostUnits: refetches,
  };
}

/** Returns the reads of a prompt after the first; `undefined` if there are none or unknown. */
function laterReads(usage: Usage | undefined): PromptUsage | undefined {
  const { firstRead: first } = usage ?? {};
  if (!usage || !first || first.estimated) return undefined;
  const { cacheWriteTokens: written, hourWriteTokens: forAnHour } = usage;
  const rest = (whole: number, part = 0) => Math.max(0, whole - part);
  return {
    promptTokens: rest(usage.promptTokens, first.promptTokens),
    cachedTokens: rest(usage.cachedTokens, first.cachedTokens),
    ...(written !== undefined && { cacheWriteTokens: rest(written, first.cacheWriteTokens) }),
    ...(forAnHour !== undefined && { hourWriteTokens: rest(forAnHour, first.hourWriteTokens) }),
  };
}

function withReads(call: BaselineCall, later: PromptUsage): BaselineCall {
  const { usage, whole, resend } = call;
  const add = (read: PromptUsage) =>
    read.promptTokens === 0 ? read : addUsage({ ...read, outputTokens: 0 }, { ...later, outputTokens: 0 });
  return { ...call, usage: add(usage), whole: add(whole), resend: add(resend) };
}

/** The first read of a prompt decides whether it is long. */
function firstOf(
  { promptTokens, cachedTokens }: PromptUsage,
  later: PromptUsage | undefined,
): Pick<Usage, "firstRead"> {
  if (!later || promptTokens === 0) return {};
  const first = (whole: number, rest: number) => Math.round(Math.max(0, whole - rest));
  return {
    firstRead: {
      promptTokens: first(promptTokens, later.promptTokens),
      cachedTokens: first(cachedTokens, later.cachedTokens),
    },
  };
}

function billedAlike(actual: Usage): Partial<Usage> {
  const { serverTools, innerCalls } = actual;
  return {
    ...ratedAlike(actual),
    ...(serverTools && { serverTools }),
    ...(innerCalls && { innerCalls }),
  };
}

function ratedAlike({ tier, region, model }: Usage): Partial<Usage> {
  return {
    ...(tier !== undefined && { tier }),
    ...(region !== undefined && { region }),
    ...(model !== undefined && { model }),
  };
}

function roundTokens(usage: PromptUsage): PromptUsage {
  const { promptTokens, cachedTokens, cacheWriteTokens, hourWriteTokens } = usage;
  return {
    promptTokens: Math.round(promptTokens),
    cachedTokens: Math.round(cachedTokens),
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens: Math.round(cacheWriteTokens) }),
    ...(hourWriteTokens !== undefined && { hourWriteTokens: Math.round(hourWriteTokens) }),
  };
}

interface CacheStory {
  readonly uncachedTokens: number;
  readonly change: CacheChange;
  readonly brokenTokens: number;
  /** Tokens of the previous request that a warm cache would have served. */
  readonly missingTokens: number;
  readonly unmarkedTokens: number;
  readonly late: boolean;
}

export function explainUncached(
  { uncachedTokens, change, brokenTokens, missingTokens, unmarkedTokens, late }: CacheStory,
): readonly UncachedTokens[] {
  if (change === "first_call" || change === "model_changed") {
    return [{ cause: change, tokens: uncachedTokens }];
  }
  const causes: UncachedTokens[] = [];
  let left = uncachedTokens;
  const explain = (cause: UncachedTokens["cause"], tokens: number) => {
    const its = Math.min(left, Math.max(0, Math.round(tokens)));
    if (its > 0) causes.push({ cause, tokens: its });
    left -= its;
  };
  explain(late ? "expired" : "provider_lost", missingTokens);
  explain(change === "tools_changed" ? change : "own_rewrite", brokenTokens);
  explain("not_marked", unmarkedTokens);
  explain("new", left);
  return causes;
}

/**
 * Returns the cost of a prompt in cost units: cached tokens at the read price, others at the write price. If
 * writes are reported, only those are written, by their lifetime, and the rest costs 1.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { promptCost } from "@tare/planner/internal/parts";
 *
 * assertEquals(promptCost(profileNamed("anthropic-5m"), { promptTokens: 1000, cachedTokens: 800 }), 330);
 * ```
 */
export function promptCost(
  { write, read, writes }: Pick<Profile, "write" | "read" | "writes">,
  usage: Pick<Usage, "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens">,
): number {
  const { promptTokens, cachedTokens, hourWriteTokens } = usage;
  const uncached = promptTokens - cachedTokens;
  const { cacheWriteTokens = hourWriteTokens === undefined ? uncached : 0 } = usage;
  if (!writes || hourWriteTokens === undefined) {
    return cachedTokens * read + (uncached - cacheWriteTokens) + cacheWriteTokens * write;
  }
  const shortTokens = cacheWriteTokens - hourWriteTokens;
  return cachedTokens * read + (uncached - cacheWriteTokens) + shortTokens * writes.short +
    hourWriteTokens * writes.hour;
}

/** Returns the cost of the prompts of calls inside a call, in cost units of its own model. */
export function innerUnits(profile: Parameters<typeof promptCost>[0], { innerCalls = [] }: Usage): number {
  return innerCalls.reduce((sum, call) => sum + promptCost(profile, call), 0);
}

export type PromptUsage = Pick<
  Usage,
  "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens"
>;

/** Assumed reply tokens of a summary. Prompts don't count them. */
export const SUMMARY_TOKENS = 2_000;

/** Share of the size from which a client compacts, at which a compaction isn't a command. */
const FULL_SHARE = 0.95;

export function fullFromOf(
  { fullFrom }: CompactionHabit,
  windowTokens: number,
  { model = "", replyTokens }: Pick<BaselineRequest, "model" | "replyTokens">,
): number {
  return fullFrom?.(windowTokens, replyTokens, listWindow(model)) ??
    Math.min(0.94 * windowTokens, Math.max(windowTokens - 12_000, windowTokens / 2));
}

/** Returns where the messages begin that a compaction by the client retains, and all tokens that it leaves. */
export function leftByCompaction(
  habit: CompactionHabit,
  { messages, frontTokens }: Pick<BaselineRequest, "messages" | "frontTokens">,
  { fullFrom, scale, countTokens }: Pick<BaselineOptions, "scale" | "countTokens"> & {
    readonly fullFrom: number;
  },
): { readonly from: number; readonly left: number } {
  const from = tailFrom(messages, habit.retainedChars?.(fullFrom) ?? 0);
  const tail = messages.slice(from).reduce(
    (sum, message) => sum + countMessageTokens(message, countTokens),
    0,
  );
  return { from, left: frontTokens + tail + (habit.retainedTokens ?? 0) / scale.perToken };
}

/** Returns whether a compaction by the client follows one that the baseline has made before. */
export function compactsAgain({ compacted, isFull = false }: PlannerState): boolean {
  return compacted.tokens !== 0 && isFull;
}

export function withoutBaseline(entry: LedgerEntry): LedgerEntry {
  return {
    ...entry,
    baseline: { promptTokens: 0, cachedTokens: 0, outputTokens: 0 },
    baselineCostUnits: 0,
    savedCostUnits: entry.savedCostUnits - entry.baselineCostUnits,
  };
}

function tailFrom(messages: readonly Message[], chars: number): number {
  let left = chars;
  return messages.findLastIndex((message) => (left -= JSON.stringify(message).length) < 0) + 1;
}

function transcriptTokens(
  messages: readonly Message[],
  { resultChars, countTokens }: { readonly resultChars: number; readonly countTokens: CountTokens },
): number {
  return sumOf(
    messages,
    (message) =>
      countTokens(contentText(message.content).slice(0, message.role === "tool" ? resultChars : undefined)),
  );
}

function sumOf<T>(values: readonly T[], amount: (value: T) => number): number {
  return values.reduce((sum, value) => sum + amount(value), 0);
}

/** The baseline request of a call. Tokens are counted locally. */
export interface BaselineRequest {
  readonly model?: string | undefined;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  readonly replyTokens?: number | undefined;
  /** Tokens of messages and tools without Tare's additions, such as recalls. */
  readonly ownTokens: number;
  readonly wholeTokens: number;
  readonly toolTokens: number;
  /** Tokens of the first prompt, which a compaction retains: tools, and messages before the model's first. */
  readonly frontTokens: number;
  /** Tokens of tools and system messages. */
  readonly instructionTokens: number;
  /** Absent: no tool is deferred. */
  readonly deferred?: DeferredTools & MeasuredTools;
  /** Whether the call only follows an eviction: it recalls results or looks up definitions. */
  readonly isDetour: boolean;
  readonly isLookup: boolean;
}

interface MeasuredTools {
  readonly sent: ToolSize;
  /** Size of the tools of the baseline request. */
  readonly own: ToolSize;
}

interface ToolSize {
  readonly tokens: number;
  /** Tokens of their JSON by the provider's tokenizer. */
  readonly jsonTokens: number;
  /** Tokens without names and descriptions. */
  readonly structureTokens: number;
}

/** Estimates deferred definitions as the provider counts, by what it omits of those that were sent. */
export function estimateDeferred(
  { sent, own }: MeasuredTools,
  counted: TokenRecord,
): NonNullable<BaselineRequest["deferred"]> {
  const omitted = omittedStructure(counted, sent.structureTokens);
  const jsonTokens = own.jsonTokens - sent.jsonTokens;
  const structureTokens = own.structureTokens - sent.structureTokens;
  return {
    sent,
    own,
    tokens: own.tokens - sent.tokens,
    providerTokens: jsonTokens - omitted * structureTokens,
  };
}

const NOTHING_DEFERRED: DeferredTools = { tokens: 0, providerTokens: 0 };

interface SentBaseline {
  readonly scale: TokenScale;
  readonly sent: readonly SentRequest[];
  readonly countTokens: CountTokens;
  readonly nowMs: number;
  readonly hitProbabilityOf: (sent: SentRequest) => number;
}

export function predictBaseline(
  { model, tools, ownTokens, deferred }: Pick<BaselineRequest, "model" | "tools" | "ownTokens" | "deferred">,
  { sent, countTokens, nowMs, hitProbabilityOf, scale }: SentBaseline,
): Prediction {
  return servesMost(sent, model, (one) => ({
    ...baselineShared(one, { tools, ownTokens, deferred, countTokens, scale }),
    cacheHitProbability: hitProbabilityOf(one),
    idleMs: nowMs - lastUseMs(one),
    ...(one.forAnHour && { forAnHour: true }),
  }));
}

/**
 * Returns the baseline prompt of a call as the provider counts: what was sent with the difference to it, or the
 * previous baseline with the reported or the estimated difference since; whichever estimates least.
 */
function baselineSizeOf(
  sent: readonly SentRequest[],
  { model, ownTokens, deferred }: Pick<BaselineRequest, "model" | "ownTokens" | "deferred">,
  { promptTokens, countedTokens, scale: { perToken } }: {
    readonly promptTokens: number;
    readonly countedTokens: number;
    readonly scale: TokenScale;
  },
): BaselinePrompt {
  const last = sent.find((one) => one.model === model)?.baseline;
  const { tokens: deferredTokens, providerTokens } = deferred ?? NOTHING_DEFERRED;
  const ways = [{
    known: promptTokens + providerTokens,
    estimated: ownTokens - countedTokens - deferredTokens,
    before: Math.abs(deferredTokens),
  }];
  if (last) {
    const { estimatedTokens: before } = last;
    const providerTokens = baselineTokensOf(last, deferred);
    const added = ownTokens - last.ownTokens;
    ways.push(
      {
        known: providerTokens + promptTokens - last.sentProviderTokens,
        estimated: added - (countedTokens - last.sentTokens),
        before,
      },
      { known: providerTokens, estimated: added, before },
    );
  }
  const costOf = ({ estimated, before }: typeof ways[number]) => before + Math.abs(estimated);
  const best = ways.reduce((one, other) => costOf(other) < costOf(one) ? other : one);
  return {
    ownTokens,
    providerTokens: Math.max(0, best.known + perToken * best.estimated),
    estimatedTokens: costOf(best),
    sentTokens: countedTokens,
    sentProviderTokens: promptTokens,
    ...(deferred && { deferred: { tokens: deferredTokens, providerTokens } }),
  };
}

export interface BaselineOptions extends SentBaseline {
  readonly profile: Profile;
  readonly windowTokens: number;
  readonly habit: CompactionHabit;
  /** Served share of the expected cached tokens. */
  readonly cacheHitProbability: number;
  /**
   * Tokens that the actual request shared with earlier ones, and how many the cache held, counted locally.
   */
  readonly front?: { readonly tokens: number; readonly heldTokens: number } | undefined;
  readonly usage: PromptUsage;
  /** Tokens of the baseline prompt without compaction, as the provider counts. Default: by the scale. */
  readonly baselineTokens?: number;
  readonly countedTokens: number;
}

export interface BaselineCall {
  /** Its prompt; 0 tokens if it would not have been made. */
  readonly usage: PromptUsage;
  readonly compaction?: PromptUsage;
  /** Its prompt without compaction, whether or not it fits the window. */
  readonly whole: PromptUsage;
  /**
   * Resending everything, including recalls and the calls after them. Rewriting is held to this limit: if a
   * recall counted as a loss, it would stop rewriting while the recalled content must be evicted to end the
   * loss.
   */
  readonly resend: PromptUsage;
  readonly compacted: OwnCompaction;
  /** Whether the history has restarted since the estimated compaction. Absent: false. */
  readonly refutes?: boolean;
}

function extraOf(
  before: OwnCompaction,
  { compaction, compacted }: BaselineCall,
  more: number,
): number | undefined {
  if (compacted.tokens === 0) return undefined;
  if (compaction) return before.tokens === 0 ? more : undefined;
  return before.extraCostUnits === undefined ? undefined : before.extraCostUnits + more;
}

const NOTHING: PromptUsage = { promptTokens: 0, cachedTokens: 0 };

/**
 * Returns the least cached tokens of a baseline request. Deferred tools matter only to a session's first
 * call, which may start like other sessions' calls; in the baseline those would have had these tools too.
 */
function servedOfLess(
  { deferred }: Pick<BaselineRequest, "deferred">,
  { usage: { cachedTokens }, scale, sharedTokens }: Pick<BaselineOptions, "usage" | "scale"> & {
    readonly sharedTokens: number;
  },
): number {
  if (!deferred || cachedTokens === 0) return cachedTokens;
  if (sharedTokens > 0) return 0;
  const holdsTools = cachedTokens > scale.perToken * deferred.sent.tokens;
  return cachedTokens + (holdsTools ? Math.max(0, deferred.providerTokens) : 0);
}

/**
 * Returns the baseline of a call: the same provider, cache and window, and the client's own compaction if the
 * conversation doesn't fit.
 */
export function baselineCallOf(
  before: OwnCompaction,
  request: BaselineRequest,
  {
    profile,
    scale,
    windowTokens,
    habit,
    countTokens,
    nowMs,
    sent,
    cacheHitProbability,
    front,
    usage,
    baselineTokens: known,
    countedTokens,
    hitProbabilityOf,
  }: BaselineOptions,
): BaselineCall {
  const { messages, ownTokens, wholeTokens, frontTokens, instructionTokens, isDetour, isLookup } = request;
  if (isLookup) return { usage: NOTHING, whole: NOTHING, resend: NOTHING, compacted: before };
  const { deferred } = request;
  const { tokens: deferredTokens, providerTokens } = deferred ?? NOTHING_DEFERRED;
  const theirs = (tokens: number) =>
    usage.promptTokens + providerTokens + scale.perToken * (tokens - deferredTokens - countedTokens);
  const baselineTokens = known ?? Math.max(0, theirs(ownTokens));
  const shared = predictBaseline(request, { sent, countTokens, nowMs, hitProbabilityOf, scale });
  const { sharedTokens, cacheHitProbability: lastHitProbability } = shared;
  const unheld = front && sharedTokens <= front.tokens ? Math.max(0, sharedTokens - front.heldTokens) : 0;
  const last = Math.max(0, providerShared(shared, scale) - scale.perToken * unheld);
  // Other sessions may have cached it, so the baseline would have been served as much.
  const served = servedOfLess(request, { usage, scale, sharedTokens });
  const take = (promptTokens: number, sharedTokens: number, foundTokens = served): PromptUsage => {
    const warm = lastHitProbability * servedTokens(profile, { promptTokens, sharedTokens });
    return writtenLike(usage, promptTokens, Math.max(warm, Math.min(foundTokens, promptTokens)));
  };
  const held = sent.find((one) => findChange(one, request) === "none");
  const promptTokens = theirs(wholeTokens);
  const resent = held ? servedOf(profile, scale, { promptTokens, sharedTokens: held.wholeTokens }) : 0;
  // A cache without breakpoints would have held less of this prompt as well.
  const holds = front && front.tokens > 0 ? Math.min(1, front.heldTokens / front.tokens) : 1;
  const resend = { promptTokens, cachedTokens: cacheHitProbability * holds * resent };
  if (isDetour) return { usage: NOTHING, whole: NOTHING, resend, compacted: before };
  const whole = take(baselineTokens, last);
  const newest = sent[0]?.baseline;
  const { repeatedTokens, ...once } = before;
  // The baseline continues from the conversation that the client has compacted.
  const continued = newest && repeatedTokens !== undefined
    ? {
      sentTokens: baselineTokensOf(newest, deferred),
      addedTokens: Math.max(0, repeatedTokens - newest.ownTokens),
      ownTokens: newest.ownTokens,
    }
    : undefined;
  const refutes = !continued && before.messages > messages.length;
  const compacted: OwnCompaction = refutes ? NOT_COMPACTED : !continued ? before : {
    ...once,
    tokens: ownTokens - continued.ownTokens - continued.addedTokens + before.tokens,
    providerTokens: baselineTokens - continued.sentTokens - scale.perToken * continued.addedTokens +
      before.providerTokens,
    messages: messages.length,
    gone: 0,
  };
  const tokens = ownTokens - compacted.tokens;
  const goneTokens = compacted.providerTokens;
  const baselineUsage = compacted.tokens === 0 ? whole : take(
    Math.max(0, baselineTokens - goneTokens),
    Math.max(0, continued ? continued.sentTokens - before.providerTokens : last - goneTokens),
    0,
  );
  const fullFrom = fullFromOf(habit, windowTokens, request);
  const stays = { usage: baselineUsage, whole, resend, compacted, refutes };
  if (baselineUsage.promptTokens <= fullFrom) return stays;
  const tokensOf = (some: readonly Message[]) =>
    sumOf(some, (message) => countMessageTokens(message, countTokens));
  const answers = habit.isLate
    ? messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1)
    : [];
  if (baselineUsage.promptTokens - scale.perToken * tokensOf(answers) <= fullFrom) return stays;
  const { from, left } = leftByCompaction(habit, request, { fullFrom, scale, countTokens });
  if (left >= tokens) return stays;
  const { resultChars } = habit;
  const compaction = resultChars === undefined ? baselineUsage : writtenLike(
    usage,
    scale.perToken * transcriptTokens(messages.slice(compacted.gone, from), { resultChars, countTokens }),
    0,
  );
  const leftTokens = toProvider(left, { deferred, scale });
  return {
    usage: take(
      leftTokens,
      toProvider(habit.keepsFront ? frontTokens : instructionTokens, { deferred, scale }),
      0,
    ),
    compaction,
    whole,
    resend,
    refutes,
    compacted: {
      tokens: ownTokens - left,
      providerTokens: Math.max(0, baselineTokens - leftTokens),
      messages: messages.length,
      gone: from,
    },
  };
}

function writtenLike(like: PromptUsage, promptTokens: number, cachedTokens: number): PromptUsage {
  const { cacheWriteTokens, hourWriteTokens } = like;
  const uncached = like.promptTokens - like.cachedTokens;
  if (cacheWriteTokens === undefined || uncached <= 0) return { promptTokens, cachedTokens };
  const times = (promptTokens - cachedTokens) / uncached;
  return {
    promptTokens,
    cachedTokens,
    cacheWriteTokens: times * cacheWriteTokens,
    ...(hourWriteTokens !== undefined && { hourWriteTokens: times * hourWriteTokens }),
  };
}

import {
  contentText,
  type Cost,
  type CountTokens,
  type Message,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import {
  type CacheChange,
  findChange,
  hashEach,
  lastUseMs,
  NO_WARMTH,
  observeWarmth,
  type Prediction,
  type SentRequest,
  sentWarmth,
  servedOf,
  servesMost,
  sharedAlone,
  sharedTokens,
  timeToLive,
  type WarmthRecord,
} from "../cache/prefix.ts";
import {
  type ByKind,
  NO_TOKENS,
  observeTokens,
  scaled,
  type SizeRecord,
  type TokenRecord,
  type TokenScale,
  tokenScale,
} from "../cache/prompt_size.ts";
import { afterPing, afterRequest, type ClockState, NEW_CLOCK } from "../clock/clock.ts";
import type { CompactionHabit } from "../agents.ts";
import { listPrice, type Price, type Profile, recogniseProfile } from "../providers.ts";
import type {
  Decision,
  LedgerEntry,
  PingEntry,
  PingSent,
  ProjectedCall,
  PromptShares,
  UncachedTokens,
} from "./entry.ts";

/** What a planner remembers of a session. Plain data, a few numbers for each thing that could leave. */
export interface PlannerState {
  /** The last requests that succeeded, newest first: one for each model and set of tools, as each has its own prefix. */
  readonly sent: readonly SentRequest[];
  /** So many messages of the history were in a request that succeeded: the model has seen them, or lines in their place. */
  readonly seen: number;
  /** What carrying one token that the provider counts has cost so far, in the price of one uncached token. */
  readonly carried: number;
  /** {@linkcode PlannerState.carried} when each part that could leave first could: its rent is what was added since, for each of its tokens. */
  readonly idleSince: Readonly<Record<string, number>>;
  readonly warmth: WarmthRecord;
  readonly counted: TokenRecord;
  /** The last prompts that were reported, newest first: one for each model. */
  readonly sizes: readonly SizeRecord[];
  /** Windows that refusals of prompts have shown, by the model's name. */
  readonly windows: Readonly<Record<string, LearnedWindow>>;
  /** Whether a prompt was refused for its length before any was reported, so that nobody knows how it is counted. */
  readonly doubted?: boolean;
  readonly paid: number;
  /** What it would have cost to resend everything, had the window been large enough. */
  readonly resend: number;
  /** What its client would have paid without Tare. */
  readonly without: number;
  readonly clock: ClockState;
  /** Tokens that would have left its newest prompt had the cache been cold, as the provider counts. */
  readonly waitingTokens: number;
  readonly compacted: OwnCompaction;
  /** Tokens of its newest reply. */
  readonly outputTokens: number;
  readonly stopped: boolean;
  /** Whether it was forked from a session and has sent nothing since. Absent: no. */
  readonly forked?: boolean;
  /** Where its prompt was last rewritten: in this session, before it was forked from another, or nowhere. */
  readonly rewritten: "here" | "before_fork" | "never";
  /** Name of the profile that usage made it recognise, where none was known. */
  readonly recognised?: string;
  /** Calls in a row that should have read from the cache and for which the provider reported no reads. */
  readonly unreadCalls: number;
}

/** A window that a refusal has shown. Plain data. */
interface LearnedWindow {
  readonly tokens: number;
  /** Whether the provider told it. Else a longer prompt that succeeds refutes it. */
  readonly isTold: boolean;
}

/** What a session has come to whose client keeps its window by itself. Plain data. */
export interface OwnCompaction {
  /** Tokens that its compactions have taken out of its prompt, counted here. */
  readonly tokens: number;
  /** Messages of the history that the newest of them read. */
  readonly messages: number;
  /** Of these, those that it took out. */
  readonly gone: number;
  /**
   * What it and the calls behind it cost more than had it not been made. Absent: nothing was compacted, or more than once,
   * so that it had to be.
   */
  readonly extraTokenUnits?: number;
}

const NOT_COMPACTED: OwnCompaction = { tokens: 0, messages: 0, gone: 0 };

export const NEW_SESSION: PlannerState = {
  sent: [],
  seen: 0,
  carried: 0,
  idleSince: {},
  warmth: NO_WARMTH,
  counted: NO_TOKENS,
  sizes: [],
  windows: {},
  paid: 0,
  resend: 0,
  without: 0,
  clock: NEW_CLOCK,
  waitingTokens: 0,
  compacted: NOT_COMPACTED,
  outputTokens: 0,
  stopped: false,
  rewritten: "never",
  unreadCalls: 0,
};

/** From so many calls in a row without cache reads on a provider is taken for one without a cache. */
export const UNREAD_CALLS = 2;

/** Probability of a cached prefix from which on a call should have read it. */
const SHOULD_READ = 0.5;

/** Cost units over the baseline that never stop rewriting: in a short session they are what a few messages cost. */
const LEAST_LOSS = 2_000;

/**
 * Returns what resending everything is counted as against a call that cost so much: never less, as long as the session has
 * rewritten nothing, because a loss can't come of a rewrite then.
 */
export function resendCostOf({ rewritten }: PlannerState, resend: number, cost: number): number {
  return rewritten === "here" ? resend : Math.max(resend, cost);
}

/** Returns the account of a session that is forked at its first `length` messages: it owes nothing and has saved nothing. */
export function forkAccount(account: PlannerState, length: number): PlannerState {
  const { rewritten, seen, clock, compacted, sent } = account;
  const { extraTokenUnits: _, ...inherited } = compacted;
  return {
    ...account,
    seen: Math.min(seen, length),
    forked: true,
    rewritten: rewritten === "never" ? rewritten : "before_fork",
    // A prompt without edits is what its client would send, whatever its parent has sent.
    sent: sent.map((one) => ({ ...one, isWhole: true })),
    paid: 0,
    resend: 0,
    without: 0,
    clock: { ...clock, pings: 0, spent: 0, credited: 0, without: 0 },
    compacted: compacted.messages > length ? NOT_COMPACTED : inherited,
    stopped: false,
  };
}

/** Share of the cached tokens that were expected which must be served for the prefix to count as still there. */
const SERVED_SHARE = 0.8;

/** So many models and sets of tools of a session are remembered with what they were sent last. */
const REMEMBERED_REQUESTS = 4;

/** What was planned of a request that succeeded, as far as it is booked. Tokens are counted here. */
export interface BookedPlan {
  readonly request: {
    readonly messages: readonly Message[];
    readonly nowMs: number;
    readonly model?: string | undefined;
  };
  readonly view: { readonly tools: readonly ToolDefinition[] };
  readonly promptTokens: number;
  /** The same by kind of text. */
  readonly kinds: ByKind;
  readonly alone: AloneRequest;
  /** Whether that is what was sent. */
  readonly isWhole: boolean;
  readonly shares: PromptShares;
  readonly predicted: Prediction;
  /** What carrying costs more than its absence, and stayed. */
  readonly pending: readonly {
    readonly tokens: number;
    readonly parts: readonly { readonly name: string }[];
  }[];
  /** What reading back is expected to cost that leaves for it; counted only where nothing really leaves. */
  readonly repairs: number;
  readonly decision?: Decision;
}

export interface BookCallOptions {
  readonly plan: BookedPlan;
  /** What the provider reported of this very request; absent or `estimated` if it reported nothing. */
  readonly usage: Usage | undefined;
  readonly summary: Usage | undefined;
  /** Tokens with which it began like what the cache held. Absent: by what the session has sent. */
  readonly heldTokens: number | undefined;
  /** Tokens of its messages with which what the model sees now still starts. */
  readonly messageTokens: number;
  readonly profile: Profile;
  /** The rules of a provider that caches, whatever this one has reported. */
  readonly cachingProfile: Profile;
  readonly countTokens: CountTokens;
  readonly lossLimit: number;
  readonly windowTokens: number;
  readonly habit: CompactionHabit;
  /** Whether all of it was sent, whatever was planned. */
  readonly observes: boolean;
}

/** What is known of a session after a request that succeeded, and what that cost. */
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
    observes,
  }: BookCallOptions,
): { readonly state: PlannerState; readonly entry: LedgerEntry } {
  const { request, alone } = plan;
  const { nowMs, model } = request;
  const { warmth } = before;
  const aliveBy = (sent: SentRequest) => sentWarmth(sent, { profile, warmth, nowMs }).alive;
  const shown = { tools: plan.view.tools, countTokens };
  const own = { tools: alone.tools, ownTokens: alone.ownTokens, countTokens };
  const known = observes
    ? predictAlone(alone, { sent: before.sent, countTokens, nowMs, aliveOf: aliveBy })
    : plan.predicted;
  const predicted = heldTokens === undefined ? known : { ...known, sharedTokens: heldTokens };
  const promptTokens = observes ? alone.ownTokens : plan.promptTokens;
  const last = before.sent[0];
  const late = last && nowMs - lastUseMs(last) > timeToLive(last, profile);
  const reported = usage && !usage.estimated ? usage : undefined;
  const once = reported && { ...reported, ...reported.firstRead };
  const counted = once && !reported.firstRead?.estimated
    ? observeTokens({ ours: promptTokens, theirs: once.promptTokens }, before.counted)
    : before.counted;
  const scale = tokenScale(counted);
  const prompt = once?.promptTokens ?? Math.round(scaled(scale, promptTokens));
  const expected = Math.round(servedOf(profile, scale, { promptTokens: prompt, ...predicted }));
  const actual: Usage = reported ?? {
    promptTokens: prompt,
    cachedTokens: predicted.alive < 0.5 ? 0 : expected,
    outputTokens: usage?.outputTokens ?? 0,
    estimated: true,
  };
  const read = once ?? actual;
  const readable = servedOf(cachingProfile, scale, { promptTokens: prompt, ...predicted });
  // A rewrite at the very front leaves nothing to go by but the estimate.
  const served = expected > 0 ? read.cachedTokens / expected : predicted.alive;
  const cost = promptCost(profile, actual) + (summary ? promptCost(profile, summary) : 0);
  const lastTokens = observes ? last?.ownTokens ?? 0 : last?.promptTokens ?? 0;
  const lastShared = !last ? 0 : observes ? sharedAlone(last, own) : sharedTokens(last, shown);
  // What an edit moved tells nothing of a cache that isn't late.
  const isTold = late || lastShared >= lastTokens;
  const alive = served >= SERVED_SHARE ? 1 : isTold ? served : predicted.alive;
  const aliveOf = (sent: SentRequest) => nowMs - lastUseMs(sent) === predicted.idleMs ? alive : aliveBy(sent);
  // What comes back finds a cache that its leaving has broken.
  const isSame = plan.isWhole && before.sent.every(({ isWhole }) => isWhole) && before.compacted.tokens === 0;
  const asked = callAlone(before.compacted, alone, {
    ...{ profile, scale, windowTokens, habit, countTokens, nowMs, aliveOf },
    sent: before.sent,
    usage: read,
    countedTokens: promptTokens,
    alive: served >= SERVED_SHARE ? 1 : served,
    front: heldTokens === undefined ? undefined : { tokens: known.sharedTokens, heldTokens },
  });
  const resent = observes ? actual : asked.resend;
  // Of who reports nothing, and whose cache nobody knows, nothing is claimed.
  const isUntold = !reported && profile.name === "none";
  const taken: AloneCall = isUntold
    ? { usage: actual, whole: actual, resend: actual, compacted: before.compacted }
    : isSame || observes
    ? { usage: actual, whole: actual, resend: resent, compacted: before.compacted }
    : asked;
  const kept = afterRequest(before.clock, {
    atMs: nowMs,
    usage: read,
    // The reply went on from it, and this request from that.
    sharedTokens: Math.min(
      prompt,
      last ? scaled(scale, lastShared) + (lastShared < lastTokens ? 0 : before.outputTokens) : 0,
    ),
    tokenUnits: cost + outputPrice(profile, model) * actual.outputTokens,
  }, profile);
  const { keptTokens, credit, upgrade, clock } = kept;
  const projected = observes
    ? project(plan, { actual, isSame, profile, scale, alive, predicted })
    : undefined;
  // The reply that only recalled would have been this one.
  const outputTokens = Math.max(0, actual.outputTokens - (alone.isDetour ? before.outputTokens : 0));
  const { compaction } = taken;
  const alonePrompt = keptTokens === 0 ? taken.usage : cooled(
    taken.usage,
    isSame || observes || !last ? keptTokens : scaled(scale, sharedAlone(last, own)),
  );
  const alike = promptCost(profile, alonePrompt) + (compaction ? promptCost(profile, compaction) : 0);
  const extra = extraOf(before.compacted, taken, alike - promptCost(profile, taken.whole));
  // A client that compacts by itself later than was thought hasn't done so before.
  const refuted = taken.refutes ? Math.max(0, before.compacted.extraTokenUnits ?? 0) : 0;
  const isInherited = before.rewritten === "before_fork" && !alone.isDetour && !observes;
  const withoutCost = isInherited ? Math.max(alike - refuted, cost) : alike - refuted;
  // Whether rewriting pays isn't decided by an estimate.
  const planned = projected ? projected.tokenUnits - projected.repairTokenUnits : cost;
  const paid = before.paid + planned;
  const without = before.without + withoutCost;
  const resendCost = resendCostOf(before, promptCost(profile, taken.resend), planned);
  const resend = before.resend + (projected && isSame ? planned : resendCost);
  const recognised = recogniseProfile(actual, profile) ?? before.recognised;
  const idleSince: Record<string, number> = {};
  for (const { parts } of plan.pending) {
    for (const { name } of parts) idleSince[name] = before.idleSince[name] ?? before.carried;
  }
  const ownTools = hashEach(alone.tools);
  const now: SentRequest = {
    tools: hashEach(shown.tools),
    messageTokens,
    promptTokens: plan.promptTokens,
    isWhole: plan.isWhole,
    ownTokens: alone.ownTokens,
    wholeTokens: alone.wholeTokens,
    ownTools,
    atMs: nowMs,
    model,
  };
  const state: PlannerState = {
    seen: request.messages.length,
    sent: [
      now,
      ...before.sent.flatMap((other) => {
        if (findChange(other, alone) !== "none") return [other];
        return other.forAnHour && clock.hourTokens > 0 ? [{ ...other, usedMs: nowMs }] : [];
      }),
    ].slice(0, REMEMBERED_REQUESTS),
    // What waits stands in front of what breaks, so that it is served if anything is.
    carried: before.carried + (actual.cachedTokens > 0 ? profile.read : profile.write),
    idleSince,
    // What only others have sent was used nobody knows when.
    warmth: reported && expected > 0 && last && !predicted.forAnHour
      ? observeWarmth(profile, { idleMs: predicted.idleMs, warm: served >= SERVED_SHARE }, before.warmth)
      : before.warmth,
    counted,
    sizes: before.sizes,
    windows: before.windows,
    ...(before.doubted && !reported && { doubted: true }),
    paid,
    resend,
    without,
    clock,
    waitingTokens: observes ? 0 : scale.perToken * plan.pending.reduce((sum, { tokens }) => sum + tokens, 0),
    compacted: extra === undefined ? taken.compacted : { ...taken.compacted, extraTokenUnits: extra },
    outputTokens: actual.outputTokens,
    stopped: before.stopped || paid - resend > Math.max(2 * lossLimit * resend, LEAST_LOSS),
    rewritten: before.rewritten,
    ...(recognised && { recognised }),
    unreadCalls: unreadAfter(before, {
      usage: once && !reported.firstRead?.estimated ? once : undefined,
      readable,
      predicted,
      profile: cachingProfile,
    }),
  };
  const entry: LedgerEntry = {
    usage: actual,
    predictedCachedTokens: expected,
    shares: plan.shares,
    uncached: explainUncached({
      uncachedTokens: actual.promptTokens - actual.cachedTokens,
      change: findChange(last, alone),
      brokenTokens: scale.perToken * (lastTokens - lastShared),
      // What a rewrite moved in a cold cache was gone before.
      missingTokens: late && read.cachedTokens === 0
        ? scaled(scale, lastTokens)
        : readable - read.cachedTokens,
      // By what requests have marked the cache holds less than they had in common.
      unmarkedTokens: profile.writes && heldTokens !== undefined
        ? servedOf(profile, scale, { promptTokens: prompt, ...known }) - expected
        : 0,
      late: late ?? false,
    }),
    ...(summary && { summary }),
    tokenUnits: cost,
    without: { ...roundTokens(alonePrompt), outputTokens },
    ...(compaction && {
      withoutCompaction: { ...roundTokens(compaction), outputTokens: SUMMARY_TOKENS },
    }),
    withoutTokenUnits: withoutCost,
    ...(taken.whole.promptTokens <= windowTokens && { resendTokenUnits: promptCost(profile, taken.whole) }),
    ...(projected && { projected }),
    ...((keptTokens > 0 || upgrade) && {
      warmth: { keptTokens: Math.round(keptTokens), creditTokenUnits: credit, ...(upgrade && { upgrade }) },
    }),
    savedTokenUnits: saved(state, observes),
    stopped: state.stopped,
    ...(plan.decision && { decision: plan.decision }),
  };
  return { state, entry };
}

/**
 * Returns how many calls in a row the provider has reported no cache reads for that should have read something. A call
 * tells nothing that begins otherwise than those before, is too short to be cached, came after the time to live, or is
 * of a provider whose reads are free: such report none. What is written to a cache shows that there is one.
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
  const shouldRead = readable > 0 && predicted.alive >= SHOULD_READ && predicted.idleMs <= profile.ttlMs &&
    profile.read > 0;
  return shouldRead ? unreadCalls + 1 : unreadCalls;
}

/** What is known of a session after a ping, and what that cost. */
export function bookPing(
  before: PlannerState,
  ping: PingSent,
  { profile, observes }: Pick<BookCallOptions, "profile" | "observes">,
): { readonly state: PlannerState; readonly entry: PingEntry } {
  const tokenUnits = promptCost(profile, ping.usage);
  const { clock, isWarm, upgrade } = afterPing(before.clock, { ...ping, tokenUnits });
  const [newest, ...others] = before.sent;
  const isUpgraded = clock.isUpgraded;
  const state: PlannerState = {
    ...before,
    clock,
    sent: newest
      ? [
        { ...newest, usedMs: ping.atMs, ...(isUpgraded && { forAnHour: true }) },
        // What lasts an hour is used with what begins like it.
        ...others.flatMap((other) =>
          !other.forAnHour || !isSameKind(other, newest)
            ? [other]
            : isUpgraded
            ? []
            : [{ ...other, usedMs: ping.atMs }]
        ),
      ]
      : [],
  };
  const savedTokenUnits = saved(state, observes);
  return { state, entry: { ...ping, tokenUnits, isWarm, savedTokenUnits, ...(upgrade && { upgrade }) } };
}

function isSameKind(a: SentRequest, b: SentRequest): boolean {
  return a.model === b.model && a.ownTools.length === b.ownTools.length &&
    a.ownTools.every((tool, at) => tool === b.ownTools[at]);
}

/** What a session has saved so far. Of one that is only observed nothing but keeping it warm saves. */
function saved({ without, paid, clock }: PlannerState, observes: boolean): number {
  return observes ? clock.credited - clock.spent : without - paid - clock.spent;
}

/** A prompt of which so many tokens fewer are served: they are written anew. */
function cooled(usage: PromptUsage, tokens: number): PromptUsage {
  const { cachedTokens, cacheWriteTokens } = usage;
  const gone = Math.min(cachedTokens, tokens);
  return {
    ...usage,
    cachedTokens: cachedTokens - gone,
    ...(cacheWriteTokens !== undefined && { cacheWriteTokens: cacheWriteTokens + gone }),
  };
}

/** What an output token costs, in the price of one uncached input token; zero where nobody knows. */
function outputPrice({ price }: Profile, model: string | undefined): number {
  const { input = 0, output = 0 } = price ?? (model === undefined ? undefined : listPrice(model)) ?? {};
  return input > 0 ? output / input : 0;
}

/** What would have been sent of a prompt that is only observed. */
function project(
  { promptTokens, alone, predicted: shared, repairs }: BookedPlan,
  { actual, isSame, profile, scale, alive, predicted }: {
    readonly actual: Usage;
    readonly isSame: boolean;
    readonly profile: Profile;
    readonly scale: TokenScale;
    readonly alive: number;
    readonly predicted: Prediction;
  },
): ProjectedCall {
  const prompt = Math.max(0, actual.promptTokens + scale.perToken * (promptTokens - alone.ownTokens));
  const warm = shared.idleMs === predicted.idleMs ? alive : shared.alive;
  const served = warm * servedOf(profile, scale, { promptTokens: prompt, ...shared });
  // What other sessions put there would have been served of a prompt that was left alone, too.
  const cachedTokens = isSame ? Math.max(served, actual.cachedTokens) : served;
  const sent = writtenLike(actual, prompt, Math.min(cachedTokens, prompt));
  return {
    promptTokens: Math.round(sent.promptTokens),
    cachedTokens: Math.round(sent.cachedTokens),
    tokenUnits: promptCost(profile, sent) + repairs,
    repairTokenUnits: repairs,
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
  /** Tokens at the end of the request before with which this one no longer goes on. */
  readonly brokenTokens: number;
  /** Tokens of the request before that a warm cache would have served and this one didn't. */
  readonly missingTokens: number;
  /** Tokens of the request before that no request had asked to cache. */
  readonly unmarkedTokens: number;
  /** Whether the profile's time to live was over. */
  readonly late: boolean;
}

/** Says of every uncached token of a request why it was not served. */
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
 * What a prompt costs, in the price of one uncached input token: what the cache serves at the profile's reading
 * price, the rest at its writing price; where the provider tells what it wrote, only that, for how long as it tells, and
 * what was neither served nor written at 1.
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

/**
 * What a call costs: its prompt in token units, and in US dollars prompt and reply, if the model's price is known. Where
 * the provider doesn't tell what it wrote to its cache, all that wasn't served is taken for written.
 *
 * @example
 * ```ts
 * import { assertAlmostEquals, assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { callCost } from "@tare/planner/internal/parts";
 *
 * const usage = { promptTokens: 1_000_000, cachedTokens: 800_000, outputTokens: 10_000 };
 * const { tokenUnits, usd } = callCost(usage, {
 *   profile: profileNamed("openai"),
 *   price: { input: 2.5, output: 15, cacheRead: 0.25 },
 * });
 * assertEquals(tokenUnits, 280_000);
 * assertAlmostEquals(usd!, 0.5 + 0.2 + 0.15);
 * ```
 */
export function callCost(usage: Usage, rates: Rates): Cost {
  const { profile, price } = rates;
  const tokenUnits = promptCost(profile, usage);
  return price ? { tokenUnits, usd: usdOf(usage, price) } : { tokenUnits };
}

/** What a call costs, by what is paid for. */
export type CostParts = Readonly<Record<"cached" | "uncached" | "output", Cost>>;

/**
 * What {@linkcode callCost} gives, cut into what the cache served, the rest of the prompt, and the reply, whose token units
 * are zero.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { callCostParts } from "@tare/planner/internal/parts";
 *
 * const usage = { promptTokens: 1_000_000, cachedTokens: 800_000, outputTokens: 10_000 };
 * const { cached, uncached, output } = callCostParts(usage, {
 *   profile: profileNamed("openai"),
 *   price: { input: 2.5, output: 15, cacheRead: 0.25 },
 * });
 * assertEquals([cached.tokenUnits, uncached.tokenUnits, output.tokenUnits], [80_000, 200_000, 0]);
 * assertEquals([cached.usd, output.usd], [0.2, 0.15]);
 * ```
 */
export function callCostParts(
  usage: Usage,
  rates: Rates,
): CostParts {
  const whole = callCost(usage, rates);
  const { profile, price } = rates;
  const { promptTokens, cachedTokens, outputTokens } = usage;
  const units = cachedTokens * profile.read;
  const uncached = whole.tokenUnits - units;
  if (!price || whole.usd === undefined) {
    return { cached: { tokenUnits: units }, uncached: { tokenUnits: uncached }, output: { tokenUnits: 0 } };
  }
  const times = timesOf(promptTokens, price);
  const cached = cachedTokens * (price.cacheRead ?? price.input) * times.input / 1e6;
  const output = outputTokens * price.output * times.output / 1e6;
  return {
    cached: { tokenUnits: units, usd: cached },
    uncached: { tokenUnits: uncached, usd: whole.usd - cached - output },
    output: { tokenUnits: 0, usd: output },
  };
}

/**
 * Returns the most that a call may cost: as if nothing of its prompt came from a cache, and all of it were written to one
 * for an hour.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { profileNamed } from "@tare/planner";
 * import { mostOfCall } from "@tare/planner/internal";
 *
 * const call = { promptTokens: 1_000_000, outputTokens: 100_000 };
 * const rates = { profile: profileNamed("openai"), price: { input: 2, output: 10, cacheRead: 0.2 } };
 * assertEquals(mostOfCall(call, rates).usd, 3);
 * ```
 */
export function mostOfCall(
  usage: Pick<Usage, "promptTokens" | "outputTokens">,
  rates: Rates,
): Cost {
  const { promptTokens, outputTokens } = usage;
  const written = { cacheWriteTokens: promptTokens, hourWriteTokens: promptTokens };
  const plain = callCost({ promptTokens, cachedTokens: 0, outputTokens }, rates);
  const kept = callCost({ promptTokens, cachedTokens: 0, outputTokens, ...written }, rates);
  const usd = plain.usd === undefined ? undefined : Math.max(plain.usd, kept.usd ?? 0);
  return {
    tokenUnits: Math.max(plain.tokenUnits, kept.tokenUnits),
    ...(usd !== undefined && { usd }),
  };
}

/** What a model's calls cost. */
export interface Rates {
  readonly profile: Pick<Profile, "write" | "read" | "writes">;
  /** Default: not known. */
  readonly price?: Price | undefined;
}

function usdOf(usage: Usage, price: Price): number {
  const { promptTokens, cachedTokens, outputTokens, hourWriteTokens = 0 } = usage;
  const { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite } = price;
  const uncached = promptTokens - cachedTokens;
  const { cacheWriteTokens: written = uncached } = usage;
  const prompt = cachedTokens * cacheRead + (uncached - written) * input +
    (written - hourWriteTokens) * cacheWrite + hourWriteTokens * cacheWriteHour;
  const times = timesOf(promptTokens, price);
  return (prompt * times.input + outputTokens * output * times.output) / 1e6;
}

export type PromptUsage = Pick<
  Usage,
  "promptTokens" | "cachedTokens" | "cacheWriteTokens" | "hourWriteTokens"
>;

/** Tokens of a summary as a reply. In prompts none are reckoned with: nobody knows how many it would have had. */
export const SUMMARY_TOKENS = 2_000;

/** Where what is left of the window would not hold a reply. */
function usuallyFullFrom(windowTokens: number): number {
  return Math.min(0.94 * windowTokens, Math.max(windowTokens - 12_000, windowTokens / 2));
}

/** The first of the newest messages that have at most so many characters together. */
function tailFrom(messages: readonly Message[], chars: number): number {
  let left = chars;
  return messages.findLastIndex((message) => (left -= JSON.stringify(message).length) < 0) + 1;
}

/** Tokens of messages of which each result is cut to so many characters. */
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

/** A call as its client would have made it alone. Tokens are counted here. */
export interface AloneRequest {
  readonly model?: string | undefined;
  /** Those of its client, in full. */
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  readonly replyTokens?: number | undefined;
  /** What was said, with all tools: without what only Tare adds, such as recalls. */
  readonly ownTokens: number;
  /** The same with that. */
  readonly wholeTokens: number;
  /** Its first prompt, which a compaction leaves: tools, and what was said before the model's first word. */
  readonly frontTokens: number;
  /** Tokens of definitions that are deferred, and how many those take that aren't. Absent: none are deferred. */
  readonly deferred?: { readonly tokens: number; readonly at: number };
  /** Whether its reply was asked for only because Tare had left something out: results, or definitions of tools. */
  readonly isDetour: boolean;
  /** Whether it was definitions of tools. */
  readonly isLookup: boolean;
}

/** What the cache holds of a call as its client would have made it is known by this. */
interface SentAlone {
  readonly sent: readonly SentRequest[];
  readonly countTokens: CountTokens;
  readonly nowMs: number;
  /** Probability that what was sent then is still cached. */
  readonly aliveOf: (sent: SentRequest) => number;
}

/** What the cache holds of a call as its client would have made it. */
export function predictAlone(
  { model, tools, ownTokens }: Pick<AloneRequest, "model" | "tools" | "ownTokens">,
  { sent, countTokens, nowMs, aliveOf }: SentAlone,
): Prediction {
  return servesMost(sent, model, (one) => ({
    sharedTokens: sharedAlone(one, { tools, ownTokens, countTokens }),
    alive: aliveOf(one),
    idleMs: nowMs - lastUseMs(one),
    ...(one.forAnHour && { forAnHour: true }),
  }));
}

export interface AloneOptions extends SentAlone {
  readonly profile: Profile;
  readonly scale: TokenScale;
  readonly windowTokens: number;
  readonly habit: CompactionHabit;
  /** How much of what was expected of the cache it served, or is expected to. */
  readonly alive: number;
  /** How many tokens the request that was sent shared with those before, and to how many the cache held it, counted here. */
  readonly front?: { readonly tokens: number; readonly heldTokens: number } | undefined;
  /** What the request that was sent took, or is expected to, and how many tokens of it were counted here. */
  readonly usage: PromptUsage;
  readonly countedTokens: number;
}

/** What a call would have taken without Tare. */
export interface AloneCall {
  /** Its prompt; nothing if it would not have been made. */
  readonly usage: PromptUsage;
  /** The prompt by which its client would have compacted the conversation before; absent if it would not have. */
  readonly compaction?: PromptUsage;
  /** What its prompt would have been had its client compacted nothing, whether or not that fits the window. */
  readonly whole: PromptUsage;
  /**
   * What resending all that was said would have taken, recalls and calls behind them included. By this rewriting is held
   * to its limit: a recall counted as a loss would stop it where what was recalled has to leave for the loss to end.
   */
  readonly resend: PromptUsage;
  readonly compacted: OwnCompaction;
  /** Whether its history has begun anew since its client was thought to have compacted it. Absent: no. */
  readonly refutes?: boolean;
}

/** What a compaction costs more until now than had it not been made, if this call costs so much more. */
function extraOf(
  before: OwnCompaction,
  { compaction, compacted }: AloneCall,
  more: number,
): number | undefined {
  if (compacted.tokens === 0) return undefined;
  if (compaction) return before.tokens === 0 ? more : undefined;
  return before.extraTokenUnits === undefined ? undefined : before.extraTokenUnits + more;
}

const NOTHING: PromptUsage = { promptTokens: 0, cachedTokens: 0 };

/**
 * What is served at least of a call as its client would have made it, by what was served. If tools are deferred that shows in
 * front of the session's first call alone, which other sessions' calls may begin like: theirs would have held those tools too.
 */
function servedOfLess(
  { deferred }: Pick<AloneRequest, "deferred">,
  { usage: { cachedTokens }, scale, sharedTokens }: Pick<AloneOptions, "usage" | "scale"> & {
    readonly sharedTokens: number;
  },
): number {
  if (!deferred || cachedTokens === 0) return cachedTokens;
  if (sharedTokens > 0) return 0;
  const holdsTools = cachedTokens > scale.perToken * deferred.at;
  return cachedTokens + (holdsTools ? scale.perToken * Math.max(0, deferred.tokens) : 0);
}

/**
 * What a call would have taken had nothing left its prompt: the same call with the same provider, whose cache holds what
 * it held, within the same window. Where the conversation doesn't fit, its client compacts it as clients do.
 */
export function callAlone(
  before: OwnCompaction,
  request: AloneRequest,
  {
    profile,
    scale,
    windowTokens,
    habit,
    countTokens,
    nowMs,
    sent,
    alive,
    front,
    usage,
    countedTokens,
    aliveOf,
  }: AloneOptions,
): AloneCall {
  const { messages, replyTokens, ownTokens, wholeTokens, frontTokens, isDetour, isLookup } = request;
  if (isLookup) return { usage: NOTHING, whole: NOTHING, resend: NOTHING, compacted: before };
  const theirs = (tokens: number) => usage.promptTokens + scale.perToken * (tokens - countedTokens);
  const { sharedTokens, alive: lastAlive } = predictAlone(request, {
    ...{ sent, countTokens, nowMs, aliveOf },
  });
  // What both share the cache holds of both alike.
  const last = front && sharedTokens <= front.tokens
    ? Math.min(sharedTokens, front.heldTokens)
    : sharedTokens;
  // What is served of less would have been served of more: other sessions may have put it there.
  const served = servedOfLess(request, { usage, scale, sharedTokens });
  /** A prompt of so many tokens that shares so many with one that was sent. */
  const take = (tokens: number, sharedTokens: number, servedTokens = served): PromptUsage => {
    const promptTokens = Math.max(0, theirs(tokens));
    const warm = lastAlive * servedOf(profile, scale, { promptTokens, sharedTokens });
    return writtenLike(usage, promptTokens, Math.max(warm, Math.min(servedTokens, promptTokens)));
  };
  const held = sent.find((one) => findChange(one, request) === "none");
  const promptTokens = theirs(wholeTokens);
  const resent = held ? servedOf(profile, scale, { promptTokens, sharedTokens: held.wholeTokens }) : 0;
  // What the cache held less of, such as of a prompt without marks, it would have held less of as well.
  const holds = front && front.tokens > 0 ? Math.min(1, front.heldTokens / front.tokens) : 1;
  const resend = { promptTokens, cachedTokens: alive * holds * resent };
  if (isDetour) return { usage: NOTHING, whole: NOTHING, resend, compacted: before };
  const whole = take(ownTokens, last);
  const refutes = before.messages > messages.length;
  const compacted = refutes ? NOT_COMPACTED : before;
  const tokens = ownTokens - compacted.tokens;
  const asked = compacted.tokens > 0 ? take(tokens, Math.max(0, last - compacted.tokens), 0) : whole;
  const fullFrom = habit.fullFrom?.(windowTokens, replyTokens) ?? usuallyFullFrom(windowTokens);
  const stays = { usage: asked, whole, resend, compacted, refutes };
  if (asked.promptTokens <= fullFrom) return stays;
  const tokensOf = (some: readonly Message[]) =>
    sumOf(some, (message) => countMessageTokens(message, countTokens));
  const answers = habit.isLate
    ? messages.slice(messages.findLastIndex(({ role }) => role === "assistant") + 1)
    : [];
  if (asked.promptTokens - scale.perToken * tokensOf(answers) <= fullFrom) return stays;
  const from = tailFrom(messages, habit.keptChars?.(fullFrom) ?? 0);
  const left = frontTokens + tokensOf(messages.slice(from)) + (habit.keptTokens ?? 0) / scale.perToken;
  if (left >= tokens) return stays;
  const { resultChars } = habit;
  const compaction = resultChars === undefined ? asked : writtenLike(
    usage,
    scale.perToken * transcriptTokens(messages.slice(compacted.gone, from), { resultChars, countTokens }),
    0,
  );
  return {
    usage: take(left, habit.keepsFront ? frontTokens : 0, 0),
    compaction,
    whole,
    resend,
    refutes,
    compacted: { tokens: compacted.tokens + tokens - left, messages: messages.length, gone: from },
  };
}

/** A prompt whose part that isn't served is written to the cache as that of another. */
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

/** How many times the usual price a prompt of this length and its reply cost. */
function timesOf(promptTokens: number, { long }: Price): Readonly<Record<"input" | "output", number>> {
  return long && promptTokens > long.aboveTokens ? long : { input: 1, output: 1 };
}

import {
  countRequestTokens,
  type Message,
  type Rewrite,
  type StableMessages,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { countMessageTokens, hashPiece } from "@tare/messages/internal";
import {
  cacheStateOf,
  predict,
  type Prediction,
  servedOf,
  servedTokens,
  toProvider,
} from "../cache/prefix.ts";
import {
  type ByKind,
  expectedTokens,
  longestSize,
  messageKinds,
  observeSize,
  plus,
  type PromptSize,
  scaled,
  sizePrompt,
  type SizeRecord,
  structureTokens,
  type TokenScale,
  tokenScale,
  toolKinds,
} from "../cache/prompt_size.ts";
import { type Idle, type KeepAliveRequest, nextKeepAlive } from "../clock/clock.ts";
import { RECALL_TOOL } from "@tare/prune";
import { currentProfile, currentWindow, type Profile, profileNamed, withoutCache } from "../providers.ts";
import { ingested } from "../ingestion/ingested.ts";
import {
  compactedTools,
  firstIngestEdits,
  type History,
  lastIngestEdits,
  Layout,
  type PlacedView,
} from "../edits/view.ts";
import {
  findWishes,
  NO_WISHES,
  NOTHING_PINNED,
  type Pin,
  pinnedPlaces,
  rideOf,
  type Wishes,
} from "../edits/pin.ts";
import type { Edit } from "../edits/edit.ts";
import {
  baselineCallOf,
  type BaselineRequest,
  bookCall,
  type BookCallOptions,
  compactsAgain,
  estimateDeferred,
  forkAccount,
  NEW_SESSION,
  type PlannerState,
  predictBaseline,
  promptCost,
  type RecordedPlan,
  recordKeepAlive,
  resendCostOf,
  UNREAD_CALLS,
} from "../ledger/ledger.ts";
import type { CompactionHabit } from "../agents.ts";
import type { KeepAliveEntry, LedgerEntry, PromptShares, SentKeepAlive } from "../ledger/entry.ts";
import {
  type FlatSessionOptions,
  type PromptCall,
  PromptTooLong,
  type Retention,
  type SessionView,
} from "../prompt_session.ts";
import { findRemovals, Standings, type Step } from "../retention/retention.ts";
import {
  assumedHitProbability,
  type Decided,
  fullFromTokens,
  type FullWindow,
  isSurelyCold,
  type Situation,
  WINDOW_SHARE,
} from "./decide.ts";

const LONG_SHARE = 0.5;

/** Assumed compaction of an unknown client: the cheapest known one. */
const USUAL_COMPACTION: CompactionHabit = { keepsFront: true };

export interface InspectionRequest
  extends History, Pick<PromptCall, "nowMs" | "model" | "replyTokens" | "deferred" | "pins" | "evictNow"> {
  readonly edits: readonly Edit[];
  readonly emptiedTokens?: number | undefined;
}

export interface InspectionResult {
  readonly layout: Layout;
  readonly activeStart: number;
  readonly steps: readonly Step[];
  readonly visibleTools: readonly ToolDefinition[];
  readonly toolTokens: number;
  readonly promptTokens: number;
  readonly predicted: Prediction;
  /** Conversion of local tokens to the provider's. */
  readonly scale: TokenScale;
  readonly size: PromptSize;
  readonly kinds: ByKind;
  readonly situation: Situation & Required<Pick<Situation, "windowUse" | "fullFrom">>;
  readonly baseline: BaselineRequest;
  readonly wishes: Wishes;
  readonly isFree: boolean;
}

export interface RewriteRequest extends InspectionRequest, Pick<PromptCall, "signal" | "progress"> {
  readonly truncated: readonly number[];
  readonly recall: boolean;
  readonly fullWindow: FullWindow;
}

export interface Plan extends RecordedPlan, Done {
  readonly view: PlacedView;
  readonly size: PromptSize;
  readonly saved: SessionView["saved"];
  readonly stable: StableMessages;
}

export interface Done extends Pick<RecordedPlan, "refetches" | "decision"> {
  readonly edits: readonly Edit[];
  readonly allEdits: readonly Edit[];
  readonly requested: readonly Pin[];
  readonly ended: readonly Pin[];
  /** Report for users. Absent: no change. */
  readonly rewrite?: Rewrite;
  readonly tokensBefore: number;
  readonly warnings: readonly string[];
  readonly summary?: Usage;
  readonly fullWindow: FullWindow;
}

export type BookedUsage = Pick<BookCallOptions, "usage" | "summary" | "heldTokens">;

export interface Inspection {
  readonly history: readonly number[];
  readonly visible: readonly number[];
  readonly tokens: readonly number[];
}

export interface KnownSessionOptions extends FlatSessionOptions {
  readonly retention: Retention;
  readonly lossLimit: number;
}

/**
 * State of a session: data derived from its history, which a restart derives again, and the evidence of its
 * calls. A new message takes time only for its own length.
 */
export class KnownSession {
  readonly #options: KnownSessionOptions;
  readonly #layout: Layout;
  #standings: Standings;
  #taken: Message[] = [];
  readonly #unchangedTokens: number[] = [];
  #isNew: boolean;
  #before: Inspection | undefined;
  #judgedBy = "";
  #account: PlannerState;
  /** Tokens of a conversation that the client has compacted since the last call; 0 for none. */
  #summarizedTokens = 0;
  /** Number of rewrites when each call was planned; calls may be sent out of order. */
  readonly #plannedAt = new WeakMap<RecordedPlan, number>();

  constructor(
    options: KnownSessionOptions,
    { account, from, before }: {
      readonly account: PlannerState;
      readonly from?: KnownSession | undefined;
      readonly before?: Inspection | undefined;
    },
  ) {
    this.#options = options;
    this.#account = account;
    const { reread, seen } = account;
    const { tools, dryRun = false } = options;
    const layout = { other: from && from.#layout, tools, reread, seen, dryRun };
    this.#layout = new Layout(options.countTokens, layout);
    this.#standings = new Standings(options);
    this.#isNew = from ? from.#isNew : true;
    this.#before = from ? from.#before : before;
  }

  resume(account: PlannerState): void {
    this.#account = account;
    this.#isNew = true;
    this.#before = undefined;
    this.#judgedBy = "";
  }

  get account(): PlannerState {
    return this.#account;
  }

  get profile(): Profile {
    return this.isUnread ? withoutCache(this.#cachingProfile) : this.#cachingProfile;
  }

  get isUnread(): boolean {
    return this.account.unreadCalls >= UNREAD_CALLS;
  }

  get #cachingProfile(): Profile {
    const known = currentProfile(this.#options.profile);
    const { recognized } = this.account;
    return recognized !== undefined && (known.name === "none" || known.writes)
      ? profileNamed(recognized)
      : known;
  }

  windowOf(model: string | undefined): number {
    return Math.min(
      currentWindow(this.#options.windowTokens),
      this.#account.windows[model ?? ""]?.tokens ?? Infinity,
    );
  }

  isSureOfWindow(model: string | undefined): boolean {
    const { assumesWindow = false, windowTokens } = this.#options;
    const isAssumed = typeof assumesWindow === "function" ? assumesWindow() : assumesWindow;
    const { tokens, isReported } = this.#account.windows[model ?? ""] ??
      { tokens: Infinity, isReported: false };
    return tokens < currentWindow(windowTokens) ? isReported : !isAssumed || isReported;
  }

  /**
   * Returns the error for a plan that exceeds the window; `undefined` if it may fit. Without a reported
   * prompt only those that are too long for any tokenizer are refused.
   */
  tooLong({ size, view, request: { model } }: Plan): PromptTooLong | undefined {
    const { countTokens } = this.#options;
    const windowTokens = this.windowOf(model);
    const isCounted = this.#recordOf(model) !== undefined || this.#account.doubted === true;
    // A prompt with an unseen script may be sent; the provider refuses it if necessary.
    const likely = isCounted ? Math.sqrt(size.tokens * size.atMost) : size.atLeast;
    if (likely <= windowTokens) return undefined;
    const counted = view.messages.map((message) => countMessageTokens(message, countTokens));
    const toolTokens = countRequestTokens({ messages: [], tools: view.tools }, countTokens);
    const most = Math.max(toolTokens, ...counted);
    const row = toolTokens === most ? -1 : counted.indexOf(most);
    const place = view.places[row] ?? -1;
    const times = size.tokens / (toolTokens + counted.reduce((sum, tokens) => sum + tokens, 0));
    const role = view.messages[row]?.role;
    return new PromptTooLong({
      promptTokens: Math.round(size.tokens),
      windowTokens,
      longest: { place, tokens: Math.round(times * most) },
    }, row < 0 ? "The tools' definitions" : `Message ${place} (${role}), the longest,`);
  }

  get inspected(): Inspection | undefined {
    if (this.#isNew) return this.#before;
    const layout = this.#layout;
    const { messages } = layout.placed;
    return {
      history: layout.history.map(hashPiece),
      visible: messages.map(hashPiece),
      tokens: messages.map((message) => countMessageTokens(message, this.#options.countTokens)),
    };
  }

  isStartOf(history: readonly Message[]): boolean {
    if (this.#isNew) return this.#before !== undefined && this.#sharedLength(history) === Infinity;
    return this.#layout.isStartOf(history);
  }

  /**
   * Adds the new messages of a history, one per step: most of the work of an inspection.
   * @param edits Edits so far; a reference counts as a use of its source.
   */
  *take(history: readonly Message[], edits: readonly Edit[]): Generator<void, void> {
    if (this.#taken.some((message, at) => message !== history[at])) {
      this.#standings = new Standings(this.#options);
      this.#taken = [];
    }
    const taken = this.#taken;
    const arrived = taken.length < history.length ? firstIngestEdits(edits) : undefined;
    while (taken === this.#taken && taken.length < history.length) {
      const message = history[taken.length]!;
      const at = taken.push(message) - 1;
      const edit = arrived?.get(at);
      this.#standings.add(message, edit && ingested(message, edit));
      for (const { source } of edit?.references ?? []) this.#standings.renew(source);
      countMessageTokens(message, this.#options.countTokens);
      if (!edit) messageKinds(message, this.#options.countTokens);
      yield;
    }
  }

  /**
   * Returns the prompt after these edits and its evictable parts.
   * @param all Whether to find everything evictable, not only seen messages that cost more than they are
   * worth.
   */
  inspection(
    request: InspectionRequest,
    { all = request.evictNow }: { readonly all?: boolean | undefined } = {},
  ): InspectionResult {
    const { messages: history, tools, edits, pins = [] } = request;
    this.#update(history, edits);
    const { countTokens, lossLimit, dryRun = false } = this.#options;
    const { profile } = this;
    const windowTokens = this.windowOf(request.model);
    const account = this.#account;
    const layout = this.#layout;
    const standings = this.#standings;
    const scale = tokenScale(account.counted);
    const visibleTools = compactedTools(tools, edits);
    const toolTokens = countRequestTokens({ messages: [], tools: visibleTools }, countTokens);
    const promptTokens = toolTokens + layout.tokens;

    const predicted = this.#predict(visibleTools, request);
    const { cacheHitProbability } = predicted;
    const theirs = scaled(scale, promptTokens);
    const cachedTokens = servedOf(profile, scale, { promptTokens: theirs, ...predicted });
    const kinds = plus(layout.kinds, toolKinds(visibleTools, countTokens));
    const size = dryRun
      ? { tokens: theirs, atLeast: theirs, atMost: theirs }
      : this.#sizeOf(kinds, request.model);
    const windowUse = Math.max(size.tokens, WINDOW_SHARE * size.atMost);
    const fullFrom = fullFromTokens(windowTokens, request.emptiedTokens);
    const full = windowUse > fullFrom;

    const pinnedAs = pins.map(({ place, wish }) => `${place} ${wish}`).join();
    this.#judgeBy(
      `${profile.name} ${profile.read} ${scale.perToken} ${
        Math.round(scale.unseen / 1_000)
      } ${windowTokens} ${pinnedAs}`,
      edits,
    );
    const seenMessages = account.seen || Infinity;
    const referred = referredTokens(edits, layout);
    const removals = findRemovals({ layout, standings, tools, visibleTools, toolTokens }, {
      ...this.#options,
      profile,
      windowTokens,
      pinned: pins.length > 0 ? pinnedPlaces(pins, history) : NOTHING_PINNED,
      scale,
      referredTokens: (at) => referred.get(at) ?? 0,
      all: all || full,
      weighsLoss: all || full || dryRun,
      // A full window evicts recallable results rather than messages.
      seenMessages: full ? Infinity : seenMessages,
      seenTools: new Set(account.sent.flatMap(({ tools }) => tools)),
    });
    const wishes = pins.length > 0
      ? findWishes(pins, { history, layout, seenMessages, countTokens })
      : NO_WISHES;
    const ride = pins.length > 0
      ? rideOf(wishes, removals.filter(({ evicts }) => evicts), {
        startOf: (tokens) => scaled(scale, toolTokens + tokens),
        perToken: scale.perToken,
      })
      : undefined;

    const reckoned = assumedHitProbability(cacheHitProbability);
    const cost = promptCost(profile, { promptTokens: theirs, cachedTokens: reckoned * cachedTokens });
    const baseline = this.#baseline(request);
    const { resend } = baselineCallOf(account.compacted, baseline, {
      profile,
      scale,
      windowTokens,
      habit: USUAL_COMPACTION,
      countTokens,
      nowMs: request.nowMs,
      sent: account.sent,
      usage: { promptTokens: theirs, cachedTokens: reckoned * cachedTokens },
      countedTokens: promptTokens,
      cacheHitProbability: reckoned,
      hitProbabilityOf: (sent) =>
        assumedHitProbability(
          cacheStateOf(sent, { profile, cacheLifetime: account.cacheLifetime, nowMs: request.nowMs })
            .cacheHitProbability,
        ),
    });
    return {
      layout,
      activeStart: standings.activeStart,
      steps: standings.steps,
      visibleTools,
      toolTokens,
      promptTokens,
      predicted,
      scale,
      size,
      kinds,
      situation: {
        profile,
        promptTokens: theirs,
        cachedTokens,
        cacheHitProbability,
        historyTokens: toProvider(baseline.wholeTokens, { deferred: baseline.deferred, scale }),
        calls: standings.call,
        windowTokens,
        windowUse,
        fullFrom,
        removals,
        carried: account.carried,
        idleSince: account.idleSince,
        ride,
        allowedRewriteCost: allowedCost(lossLimit, {
          resend: account.resend + resendCostOf(account, promptCost(profile, resend), cost),
          paid: account.paid + cost,
          refetched: account.refetched ?? 0,
        }),
        stopped: account.stopped || this.#options.evict === "lossless",
        // A fork's start is cached for its parent, so rewriting waits until it was read. For a history seen
        // first, it is unknown which parts its model uses and which are cached.
        isHeld: account.forked && !isSurelyCold(cacheHitProbability) ||
          account.sent.length === 0 &&
            (profile.read < profile.write ||
              scale.perToken * baseline.wholeTokens > LONG_SHARE * windowTokens),
        isRequested: request.evictNow,
      },
      baseline,
      wishes,
      isFree: ride !== undefined && (isSurelyCold(cacheHitProbability) || cachedTokens <= ride.start),
    };
  }

  inspectAside(request: InspectionRequest): InspectionResult {
    const account = this.#account;
    const known = this.isStartOf(request.messages) ? this : new KnownSession(this.#options, { account });
    return known.inspection(request, { all: true });
  }

  copy(): KnownSession {
    const compaction = { fullFrom: () => Infinity, keepsFront: true };
    return new KnownSession({ ...this.#options, compaction }, { account: this.#account, from: this });
  }

  /** Notes the tokens of a conversation that the client compacts, as of its baseline. */
  noteSummarized(ownTokens: number): void {
    this.#summarizedTokens = ownTokens;
  }

  refuteCompaction(): void {
    this.#account = { ...this.#account, compacted: NEW_SESSION.compacted };
  }

  baselineServed(call: Pick<BaselineRequest, "model" | "tools" | "ownTokens">, nowMs: number): number {
    const { profile } = this;
    const { sent, cacheLifetime } = this.#account;
    const { sharedTokens } = predictBaseline(call, {
      ...{ sent, nowMs, countTokens: this.#options.countTokens, scale: tokenScale(this.#account.counted) },
      hitProbabilityOf: (one) => cacheStateOf(one, { profile, cacheLifetime, nowMs }).cacheHitProbability,
    });
    return servedTokens(profile, { promptTokens: call.ownTokens, sharedTokens });
  }

  notePlan(plan: Plan): void {
    this.#plannedAt.set(plan, this.#unchangedTokens.length);
    if (plan.edits.length > 0) this.#account = { ...this.#account, rewritten: "here" };
  }

  fork(length: number, edits: readonly Edit[]): KnownSession {
    const fork = new KnownSession(this.#options, { account: forkAccount(this.#account, length), from: this });
    if (!this.#isNew) fork.#update(this.#layout.history.slice(0, length), edits);
    return fork;
  }

  /** Records a successful planned call, as `PromptSession.sent()`. */
  book(
    plan: RecordedPlan,
    { usage, summary, heldTokens }: BookedUsage,
  ): LedgerEntry {
    const { countTokens, lossLimit, compaction = USUAL_COMPACTION, dryRun = false } = this.#options;
    const toolTokens = countRequestTokens({ messages: [], tools: plan.view.tools }, countTokens);
    // Later rewrites may have left fewer tokens unchanged.
    const retained = this.#unchangedTokens.slice(this.#plannedAt.get(plan) ?? 0);
    const { state, entry } = bookCall(this.#account, {
      plan,
      usage,
      summary,
      heldTokens,
      messageTokens: Math.min(plan.promptTokens - toolTokens, ...retained),
      profile: usage && !usage.estimated && usage.cachedTokens > 0 ? this.#cachingProfile : this.profile,
      cachingProfile: this.#cachingProfile,
      countTokens,
      lossLimit,
      windowTokens: this.windowOf(plan.request.model),
      habit: compaction,
      dryRun: dryRun,
    });
    this.#account = state;
    this.#summarizedTokens = 0;
    const { promptTokens, estimated = false } = { ...usage, ...usage?.firstRead };
    if (promptTokens !== undefined && !estimated && !dryRun) {
      this.#learnSize(plan, promptTokens);
      this.#refuteWindow(plan.request.model, promptTokens);
    }
    return entry;
  }

  nextKeepAlive(idle: Idle): KeepAliveRequest | undefined {
    const { clock, stopped, waitingTokens } = this.#account;
    const prunes = !stopped && this.#options.evict !== "lossless";
    return nextKeepAlive(clock, idle, { profile: this.profile, prunedTokens: prunes ? waitingTokens : 0 });
  }

  recordKeepAlive(request: SentKeepAlive): KeepAliveEntry {
    const { dryRun = false } = this.#options;
    const { state, entry } = recordKeepAlive(this.#account, request, {
      profile: this.profile,
      dryRun: dryRun,
    });
    this.#account = state;
    return entry;
  }

  reject(
    plan: Plan,
    { windowTokens, promptTokens }: { [_ in "windowTokens" | "promptTokens"]: number | undefined },
  ): void {
    const { request: { model }, size } = plan;
    const isCounted = this.#recordOf(model) !== undefined || promptTokens !== undefined;
    // If a prompt is refused that should have fitted, less than the window is usable.
    const fits = windowTokens === undefined || isCounted && (promptTokens ?? size.atMost) <= windowTokens;
    const known = windowTokens ?? this.windowOf(model);
    const limit = fits ? Math.min(known, SMALLER_SHARE * (promptTokens ?? size.tokens)) : known;
    this.#account = {
      ...this.#account,
      windows: {
        ...this.#account.windows,
        [model ?? ""]: { tokens: Math.floor(limit), isReported: windowTokens !== undefined },
      },
      ...(!isCounted && !fits && { doubted: true }),
    };
    if (promptTokens !== undefined) this.#learnSize(plan, promptTokens);
  }

  #refuteWindow(model = "", promptTokens: number): void {
    const { [model]: learned, ...windows } = this.#account.windows;
    if (learned && !learned.isReported && promptTokens > learned.tokens) {
      this.#account = { ...this.#account, windows };
    }
  }

  #recordOf(model: string | undefined): SizeRecord | undefined {
    const { sizes } = this.#account;
    return sizes.find((one) => one.model === model) ?? sizes[0];
  }

  #sizeOf(kinds: ByKind, model: string | undefined): PromptSize {
    const { countTokens } = this.#options;
    const record = this.#recordOf(model);
    const size = sizePrompt(record, kinds, countTokens);
    if (record) return size;
    // Without reports the worst case evicts nothing; the provider would refuse the prompt.
    const { doubted = false } = this.#account;
    return { ...size, atMost: doubted ? longestSize(kinds, countTokens) : size.tokens };
  }

  #learnSize({ kinds, request: { model } }: RecordedPlan, tokens: number): void {
    const { sizes } = this.#account;
    const record = sizes.find((one) => one.model === model);
    const now = observeSize({ model, tokens, kinds }, { record, countTokens: this.#options.countTokens });
    this.#account = {
      ...this.#account,
      sizes: [now, ...sizes.filter((one) => one !== record)].slice(0, REMEMBERED_SIZES),
    };
  }

  #predict(
    tools: readonly ToolDefinition[],
    { nowMs, model }: Pick<InspectionRequest, "nowMs" | "model">,
  ): Prediction {
    const { profile } = this;
    const { sent, cacheLifetime } = this.#account;
    const { countTokens } = this.#options;
    return predict(sent, { profile, cacheLifetime, nowMs, model, tools, countTokens });
  }

  #baseline({ model, tools, messages, replyTokens, deferred }: InspectionRequest): BaselineRequest {
    const { countTokens } = this.#options;
    const layout = this.#layout;
    const countTools = (tools: readonly ToolDefinition[]) =>
      countRequestTokens({ messages: [], tools }, countTokens);
    const sent = tools.filter((tool) => tool.function.name !== RECALL_TOOL.function.name);
    const own = deferred?.tools ?? sent;
    const sentTokens = countTools(sent);
    const toolTokens = countTools(own);
    return {
      model,
      tools: own,
      messages,
      replyTokens,
      ownTokens: sentTokens + layout.ownTokens + (deferred?.tokens ?? 0),
      wholeTokens: countTools(tools) + layout.fullTokens + (deferred?.tokens ?? 0),
      toolTokens,
      frontTokens: toolTokens + layout.openingTokens,
      instructionTokens: toolTokens + layout.totals.core,
      ...(deferred && { deferred: this.#deferred(sent, own, model) }),
      isDetour: layout.endsWithRefetches || (deferred?.isDetour ?? false),
      isLookup: deferred?.isDetour ?? false,
    };
  }

  #deferred(
    sent: readonly ToolDefinition[],
    own: readonly ToolDefinition[],
    model: string | undefined,
  ): ReturnType<typeof estimateDeferred> {
    const { countTokens } = this.#options;
    const record = this.#recordOf(model);
    const measure = (tools: readonly ToolDefinition[]) => ({
      tokens: countRequestTokens({ messages: [], tools }, countTokens),
      jsonTokens: expectedTokens(record, toolKinds(tools, countTokens), countTokens),
      structureTokens: structureTokens(tools, countTokens),
    });
    return estimateDeferred({ sent: measure(sent), own: measure(own) }, this.#account.counted);
  }

  #update(history: readonly Message[], edits: readonly Edit[]): void {
    const shared = this.#sharedLength(history);
    for (const _ of this.take(history, edits)) { /* Runs all steps. */ }
    let unchangedTokens = this.#layout.update(history, edits);
    const { forked = false, seen } = this.#account;
    // A stored fork's shared start is known by its number of messages only.
    const isCounted = this.#isNew && forked && !this.#before;
    if (this.#isNew) {
      unchangedTokens = isCounted ? this.#layout.startAt(seen) : this.#retainedOf(this.#before);
    }
    this.#isNew = false;
    this.#before = undefined;
    const { reread } = this.#layout;
    if (reread.length > 0 && reread !== this.#account.reread) {
      this.#account = { ...this.#account, reread };
    }
    if (unchangedTokens === Infinity) return;
    this.#unchangedTokens.push(unchangedTokens);
    // Requests to other models may share less than the newest did, but not more.
    const retained = isCounted ? seen : shared;
    const most = (tokens: number) => retained === Infinity ? Infinity : tokens;
    const account = this.#account;
    const restarts = shared !== Infinity &&
      !history.slice(0, shared).some(({ role }) => role === "assistant");
    this.#account = {
      ...account,
      seen: Math.min(account.seen, shared),
      ...(restarts && compactsAgain(account) && {
        compacted: { ...account.compacted, repeatedTokens: this.#summarizedTokens },
      }),
      sent: account.sent.map((one) => {
        const toolTokens = one.promptTokens - one.messageTokens;
        const { ownToolTokens = toolTokens } = one;
        const messageTokens = Math.min(one.messageTokens, unchangedTokens);
        return {
          ...one,
          messageTokens,
          // Content after the fork is the parent's; no rewrite moved it.
          ...(forked && { promptTokens: toolTokens + messageTokens }),
          ownTokens: Math.min(one.ownTokens, most(ownToolTokens + this.#layout.ownTokensOf(retained))),
          wholeTokens: Math.min(
            one.wholeTokens,
            most(Math.max(toolTokens, ownToolTokens) + this.#layout.fullTokensOf(retained)),
          ),
        };
      }),
    };
  }

  #sharedLength(history: readonly Message[]): number {
    if (!this.#isNew) return this.#layout.isStartOf(history) ? Infinity : this.#layout.sharedLength(history);
    const { history: before = [] } = this.#before ?? {};
    const shared = commonLength(before, history);
    return shared === before.length ? Infinity : shared;
  }

  #retainedOf(before: Inspection | undefined): number {
    if (!before) return Infinity;
    const rows = commonLength(before.visible, this.#layout.placed.messages);
    return rows === before.visible.length
      ? Infinity
      : before.tokens.slice(0, rows).reduce((a, b) => a + b, 0);
  }

  #judgeBy(basis: string, edits: readonly Edit[]): void {
    const judgedBy = `${basis} ${this.#layout.version}`;
    if (judgedBy !== this.#judgedBy) this.#standings.wakeAll();
    const { changed } = this.#layout;
    const arrived = changed.length > 0 ? firstIngestEdits(edits) : undefined;
    for (const at of changed) {
      this.#standings.wake(at);
      for (const { source } of arrived?.get(at)?.references ?? []) this.#standings.wake(source);
    }
    this.#judgedBy = judgedBy;
  }
}

/** Weight of a refetch's cost: it follows a failed edit and precedes a second one. */
const REFETCH_WEIGHT = 3;

/**
 * Returns the most extra cost of a rewrite by both loss limits: by what was paid, and, at twice the share,
 * with weighted refetches, which a client that resends everything wouldn't make.
 */
export function allowedCost(
  lossLimit: number,
  { resend, paid, refetched }: Readonly<Record<"resend" | "paid" | "refetched", number>>,
): number {
  if (lossLimit === Infinity) return Infinity;
  const weighted = paid + (REFETCH_WEIGHT - 1) * refetched;
  return Math.min((1 + lossLimit) * resend - paid, (1 + 2 * lossLimit) * (resend - refetched) - weighted);
}

const REMEMBERED_SIZES = 4;

const SMALLER_SHARE = 0.8;

export function staysAsItIs(
  { evicted, wishes, size, situation: { windowUse, fullFrom, windowTokens } }: InspectionResult & Decided,
  { fullWindow, compacts, relievesWindow }:
    & { readonly fullWindow: FullWindow }
    & Readonly<Record<"compacts" | "relievesWindow", boolean>>,
): boolean {
  const isReported =
    fullWindow.isFullReported === (relievesWindow && size.tokens > WINDOW_SHARE * windowTokens);
  const fits = windowUse <= fullFrom && !(relievesWindow && size.atMost > windowTokens);
  return evicted.length + wishes.gone.length + wishes.back.length === 0 && (compacts || isReported && fits);
}

export function planAsItIs(
  prompt: InspectionResult & Decided,
  request: RewriteRequest,
  options: Pick<FlatSessionOptions, "countTokens">,
): Plan {
  const { decision, promptTokens: tokensBefore } = prompt;
  const { edits: allEdits, fullWindow } = request;
  const nothing = { edits: [], requested: [], ended: [], warnings: [], refetches: 0 };
  return planOf(prompt, { ...nothing, allEdits, tokensBefore, fullWindow, ...(decision && { decision }) }, {
    ...options,
    request,
  });
}

export function planOf(
  {
    baseline,
    predicted,
    promptTokens,
    situation,
    layout,
    activeStart,
    visibleTools,
    toolTokens,
    size,
    kinds,
  }: InspectionResult,
  done: Done,
  { request, countTokens }: Pick<FlatSessionOptions, "countTokens"> & { readonly request: RewriteRequest },
): Plan {
  const { messages, places, elided } = layout.placed;
  const { allEdits } = done;
  const toolsBefore = countRequestTokens({ messages: [], tools: request.tools }, countTokens);
  const elidedNow = new Set(done.edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
  const truncated = request.truncated.filter((at) => !elidedNow.has(at));
  return {
    ...done,
    view: { messages: [...messages], places: [...places], elided, tools: visibleTools },
    promptTokens,
    size,
    kinds,
    request,
    pending: situation.removals.filter(({ idle }) => idle),
    shares: sharePrompt(layout, { activeStart, toolTokens }),
    saved: savedTokens(layout, {
      edits: allEdits,
      truncated,
      all: toolsBefore + layout.fullTokens - promptTokens,
      schemas: toolsBefore - toolTokens,
    }),
    baseline,
    isWhole: allEdits.length === 0 && layout.ownTokens === layout.fullTokens && !request.deferred,
    predicted,
    stable: layout.stableWithin(predicted.sharedTokens - toolTokens, [
      ...truncated,
      ...ingestedPlaces(allEdits),
    ]),
  };
}

function ingestedPlaces(edits: readonly Edit[]): number[] {
  const arrived = firstIngestEdits(edits);
  return [...lastIngestEdits(edits)].flatMap(([index, edit]) => arrived.get(index) === edit ? [index] : []);
}

export function sharePrompt(
  layout: Layout,
  { activeStart, toolTokens }: { readonly activeStart: number; readonly toolTokens: number },
): PromptShares {
  const { core, dialogue, results, placeholders } = layout.totals;
  const oldTurns = layout.dialogueBefore(activeStart);
  return { tools: toolTokens, core, oldTurns, activeTurn: dialogue - oldTurns, results, placeholders };
}

function savedTokens(
  layout: Layout,
  { edits, truncated, all, schemas }: {
    readonly edits: readonly Edit[];
    readonly truncated: readonly number[];
    readonly all: number;
    readonly schemas: number;
  },
): SessionView["saved"] {
  const truncate = truncated.reduce((sum, at) => sum + layout.savedAt(at), 0);
  let [normalization, references] = [0, 0];
  for (const { index, normalizationTokens } of lastIngestEdits(edits).values()) {
    if (!layout.shows(index)) continue;
    normalization += normalizationTokens;
    references += layout.savedAt(index) - normalizationTokens;
  }
  const prune = layout.totals.elided - truncate - normalization - references;
  const context = all - schemas - layout.totals.elided;
  return { context, prune, schemas, truncate, references, normalization };
}

/** Returns the tokens that references to each message save; evicting it would expand them. */
function referredTokens(edits: readonly Edit[], layout: Layout): ReadonlyMap<number, number> {
  const tokens = new Map<number, number>();
  for (const { index, references } of lastIngestEdits(edits).values()) {
    if (!layout.shows(index)) continue;
    for (const { source, tokens: its } of references) tokens.set(source, (tokens.get(source) ?? 0) + its);
  }
  return tokens;
}

function commonLength(hashes: readonly number[], messages: readonly Message[]): number {
  const at = hashes.findIndex((hash, at) => !messages[at] || hashPiece(messages[at]) !== hash);
  return at < 0 ? hashes.length : at;
}

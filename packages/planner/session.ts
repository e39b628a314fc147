import { countRequestTokens, type Usage } from "@tare/messages";
import { addUsage, checkGiven, type NeededOptions, sameData } from "@tare/messages/internal";
import { type Archive, archiveRef, RECALL_TOOL } from "@tare/prune";
import type { Arrived, Ingestion } from "./ingestion/ingestion.ts";
import { servedTokens } from "./cache/prefix.ts";
import { fittingPins } from "./edits/pin.ts";
import { type Edit, fittingEdits, leadingEdits } from "./edits/edit.ts";
import type { Restored } from "./edits/restore.ts";
import type { History } from "./edits/view.ts";
import { NEW_SESSION, type PlannerState } from "./ledger/ledger.ts";
import {
  type AdvancedSessionOptions,
  allAtOnce,
  eachMechanism,
  type FlatSessionOptions,
  type ForkOptions,
  type Mechanisms,
  NO_MECHANISMS,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type Retention,
  type SessionView,
} from "./prompt_session.ts";
import { currentProfile, currentWindow, type Profile } from "./providers.ts";
import { EAGER, KEEP_WANTED } from "./retention/retention.ts";
import { decide, type FullWindow, NEVER_FULL, quotePrompt } from "./rule/decide.ts";
import { type Inspection, KnownSession, type Plan, planAsItIs, staysAsItIs } from "./rule/inspect.ts";

/** A {@linkcode PromptSession} of the planner. */
export interface PlanningSession extends PromptSession {
  /** Returns the cost of a request for this history, unchanged and without everything evictable. */
  readonly quote: NonNullable<PromptSession["quote"]>;
  readonly nextKeepAlive: NonNullable<PromptSession["nextKeepAlive"]>;
  readonly recordKeepAlive: NonNullable<PromptSession["recordKeepAlive"]>;
  fork(length: number, archive: Archive, options?: ForkOptions): PlanningSession;
}

interface SessionState {
  readonly edits: readonly Edit[];
  readonly truncated: readonly number[];
  readonly planner: PlannerState;
  readonly fullWindow: FullWindow;
  readonly summary?: Usage;
  readonly isStopReported: boolean;
  readonly unreadReported: boolean;
  readonly reverted: boolean;
}

const NEW_STATE: SessionState = {
  edits: [],
  truncated: [],
  planner: NEW_SESSION,
  fullWindow: NEVER_FULL,
  isStopReported: false,
  unreadReported: false,
  reverted: false,
};

const NOTHING_RETAINED: Archive = {
  put: archiveRef,
  get: () => Promise.resolve(undefined),
};

const TRUNCATE_TOKENS = 16_000;

const NOTHING_ARRIVED: Arrived = { edits: [], truncated: [], rewrites: [], warnings: [] };

const STOPPED =
  "Rewriting has cost this session more than it saved. Only a full window now changes its prompt.";

const UNREAD = "The provider reports no cache reads although it should. Until it does, prompts are planned " +
  "without a cache.";

/**
 * Returns a prompt session that applies the mechanisms by the rewrite rule, or when the window is nearly
 * full.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { estimateTokens } from "@tare/messages";
 * import { plannerSession, profileNamed } from "@tare/planner";
 * import { memoryArchive } from "@tare/prune";
 *
 * const options = { profile: profileNamed("openai"), archive: memoryArchive(), countTokens: estimateTokens };
 * const session = plannerSession(options);
 * const messages = [{ role: "user", content: "Why do nightly builds fail?" }] as const;
 * const view = await session.view({ messages, tools: [] }, { nowMs: 0 });
 * assertEquals(view.messages, messages);
 * assertEquals(session.sent({ promptTokens: 14, cachedTokens: 0, outputTokens: 5 })?.costUnits, 14);
 * ```
 */
export function plannerSession(options: PromptSessionOptions): PlanningSession {
  checkOptions("plannerSession()", options);
  if (options.state !== undefined) checkState(options.state);
  const { advanced, ...rest } = options;
  return makeSession({ ...advanced, ...rest });
}

function noView(call: string): Error {
  return new Error(`Cannot record a ${call}: this session made no view for it. Call view() first.`);
}

function checkState(state: unknown): void {
  const { planner, truncated = [] } = Object(state) as Partial<SessionState>;
  checkGiven("plannerSession()", { "options.state": state, "options.state.truncated": truncated }, {
    "options.state": { edits: "array", ...(planner && { planner: { seen: "count", sent: "array" } }) },
    "options.state.truncated": "array",
  });
}

function makeSession(given: FlatSessionOptions, from?: KnownSession): PlanningSession {
  const { summarize: _, ...alone } = given;
  let about: { profile?: Profile; windowTokens?: number } = {};
  const options: FlatSessionOptions = {
    ...given.dryRun ? { ...alone, archive: NOTHING_RETAINED } : given,
    profile: () => about.profile ??= currentProfile(given.profile),
    windowTokens: () => about.windowTokens ??= currentWindow(given.windowTokens),
  };
  const stored = options.state as Partial<SessionState> | undefined;
  let state: SessionState = { ...NEW_STATE, ...stored };
  const isLossless = options.evict === "lossless";
  const wanted = { ...eachMechanism(true), ...options.mechanisms };
  const mechanisms = { ...wanted, truncate: wanted.truncate && !isLossless };
  /** Ingestion, loaded with the first result. */
  let ingestion: Ingestion | undefined;
  const know = (account: PlannerState, from?: KnownSession, before?: Inspection) =>
    new KnownSession({
      ...options,
      retention: retentionOf(state.reverted ? NO_MECHANISMS : mechanisms, options),
      lossLimit: options.lossLimit ?? 0.05,
    }, { account, from, before });
  let known = know(state.planner, from, options.inspected as Inspection | undefined);
  const { inSlices = allAtOnce } = options;
  const plans = new WeakMap<SessionView, Plan | undefined>();
  const restorations = new WeakMap<SessionView, Restored>();
  let isRefused = false;
  let newest: SessionView | undefined;

  const isEdited = () => !options.dryRun && !state.reverted && Object.values(mechanisms).includes(true);

  function requestOf(history: History, call: PromptCall) {
    const { pins = [] } = call;
    return {
      ...call,
      pins: pins.length > 0 && isEdited() ? fittingPins(pins, history.messages) : [],
      ...history,
      recall: canRecall(history, call),
      edits: state.edits,
      truncated: state.truncated,
      fullWindow: state.fullWindow,
    };
  }

  async function inspect(history: History, call: PromptCall): Promise<SessionView> {
    const { restore } = await import("./edits/restore.ts");
    const edits = fittingEdits(state.edits, history.messages);
    const restored = restore(known.copy(), { ...requestOf(history, call), edits }, {
      ...options,
      restores: call.restores === true && !isRefused,
    });
    const { view, plan } = restored;
    newest = { ...view, saved: { ...view.saved, ...savedByDeferring(call, view.promptTokens) } };
    plans.set(newest, call.restores ? plan : undefined);
    if (call.restores) restorations.set(newest, restored);
    return newest;
  }

  function unchangedView({ messages, tools }: History, { nowMs, model }: PromptCall): SessionView {
    const own = tools.filter((tool) => tool.function.name !== RECALL_TOOL.function.name);
    const promptTokens = countRequestTokens({ messages, tools: own }, options.countTokens);
    newest = {
      messages,
      tools: own,
      places: messages.map((_, at) => at),
      rewrites: [],
      warnings: [],
      saved: eachMechanism(0),
      promptTokens,
      predictedCachedTokens: known.baselineServed({ model, tools: own, ownTokens: promptTokens }, nowMs),
    };
    plans.set(newest, undefined);
    return newest;
  }

  async function makeView(history: History, call: PromptCall): Promise<SessionView> {
    checkCall({ history, call });
    about = {};
    if (call.oneShot) return options.dryRun ? unchangedView(history, call) : await inspect(history, call);
    if (!known.isStartOf(history.messages)) {
      const edits = fittingEdits(state.edits, history.messages);
      const { refused, ...fullWindow } = state.fullWindow;
      if (refused || edits.length < state.edits.length) state = { ...state, edits, fullWindow };
    }
    if (!ingestion && !state.reverted && history.messages.some(isOfCalls)) {
      const { Ingestion } = await import("./ingestion/ingestion.ts");
      ingestion = new Ingestion({ ...options, ...mechanisms });
    }
    const arrived = !ingestion || state.reverted
      ? NOTHING_ARRIVED
      : await ingestion.arrive(history.messages, state.edits, {
        limitTokens: mechanisms.truncate ? options.truncateTokens ?? TRUNCATE_TOKENS : undefined,
        recall: canRecall(history, call),
        stays: new Set([
          ...state.truncated,
          ...(call.pins ?? []).flatMap(({ wish, place }) => wish === "retain" ? [place] : []),
        ]),
      });
    if (arrived.edits.length > 0) {
      state = {
        ...state,
        edits: [...state.edits, ...arrived.edits],
        truncated: [...state.truncated, ...arrived.truncated],
      };
    }
    ingestion?.settle(state.edits);
    const request = requestOf(history, call);
    const relieves = mechanisms.context && !state.reverted;
    // `revert()` may replace `known` meanwhile; the next call is then analyzed again.
    const current = known;
    await inSlices(current.take(history.messages, state.edits));
    const inspected = current.inspection({ ...request, emptiedTokens: state.fullWindow.emptiedTokens });
    const decided = { ...inspected, ...decide(inspected.situation) };
    const { windowUse, fullFrom } = inspected.situation;
    const compacts = relieves && windowUse > fullFrom && options.compaction !== undefined &&
      (await import("./rule/client_compaction.ts")).compactionPays(decided, request, options);
    const first = compacts ? { ...decided, evicted: [] } : decided;
    const relievesWindow = relieves && !compacts;
    const plan = staysAsItIs(first, { fullWindow: state.fullWindow, compacts, relievesWindow })
      ? planAsItIs(first, request, options)
      : await (await import("./edits/rewrite.ts")).rewrite(first, request, {
        ...options,
        windowTokens: current.windowOf(call.model),
        inspect: (request) => current.inspection(request),
        relievesWindow,
        writeOut: (edits) => ingestion?.writeOut(edits, canRecall(history, call)) ?? edits,
      });
    current.notePlan(plan);
    const tooLong = relieves && current.isSureOfWindow(call.model) ? current.tooLong(plan) : undefined;
    const { stopped } = known.account;
    const stopsNow = stopped && !state.isStopReported;
    if (plan.fullWindow !== state.fullWindow) state = { ...state, fullWindow: plan.fullWindow };
    if (tooLong && compacts) state = { ...state, fullWindow: { ...state.fullWindow, refused: true } };
    if (plan.summary) {
      state = { ...state, summary: state.summary ? addUsage(state.summary, plan.summary) : plan.summary };
    }
    const isUnreadNow = known.isUnread && !state.unreadReported;
    if (isUnreadNow) state = { ...state, unreadReported: true };
    if (plan.rewrite || stopsNow) {
      const replaced = new Set(plan.edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
      const back = new Set(plan.requested.flatMap(({ wish, place }) => wish === "retain" ? [place] : []));
      state = {
        ...state,
        edits: plan.allEdits,
        truncated: state.truncated.filter((index) => !replaced.has(index) && !back.has(index)),
        isStopReported: stopped,
      };
    }
    if (known.account !== state.planner) state = { ...state, planner: known.account };
    if (tooLong) throw tooLong;
    if (options.dryRun) {
      const whole = unchangedView(history, call);
      plans.set(whole, plan);
      return whole;
    }
    const { messages, tools, places } = plan.view;
    newest = {
      messages,
      tools,
      places,
      stable: plan.stable,
      rewrites: [...arrived.rewrites, ...(plan.rewrite ? [plan.rewrite] : [])],
      warnings: [
        ...(stopsNow ? [STOPPED] : []),
        ...(isUnreadNow ? [UNREAD] : []),
        ...arrived.warnings,
        ...plan.warnings,
      ],
      ...(plan.ended.length > 0 && { endedPins: plan.ended }),
      ...(plan.summary && { summary: plan.summary }),
      saved: { ...plan.saved, ...savedByDeferring(call, plan.promptTokens) },
      promptTokens: plan.promptTokens,
      // Computed now, because earlier requests are removed once this call has succeeded.
      predictedCachedTokens: servedTokens(known.profile, {
        ...plan.predicted,
        promptTokens: plan.promptTokens,
      }),
    };
    plans.set(newest, plan);
    return newest;
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest, heldTokens) {
      checkUsage(usage);
      about = {};
      if (!view || !plans.has(view)) throw noView("call");
      const restored = restorations.get(view);
      if (restored) {
        for (const session of [known, from]) session?.noteSummarized(restored.ownTokens);
        return restored.book({ usage, summary: undefined, heldTokens });
      }
      const plan = plans.get(view);
      if (!plan) return undefined;
      const { summary, ...rest } = state;
      const entry = known.book(plan, { usage, summary: summary ?? plan.summary, heldTokens });
      state = { ...rest, planner: known.account };
      return entry;
    },
    rejected(limit, { promptTokens, view = newest } = {}) {
      if (!view || !plans.has(view)) throw noView("refused call");
      const plan = plans.get(view);
      if (!plan) return;
      about = {};
      if (restorations.has(view) && limit === undefined) {
        isRefused = true;
        return;
      }
      known.reject(plan, { windowTokens: limit, promptTokens });
      state = { ...state, planner: known.account };
    },
    get state() {
      return state;
    },
    get inspected() {
      return known.inspected;
    },
    quote(history, call) {
      about = {};
      const edits = fittingEdits(state.edits, history.messages);
      const { situation } = known.inspectAside({ ...requestOf(history, call), edits });
      return quotePrompt(situation.removals.filter(({ evicts }) => evicts), situation);
    },
    nextKeepAlive(idle) {
      about = {};
      return known.nextKeepAlive(idle);
    },
    recordKeepAlive(request) {
      if (known.account.sent.length === 0) {
        throw new Error(
          "Cannot record a keep-alive request: nothing was sent. Call sent() first.",
        );
      }
      about = {};
      const entry = known.recordKeepAlive(request);
      state = { ...state, planner: known.account };
      return entry;
    },
    get profile() {
      about = {};
      return known.profile;
    },
    resume(stored) {
      checkState(stored);
      const next: SessionState = { ...NEW_STATE, ...stored as Partial<SessionState> };
      if (next.reverted !== state.reverted) {
        state = next;
        known = know(state.planner);
        ingestion = undefined;
      } else {
        state = { ...next, edits: withKnown(next.edits, state.edits) };
        known.resume(state.planner);
      }
      newest = undefined;
    },
    cutBack(length) {
      state = { ...state, ...cutBack(state, length) };
    },
    fork(length, archive, { aside = false } = {}) {
      const { summary: _, ...rest } = state;
      const edited = { ...rest, ...cutBack(state, length) };
      if (aside) return makeSession({ ...given, archive, state: edited }, known);
      const fork = known.fork(length, edited.edits);
      const forked: SessionState = { ...edited, planner: fork.account, isStopReported: false };
      return makeSession({ ...given, archive, state: forked }, fork);
    },
    get noPins() {
      return isEdited() ? undefined : "this session's prompts are sent unchanged";
    },
    revert() {
      state = { ...state, edits: [], truncated: [], reverted: true };
      known = know(state.planner, known);
    },
  };
}

function isOfCalls(message: History["messages"][number]): boolean {
  return message.role === "tool" || message.role === "assistant" && (message.tool_calls ?? []).length > 0;
}

function retentionOf(
  { context, prune, schemas }: Mechanisms,
  { evict, retention }: Pick<FlatSessionOptions, "evict" | "retention">,
): Retention {
  return {
    ...(evict === "eager" ? EAGER : KEEP_WANTED),
    ...retention,
    ...(!prune && { resultTailTokens: Infinity }),
    ...(!context && { stepTailTokens: Infinity }),
    ...(!schemas && { compactTools: false }),
  };
}

function cutBack({ edits, truncated }: SessionState, length: number) {
  return {
    edits: leadingEdits(edits, length),
    truncated: truncated.filter((index) => index < length),
  };
}

/** Returns edits with known ones as the same objects, which identify the rendered content. */
function withKnown(edits: readonly Edit[], known: readonly Edit[]): readonly Edit[] {
  const differs = edits.findIndex((edit, at) => !known[at] || !sameData(edit, known[at]));
  if (differs < 0 && edits.length === known.length) return known;
  const same = differs < 0 ? edits.length : differs;
  return [...known.slice(0, same), ...edits.slice(same)];
}

/** Runs `work` for one call after the other, each once those before it have settled. */
export function oneByOne<Args extends readonly unknown[], Result>(
  work: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  let last: Promise<unknown> = Promise.resolve();
  return (...args) => {
    const result = last.then(() => work(...args));
    last = result.catch(() => {});
    return result;
  };
}

/** Returns whether the model of a call can recall evicted content. */
export function canRecall({ tools }: History, { recall }: PromptCall): boolean {
  return recall ?? tools.some((tool) => tool.function.name === RECALL_TOOL.function.name);
}

const ON_OR_OFF = "boolean" as const;

const SESSION_OPTIONS: NeededOptions<PromptSessionOptions> = {
  profile: ["object", "function"],
  archive: { put: "function", get: "function" },
  countTokens: "counter",
  "windowTokens?": ["positive", "function"],
  "dryRun?": ON_OR_OFF,
  "mechanisms?": Object.fromEntries(Object.keys(NO_MECHANISMS).map((name) => [`${name}?`, ON_OR_OFF])),
  "evict?": new Set(["lossless", "balanced", "eager"]),
  "tools?": "object",
  "summarize?": "function",
  "truncateTokens?": "count",
  "alwaysFull?": "array",
  "state?": "object",
  "advanced?": {
    "assumesWindow?": ["boolean", "function"],
    "compaction?": "object",
    "isError?": "function",
    "retention?": {
      "hazard?": "function",
      "refetchCost?": "function",
      "resultTailTokens?": "count",
      "stepTailTokens?": "count",
      "compactTools?": ON_OR_OFF,
      "horizonCalls?": "count",
      "namedWeight?": "count",
      "errorWeight?": "count",
    } satisfies NeededOptions<Partial<Retention>>,
    "lossLimit?": "count",
    "inSlices?": "function",
    "inspected?": "object",
  } satisfies NeededOptions<AdvancedSessionOptions>,
};

const PROFILE_FIELDS: NeededOptions<Profile> = {
  name: "string",
  minTokens: "count",
  blockTokens: "count",
  ttlMs: "count",
  write: "count",
  read: "count",
  coldAfterMs: "count",
  cacheLifetime: "array",
  "writes?": "object",
  "price?": "object",
  dialect: "string",
  "notes?": "string",
  "source?": "string",
};

const VIEW = {
  history: { messages: "messages", tools: "array" },
  call: {
    nowMs: "number",
    "model?": "string",
    "turnStart?": "count",
    "step?": "count",
    "oneShot?": "boolean",
    "restores?": "boolean",
    "evictNow?": "boolean",
    "replyTokens?": "count",
    "deferred?": { tools: "array", tokens: "number", isDetour: "boolean" },
    "recall?": "boolean",
    "pins?": "array",
    "signal?": "object",
    "progress?": "function",
  } satisfies NeededOptions<PromptCall>,
} as const;

const USAGE_FIELDS: NeededOptions<Usage> = {
  promptTokens: "count",
  cachedTokens: "count",
  "cacheWriteTokens?": "count",
  "hourWriteTokens?": "count",
  outputTokens: "count",
  "reasoningTokens?": "count",
  "estimated?": "boolean",
  "firstRead?": "object",
  "tier?": "string",
  "region?": "string",
  "serverTools?": "object",
  "model?": "string",
  "innerCalls?": "array",
  "reportedUsd?": "count",
};

export function checkOptions(caller: string, options: PromptSessionOptions): void {
  const { profile } = Object(options) as Partial<PromptSessionOptions>;
  if (typeof profile === "string") {
    throw new TypeError(
      `Cannot run ${caller}: options.profile is "${profile}"; it must be a profile, such as chooseProfile({ model }) or ` +
        `profileNamed("${profile}")`,
    );
  }
  checkGiven(caller, { options }, { options: SESSION_OPTIONS });
  if (typeof profile === "object") {
    checkGiven(caller, { "options.profile": profile }, { "options.profile": PROFILE_FIELDS });
  }
}

export function checkCall(given: { readonly history: History; readonly call: PromptCall }): void {
  checkGiven("view()", given, VIEW);
}

export function checkUsage(usage: Usage | undefined): void {
  if (usage !== undefined) checkGiven("sent()", { usage }, { usage: USAGE_FIELDS });
}

/** Returns the tokens that deferring tools removes; a detour costs its whole prompt. */
export function savedByDeferring(
  { deferred }: Pick<PromptCall, "deferred">,
  promptTokens: number,
): Pick<SessionView["saved"], "deferred"> {
  return deferred ? { deferred: deferred.isDetour ? -promptTokens : deferred.tokens } : {};
}

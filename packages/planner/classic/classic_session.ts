import { groupTurns, toolLoopContext, type ToolLoopView } from "@tare/context";
import {
  countRequestTokens,
  type CountTokens,
  type Message,
  type Rewrite,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { countMessageTokens, describeCall, hashPiece } from "@tare/messages/internal";
import {
  type Elision,
  isColdResume,
  pruneResults,
  relievePressure,
  type SummarizeTurnsOptions,
  truncateResults,
} from "@tare/prune";
import { archiveWithLine, type TurnsSummary } from "@tare/prune/internal";
import { compactTools } from "@tare/schemas";
import { currentProfile, currentWindow } from "../providers.ts";
import { howMany } from "../rule/decide.ts";
import { firstOpenCall, type Summarize } from "../edits/make_summary.ts";
import {
  type DropEdit,
  type ElideEdit,
  fittingEdits,
  leadingEdits,
  type SummarizeEdit,
} from "../edits/edit.ts";
import { type History, type PlacedView, placedView } from "../edits/view.ts";
import {
  type Mechanisms,
  NO_MECHANISMS,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type SessionView,
} from "../prompt_session.ts";
import { canRecall, checkCall, checkOptions, checkUsage, oneByOne, savedByDeferring } from "../session.ts";

export interface ClassicOptions extends PromptSessionOptions {
  readonly triggers?: ClassicTriggers;
}

/** Triggers of the classic mechanisms. */
export interface ClassicTriggers {
  /** Most tokens of the turns before the active one, from a turn's second call on. Default: 16,000. */
  readonly historyBudgetTokens?: number | undefined;
  /** Protected tokens at the end, at most half the window, for results. Default: 16,384. */
  readonly protectTokens?: number | undefined;
  /** Least UTF-8 bytes of a pruned result. Default: 1,024. */
  readonly minBytes?: number | undefined;
  /** Share of the window from which results are pruned, from 0 to 1. Default: 0.8. */
  readonly pruneAt?: number | undefined;
  /** Share of the window from which old turns are summarized as well, from `pruneAt` to 1. Default: 0.9. */
  readonly summarizeAt?: number | undefined;
  /** Idle time after which the provider's cache is cold, in milliseconds. Default: that of the profile. */
  readonly coldAfterMs?: number | undefined;
}

interface ClassicState {
  readonly edits: readonly ClassicEdit[];
  readonly exposed: readonly number[];
  readonly lastUsedAtMs?: number;
  readonly scale: number;
  readonly windows: Readonly<Record<string, number>>;
  readonly isPauseReported: boolean;
  readonly left: { readonly turns: number; readonly schemaTokens: number };
  readonly reverted: boolean;
}

const NEW_STATE: ClassicState = {
  edits: [],
  exposed: [],
  scale: 1,
  windows: {},
  isPauseReported: false,
  left: { turns: 0, schemaTokens: 0 },
  reverted: false,
};

/**
 * Returns a session that applies the mechanisms at fixed triggers. It keeps no ledger and predicts no cache.
 * A full window that can't be emptied is reported once, and the prompt is sent.
 * @throws {RangeError} if a trigger is out of its range.
 */
export function classicSession({ triggers = {}, ...options }: ClassicOptions): PromptSession {
  checkOptions("classicSession()", options);
  const { profile, archive, countTokens, tools, truncateTokens, advanced: { isError } = {} } = options;
  checkTriggers(triggers, truncateTokens);
  const { historyBudgetTokens, protectTokens, minBytes, pruneAt, summarizeAt, coldAfterMs } = triggers;
  const stored = options.state as Partial<ClassicState> | undefined;
  let state: ClassicState = { ...NEW_STATE, ...stored };
  const configured: Mechanisms = {
    ...NO_MECHANISMS,
    ...{ context: true, prune: true, schemas: true, truncate: true },
    ...options.mechanisms,
  };
  const tokensOf = (messages: readonly Message[], tools: History["tools"]) =>
    countRequestTokens({ messages, tools }, countTokens);
  const drafts = new WeakMap<SessionView, Pick<ClassicState, "exposed" | "lastUsedAtMs"> | undefined>();
  const models = new WeakMap<SessionView, string>();
  let newest: SessionView | undefined;
  let last: { readonly history: History; readonly view: SessionView } | undefined;

  const windowOf = (model = "") =>
    Math.min(currentWindow(options.windowTokens), state.windows[model] ?? Infinity);

  function viewOf(
    { messages, tools, places }: Pick<SessionView, "messages" | "tools" | "places">,
    { edited, call }: { readonly edited: EditedHistory; readonly call: PromptCall },
    reported: Pick<SessionView, "rewrites" | "warnings" | "summary"> = { rewrites: [], warnings: [] },
  ): SessionView {
    const promptTokens = tokensOf(messages, tools);
    return newest = {
      ...{ messages, tools, places },
      ...reported,
      saved: { ...edited.savedIn({ messages, tools }), ...savedByDeferring(call, promptTokens) },
      promptTokens,
      predictedCachedTokens: 0,
    };
  }

  /**
   * Returns the view of a request that isn't a turn: the newest view plus new messages; or the whole history,
   * if evicted content is to be restored and fits.
   */
  function inspect(history: History, call: PromptCall): SessionView {
    const edited = new EditedHistory(history, state.edits, countTokens);
    let { messages, tools, places } = edited.seen;
    if (last && startsWith(history.messages, last.history.messages)) {
      const { length } = last.history.messages;
      const fresh = history.messages.slice(length);
      messages = [...last.view.messages, ...fresh];
      places = [...last.view.places, ...fresh.map((_, at) => length + at)];
      const isSame = tools.length === last.history.tools.length && startsWith(tools, last.history.tools);
      if (isSame) tools = last.view.tools;
    }
    const historyTokens = tokensOf(history.messages, history.tools);
    if (call.restores && historyTokens * state.scale <= windowOf(call.model)) {
      ({ messages, tools } = history);
      places = messages.map((_, at) => at);
    }
    const view = viewOf({ messages, tools, places }, { edited, call });
    drafts.set(view, undefined);
    return view;
  }

  /**
   * Old turns omitted from the newest request, and their placeholder: all requests of a turn omit the same.
   */
  let leftOut: { readonly messages: readonly Message[]; readonly line: Message } | undefined;

  async function lineOf(left: readonly Message[], recall: boolean): Promise<Message> {
    const { messages: before = [], line } = leftOut ?? {};
    if (line && left.length === before.length && left.every((one, at) => one === before[at])) return line;
    const archived = await archiveWithLine(left, { archive, purpose: "omit", recall });
    leftOut = { messages: left, line: { role: "user", content: archived.line } };
    return leftOut.line;
  }

  async function makeView(history: History, call: PromptCall): Promise<SessionView> {
    checkCall({ history, call });
    if (call.oneShot) return inspect(history, call);
    const mechanisms = state.reverted ? NO_MECHANISMS : configured;
    const recall = canRecall(history, call);
    const { scale, lastUsedAtMs } = state;
    const windowTokens = windowOf(call.model);
    const warnings: string[] = [];
    const warn = (failure: Error, rest = " Nothing was evicted.") => {
      warnings.push(`${failure.message.replace(/\.$/, "")}.${rest}`);
    };
    const edited = new EditedHistory(history, state.edits, countTokens);
    const turnStart = call.turnStart ?? groupTurns(history.messages).at(-1)?.start ?? 0;
    const activeRow = edited.seen.places.findIndex((place) => place >= turnStart);
    const activeMessages = activeRow < 0 ? 0 : edited.seen.messages.length - activeRow;
    const isFirst = !history.messages.slice(turnStart).some(({ role }) => role === "assistant");
    const exposed = new Set(state.exposed);
    const called = isFirst ? calledTools(history.messages) : undefined;
    const fit = (messages: readonly Message[], omits = mechanisms.context): FittedRequest => {
      const activeTurnStart = messages.length - activeMessages;
      const context = omits
        ? toolLoopContext(messages, { countTokens, activeTurnStart, historyBudgetTokens })
        : undefined;
      const { alwaysFull } = options;
      const visible = mechanisms.schemas
        ? compactTools(history.tools, { exposed, countTokens, alwaysFull, called })
        : { tools: history.tools, exposed };
      const request = { messages: context?.messages ?? messages, tools: visible.tools };
      const tokens = tokensOf(request.messages, request.tools);
      return { ...request, tokens, context, exposed: visible.exposed };
    };
    const eliding = { archive, countTokens, recall, tools, isError, protectTokens, minBytes };
    const limits = { ...eliding, windowTokens: windowTokens / scale };

    if (mechanisms.truncate) {
      const limitTokens = truncateTokens;
      const truncated = await truncateResults(edited.seen.messages, { ...limits, limitTokens });
      if (truncated.failure) warn(truncated.failure);
      else edited.elide(truncated.elisions, { mechanism: "truncate", reason: "over the truncation limit" });
    }
    const cacheColdAfterMs = coldAfterMs ?? currentProfile(profile).coldAfterMs;
    const isCold = stepOf(history.messages, call) === 1 &&
      isColdResume({ lastUsedAtMs, nowMs: call.nowMs, cacheColdAfterMs });
    if (mechanisms.prune && isCold) {
      const pruned = await pruneResults(edited.seen.messages, limits);
      const reason = "the session resumes after the provider's cache has expired";
      if (pruned.failure) warn(pruned.failure);
      else edited.elide(pruned.elisions, { mechanism: "prune", reason });
    }
    let usage: Usage | undefined;
    let { isPauseReported } = state;
    if (mechanisms.prune || mechanisms.context) {
      const { messages } = edited.seen;
      const tokens = Math.ceil(fit(messages).tokens * scale);
      const reason = `the prompt would fill ${tokens} of the window's ${windowTokens} tokens`;
      const sent = { messages, tools: last?.view.tools ?? history.tools };
      const relief = await relievePressure(messages, {
        ...limits,
        activeTurnStart: messages.length - activeMessages,
        signal: call.signal,
        summarize: options.summarize && askOnWarmPrefix(options.summarize, {
          ...{ ...sent, windowTokens: windowTokens / scale, progress: call.progress },
          onUsage: (took) => usage = took,
        }),
        ...{ pruneAt, summarizeAt },
        ...(!mechanisms.prune && { minBytes: Infinity }),
        ...(!mechanisms.context && { keepTokens: Infinity }),
        countPrompt: (messages) => fit(messages).tokens,
      });
      const { elisions, paused } = relief;
      const summary = relief.failure ? undefined : relief.summary;
      const failure = relief.failure ?? relief.summaryFailure;
      edited.elide(elisions, { mechanism: "prune", reason });
      if (summary) edited.summarize(summary, reason);
      if (failure) {
        warn(failure, summary ? "" : ` Nothing${elisions.length > 0 ? " more" : ""} was evicted.`);
      }
      if (!failure || summary) {
        const fullTokens = (summarizeAt ?? 0.9) * windowTokens;
        if (paused && !isPauseReported) {
          const count = (request: History) => Math.ceil(countRequestTokens(request, countTokens) * scale);
          const size = { activeMessages, fullTokens, windowTokens, count };
          warnings.push(describePause(fit(edited.seen.messages), size));
        }
        isPauseReported = paused;
      }
    }

    let fitted = fit(edited.seen.messages);
    let { messages } = fitted;
    let places = placesOf(messages, edited.seen);
    if (fitted.context && fitted.context.removedTurns > 0) {
      const { removed, removedAt } = fitted.context;
      // The originals: a recall must return no placeholders.
      const left = placesOf(removed, edited.seen).map((place, at) => history.messages[place] ?? removed[at]!);
      try {
        messages = messages.toSpliced(removedAt, 0, await lineOf(left, recall));
        places = places.toSpliced(removedAt, 0, -1);
      } catch (error) {
        warn(error as Error);
        fitted = fit(edited.seen.messages, false);
        ({ messages } = fitted);
        places = edited.seen.places;
      }
    }
    const schemaTokens = tokensOf([], history.tools) - tokensOf([], fitted.tools);
    const left = { turns: fitted.context?.removedTurns ?? 0, schemaTokens };
    const rewrites = [...edited.rewrites, ...fittingRewrites(fitted, left, state.left)];
    const isSameOmission = left.turns === state.left.turns && schemaTokens === state.left.schemaTokens;
    if (edited.edits !== state.edits || isPauseReported !== state.isPauseReported || !isSameOmission) {
      state = { ...state, edits: edited.edits, isPauseReported, left };
    }
    const view = viewOf({ messages, tools: fitted.tools, places }, { edited, call }, {
      ...{ rewrites, warnings },
      ...(usage && { summary: usage }),
    });
    last = { history, view };
    drafts.set(view, { exposed: [...fitted.exposed], lastUsedAtMs: call.nowMs });
    models.set(view, call.model ?? "");
    return view;
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest) {
      checkUsage(usage);
      if (!view || !drafts.has(view)) {
        throw new Error("Cannot record a call: this session made no view for it. Call view() first.");
      }
      const draft = drafts.get(view);
      if (!draft) return undefined;
      const { promptTokens } = view;
      const scale = !usage || usage.estimated || promptTokens === 0
        ? state.scale
        : Math.max(1, usage.promptTokens / promptTokens);
      state = { ...state, ...draft, scale };
      return undefined;
    },
    rejected(limit, { promptTokens, view = newest } = {}) {
      const model = view && models.get(view);
      if (!view || model === undefined) return;
      const scale = Math.max(state.scale, (promptTokens ?? (limit ?? 0) + 1) / view.promptTokens);
      const limitTokens = limit ?? SMALLER_SHARE * scale * view.promptTokens;
      state = { ...state, scale, windows: { ...state.windows, [model]: Math.floor(limitTokens) } };
    },
    get state() {
      return state;
    },
    get profile() {
      return currentProfile(profile);
    },
    noPins: "the policy classic has no pins. Use the policy planner",
    cutBack(length) {
      last = undefined;
      state = { ...state, edits: leadingEdits(state.edits, length) };
    },
    fork(length, archive) {
      const forked: ClassicState = { ...state, edits: leadingEdits(state.edits, length) };
      return classicSession({ ...options, triggers, archive, state: forked });
    },
    revert() {
      last = undefined;
      state = { ...state, edits: [], reverted: true };
    },
  };
}

const SMALLER_SHARE = 0.8;

function checkTriggers(triggers: ClassicTriggers, truncateTokens: number | undefined): void {
  const { pruneAt = 0.8, summarizeAt = 0.9, ...limits } = triggers;
  for (const [name, value] of Object.entries({ ...limits, truncateTokens })) {
    if (value === undefined || value >= 0) continue;
    throw new RangeError(`Cannot create a session: ${name} is ${value}. It must be 0 or more.`);
  }
  if (0 <= pruneAt && pruneAt <= summarizeAt && summarizeAt <= 1) return;
  throw new RangeError(
    `Cannot create a session: pruneAt is ${pruneAt} and summarizeAt is ${summarizeAt}. ` +
      "They must be shares of the window, from 0 to 1, the first at most the second.",
  );
}

/**
 * Requests a summary as a continuation of the conversation as last sent, up to the model's last message, so
 * that the cache serves it.
 */
function askOnWarmPrefix(
  summarize: Summarize,
  { messages: seen, tools, windowTokens, progress, onUsage }: History & {
    readonly windowTokens: number;
    readonly progress: (() => void) | undefined;
    readonly onUsage: (usage: Usage) => void;
  },
): NonNullable<SummarizeTurnsOptions["summarize"]> {
  return async (messages, { end, signal }) => {
    const answered = seen.findLastIndex(({ role }) => role === "assistant");
    const sent = seen.slice(0, Math.max(end, answered));
    const next = seen[end];
    const { text, usage } = await summarize({
      sent: { messages: sent.slice(0, firstOpenCall(sent)), tools },
      ...{ messages, users: [], windowTokens },
      ...(next && { next }),
      ...(signal && { signal }),
      ...(progress && { progress }),
    });
    onUsage(usage);
    return text;
  };
}

function describePause(
  { messages, tools }: History,
  { activeMessages, fullTokens, windowTokens, count }: {
    readonly activeMessages: number;
    /** Tokens from which the window is full. All tokens are the provider's. */
    readonly fullTokens: number;
    readonly windowTokens: number;
    readonly count: (request: History) => number;
  },
): string {
  const active = messages.length - activeMessages;
  const fixed = messages.filter(({ role }, at) => at >= active || role === "system" || role === "developer");
  const needed = count({ messages: fixed, tools });
  const why = needed >= fullTokens
    ? `The window is too small for this turn: with instructions and tools it takes ${needed} of ${windowTokens} tokens`
    : `The window stays full: the prompt takes ${
      count({ messages, tools })
    } of ${windowTokens} tokens, and everything ` +
      "evictable is less than a tenth of it";
  return `${why}. Pruning and summaries pause until more can be freed.`;
}

function stepOf(messages: readonly Message[], { step }: PromptCall): number {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
  return step ?? 1 + turn.filter(({ role }) => role === "assistant").length;
}

function startsWith<P extends Message | ToolDefinition>(pieces: readonly P[], start: readonly P[]): boolean {
  return start.every((piece, at) => {
    const other = pieces[at];
    return other !== undefined && (piece === other || hashPiece(piece) === hashPiece(other));
  });
}

function placesOf(messages: readonly Message[], seen: PlacedView): readonly number[] {
  let at = -1;
  return messages.map((message) => {
    at = seen.messages.indexOf(message, at + 1);
    return seen.places[at] ?? -1;
  });
}

type ClassicEdit = StickyElision | SummarizeEdit | DropEdit;

interface StickyElision extends ElideEdit {
  readonly mechanism: "prune" | "truncate";
  readonly savedTokens: number;
}

class EditedHistory {
  readonly rewrites: Rewrite[] = [];
  readonly #history: History;
  readonly #countTokens: CountTokens;
  #edits: readonly ClassicEdit[];
  #seen: PlacedView;

  constructor(history: History, edits: readonly ClassicEdit[], countTokens: CountTokens) {
    this.#history = history;
    this.#countTokens = countTokens;
    const fitting = fittingEdits(edits, history.messages);
    this.#edits = fitting.length < edits.length ? fitting : edits;
    this.#seen = placedView(history, this.#edits);
  }

  get edits(): readonly ClassicEdit[] {
    return this.#edits;
  }

  get seen(): PlacedView {
    return this.#seen;
  }

  elide(
    elisions: readonly Elision[],
    about: Pick<StickyElision, "mechanism"> & Pick<Rewrite, "reason">,
  ): void {
    if (elisions.length === 0) return;
    const { mechanism } = about;
    const edits = elisions.map(({ index, toolCallId, ref, text, tokensAfter }): StickyElision => {
      const place = this.#seen.places[index] ?? -1;
      const original = this.#history.messages[place];
      const tokensBefore = original ? countMessageTokens(original, this.#countTokens) : 0;
      const savedTokens = tokensBefore - tokensAfter;
      return { type: "elide", index: place, toolCallId, ref, text, mechanism, savedTokens };
    });
    const tokens = elisions.reduce((sum, one) => sum + one.tokensBefore - one.tokensAfter, 0);
    const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
    this.#add(edits, {
      ...about,
      removed: `${tokens} tokens of ${howMany(elisions.length, "result")} of ${names}`,
    });
  }

  summarize({ end, kind, ref, text }: TurnsSummary, reason: string): void {
    const { messages, places } = this.#seen;
    const old = messages.slice(0, end).filter(({ role }) =>
      role !== "system" && role !== "developer" && (kind === "drop" || role !== "user")
    );
    const how = kind === "drop" ? "including the user's, without a summary" : "summarized";
    const removed = `${howMany(old.length, "message")} of old turns, ${how}`;
    const type = kind === "drop" ? "drop" : "summarize";
    this.#add([{ type, from: 0, to: places[end] ?? 0, ref, text }], {
      mechanism: "summarize",
      reason,
      removed,
    });
  }

  savedIn({ messages, tools }: History): Readonly<Record<keyof Mechanisms, number>> {
    const of = (mechanism: StickyElision["mechanism"]) =>
      this.#edits.reduce(
        (sum, edit) => edit.type === "elide" && edit.mechanism === mechanism ? sum + edit.savedTokens : sum,
        0,
      );
    const [prune, truncate] = [of("prune"), of("truncate")];
    const all = this.#tokensOf(this.#history.messages) - this.#tokensOf(messages);
    const schemas = this.#tokensOf([], this.#history.tools) - this.#tokensOf([], tools);
    return { context: all - prune - truncate, prune, truncate, references: 0, normalization: 0, schemas };
  }

  #add(edits: readonly ClassicEdit[], about: Omit<Rewrite, "tokensBefore" | "tokensAfter">): void {
    const replaced = new Set(edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    const retained = this.#edits.filter((edit) => edit.type !== "elide" || !replaced.has(edit.index));
    const { tools } = this.#history;
    const tokensBefore = this.#tokensOf(this.#seen.messages, tools);
    this.#edits = [...retained, ...edits];
    this.#seen = placedView(this.#history, this.#edits);
    this.rewrites.push({ ...about, tokensBefore, tokensAfter: this.#tokensOf(this.#seen.messages, tools) });
  }

  #tokensOf(messages: readonly Message[], tools: History["tools"] = []): number {
    return countRequestTokens({ messages, tools }, this.#countTokens);
  }
}

interface FittedRequest extends History {
  readonly tokens: number;
  readonly context: ToolLoopView<Message> | undefined;
  readonly exposed: ReadonlySet<number>;
}

function calledTools(messages: readonly Message[]): ReadonlySet<string> {
  const calls = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  return new Set(calls.map((call) => describeCall(call).name));
}

function fittingRewrites(
  { tokens, context }: FittedRequest,
  { turns, schemaTokens }: ClassicState["left"],
  before: ClassicState["left"],
): Rewrite[] {
  const rewrites: Rewrite[] = [];
  if (context && turns > before.turns) {
    rewrites.push({
      mechanism: "context",
      reason: "old turns must fit in a budget during a tool loop",
      removed: howMany(turns, "old turn"),
      tokensBefore: tokens + context.tokensBefore - context.tokensAfter,
      tokensAfter: tokens,
    });
  }
  if (schemaTokens > before.schemaTokens) {
    rewrites.push({
      mechanism: "schemas",
      reason: "the model has seen them in full",
      removed: "the descriptions in tool schemas",
      tokensBefore: tokens + schemaTokens,
      tokensAfter: tokens,
    });
  }
  return rewrites;
}

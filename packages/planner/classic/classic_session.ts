import { groupTurns, toolLoopContext, type ToolLoopView } from "@tare/context";
import {
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Rewrite,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { describeCall, hashPiece } from "@tare/messages/internal";
import {
  type Archive,
  archiveMessages,
  type Elision,
  formatPlaceholder,
  isColdResume,
  pruneResults,
  relievePressure,
  truncateResults,
  type TurnsSummary,
} from "@tare/prune";
import { bytesFromText } from "@tare/prune/internal";
import { shownTools } from "@tare/schemas";
import { currentProfile, currentWindow } from "../providers.ts";
import { howMany } from "../rule/decide.ts";
import { firstOpenCall, type Summarise } from "../edits/make_summary.ts";
import {
  type DropEdit,
  type ElideEdit,
  fittingEdits,
  leadingEdits,
  type SummariseEdit,
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

/** Options of a session by fixed triggers. */
export interface ClassicOptions extends PromptSessionOptions {
  /** When the mechanisms act. Default: see each trigger. */
  readonly triggers?: ClassicTriggers;
}

/** When the classic mechanisms act. */
export interface ClassicTriggers {
  /** Tokens that turns before the active one may take from a turn's second call on. Default: 16,000. */
  readonly historyBudgetTokens?: number | undefined;
  /** Tokens at the end, at most half the window, in which no result is pruned. Default: 16,384. */
  readonly protectTokens?: number | undefined;
  /** Results with fewer UTF-8 bytes aren't pruned. Default: 1,024. */
  readonly minBytes?: number | undefined;
  /** Share of the window from which results are pruned, from 0 to 1. Default: 0.8. */
  readonly pruneAt?: number | undefined;
  /** Share of the window from which old turns are summarized as well, from `pruneAt` to 1. Default: 0.9. */
  readonly summariseAt?: number | undefined;
  /** Idle time after which the provider's cache is gone, in milliseconds. Default: that of the profile. */
  readonly coldAfterMs?: number | undefined;
}

interface ClassicState {
  readonly edits: readonly ClassicEdit[];
  readonly exposed: readonly number[];
  readonly lastUsedAtMs?: number;
  /** What the provider counts for each token that we count; another tokenizer than ours counts more. */
  readonly scale: number;
  /** Windows in tokens that providers have told by refusing a prompt, by the model's name. */
  readonly windows: Readonly<Record<string, number>>;
  readonly pauseSaid: boolean;
  /** What the newest request kept out for itself alone: what people were told of. */
  readonly left: LeftOut;
  readonly reverted: boolean;
}

const NEW_STATE: ClassicState = {
  edits: [],
  exposed: [],
  scale: 1,
  windows: {},
  pauseSaid: false,
  left: { turns: 0, schemaTokens: 0 },
  reverted: false,
};

/**
 * Applies the mechanisms by their classic triggers. Huge results are truncated on arrival. Old results are pruned when the
 * prompt reaches 0.8 of the window or the session resumes cold; if that isn't enough, or from 0.9 of the window on, the oldest
 * turns give way to a summary. From the second call of a turn on, old turns must fit in a budget, and schemas that were shown
 * are compact; its first call shows those of tools that were never called in full. It keeps no ledger and predicts no cache.
 *
 * When a full window can't be relieved it says so once, and goes on sending: whether a prompt is too long is the
 * provider's to say.
 *
 * @throws {RangeError} if a trigger is out of its range.
 */
export function classicSession({ triggers = {}, ...options }: ClassicOptions): PromptSession {
  checkOptions("classicSession()", options);
  const { profile, archive, countTokens, tools, truncateTokens, advanced: { isError } = {} } = options;
  checkTriggers(triggers, truncateTokens);
  const { historyBudgetTokens, protectTokens, minBytes, pruneAt, summariseAt, coldAfterMs } = triggers;
  // What was stored is what `state` gave.
  const stored = options.state as Partial<ClassicState> | undefined;
  let state: ClassicState = { ...NEW_STATE, ...stored };
  const configured: Mechanisms = {
    ...NO_MECHANISMS,
    ...{ context: true, prune: true, schemas: true, truncate: true },
    ...options.mechanisms,
  };
  const leftTurns = new LeftTurns(archive);
  const tokensOf = (messages: readonly Message[], tools: History["tools"]) =>
    countRequestTokens({ messages, tools }, countTokens);
  /** What changes once each view is sent; nothing for a request that isn't a turn. */
  const drafts = new WeakMap<SessionView, Pick<ClassicState, "exposed" | "lastUsedAtMs"> | undefined>();
  /** The model that each view was for. */
  const models = new WeakMap<SessionView, string>();
  let newest: SessionView | undefined;
  /** What was viewed last for a turn. */
  let last: { readonly history: History; readonly view: SessionView } | undefined;

  const windowOf = (model = "") =>
    Math.min(currentWindow(options.windowTokens), state.windows[model] ?? Infinity);

  /**
   * What a request that isn't a turn is shown: what the model saw last, and what is new; or the whole history, if it is to
   * show what left the prompt and the window holds that.
   */
  function look(history: History, call: PromptCall): SessionView {
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
    const windowTokens = windowOf(call.model);
    if (call.restores && tokensOf(history.messages, history.tools) * state.scale <= windowTokens) {
      ({ messages, tools } = history);
      places = messages.map((_, at) => at);
    }
    const schemas = tokensOf([], history.tools) - tokensOf([], tools);
    const promptTokens = tokensOf(messages, tools);
    newest = {
      messages,
      tools,
      places,
      rewrites: [],
      warnings: [],
      saved: { ...edited.savedIn(messages), schemas, ...savedByDeferring(call, promptTokens) },
      promptTokens,
      predictedCachedTokens: 0,
    };
    drafts.set(newest, undefined);
    return newest;
  }

  async function makeView(history: History, call: PromptCall): Promise<SessionView> {
    checkCall({ history, call });
    if (call.oneShot) return look(history, call);
    const mechanisms = state.reverted ? NO_MECHANISMS : configured;
    const recall = canRecall(history, call);
    const { scale } = state;
    const windowTokens = windowOf(call.model);
    const warnings: string[] = [];
    const warn = (failure: Error, rest = " Nothing left the prompt.") => {
      warnings.push(`${failure.message.replace(/\.$/, "")}.${rest}`);
    };
    const edited = new EditedHistory(history, state.edits, countTokens);
    const turnStart = call.turnStart ?? groupTurns(history.messages).at(-1)?.start ?? 0;
    const activeMessages = edited.seen.messages.length - firstFrom(edited.seen, turnStart);
    const isFirst = !history.messages.slice(turnStart).some(({ role }) => role === "assistant");
    const fitting = {
      countTokens,
      historyBudgetTokens,
      alwaysFull: options.alwaysFull,
      activeMessages,
      exposed: new Set(state.exposed),
      called: isFirst ? calledTools(history.messages) : undefined,
    };
    const fit = (messages: readonly Message[], on = mechanisms) =>
      fitRequest({ messages, tools: history.tools }, { ...fitting, mechanisms: on });
    const eliding = {
      archive,
      countTokens,
      recall,
      windowTokens: windowTokens / scale,
      ...(tools && { tools }),
      ...(isError && { isError }),
      ...(protectTokens !== undefined && { protectTokens }),
      ...(minBytes !== undefined && { minBytes }),
    };

    if (mechanisms.truncate) {
      const limit = truncateTokens !== undefined && { limitTokens: truncateTokens };
      const truncated = await truncateResults(edited.seen.messages, { ...eliding, ...limit });
      if (truncated.failure) warn(truncated.failure);
      else edited.elide(truncated.elisions, { mechanism: "truncate", reason: "over the limit on arrival" });
    }
    const { lastUsedAtMs } = state;
    const cold = {
      lastUsedAtMs,
      nowMs: call.nowMs,
      cacheColdAfterMs: coldAfterMs ?? currentProfile(profile).coldAfterMs,
    };
    if (mechanisms.prune && stepOf(history.messages, call) === 1 && isColdResume(cold)) {
      const pruned = await pruneResults(edited.seen.messages, eliding);
      const reason = "the session resumes after so long that the provider's cache is cold";
      if (pruned.failure) warn(pruned.failure);
      else edited.elide(pruned.elisions, { mechanism: "prune", reason });
    }
    let usage: Usage | undefined;
    let { pauseSaid } = state;
    if (mechanisms.prune || mechanisms.context) {
      const { messages } = edited.seen;
      const tokens = Math.ceil(fit(messages).tokens * scale);
      const reason = `the prompt would fill ${tokens} of the window's ${windowTokens} tokens`;
      const sent = { messages, tools: last?.view.tools ?? history.tools };
      const summarise = options.summarise && askOnWarmPrefix(options.summarise, {
        ...{ ...sent, windowTokens: windowTokens / scale, progress: call.progress },
        told: (took) => usage = took,
      });
      const relief = await relievePressure(messages, {
        ...eliding,
        activeTurnStart: messages.length - activeMessages,
        ...(call.signal && { signal: call.signal }),
        ...(summarise && { summarise }),
        ...(pruneAt !== undefined && { pruneAt }),
        ...(summariseAt !== undefined && { summariseAt }),
        // A mechanism that is off takes nothing.
        ...(!mechanisms.prune && { minBytes: Infinity }),
        ...(!mechanisms.context && { keepTokens: Infinity }),
        countPrompt: (messages) => fit(messages).tokens,
      });
      const { elisions, paused } = relief;
      const summary = relief.failure ? undefined : relief.summary;
      const failure = relief.failure ?? relief.summaryFailure;
      edited.elide(elisions, { mechanism: "prune", reason });
      if (summary) edited.summarise(summary, reason);
      if (failure) {
        warn(failure, summary ? "" : ` Nothing${elisions.length > 0 ? " more" : ""} left the prompt.`);
      }
      if (!failure || summary) {
        const fullTokens = (summariseAt ?? 0.9) * windowTokens;
        if (paused && !pauseSaid) {
          const size = { activeMessages, fullTokens, windowTokens, scale, countTokens };
          warnings.push(describePause(fit(edited.seen.messages), size));
        }
        pauseSaid = paused;
      }
    }

    let fitted = fit(edited.seen.messages);
    let { messages } = fitted;
    let places = placesOf(messages, edited.seen);
    if (fitted.context) {
      const { removed, removedAt } = fitted.context;
      // As they were said: who recalls them shall find no lines that stand for something in turn.
      const said = placesOf(removed, edited.seen).map((place, at) => history.messages[place] ?? removed[at]!);
      try {
        messages = messages.toSpliced(removedAt, 0, await leftTurns.lineOf(said, recall));
        places = places.toSpliced(removedAt, 0, -1);
      } catch (error) {
        warn(error as Error);
        fitted = fit(edited.seen.messages, { ...mechanisms, context: false });
        ({ messages } = fitted);
        places = edited.seen.places;
      }
    }
    const rewrites = [...edited.rewrites, ...fittingRewrites(fitted, state.left)];
    const left = leftOut(fitted);
    const isLeft = left.turns === state.left.turns && left.schemaTokens === state.left.schemaTokens;
    if (edited.edits !== state.edits || pauseSaid !== state.pauseSaid || !isLeft) {
      state = { ...state, edits: edited.edits, pauseSaid, left };
    }
    const promptTokens = tokensOf(messages, fitted.tools);
    newest = {
      messages,
      tools: fitted.tools,
      places,
      rewrites,
      warnings,
      saved: {
        ...edited.savedIn(messages),
        schemas: fitted.saved.schemas,
        ...savedByDeferring(call, promptTokens),
      },
      promptTokens,
      predictedCachedTokens: 0,
      ...(usage && { summary: usage }),
    };
    last = { history, view: newest };
    drafts.set(newest, { exposed: [...fitted.exposed], lastUsedAtMs: call.nowMs });
    models.set(newest, call.model ?? "");
    return newest;
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest) {
      checkUsage(usage);
      if (!view || !drafts.has(view)) {
        throw new Error("Cannot book a call: this session viewed nothing for it");
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
      const told = limit ?? SMALLER_SHARE * scale * view.promptTokens;
      state = { ...state, scale, windows: { ...state.windows, [model]: Math.floor(told) } };
    },
    get state() {
      return state;
    },
    get profile() {
      return currentProfile(profile);
    },
    noPins: "the policy classic rewrites at fixed triggers, whatever is asked for; the planner takes pins",
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

/** A prompt that was refused without a number must become this share of itself. */
const SMALLER_SHARE = 0.8;

function checkTriggers(triggers: ClassicTriggers, truncateTokens: number | undefined): void {
  const { pruneAt = 0.8, summariseAt = 0.9, ...limits } = triggers;
  for (const [name, value] of Object.entries({ ...limits, truncateTokens })) {
    if (value === undefined || value >= 0) continue;
    throw new RangeError(`Cannot make a session: ${name} is ${value}, it must be 0 or more`);
  }
  if (0 <= pruneAt && pruneAt <= summariseAt && summariseAt <= 1) return;
  throw new RangeError(
    `Cannot make a session: pruneAt is ${pruneAt} and summariseAt is ${summariseAt}, ` +
      "they must be shares of the window, from 0 to 1, the first not larger than the second",
  );
}

/**
 * Asks for a summary of a view's old turns on the conversation as it was sent last, as far as the cache may know it: up to
 * the model's last message.
 */
function askOnWarmPrefix(
  summarise: Summarise,
  { messages: seen, tools, windowTokens, progress, told }: History & {
    readonly windowTokens: number;
    readonly progress: (() => void) | undefined;
    /** Is told what it took. */
    readonly told: (usage: Usage) => void;
  },
): Parameters<typeof relievePressure>[1]["summarise"] & object {
  return async (messages, { end, signal }) => {
    const answered = seen.findLastIndex(({ role }) => role === "assistant");
    const sent = seen.slice(0, Math.max(end, answered));
    const next = seen[end];
    const { text, usage } = await summarise({
      sent: { messages: sent.slice(0, firstOpenCall(sent)), tools },
      messages,
      users: [],
      ...(next && { next }),
      windowTokens,
      ...(signal && { signal }),
      ...(progress && { progress }),
    });
    told(usage);
    return text;
  };
}

function describePause(
  request: History,
  { activeMessages, fullTokens, windowTokens, scale, countTokens }: {
    readonly activeMessages: number;
    /** Tokens from which on the window is full. Like the window's, they are the provider's. */
    readonly fullTokens: number;
    readonly windowTokens: number;
    readonly scale: number;
    readonly countTokens: CountTokens;
  },
): string {
  const { messages, tools } = request;
  const tokensOf = (those: History) => Math.ceil(countRequestTokens(those, countTokens) * scale);
  const active = messages.length - activeMessages;
  const fixed = messages.filter(({ role }, at) => at >= active || role === "system" || role === "developer");
  const needed = tokensOf({ messages: fixed, tools });
  const why = needed >= fullTokens
    ? `The window is too small for this turn: with instructions and tools it takes ${needed} of ${windowTokens} tokens`
    : `The window stays full: the prompt takes ${
      tokensOf(request)
    } of ${windowTokens} tokens, and all that may ` +
      "leave is less than a tenth of it";
  return `${why}. Pruning and summaries pause until there is more to win.`;
}

function stepOf(messages: readonly Message[], { step }: PromptCall): number {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1);
  return step ?? 1 + turn.filter(({ role }) => role === "assistant").length;
}

/** Whether a list begins with pieces that are the same as those of another. */
function startsWith<P extends Message | ToolDefinition>(pieces: readonly P[], start: readonly P[]): boolean {
  return start.every((piece, at) => {
    const other = pieces[at];
    return other !== undefined && (piece === other || hashPiece(piece) === hashPiece(other));
  });
}

/** Index of the first message of a view that stands at or behind a place of the history. */
function firstFrom({ places }: PlacedView, place: number): number {
  const first = places.findIndex((one) => one >= place);
  return first < 0 ? places.length : first;
}

/** The place in the history of each message of a request, which are some of those of a view. */
function placesOf(messages: readonly Message[], seen: PlacedView): readonly number[] {
  let at = -1;
  return messages.map((message) => {
    at = seen.messages.indexOf(message, at + 1);
    return seen.places[at] ?? -1;
  });
}

/** What stays as it is until the session ends, or a later summary takes it in. */
type ClassicEdit = StickyElision | SummariseEdit | DropEdit;

/** An elision, and what it keeps out of every request. */
interface StickyElision extends ElideEdit {
  readonly mechanism: "prune" | "truncate";
  readonly savedTokens: number;
}

/** A history as the model sees it, while more of it leaves. */
class EditedHistory {
  readonly rewrites: Rewrite[] = [];
  readonly #history: History;
  readonly #countTokens: CountTokens;
  #edits: readonly ClassicEdit[];
  #seen: PlacedView;

  /** A history with the edits of it that fit. */
  constructor(history: History, edits: readonly ClassicEdit[], countTokens: CountTokens) {
    this.#history = history;
    this.#countTokens = countTokens;
    const fitting = fittingEdits(edits, history.messages);
    this.#edits = fitting.length < edits.length ? fitting : edits;
    this.#seen = placedView(history, this.#edits);
  }

  /** All edits that hold now; the very list that was handed in if it is the same. */
  get edits(): readonly ClassicEdit[] {
    return this.#edits;
  }

  get seen(): PlacedView {
    return this.#seen;
  }

  /** Lets results leave, which are counted as the model sees them. */
  elide(
    elisions: readonly Elision[],
    told: Pick<StickyElision, "mechanism"> & Pick<Rewrite, "reason">,
  ): void {
    if (elisions.length === 0) return;
    const { mechanism } = told;
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
      ...told,
      removed: `${tokens} tokens of ${howMany(elisions.length, "result")} of ${names}`,
    });
  }

  summarise({ end, kind, ref, text }: TurnsSummary, reason: string): void {
    const { messages, places } = this.#seen;
    const old = messages.slice(0, end).filter(({ role }) =>
      role !== "system" && role !== "developer" && (kind === "drop" || role !== "user")
    );
    const how = kind === "drop" ? "those of the user too, without a summary" : "summarised";
    const removed = `${howMany(old.length, "message")} of old turns, ${how}`;
    const type = kind === "drop" ? "drop" : "summarise";
    this.#add([{ type, from: 0, to: places[end] ?? 0, ref, text }], {
      mechanism: "summarise",
      reason,
      removed,
    });
  }

  /** Tokens that each mechanism but `schemas` keeps out of a request with these messages. */
  savedIn(messages: readonly Message[]): Readonly<Record<Exclude<keyof Mechanisms, "schemas">, number>> {
    const of = (mechanism: StickyElision["mechanism"]) =>
      this.#edits.reduce(
        (sum, edit) => edit.type === "elide" && edit.mechanism === mechanism ? sum + edit.savedTokens : sum,
        0,
      );
    const [prune, truncate] = [of("prune"), of("truncate")];
    const all = this.#tokensOf(this.#history.messages) - this.#tokensOf(messages);
    return { context: all - prune - truncate, prune, truncate, references: 0, notation: 0 };
  }

  #add(edits: readonly ClassicEdit[], told: Omit<Rewrite, "tokensBefore" | "tokensAfter">): void {
    const replaced = new Set(edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    const kept = this.#edits.filter((edit) => edit.type !== "elide" || !replaced.has(edit.index));
    const { tools } = this.#history;
    const tokensBefore = this.#tokensOf(this.#seen.messages, tools);
    this.#edits = [...kept, ...edits];
    this.#seen = placedView(this.#history, this.#edits);
    this.rewrites.push({ ...told, tokensBefore, tokensAfter: this.#tokensOf(this.#seen.messages, tools) });
  }

  #tokensOf(messages: readonly Message[], tools: History["tools"] = []): number {
    return countRequestTokens({ messages, tools }, this.#countTokens);
  }
}

interface FitOptions {
  readonly countTokens: CountTokens;
  readonly mechanisms: Mechanisms;
  readonly historyBudgetTokens?: number | undefined;
  readonly alwaysFull?: readonly string[] | undefined;
  readonly activeMessages: number;
  readonly exposed: ReadonlySet<number>;
  /** In a turn's first request the names of the tools that the model has called: the others are shown in full again. */
  readonly called?: ReadonlySet<string> | undefined;
}

/** The messages and tools of one request, and what was kept out of this one alone. */
interface FittedRequest extends History {
  readonly tokens: number;
  /** Old turns that are left out, and where they stood. */
  readonly context?: Pick<ToolLoopView<Message>, "removed" | "removedAt" | "removedTurns">;
  readonly exposed: ReadonlySet<number>;
  readonly saved: { readonly context: number; readonly schemas: number };
}

/** Fits a conversation to one request: old turns into a budget, tools into the form that the model needs. */
function fitRequest(
  { messages, tools }: { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] },
  { countTokens, mechanisms, historyBudgetTokens, alwaysFull, activeMessages, exposed, called }: FitOptions,
): FittedRequest {
  const fitted = mechanisms.context
    ? toolLoopContext(messages, {
      countTokens,
      activeTurnStart: messages.length - activeMessages,
      ...(historyBudgetTokens !== undefined && { historyBudgetTokens }),
    })
    : undefined;
  const shown = mechanisms.schemas
    ? shownTools(tools, {
      exposed,
      countTokens,
      ...(alwaysFull && { alwaysFull }),
      ...(called && { called }),
    })
    : { tools, exposed, tokensBefore: 0, tokensAfter: 0 };
  const request = { messages: fitted?.messages ?? messages, tools: shown.tools };
  return {
    ...request,
    tokens: countRequestTokens(request, countTokens),
    ...(fitted && fitted.removed.length > 0 && { context: fitted }),
    exposed: shown.exposed,
    saved: {
      context: fitted ? fitted.tokensBefore - fitted.tokensAfter : 0,
      schemas: shown.tokensBefore - shown.tokensAfter,
    },
  };
}

function calledTools(messages: readonly Message[]): ReadonlySet<string> {
  const calls = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  return new Set(calls.map((call) => describeCall(call).name));
}

/** Archives the old turns that requests leave out; remembers the last it did, as all requests of a turn leave out the same. */
class LeftTurns {
  #left: readonly Message[] = [];
  #line: Message | undefined;
  readonly #archive: Archive;

  constructor(archive: Archive) {
    this.#archive = archive;
  }

  /** The line that stands for them. @throws {Error} if they can't be archived. */
  async lineOf(left: readonly Message[], recall: boolean): Promise<Message> {
    const known = this.#line && left.length === this.#left.length &&
      left.every((message, at) => message === this.#left[at]);
    if (known && this.#line) return this.#line;
    const { ref, text } = await archiveMessages(left, { archive: this.#archive, purpose: "leave them out" });
    const bytes = bytesFromText(text).length;
    const content = formatPlaceholder({ of: "messages", messages: left.length, bytes, ref }, { recall });
    this.#left = left;
    return this.#line = { role: "user", content };
  }
}

interface LeftOut {
  readonly turns: number;
  readonly schemaTokens: number;
}

function leftOut({ context, saved }: FittedRequest): LeftOut {
  return { turns: context?.removedTurns ?? 0, schemaTokens: saved.schemas };
}

/** What a request leaves out that the one before still showed. */
function fittingRewrites(request: FittedRequest, before: LeftOut): Rewrite[] {
  const { tokens, saved } = request;
  const { turns, schemaTokens } = leftOut(request);
  const rewrites: Rewrite[] = [];
  if (turns > before.turns) {
    rewrites.push({
      mechanism: "context",
      reason: "old turns must fit in a budget during a tool loop",
      removed: howMany(turns, "old turn"),
      tokensBefore: tokens + saved.context,
      tokensAfter: tokens,
    });
  }
  if (schemaTokens > before.schemaTokens) {
    rewrites.push({
      mechanism: "schemas",
      reason: "the model has seen them in full",
      removed: "the prose of tool schemas",
      tokensBefore: tokens + saved.schemas,
      tokensAfter: tokens,
    });
  }
  return rewrites;
}

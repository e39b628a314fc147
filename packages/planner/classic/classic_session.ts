import { groupTurns } from "@tare/context";
import {
  countMessageTokens,
  countRequestTokens,
  type Message,
  type Rewrite,
  type Usage,
} from "@tare/messages";
import {
  type Elision,
  isColdResume,
  type PruneResult,
  pruneResults,
  relievePressure,
  truncateResults,
} from "@tare/prune";
import {
  type DropEdit,
  type ElideEdit,
  fittingEdits,
  leadingEdits,
  type SummariseEdit,
} from "../edits/edit.ts";
import { type Conversation, type PlacedView, placedView } from "../edits/view.ts";
import { migrateSessionState } from "../migrate_session_state.ts";
import {
  canRecall,
  counted,
  type ForkableSession,
  NO_MECHANISMS,
  oneByOne,
  type PromptCall,
  type PromptSessionOptions,
  type SessionView,
  stepOf,
} from "../prompt_session.ts";
import {
  calledTools,
  fitRequest,
  type FittedRequest,
  fittingRewrites,
  type LeftOut,
  leftOut,
  LeftTurns,
} from "./fit_request.ts";
import { askOnWarmPrefix, summaryEdit } from "./summaries.ts";

/** What a restart needs to go on as if nothing had happened. */
interface ClassicState {
  readonly edits: readonly ClassicEdit[];
  /** Hashes of the tools' definitions that the model has seen in full. */
  readonly exposed: readonly number[];
  readonly lastUsedAtMs?: number;
  /** What the provider counts for each token that we count; another tokenizer than ours counts more. */
  readonly scale: number;
  /** Whether people were told that the window stays full. */
  readonly pauseSaid: boolean;
  /** What the newest request kept out for itself alone: what people were told of. */
  readonly left: LeftOut;
  /** Whether everything is sent as it is. */
  readonly reverted: boolean;
}

const NEW_STATE: ClassicState = {
  edits: [],
  exposed: [],
  scale: 1,
  pauseSaid: false,
  left: { turns: 0, schemaTokens: 0 },
  reverted: false,
};

/** What stays as it is until the session ends, or a later summary takes it in. */
type ClassicEdit = StickyElision | SummariseEdit | DropEdit;

/** An elision, and what it keeps out of every request. */
interface StickyElision extends ElideEdit {
  readonly mechanism: "prune" | "truncate";
  readonly savedTokens: number;
}

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
export function classicSession(options: PromptSessionOptions): ForkableSession {
  const { profile, windowTokens = Infinity, archive, countTokens, tools, isError, triggers = {} } = options;
  checkTriggers(options);
  const { historyBudgetTokens, protectTokens, minBytes, pruneAt, summariseAt, coldAfterMs } = triggers;
  // What was stored is what `state` gave.
  const stored = migrateSessionState(options.state) as Partial<ClassicState> | undefined;
  let state: ClassicState = { ...NEW_STATE, ...stored };
  const configured = { context: true, prune: true, schemas: true, truncate: true, ...options.mechanisms };
  const leftTurns = new LeftTurns(archive);
  /** What changes once each view is sent; nothing for a request that isn't a turn. */
  const drafts = new WeakMap<SessionView, Pick<ClassicState, "exposed" | "lastUsedAtMs"> | undefined>();
  let newest: SessionView | undefined;
  /** The tools as the model saw them last. */
  let shownTools: Conversation["tools"] | undefined;

  /** What a request that isn't a turn is shown. */
  function look(history: Conversation): SessionView {
    const { messages, tools, places } = placedView(history, fittingEdits(state.edits, history.messages));
    newest = {
      messages,
      tools,
      places,
      rewrites: [],
      warnings: [],
      saved: savedBy(history.messages, { messages, schemas: 0 }),
      promptTokens: countRequestTokens({ messages, tools }, countTokens),
      predictedCachedTokens: 0,
    };
    drafts.set(newest, undefined);
    return newest;
  }

  async function makeView(history: Conversation, call: PromptCall): Promise<SessionView> {
    if (call.oneShot) return look(history);
    const mechanisms = state.reverted ? NO_MECHANISMS : configured;
    const recall = canRecall(history, call);
    const window = windowTokens / state.scale;
    const rewrites: Rewrite[] = [];
    const warnings: string[] = [];
    /** What a summary took. */
    let usage: Usage | undefined;
    const toolTokens = countRequestTokens({ messages: [], tools: history.tools }, countTokens);
    const turnStart = call.turnStart ?? groupTurns(history.messages).at(-1)?.start ?? 0;
    const isFirst = !history.messages.slice(turnStart).some(({ role }) => role === "assistant");
    const called = isFirst ? calledTools(history.messages) : undefined;
    const exposed = new Set(state.exposed);
    const eliding = {
      archive,
      countTokens,
      recall,
      windowTokens: window,
      ...(tools && { tools }),
      ...(isError && { isError }),
      ...(protectTokens !== undefined && { protectTokens }),
      ...(minBytes !== undefined && { minBytes }),
    };
    const fitting = fittingEdits(state.edits, history.messages);
    if (fitting.length < state.edits.length) state = { ...state, edits: fitting };
    let seen = placedView(history, state.edits);
    const activeMessages = seen.places.length - firstFrom(seen, turnStart);
    const fit = (messages: readonly Message[], on = mechanisms) =>
      fitRequest({ messages, tools: history.tools }, {
        ...options,
        mechanisms: on,
        historyBudgetTokens,
        activeMessages,
        exposed,
        called,
      });
    const rewrite = (edits: readonly ClassicEdit[], told: Omit<Rewrite, "tokensBefore" | "tokensAfter">) => {
      const replaced = new Set(edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
      const kept = state.edits.filter((edit) => edit.type !== "elide" || !replaced.has(edit.index));
      const tokensBefore = toolTokens + countRequestTokens({ messages: seen.messages }, countTokens);
      state = { ...state, edits: [...kept, ...edits] };
      seen = placedView(history, state.edits);
      const tokensAfter = toolTokens + countRequestTokens({ messages: seen.messages }, countTokens);
      rewrites.push({ ...told, tokensBefore, tokensAfter });
    };
    const elide = (
      elisions: readonly Elision[],
      told: { readonly mechanism: StickyElision["mechanism"]; readonly reason: string },
    ) => {
      if (elisions.length === 0) return;
      const edits = elisions.map(({ index, toolCallId, ref, text, tokensAfter }): StickyElision => {
        const place = seen.places[index] ?? -1;
        const original = history.messages[place];
        const tokensBefore = original ? countMessageTokens(original, countTokens) : 0;
        const savedTokens = tokensBefore - tokensAfter;
        return { type: "elide", index: place, toolCallId, ref, text, mechanism: told.mechanism, savedTokens };
      });
      rewrite(edits, { ...told, removed: describeElisions(elisions) });
    };
    const describePause = ({ tools, tokens }: FittedRequest) => {
      const start = seen.messages.length - activeMessages;
      const own = seen.messages.filter(({ role }, at) =>
        at >= start || role === "system" || role === "developer"
      );
      const needed = Math.ceil(countRequestTokens({ messages: own, tools }, countTokens) * state.scale);
      const why = needed >= (summariseAt ?? 0.9) * windowTokens
        ? `The window is too small for this turn: with instructions and tools it takes ${needed} of ${windowTokens} tokens`
        : `The window stays full: the prompt takes ${
          Math.ceil(tokens * state.scale)
        } of ${windowTokens} tokens, and all that may leave is less than a tenth of it`;
      return `${why}. Pruning and summaries pause until there is more to win.`;
    };
    const warn = ({ failure }: Pick<PruneResult, "failure">, rest = " Nothing left the prompt.") => {
      if (failure) warnings.push(`${failure.message.replace(/\.$/, "")}.${rest}`);
    };

    if (mechanisms.truncate) {
      const limitTokens = options.truncateTokens;
      const limit = limitTokens !== undefined && { limitTokens };
      const truncated = await truncateResults(seen.messages, { ...eliding, ...limit });
      warn(truncated);
      elide(truncated.elisions, { mechanism: "truncate", reason: "over the limit on arrival" });
    }
    const cold = {
      lastUsedAtMs: state.lastUsedAtMs,
      nowMs: call.nowMs,
      cacheColdAfterMs: coldAfterMs ?? profile.coldAfterMs,
    };
    if (mechanisms.prune && stepOf(history.messages, call) === 1 && isColdResume(cold)) {
      const pruned = await pruneResults(seen.messages, eliding);
      warn(pruned);
      const reason = "the session resumes after so long that the provider's cache is cold";
      elide(pruned.elisions, { mechanism: "prune", reason });
    }
    if (mechanisms.prune || mechanisms.context) {
      const { tokens } = fit(seen.messages);
      const full = `the prompt would fill ${
        Math.ceil(tokens * state.scale)
      } of the window's ${windowTokens} tokens`;
      const warm = seen;
      const tools = shownTools ?? history.tools;
      const ask = options.summarise &&
        askOnWarmPrefix(options.summarise, {
          ...{ ...warm, tools, windowTokens: window, progress: call.progress },
          told: (took) => usage = took,
        });
      const relief = await relievePressure(seen.messages, {
        ...eliding,
        ...(call.signal && { signal: call.signal }),
        ...(ask && { summarise: ask }),
        ...(pruneAt !== undefined && { pruneAt }),
        ...(summariseAt !== undefined && { summariseAt }),
        ...(!mechanisms.prune && { minBytes: Infinity }),
        ...(!mechanisms.context && { keepTokens: Infinity }),
        countPrompt: (messages) => fit(messages).tokens,
      });
      const { summary, failure, paused } = relief;
      elide(relief.elisions, { mechanism: "prune", reason: full });
      if (summary) {
        const { removed, edit } = summaryEdit(summary, warm);
        rewrite([edit], { mechanism: "summarise", reason: full, removed });
      }
      const more = relief.elisions.length > 0 ? " more" : "";
      warn(relief, summary ? "" : ` Nothing${more} left the prompt.`);
      if ((!failure || summary) && paused !== state.pauseSaid) {
        if (paused) warnings.push(describePause(fit(seen.messages)));
        state = { ...state, pauseSaid: paused };
      }
    }

    let fitted = fit(seen.messages);
    let { messages } = fitted;
    let places = placesOf(messages, seen);
    if (fitted.context) {
      const { left, leftAt } = fitted.context;
      try {
        messages = messages.toSpliced(leftAt, 0, await leftTurns.lineOf(left, recall));
        places = places.toSpliced(leftAt, 0, -1);
      } catch (error) {
        warn({ failure: error as Error });
        fitted = fit(seen.messages, { ...mechanisms, context: false });
        ({ messages } = fitted);
        places = seen.places;
      }
    }
    const left = leftOut(fitted);
    rewrites.push(...fittingRewrites(fitted, state.left));
    if (left.turns !== state.left.turns || left.schemaTokens !== state.left.schemaTokens) {
      state = { ...state, left };
    }
    shownTools = fitted.tools;
    newest = {
      messages,
      tools: fitted.tools,
      places,
      rewrites,
      warnings,
      saved: savedBy(history.messages, { messages, schemas: fitted.saved.schemas }),
      promptTokens: countRequestTokens({ messages, tools: fitted.tools }, countTokens),
      predictedCachedTokens: 0,
      ...(usage && { summary: usage }),
    };
    drafts.set(newest, { exposed: [...fitted.exposed], lastUsedAtMs: call.nowMs });
    return newest;
  }

  /** What each mechanism keeps out of a request. */
  function savedBy(
    history: readonly Message[],
    { messages, schemas }: { readonly messages: readonly Message[]; readonly schemas: number },
  ): SessionView["saved"] {
    const of = (mechanism: StickyElision["mechanism"]) =>
      state.edits.reduce(
        (sum, edit) => edit.type === "elide" && edit.mechanism === mechanism ? sum + edit.savedTokens : sum,
        0,
      );
    const [prune, truncate] = [of("prune"), of("truncate")];
    const all = countRequestTokens({ messages: history }, countTokens);
    const context = all - prune - truncate - countRequestTokens({ messages }, countTokens);
    return { context, schemas, prune, truncate };
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest) {
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
    get state() {
      return state;
    },
    profile,
    cutBack(length) {
      state = { ...state, edits: leadingEdits(state.edits, length) };
    },
    fork(length, archive) {
      const forked: ClassicState = { ...state, edits: leadingEdits(state.edits, length) };
      return classicSession({ ...options, archive, state: forked });
    },
    revert() {
      state = { ...state, edits: [], reverted: true };
    },
  };
}

function checkTriggers({ truncateTokens, triggers = {} }: PromptSessionOptions): void {
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

function describeElisions(elisions: readonly Elision[]): string {
  const tokens = elisions.reduce((sum, one) => sum + one.tokensBefore - one.tokensAfter, 0);
  const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
  return `${tokens} tokens of ${counted(elisions.length, "result")} of ${names}`;
}

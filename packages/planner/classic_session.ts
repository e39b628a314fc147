import { toolLoopContext } from "@tare/context";
import { countMessageTokens, countRequestTokens, type Message, type Rewrite } from "@tare/messages";
import {
  type Elision,
  isColdResume,
  pressure,
  type PruneResult,
  pruneResults,
  truncateResults,
} from "@tare/prune";
import { shownTools } from "@tare/schemas";
import { type ElideEdit, fittingEdits } from "./edits/edit.ts";
import { migrateSessionState } from "./migrate_session_state.ts";
import {
  canRecall,
  counted,
  oneByOne,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type SessionView,
  stepOf,
} from "./prompt_session.ts";
import { type Conversation, view } from "./edits/view.ts";

/** What a restart needs to go on as if nothing had happened. */
interface ClassicState {
  readonly edits: readonly StickyEdit[];
  /** Tools whose full schema the model has seen. */
  readonly exposed: readonly string[];
  readonly lastUsedAtMs?: number;
  /** What the provider counts for each token that we count; another tokenizer than ours counts more. */
  readonly scale: number;
}

const NEW_STATE: ClassicState = { edits: [], exposed: [], scale: 1 };

/** An elision that stays until the session ends, and what it keeps out of every request. */
interface StickyEdit extends ElideEdit {
  readonly mechanism: "prune" | "truncate";
  readonly savedTokens: number;
}

/** The messages and tools of a request, and what fitting them kept out. */
interface Fitted extends Conversation {
  readonly nowMs: number;
  readonly tokens: number;
  readonly removedTurns: number;
  readonly exposed: ReadonlySet<string>;
  readonly saved: { readonly context: number; readonly schemas: number };
}

/**
 * Applies the mechanisms by their classic triggers: huge results are truncated on arrival; old results are pruned when
 * the prompt reaches 0.8 of the window or the session resumes cold; from the second call of a turn on, old turns must
 * fit in a budget, and schemas that were shown are compact. It keeps no ledger and predicts no cache.
 */
export function classicSession(options: PromptSessionOptions): PromptSession {
  const { profile, windowTokens, archive, countTokens, tools, isError } = options;
  const mechanisms = { context: true, prune: true, schemas: true, truncate: true, ...options.mechanisms };
  // What was stored is what `state` gave.
  const stored = migrateSessionState(options.state) as Partial<ClassicState> | undefined;
  let state: ClassicState = { ...NEW_STATE, ...stored };
  const drafts = new WeakMap<SessionView, Fitted | undefined>();
  let newest: SessionView | undefined;

  function fit({ messages, tools }: Conversation, { nowMs, turnStart }: PromptCall): Fitted {
    const exposed = new Set(state.exposed);
    const fitted = mechanisms.context
      ? toolLoopContext(messages, {
        countTokens,
        ...(turnStart !== undefined && { activeTurnStart: turnStart }),
      })
      : { messages, tokensBefore: 0, tokensAfter: 0, removedTurns: 0 };
    const shown = mechanisms.schemas
      ? shownTools(tools, { exposed, countTokens })
      : { tools, exposed, tokensBefore: 0, tokensAfter: 0 };
    const request = { messages: fitted.messages, tools: shown.tools };
    return {
      ...request,
      nowMs,
      tokens: countRequestTokens(request, countTokens),
      removedTurns: fitted.removedTurns,
      exposed: shown.exposed,
      saved: {
        context: fitted.tokensBefore - fitted.tokensAfter,
        schemas: shown.tokensBefore - shown.tokensAfter,
      },
    };
  }

  /** Why old results have to go now; nothing while a warm history fits. */
  function pruneReason(draft: Fitted, step: number): string | undefined {
    if (!mechanisms.prune) return undefined;
    const { lastUsedAtMs } = state;
    const cold = { lastUsedAtMs, nowMs: draft.nowMs, cacheColdAfterMs: profile.coldAfterMs };
    if (step === 1 && isColdResume(cold)) {
      return "the session resumes after so long that the provider's cache is cold";
    }
    const promptTokens = Math.ceil(draft.tokens * state.scale);
    if (pressure({ promptTokens, windowTokens }) === "none") return undefined;
    return `the prompt would fill ${promptTokens} of the window's ${windowTokens} tokens`;
  }

  /** What a request that isn't a turn is shown. */
  function look(history: Conversation): SessionView {
    const { messages, tools } = view(history, fittingEdits(state.edits, history.messages));
    newest = {
      messages,
      tools,
      places: messages.map((_, place) => place),
      rewrites: [],
      warnings: [],
      saved: {
        context: 0,
        schemas: 0,
        prune: savedBy(state.edits, "prune"),
        truncate: savedBy(state.edits, "truncate"),
      },
      promptTokens: countRequestTokens({ messages, tools }, countTokens),
      predictedCachedTokens: 0,
    };
    drafts.set(newest, undefined);
    return newest;
  }

  async function makeView(history: Conversation, call: PromptCall): Promise<SessionView> {
    if (call.oneShot) return look(history);
    const recall = canRecall(history, call);
    const eliding = {
      archive,
      countTokens,
      recall,
      windowTokens,
      ...(tools && { tools }),
      ...(isError && { isError }),
    };
    const step = stepOf(history.messages, call);
    const rewrites: Rewrite[] = [];
    const warnings: string[] = [];
    const fitting = fittingEdits(state.edits, history.messages);
    if (fitting.length < state.edits.length) state = { ...state, edits: fitting };

    let seen = view(history, state.edits);
    const apply = (result: PruneResult, mechanism: StickyEdit["mechanism"], reason: string) => {
      if (result.failure) warnings.push(`${result.failure.message}. Nothing left the prompt.`);
      if (result.elisions.length === 0) return;
      const toolTokens = countRequestTokens({ messages: [], tools: history.tools }, countTokens);
      rewrites.push({
        mechanism,
        reason,
        removed: describe(result.elisions),
        tokensBefore: toolTokens + result.tokensBefore,
        tokensAfter: toolTokens + result.tokensAfter,
      });
      const replaced = new Set(result.elisions.map(({ index }) => index));
      const added = result.elisions.map(({ index, toolCallId, ref, text, tokensAfter }): StickyEdit => {
        const original = history.messages[index];
        const tokensBefore = original ? countMessageTokens(original, countTokens) : 0;
        const savedTokens = tokensBefore - tokensAfter;
        return { type: "elide", index, toolCallId, ref, text, mechanism, savedTokens };
      });
      const kept = state.edits.filter(({ index }) => !replaced.has(index));
      state = { ...state, edits: [...kept, ...added] };
      seen = { ...seen, messages: result.messages };
    };

    if (mechanisms.truncate) {
      apply(await truncateResults(seen.messages, eliding), "truncate", "over the limit on arrival");
    }
    let draft = fit(seen, call);
    const reason = pruneReason(draft, step);
    if (reason !== undefined) {
      apply(await pruneResults(seen.messages, eliding), "prune", reason);
      draft = fit(seen, call);
    }
    const before = step === 1 ? undefined : newest && drafts.get(newest);
    rewrites.push(...fittingRewrites(draft, before));
    const { edits } = state;
    newest = {
      messages: draft.messages,
      tools: draft.tools,
      places: placesOf(draft.messages, seen.messages),
      rewrites,
      warnings,
      saved: { ...draft.saved, prune: savedBy(edits, "prune"), truncate: savedBy(edits, "truncate") },
      promptTokens: draft.tokens,
      predictedCachedTokens: 0,
    };
    drafts.set(newest, draft);
    return newest;
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest) {
      if (!view || !drafts.has(view)) {
        throw new Error("Cannot book a call: this session viewed nothing for it");
      }
      const draft = drafts.get(view);
      if (!draft) return undefined;
      const scale = !usage || usage.estimated || draft.tokens === 0
        ? state.scale
        : Math.max(1, usage.promptTokens / draft.tokens);
      state = { ...state, exposed: [...draft.exposed], lastUsedAtMs: draft.nowMs, scale };
      return undefined;
    },
    get state() {
      return state;
    },
  };
}

/** What fitting left out that the request before still showed. */
function fittingRewrites(draft: Fitted, before: Fitted | undefined): Rewrite[] {
  const { tokens, saved, removedTurns } = draft;
  const rewrites: Rewrite[] = [];
  if (removedTurns > (before?.removedTurns ?? 0)) {
    rewrites.push({
      mechanism: "context",
      reason: "old turns must fit in a budget during a tool loop",
      removed: counted(removedTurns, "old turn"),
      tokensBefore: tokens + saved.context,
      tokensAfter: tokens,
    });
  }
  if (saved.schemas > (before?.saved.schemas ?? 0)) {
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

/** The position of each message in the list that it is from. */
function placesOf(kept: readonly Message[], messages: readonly Message[]): number[] {
  let at = -1;
  return kept.map((message) => at = messages.indexOf(message, at + 1));
}

function describe(elisions: readonly Elision[]): string {
  const tokens = elisions.reduce((sum, one) => sum + one.tokensBefore - one.tokensAfter, 0);
  const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
  return `${tokens} tokens of ${counted(elisions.length, "result")} of ${names}`;
}

function savedBy(edits: readonly StickyEdit[], mechanism: StickyEdit["mechanism"]): number {
  return edits.reduce((sum, edit) => edit.mechanism === mechanism ? sum + edit.savedTokens : sum, 0);
}

import { toolLoopContext } from "@tare/context";
import type { ContextRequest, ContextView, Rewrite } from "@tare/loop";
import { countMessageTokens, countRequestTokens } from "@tare/messages";
import { type Conversation, type ElideEdit, view } from "@tare/planner";
import {
  boundResults,
  type Elision,
  isColdResume,
  pressure,
  type PruneResult,
  pruneResults,
  RECALL_TOOL,
} from "@tare/prune";
import { shownTools } from "@tare/schemas";
import type { ContextOptions, SessionContext } from "./session_context.ts";

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
  readonly mechanism: "prune" | "bound";
  readonly savedTokens: number;
}

/** The messages and tools of a request, and what fitting them kept out. */
interface Draft extends Conversation {
  readonly tokens: number;
  readonly removedTurns: number;
  readonly exposed: ReadonlySet<string>;
  readonly saved: { readonly context: number; readonly schemas: number };
}

/**
 * Applies the mechanisms by their classic triggers: huge results are bounded on arrival; old results are pruned when
 * the prompt reaches 0.8 of the window or the session resumes cold; from the second call of a turn on, old turns must
 * fit in a budget, and schemas that were shown are compact.
 */
export function classicContext(options: ContextOptions): SessionContext {
  const { mechanisms, profile, windowTokens, archive, countTokens, notice, now = Date.now } = options;
  const tools = Object.fromEntries(options.tools.map((tool) => [tool.definition.function.name, tool]));
  const recall = RECALL_TOOL.function.name in tools;

  // What was stored is what `state` gave.
  let state = (options.state ?? NEW_STATE) as ClassicState;
  /** The newest request of this turn. */
  let sent: Draft | undefined;

  function fit({ messages, tools }: Conversation, turnStart: number): Draft {
    const exposed = new Set(state.exposed);
    const fitted = mechanisms.context
      ? toolLoopContext(messages, { countTokens, activeTurnStart: turnStart })
      : { messages, tokensBefore: 0, tokensAfter: 0, removedTurns: 0 };
    const shown = mechanisms.schemas
      ? shownTools(tools, { exposed, countTokens })
      : { tools, exposed, tokensBefore: 0, tokensAfter: 0 };
    const request = { messages: fitted.messages, tools: shown.tools };
    return {
      ...request,
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
  function pruneReason(draft: Draft, step: number): string | undefined {
    if (!mechanisms.prune) return undefined;
    const nowMs = now();
    const cacheColdAfterMs = profile.coldAfterMs;
    if (step === 1 && isColdResume({ lastUsedAtMs: state.lastUsedAtMs, nowMs, cacheColdAfterMs })) {
      return "the session resumes after so long that the provider's cache is cold";
    }
    const promptTokens = Math.ceil(draft.tokens * state.scale);
    if (pressure({ promptTokens, windowTokens }) === "none") return undefined;
    return `the prompt would fill ${promptTokens} of the window's ${windowTokens} tokens`;
  }

  return {
    async view(
      { messages: history, tools: definitions, turnStart, step }: ContextRequest,
    ): Promise<ContextView> {
      const eliding = { archive, countTokens, tools, recall, windowTokens };
      const rewrites: Rewrite[] = [];
      const warnings = step === 1 && notice !== undefined ? [notice] : [];

      let seen = view({ messages: history, tools: definitions }, state.edits);
      const apply = (result: PruneResult, mechanism: StickyEdit["mechanism"], reason: string) => {
        if (result.failure) warnings.push(`${result.failure.message}. Nothing left the prompt.`);
        if (result.elisions.length === 0) return;
        const toolTokens = countRequestTokens({ messages: [], tools: definitions }, countTokens);
        rewrites.push({
          mechanism,
          reason,
          removed: describe(result.elisions),
          tokensBefore: toolTokens + result.tokensBefore,
          tokensAfter: toolTokens + result.tokensAfter,
        });
        const replaced = new Set(result.elisions.map(({ index }) => index));
        const added = result.elisions.map(({ index, toolCallId, ref, text, tokensAfter }): StickyEdit => {
          const original = history[index];
          const tokensBefore = original ? countMessageTokens(original, countTokens) : 0;
          const savedTokens = tokensBefore - tokensAfter;
          return { type: "elide", index, toolCallId, ref, text, mechanism, savedTokens };
        });
        const kept = state.edits.filter(({ index }) => !replaced.has(index));
        state = { ...state, edits: [...kept, ...added] };
        seen = { ...seen, messages: result.messages };
      };

      if (mechanisms.bound) {
        apply(await boundResults(seen.messages, eliding), "bound", "over the limit on arrival");
      }
      let draft = fit(seen, turnStart);
      const reason = pruneReason(draft, step);
      if (reason !== undefined) {
        apply(await pruneResults(seen.messages, eliding), "prune", reason);
        draft = fit(seen, turnStart);
      }
      rewrites.push(...fittingRewrites(draft, step === 1 ? undefined : sent));
      sent = draft;
      const { edits } = state;
      const saved = { ...draft.saved, prune: savedBy(edits, "prune"), bound: savedBy(edits, "bound") };
      return {
        messages: draft.messages,
        tools: draft.tools,
        rewrites,
        saved,
        warnings,
        succeeded: ({ promptTokens, estimated = false }) => {
          const scale = estimated || draft.tokens === 0
            ? state.scale
            : Math.max(1, promptTokens / draft.tokens);
          state = { ...state, exposed: [...draft.exposed], lastUsedAtMs: now(), scale };
          return undefined;
        },
      };
    },

    get state() {
      return state;
    },
  };
}

/** What fitting left out that the request before still showed. */
function fittingRewrites(draft: Draft, before: Draft | undefined): Rewrite[] {
  const { tokens, saved, removedTurns } = draft;
  const rewrites: Rewrite[] = [];
  if (removedTurns > (before?.removedTurns ?? 0)) {
    rewrites.push({
      mechanism: "context",
      reason: "old turns must fit in a budget during a tool loop",
      removed: `${removedTurns} old turn${removedTurns === 1 ? "" : "s"}`,
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

function describe(elisions: readonly Elision[]): string {
  const tokens = elisions.reduce((sum, one) => sum + one.tokensBefore - one.tokensAfter, 0);
  const names = [...new Set(elisions.map(({ tool }) => tool))].join(", ");
  return `${tokens} tokens of ${elisions.length} result${elisions.length === 1 ? "" : "s"} of ${names}`;
}

function savedBy(edits: readonly StickyEdit[], mechanism: StickyEdit["mechanism"]): number {
  return edits.reduce((sum, edit) => edit.mechanism === mechanism ? sum + edit.savedTokens : sum, 0);
}

import type { ContextRequest, ContextView, Rewrite } from "@tare/loop";
import { countMessageTokens, countRequestTokens, type CountTokens, type Message } from "@tare/messages";
import {
  type Edit,
  type ElideEdit,
  KEEP_WANTED,
  type Plan,
  Planner,
  type PlannerState,
  type Retention,
  view,
} from "@tare/planner";
import { boundResults, RECALL_TOOL } from "@tare/prune";
import type { ContextOptions, Mechanisms, SessionContext } from "./session_context.ts";

/** What a restart needs to go on as if nothing had happened. */
interface PlannedState {
  readonly edits: readonly Edit[];
  /** Positions of results that show their head and tail, because they were over the limit on arrival. */
  readonly bounded: readonly number[];
  readonly planner?: PlannerState;
  /** Whether people were told that rewriting has stopped. */
  readonly stopSaid: boolean;
}

const NEW_STATE: PlannedState = { edits: [], bounded: [], stopSaid: false };

const STOPPED =
  "Rewriting has cost this session more than it saved; from now on only a full window changes its prompt.";

/**
 * Lets the planner decide when the mechanisms act: as soon as a rewrite pays, or the window is nearly full. Only a
 * huge result is bounded at once, before it is first sent, which rewrites nothing.
 */
export function plannerContext(options: ContextOptions & { readonly model: string }): SessionContext {
  const { mechanisms, profile, windowTokens, archive, countTokens, model, notice, now = Date.now } = options;
  const tools = Object.fromEntries(options.tools.map((tool) => [tool.definition.function.name, tool]));
  const recall = RECALL_TOOL.function.name in tools;
  // What was stored is what `state` gave.
  let state = (options.state ?? NEW_STATE) as PlannedState;
  const planner = new Planner({
    profile,
    archive,
    countTokens,
    windowTokens,
    recall,
    toolTraits: tools,
    retention: retentionOf(mechanisms),
    ...(options.summarise && { summarise: options.summarise }),
  }, state.planner);

  async function bound(history: readonly Message[]): Promise<Pick<ContextView, "rewrites" | "warnings">> {
    const { messages } = view({ messages: history, tools: [] }, state.edits);
    const bounded = await boundResults(messages, { archive, countTokens, tools, recall });
    if (bounded.failure) return { warnings: [`${bounded.failure.message}. Nothing left the prompt.`] };
    if (bounded.elisions.length === 0) return {};
    // New results stand at the end, where view and history are alike.
    const shift = history.length - messages.length;
    const edits = bounded.elisions.map(({ index, toolCallId, ref, text }): ElideEdit => ({
      type: "elide",
      index: index + shift,
      toolCallId,
      ref,
      text,
    }));
    state = {
      ...state,
      edits: [...state.edits, ...edits],
      bounded: [...state.bounded, ...edits.map(({ index }) => index)],
    };
    const names = [...new Set(bounded.elisions.map(({ tool }) => tool))].join(", ");
    return {
      rewrites: [{
        mechanism: "bound",
        reason: "over the limit on arrival",
        removed: `the middle of ${count(edits.length, "result")} of ${names}`,
        tokensBefore: bounded.tokensBefore,
        tokensAfter: bounded.tokensAfter,
      }],
    };
  }

  return {
    async view({ messages, tools: definitions, step, signal }: ContextRequest): Promise<ContextView> {
      const { rewrites = [], warnings = [] } = mechanisms.bound ? await bound(messages) : {};
      const request = { messages, tools: definitions, edits: state.edits, nowMs: now(), model, signal };
      const plan = await planner.plan(request);
      const stopsNow = planner.state.stopped && !state.stopSaid;
      // A state that is the same need not be stored again.
      if (plan.edits.length > 0 || stopsNow) {
        const replaced = new Set(plan.edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
        state = {
          ...state,
          edits: [...state.edits, ...plan.edits],
          bounded: state.bounded.filter((index) => !replaced.has(index)),
          stopSaid: planner.state.stopped,
        };
      }
      return {
        messages: plan.view.messages,
        tools: plan.view.tools,
        rewrites: [...rewrites, ...(plan.edits.length > 0 ? [describeRewrite(plan)] : [])],
        saved: savedTokens(plan, state, countTokens),
        warnings: [
          ...(step === 1 && notice !== undefined ? [notice] : []),
          ...(stopsNow ? [STOPPED] : []),
          ...warnings,
          ...plan.warnings,
        ],
        succeeded: (usage) => {
          const entry = planner.sent(plan, usage);
          state = { ...state, planner: planner.state };
          return entry;
        },
      };
    },
    get state() {
      return state;
    },
    quote: (conversation) => planner.quote({ ...conversation, edits: state.edits, nowMs: now(), model }),
  };
}

/** What may leave: a mechanism that is off takes nothing. */
function retentionOf({ context, prune, schemas }: Mechanisms): Retention {
  return {
    ...KEEP_WANTED,
    ...(!prune && { protectTokens: Infinity }),
    ...(!context && { historyTokens: Infinity }),
    ...(!schemas && { compactTools: false }),
  };
}

function describeRewrite({ edits, decision, tokensBefore, promptTokens }: Plan): Rewrite {
  const of = (type: Edit["type"]) => edits.filter((edit) => edit.type === type).length;
  const removed = [
    ...(of("elide") > 0 ? [count(of("elide"), "old result")] : []),
    ...(of("drop") > 0 ? ["old turns"] : []),
    ...(of("fold") > 0 ? ["old turns, summarised"] : []),
    ...(of("compact") > 0 ? [`the prose of ${count(of("compact"), "tool")}`] : []),
  ].join("; ");
  return {
    mechanism: "planner",
    reason: reasonOf(decision),
    removed,
    tokensBefore,
    tokensAfter: promptTokens,
  };
}

function reasonOf(decision: Plan["decision"]): string {
  if (decision?.cause !== "price") return "the window is nearly full";
  const { tokens, rent, price, alive, brokenTokens } = decision;
  const numbers = `${Math.round(tokens)} tokens leave, ${
    Math.round(brokenTokens)
  } cached ones are read again`;
  return price <= 0
    ? `it costs nothing now: ${numbers}, and the cache is warm with probability ${alive.toFixed(2)}`
    : `the rent of ${Math.round(rent)} has paid the price of ${Math.round(price)}: ${numbers}`;
}

/** What each mechanism keeps out of this very request. */
function savedTokens(
  { request, view: seen, promptTokens }: Plan,
  { edits, bounded }: PlannedState,
  countTokens: CountTokens,
): Record<keyof Mechanisms, number> {
  const dropped = edits.filter((edit) => edit.type === "drop" || edit.type === "fold");
  const elided = new Map(edits.flatMap((edit) => edit.type === "elide" ? [[edit.index, edit]] : []));
  const saved = { context: 0, prune: 0, schemas: 0, bound: 0 };
  const toolTokens = (tools: typeof request.tools) =>
    countRequestTokens({ messages: [], tools }, countTokens);
  saved.schemas = toolTokens(request.tools) - toolTokens(seen.tools);
  const { messages } = view({ messages: request.messages, tools: [] }, [...elided.values()]);
  for (const index of elided.keys()) {
    const [original, shown] = [request.messages[index], messages[index]];
    if (!original || !shown || dropped.some(({ from, to }) => index >= from && index < to)) continue;
    const tokens = countMessageTokens(original, countTokens) - countMessageTokens(shown, countTokens);
    saved[bounded.includes(index) ? "bound" : "prune"] += tokens;
  }
  const all = countRequestTokens(request, countTokens) - promptTokens;
  return { ...saved, context: all - saved.schemas - saved.prune - saved.bound };
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

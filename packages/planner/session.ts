import {
  addUsage,
  countMessageTokens,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Rewrite,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { type Archive, truncateResults } from "@tare/prune";
import { type Edit, type ElideEdit, fittingEdits } from "./edits/edit.ts";
import { type FullWindow, NEVER_FULL } from "./edits/full_window.ts";
import type { Plan } from "./rule/plan.ts";
import { migrateSessionState } from "./migrate_session_state.ts";
import { Planner } from "./rule/planner.ts";
import { NEW_SESSION, type PlannerState } from "./rule/planner_state.ts";
import type { Profile } from "./providers.ts";
import {
  canRecall,
  counted,
  type Mechanisms,
  oneByOne,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type SessionView,
} from "./prompt_session.ts";
import { KEEP_WANTED, type Retention } from "./retention/retention.ts";
import { type Conversation, placeMessages } from "./edits/view.ts";

/** A {@linkcode PromptSession} whose planner decides when the mechanisms act. */
export interface PlannerSession extends PromptSession {
  /** What a request for this history would cost, as it stands and without everything that could leave now. */
  readonly quote: NonNullable<PromptSession["quote"]>;
  /** The cache rules and prices that it goes by. */
  readonly profile: Profile;
  /** Forgets the edits of all but the first `length` messages: the history went back there. */
  cutBack(length: number): void;
  /**
   * A new session with what this one knows of the first `length` messages. It owes and has saved nothing, and archives
   * to an archive of its own, which must hold what this one's holds.
   */
  fork(length: number, archive: Archive): PlannerSession;
  /** Forgets all edits: from now on everything is sent as it is. */
  revert(): void;
}

/** What a restart needs to go on as if nothing had happened. */
interface SessionState {
  readonly edits: readonly Edit[];
  /** Positions of results that show their head and tail, because they were over the limit on arrival. */
  readonly truncated: readonly number[];
  readonly planner: PlannerState;
  /** What is remembered of its full window. */
  readonly fullWindow: FullWindow;
  /** What summaries took that no call was booked with yet. */
  readonly summary?: Usage;
  /** Whether people were told that rewriting has stopped. */
  readonly stopSaid: boolean;
  /** Whether everything is sent as it is. */
  readonly reverted: boolean;
}

const NEW_STATE: SessionState = {
  edits: [],
  truncated: [],
  planner: NEW_SESSION,
  fullWindow: NEVER_FULL,
  stopSaid: false,
  reverted: false,
};

const STOPPED =
  "Rewriting has cost this session more than it saved; from now on only a full window changes its prompt.";

/**
 * Lets the planner decide when the mechanisms act: as soon as the rent paid for carrying what could leave equals the
 * price of reading again what stands behind it, or the window is nearly full. Only a huge result is truncated at
 * once, before it is first sent, which rewrites nothing.
 */
export function plannerSession(options: PromptSessionOptions): PlannerSession {
  const { archive, countTokens, tools } = options;
  // What was stored is what `state` gave.
  const stored = migrateSessionState(options.state) as Partial<SessionState> | undefined;
  let state: SessionState = { ...NEW_STATE, ...stored };
  const mechanisms = { context: true, prune: true, schemas: true, truncate: true, ...options.mechanisms };
  const makePlanner = () =>
    new Planner({
      ...options,
      relievesWindow: mechanisms.context && !state.reverted,
      retention: retentionOf(state.reverted ? NO_MECHANISMS : mechanisms, options.retention),
    }, state.planner);
  let planner = makePlanner();
  const plans = new WeakMap<SessionView, Plan>();
  let newest: SessionView | undefined;

  /** Cuts new results that are too long, before they are first sent. */
  async function truncate(
    history: readonly Message[],
    recall: boolean,
  ): Promise<Pick<SessionView, "rewrites" | "warnings">> {
    const { messages } = placeMessages(history, state.edits);
    const cut = await truncateResults(messages, { archive, countTokens, recall, ...(tools && { tools }) });
    if (cut.failure) return { rewrites: [], warnings: [`${cut.failure.message}. Nothing left the prompt.`] };
    if (cut.elisions.length === 0) return { rewrites: [], warnings: [] };
    // New results stand at the end, where view and history are alike.
    const shift = history.length - messages.length;
    const edits = cut.elisions.map(({ index, toolCallId, ref, text }): ElideEdit => ({
      type: "elide",
      index: index + shift,
      toolCallId,
      ref,
      text,
    }));
    state = {
      ...state,
      edits: [...state.edits, ...edits],
      truncated: [...state.truncated, ...edits.map(({ index }) => index)],
    };
    const names = [...new Set(cut.elisions.map(({ tool }) => tool))].join(", ");
    const { tokensBefore, tokensAfter } = cut;
    return {
      rewrites: [{
        mechanism: "truncate",
        reason: "over the limit on arrival",
        removed: `the middle of ${counted(edits.length, "result")} of ${names}`,
        tokensBefore,
        tokensAfter,
      }],
      warnings: [],
    };
  }

  function requestOf(history: Conversation, call: PromptCall) {
    return {
      ...call,
      ...history,
      recall: canRecall(history, call),
      edits: state.edits,
      fullWindow: state.fullWindow,
    };
  }

  async function makeView(history: Conversation, call: PromptCall): Promise<SessionView> {
    const edits = fittingEdits(state.edits, history.messages);
    if (edits.length < state.edits.length) state = { ...state, edits };
    const truncates = mechanisms.truncate && !state.reverted;
    const { rewrites, warnings } = truncates
      ? await truncate(history.messages, canRecall(history, call))
      : { rewrites: [], warnings: [] };
    const plan = await planner.plan(requestOf(history, call));
    const { stopped } = planner.state;
    const stopsNow = stopped && !state.stopSaid;
    if (plan.fullWindow !== state.fullWindow) state = { ...state, fullWindow: plan.fullWindow };
    if (plan.summary) {
      state = { ...state, summary: state.summary ? addUsage(state.summary, plan.summary) : plan.summary };
    }
    // A state that is the same need not be stored again.
    if (plan.edits.length > 0 || stopsNow) {
      const replaced = new Set(plan.edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
      state = {
        ...state,
        edits: [...plan.request.edits, ...plan.edits],
        truncated: state.truncated.filter((index) => !replaced.has(index)),
        stopSaid: stopped,
      };
    }
    const { messages, tools, places } = plan.view;
    newest = {
      messages,
      tools,
      places,
      rewrites: [...rewrites, ...(plan.edits.length > 0 ? [describeRewrite(plan)] : [])],
      warnings: [...(stopsNow ? [STOPPED] : []), ...warnings, ...plan.warnings],
      saved: savedTokens(plan, state, countTokens),
      promptTokens: plan.promptTokens,
      // What was sent before is forgotten as soon as this call has succeeded.
      predictedCachedTokens: planner.predictCached(plan),
    };
    plans.set(newest, plan);
    return newest;
  }

  return {
    view: oneByOne(makeView),
    sent(usage, view = newest) {
      const plan = view && plans.get(view);
      if (!plan) throw new Error("Cannot book a call: this session viewed nothing for it");
      const { summary, ...rest } = state;
      const entry = planner.sent(plan, usage, summary);
      state = { ...rest, planner: planner.state };
      return entry;
    },
    get state() {
      return state;
    },
    quote: (history, call) => planner.quote(requestOf(history, call)),
    get profile() {
      return planner.profile;
    },
    cutBack(length) {
      state = { ...state, ...cutBack(state, length) };
    },
    fork(length, archive) {
      const account = { ...planner.state, paid: 0, resend: 0, stopped: false };
      const { summary: _, ...rest } = state;
      const forked: SessionState = {
        ...rest,
        ...cutBack(state, length),
        planner: account,
        stopSaid: false,
      };
      return plannerSession({ ...options, archive, state: forked });
    },
    revert() {
      state = { ...state, edits: [], truncated: [], reverted: true };
      planner = makePlanner();
    },
  };
}

const NO_MECHANISMS: Mechanisms = { context: false, prune: false, schemas: false, truncate: false };

/** What may leave: a mechanism that is off takes nothing. */
function retentionOf({ context, prune, schemas }: Mechanisms, retention = KEEP_WANTED): Retention {
  return {
    ...retention,
    ...(!prune && { protectTokens: Infinity }),
    ...(!context && { historyTokens: Infinity }),
    ...(!schemas && { compactTools: false }),
  };
}

/** What holds for the first `length` messages. */
function cutBack({ edits, truncated }: SessionState, length: number) {
  return {
    edits: edits.filter((edit) =>
      edit.type === "compact" || ("index" in edit ? edit.index < length : edit.to <= length)
    ),
    truncated: truncated.filter((index) => index < length),
  };
}

function describeRewrite({ edits, decision, tokensBefore, promptTokens }: Plan): Rewrite {
  const of = (type: Edit["type"]) => edits.filter((edit) => edit.type === type).length;
  const removed = [
    ...(of("elide") > 0 ? [counted(of("elide"), "old result")] : []),
    ...(of("drop") > 0 ? ["old turns"] : []),
    ...(of("summarise") > 0 ? ["old turns, summarised"] : []),
    ...(of("shorten") > 0 ? [`the middle of ${counted(of("shorten"), "text")} of the user`] : []),
    ...(of("compact") > 0 ? [`the prose of ${counted(of("compact"), "tool")}`] : []),
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
  { edits, truncated }: SessionState,
  countTokens: CountTokens,
): SessionView["saved"] {
  const dropped = edits.filter((edit) => edit.type === "drop" || edit.type === "summarise");
  const elided = new Set(edits.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
  const saved = { context: 0, prune: 0, schemas: 0, truncate: 0 };
  const toolTokens = (tools: readonly ToolDefinition[]) =>
    countRequestTokens({ messages: [], tools }, countTokens);
  saved.schemas = toolTokens(request.tools) - toolTokens(seen.tools);
  for (const index of elided) {
    const [original, shown] = [request.messages[index], seen.elided[index]];
    if (!original || !shown || dropped.some(({ from, to }) => index >= from && index < to)) continue;
    const tokens = countMessageTokens(original, countTokens) - countMessageTokens(shown, countTokens);
    saved[truncated.includes(index) ? "truncate" : "prune"] += tokens;
  }
  const all = countRequestTokens(request, countTokens) - promptTokens;
  return { ...saved, context: all - saved.schemas - saved.prune - saved.truncate };
}

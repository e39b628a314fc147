import { argumentsParser } from "@tare/loop/arguments";
import type { Store } from "@tare/session";
import { type NextState, SessionRecords, stateRecords, type StoreRecord } from "@tare/session/internal";
import type { AnsweredCall, Journal, LoopEvent, TurnEnd, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import {
  type Content,
  contentText,
  type Message,
  type Tool,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import {
  describeCall,
  meantCall,
  planAfter,
  toolResultMessage,
  type WorkPlan,
} from "@tare/messages/internal";
import {
  answeredCalls,
  approvalsAfter,
  deniedResult,
  NO_APPROVALS,
  openCalls,
  type SessionApprovals,
} from "../approvals/approvals.ts";
import { notFound } from "../http/http_error.ts";
import { eventsOf } from "./event_log.ts";
import {
  type OpenTurn,
  OWN_AGENT,
  type SessionEvent,
  type StoredTurn,
  type SubagentLink,
} from "./session_types.ts";
import type { ApprovalOptions } from "./session_options.ts";

/** Events that change the history; the others report progress. */
export const HISTORY_EVENTS: readonly SessionEvent["type"][] = [
  "message_added",
  "turn_start",
  "turn_resumed",
  "user_message",
  "assistant_message",
  "tool_result",
  "approval_requested",
  "approval_answered",
  "step_end",
  "reply_unfinished",
  "turn_end",
  "subagent_started",
];

interface RestingHistory {
  readonly messages: readonly Message[];
  readonly ledger: TurnLedger;
  readonly turns: number;
  readonly questions: SessionApprovals;
}

const NO_TEXT: RestingHistory = {
  messages: [],
  ledger: EMPTY_LEDGER,
  turns: 0,
  questions: NO_APPROVALS,
};

/** The history up to an event; later events continue from it. */
export interface KnownHistory extends RestingHistory {
  readonly after: number;
  readonly links: readonly SubagentLink[];
}

interface RebuiltHistory extends RestingHistory {
  /** The missing part of a turn that never ended; absent if all ended. */
  readonly interrupted?: {
    readonly step: number;
    readonly isReplied: boolean;
    readonly unanswered: readonly UnansweredCall[];
    readonly resumed: number;
    readonly answer?: string;
    readonly ledger: TurnLedger;
  };
}

interface UnansweredCall {
  readonly call: ToolCall;
  readonly denied?: string | undefined;
  readonly parent?: string;
}

function ledgerOf(
  { usage, cost }: Extract<SessionEvent, { readonly type: "step_end" | "reply_unfinished" }>,
): TurnLedger {
  const { promptTokens, cachedTokens, outputTokens, estimated = false } = usage;
  return { calls: 1, promptTokens, cachedTokens, outputTokens, saved: {}, estimated, ...cost };
}

/**
 * Rebuilds a history from its events, as the loop made it: each reply is followed by the results of its calls, in the
 * order of the calls. Only {@linkcode HISTORY_EVENTS} change it. `before` is the state before the events. Default: an
 * empty session.
 */
export function rebuildHistory(
  events: Iterable<SessionEvent>,
  before: Partial<RestingHistory> = {},
): RebuiltHistory {
  let { ledger, turns, questions } = { ...NO_TEXT, ...before };
  const messages = [...before.messages ?? []];
  let turn: { step: number; ledger: TurnLedger; isReplied: boolean; resumed: number } | undefined;
  let calls: readonly ToolCall[] = [];
  let answers = new Map<string, ToolMessage>();
  let opening: number | undefined;
  let continues = false;

  const settle = () => {
    for (const { id } of calls) {
      const answer = answers.get(id);
      if (answer) messages.push(answer);
    }
    calls = [];
    answers = new Map();
  };

  for (const event of events) {
    questions = approvalsAfter(questions, event);
    switch (event.type) {
      case "message_added":
        // Messages that are added to a turn that has begun precede its input.
        messages.splice(opening ?? messages.length, 0, event.message);
        if (opening !== undefined) opening++;
        break;
      case "turn_start":
        turn = { step: 1, ledger: EMPTY_LEDGER, isReplied: false, resumed: 0 };
        continues = event.input === undefined && turns > 0;
        opening = messages.length;
        calls = openCalls(messages);
        if (event.input !== undefined) messages.push({ role: "user", content: event.input });
        break;
      case "user_message":
        settle();
        messages.push({ role: "user", content: event.input });
        break;
      case "assistant_message":
        opening = undefined;
        settle();
        messages.push(event.message);
        calls = event.message.tool_calls ?? [];
        if (turn) turn = { ...turn, step: event.step, isReplied: true };
        break;
      case "turn_resumed":
        if (turn) turn = { ...turn, step: event.step, isReplied: false, resumed: turn.resumed + 1 };
        break;
      case "tool_result":
        if (event.parent !== undefined) {
          // The program made progress, so it doesn't crash every process that resumes it.
          if (turn) turn = { ...turn, resumed: 0 };
          break;
        }
        answers.set(
          event.id,
          toolResultMessage(event.id, event.content, { images: event.images, failed: event.error }),
        );
        break;
      case "step_end":
        settle();
        if (turn) {
          const ledger = addLedgers(turn.ledger, ledgerOf(event));
          turn = { step: event.step + 1, ledger, isReplied: false, resumed: 0 };
        }
        break;
      case "reply_unfinished":
        if (turn) turn = { ...turn, ledger: addLedgers(turn.ledger, ledgerOf(event)) };
        break;
      case "turn_end":
        settle();
        ledger = addLedgers(ledger, event.ledger);
        if (!continues) turns += 1;
        continues = false;
        turn = undefined;
        opening = undefined;
        break;
    }
  }
  if (!turn) return { messages, ledger, turns, questions };
  const { settled } = questions;
  const unanswered = calls.filter(({ id }) => !answers.has(id))
    .map((call) => ({ call, denied: deniedResult(settled, call) }));
  settle();
  const last = messages.at(-1);
  const answer = last?.role === "assistant" && unanswered.length === 0
    ? contentText(last.content) || last.refusal || ""
    : undefined;
  const interrupted = { ...turn, unanswered, ...(answer !== undefined && { answer }) };
  return { messages, ledger: addLedgers(ledger, turn.ledger), turns, questions, interrupted };
}

export interface RecoveryOptions {
  readonly tools: readonly Tool[];
  readonly waiting: readonly Content[];
  readonly subagents?: readonly StoredSubagent[];
  readonly end: Pick<TurnEnd, "reason" | "message">;
}

export const INTERRUPTED: RecoveryOptions["end"] = {
  reason: "interrupted",
  message: "The server stopped during this turn. The turn can be continued.",
};

/**
 * Returns a stored history with the system message, the events that its last turn lacks, and the inputs that still
 * wait; `rebuilt` includes the events.
 */
export async function readHistory(
  id: string,
  { store, instructions, end, known, continues, unknownOutcome, ...options }:
    & Omit<RecoveryOptions, "waiting" | "end">
    & {
      readonly known?: KnownHistory | undefined;
      /** End of a turn that has none. Absent: it runs elsewhere. */
      readonly end?: RecoveryOptions["end"] | undefined;
      readonly continues: boolean;
      readonly unknownOutcome: ApprovalOptions["unknownOutcome"];
      readonly store: Store;
      /** Start of the system message. No message if this and the description of the environment are empty. */
      readonly instructions: string;
    },
): Promise<{
  readonly rebuilt: RebuiltHistory;
  readonly links: readonly SubagentLink[];
  readonly recovery: readonly LoopEvent[];
  readonly waiting: readonly Content[];
  readonly runningAfter?: number;
  readonly open?: OpenTurn;
  readonly known: KnownHistory;
}> {
  const from = known ?? {
    ...{ ...NO_TEXT, after: 0, links: [] },
    messages: systemMessage(instructions, await store.readState(id, "environment")),
  };
  const stored = await store.readEvents(id, { after: from.after, types: HISTORY_EVENTS });
  const events = eventsOf(stored);
  const rebuilt = rebuildHistory(events, from);
  const waiting = (await store.readState(id, "steering") ?? []) as readonly Content[];
  const links = [...from.links, ...subagentLinks(events)];
  if (!rebuilt.interrupted) {
    const { messages, ledger, turns, questions } = rebuilt;
    const resting = { messages, ledger, turns, questions, links, after: stored.at(-1)?.number ?? from.after };
    return { rebuilt, links, recovery: [], waiting, known: resting };
  }
  const start = events.findLastIndex(({ type }) => type === "turn_start");
  const runningAfter = stored[start]!.number - 1;
  const before = events.slice(0, start);
  const { messages, ledger: spent, turns, questions } = rebuildHistory(before, from);
  const resting = { messages, ledger: spent, turns };
  const standing = {
    ...{ rebuilt: { ...resting, questions: rebuilt.questions }, links, recovery: [] },
    known: { ...resting, questions, links: [...from.links, ...subagentLinks(before)], after: runningAfter },
  };
  if (!end) return { ...standing, waiting: [], runningAfter };
  const subagents = await readSubagents(subagentLinks(events.slice(start)), store);
  const journals = await readJournals(id, rebuilt.interrupted.unanswered, { ...options, store });
  const made = [...journals].flatMap(([parent, journal]) => unknownCalls(parent, journal));
  await clearUp([...rebuilt.interrupted.unanswered, ...made], options.tools);
  const ledger = addLedgers(rebuilt.interrupted.ledger, costOf(subagents));
  const cut = { ...rebuilt.interrupted, ledger };
  const request = continues && !isAnswered(cut, waiting)
    ? (await store.readState(id, "turn") ?? undefined) as StoredTurn | undefined
    : undefined;
  if (request && cut.resumed < MAX_RESUMED) {
    const { received, calls } = settleCalls(cut, { ...options, subagents, request, unknownOutcome, made });
    const step = cut.isReplied ? cut.step + 1 : cut.step;
    const all = rebuildHistory([...events.slice(start), ...received], { messages }).messages;
    const isFresh = ({ question: { id, parent } }: AnsweredCall) =>
      parent !== undefined && !journals.get(parent)?.made.has(id);
    const answered = answeredCalls(rebuilt.questions.settled, calls).filter(isFresh);
    const resumed = { messages: all.slice(messages.length), step, ledger, calls, answered };
    const next = [...received, { type: "turn_resumed", step } as const];
    return { ...standing, waiting, open: { before: runningAfter, request, resumed, events: next } };
  }
  const ended = request ? { ...end, message: GIVEN_UP } : end;
  const recovery = recoveryEvents(cut, { ...options, end: ended, subagents, waiting });
  return { ...standing, rebuilt: rebuildHistory([...events, ...recovery], from), recovery, waiting: [] };
}

export function systemMessage(instructions: string, environmentText: unknown): readonly Message[] {
  const content = [instructions, environmentText].filter(Boolean).join("\n\n");
  return content === "" ? [] : [{ role: "system", content }];
}

/** Most processes in a row that continue a step, which may crash each. */
const MAX_RESUMED = 3;

const GIVEN_UP =
  `The server stopped during this turn, and ${MAX_RESUMED} more times when it continued. The turn can ` +
  "be continued.";

function settleCalls(
  { unanswered, ...cut }: NonNullable<RebuiltHistory["interrupted"]>,
  { tools, subagents, request: { unattended }, unknownOutcome = "report", made }:
    & Pick<Required<RecoveryOptions>, "tools" | "subagents">
    & {
      readonly request: StoredTurn;
      readonly unknownOutcome: ApprovalOptions["unknownOutcome"];
      readonly made: readonly UnansweredCall[];
    },
): { readonly received: readonly LoopEvent[]; readonly calls: readonly ToolCall[] } {
  const isLeft = ({ call, denied, parent }: UnansweredCall) => {
    if (denied !== undefined || subagents.some(({ id }) => id === call.id)) return false;
    // A program is replayed, and can't decide to read again.
    if (parent === undefined ? isReplayed(call, tools) : toolOf(call, tools)?.stance === "rederivable") {
      return true;
    }
    if (unknownOutcome === "ask") return unattended === undefined && !isRepeatable(call, tools);
    return unknownOutcome === "repeat" && isRepeatable(call, tools);
  };
  const received = [...made, ...unanswered].filter((one) => !isLeft(one));
  return {
    received: resultsOf({ ...cut, unanswered: received }, { tools, subagents }),
    calls: unanswered.filter(isLeft).map(({ call }) => call),
  };
}

function unknownCalls(parent: string, { made, results }: Journal): readonly UnansweredCall[] {
  return [...made].filter(([id]) => !results.some((result) => result.id === id))
    .map(([id, call]) => ({ call: { id, type: "function", function: call }, parent }));
}

async function clearUp(calls: readonly UnansweredCall[], tools: readonly Tool[]): Promise<void> {
  for (const { call } of calls) {
    const tool = toolOf(call, tools);
    if (!tool?.clearUp) continue;
    const args = argumentsParser(tool.definition)(meantCall(call).arguments);
    if (args.ok) await tool.clearUp(args.value, { callId: call.id });
  }
}

/** The events of nested calls record its effects. */
function isReplayed(call: ToolCall, tools: readonly Tool[]): boolean {
  return toolOf(call, tools)?.replays ?? false;
}

const JOURNAL_EVENTS: readonly SessionEvent["type"][] = [
  "assistant_message",
  "tool_call",
  "tool_result",
  "approval_requested",
];

/** Returns the calls that the newest call of this id has made; `undefined` if there are none. @throws {StoreError} */
export async function readJournal(
  id: string,
  { id: parent }: ToolCall,
  store: Store,
): Promise<Journal | undefined> {
  const starts = await store.readEvents(id, { types: ["turn_start"] });
  const start = starts.findLast(({ event }) => "input" in event && event.input !== undefined) ?? starts[0];
  const after = start ? start.number - 1 : 0;
  const stored = await store.readEvents(id, { after, types: JOURNAL_EVENTS });
  let beganAtMs: number | undefined;
  const made = new Map<string, { readonly name: string; readonly arguments: string }>();
  const results = new Map<string, Journal["results"][number]>();
  for (const event of eventsOf(stored)) {
    if (event.type === "assistant_message" && event.message.tool_calls?.some((call) => call.id === parent)) {
      beganAtMs = undefined;
      made.clear();
      results.clear();
    }
    if (!("parent" in event) || event.parent !== parent) continue;
    if ("beganAtMs" in event) beganAtMs ??= event.beganAtMs;
    if (event.type === "tool_call") made.set(event.id, { name: event.name, arguments: event.arguments });
    if (event.type === "tool_result") {
      results.set(event.id, { id: event.id, content: event.content, error: event.error });
    }
  }
  return beganAtMs === undefined ? undefined : { beganAtMs, made, results: [...results.values()] };
}

async function readJournals(
  id: string,
  unanswered: readonly UnansweredCall[],
  { tools, store }: { readonly tools: readonly Tool[]; readonly store: Store },
): Promise<ReadonlyMap<string, Journal>> {
  const journals = new Map<string, Journal>();
  for (const { call } of unanswered) {
    const journal = isReplayed(call, tools) ? await readJournal(id, call, store) : undefined;
    if (journal) journals.set(call.id, journal);
  }
  return journals;
}

function isRepeatable(call: ToolCall, tools: readonly Tool[]): boolean {
  const tool = toolOf(call, tools);
  return call.type === "function" && (tool?.stance === "rederivable" || tool?.hints?.idempotentHint === true);
}

function toolOf(call: ToolCall, tools: readonly Tool[]): Tool | undefined {
  return tools.find(({ definition }) => definition.function.name === meantCall(call).name);
}

function isAnswered(
  { answer }: Pick<NonNullable<RebuiltHistory["interrupted"]>, "answer">,
  waiting: readonly Content[],
): boolean {
  return answer !== undefined && waiting.length === 0;
}

export interface RebuiltSession {
  readonly id: string;
  readonly history: readonly Message[];
  readonly runningAfter: number | undefined;
  readonly subagents: { readonly ledger: TurnLedger };
}

export interface Transcript {
  readonly messages: readonly Message[];
  readonly turn?: {
    readonly after: number;
    readonly firstMessage: number;
    readonly step: number;
    readonly ledger: TurnLedger;
  };
}

/** Reads all messages, including the committed part of the running turn. @throws {StoreError} */
export async function readTranscript(
  { id, history, runningAfter: after, subagents }: RebuiltSession,
  store: Store,
): Promise<Transcript> {
  if (after === undefined) return { messages: history };
  const events = eventsOf(await store.readEvents(id, { after, types: HISTORY_EVENTS }));
  const { messages, interrupted } = rebuildHistory(events, { messages: history });
  return {
    messages,
    ...(interrupted && {
      turn: {
        after,
        firstMessage: history.length,
        step: interrupted.step,
        ledger: addLedgers(interrupted.ledger, subagents.ledger),
      },
    }),
  };
}

export function planIn(messages: readonly Message[]): WorkPlan | undefined {
  const calls = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  return calls.reduce<WorkPlan | undefined>((plan, call) => planAfter(plan, describeCall(call)), undefined);
}

/**
 * Returns the number of messages before the turn that begins after this event. @throws {HttpError} 404 if none does.
 */
export async function lengthBefore(
  id: string,
  { turn, instructions, store }: {
    readonly turn: number;
    readonly instructions: string;
    readonly store: Store;
  },
): Promise<number> {
  const events = await store.readEvents(id, { types: HISTORY_EVENTS });
  if (
    !events.some(({ number, event }) => number === turn + 1 && event.type === "turn_start")
  ) {
    throw notFound(`Cannot go back in session ${id}: no turn begins after event ${turn}.`);
  }
  const before = events.filter(({ number }) => number <= turn);
  const messages = systemMessage(instructions, await store.readState(id, "environment"));
  return rebuildHistory(eventsOf(before), { messages }).messages.length;
}

/**
 * Returns the events that end an interrupted turn: an error result for each open call, inputs that no model call has
 * received, and the end. Nothing is run again. A turn whose answer is stored is completed.
 */
export function recoveryEvents(
  cut: Omit<NonNullable<RebuiltHistory["interrupted"]>, "isReplied" | "resumed">,
  { tools, waiting, end, subagents = [] }: RecoveryOptions,
): LoopEvent[] {
  const { step, answer, ledger } = cut;
  const isComplete = isAnswered(cut, waiting) && end.reason === "interrupted";
  return [
    ...resultsOf(cut, { tools, subagents }),
    ...waiting.map((input): LoopEvent => ({ type: "user_message", step, input })),
    { type: "turn_end", text: answer ?? "", ledger, ...(isComplete ? { reason: "completed" } : end) },
  ];
}

function resultsOf(
  { step, unanswered }: Pick<NonNullable<RebuiltHistory["interrupted"]>, "step" | "unanswered">,
  { tools, subagents }: Pick<Required<RecoveryOptions>, "tools" | "subagents">,
): readonly LoopEvent[] {
  return unanswered.map(({ call, denied, parent }): LoopEvent => {
    const { name } = describeCall(call);
    const tool = toolOf(call, tools);
    const subagent = subagents.find(({ id }) => id === call.id);
    const { content, error } = denied !== undefined
      ? { content: denied, error: true }
      : subagent
      ? interruptedSubagent(subagent)
      : interruptedResult(call, tool);
    const bytes = new TextEncoder().encode(content).length;
    const result = { step, id: call.id, name, content, error, bytes, durationMs: 0 };
    return { type: "tool_result", ...result, ...(parent !== undefined && { parent }) };
  });
}

function interruptedResult({ type }: ToolCall, tool: Tool | undefined): SubagentResult {
  const advice = type === "function" && tool?.stance === "rederivable"
    ? "It is read-only: call it again if needed."
    : "It may have taken effect: check before calling it again.";
  return { content: `Cannot report the result: interrupted, outcome unknown. ${advice}`, error: true };
}

function subagentLinks(events: readonly SessionEvent[]): readonly SubagentLink[] {
  return events.flatMap((event) => {
    if (event.type !== "subagent_started") return [];
    const { id, session } = event;
    return [{ id, session }];
  });
}

interface SubagentResult {
  readonly content: string;
  readonly error: boolean;
}

export function resultOfSubagent(
  { reason, text, message }: Pick<TurnEnd, "reason" | "text" | "message">,
  session: string,
): SubagentResult {
  if (reason === "completed" && text !== "") return { content: text, error: false };
  const why = message ?? `Its turn ended (${reason}).`;
  const lastText = text === "" ? "It returned no text." : `Its last text:\n\n${text}`;
  return {
    content: `The subagent ended without an answer. ${why} Its session is ${session}. ${lastText}`,
    error: true,
  };
}

interface StoredSubagent extends SubagentLink {
  readonly ledger: TurnLedger;
  readonly end?: TurnEnd;
}

const COST_EVENTS: readonly SessionEvent["type"][] = [
  "turn_start",
  "step_end",
  "reply_unfinished",
  "turn_end",
];

/** Reads the results of a session's subagents. The cost of a deleted one is unknown. @throws {StoreError} */
function readSubagents(links: readonly SubagentLink[], store: Store): Promise<readonly StoredSubagent[]> {
  return Promise.all(links.map(async (link) => {
    if (!await store.getSession(link.session)) return { ...link, ledger: EMPTY_LEDGER };
    const events = eventsOf(await store.readEvents(link.session, { types: COST_EVENTS }));
    const at = events.findIndex(({ type }) => type === "turn_end");
    // Later turns of the subagent's session are paid for there.
    const { ledger } = rebuildHistory(at < 0 ? events : events.slice(0, at + 1));
    const end = events[at];
    return { ...link, ledger: { ...ledger, saved: {} }, ...(end?.type === "turn_end" && { end }) };
  }));
}

function interruptedSubagent({ session, end }: StoredSubagent): SubagentResult {
  if (end && end.reason !== "interrupted") return resultOfSubagent(end, session);
  const content =
    "Cannot report the result: interrupted, outcome unknown. The subagent's work until then is in its " +
    `session, ${session}. It may have taken effect: check before calling it again.`;
  return { content, error: true };
}

export function costOf(subagents: readonly StoredSubagent[]): TurnLedger {
  return subagents.reduce((sum, { ledger }) => addLedgers(sum, ledger), EMPTY_LEDGER);
}

export const OWN_TOTALS = { group: "planned", agent: OWN_AGENT } as const;

interface Beginning extends Pick<NextState, "title" | "totals" | "value"> {
  readonly store: Store;
  readonly messages: readonly Message[];
  readonly environmentText?: unknown;
}

export function creationRecords(
  session: Omit<Extract<StoreRecord, { readonly type: "session" }>, "type" | "kind">,
  { store, messages, environmentText, ...state }: Beginning,
): readonly StoreRecord[] {
  const { id: sessionId } = session;
  const events = messages.map((message) => ({ type: "message_added", message }));
  return [
    { type: "session", kind: "agent", ...session },
    ...new SessionRecords(store, sessionId).change(SessionRecords.NOTHING, {
      ...OWN_TOTALS,
      ...state,
      days: {},
    })
      .records,
    ...(environmentText ? stateRecords(sessionId, { environment: environmentText }) : []),
    ...events.length > 0 ? [{ type: "events", sessionId, after: 0, events } as const] : [],
  ];
}

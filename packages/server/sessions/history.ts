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
  deniedResult,
  NO_QUESTIONS,
  openCalls,
  questionsAfter,
  type SessionQuestions,
} from "../approvals/approvals.ts";
import { notFound } from "../http/http_error.ts";
import { eventsOf } from "./event_log.ts";
import {
  type HelperLink,
  type OpenTurn,
  OWN_AGENT,
  type SessionEvent,
  type StoredTurn,
} from "./session_types.ts";
import type { ApprovalOptions } from "./session_options.ts";

/** The events that say what was said; the others only tell how. */
export const HISTORY_EVENTS: readonly SessionEvent["type"][] = [
  "message_added",
  "turn_start",
  "turn_resumed",
  "user_message",
  "assistant_message",
  "tool_result",
  "approval_asked",
  "approval_answered",
  "step_end",
  "reply_unfinished",
  "turn_end",
  "helper_started",
];

/** What a session's events say of it while no turn runs. */
interface RestingHistory {
  readonly messages: readonly Message[];
  /** What all turns cost, an interrupted one as far as its steps ended. */
  readonly ledger: TurnLedger;
  readonly turns: number;
  readonly questions: SessionQuestions;
}

/** A session in which nothing was said. */
const NOTHING_SAID: RestingHistory = {
  messages: [],
  ledger: EMPTY_LEDGER,
  turns: 0,
  questions: NO_QUESTIONS,
};

/** A history as it was at an event: what comes later goes on from it. */
export interface KnownHistory extends RestingHistory {
  /** Number of the event. No turn ran behind it. */
  readonly after: number;
  readonly links: readonly HelperLink[];
}

/** What a session's events say of it. */
interface RebuiltHistory extends RestingHistory {
  /** What is missing of a turn that never ended; absent if all did. */
  readonly interrupted?: {
    readonly step: number;
    readonly isReplied: boolean;
    readonly unanswered: readonly UnansweredCall[];
    /** How often others went on with it since a step ended. */
    readonly resumed: number;
    /** The text of the model's answer, if only the turn's end is missing. */
    readonly answer?: string;
    readonly ledger: TurnLedger;
  };
}

interface UnansweredCall {
  readonly call: ToolCall;
  /** What it is answered with, if somebody had said no to it. */
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
 * Rebuilds a session's history from its events, exactly as the loop made it: each reply is followed by the answers
 * to its calls, in the order of the calls. Other events than {@linkcode HISTORY_EVENTS} change nothing.
 * `before` is what it was before the events, while no turn ran. Default: nothing was said.
 */
export function rebuildHistory(
  events: Iterable<SessionEvent>,
  before: Partial<RestingHistory> = {},
): RebuiltHistory {
  let { ledger, turns, questions } = { ...NOTHING_SAID, ...before };
  const messages = [...before.messages ?? []];
  let turn: { step: number; ledger: TurnLedger; isReplied: boolean; resumed: number } | undefined;
  let calls: readonly ToolCall[] = [];
  let answers = new Map<string, ToolMessage>();
  /** Where the turn begins, until it has a reply. */
  let opening: number | undefined;

  const settle = () => {
    for (const { id } of calls) {
      const answer = answers.get(id);
      if (answer) messages.push(answer);
    }
    calls = [];
    answers = new Map();
  };

  for (const event of events) {
    questions = questionsAfter(questions, event);
    switch (event.type) {
      case "message_added":
        // What is added once a turn has begun stands in front of what opened it.
        messages.splice(opening ?? messages.length, 0, event.message);
        if (opening !== undefined) opening++;
        break;
      case "turn_start":
        turn = { step: 1, ledger: EMPTY_LEDGER, isReplied: false, resumed: 0 };
        opening = messages.length;
        // Those that somebody was asked for are answered in this turn.
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
          // A program that has come on isn't what ends each process.
          if (turn) turn = { ...turn, resumed: 0 };
          break;
        }
        answers.set(
          event.id,
          toolResultMessage(event.id, event.content, { pictures: event.pictures, failed: event.error }),
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
        turns += 1;
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

/** What {@linkcode recoveryEvents} go by. */
export interface RecoveryOptions {
  readonly tools: readonly Tool[];
  /** What the user said in the middle of the turn and no event tells yet. */
  readonly waiting: readonly Content[];
  /** What came of the turn's helpers. Default: it had none. */
  readonly helpers?: readonly StoredHelper[];
  readonly end: Pick<TurnEnd, "reason" | "message">;
}

/** How a turn ended that an earlier process left unfinished. */
export const INTERRUPTED: RecoveryOptions["end"] = {
  reason: "interrupted",
  message: "The server ended in the middle of this turn. It can be continued.",
};

/**
 * The history of a stored session, the system message first, the events that its last turn lacks, and what the user
 * said that still waits; `rebuilt` is with the events.
 */
export async function readHistory(
  id: string,
  { store, instructions, end, known, goesOn, unknownOutcome, ...options }:
    & Omit<RecoveryOptions, "waiting" | "end">
    & {
      /** What is in memory of it: only what is behind that is read. Default: nothing is. */
      readonly known?: KnownHistory | undefined;
      /** How a turn ended that has no end. Without it such a turn runs: what is given stood before it. */
      readonly end?: RecoveryOptions["end"] | undefined;
      /** Whether it goes on instead, if it can. */
      readonly goesOn: boolean;
      /** What becomes of calls of which nobody knows what came of them. */
      readonly unknownOutcome: ApprovalOptions["unknownOutcome"];
      readonly store: Store;
      /** What the system message begins with; where the session works follows. None if both are empty. */
      readonly instructions: string;
    },
): Promise<{
  readonly rebuilt: RebuiltHistory;
  readonly links: readonly HelperLink[];
  readonly recovery: readonly LoopEvent[];
  readonly waiting: readonly Content[];
  /** Number of the last event before the turn that runs; absent if none does. */
  readonly runningAfter?: number;
  /** The turn that goes on here: what else is given stood before it. */
  readonly open?: OpenTurn;
  /** What of this is known for good. */
  readonly known: KnownHistory;
}> {
  const from = known ?? {
    ...{ ...NOTHING_SAID, after: 0, links: [] },
    messages: systemMessage(instructions, await store.readState(id, "workplace")),
  };
  const stored = await store.readEvents(id, { after: from.after, types: HISTORY_EVENTS });
  const events = eventsOf(stored);
  const rebuilt = rebuildHistory(events, from);
  const waiting = (await store.readState(id, "steering") ?? []) as readonly Content[];
  const links = [...from.links, ...helperLinks(events)];
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
    known: { ...resting, questions, links: [...from.links, ...helperLinks(before)], after: runningAfter },
  };
  if (!end) return { ...standing, waiting: [], runningAfter };
  const helpers = await readHelpers(helperLinks(events.slice(start)), store);
  const journals = await readJournals(id, rebuilt.interrupted.unanswered, { ...options, store });
  const made = [...journals].flatMap(([parent, journal]) => unknownCalls(parent, journal));
  await clearUp([...rebuilt.interrupted.unanswered, ...made], options.tools);
  const ledger = addLedgers(rebuilt.interrupted.ledger, costOf(helpers));
  const cut = { ...rebuilt.interrupted, ledger };
  const asked = goesOn && !isAnswered(cut, waiting)
    ? (await store.readState(id, "turn") ?? undefined) as StoredTurn | undefined
    : undefined;
  if (asked && cut.resumed < MOST_RESUMED) {
    const { told, calls } = settleCalls(cut, { ...options, helpers, asked, unknownOutcome, made });
    const step = cut.isReplied ? cut.step + 1 : cut.step;
    const all = rebuildHistory([...events.slice(start), ...told], { messages }).messages;
    // What has begun since is of unknown outcome, whatever was said.
    const isFresh = ({ asked: { id, parent } }: AnsweredCall) =>
      parent !== undefined && !journals.get(parent)?.made.has(id);
    const answered = answeredCalls(rebuilt.questions.settled, calls).filter(isFresh);
    const resumed = { messages: all.slice(messages.length), step, ledger, calls, answered };
    const next = [...told, { type: "turn_resumed", step } as const];
    return { ...standing, waiting, open: { before: runningAfter, asked, resumed, events: next } };
  }
  const ended = asked ? { ...end, message: GIVEN_UP } : end;
  const recovery = recoveryEvents(cut, { ...options, end: ended, helpers, waiting });
  return { ...standing, rebuilt: rebuildHistory([...events, ...recovery], from), recovery, waiting: [] };
}

/** The message that a session begins with, by its instructions and what it was told of its workplace. */
export function systemMessage(instructions: string, workplace: unknown): readonly Message[] {
  const content = [instructions, workplace].filter(Boolean).join("\n\n");
  return content === "" ? [] : [{ role: "system", content }];
}

/** Most processes in a row that go on with a step: one that ends them all would do so for ever, and cost each time. */
const MOST_RESUMED = 3;

const GIVEN_UP =
  `The server ended in the middle of this turn, and ${MOST_RESUMED} times more when it went on with it. ` +
  "It can be continued.";

/** What becomes of the calls of a turn that goes on: results that are told, and those that are left to its loop. */
function settleCalls(
  { unanswered, ...cut }: NonNullable<RebuiltHistory["interrupted"]>,
  { tools, helpers, asked: { unattended }, unknownOutcome = "tell", made }:
    & Pick<Required<RecoveryOptions>, "tools" | "helpers">
    & {
      readonly asked: StoredTurn;
      readonly unknownOutcome: ApprovalOptions["unknownOutcome"];
      /** What the programs among them have called that has no result. */
      readonly made: readonly UnansweredCall[];
    },
): { readonly told: readonly LoopEvent[]; readonly calls: readonly ToolCall[] } {
  const isLeft = ({ call, denied, parent }: UnansweredCall) => {
    if (denied !== undefined || helpers.some(({ id }) => id === call.id)) return false;
    // A program is played again, and can't choose to look once more.
    if (parent === undefined ? isReplayed(call, tools) : toolOf(call, tools)?.stance === "rederivable") {
      return true;
    }
    if (unknownOutcome === "ask") return unattended === undefined && !isRepeatable(call, tools);
    return unknownOutcome === "repeat" && isRepeatable(call, tools);
  };
  const told = [...made, ...unanswered].filter((one) => !isLeft(one));
  return {
    told: resultsOf({ ...cut, unanswered: told }, { tools, helpers }),
    calls: unanswered.filter(isLeft).map(({ call }) => call),
  };
}

function unknownCalls(parent: string, { made, results }: Journal): readonly UnansweredCall[] {
  return [...made].filter(([id]) => !results.some((result) => result.id === id))
    .map(([id, call]) => ({ call: { id, type: "function", function: call }, parent }));
}

/** Has the tools of calls that were cut off clear away what these may have left. */
async function clearUp(calls: readonly UnansweredCall[], tools: readonly Tool[]): Promise<void> {
  for (const { call } of calls) {
    const tool = toolOf(call, tools);
    if (!tool?.clearUp) continue;
    const args = argumentsParser(tool.definition)(meantCall(call).arguments);
    if (args.ok) await tool.clearUp(args.value, { callId: call.id });
  }
}

/** Whether a call is run again from its start, because what it does stands in the events of the calls that it makes. */
function isReplayed(call: ToolCall, tools: readonly Tool[]): boolean {
  return toolOf(call, tools)?.replays ?? false;
}

/** The events that say what a program has called, and which reply called it. */
const JOURNAL_EVENTS: readonly SessionEvent["type"][] = [
  "assistant_message",
  "tool_call",
  "tool_result",
  "approval_asked",
];

/** What the newest call of this id has called so far; nothing if it hasn't called anything. @throws {StoreError} */
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
      // Providers may give their calls the same ids over and over.
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

/** What those of these calls have called that are programs, by their ids. */
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

/** Whether a call may be made twice, by what its tool is or declares. */
function isRepeatable(call: ToolCall, tools: readonly Tool[]): boolean {
  const tool = toolOf(call, tools);
  return call.type === "function" && (tool?.stance === "rederivable" || tool?.hints?.idempotentHint === true);
}

function toolOf(call: ToolCall, tools: readonly Tool[]): Tool | undefined {
  return tools.find(({ definition }) => definition.function.name === meantCall(call).name);
}

/** Whether of a turn only the end is missing. */
function isAnswered(
  { answer }: Pick<NonNullable<RebuiltHistory["interrupted"]>, "answer">,
  waiting: readonly Content[],
): boolean {
  return answer !== undefined && waiting.length === 0;
}

/** A session of which all can be told that was said. */
export interface ToldSession {
  readonly id: string;
  readonly history: readonly Message[];
  /** Number of the last event before the running turn; nothing if none runs. */
  readonly runningAfter: number | undefined;
  /** What the helpers of the newest turn cost. */
  readonly helpers: { readonly ledger: TurnLedger };
}

/** All that was said in a session. */
export interface Transcript {
  /** The system message first. What a running turn has said so far is with it. */
  readonly messages: readonly Message[];
  /** The turn that runs; absent if none does. */
  readonly turn?: {
    readonly after: number;
    readonly firstMessage: number;
    readonly step: number;
    readonly ledger: TurnLedger;
  };
}

/** All that was said in a session, in the running turn too, as far as it is committed. @throws {StoreError} */
export async function readTranscript(
  { id, history, runningAfter: after, helpers }: ToldSession,
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
        ledger: addLedgers(interrupted.ledger, helpers.ledger),
      },
    }),
  };
}

/** Returns the plan as the model last wrote it; `undefined` if it keeps none. */
export function planIn(messages: readonly Message[]): WorkPlan | undefined {
  const calls = messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  return calls.reduce<WorkPlan | undefined>((plan, call) => planAfter(plan, describeCall(call)), undefined);
}

/** How many messages stand before the turn that begins behind this event. @throws {HttpError} 404 if none does. */
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
    throw notFound(`Cannot go back in session ${id}: no turn begins behind event ${turn}.`);
  }
  const before = events.filter(({ number }) => number <= turn);
  const messages = systemMessage(instructions, await store.readState(id, "workplace"));
  return rebuildHistory(eventsOf(before), { messages }).messages.length;
}

/**
 * The events that end a turn which was cut off: an error result for each call that has none, what the user said to it
 * and it never heard, and the turn's end. Nothing is run again; the model is told what it may safely repeat. A turn
 * whose answer is there was cut off only from its end: nothing is left to continue, so it is completed.
 */
export function recoveryEvents(
  cut: Omit<NonNullable<RebuiltHistory["interrupted"]>, "isReplied" | "resumed">,
  { tools, waiting, end, helpers = [] }: RecoveryOptions,
): LoopEvent[] {
  const { step, answer, ledger } = cut;
  const isComplete = isAnswered(cut, waiting) && end.reason === "interrupted";
  return [
    ...resultsOf(cut, { tools, helpers }),
    ...waiting.map((input): LoopEvent => ({ type: "user_message", step, input })),
    { type: "turn_end", text: answer ?? "", ledger, ...(isComplete ? { reason: "completed" } : end) },
  ];
}

/** What the model is told of the calls that nobody answered. */
function resultsOf(
  { step, unanswered }: Pick<NonNullable<RebuiltHistory["interrupted"]>, "step" | "unanswered">,
  { tools, helpers }: Pick<Required<RecoveryOptions>, "tools" | "helpers">,
): readonly LoopEvent[] {
  return unanswered.map(({ call, denied, parent }): LoopEvent => {
    const { name } = describeCall(call);
    const tool = toolOf(call, tools);
    const helper = helpers.find(({ id }) => id === call.id);
    const { content, error } = denied !== undefined
      ? { content: denied, error: true }
      : helper
      ? interruptedHelper(helper)
      : interruptedResult(call, tool);
    const bytes = new TextEncoder().encode(content).length;
    const result = { step, id: call.id, name, content, error, bytes, durationMs: 0 };
    return { type: "tool_result", ...result, ...(parent !== undefined && { parent }) };
  });
}

function interruptedResult({ type }: ToolCall, tool: Tool | undefined): HelperResult {
  const advice = type === "function" && tool?.stance === "rederivable"
    ? "It only reads: call it again if you need it."
    : "It may have taken effect: find out before you call it again.";
  return { content: `Cannot tell the result: interrupted, outcome unknown. ${advice}`, error: true };
}

/** The helpers that a session's events tell of, the oldest first. */
function helperLinks(events: readonly SessionEvent[]): readonly HelperLink[] {
  return events.flatMap((event) => {
    if (event.type !== "helper_started") return [];
    const { id, session } = event;
    return [{ id, session }];
  });
}

interface HelperResult {
  readonly content: string;
  readonly error: boolean;
}

/** What a helper brings back: its answer, or what it said until its turn ended without one. */
export function resultOfHelper(
  { reason, text, message }: Pick<TurnEnd, "reason" | "text" | "message">,
  session: string,
): HelperResult {
  if (reason === "completed" && text !== "") return { content: text, error: false };
  const why = message ?? `Its turn ended (${reason}).`;
  const said = text === "" ? "It had said nothing." : `What it had said last:\n\n${text}`;
  return {
    content: `The helper ended without an answer. ${why} Its session is ${session}. ${said}`,
    error: true,
  };
}

interface StoredHelper extends HelperLink {
  readonly ledger: TurnLedger;
  /** How it ended, if it did. */
  readonly end?: TurnEnd;
}

/** The events that say what a turn cost and how it ended. */
const COST_EVENTS: readonly SessionEvent["type"][] = [
  "turn_start",
  "step_end",
  "reply_unfinished",
  "turn_end",
];

/** Reads what came of a session's helpers. One that was deleted has cost what nobody knows any more. @throws {StoreError} */
function readHelpers(links: readonly HelperLink[], store: Store): Promise<readonly StoredHelper[]> {
  return Promise.all(links.map(async (link) => {
    if (!await store.getSession(link.session)) return { ...link, ledger: EMPTY_LEDGER };
    const events = eventsOf(await store.readEvents(link.session, { types: COST_EVENTS }));
    const at = events.findIndex(({ type }) => type === "turn_end");
    // Whatever somebody asks of the helper's session later is paid for there.
    const { ledger } = rebuildHistory(at < 0 ? events : events.slice(0, at + 1));
    const end = events[at];
    return { ...link, ledger: { ...ledger, saved: {} }, ...(end?.type === "turn_end" && { end }) };
  }));
}

/** What a call for a helper comes to that nobody answered before the server ended. */
function interruptedHelper({ session, end }: StoredHelper): HelperResult {
  if (end && end.reason !== "interrupted") return resultOfHelper(end, session);
  const content =
    `Cannot tell the result: interrupted, outcome unknown. What the helper did until then stands in its ` +
    `session, ${session}. It may have taken effect: find out before you call it again.`;
  return { content, error: true };
}

/** What several helpers cost together. */
export function costOf(helpers: readonly StoredHelper[]): TurnLedger {
  return helpers.reduce((sum, { ledger }) => addLedgers(sum, ledger), EMPTY_LEDGER);
}

/** What the sums over all sessions record the agent's own sessions by. */
export const OWN_SUMS = { group: "planned", agent: OWN_AGENT } as const;

/** What an agent's session begins with. */
interface Beginning extends Pick<NextState, "title" | "totals" | "value"> {
  readonly store: Store;
  /** Its messages but for the system message. */
  readonly messages: readonly Message[];
  /** Where it works, as its system message describes it. Default: that is not described. */
  readonly workplace?: unknown;
}

/** Returns the records that create a session. */
export function creationRecords(
  session: Omit<Extract<StoreRecord, { readonly type: "session" }>, "type" | "kind">,
  { store, messages, workplace, ...state }: Beginning,
): readonly StoreRecord[] {
  const { id: sessionId } = session;
  const events = messages.map((message) => ({ type: "message_added", message }));
  return [
    { type: "session", kind: "agent", ...session },
    ...new SessionRecords(store, sessionId).change(SessionRecords.NOTHING, {
      ...OWN_SUMS,
      ...state,
      days: {},
    })
      .records,
    ...(workplace ? stateRecords(sessionId, { workplace }) : []),
    ...events.length > 0 ? [{ type: "events", sessionId, after: 0, events } as const] : [],
  ];
}

import { pinsAfter } from "@tare/planner/internal";
import type { LoopEvent, TurnEnd, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import type { Content, Message } from "@tare/messages";
import { firstWords, personsWords } from "@tare/messages/internal";
import {
  type NextState,
  SessionRecords,
  stateRecords,
  type StoredState,
  type StoreRecord,
} from "@tare/session/internal";
import {
  closeTurn,
  hear,
  leaveTurn,
  NO_QUESTIONS,
  type Opening,
  openQuestions,
  openTurn,
  questionsAfter,
  type SessionQuestions,
} from "../approvals/approvals.ts";
import type { Helpers } from "../helpers/helpers.ts";
import { HttpError } from "../http/http_error.ts";
import type { PlayedTurn } from "../turns/play_turn.ts";
import { type QueuedTurn, queueStates } from "../turns/turn_queue.ts";
import type { EventLog } from "./event_log.ts";
import { INTERRUPTED, type KnownHistory, OWN_SUMS, readHistory, type RecoveryOptions } from "./history.ts";
import { type PromptState, SessionPrompt } from "./session_prompt.ts";
import { choose, type Chosen } from "./session_settings.ts";
import {
  type ApprovalAnswered,
  NO_TURNS,
  type OpenTurn,
  type PinChange,
  type Question,
  type SessionEvent,
  type SessionNeeds,
  type SessionTotals,
  type StoredTurn,
  type TurnRequest,
} from "./session_types.ts";

interface SessionMemoryOptions extends SessionNeeds {
  readonly events: EventLog;
  readonly helpers: Pick<Helpers, "adopt" | "links">;
}

/** What a change stores besides events. Default of each: what is stored. */
interface MemoryChange extends Partial<Pick<NextState, "title" | "value">> {
  readonly totals?: SessionTotals;
  /** Other states by name. */
  readonly states?: object;
  readonly records?: readonly StoreRecord[];
  readonly committed?: () => void;
}

/**
 * What is stored of a session, as it is in memory. Each change is one commit, and memory changes once that is done:
 * `committed` is called then, before anybody reads of it. Only one change may be under way at a time.
 */
export class SessionMemory {
  readonly #options: SessionMemoryOptions;
  readonly #session: SessionRecords;
  #stored: StoredState = SessionRecords.NOTHING;
  #history: readonly Message[] = [];
  /** What is stored of that for good, so that only what others have written since is read. */
  #known: KnownHistory | undefined;
  #totals: SessionTotals = NO_TURNS;
  /** What of the totals turns cost: what was paid between them isn't told by events. */
  #cost = EMPTY_LEDGER;
  #questions = NO_QUESTIONS;
  #prompt!: SessionPrompt;
  /** What the user said in the middle of a turn and no event tells yet. It is stored, so that it is never lost. */
  #waiting: readonly Content[] = [];
  #taken = 0;
  #queued: readonly QueuedTurn[] = [];
  /** Whether it is stored what the turn that runs was asked for. */
  #isOpen = false;
  /** Whether a turn began here that hasn't ended here: it may be about to change the prompt for all that is known. */
  #isPlayed = false;

  constructor(options: SessionMemoryOptions) {
    this.#options = options;
    this.#session = new SessionRecords(options.environment.store, options.id);
  }

  get history(): readonly Message[] {
    return this.#history;
  }

  get totals(): SessionTotals {
    return this.#totals;
  }

  /** What it is called; empty before anything was said. */
  get title(): string {
    return this.#prompt.conversation.state.title;
  }

  /** What is made of what was said. */
  get prompt(): SessionPrompt {
    return this.#prompt;
  }

  get questions(): readonly Question[] {
    return openQuestions(this.#questions);
  }

  /**
   * Takes from the store what is there. A turn that has no end there ends: what is missing follows from what is stored, and
   * is written at once, or with the next turn if that is soon enough. Or it goes on here, if it shall and can; without an
   * `end` it does so elsewhere. Gives what still waits to be said, the number of the last event before the turn that goes on
   * elsewhere, and the one that goes on here.
   *
   * @throws {StoreError}
   */
  async restore({ end, isLate = false, goesOn = false }: {
    readonly end?: RecoveryOptions["end"] | undefined;
    readonly isLate?: boolean;
    readonly goesOn?: boolean;
  }): Promise<{
    readonly waiting: readonly Content[];
    readonly runningAfter?: number | undefined;
    readonly open?: OpenTurn | undefined;
  }> {
    const { id, settings, tools, environment: { store, approvals }, events, helpers } = this.#options;
    const { rebuilt, links, recovery, waiting, runningAfter, open, known: history } = await readHistory(id, {
      ...{ store, tools: tools(), instructions: settings.instructions, known: this.#known },
      ...{ end, goesOn, unknownOutcome: approvals?.unknownOutcome },
    });
    const [stored, queued = []] = await Promise.all([
      this.#session.read(),
      store.readState(id, "queued") as Promise<readonly QueuedTurn[] | undefined>,
    ]);
    // What was stored is what a session has made.
    const value = stored.value as PromptState | undefined;
    const known: SessionTotals = { ...NO_TURNS, ...stored.totals as SessionTotals | undefined };
    const { days, pinged, chosen } = known;
    if (chosen) choose(settings, chosen);
    // No event tells of what wasn't a turn's.
    const ledger = pinged ? addLedgers(rebuilt.ledger, pinged) : rebuilt.ledger;
    const totals = { ...known, ledger, turns: rebuilt.turns };
    const records = stateRecords(id, { totals, steering: [], turn: null });
    if (open) events.mend([], []);
    else if (isLate) events.mend(recovery, recovery.length === 0 ? [] : records);
    else if (recovery.length > 0 || end && end !== INTERRUPTED) await events.append(recovery, { records });
    this.#history = rebuilt.messages;
    this.#known = history;
    this.#cost = rebuilt.ledger;
    this.#totals = totals;
    helpers.adopt(links);
    this.#questions = rebuilt.questions;
    this.#isOpen = open !== undefined;
    this.#queued = queued;
    const { title } = stored;
    this.#prompt = new SessionPrompt({
      ...this.#options,
      stored: { pins: [], ...value, title, days },
      before: this.#isPlayed ? undefined : this.#prompt,
      isStored: (state) => state === this.#stored.value,
    });
    this.#stored = { ...stored, totals, summed: days, value: this.#prompt.state };
    this.#isPlayed = false;
    return { waiting, runningAfter, open };
  }

  /** Commits that a turn which another process left goes on here. */
  resume({ events }: OpenTurn, { committed }: { readonly committed: () => void }): Promise<void> {
    this.#isPlayed = true;
    return this.#append(events, { committed });
  }

  /**
   * A turn has ended elsewhere that asks nothing. Finds out what is to begin next; the rest of what is stored is to be read
   * before anything is said of it. @throws {StoreError}
   */
  async overtaken(): Promise<void> {
    const { id, environment: { store } } = this.#options;
    this.#queued = (await store.readState(id, "queued") ?? []) as readonly QueuedTurn[];
    this.#questions = { ...this.#questions, asked: [] };
  }

  async changePins(change: PinChange, records: readonly StoreRecord[]): Promise<void> {
    const pins = pinsAfter(this.#prompt.pins, change);
    await this.#append([], { value: { ...this.#stored.value as PromptState, pins }, records });
    // A call may have ended some meanwhile.
    this.#prompt.conversation.pin(change);
  }

  rename(title: string, records: readonly StoreRecord[]): Promise<void> {
    return this.#append([], { title, records });
  }

  choose(chosen: Chosen): Promise<void> {
    return this.#append([], {
      totals: { ...this.#totals, chosen },
      committed: () => choose(this.#options.settings, chosen),
    });
  }

  add(message: Message): Promise<void> {
    return this.#append([{ type: "message_added", message }], {
      committed: () => this.#history = [...this.#history, message],
    });
  }

  /** Lets the input wait for the running turn's next model call. @throws {HttpError} 429 if too much waits. */
  async steer(input: Content, keep: () => readonly StoreRecord[]): Promise<void> {
    const waiting = [...this.#waiting, input];
    assertMayWait(this.#options.id, waiting);
    await this.#append([], {
      states: { steering: waiting },
      records: keep(),
      committed: () => this.#waiting = waiting,
    });
  }

  /** What waits and the loop hasn't taken yet: it has then. */
  takeWaiting(): readonly Content[] {
    const fresh = this.#waiting.slice(this.#taken);
    this.#taken = this.#waiting.length;
    return fresh;
  }

  /** Nothing runs any more; what waits enters the next turn. */
  rest(waiting: readonly Content[]): void {
    this.#waiting = waiting;
    this.#taken = 0;
  }

  /** Whether another process could go on with the turn that runs. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  get allQuestions(): SessionQuestions {
    return this.#questions;
  }

  /** What `say` says of what is asked, and whether nothing is left open then. */
  hear(say: (questions: SessionQuestions) => readonly ApprovalAnswered[]): ReturnType<typeof hear> {
    return hear(this.#questions, say);
  }

  tell(told: readonly ApprovalAnswered[]): Promise<void> {
    return this.#append(told);
  }

  async withdraw(committed: (waiting: readonly Content[]) => void): Promise<void> {
    const { events, answers } = leaveTurn(this.#questions, this.#history, { by: "cancel" });
    await this.commit(events, {
      ended: { asks: undefined },
      committed: () => {
        this.#history = [...this.#history, ...answers];
        committed(this.#waiting);
      },
    });
  }

  /** What a turn that is asked for begins with. @throws {HttpError} 409 if it can't be continued. */
  opening(request: Pick<TurnRequest, "input" | "results" | "told" | "budget">): Opening {
    return openTurn(request, {
      ...{ id: this.#options.id, history: this.#history },
      ...{ questions: this.#questions, asks: this.#totals.asks },
    });
  }

  get queued(): readonly QueuedTurn[] {
    return this.#queued;
  }

  async queue(queued: readonly QueuedTurn[], records: readonly StoreRecord[] = []): Promise<void> {
    await this.#append([], {
      states: queueStates(queued),
      records,
      committed: () => this.#queued = queued,
    });
  }

  /** Commits that a turn which has waited can't be played, and why. */
  async refuse({ id, input }: QueuedTurn, message: string): Promise<void> {
    const start = { type: "turn_start", ...(input !== undefined && { input }), id } as const;
    const end = {
      type: "turn_end",
      reason: "internal_error",
      text: "",
      message,
      ledger: EMPTY_LEDGER,
    } as const;
    const queued = this.#queued.filter((turn) => turn.id !== id);
    await this.#append([start, end], {
      totals: { ...this.#totals, turns: this.#totals.turns + 1 },
      states: queueStates(queued),
      committed: () => {
        this.#queued = queued;
        if (input !== undefined) this.#history = [...this.#history, { role: "user", content: input }];
      },
    });
  }

  async begin(
    opening: Opening,
    { input, keep, id, turn, committed }: Pick<TurnRequest, "input" | "keep" | "id"> & {
      /** What it was asked for, if another process may go on with it. */
      readonly turn: StoredTurn | undefined;
      readonly committed: () => void;
    },
  ): Promise<void> {
    const title = this.title || firstWords(input && personsWords({ role: "user", content: input }));
    const start = {
      type: "turn_start",
      ...(input !== undefined && { input }),
      ...(id !== undefined && { id }),
    } as const;
    const queued = this.#queued.filter((one) => one.id !== id);
    const { asks, ...totals } = this.#totals;
    this.#isPlayed = true;
    await this.#append([...opening.events, start], {
      title,
      ...(asks && { totals }),
      states: { ...(turn && { turn }), ...(id !== undefined && queueStates(queued)) },
      records: keep?.("starts") ?? [],
      committed: () => {
        this.#history = [...this.#history, ...opening.answers];
        this.#isOpen = turn !== undefined;
        this.#queued = queued;
        committed();
      },
    });
  }

  /**
   * Commits events of the turn with what has changed beside them. Unless all is settled, the prompt's part waits for what
   * tells of it.
   */
  async commit(
    events: readonly SessionEvent[],
    { committed, ended, settled = true }: {
      readonly committed?: () => void;
      /** What else the turns come to now. Default: nothing more. */
      readonly ended?: Partial<SessionTotals>;
      /** Whether nothing goes on until they are stored. Default: so it is. */
      readonly settled?: boolean;
    },
  ): Promise<void> {
    const prompt = this.#prompt;
    const before = this.#totals;
    prompt.book(events);
    const { promptTokens } = events.findLast((event) => event.type === "step_end")?.usage ?? before;
    const { days } = prompt.conversation.state;
    const isChanged = ended !== undefined || days !== before.days;
    const heard = events.filter(({ type }) => type === "user_message").length;
    await this.#append(events, {
      ...(isChanged && { totals: { ...before, ...ended, days, promptTokens } }),
      ...(settled && { value: prompt.state }),
      states: {
        ...(heard > 0 && { steering: this.#waiting.slice(heard) }),
        ...(ended && this.#isOpen && { turn: null }),
      },
      committed: () => {
        this.#waiting = this.#waiting.slice(heard);
        this.#taken -= heard;
        committed?.();
      },
    });
  }

  /**
   * Takes note of what a ping of the newest request cost: gives what stores it. What no turn pays for the session does, and
   * the turn that goes on once it is answered.
   */
  pinged(cost: TurnLedger, { inTurn }: { readonly inTurn: boolean }): () => Promise<void> {
    const prompt = this.#prompt;
    return async () => {
      // What was read again since knows nothing of it.
      if (prompt !== this.#prompt) return;
      const { ledger, pinged = EMPTY_LEDGER, asks } = this.#totals;
      const totals = {
        ...this.#totals,
        days: prompt.conversation.state.days,
        ...(!inTurn && {
          ledger: addLedgers(ledger, cost),
          pinged: addLedgers(pinged, cost),
          ...(asks && { asks: { ...asks, spent: addLedgers(asks.spent, cost) } }),
        }),
      };
      await this.#append([], { totals, value: prompt.state });
    };
  }

  /**
   * Commits a turn's end. What the user said too late for this turn is not lost: the next one begins with it. It waits
   * for that one if calls are open, because nothing may come between these and their results.
   */
  async end(
    { step, asked, last, end, messages }: Pick<PlayedTurn, "step" | "asked" | "last"> & {
      readonly end: Omit<TurnEnd, "type">;
      readonly messages: readonly Message[];
    },
    { opening, committed }: {
      readonly opening: Opening;
      /** Is given what still waits to be said. */
      readonly committed: (waiting: readonly Content[]) => void;
    },
  ): Promise<void> {
    const { events, helpers } = this.#options;
    const isOpen = end.reason === "tool_calls" || end.reason === "approval";
    const [waiting, unheard] = isOpen ? [this.#waiting, []] : [[], this.#waiting];
    const { events: put, asks } = closeTurn(asked, {
      ...{ ledger: end.ledger, opening, options: this.#options.environment },
    });
    const { turns, ledger } = this.#totals;
    const ended = { turns: turns + 1, ledger: addLedgers(ledger, end.ledger), asks };
    // The turn began before it asked for an answer.
    const whole = opening.spent && { whole: addLedgers(opening.spent, end.ledger) };
    const told = unheard.map((input): LoopEvent => ({ type: "user_message", step, input }));
    await this.commit([...last, ...told, ...put, { type: "turn_end", ...end, ...whole }], {
      ended,
      committed: () => {
        const said = unheard.map((content) => ({ role: "user", content }) as const);
        this.#history = [...this.#history, ...messages, ...said];
        this.#isPlayed = false;
        this.#cost = addLedgers(this.#cost, end.ledger);
        this.#known = {
          ...{ after: events.last, messages: this.#history, links: helpers.links },
          ...{ ledger: this.#cost, turns: this.#totals.turns, questions: this.#questions },
        };
        committed(waiting);
      },
    });
  }

  #append(
    events: readonly SessionEvent[],
    { totals = this.#totals, states, records = [], committed, ...changed }: MemoryChange = {},
  ): Promise<void> {
    const { id, events: log } = this.#options;
    const { title, value } = { ...this.#stored, ...changed };
    const next = { ...OWN_SUMS, title, totals, value, days: totals.days };
    const { records: own, after } = this.#session.change(this.#stored, next);
    // By itself, so that sessions that ask are found.
    const asks = totals.asks !== this.#totals.asks && { asks: totals.asks ?? null };
    return log.append(events, {
      records: [...own, ...stateRecords(id, { ...asks, ...states }), ...records],
      committed: () => {
        this.#stored = after;
        this.#totals = totals;
        this.#questions = events.reduce(questionsAfter, this.#questions);
        this.#prompt.conversation.named(title);
        committed?.();
      },
    });
  }
}

const MAX_WAITING = 100;

/** Most characters of their JSON. */
const MAX_WAITING_CHARS = 16 * 2 ** 20;

/** What the user says to a running turn is stored whole each time. @throws {HttpError} 429 if it is too much. */
function assertMayWait(id: string, waiting: readonly Content[]): void {
  if (waiting.length <= MAX_WAITING && JSON.stringify(waiting).length <= MAX_WAITING_CHARS) return;
  throw new HttpError(
    429,
    "too_much_steering",
    `Cannot steer the turn in session ${id}: ${
      waiting.length - 1
    } inputs wait for its next model call, and at most ` +
      `${MAX_WAITING} of ${MAX_WAITING_CHARS} characters may. Wait for a user_message event, or cancel the turn.`,
  );
}

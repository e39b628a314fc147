import type { LoopEvent, TurnEnd, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import { recallTool } from "@tare/tools";
import type { Content, CountTokens, Message, Tool } from "@tare/messages";
import { firstWords, personsWords } from "@tare/messages/internal";
import { pinsAfter } from "@tare/planner/internal";
import type { Archive } from "@tare/prune";
import { StoreError } from "@tare/session";
import {
  isFenced,
  type ListedSession,
  type NextState,
  Ownership,
  type SessionChange,
  type SessionRecord,
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
  openCalls,
  type Opening,
  openQuestions,
  openTurn,
  questionsAfter,
  type SessionQuestions,
} from "../approvals/approvals.ts";
import { Helpers, TurnAccount } from "../helpers/helpers.ts";
import { HttpError, toHttpError } from "../http/http_error.ts";
import { checkBudgets, type PlayedTurn, TurnLeft, turnPlayer } from "../turns/play_turn.ts";
import { SessionTools } from "../turns/session_tools.ts";
import {
  assertMayWait,
  queueAfter,
  type QueueChange,
  type QueuedTurn,
  queueStates,
} from "../turns/turn_queue.ts";
import { EventLog } from "./event_log.ts";
import {
  INTERRUPTED,
  type KnownHistory,
  OWN_SUMS,
  readHistory,
  readJournal,
  type RecoveryOptions,
} from "./history.ts";
import { callsOpen, sessionLeft, sessionNotFound, turnRunning } from "./session_errors.ts";
import { type PromptState, SessionPrompt } from "./session_prompt.ts";
import {
  checkEffort,
  choose,
  type HelperParent,
  parentOf,
  type SessionSettings,
  type StoredSettings,
  storedSettings,
} from "./session_settings.ts";
import {
  type ApprovalAnswered,
  NO_TURNS,
  type OpenTurn,
  type PinChange,
  type Question,
  type RunningTurn,
  type SessionEnvironment,
  type SessionEvent,
  type SessionNeeds,
  type SessionTotals,
  type StoredTurn,
  type TurnRequest,
} from "./session_types.ts";

/** What one server requests of the one that owns a session. That one does it if a turn runs there; else the former may. */
type Wanted =
  | { readonly do: "know" }
  | { readonly do: "cancel" }
  | WantedChange;

/** A change that a running turn takes, and the records that are committed with it. */
type WantedChange =
  | { readonly do: "steer"; readonly input: Content; readonly records: readonly StoreRecord[] }
  | { readonly do: "pin"; readonly change: PinChange; readonly records: readonly StoreRecord[] }
  | { readonly do: "rename"; readonly title: string; readonly records: readonly StoreRecord[] }
  | { readonly do: "queue"; readonly change: QueueChange; readonly records: readonly StoreRecord[] };

/** The owner's answer, with what failed if anything did. */
interface Told {
  readonly error?: Pick<HttpError, "status" | "code" | "message">;
}

/** What a change stores besides events. Default of each: what is stored. */
interface Change extends Partial<Pick<NextState, "title" | "value">> {
  readonly totals?: SessionTotals;
  /** Other states by name. */
  readonly states?: object;
  readonly records?: readonly StoreRecord[];
  readonly committed?: () => void;
}

/** How a session is read. */
interface ReadOptions {
  /** How an unfinished turn ends. Without it that turn runs on another server. */
  readonly end?: RecoveryOptions["end"] | undefined;
  /** Whether its missing events are committed with the next commit. Default: at once. */
  readonly isLate?: boolean;
  /** Whether it continues here instead, if it can. Default: no. */
  readonly goesOn?: boolean;
}

/**
 * A conversation with the agent, in memory while it is used. Changes wait in one queue, so that nothing comes between
 * what is read and what is done about it. Each change is one commit; memory changes once that is done, before its events
 * can be read.
 */
export class AgentSession {
  readonly id: string;
  readonly settings: SessionSettings;
  readonly parent: HelperParent | undefined;
  /** Name of the key with which it was made. Absent: the owner's. */
  readonly by: string | undefined;
  readonly helpers: Helpers;
  readonly events: EventLog;
  readonly archive: Archive;
  readonly ownership: Ownership;
  readonly #record: SessionRecord;
  readonly #records: SessionRecords;
  readonly #needs: SessionNeeds;
  readonly #tools: SessionTools;
  #stored: StoredState & { readonly totals: SessionTotals } = { ...SessionRecords.NOTHING, totals: NO_TURNS };
  #history: readonly Message[] = [];
  /** The stored history up to the last turn that has ended: only later events are read anew. */
  #known: KnownHistory | undefined;
  /** Cost of all turns. Keep-alive requests between turns are in the totals alone: no event reports them. */
  #cost = EMPTY_LEDGER;
  #questions = NO_QUESTIONS;
  #prompt!: SessionPrompt;
  /** Stored inputs of a running turn that no event contains yet. */
  #waiting: readonly Content[] = [];
  #taken = 0;
  #queued: readonly QueuedTurn[] = [];
  /** Whether the request of the running turn is stored. */
  #isOpen = false;
  /** Whether a turn has begun here and not ended here: it may still change the prompt. */
  #isBegun = false;
  #turn: (RunningTurn & { ending?: "stops" | "leaves" }) | undefined;
  /** What the running turn costs. */
  #account: TurnAccount | undefined;
  /** Number of the last event before the turn that another server runs, as it was when the session was read. */
  #elsewhereAfter: number | undefined;

  private constructor(
    record: SessionRecord,
    environment: SessionEnvironment,
    { countTokens, lastEvent }: { readonly countTokens: CountTokens; readonly lastEvent: number },
  ) {
    const { tools, advanced: { toolSource: source } = {}, store, teller } = environment;
    const id = this.id = record.id;
    this.#record = record;
    this.settings = storedSettings(record.settings);
    this.parent = parentOf(record);
    this.by = record.by;
    this.archive = store.archive(id);
    this.events = new EventLog(store, {
      ...{ sessionId: id, last: lastEvent },
      told: teller && { ...teller, recordsOf: (committed) => teller.recordsOf(this, committed) },
    });
    this.helpers = new Helpers(this, { environment, alone: (work) => this.ownership.queued(work) });
    const shown = () => this.session.newest?.view.messages ?? [];
    const { by, settings, archive, events } = this;
    const recalled: Archive = {
      put: (content) => archive.put(content),
      get: (ref) => archive.get(ref),
      refs: () => this.#prompt.archived,
    };
    const own = [...tools, recallTool(recalled, { countTokens, shown }), this.helpers.tool];
    const mayUse = (record.settings as StoredSettings).helper?.tools;
    this.#tools = new SessionTools({ given: settings.tools, own, source, mayUse });
    this.#needs = { id, by, settings, archive, environment, countTokens, tools: () => this.tools };
    this.#records = new SessionRecords(store, id);
    this.ownership = new Ownership({
      ...{ id, store, events, onError: environment.onError },
      isBusy: () => this.#turn !== undefined,
      recover: async () => {
        await teller?.refresh();
        if (store.shared) events.reach(await store.lastEvent(id));
        // A turn that ended because the disk was full continues once it is requested.
        await this.#mend(store.shared ? { goesOn: true } : { isLate: true });
      },
      read: async (isOther) => {
        const { waiting, runningAfter } = await this.#read({});
        this.#release({ waiting, goesOn: isOther || runningAfter !== undefined });
        if (isOther) this.#elsewhereAfter = runningAfter;
        return runningAfter !== undefined;
      },
      noticed: async (seen) => {
        await events.catchUp(seen);
        if (seen.holder === "other") return events.open(), true;
        const last = events.newest;
        if (last?.type !== "turn_end" || last.reason === "approval") return false;
        // The rest is read before the session is used.
        this.#queued = (await store.readState(id, "queued") ?? []) as readonly QueuedTurn[];
        this.#questions = { ...this.#questions, asked: [] };
        this.#release({});
        return true;
      },
      obey: (wanted, answer) => this.#obey(wanted as Wanted, answer),
      lost: () => {
        const turn = this.#turn;
        if (!turn) return;
        turn.cancel();
        this.#release({});
        this.#elsewhereAfter = turn.before;
        events.open();
      },
      stalled: (error) => events.close(toHttpError(error)),
      gone: () => environment.changed(this),
      unsettled: () => environment.unsettled?.(this),
      refusal: (why) => why === "gone" ? sessionNotFound(id) : sessionLeft(id),
    });
  }

  /** Loads a session. A turn that an earlier process left unfinished is ended. @throws {StoreError} */
  static async load(record: SessionRecord, environment: SessionEnvironment): Promise<AgentSession> {
    const lastEvent = await environment.store.lastEvent(record.id);
    const countTokens = await environment.models.countTokens();
    const session = new AgentSession(record, environment, { countTokens, lastEvent });
    if (environment.store.shared) await session.ready();
    else {
      await session.#mend({ isLate: true, goesOn: true }).catch(async (error) => {
        // A full store can still be read.
        if (!(error instanceof StoreError && error.code === "full")) throw error;
        environment.onError?.(error);
        await session.#mend({ isLate: true });
      });
    }
    return session;
  }

  get history(): readonly Message[] {
    return this.#history;
  }

  /** The tools of the last turn; before the first one those that are known. */
  get tools(): readonly Tool[] {
    return this.#tools.current;
  }

  /** Number of the last event before the running turn; nothing if none runs. */
  get runningAfter(): number | undefined {
    return this.#turn?.before ?? this.#elsewhereAfter;
  }

  get ledger(): TurnLedger {
    return this.totals.ledger;
  }

  /** What all its turns come to. */
  get totals(): SessionTotals {
    return this.#stored.totals;
  }

  get lastEvent(): number {
    return this.events.last;
  }

  get isRunning(): boolean {
    return this.runningAfter !== undefined;
  }

  get isPlayed(): boolean {
    return this.#turn !== undefined;
  }

  get isGone(): boolean {
    return this.ownership.isGone;
  }

  /** Empty before anything was said. */
  get title(): string {
    return this.session.state.title;
  }

  /** Its row in a list. */
  get row(): ListedSession {
    const { title, lastEvent, isRunning: isHeld } = this;
    return { ...this.#record, title, lastEvent, totals: this.totals, isHeld };
  }

  /** What its model sees, and what its calls came to. */
  get session(): SessionPrompt["conversation"] {
    return this.prompt.conversation;
  }

  /** What is made of what was said, and what was asked for of it. */
  get prompt(): SessionPrompt {
    return this.#prompt;
  }

  get questions(): readonly Question[] {
    return openQuestions(this.#questions);
  }

  /**
   * Settles when memory holds what is stored: after a failure it is read again, and what other servers have written. What
   * one of them left that is gone is taken, and its turn ended. @throws {StoreError}
   */
  ready(): Promise<void> {
    return this.ownership.ready();
  }

  /** Changes pins or title, and stores that with these records. @throws {HttpError} 404 if it is gone. */
  async change(change: SessionChange, records: readonly StoreRecord[]): Promise<void> {
    await this.#change(
      "title" in change
        ? { do: "rename", title: change.title, records }
        : { do: "pin", change: change.pins, records },
    );
    if (!this.ownership.isHeld) await this.ready();
  }

  /** @throws {HttpError} 409 if calls wait for an answer: their results would have to come first. */
  assertSettled(): void {
    if (openCalls(this.history).length > 0) throw callsOpen(this.id);
  }

  /**
   * Does something beside the session while no turn runs and no call waits, and lets the model know what came of it.
   *
   * @throws {HttpError} 409 if a turn runs, or asks; 404 if the session is gone; and what `work` throws.
   */
  betweenTurns<T>(work: () => Promise<T>, told: (done: T) => string): Promise<T> {
    return this.#alone(async () => {
      if (this.#turn) throw turnRunning(this.id);
      this.assertSettled();
      const done = await work();
      const message = { role: "system", content: told(done) } as const;
      await this.#append([{ type: "message_added", message }], {
        committed: () => this.#history = [...this.#history, message],
      });
      return done;
    });
  }

  /**
   * Lets the next turns ask another model, or with another effort; null is as the model likes. An effort that another model
   * doesn't know waits for one that does.
   *
   * @throws {HttpError} 400 if the model doesn't know the effort, or its price isn't known and a budget needs it; 409 if a turn
   * runs or asks; 404 if the session is gone.
   */
  choose({ model, effort }: { readonly model?: string; readonly effort?: string | null }): Promise<void> {
    return this.#alone(async () => {
      if (this.#turn) throw turnRunning(this.id);
      if (openCalls(this.history).length > 0) throw callsOpen(this.id);
      const { settings } = this;
      const before = settings.model;
      const now = model ?? before;
      const known = this.#needs.environment.models.efforts?.(now);
      if (typeof effort === "string") checkEffort(effort, { model: now, known });
      const wished = effort === undefined
        ? settings.effort ?? this.totals.chosen?.effortOfOthers
        : effort ?? undefined;
      // Of a model of which nobody knows what it has, an effort is asked that was chosen for it.
      const isFor = effort !== undefined || settings.effort !== undefined && now === before;
      const has = wished !== undefined && (known?.includes(wished) ?? isFor);
      checkBudgets({ session: settings.budget }, { rates: this.#needs.environment.ratesOf(now), model: now });
      const chosen = {
        model: now,
        ...(wished !== undefined && (has ? { effort: wished } : { effortOfOthers: wished })),
      };
      await this.#append([], {
        totals: { ...this.totals, chosen },
        committed: () => choose(settings, chosen),
      });
      // What was kept warm is of no use to another model.
      if (now !== before) this.#prompt.goesOn();
    });
  }

  /**
   * Starts a turn; resolves once its start is committed, before anybody sees anything of it. The session is idle again
   * before the turn's end can be read, so that who has read it may start the next one.
   *
   * @param when Asked once nothing else happens in the session: whether to start. Default: yes.
   * @returns The turn; nothing if it shall not start.
   * @throws {HttpError} 409 if a turn runs or there is nothing to continue, 429 if no more turns may run, 404 if the
   * session is gone.
   * @throws {StoreError} if the start can't be committed. Then nothing has happened.
   */
  start(request: TurnRequest): Promise<RunningTurn>;
  start(request: TurnRequest, when: () => boolean): Promise<RunningTurn | undefined>;
  start(request: TurnRequest, when: () => boolean = () => true): Promise<RunningTurn | undefined> {
    return this.#alone(async () => when() ? await this.#start(request) : undefined, {
      told: () => {
        if (when()) throw turnRunning(this.id);
        return undefined;
      },
    });
  }

  /**
   * Lets the input enter the running turn before its next model call; if none runs, starts one with it. Resolves once
   * that is stored.
   *
   * @returns The turn, if it was started.
   * @throws {HttpError} 429 if too much waits already; and as {@linkcode AgentSession.start} does.
   */
  steerOrStart(request: TurnRequest & { readonly input: Content }): Promise<RunningTurn | undefined> {
    const { input } = request;
    const keep = () => request.keep?.("steers") ?? [];
    return this.#alone(async () => {
      if (!this.#turn) return await this.#start(request);
      await this.#steer(input, keep());
      return undefined;
    }, { wanted: () => ({ do: "steer", input, records: keep() }), told: () => undefined });
  }

  get queued(): readonly QueuedTurn[] {
    return this.#queued;
  }

  /**
   * Puts a turn behind those that run and wait. Resolves to it once that is stored.
   *
   * @throws {HttpError} 409 if there is nothing to continue, 429 if too many wait, 404 if the session is gone.
   */
  async enqueue(
    request: Pick<TurnRequest, "input" | "budget" | "settings" | "unattended">,
    keep: (turn: QueuedTurn) => readonly StoreRecord[],
  ): Promise<QueuedTurn> {
    const { store } = this.#needs.environment;
    this.#checkEffort(request);
    const turn = { ...request, id: crypto.randomUUID(), askedAtMs: store.now() };
    const add = async () => {
      // What can't begin is refused at once, where that is known.
      if (!this.#turn && this.queued.length === 0) this.#opening(request);
      await this.#changeQueue({ add: turn }, keep(turn));
      // Whoever follows sees it begin.
      if (!this.#turn) this.events.open();
    };
    await this.#alone(add, {
      wanted: () => ({ do: "queue", change: { add: turn }, records: keep(turn) }),
      told: () => {},
    });
    this.#needs.environment.changed(this);
    return turn;
  }

  /** Takes away a turn that waits. False if it doesn't. */
  async dequeue(id: string): Promise<boolean> {
    await this.ready();
    if (!this.queued.some((turn) => turn.id === id)) return false;
    await this.#change({ do: "queue", change: { remove: id }, records: [] });
    if (!this.isRunning && this.queued.length === 0 && this.questions.length === 0) this.events.close();
    return true;
  }

  /**
   * Starts the turn that waits longest, if nothing runs or is asked. One that can't be played is told of so. False if none
   * could be started.
   */
  startQueued(): Promise<boolean> {
    return this.#alone(async () => {
      const [next] = this.queued;
      if (!next || this.#turn || this.questions.length > 0) return false;
      const { askedAtMs: _, ...request } = next;
      try {
        await this.#start(request);
      } catch (error) {
        if (error instanceof StoreError || isBusy(error)) throw error;
        await this.#refuse(next, toHttpError(error).message);
        this.#release({});
      }
      return true;
    }, { told: () => false });
  }

  /** Makes a change here, or has the server make it on which a turn runs. */
  #change(wanted: WantedChange): Promise<void> {
    return this.#alone(() => this.#take(wanted), { wanted: () => wanted, told: () => {} });
  }

  async #take(wanted: WantedChange): Promise<void> {
    switch (wanted.do) {
      case "steer":
        return await this.#steer(wanted.input, wanted.records);
      case "queue":
        return await this.#changeQueue(wanted.change, wanted.records);
      case "rename":
        return await this.#append([], { title: wanted.title, records: wanted.records });
      case "pin":
        return await this.#changePins(wanted.change, wanted.records);
    }
  }

  async #changeQueue(change: QueueChange, records: readonly StoreRecord[]): Promise<void> {
    const queued = queueAfter(this.queued, { id: this.id, change });
    await this.#append([], {
      states: queueStates(queued),
      records,
      committed: () => this.#queued = queued,
    });
  }

  async #changePins(change: PinChange, records: readonly StoreRecord[]): Promise<void> {
    const pins = pinsAfter(this.#prompt.pins, change);
    await this.#append([], { value: { ...this.#stored.value as PromptState, pins }, records });
    // A call may have ended some meanwhile.
    this.session.pin(change);
  }

  /** Lets the input wait for the running turn's next model call. @throws {HttpError} 429 if too much waits. */
  async #steer(input: Content, records: readonly StoreRecord[]): Promise<void> {
    const waiting = [...this.#waiting, input];
    assertMayWait(this.id, waiting);
    const committed = () => this.#waiting = waiting;
    await this.#append([], { states: { steering: waiting }, records, committed });
  }

  /** Does what another server requests of the running turn. Returns false if the answer is due once that has ended. */
  async #obey(wanted: Wanted, answer: (told: Told) => StoreRecord): Promise<boolean> {
    const { store } = this.#needs.environment;
    try {
      if (wanted.do === "cancel") return this.#turn?.cancel(), false;
      if (wanted.do === "know") await store.commit([answer({})]);
      else await this.#take({ ...wanted, records: [...wanted.records, answer({})] });
    } catch (error) {
      if (isFenced(error)) throw error;
      const { status, code, message } = toHttpError(error);
      await store.commit([answer({ error: { status, code, message } })]);
    }
    return true;
  }

  /**
   * Does work when nothing else happens in the session, and memory holds what is stored. If a turn runs on another server,
   * that one receives the request `wanted`, and `told` returns the result. Default: HTTP 409.
   *
   * @throws {HttpError} what the other server answers.
   */
  #alone<T>(
    work: () => Promise<T>,
    {
      wanted = () => ({ do: "know" }),
      told = () => {
        throw turnRunning(this.id);
      },
    }: { readonly wanted?: () => Wanted; readonly told?: () => T } = {},
  ): Promise<T> {
    return this.ownership.alone(work, {
      wanted,
      told: (answer) => {
        assertDone(answer);
        return told();
      },
    });
  }

  /**
   * Takes answers to what is asked. Once all are there the turn goes on: it is given then. Resolves once that is stored.
   *
   * @throws {HttpError} as {@linkcode AgentSession.start} does, and what `say` throws. Then nothing has happened.
   */
  answer(
    say: (questions: SessionQuestions) => readonly ApprovalAnswered[],
    request: Pick<TurnRequest, "unattended"> = {},
  ): Promise<RunningTurn | undefined> {
    return this.#alone(async () => {
      const { told, isAll } = hear(this.#questions, say);
      if (isAll) return await this.#start({ ...request, told });
      await this.#append(told);
      return undefined;
    }, {
      told: () => {
        if (hear(this.#questions, say).told.length > 0) throw turnRunning(this.id);
        return undefined;
      },
    });
  }

  /** Denies what is asked, and nothing goes on. False if nothing is. */
  withdraw(): Promise<boolean> {
    return this.#alone(async () => {
      if (this.questions.length === 0) return false;
      const { events, answers } = leaveTurn(this.#questions, this.#history, { by: "cancel" });
      await this.#commit(events, {
        ended: { asks: undefined },
        committed: () => {
          this.#history = [...this.#history, ...answers];
          this.#release({ waiting: this.#waiting });
        },
      });
      return true;
    }, { told: () => false });
  }

  /** Cancels the running turn, on whichever server, and waits for its end. False if none runs. */
  async cancel(): Promise<boolean> {
    if (await this.cancelHere()) return true;
    if (!this.isRunning) return false;
    const asked = await this.ownership.ask({ do: "cancel" } satisfies Wanted);
    assertDone(asked?.answer);
    return asked !== undefined;
  }

  /** Cancels the turn that runs on this server and waits for its end. False if none does. */
  async cancelHere(): Promise<boolean> {
    const turn = this.#turn;
    turn?.cancel();
    await turn?.done;
    return turn !== undefined;
  }

  /** Ends the turn that runs here as one that was interrupted. Settles when none does. */
  async stop(): Promise<void> {
    if (this.#turn) this.#turn.ending = "stops";
    await this.cancelHere();
  }

  /**
   * Leaves the turn that runs here to whoever goes on with it: at its next step, or as soon as the signal is aborted. One
   * that nobody can go on with has until then to end. Settles when none runs.
   */
  async leave(signal: AbortSignal): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    if (this.#isOpen) turn.ending = "leaves";
    const cut = () => {
      this.#leave();
      turn.cancel();
    };
    if (signal.aborted) cut();
    else signal.addEventListener("abort", cut);
    await turn.done.finally(() => signal.removeEventListener("abort", cut));
    await this.ownership.giveUp();
  }

  /** Leaves the running turn to another process: nothing more of it is written or reported here. */
  #leave(): void {
    if (!this.#turn) return;
    this.ownership.leave();
    this.#release({ failure: sessionLeft(this.id) });
  }

  /** Removes the session if nothing runs in it then, and `when` says so. Tells whether it did. */
  deleteIdle(when: () => boolean = () => true): Promise<boolean> {
    return this.#alone(async () => {
      if (this.#turn || !when()) return false;
      await this.events.remove();
      this.#prompt.forget();
      this.ownership.goAway();
      await this.#needs.environment.workspace?.checkpoints?.forget(this.id).catch((error) =>
        this.#needs.environment.onError?.(error)
      );
      return true;
    }, { told: () => false });
  }

  /** @throws {HttpError} 400 if the model doesn't have the effort that a turn asks for. */
  #checkEffort({ settings: { reasoning_effort: effort } = {} }: Pick<TurnRequest, "settings">): void {
    const { model } = this.settings;
    if (effort !== undefined) {
      checkEffort(effort, { model, known: this.#needs.environment.models.efforts?.(model) });
    }
  }

  async #start(
    { input, results, told, budget, keep, id, giveBack, ...given }: TurnRequest,
  ): Promise<RunningTurn> {
    if (this.#turn) throw turnRunning(this.id);
    this.#checkEffort(given);
    const opening = this.#opening({ input, results, told, budget });
    const before = this.events.last + opening.events.length;
    return await this.#play({ input, ...given }, {
      ...{ before, opening, release: giveBack ?? this.#needs.environment.takeSlot() },
      begin: (committed) =>
        this.#begin(opening, { input, keep, id, committed, turn: storedTurn(given, opening) }),
    });
  }

  /** Goes on with a turn that another process left. One that can't go on here ends. */
  async #resume(open: OpenTurn): Promise<void> {
    const { before, resumed, events, asked: { budget, spent, ...given } } = open;
    const { always } = this.#questions;
    const opening = { budget, spent, always, events: [], answers: [], answered: [] };
    const release = this.#needs.environment.takeSlot("running");
    const begin = (committed: () => void) => {
      this.#isBegun = true;
      return this.#append(events, { committed });
    };
    try {
      await this.#play({ ...given, resumed }, { before, opening, release, begin });
    } catch (error) {
      if (error instanceof StoreError) throw error;
      this.#needs.environment.onError?.(error);
      const message = `The server ended in the middle of this turn, and can't go on with it. ${
        toHttpError(error).message
      } It can be continued.`;
      await this.#settle({ end: { reason: "interrupted", message } });
    }
  }

  async #play(
    asked: Omit<Parameters<typeof turnPlayer>[0], "signal">,
    { before, opening, release, begin }: {
      readonly before: number;
      readonly opening: Opening;
      readonly release: () => void;
      readonly begin: (committed: () => void) => Promise<void>;
    },
  ): Promise<RunningTurn> {
    const controller = new AbortController();
    const outcome: { error?: unknown } = {};
    const onError = (error: unknown) => {
      outcome.error = error;
      this.#needs.environment.onError?.(error);
    };
    const tenure = this.ownership.tenure();
    try {
      const turn = asked.input === undefined ? await this.#usersTurn() ?? before : before;
      const account = new TurnAccount();
      const play = turnPlayer({ ...asked, signal: controller.signal }, {
        ...{
          session: this,
          environment: this.#needs.environment,
          countTokens: this.#needs.countTokens,
          opening,
          account,
          turn,
        },
        takeTools: (signal) => this.#tools.take(signal),
        steering: () => tenure.isOwn() ? this.#takeWaiting() : [],
        commit: (events, options) => tenure.run(() => this.#commit(events, options)),
        assertOwn: tenure.assertOwn,
        isLeft: () => this.#turn?.ending === "leaves",
        journal: (call) => readJournal(this.id, call, this.#needs.environment.store),
      });
      await this.#needs.environment.teller?.refresh();
      await begin(() => this.events.open());
      const done = play()
        .then(({ result: { messages, error, ...end }, ...played }) => {
          if (error !== undefined) onError(error);
          const committed = (waiting: readonly Content[]) => {
            this.#release({
              waiting,
              ended: () => this.#prompt.rests(end, messages, this.parent !== undefined),
            });
          };
          const isStopped = end.reason === "cancelled" && this.#turn?.ending === "stops";
          const told = { ...end, ...(isStopped && INTERRUPTED) };
          return tenure.run(() => this.#end({ ...played, end: told, messages }, { opening, committed }));
        })
        .catch((error) => {
          if (error instanceof TurnLeft) return this.#leave();
          // What it does after it was left counts for nothing.
          if (this.ownership.isLeft) return;
          // A bug of ours, or the store: the turn ends with what is stored of it.
          onError(error);
          const end = { reason: "internal_error", message: toHttpError(error).message } as const;
          return tenure.run(() =>
            this.#settle({ end }).then(() => {}, (storeError) => {
              onError(storeError);
              if (isFenced(storeError)) throw storeError;
              // Not even the end could be committed: readers receive the failure itself.
              this.#release({ failure: toHttpError(storeError) });
            })
            // A turn whose session was lost is ended by the server that owns it now.
          ).catch(() => {});
        })
        .then(() => ({ ...outcome, messages: this.history.length }))
        .finally(release);
      const cancel = () => {
        controller.abort();
        this.#prompt.goesOn();
      };
      this.#turn = { before, cancel, done };
      this.#account = account;
      this.#needs.environment.changed(this);
      return this.#turn;
    } catch (error) {
      release();
      throw error;
    }
  }

  /**
   * Number of the last event before the newest turn that began with what the user said: one that goes on with an answer
   * belongs to it.
   */
  async #usersTurn(): Promise<number | undefined> {
    const { store, workspace: { checkpoints } = {} } = this.#needs.environment;
    if (!checkpoints) return undefined;
    const starts = await store.readEvents(this.id, { types: ["turn_start"] });
    const start = starts.findLast(({ event }) => "input" in event && event.input !== undefined);
    return start && start.number - 1;
  }

  /** What a ping cost is paid for by the turn that runs. */
  #bookPing(cost: TurnLedger): void {
    this.#account?.pinged(cost);
    this.#needs.environment.keys?.paid(this.by, cost.usd ?? 0);
    const inTurn = this.#account !== undefined;
    const prompt = this.#prompt;
    const store = async () => {
      // What was read again since doesn't include it.
      if (prompt !== this.#prompt) return;
      const { ledger, pinged = EMPTY_LEDGER, asks } = this.totals;
      const totals = {
        ...this.totals,
        days: prompt.conversation.state.days,
        // What no turn pays for the session does, and the turn that continues once it is answered.
        ...(!inTurn && {
          ledger: addLedgers(ledger, cost),
          pinged: addLedgers(pinged, cost),
          ...(asks && { asks: { ...asks, spent: addLedgers(asks.spent, cost) } }),
        }),
      };
      await this.#append([], { totals, value: prompt.state });
    };
    this.#alone(store, { told: () => {} })
      .catch((error) => this.#needs.environment.onError?.(error));
  }

  /** Nothing runs any more. What waits enters the next turn. */
  #release(
    { failure, waiting = [], goesOn = false, ended = () => this.#prompt.goesOn() }: {
      readonly failure?: unknown;
      readonly waiting?: readonly Content[];
      readonly goesOn?: boolean;
      /** Keeps warm what is worth it. Default: what was asked is gone on with elsewhere, or not at all. */
      readonly ended?: () => void;
    },
  ): void {
    this.#turn = undefined;
    this.#account = undefined;
    this.#elsewhereAfter = undefined;
    ended();
    this.#waiting = waiting;
    this.#taken = 0;
    // Whoever follows a turn that asks sees it go on.
    const isToBegin = this.questions.length > 0 || this.queued.length > 0;
    if (goesOn || failure === undefined && isToBegin) this.events.open();
    else this.events.close(failure);
    this.#needs.environment.changed(this);
  }

  /** Reads what is stored. A turn that was left continues here or ends, unless this server is ending. @throws {StoreError} */
  async #mend(how: Omit<ReadOptions, "end">): Promise<void> {
    const open = await this.#settle(
      this.#needs.environment.isEnding() ? {} : { ...how, end: INTERRUPTED },
    );
    if (open) await this.#resume(open);
  }

  /** Reads what is stored while nothing runs, and returns the turn that can continue. @throws {StoreError} */
  async #settle(how: ReadOptions): Promise<OpenTurn | undefined> {
    const { open, waiting } = await this.#read(how);
    this.#release({ waiting, goesOn: open !== undefined });
    return open;
  }

  /**
   * Reads the session from the store.
   *
   * @returns Inputs that wait, the number of the last event before a turn that runs elsewhere, and the turn that continues here.
   * @throws {StoreError}
   */
  async #read({ end, isLate = false, goesOn = false }: ReadOptions): Promise<{
    readonly waiting: readonly Content[];
    readonly runningAfter?: number | undefined;
    readonly open?: OpenTurn | undefined;
  }> {
    const { id, settings, tools, environment: { store, approvals } } = this.#needs;
    const { events, helpers } = this;
    const { rebuilt, links, recovery, waiting, runningAfter, open, known: history } = await readHistory(id, {
      ...{ store, tools: tools(), instructions: settings.instructions, known: this.#known },
      ...{ end, goesOn, unknownOutcome: approvals?.unknownOutcome },
    });
    const [stored, queued = []] = await Promise.all([
      this.#records.read(),
      store.readState(id, "queued") as Promise<readonly QueuedTurn[] | undefined>,
    ]);
    const value = stored.value as PromptState | undefined;
    const known: SessionTotals = { ...NO_TURNS, ...stored.totals as SessionTotals | undefined };
    const { days, pinged, chosen } = known;
    if (chosen) choose(settings, chosen);
    // Events report only what turns cost.
    const ledger = pinged ? addLedgers(rebuilt.ledger, pinged) : rebuilt.ledger;
    const totals = { ...known, ledger, turns: rebuilt.turns };
    const records = stateRecords(id, { totals, steering: [], turn: null });
    if (open) events.mend([], []);
    else if (isLate) events.mend(recovery, recovery.length === 0 ? [] : records);
    else if (recovery.length > 0 || end && end !== INTERRUPTED) await events.append(recovery, { records });
    this.#history = rebuilt.messages;
    this.#known = history;
    this.#cost = rebuilt.ledger;
    helpers.adopt(links);
    this.#questions = rebuilt.questions;
    this.#isOpen = open !== undefined;
    this.#queued = queued;
    const { title } = stored;
    this.#prompt = new SessionPrompt({
      ...this.#needs,
      stored: { pins: [], ...value, title, days },
      before: this.#isBegun ? undefined : this.#prompt,
      isStored: (state) => state === this.#stored.value,
      alone: (work) => this.#alone(work),
      paid: (cost) => this.#bookPing(cost),
    });
    this.#stored = { ...stored, totals, summed: days, value: this.#prompt.state };
    this.#isBegun = false;
    return { waiting, runningAfter, open };
  }

  /** Returns the inputs that wait for the loop, which takes them now. */
  #takeWaiting(): readonly Content[] {
    const fresh = this.#waiting.slice(this.#taken);
    this.#taken = this.#waiting.length;
    return fresh;
  }

  /** Returns how a turn opens. @throws {HttpError} 409 if it can't be continued. */
  #opening(request: Parameters<typeof openTurn>[0]): Opening {
    const { id, history, totals: { asks } } = this;
    return openTurn(request, { id, history, questions: this.#questions, asks });
  }

  /** Commits that a turn which has waited can't be played, and why. */
  async #refuse({ id, input }: QueuedTurn, message: string): Promise<void> {
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
      totals: { ...this.totals, turns: this.totals.turns + 1 },
      states: queueStates(queued),
      committed: () => {
        this.#queued = queued;
        if (input !== undefined) this.#history = [...this.#history, { role: "user", content: input }];
      },
    });
  }

  async #begin(
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
    const { asks, ...totals } = this.totals;
    this.#isBegun = true;
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
  async #commit(
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
    const before = this.totals;
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
   * Commits a turn's end. What the user said too late for this turn is not lost: the next one begins with it. It waits
   * for that one if calls are open, because nothing may come between these and their results.
   */
  async #end(
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
    const { events, helpers } = this;
    const isOpen = end.reason === "tool_calls" || end.reason === "approval";
    const [waiting, unheard] = isOpen ? [this.#waiting, []] : [[], this.#waiting];
    const { events: put, asks } = closeTurn(asked, {
      ...{ ledger: end.ledger, opening, options: this.#needs.environment },
    });
    const { turns, ledger } = this.totals;
    const ended = { turns: turns + 1, ledger: addLedgers(ledger, end.ledger), asks };
    // The turn began before it asked for an answer.
    const whole = opening.spent && { whole: addLedgers(opening.spent, end.ledger) };
    const told = unheard.map((input): LoopEvent => ({ type: "user_message", step, input }));
    await this.#commit([...last, ...told, ...put, { type: "turn_end", ...end, ...whole }], {
      ended,
      committed: () => {
        const said = unheard.map((content) => ({ role: "user", content }) as const);
        this.#history = [...this.#history, ...messages, ...said];
        this.#isBegun = false;
        this.#cost = addLedgers(this.#cost, end.ledger);
        this.#known = {
          ...{ after: events.last, messages: this.#history, links: helpers.links },
          ...{ ledger: this.#cost, turns: this.totals.turns, questions: this.#questions },
        };
        committed(waiting);
      },
    });
  }

  #append(
    events: readonly SessionEvent[],
    { totals = this.totals, states, records = [], committed, ...changed }: Change = {},
  ): Promise<void> {
    const { id, events: log } = this;
    const { title, value } = { ...this.#stored, ...changed };
    const next = { ...OWN_SUMS, title, totals, value, days: totals.days };
    const { records: own, after } = this.#records.change(this.#stored, next);
    // A state of its own, by which sessions that wait for an approval are found.
    const asks = totals.asks !== this.totals.asks && { asks: totals.asks ?? null };
    return log.append(events, {
      records: [...own, ...stateRecords(id, { ...asks, ...states }), ...records],
      committed: () => {
        this.#stored = { ...after, totals };
        this.#questions = events.reduce(questionsAfter, this.#questions);
        this.#prompt.conversation.named(title);
        committed?.();
      },
    });
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof HttpError && ["too_many_turns", "server_ending"].includes(error.code);
}

/**
 * What a turn was asked for, for another process that may go on with it. One that works for another turn, or whose client
 * runs tools and waits for its answer, ends with its process: there is nobody to go on for.
 */
function storedTurn(
  { clientTools, payer, tools, settings, maxOutputTokens, unattended }: TurnRequest,
  { budget, spent }: Opening,
): StoredTurn | undefined {
  if (clientTools || payer || tools) return undefined;
  return { settings, maxOutputTokens, unattended, budget, spent };
}

/** @throws {HttpError} the error of an answer of another server. */
function assertDone(answer: unknown): void {
  const { error } = (answer ?? {}) as Told;
  if (error) throw new HttpError(error.status, error.code, error.message);
}

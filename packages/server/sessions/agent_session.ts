import type { TurnLedger } from "@tare/loop";
import { recallTool } from "@tare/tools";
import type { Content, CountTokens, Message, Tool } from "@tare/messages";
import type { Archive } from "@tare/prune";
import { StoreError } from "@tare/session";
import type {
  HolderRequest,
  ListedSession,
  SessionChange,
  SessionRecord,
  StoreRecord,
} from "@tare/session/internal";
import { openCalls, type Opening, type SessionQuestions } from "../approvals/approvals.ts";
import { Helpers, TurnAccount } from "../helpers/helpers.ts";
import { HttpError, toHttpError } from "../http/http_error.ts";
import { checkBudgets, TurnLeft, turnPlayer } from "../turns/play_turn.ts";
import { SessionTools } from "../turns/session_tools.ts";
import type { QueuedTurn } from "../turns/turn_queue.ts";
import { EventLog } from "./event_log.ts";
import { INTERRUPTED, readJournal } from "./history.ts";
import { type QueueChange, serverEnding, SessionHold, turnRunning, type WantedChange } from "./hold.ts";
import { SessionMemory } from "./session_memory.ts";
import { SessionWarmth } from "./session_warmth.ts";
import type { SessionPrompt } from "./session_prompt.ts";
import {
  checkEffort,
  type SessionSettings,
  type StoredSettings,
  storedSettings,
} from "./session_settings.ts";
import {
  type ApprovalAnswered,
  type HelperParent,
  type OpenTurn,
  parentOf,
  type Question,
  type RunningTurn,
  type SessionEnvironment,
  type SessionTotals,
  type StoredTurn,
  type TurnRequest,
} from "./session_types.ts";

/**
 * A conversation with the agent, in memory while it is used. All that changes it waits in one queue, so that nothing
 * comes between what is looked at and what is done about it.
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
  /** What keeps its newest prompt in the provider's cache while it waits. */
  readonly warmth: SessionWarmth;
  readonly #record: SessionRecord;
  readonly #environment: SessionEnvironment;
  readonly #countTokens: CountTokens;
  readonly #memory: SessionMemory;
  readonly #tools: SessionTools;
  readonly #hold: SessionHold;
  #turn: (RunningTurn & { ending?: "stops" | "leaves" }) | undefined;
  /** What the running turn costs. */
  #account: TurnAccount | undefined;

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
    this.helpers = new Helpers(this, { environment, alone: (work) => this.#hold.queued(work) });
    const shown = () => this.#memory.prompt.conversation.newest?.view.messages ?? [];
    const { archive } = this;
    const recalled: Archive = {
      put: (content) => archive.put(content),
      get: (ref) => archive.get(ref),
      refs: () => this.#memory.prompt.archived,
    };
    const own = [...tools, recallTool(recalled, { countTokens, shown }), this.helpers.tool];
    const mayUse = (record.settings as StoredSettings).helper?.tools;
    this.#tools = new SessionTools({ given: this.settings.tools, own, source, mayUse });
    this.#environment = environment;
    this.#countTokens = countTokens;
    const { by, settings } = this;
    const parts = { id, by, settings, archive, environment, countTokens };
    const { events, helpers } = this;
    this.#memory = new SessionMemory({ ...parts, tools: () => this.tools, events, helpers });
    this.warmth = new SessionWarmth({
      ...parts,
      prompt: () => this.prompt,
      alone: (work) => this.#hold.alone(work),
      booked: (cost) => this.#bookPing(cost),
    });
    this.#hold = new SessionHold({
      ...{ id, environment, events, memory: this.#memory },
      turn: () => this.#turn,
      take: (wanted) => this.#take(wanted),
      resume: (open) => this.#resume(open),
      left: () => this.#release({ failure: serverEnding(id), waiting: [] }),
      ended: (how) => this.#release(how),
      changed: () => environment.changed(this),
      unsettled: () => environment.unsettled?.(this),
    });
  }

  /** Loads a session. A turn that an earlier process left unfinished is ended. @throws {StoreError} */
  static async load(record: SessionRecord, environment: SessionEnvironment): Promise<AgentSession> {
    const lastEvent = await environment.store.lastEvent(record.id);
    const countTokens = await environment.models.countTokens();
    const session = new AgentSession(record, environment, { countTokens, lastEvent });
    await session.#hold.load();
    return session;
  }

  get history(): readonly Message[] {
    return this.#memory.history;
  }

  /** The tools of the last turn; before the first one those that are known. */
  get tools(): readonly Tool[] {
    return this.#tools.current;
  }

  /** Number of the last event before the running turn; nothing if none runs. */
  get runningAfter(): number | undefined {
    return this.#turn?.before ?? this.#hold.elsewhereAfter;
  }

  get ledger(): TurnLedger {
    return this.#memory.totals.ledger;
  }

  /** What all its turns come to. */
  get totals(): SessionTotals {
    return this.#memory.totals;
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

  /** Whether this server holds it, if others could. */
  get isHeld(): boolean {
    return this.#hold.isHeld;
  }

  get isGone(): boolean {
    return this.#hold.isGone;
  }

  get title(): string {
    return this.#memory.title;
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
    return this.#memory.prompt;
  }

  get questions(): readonly Question[] {
    return this.#memory.questions;
  }

  /**
   * Settles when memory holds what is stored: after a failure it is read again, and what other servers have written. What
   * one of them left that is gone is taken, and its turn ended. @throws {StoreError}
   */
  ready(): Promise<void> {
    return this.#hold.ready();
  }

  /** Settles when its events can be followed, whoever writes them. @throws {StoreError} */
  followable(): Promise<void> {
    return this.#hold.followable();
  }

  /** Changes pins or title, and stores that with these records. @throws {HttpError} 404 if it is gone. */
  async change(change: SessionChange, records: readonly StoreRecord[]): Promise<void> {
    await this.#change(
      "title" in change
        ? { do: "rename", title: change.title, records }
        : { do: "pin", change: change.pins, records },
    );
    if (!this.isHeld) await this.ready();
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
    return this.#hold.alone(async () => {
      if (this.#turn) throw turnRunning(this.id);
      this.assertSettled();
      const done = await work();
      await this.#memory.add({ role: "system", content: told(done) });
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
    return this.#hold.alone(async () => {
      if (this.#turn) throw turnRunning(this.id);
      if (openCalls(this.history).length > 0) throw callsOpen(this.id);
      const { settings } = this;
      const before = settings.model;
      const now = model ?? before;
      const known = this.#environment.models.efforts?.(now);
      if (typeof effort === "string") checkEffort(effort, { model: now, known });
      const wished = effort === undefined
        ? settings.effort ?? this.totals.chosen?.effortOfOthers
        : effort ?? undefined;
      // Of a model of which nobody knows what it has, an effort is asked that was chosen for it.
      const isFor = effort !== undefined || settings.effort !== undefined && now === before;
      const has = wished !== undefined && (known?.includes(wished) ?? isFor);
      checkBudgets({ session: settings.budget }, { rates: this.#environment.ratesOf(now), model: now });
      await this.#memory.choose({
        model: now,
        ...(wished !== undefined && (has ? { effort: wished } : { effortOfOthers: wished })),
      });
      // What was kept warm is of no use to another model.
      if (now !== before) this.warmth.goesOn();
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
    return this.#hold.alone(async () => when() ? await this.#start(request) : undefined, {
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
    return this.#hold.alone(async () => {
      if (!this.#turn) return await this.#start(request);
      await this.#memory.steer(input, keep);
      return undefined;
    }, { wanted: () => ({ do: "steer", input, records: keep() }), told: () => undefined });
  }

  get queued(): readonly QueuedTurn[] {
    return this.#memory.queued;
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
    const { store } = this.#environment;
    this.#checkEffort(request);
    const turn = { ...request, id: crypto.randomUUID(), askedAtMs: store.now() };
    const add = async () => {
      // What can't begin is refused at once, where that is known.
      if (!this.#turn && this.queued.length === 0) this.#memory.opening(request);
      await this.#changeQueue({ add: turn }, keep(turn));
      // Whoever follows sees it begin.
      if (!this.#turn) this.events.open();
    };
    await this.#hold.alone(add, {
      wanted: () => ({ do: "queue", change: { add: turn }, records: keep(turn) }),
      told: () => {},
    });
    this.#environment.changed(this);
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
    return this.#hold.alone(async () => {
      const [next] = this.queued;
      if (!next || this.#turn || this.questions.length > 0) return false;
      const { askedAtMs: _, ...request } = next;
      try {
        await this.#start(request);
      } catch (error) {
        if (error instanceof StoreError || isBusy(error)) throw error;
        await this.#memory.refuse(next, toHttpError(error).message);
        this.#release({});
      }
      return true;
    }, { told: () => false });
  }

  /** Makes a change here, or has the server make it on which a turn runs. */
  #change(wanted: WantedChange): Promise<void> {
    return this.#hold.alone(() => this.#take(wanted), { wanted: () => wanted, told: () => {} });
  }

  async #take(wanted: WantedChange): Promise<void> {
    switch (wanted.do) {
      case "steer":
        return await this.#memory.steer(wanted.input, () => wanted.records);
      case "queue":
        return await this.#changeQueue(wanted.change, wanted.records);
      case "rename":
        return await this.#memory.rename(wanted.title, wanted.records);
      case "pin":
        return await this.#memory.changePins(wanted.change, wanted.records);
    }
  }

  async #changeQueue(change: QueueChange, records: readonly StoreRecord[]): Promise<void> {
    const queued = "add" in change
      ? [...this.queued, change.add]
      : this.queued.filter(({ id }) => id !== change.remove);
    if ("add" in change && queued.length > MOST_IN_A_SESSION) throw queueFull(this.id);
    await this.#memory.queue(queued, records);
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
    return this.#hold.alone(async () => {
      const { told, isAll } = this.#memory.hear(say);
      if (isAll) return await this.#start({ ...request, told });
      await this.#memory.tell(told);
      return undefined;
    }, {
      told: () => {
        if (this.#memory.hear(say).told.length > 0) throw turnRunning(this.id);
        return undefined;
      },
    });
  }

  /** Denies what is asked, and nothing goes on. False if nothing is. */
  withdraw(): Promise<boolean> {
    return this.#hold.alone(async () => {
      if (this.questions.length === 0) return false;
      await this.#memory.withdraw((waiting) => this.#release({ waiting }));
      return true;
    }, { told: () => false });
  }

  /** Cancels the running turn, on whichever server, and waits for its end. False if none runs. */
  async cancel(): Promise<boolean> {
    if (await this.cancelHere()) return true;
    return this.isRunning && await this.#hold.ask({ do: "cancel" });
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
    if (this.#memory.isOpen) turn.ending = "leaves";
    const cut = () => {
      this.#hold.leave();
      turn.cancel();
    };
    if (signal.aborted) cut();
    else signal.addEventListener("abort", cut);
    await turn.done.finally(() => signal.removeEventListener("abort", cut));
    await this.#hold.giveUp();
  }

  /** Does what another server asks, if a turn runs. */
  asked(request: HolderRequest): Promise<void> {
    return this.#hold.asked(request);
  }

  /** Removes the session if nothing runs in it then, and `when` says so. Tells whether it did. */
  deleteIdle(when: () => boolean = () => true): Promise<boolean> {
    return this.#hold.alone(async () => {
      if (this.#turn || !when()) return false;
      await this.events.remove();
      this.warmth.forget();
      this.#hold.goAway();
      await this.#environment.workspace?.checkpoints?.forget(this.id).catch((error) =>
        this.#environment.onError?.(error)
      );
      return true;
    }, { told: () => false });
  }

  /** @throws {HttpError} 400 if the model doesn't have the effort that a turn asks for. */
  #checkEffort({ settings: { reasoning_effort: effort } = {} }: Pick<TurnRequest, "settings">): void {
    const { model } = this.settings;
    if (effort !== undefined) {
      checkEffort(effort, { model, known: this.#environment.models.efforts?.(model) });
    }
  }

  async #start(
    { input, results, told, budget, keep, id, giveBack, ...given }: TurnRequest,
  ): Promise<RunningTurn> {
    if (this.#turn) throw turnRunning(this.id);
    this.#checkEffort(given);
    const opening = this.#memory.opening({ input, results, told, budget });
    const before = this.events.last + opening.events.length;
    return await this.#play({ input, ...given }, {
      ...{ before, opening, release: giveBack ?? this.#environment.takeSlot() },
      begin: (committed) =>
        this.#memory.begin(opening, { input, keep, id, committed, turn: storedTurn(given, opening) }),
    });
  }

  /** Goes on with a turn that another process left. One that can't go on here ends. */
  async #resume(open: OpenTurn): Promise<void> {
    const { before, resumed, asked: { budget, spent, ...given } } = open;
    const { always } = this.#memory.allQuestions;
    const opening = { budget, spent, always, events: [], answers: [], answered: [] };
    const release = this.#environment.takeSlot("running");
    const begin = (committed: () => void) => this.#memory.resume(open, { committed });
    try {
      await this.#play({ ...given, resumed }, { before, opening, release, begin });
    } catch (error) {
      if (error instanceof StoreError) throw error;
      this.#environment.onError?.(error);
      const message = `The server ended in the middle of this turn, and can't go on with it. ${
        toHttpError(error).message
      } It can be continued.`;
      this.#release(await this.#memory.restore({ end: { reason: "interrupted", message } }));
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
      this.#environment.onError?.(error);
    };
    const tenure = this.#hold.tenure();
    try {
      const turn = asked.input === undefined ? await this.#usersTurn() ?? before : before;
      const account = new TurnAccount();
      const play = turnPlayer({ ...asked, signal: controller.signal }, {
        ...{
          session: this,
          environment: this.#environment,
          countTokens: this.#countTokens,
          opening,
          account,
          turn,
        },
        takeTools: (signal) => this.#tools.take(signal),
        steering: () => tenure.isOwn() ? this.#memory.takeWaiting() : [],
        commit: (events, options) => tenure.run(() => this.#memory.commit(events, options)),
        assertOwn: tenure.assertOwn,
        isLeft: () => this.#turn?.ending === "leaves",
        journal: (call) => readJournal(this.id, call, this.#environment.store),
      });
      await this.#environment.teller?.refresh();
      await begin(() => this.events.open());
      const done = play()
        .then(({ result: { messages, error, ...end }, ...played }) => {
          if (error !== undefined) onError(error);
          const committed = (waiting: readonly Content[]) => {
            this.#release({
              waiting,
              ended: () => this.warmth.rests(end, messages, this.parent !== undefined),
            });
          };
          const isStopped = end.reason === "cancelled" && this.#turn?.ending === "stops";
          const told = { ...end, ...(isStopped && INTERRUPTED) };
          return tenure.run(() =>
            this.#memory.end({ ...played, end: told, messages }, { opening, committed })
          );
        })
        .catch((error) => {
          if (error instanceof TurnLeft) return this.#hold.leave();
          // What it does after it was left is nobody's.
          if (this.#hold.isLeft) return;
          // A bug of ours, or the store: the turn ends with what is stored of it.
          onError(error);
          const end = { reason: "internal_error", message: toHttpError(error).message } as const;
          return tenure.fail(end, (storeError, isLost) => {
            onError(storeError);
            // Not even the end could be committed, so nobody may see one: readers are told of the failure itself.
            if (!isLost) this.#release({ failure: toHttpError(storeError) });
          });
        })
        .then(() => ({ ...outcome, messages: this.history.length }))
        .finally(release);
      const cancel = () => {
        controller.abort();
        this.warmth.goesOn();
      };
      this.#turn = { before, cancel, done };
      this.#account = account;
      this.#environment.changed(this);
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
    const { store, workspace: { checkpoints } = {} } = this.#environment;
    if (!checkpoints) return undefined;
    const starts = await store.readEvents(this.id, { types: ["turn_start"] });
    const start = starts.findLast(({ event }) => "input" in event && event.input !== undefined);
    return start && start.number - 1;
  }

  /** What a ping cost is paid for by the turn that runs. */
  #bookPing(cost: TurnLedger): void {
    this.#account?.pinged(cost);
    this.#environment.keys?.paid(this.by, cost.usd ?? 0);
    const store = this.#memory.pinged(cost, { inTurn: this.#account !== undefined });
    this.#hold.alone(store, { told: () => {} })
      .catch((error) => this.#environment.onError?.(error));
  }

  /** Nothing runs any more. What waits enters the next turn. */
  #release(
    { failure, waiting = [], goesOn = false, ended = () => this.warmth.goesOn() }: {
      readonly failure?: unknown;
      readonly waiting?: readonly Content[];
      readonly goesOn?: boolean;
      /** Keeps warm what is worth it. Default: what was asked is gone on with elsewhere, or not at all. */
      readonly ended?: () => void;
    },
  ): void {
    this.#turn = undefined;
    this.#account = undefined;
    ended();
    this.#memory.rest(waiting);
    // Whoever follows a turn that asks sees it go on.
    const isToBegin = this.questions.length > 0 || this.queued.length > 0;
    if (goesOn || failure === undefined && isToBegin) this.events.open();
    else this.events.close(failure);
    this.#environment.changed(this);
  }
}

const MOST_IN_A_SESSION = 100;

function queueFull(id: string): HttpError {
  return new HttpError(
    429,
    "too_many_turns",
    `Cannot take the turn: ${MOST_IN_A_SESSION} wait in session ${id} already, and no more may.`,
    { "retry-after": "30" },
  );
}

function callsOpen(id: string): HttpError {
  const state = `calls of session ${id}'s last turn have no result yet`;
  return new HttpError(409, "approval_open", `Cannot do this now: ${state}. Answer or cancel them first.`);
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

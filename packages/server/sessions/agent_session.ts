import type { LoopEvent, TurnEnd, TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import { recallTool } from "@tare/tools";
import type { Content, CountTokens, Message, Tool } from "@tare/messages";
import { firstWords, userWords } from "@tare/messages/internal";
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
  abandonTurn,
  approvalsAfter,
  closeTurn,
  NO_APPROVALS,
  openApprovals,
  openCalls,
  type Opening,
  openTurn,
  type SessionApprovals,
  takeDecisions,
} from "../approvals/approvals.ts";
import { Subagents, TurnAccount } from "../subagents/subagents.ts";
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
  OWN_TOTALS,
  readHistory,
  readJournal,
  type RecoveryOptions,
} from "./history.ts";
import { callsOpen, sessionLeft, sessionNotFound, turnRunning } from "./session_errors.ts";
import { type PromptState, SessionPrompt } from "./session_prompt.ts";
import {
  checkEffort,
  choose,
  parentOf,
  type SessionSettings,
  type StoredSettings,
  storedSettings,
  type SubagentParent,
} from "./session_settings.ts";
import {
  type ApprovalAnswered,
  NO_TURNS,
  type OpenTurn,
  type PendingApproval,
  type PinChange,
  type RunningTurn,
  type SessionEnvironment,
  type SessionEvent,
  type SessionNeeds,
  type SessionTotals,
  type StoredTurn,
  type TurnRequest,
} from "./session_types.ts";

/** A request to the server that owns a session. If no turn runs there, the caller may make the change itself. */
type OwnerRequest =
  | { readonly do: "check" }
  | { readonly do: "cancel" }
  | ChangeRequest;

type ChangeRequest =
  | { readonly do: "steer"; readonly input: Content; readonly records: readonly StoreRecord[] }
  | { readonly do: "pin"; readonly change: PinChange; readonly records: readonly StoreRecord[] }
  | { readonly do: "rename"; readonly title: string; readonly records: readonly StoreRecord[] }
  | { readonly do: "queue"; readonly change: QueueChange; readonly records: readonly StoreRecord[] };

interface OwnerAnswer {
  readonly error?: Pick<HttpError, "status" | "code" | "message">;
}

interface Change extends Partial<Pick<NextState, "title" | "value">> {
  readonly totals?: SessionTotals;
  readonly states?: object;
  readonly records?: readonly StoreRecord[];
  readonly committed?: () => void;
}

interface ReadOptions {
  readonly end?: RecoveryOptions["end"] | undefined;
  readonly isLate?: boolean;
  /** Whether the turn continues here, if it can. Default: it ends. */
  readonly continues?: boolean;
}

/**
 * A conversation with the agent. Changes run one at a time, each as one commit; memory changes after the commit and
 * before its events can be read.
 */
export class AgentSession {
  readonly id: string;
  readonly settings: SessionSettings;
  readonly parent: SubagentParent | undefined;
  readonly by: string | undefined;
  readonly subagents: Subagents;
  readonly events: EventLog;
  readonly archive: Archive;
  readonly ownership: Ownership;
  readonly #record: SessionRecord;
  readonly #records: SessionRecords;
  readonly #needs: SessionNeeds;
  readonly #tools: SessionTools;
  #stored: StoredState & { readonly totals: SessionTotals } = { ...SessionRecords.NOTHING, totals: NO_TURNS };
  #history: readonly Message[] = [];
  #known: KnownHistory | undefined;
  /** Cost of all turns, without keep-alive requests between them. */
  #cost = EMPTY_LEDGER;
  #approvals = NO_APPROVALS;
  #prompt!: SessionPrompt;
  #waiting: readonly Content[] = [];
  #taken = 0;
  #queued: readonly QueuedTurn[] = [];
  #isOpen = false;
  #isBegun = false;
  #turn: (RunningTurn & { ending?: "stops" | "suspends" }) | undefined;
  #account: TurnAccount | undefined;
  /** Last event before another server's turn, as of the last read. */
  #elsewhereAfter: number | undefined;

  private constructor(
    record: SessionRecord,
    environment: SessionEnvironment,
    { countTokens, lastEvent }: { readonly countTokens: CountTokens; readonly lastEvent: number },
  ) {
    const { tools, advanced: { toolSource: source } = {}, store, notifier } = environment;
    const id = this.id = record.id;
    this.#record = record;
    this.settings = storedSettings(record.settings);
    this.parent = parentOf(record);
    this.by = record.by;
    this.archive = store.archive(id);
    this.events = new EventLog(store, {
      ...{ sessionId: id, last: lastEvent },
      reporter: notifier && { ...notifier, recordsOf: (committed) => notifier.recordsOf(this, committed) },
    });
    this.subagents = new Subagents(this, { environment, alone: (work) => this.ownership.queued(work) });
    const visible = () => this.session.newest?.view.messages ?? [];
    const { by, settings, archive, events } = this;
    const recalled: Archive = {
      put: (content) => archive.put(content),
      get: (ref) => archive.get(ref),
      refs: () => this.#prompt.archived,
    };
    const own = [...tools, recallTool(recalled, { countTokens, visible }), this.subagents.tool];
    const mayUse = (record.settings as StoredSettings).subagent?.tools;
    this.#tools = new SessionTools({ given: settings.tools, own, source, mayUse });
    this.#needs = { id, by, settings, archive, environment, countTokens, tools: () => this.tools };
    this.#records = new SessionRecords(store, id);
    this.ownership = new Ownership({
      ...{ id, store, events, onError: environment.onError },
      isBusy: () => this.#turn !== undefined,
      recover: async () => {
        await notifier?.refresh();
        if (store.shared) events.reach(await store.lastEvent(id));
        // A turn that ended because the disk was full continues on the next request.
        await this.#recover(store.shared ? { continues: true } : { isLate: true });
      },
      read: async (isOther) => {
        const { waiting, runningAfter } = await this.#read({});
        this.#release({ waiting, continues: isOther || runningAfter !== undefined });
        if (isOther) this.#elsewhereAfter = runningAfter;
        return runningAfter !== undefined;
      },
      observe: async (seen) => {
        await events.catchUp(seen);
        if (seen.holder === "other") return events.open(), true;
        const last = events.newest;
        if (last?.type !== "turn_end" || last.reason === "approval") return false;
        this.#queued = (await store.readState(id, "queued") ?? []) as readonly QueuedTurn[];
        this.#approvals = { ...this.#approvals, pending: [] };
        this.#release({});
        return true;
      },
      handle: (request, answer) => this.#handle(request as OwnerRequest, answer),
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

  /** Loads a session. A turn that an earlier process left continues or ends. @throws {StoreError} */
  static async load(record: SessionRecord, environment: SessionEnvironment): Promise<AgentSession> {
    const lastEvent = await environment.store.lastEvent(record.id);
    const countTokens = await environment.models.countTokens();
    const session = new AgentSession(record, environment, { countTokens, lastEvent });
    if (environment.store.shared) await session.ready();
    else {
      await session.#recover({ isLate: true, continues: true }).catch(async (error) => {
        if (!(error instanceof StoreError && error.code === "full")) throw error;
        environment.onError?.(error);
        await session.#recover({ isLate: true });
      });
    }
    return session;
  }

  get history(): readonly Message[] {
    return this.#history;
  }

  get tools(): readonly Tool[] {
    return this.#tools.current;
  }

  get runningAfter(): number | undefined {
    return this.#turn?.before ?? this.#elsewhereAfter;
  }

  get ledger(): TurnLedger {
    return this.totals.ledger;
  }

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

  get title(): string {
    return this.session.state.title;
  }

  get row(): ListedSession {
    const { title, lastEvent, isRunning: isHeld } = this;
    return { ...this.#record, title, lastEvent, totals: this.totals, isHeld };
  }

  get session(): SessionPrompt["conversation"] {
    return this.prompt.conversation;
  }

  get prompt(): SessionPrompt {
    return this.#prompt;
  }

  get questions(): readonly PendingApproval[] {
    return openApprovals(this.#approvals);
  }

  /** Settles when memory equals the store. @throws {StoreError} */
  ready(): Promise<void> {
    return this.ownership.ready();
  }

  async change(change: SessionChange, records: readonly StoreRecord[]): Promise<void> {
    await this.#change(
      "title" in change
        ? { do: "rename", title: change.title, records }
        : { do: "pin", change: change.pins, records },
    );
    if (!this.ownership.isHeld) await this.ready();
  }

  assertSettled(): void {
    if (openCalls(this.history).length > 0) throw callsOpen(this.id);
  }

  /**
   * Runs `work` between turns, and appends its outcome to the history.
   *
   * @throws {HttpError} 409 if a turn runs or waits for approval; 404 if the session is gone; and errors of `work`.
   */
  betweenTurns<T>(work: () => Promise<T>, describe: (done: T) => string): Promise<T> {
    return this.#exclusively(async () => {
      if (this.#turn) throw turnRunning(this.id);
      this.assertSettled();
      const done = await work();
      const message = { role: "system", content: describe(done) } as const;
      await this.#append([{ type: "message_added", message }], {
        committed: () => this.#history = [...this.#history, message],
      });
      return done;
    });
  }

  /**
   * Sets model and effort of the next turns; a null effort is the model's own. An effort that the model doesn't
   * support is stored for a later model.
   *
   * @throws {HttpError} 400 if the model doesn't support the effort, or has no known price and a budget needs one;
   * 409 if a turn runs or waits for approval; 404 if the session is gone.
   */
  choose({ model, effort }: { readonly model?: string; readonly effort?: string | null }): Promise<void> {
    return this.#exclusively(async () => {
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
      if (now !== before) this.#prompt.stopKeepAlive();
    });
  }

  /**
   * Starts a turn, and resolves after the commit. The session is idle again before the turn's end can be read, so
   * that a client can then start the next turn.
   *
   * @param when Returns whether to start, once the session is idle. Default: always.
   * @throws {HttpError} 409 if a turn runs or there is nothing to continue, 429 if no more turns may run, 404 if the
   * session is gone.
   * @throws {StoreError} if the start can't be committed; nothing has changed then.
   */
  start(request: TurnRequest): Promise<RunningTurn>;
  start(request: TurnRequest, when: () => boolean): Promise<RunningTurn | undefined>;
  start(request: TurnRequest, when: () => boolean = () => true): Promise<RunningTurn | undefined> {
    return this.#exclusively(async () => when() ? await this.#start(request) : undefined, {
      answered: () => {
        if (when()) throw turnRunning(this.id);
        return undefined;
      },
    });
  }

  /**
   * Adds the input to the running turn, or starts a turn and returns it.
   *
   * @throws {HttpError} 429 if too many inputs wait already; and as {@linkcode AgentSession.start} does.
   */
  steerOrStart(request: TurnRequest & { readonly input: Content }): Promise<RunningTurn | undefined> {
    const { input } = request;
    const keep = () => request.keep?.("steers") ?? [];
    return this.#exclusively(async () => {
      if (!this.#turn) return await this.#start(request);
      await this.#steer(input, keep());
      return undefined;
    }, { request: () => ({ do: "steer", input, records: keep() }), answered: () => undefined });
  }

  get queued(): readonly QueuedTurn[] {
    return this.#queued;
  }

  /** Queues a turn. @throws {HttpError} 409 if there is nothing to continue, 429 if too many wait. */
  async enqueue(
    request: Pick<TurnRequest, "input" | "budget" | "settings" | "unattended">,
    keep: (turn: QueuedTurn) => readonly StoreRecord[],
  ): Promise<QueuedTurn> {
    const { store } = this.#needs.environment;
    this.#checkEffort(request);
    const turn = { ...request, id: crypto.randomUUID(), requestedAtMs: store.now() };
    const add = async () => {
      if (!this.#turn && this.queued.length === 0) this.#opening(request);
      await this.#changeQueue({ add: turn }, keep(turn));
      if (!this.#turn) this.events.open();
    };
    await this.#exclusively(add, {
      request: () => ({ do: "queue", change: { add: turn }, records: keep(turn) }),
      answered: () => {},
    });
    this.#needs.environment.changed(this);
    return turn;
  }

  async dequeue(id: string): Promise<boolean> {
    await this.ready();
    if (!this.queued.some((turn) => turn.id === id)) return false;
    await this.#change({ do: "queue", change: { remove: id }, records: [] });
    if (!this.isRunning && this.queued.length === 0 && this.questions.length === 0) this.events.close();
    return true;
  }

  startQueued(): Promise<boolean> {
    return this.#exclusively(async () => {
      const [next] = this.queued;
      if (!next || this.#turn || this.questions.length > 0) return false;
      const { requestedAtMs: _, ...request } = next;
      try {
        await this.#start(request);
      } catch (error) {
        if (error instanceof StoreError || isBusy(error)) throw error;
        await this.#refuse(next, toHttpError(error).message);
        this.#release({});
      }
      return true;
    }, { answered: () => false });
  }

  #change(request: ChangeRequest): Promise<void> {
    return this.#exclusively(() => this.#take(request), { request: () => request, answered: () => {} });
  }

  async #take(request: ChangeRequest): Promise<void> {
    switch (request.do) {
      case "steer":
        return await this.#steer(request.input, request.records);
      case "queue":
        return await this.#changeQueue(request.change, request.records);
      case "rename":
        return await this.#append([], { title: request.title, records: request.records });
      case "pin":
        return await this.#changePins(request.change, request.records);
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
    this.session.pin(change);
  }

  async #steer(input: Content, records: readonly StoreRecord[]): Promise<void> {
    const waiting = [...this.#waiting, input];
    assertMayWait(this.id, waiting);
    const committed = () => this.#waiting = waiting;
    await this.#append([], { states: { steering: waiting }, records, committed });
  }

  /** Handles another server's request. Returns false if the answer is due after the turn's end. */
  async #handle(request: OwnerRequest, answer: (answer: OwnerAnswer) => StoreRecord): Promise<boolean> {
    const { store } = this.#needs.environment;
    try {
      if (request.do === "cancel") return this.#turn?.cancel(), false;
      if (request.do === "check") await store.commit([answer({})]);
      else await this.#take({ ...request, records: [...request.records, answer({})] });
    } catch (error) {
      if (isFenced(error)) throw error;
      const { status, code, message } = toHttpError(error);
      await store.commit([answer({ error: { status, code, message } })]);
    }
    return true;
  }

  /**
   * Runs `work` while nothing else changes the session. If a turn runs on another server, that server receives the
   * request, and `answered` returns the result. Default: HTTP 409. @throws {HttpError} the other server's error.
   */
  #exclusively<T>(
    work: () => Promise<T>,
    {
      request = () => ({ do: "check" }),
      answered = () => {
        throw turnRunning(this.id);
      },
    }: { readonly request?: () => OwnerRequest; readonly answered?: () => T } = {},
  ): Promise<T> {
    return this.ownership.exclusively(work, {
      request,
      answered: (answer) => {
        assertDone(answer);
        return answered();
      },
    });
  }

  /**
   * Answers pending approvals. After the last one the turn continues and is returned.
   *
   * @throws {HttpError} as {@linkcode AgentSession.start} does, and errors of `decide`. Nothing has changed then.
   */
  answer(
    decide: (questions: SessionApprovals) => readonly ApprovalAnswered[],
    request: Pick<TurnRequest, "unattended"> = {},
  ): Promise<RunningTurn | undefined> {
    return this.#exclusively(async () => {
      const { decisions, isAll } = takeDecisions(this.#approvals, decide);
      if (isAll) return await this.#start({ ...request, decisions });
      await this.#append(decisions);
      return undefined;
    }, {
      answered: () => {
        if (takeDecisions(this.#approvals, decide).decisions.length > 0) throw turnRunning(this.id);
        return undefined;
      },
    });
  }

  withdraw(): Promise<boolean> {
    return this.#exclusively(async () => {
      if (this.questions.length === 0) return false;
      const { events, answers } = abandonTurn(this.#approvals, this.#history, { by: "cancel" });
      await this.#commit(events, {
        ended: { pendingApproval: undefined },
        committed: () => {
          this.#history = [...this.#history, ...answers];
          this.#release({ waiting: this.#waiting });
        },
      });
      return true;
    }, { answered: () => false });
  }

  async cancel(): Promise<boolean> {
    if (await this.cancelHere()) return true;
    if (!this.isRunning) return false;
    const request = await this.ownership.request({ do: "cancel" } satisfies OwnerRequest);
    assertDone(request?.answer);
    return request !== undefined;
  }

  async cancelHere(): Promise<boolean> {
    const turn = this.#turn;
    turn?.cancel();
    await turn?.done;
    return turn !== undefined;
  }

  async stop(): Promise<void> {
    if (this.#turn) this.#turn.ending = "stops";
    await this.cancelHere();
  }

  /**
   * Leaves the turn that runs here to another process: at its next step, or once the signal is aborted. A turn that
   * no other process can continue may run until then.
   */
  async leave(signal: AbortSignal): Promise<void> {
    const turn = this.#turn;
    if (!turn) return;
    if (this.#isOpen) turn.ending = "suspends";
    const cut = () => {
      this.#leave();
      turn.cancel();
    };
    if (signal.aborted) cut();
    else signal.addEventListener("abort", cut);
    await turn.done.finally(() => signal.removeEventListener("abort", cut));
    await this.ownership.releaseLeft();
  }

  #leave(): void {
    if (!this.#turn) return;
    this.ownership.leave();
    this.#release({ failure: sessionLeft(this.id) });
  }

  deleteIdle(when: () => boolean = () => true): Promise<boolean> {
    return this.#exclusively(async () => {
      if (this.#turn || !when()) return false;
      await this.events.remove();
      this.#prompt.forget();
      this.ownership.markDeleted();
      await this.#needs.environment.workspace?.checkpoints?.forget(this.id).catch((error) =>
        this.#needs.environment.onError?.(error)
      );
      return true;
    }, { answered: () => false });
  }

  #checkEffort({ settings: { reasoning_effort: effort } = {} }: Pick<TurnRequest, "settings">): void {
    const { model } = this.settings;
    if (effort !== undefined) {
      checkEffort(effort, { model, known: this.#needs.environment.models.efforts?.(model) });
    }
  }

  async #start(
    { input, results, decisions, budget, keep, id, giveBack, ...given }: TurnRequest,
  ): Promise<RunningTurn> {
    if (this.#turn) throw turnRunning(this.id);
    this.#checkEffort(given);
    const opening = this.#opening({ input, results, decisions, budget });
    const before = this.events.last + opening.events.length;
    const start = {
      type: "turn_start",
      ...(input !== undefined && { input }),
      ...(id !== undefined && { id }),
    } as const;
    const turn = storedTurn(given, opening);
    return await this.#play({ input, ...given }, {
      ...{ before, opening, release: giveBack ?? this.#needs.environment.takeSlot() },
      begin: (committed) => {
        const { pendingApproval, ...totals } = this.totals;
        const queued = this.#queued.filter((one) => one.id !== id);
        this.#isBegun = true;
        return this.#append([...opening.events, start], {
          title: this.title || firstWords(input && userWords({ role: "user", content: input })),
          ...(pendingApproval && { totals }),
          states: { ...(turn && { turn }), ...(id !== undefined && queueStates(queued)) },
          records: keep?.("starts") ?? [],
          committed: () => {
            this.#history = [...this.#history, ...opening.answers];
            this.#isOpen = turn !== undefined;
            this.#queued = queued;
            committed();
          },
        });
      },
    });
  }

  async #resume(open: OpenTurn): Promise<void> {
    const { before, resumed, events, request: { budget, spent, continues, ...given } } = open;
    const { always } = this.#approvals;
    const opening = { budget, spent, continues, always, events: [], answers: [], answered: [] };
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
      const message =
        `The server stopped during this turn, and cannot continue it. ${toHttpError(error).message} The ` +
        "turn can be continued.";
      await this.#settle({ end: { reason: "interrupted", message } });
    }
  }

  async #play(
    parts: Omit<Parameters<typeof turnPlayer>[0], "signal">,
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
      const turn = parts.input === undefined ? await this.#usersTurn() ?? before : before;
      const account = new TurnAccount();
      const play = turnPlayer({ ...parts, signal: controller.signal }, {
        ...{
          session: this,
          environment: this.#needs.environment,
          countTokens: this.#needs.countTokens,
          opening,
          account,
          turn,
        },
        takeTools: (signal) => this.#tools.take(signal),
        steering: () => {
          if (!tenure.isOwn()) return [];
          const fresh = this.#waiting.slice(this.#taken);
          this.#taken = this.#waiting.length;
          return fresh;
        },
        commit: (events, options) => tenure.run(() => this.#commit(events, options)),
        assertOwn: tenure.assertOwn,
        isLeft: () => this.#turn?.ending === "suspends",
        journal: (call) => readJournal(this.id, call, this.#needs.environment.store),
      });
      await this.#needs.environment.notifier?.refresh();
      await begin(() => this.events.open());
      const done = play()
        .then(({ result: { messages, error, ...end }, ...played }) => {
          if (error !== undefined) onError(error);
          const committed = (waiting: readonly Content[]) => {
            this.#release({
              waiting,
              ended: () => this.#prompt.turnEnded(end, messages, this.parent !== undefined),
            });
          };
          const isStopped = end.reason === "cancelled" && this.#turn?.ending === "stops";
          const ended = { ...end, ...(isStopped && INTERRUPTED) };
          return tenure.run(() => this.#end({ ...played, end: ended, messages }, { opening, committed }));
        })
        .catch((error) => {
          if (error instanceof TurnLeft) return this.#leave();
          if (this.ownership.isLeft) return;
          onError(error);
          const end = { reason: "internal_error", message: toHttpError(error).message } as const;
          return tenure.run(() =>
            this.#settle({ end }).then(() => {}, (storeError) => {
              onError(storeError);
              if (isFenced(storeError)) throw storeError;
              this.#release({ failure: toHttpError(storeError) });
            })
            // A turn whose session was lost is ended by the server that owns it now.
          ).catch(() => {});
        })
        .then(() => ({ ...outcome, messages: this.history.length }))
        .finally(release);
      const cancel = () => {
        controller.abort();
        this.#prompt.stopKeepAlive();
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
   * Returns the number of the last event before the newest turn that began with an input. A turn that continues after
   * an approval is part of that turn.
   */
  async #usersTurn(): Promise<number | undefined> {
    const { store, workspace: { checkpoints } = {} } = this.#needs.environment;
    if (!checkpoints) return undefined;
    const starts = await store.readEvents(this.id, { types: ["turn_start"] });
    const start = starts.findLast(({ event }) => "input" in event && event.input !== undefined);
    return start && start.number - 1;
  }

  #recordKeepAlive(cost: TurnLedger): void {
    this.#account?.keepAliveLedger(cost);
    this.#needs.environment.keys?.paid(this.by, cost.usd ?? 0);
    const inTurn = this.#account !== undefined;
    const prompt = this.#prompt;
    const store = async () => {
      // A prompt that was read again since doesn't include the cost.
      if (prompt !== this.#prompt) return;
      const { ledger, keepAliveLedger = EMPTY_LEDGER, pendingApproval } = this.totals;
      const totals = {
        ...this.totals,
        days: prompt.conversation.state.days,
        ...(!inTurn && {
          ledger: addLedgers(ledger, cost),
          keepAliveLedger: addLedgers(keepAliveLedger, cost),
          ...(pendingApproval &&
            { pendingApproval: { ...pendingApproval, spent: addLedgers(pendingApproval.spent, cost) } }),
        }),
      };
      await this.#append([], { totals, value: prompt.state });
    };
    this.#exclusively(store, { answered: () => {} })
      .catch((error) => this.#needs.environment.onError?.(error));
  }

  #release(
    { failure, waiting = [], continues = false, ended = () => this.#prompt.stopKeepAlive() }: {
      readonly failure?: unknown;
      readonly waiting?: readonly Content[];
      readonly continues?: boolean;
      readonly ended?: () => void;
    },
  ): void {
    this.#turn = undefined;
    this.#account = undefined;
    this.#elsewhereAfter = undefined;
    ended();
    this.#waiting = waiting;
    this.#taken = 0;
    const isToBegin = this.questions.length > 0 || this.queued.length > 0;
    if (continues || failure === undefined && isToBegin) this.events.open();
    else this.events.close(failure);
    this.#needs.environment.changed(this);
  }

  /**
   * Reads the store. An abandoned turn continues here or ends, unless this server is shutting down. @throws
   * {StoreError}
   */
  async #recover(how: Omit<ReadOptions, "end">): Promise<void> {
    const open = await this.#settle(
      this.#needs.environment.isEnding() ? {} : { ...how, end: INTERRUPTED },
    );
    if (open) await this.#resume(open);
  }

  async #settle(how: ReadOptions): Promise<OpenTurn | undefined> {
    const { open, waiting } = await this.#read(how);
    this.#release({ waiting, continues: open !== undefined });
    return open;
  }

  /**
   * Returns inputs that wait, the number of the last event before a turn that runs elsewhere, and the turn that
   * continues here. @throws {StoreError}
   */
  async #read({ end, isLate = false, continues = false }: ReadOptions): Promise<{
    readonly waiting: readonly Content[];
    readonly runningAfter?: number | undefined;
    readonly open?: OpenTurn | undefined;
  }> {
    const { id, settings, tools, environment: { store, approvals } } = this.#needs;
    const { events, subagents } = this;
    const { rebuilt, links, recovery, waiting, runningAfter, open, known: history } = await readHistory(id, {
      ...{ store, tools: tools(), instructions: settings.instructions, known: this.#known },
      ...{ end, continues, unknownOutcome: approvals?.unknownOutcome },
    });
    const [stored, queued = []] = await Promise.all([
      this.#records.read(),
      store.readState(id, "queued") as Promise<readonly QueuedTurn[] | undefined>,
    ]);
    const value = stored.value as PromptState | undefined;
    const known: SessionTotals = { ...NO_TURNS, ...stored.totals as SessionTotals | undefined };
    const { days, keepAliveLedger, chosen } = known;
    if (chosen) choose(settings, chosen);
    const ledger = keepAliveLedger ? addLedgers(rebuilt.ledger, keepAliveLedger) : rebuilt.ledger;
    const totals = { ...known, ledger, turns: rebuilt.turns };
    const records = stateRecords(id, { totals, steering: [], turn: null });
    if (open) events.addRecovered([], []);
    else if (isLate) events.addRecovered(recovery, recovery.length === 0 ? [] : records);
    else if (recovery.length > 0 || end && end !== INTERRUPTED) await events.append(recovery, { records });
    this.#history = rebuilt.messages;
    this.#known = history;
    this.#cost = rebuilt.ledger;
    subagents.adopt(links);
    this.#approvals = rebuilt.questions;
    this.#isOpen = open !== undefined;
    this.#queued = queued;
    const { title } = stored;
    this.#prompt = new SessionPrompt({
      ...this.#needs,
      stored: { pins: [], ...value, title, days },
      before: this.#isBegun ? undefined : this.#prompt,
      isStored: (state) => state === this.#stored.value,
      exclusively: (work) => this.#exclusively(work),
      paid: (cost) => this.#recordKeepAlive(cost),
    });
    this.#stored = { ...stored, totals, summed: days, value: this.#prompt.state };
    this.#isBegun = false;
    return { waiting, runningAfter, open };
  }

  #opening(request: Parameters<typeof openTurn>[0]): Opening {
    const { id, history, totals: { pendingApproval } } = this;
    return openTurn(request, { id, history, questions: this.#approvals, pendingApproval });
  }

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

  /**
   * Commits events of the turn with their changes. Unless it is settled, the prompt's state is committed with the
   * later events that report it.
   */
  async #commit(
    events: readonly SessionEvent[],
    { committed, ended, settled = true }: {
      readonly committed?: () => void;
      readonly ended?: Partial<SessionTotals>;
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
   * Commits a turn's end. The next turn begins with inputs that came too late, unless calls have no result: no
   * message may precede results.
   */
  async #end(
    { step, pending, last, end, messages }: Pick<PlayedTurn, "step" | "pending" | "last"> & {
      readonly end: Omit<TurnEnd, "type">;
      readonly messages: readonly Message[];
    },
    { opening, committed }: {
      readonly opening: Opening;
      readonly committed: (waiting: readonly Content[]) => void;
    },
  ): Promise<void> {
    const { events, subagents } = this;
    const isOpen = end.reason === "tool_calls" || end.reason === "approval";
    const [waiting, unheard] = isOpen ? [this.#waiting, []] : [[], this.#waiting];
    const { events: put, pendingApproval } = closeTurn(pending, {
      ...{ ledger: end.ledger, opening, options: this.#needs.environment },
    });
    const { turns, ledger } = this.totals;
    const count = opening.continues && turns > 0 ? 0 : 1;
    const ended = { turns: turns + count, ledger: addLedgers(ledger, end.ledger), pendingApproval };
    const whole = opening.spent && { whole: addLedgers(opening.spent, end.ledger) };
    const received = unheard.map((input): LoopEvent => ({ type: "user_message", step, input }));
    await this.#commit([...last, ...received, ...put, { type: "turn_end", ...end, ...whole }], {
      ended,
      committed: () => {
        const history = unheard.map((content) => ({ role: "user", content }) as const);
        this.#history = [...this.#history, ...messages, ...history];
        this.#isBegun = false;
        this.#cost = addLedgers(this.#cost, end.ledger);
        this.#known = {
          ...{ after: events.last, messages: this.#history, links: subagents.links },
          ...{ ledger: this.#cost, turns: this.totals.turns, questions: this.#approvals },
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
    const next = { ...OWN_TOTALS, title, totals, value, days: totals.days };
    const { records: own, after } = this.#records.change(this.#stored, next);
    // A separate state: sessions that wait for an approval are found by it.
    const pendingApproval = totals.pendingApproval !== this.totals.pendingApproval &&
      { pendingApproval: totals.pendingApproval ?? null };
    return log.append(events, {
      records: [...own, ...stateRecords(id, { ...pendingApproval, ...states }), ...records],
      committed: () => {
        this.#stored = { ...after, totals };
        this.#approvals = events.reduce(approvalsAfter, this.#approvals);
        this.#prompt.conversation.setTitle(title);
        committed?.();
      },
    });
  }
}

function isBusy(error: unknown): boolean {
  return error instanceof HttpError && ["too_many_turns", "server_ending"].includes(error.code);
}

/**
 * Returns the data with which another process continues a turn; `undefined` if the turn ends with its process: a
 * subagent's, or one whose client runs tools.
 */
function storedTurn(
  { clientTools, payer, tools, settings, maxOutputTokens, unattended }: TurnRequest,
  { budget, spent, continues }: Opening,
): StoredTurn | undefined {
  if (clientTools || payer || tools) return undefined;
  return { settings, maxOutputTokens, unattended, budget, spent, continues };
}

function assertDone(answer: unknown): void {
  const { error } = (answer ?? {}) as OwnerAnswer;
  if (error) throw new HttpError(error.status, error.code, error.message);
}

import { CacheKeepAlive, type Store, StoreError } from "@tare/session";
import {
  HeldSessions,
  type ListedSession,
  Queue,
  type SessionChange,
  type SessionKind,
  SessionRecords,
  type SharedStore,
  type StoreRecord,
} from "@tare/session/internal";
import {
  type CallReport,
  type PromptSnapshot,
  ReportedWarnings,
  type SpendingSession,
} from "@tare/session/internal/report";
import { systemClock } from "@tare/loop/internal";
import type { Message } from "@tare/messages";
import { firstWords, userWords } from "@tare/messages/internal";
import { listPrice, type Profile } from "@tare/planner";
import type { Rates } from "@tare/planner/internal/parts";
import { RECALL_TOOL } from "@tare/prune";
import {
  approvalBodies,
  sessionBody,
  type SessionDetails,
  type SessionSummary,
} from "../api/session_body.ts";
import { ApprovalTimers } from "../approvals/approvals.ts";
import { DELEGATE_TOOL } from "../subagents/subagents.ts";
import { HttpError, invalidRequest } from "../http/http_error.ts";
import { checkBudgets } from "../turns/play_turn.ts";
import { allToolsOf, includesTool, STAND_IN_NAMES } from "../turns/session_tools.ts";
import { TurnQueue } from "../turns/turn_queue.ts";
import { eventsOf } from "./event_log.ts";
import { creationRecords, planIn, readTranscript, systemMessage } from "./history.ts";
import { AgentSession } from "./agent_session.ts";
import { serverEnding, sessionNotFound, tooManySessions } from "./session_errors.ts";
import { CALL_EVENTS, callsOf } from "./session_prompt.ts";
import {
  checkEffort,
  type CreateSession,
  type SessionSettings,
  type StoredSettings,
  storedSettings,
} from "./session_settings.ts";
import {
  NO_TURNS,
  type Notifier,
  OWN_AGENT,
  type SessionTotals,
  type SubagentLink,
  type WaitingTurn,
  type WatchedSession,
} from "./session_types.ts";
import type { AdvancedOptions, CloseOptions, SessionOptions } from "./session_options.ts";

export interface NewSession extends CreateSession {
  readonly messages?: readonly Message[];
  readonly isInEnvironment?: boolean;
}

interface CreateOptions {
  readonly by?: string | undefined;
  readonly keep?: (made: readonly ListedSession[]) => readonly StoreRecord[];
}

export const DEFAULT_INSTRUCTIONS: string =
  "You are an agent that works in a folder of files, the workspace, with tools. " +
  "Find out what you need to know with the tools instead of guessing; make independent calls in one step. " +
  "When you are done, answer briefly, and name the files that your answer rests on.";

const MAX_IDLE = 16;

const AGAIN_MS = 10_000;

const CHECK_MS = 3_000;

/**
 * The sessions of a server: all in the store, in memory those with a running turn, recently used ones, and those that
 * a caller holds. A session whose process ended during a turn is recovered when it is first opened.
 */
export class Sessions implements SessionKind<AgentSession, SessionSummary, SessionDetails> {
  readonly kind = "agent";
  readonly slots: TurnSlots;
  readonly #options: SessionOptions;
  readonly #notifier: Notifier | undefined;
  readonly store: Store;
  /** A caller may still start a turn in an evicted session, so that it must not be loaded twice. */
  readonly held: HeldSessions<AgentSession> = new HeldSessions<AgentSession>({
    maxWeight: MAX_IDLE,
    weigh: () => 1,
    isInUse: ({ isPlayed }) => isPlayed,
    findsEvicted: true,
  });
  readonly warnings: ReportedWarnings = new ReportedWarnings();
  readonly keepAlive: CacheKeepAlive | undefined;
  readonly #admitting = new Queue();
  readonly #approvals: ApprovalTimers;
  readonly queue: TurnQueue;
  readonly #unsettled = new Set<WatchedSession>();
  readonly #settling = new Queue();
  #stopAgain = () => {};
  #stopLooking = () => {};
  readonly #broken = new Set<string>();
  #mayWait = false;
  #isClosed = false;

  constructor(options: SessionOptions, notifier?: Notifier) {
    this.#options = options;
    this.store = options.store;
    this.#notifier = notifier;
    const { store, onError = () => {}, limits = {}, advanced: { keepAlive } = {} } = options;
    const after = this.#after;
    this.slots = new TurnSlots(limits.maxRunningTurns ?? 100, { freed: () => this.#freed(), after });
    this.keepAlive = keepAlive === "off"
      ? undefined
      : keepAlive ?? new CacheKeepAlive({ now: store.now, onError });
    this.#approvals = new ApprovalTimers({ sessions: this, now: store.now, after, onError });
    this.queue = new TurnQueue({
      store,
      room: () => this.slots.room,
      start: (id) => this.#startQueued(id),
      most: limits.maxQueuedTurns ?? 1_000,
      onError,
    });
    store.shared?.listen({
      onRequest: (request) => void this.held.find(request.sessionId)?.ownership.receive(request),
      onExpired: () => {
        this.#settleAll();
        notifier?.wake();
      },
    });
  }

  /**
   * Creates these sessions, all or none.
   *
   * @throws {HttpError} 400 if one names a tool that doesn't exist or has a budget that can't be enforced, 507 if no
   * more sessions may be stored.
   */
  async create(
    wanted: readonly NewSession[],
    { keep = () => [], by }: CreateOptions = {},
  ): Promise<readonly ListedSession[]> {
    const { store, workspace } = this.#options;
    const isInEnvironment = ({ instructions, isInEnvironment = instructions === undefined }: NewSession) =>
      isInEnvironment;
    const place = wanted.some(isInEnvironment) ? await workspace?.place?.describe() ?? "" : "";
    const made = wanted.map(({ messages = [], isInEnvironment: _, ...settings }, index) => ({
      id: crypto.randomUUID(),
      by,
      createdAtMs: store.now(),
      settings: this.#fillIn(settings),
      title: firstWords(settings.metadata?.title) ||
        firstWords(messages.map(userWords).find((words) => words !== "")),
      messages,
      environmentText: isInEnvironment(wanted[index]!) ? place : "",
    }));
    return await this.#store(
      made.map((
        { title, messages, environmentText, ...record },
      ) => [record, { store, title, messages, environmentText }]),
      keep,
    );
  }

  /**
   * Forks a session after its first `length` messages: evicted content stays evicted and can be recalled, and the
   * provider's cache serves both. Approvals for the rest of a session are not inherited. @throws {HttpError} 507 if
   * no more sessions may be stored.
   */
  async fork(
    { id: from, settings, history, prompt, title, totals: { chosen } }: AgentSession,
    { length, keep = () => [], by }: Omit<CreateOptions, "keep"> & {
      readonly length: number;
      readonly keep?: (made: ListedSession) => readonly StoreRecord[];
    },
  ): Promise<ListedSession> {
    const { store } = this.#options;
    // Read without an await between: the session may be used meanwhile.
    const [dialogue, value] = [history.slice(0, length), prompt.fork(length)];
    const environmentText = await store.readState(from, "environment");
    const stored: StoredSettings = { ...settings, forkedFrom: { session: from, messages: dialogue.length } };
    const record = { id: crypto.randomUUID(), by, createdAtMs: store.now(), settings: stored };
    const messages = dialogue.slice(systemMessage(settings.instructions, environmentText).length);
    const totals = chosen && { ...NO_TURNS, chosen };
    const made = [{ ...record, archiveOf: from }, {
      store,
      title,
      environmentText,
      totals,
      value,
      messages,
    }] as const;
    const [row] = await this.#store([made], ([row]) => keep(row!));
    return row!;
  }

  async #store(
    made: readonly Readonly<Parameters<typeof creationRecords>>[],
    keep: NonNullable<CreateOptions["keep"]>,
  ): Promise<readonly ListedSession[]> {
    const rows = made.map(([{ archiveOf: _, ...record }, { title, messages }]): ListedSession => ({
      ...{ kind: "agent", ...record, title, lastEvent: messages.length },
    }));
    const records = made.flatMap((one) => creationRecords(...one));
    await this.#admit(made.length, () => this.store.commit([...records, ...keep(rows)]));
    return rows;
  }

  async get(id: string): Promise<AgentSession> {
    const session = await this.load(id);
    await session.ready();
    return session;
  }

  open(id: string): Promise<AgentSession | undefined> {
    return ifThere(this.get(id));
  }

  find(id: string): AgentSession | undefined {
    return this.held.find(id);
  }

  async events(id: string): Promise<AgentSession["events"]> {
    const session = await this.load(id);
    await session.ownership.followable();
    return session.events;
  }

  /**
   * Returns a session to be changed: the change itself reads writes of other servers. @throws {HttpError} 404 if
   * there is none.
   */
  async load(id: string): Promise<AgentSession> {
    const session = this.held.find(id) ?? await this.held.load(id, () => this.#read(id));
    if (!session) throw sessionNotFound(id);
    if (!session.isGone) this.held.use(session);
    return session;
  }

  now(): number {
    return this.store.now();
  }

  row(session: AgentSession): ListedSession {
    return session.row;
  }

  known(row: ListedSession): ListedSession {
    return this.find(row.id)?.isPlayed ? { ...row, isHeld: true } : row;
  }

  summary(row: ListedSession): SessionSummary {
    return sessionBody(row);
  }

  async details(session: AgentSession): Promise<SessionDetails> {
    const { row, totals: { promptTokens: tokens = 0 }, settings: { model } } = session;
    const subagents = await this.subagents(session);
    const transcript = await readTranscript(session, this.store);
    const plan = planIn(transcript.messages);
    const supportsImages = this.supportsImages(model);
    return {
      ...sessionBody(row),
      ...{ subagents, approvals: approvalBodies(session.questions) },
      prompt: { tokens, windowTokens: this.windowOf(model) },
      ...(plan && { plan }),
      ...(supportsImages !== undefined && { supportsImages }),
      ...transcript,
    };
  }

  spending({ settings, totals }: ListedSession): Pick<SpendingSession, "model" | "agent" | "days"> {
    const { days, chosen } = { ...NO_TURNS, ...totals as SessionTotals | undefined };
    return { model: storedSettings(settings, chosen).model, agent: OWN_AGENT, days };
  }

  seen(session: AgentSession): Promise<PromptSnapshot> {
    return session.prompt.seen(session);
  }

  change(
    session: AgentSession,
    change: SessionChange,
    records: () => readonly StoreRecord[],
  ): Promise<void> {
    return session.change(change, records());
  }

  async subagents({ subagents: { links } }: AgentSession): Promise<readonly SubagentLink[]> {
    const found = await Promise.all(links.map(({ session }) => this.#options.store.getSession(session)));
    return links.filter((_, index) => found[index]);
  }

  async delete({ id }: Pick<AgentSession, "id">): Promise<void> {
    const session = await this.get(id);
    // A client that has read a turn's end may start the next one immediately.
    do await session.cancel(); while (!await session.deleteIdle());
    await this.#options.workspace?.background?.end(id);
    for (const subagent of await this.subagents(session)) {
      await ifThere(this.delete({ id: subagent.session }));
    }
  }

  get takenNames(): readonly string[] {
    const { tools, advanced: { toolSource } = {} } = this.#options;
    const mayStandFor = toolSource !== undefined || tools.some(({ mayDefer }) => mayDefer);
    return mayStandFor ? [...this.#toolNames, ...STAND_IN_NAMES] : this.#toolNames;
  }

  async calls({ id, settings: { model } }: AgentSession): Promise<readonly CallReport[]> {
    const events = await this.store.readEvents(id, { types: CALL_EVENTS });
    return callsOf(eventsOf(events), this.#ratesOf(model));
  }

  effortsOf(model: string): readonly string[] | undefined {
    return this.#options.models.efforts?.(model);
  }

  windowOf(model: string): number {
    const { windowTokens } = this.#options.models;
    return typeof windowTokens === "function" ? windowTokens(model) : windowTokens;
  }

  supportsImages(model: string): boolean | undefined {
    return this.#options.models.supportsImages?.(model);
  }

  /** Returns the number of deleted sessions. @throws {StoreError} */
  async expire(idleMs: number): Promise<number> {
    const { store } = this.#options;
    const beforeMs = store.now() - idleMs;
    const skipped = new Set<string>();
    for (let expired = 0;;) {
      const idle = await store.idleSessions({ kind: "agent", beforeMs, limit: skipped.size + 1 });
      const id = idle.find((id) => !skipped.has(id));
      if (id === undefined) return expired;
      const session = this.held.find(id);
      const isFree = !this.held.isLoading(id);
      const isDeleted = isFree &&
        await (session ? session.deleteIdle() : this.#remove(id, beforeMs, skipped.size + 1));
      if (isDeleted) {
        await this.#options.workspace?.background?.end(id);
        expired += 1;
      } else skipped.add(id);
    }
  }

  async #remove(id: string, beforeMs: number, limit: number): Promise<boolean> {
    const { store } = this.#options;
    await this.#options.workspace?.checkpoints?.forget(id);
    if (!store.shared) return await store.deleteSession(id);
    if (!await store.getSession(id) || !await store.shared.hold(id)) return false;
    const idle = await store.idleSessions({ kind: "agent", beforeMs, limit });
    if (idle.includes(id)) return await store.deleteSession(id);
    await store.shared.release(id);
    return false;
  }

  /**
   * Continues the work of earlier processes: approvals time out, and turns continue, or end if they can't. @throws
   * {StoreError}
   */
  async attend(): Promise<void> {
    await this.#attend();
    if (this.#options.store.shared) this.#inspectAgain();
  }

  async #attend(): Promise<void> {
    const { store } = this.#options;
    for (const session of this.#unsettled) {
      await session.ready();
      this.#unsettled.delete(session);
    }
    await this.#goOn();
    if (store.shared) await this.#takeLeft(store.shared);
    for (const { id, value } of await store.sessionsWith("pendingApproval")) {
      const session = this.held.find(id);
      if (!session || store.shared && !session.ownership.isHeld) {
        this.#approvals.set(id, (value as WaitingTurn).untilMs);
      }
    }
  }

  async #goOn(): Promise<void> {
    const { store } = this.#options;
    for (const { id, isHeld } of shuffled(await store.sessionsWith("turn"))) {
      if (this.#isClosed) return;
      if (!isHeld && !this.held.find(id)?.isPlayed && !this.#broken.has(id)) await this.#takeOver(id);
    }
    if (this.#isClosed) return;
    this.#mayWait ||= await this.queue.length() > 0;
    this.#freed();
  }

  #inspectAgain(): void {
    if (this.#isClosed) return;
    const { onError = () => {} } = this.#options;
    this.#stopLooking();
    this.#stopLooking = this.#after(CHECK_MS, () => {
      this.#settling.run(() => this.#goOn()).catch(onError).finally(() => this.#inspectAgain());
    });
  }

  async #startQueued(id: string): Promise<boolean> {
    if (this.held.find(id)?.isPlayed) return false;
    try {
      return await (await this.load(id)).startQueued();
    } catch (error) {
      if (error instanceof HttpError) return false;
      throw error;
    }
  }

  #freed(): void {
    if (this.#mayWait && !this.#isClosed) void this.queue.inspect();
  }

  async #takeOver(id: string): Promise<void> {
    const { store, onError = () => {} } = this.#options;
    const { holder } = await new SessionRecords(store, id).inspect() ?? {};
    if (holder !== "none" && holder !== "expired") return;
    await this.open(id).catch((error) => {
      if (error instanceof StoreError && error.code !== "corrupt") throw error;
      // A session that can't be read doesn't stop the others from continuing, and is reported once.
      this.#broken.add(id);
      onError(error);
    });
  }

  async #takeLeft(shared: SharedStore): Promise<void> {
    const { store } = this.#options;
    for (const id of await shared.abandonedSessions()) {
      if ((await new SessionRecords(store, id).inspect())?.holder !== "expired") continue;
      if ((await store.getSession(id))?.kind === "agent") await this.get(id);
      // A session of a gateway has no turn that must end.
      else if (await shared.hold(id)) await shared.release(id);
    }
  }

  #settleAll(): void {
    const { onError = () => {} } = this.#options;
    this.#settling.run(() => this.#attend()).catch((error) => {
      onError(error);
      this.#tryAgain();
    });
  }

  #tryAgain(): void {
    if (this.#isClosed) return;
    this.#stopAgain();
    this.#stopAgain = this.#after(AGAIN_MS, () => this.#settleAll());
  }

  /**
   * Stops accepting turns, and settles when none runs. Pending approvals wait for the next process, as does a turn
   * that is left within `leaveWithinMs`: at its next step, or during it. Default: every turn ends as interrupted.
   */
  async close({ leaveWithinMs }: CloseOptions = {}): Promise<void> {
    this.#isClosed = true;
    this.slots.close();
    this.keepAlive?.close();
    const due = new AbortController();
    const disarm = leaveWithinMs === undefined ? () => {} : this.#after(leaveWithinMs, () => due.abort());
    if (leaveWithinMs === 0) due.abort();
    const sessions = [...this.held.values()];
    const end = (session: AgentSession) =>
      leaveWithinMs === undefined ? session.stop() : session.leave(due.signal);
    await Promise.all(sessions.map(end)).finally(disarm);
    // Readers that follow a turn that waits for approval would not end.
    for (const { events } of this.held.values()) if (!events.failed) events.close();
    this.#approvals.close();
    this.#stopAgain();
    this.#stopLooking();
    await this.#settling.run(() => this.queue.inspect());
  }

  get #after(): NonNullable<AdvancedOptions["after"]> {
    return this.#options.advanced?.after ?? systemClock.after;
  }

  get #toolNames(): readonly string[] {
    const { tools, advanced: { toolSource } = {} } = this.#options;
    return [
      ...[...tools.map(({ definition }) => definition), RECALL_TOOL, DELEGATE_TOOL].map((
        { function: { name } },
      ) => name),
      ...toolSource?.names.map(allToolsOf) ?? [],
    ];
  }

  #ratesOf(model: string): Rates & { readonly profile: Profile } {
    const { profile, price = listPrice } = this.#options.models;
    return {
      profile: typeof profile === "function" ? profile(model) : profile,
      price: price(model),
      priceOf: price,
    };
  }

  #fillIn(
    { instructions, model, effort, tools, metadata = {}, budget = {}, approvalRules = [] }: CreateSession,
  ): SessionSettings {
    const { models, instructions: own = DEFAULT_INSTRUCTIONS, advanced } = this.#options;
    const offered = this.#toolNames;
    const unknown = tools?.find((name) => !includesTool(offered, name));
    if (unknown !== undefined) {
      throw invalidRequest(
        `Cannot use tool ${JSON.stringify(unknown)}: the tools are ${offered.join(", ")}.`,
      );
    }
    const name = model ?? models.defaultModel ?? "none";
    const known = this.#options.models.efforts?.(name);
    if (effort !== undefined) checkEffort(effort, { model: name, known });
    const { effort: usual } = models;
    const chosen = effort ?? (usual !== undefined && (known?.includes(usual) ?? true) ? usual : undefined);
    checkBudgets({ session: budget }, { rates: this.#ratesOf(name), model: name });
    return {
      instructions: instructions ?? own,
      model: name,
      ...(chosen !== undefined && { effort: chosen }),
      tools: tools
        ? [...new Set([...offered.filter((name) => tools.includes(name)), ...tools])]
        : offered.filter((name) => advanced?.delegates || name !== DELEGATE_TOOL.function.name),
      metadata,
      budget,
      approvalRules,
    };
  }

  #admit(wanted: number, commit: () => Promise<void>): Promise<void> {
    const { store, limits: { maxSessions = 10_000 } = {} } = this.#options;
    return this.#admitting.run(async () => {
      const count = await store.countSessions("agent");
      if (count + wanted > maxSessions) throw tooManySessions(wanted, { count, maxSessions });
      await commit();
    });
  }

  async #read(id: string): Promise<AgentSession | undefined> {
    const { store } = this.#options;
    const record = await this.#options.store.getSession(id);
    if (record?.kind !== "agent") return undefined;
    await this.#notifier?.refresh();
    const session = await AgentSession.load(record, {
      ...this.#options,
      notifier: this.#notifier,
      ratesOf: (model) => this.#ratesOf(model),
      windowOf: (model) => this.windowOf(model),
      keepAlive: this.keepAlive,
      takeSlot: (of) => this.slots.take(of),
      isEnding: () => this.#isClosed,
      open: (id) => this.load(id),
      admit: (count, commit) => this.#admit(count, commit),
      changed: (session) => this.#note(session),
      unsettled: (session) => {
        this.#unsettled.add(session);
        this.#tryAgain();
      },
      warned: (session, message) =>
        this.warnings.add({ at: new Date(store.now()).toISOString(), session, message }),
    });
    this.held.use(session);
    return session;
  }

  #note({ id, isPlayed, isGone, questions, queued }: WatchedSession): void {
    if (queued.length > 0) this.#mayWait = true;
    if (queued.length > 0 && !isPlayed) this.#freed();
    this.#approvals.set(id, isGone ? undefined : questions[0]?.expiresAtMs);
    const session = this.held.find(id);
    if (isGone) this.held.delete(id);
    else if (session) this.held.use(session);
  }
}

async function ifThere<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work;
  } catch (error) {
    if (error instanceof HttpError && error.status === 404) return undefined;
    throw error;
  }
}

function shuffled<T>(all: readonly T[]): readonly T[] {
  const rest = [...all];
  for (let at = rest.length - 1; at > 0; at--) {
    const other = Math.floor(Math.random() * (at + 1));
    [rest[at], rest[other]] = [rest[other]!, rest[at]!];
  }
  return rest;
}

const RETRY_AFTER_S = 5;

const WAIT_MS = 30_000;

interface TurnSlotsOptions {
  readonly freed: () => void;
  readonly after: (ms: number, work: () => void) => () => void;
}

export class TurnSlots {
  readonly limit: number;
  #taken = 0;
  #isClosed = false;
  readonly #options: TurnSlotsOptions;
  readonly #waiting = new Set<(isGiven: boolean) => void>();

  constructor(limit: number, options: TurnSlotsOptions) {
    this.limit = limit;
    this.#options = options;
  }

  get taken(): number {
    return this.#taken;
  }

  get room(): number {
    return this.#isClosed ? 0 : Math.max(0, this.limit - this.#taken);
  }

  /**
   * Takes a slot, once one is free for which no earlier request waits. @throws {HttpError} 429 if that takes too long
   * or too many wait; 503 if the server is shutting down.
   */
  async wait(signal: AbortSignal): Promise<() => void> {
    if (this.room > 0 || this.#isClosed || this.#waiting.size >= this.limit) return this.take();
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const late = () => resolve(false);
    const disarm = this.#options.after(WAIT_MS, late);
    signal.addEventListener("abort", late);
    this.#waiting.add(resolve);
    const isGiven = await promise;
    disarm();
    signal.removeEventListener("abort", late);
    this.#waiting.delete(resolve);
    return isGiven ? this.#slot() : this.take();
  }

  close(): void {
    this.#isClosed = true;
    for (const give of this.#waiting) give(false);
  }

  /**
   * Takes a slot; a turn that runs already gets one beyond the limit. Returns the function that frees it, once.
   *
   * @throws {HttpError} 429 with `retry-after` if all are taken, 503 if the server is shutting down.
   */
  take(of?: "running"): () => void {
    if (this.#isClosed) throw serverEnding();
    if (of === undefined && this.#taken >= this.limit) {
      throw new HttpError(
        429,
        "too_many_turns",
        `Cannot start a turn: the limit of running turns (${this.limit}) is reached. Retry when one has ended.`,
        { "retry-after": String(RETRY_AFTER_S) },
      );
    }
    this.#taken += 1;
    return this.#slot();
  }

  #slot(): () => void {
    let isHeld = true;
    return () => {
      if (!isHeld) return;
      isHeld = false;
      const [next] = this.#waiting;
      if (next) {
        this.#waiting.delete(next);
        return next(true);
      }
      this.#taken -= 1;
      this.#options.freed();
    };
  }
}

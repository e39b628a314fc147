import { type Store, StoreError, Warmth } from "@tare/session";
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
  type SeenSession,
  type SpendingSession,
  ToldWarnings,
} from "@tare/session/internal/report";
import { systemClock } from "@tare/loop/internal";
import type { Message } from "@tare/messages";
import { firstWords, personsWords } from "@tare/messages/internal";
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
import { DELEGATE_TOOL } from "../helpers/helpers.ts";
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
  type HelperLink,
  NO_TURNS,
  OWN_AGENT,
  type SessionTotals,
  type Teller,
  type WaitingTurn,
  type WatchedSession,
} from "./session_types.ts";
import type { AdvancedOptions, CloseOptions, SessionOptions } from "./session_options.ts";

/** A session to be created, with messages that were exchanged elsewhere before. */
export interface NewSession extends CreateSession {
  readonly messages?: readonly Message[];
  /** Whether the description of the folder follows its instructions. Default: if it has no instructions of its own. */
  readonly isAtWorkplace?: boolean;
}

interface CreateOptions {
  /** Name of the key with which they are created. Default: the owner's. */
  readonly by?: string | undefined;
  /** Records that are committed with them. Default: none. */
  readonly keep?: (made: readonly ListedSession[]) => readonly StoreRecord[];
}

/** System message of sessions that have no instructions of their own. */
export const DEFAULT_INSTRUCTIONS: string =
  "You are an agent that works in a folder of files, the workspace, with tools. " +
  "Find out what you need to know with the tools instead of guessing; make independent calls in one step. " +
  "When you are done, answer briefly, and name the files that your answer rests on.";

/** Idle sessions that stay in memory. */
const MAX_IDLE = 16;

/** Time before a retry of what could not be settled, in milliseconds. */
const AGAIN_MS = 10_000;

/** Interval at which turns that other servers left are searched, in milliseconds. */
const LOOK_MS = 3_000;

/**
 * The sessions of a server. All are in the store; in memory are those with a running turn, those used last, and those
 * that a caller still has. A session that an earlier process left in the middle of a turn is recovered when it is first
 * opened.
 */
export class Sessions implements SessionKind<AgentSession, SessionSummary, SessionDetails> {
  readonly kind = "agent";
  readonly slots: TurnSlots;
  readonly #options: SessionOptions;
  readonly #teller: Teller | undefined;
  readonly store: Store;
  /** Those in memory. A caller may still start a turn in one that was evicted, so that it must not be loaded twice. */
  readonly held: HeldSessions<AgentSession> = new HeldSessions<AgentSession>({
    maxWeight: MAX_IDLE,
    weigh: () => 1,
    isInUse: ({ isPlayed }) => isPlayed,
    findsEvicted: true,
  });
  /** The newest warnings of their turns. */
  readonly warnings: ToldWarnings = new ToldWarnings();
  /** Cache keep-alive of their prompts. Absent: there is none. */
  readonly warmth: Warmth | undefined;
  readonly #admitting = new Queue();
  readonly #approvals: ApprovalTimers;
  readonly queue: TurnQueue;
  /** Sessions that other servers wait for and that could not be released. */
  readonly #unsettled = new Set<WatchedSession>();
  readonly #settling = new Queue();
  #stopAgain = () => {};
  #stopLooking = () => {};
  /** Sessions with a turn that can't continue, because what is stored of them can't be read. */
  readonly #broken = new Set<string>();
  /** Whether turns wait, as far as this server knows. */
  #mayWait = false;
  #isClosed = false;

  /** The sessions of this store. `teller` notifies other programs of commits. Default: none is notified. */
  constructor(options: SessionOptions, teller?: Teller) {
    this.#options = options;
    this.store = options.store;
    this.#teller = teller;
    const { store, onError = () => {}, limits = {}, advanced: { keepWarm } = {} } = options;
    const after = this.#after;
    this.slots = new TurnSlots(limits.maxRunningTurns ?? 100, { freed: () => this.#freed(), after });
    this.warmth = keepWarm === "off" ? undefined : keepWarm ?? new Warmth({ now: store.now, onError });
    this.#approvals = new ApprovalTimers({ sessions: this, now: store.now, after, onError });
    this.queue = new TurnQueue({
      store,
      room: () => this.slots.room,
      start: (id) => this.#startQueued(id),
      most: limits.maxQueuedTurns ?? 1_000,
      onError,
    });
    store.shared?.listen({
      asked: (request) => void this.held.find(request.sessionId)?.ownership.receive(request),
      gone: () => {
        this.#settleAll();
        teller?.wake();
      },
    });
  }

  /**
   * Creates these sessions, all or none.
   *
   * @throws {HttpError} 400 if one names a tool that doesn't exist or has a budget that can't be enforced, 507 if no more
   * sessions may be stored.
   */
  async create(
    wanted: readonly NewSession[],
    { keep = () => [], by }: CreateOptions = {},
  ): Promise<readonly ListedSession[]> {
    const { store, workspace } = this.#options;
    const isAtWorkplace = ({ instructions, isAtWorkplace = instructions === undefined }: NewSession) =>
      isAtWorkplace;
    const place = wanted.some(isAtWorkplace) ? await workspace?.place?.describe() ?? "" : "";
    const made = wanted.map(({ messages = [], isAtWorkplace: _, ...settings }, index) => ({
      id: crypto.randomUUID(),
      by,
      createdAtMs: store.now(),
      settings: this.#fillIn(settings),
      title: firstWords(settings.metadata?.title) ||
        firstWords(messages.map(personsWords).find((words) => words !== "")),
      messages,
      workplace: isAtWorkplace(wanted[index]!) ? place : "",
    }));
    return await this.#store(
      made.map((
        { title, messages, workplace, ...record },
      ) => [record, { store, title, messages, workplace }]),
      keep,
    );
  }

  /**
   * Creates a session that continues from the first `length` messages of another one, as its model saw them: what was
   * evicted from the prompt stays out and can be recalled, and the provider's cache serves both. The other one stays as it
   * is. Approvals for the rest of a session are not inherited.
   *
   * @throws {HttpError} 507 if no more sessions may be stored.
   */
  async fork(
    { id: from, settings, history, prompt, title, totals: { chosen } }: AgentSession,
    { length, keep = () => [], by }: Omit<CreateOptions, "keep"> & {
      readonly length: number;
      readonly keep?: (made: ListedSession) => readonly StoreRecord[];
    },
  ): Promise<ListedSession> {
    const { store } = this.#options;
    // Read at one moment: the session may be used meanwhile.
    const [said, value] = [history.slice(0, length), prompt.fork(length)];
    const workplace = await store.readState(from, "workplace");
    const stored: StoredSettings = { ...settings, forkedFrom: { session: from, messages: said.length } };
    const record = { id: crypto.randomUUID(), by, createdAtMs: store.now(), settings: stored };
    const messages = said.slice(systemMessage(settings.instructions, workplace).length);
    const totals = chosen && { ...NO_TURNS, chosen };
    const made = [{ ...record, archiveOf: from }, {
      store,
      title,
      workplace,
      totals,
      value,
      messages,
    }] as const;
    const [row] = await this.#store([made], ([row]) => keep(row!));
    return row!;
  }

  /** Stores new sessions with the records that `keep` returns, and returns their rows. */
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

  /** Returns the session of this id, as it is now. @throws {HttpError} 404 if there is none. */
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

  /** Returns the events of a session, to be followed. @throws {HttpError} 404 if there is none. */
  async events(id: string): Promise<AgentSession["events"]> {
    const session = await this.load(id);
    await session.ownership.followable();
    return session.events;
  }

  /**
   * Returns the session of this id, to be changed: what other servers have written is read by the change, not here.
   *
   * @throws {HttpError} 404 if there is none.
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
    const helpers = await this.helpers(session);
    const transcript = await readTranscript(session, this.store);
    const plan = planIn(transcript.messages);
    const seesPictures = this.seesPictures(model);
    return {
      ...sessionBody(row),
      ...{ helpers, approvals: approvalBodies(session.questions) },
      prompt: { tokens, windowTokens: this.windowOf(model) },
      ...(plan && { plan }),
      ...(seesPictures !== undefined && { seesPictures }),
      ...transcript,
    };
  }

  spending({ settings, totals }: ListedSession): Pick<SpendingSession, "model" | "agent" | "days"> {
    const { days, chosen } = { ...NO_TURNS, ...totals as SessionTotals | undefined };
    return { model: storedSettings(settings, chosen).model, agent: OWN_AGENT, days };
  }

  seen(session: AgentSession): Promise<SeenSession> {
    return session.prompt.seen(session);
  }

  change(
    session: AgentSession,
    change: SessionChange,
    records: () => readonly StoreRecord[],
  ): Promise<void> {
    return session.change(change, records());
  }

  /** Returns the subagents of a session whose own sessions still exist. @throws {StoreError} */
  async helpers({ helpers: { links } }: AgentSession): Promise<readonly HelperLink[]> {
    const found = await Promise.all(links.map(({ session }) => this.#options.store.getSession(session)));
    return links.filter((_, index) => found[index]);
  }

  /** Cancels what runs in a session, and deletes it and then its subagents. @throws {HttpError} 404 if there is none. */
  async delete({ id }: Pick<AgentSession, "id">): Promise<void> {
    const session = await this.get(id);
    // A client that has read a turn's end may start the next one at once.
    do await session.cancel(); while (!await session.deleteIdle());
    await this.#options.workspace?.background?.end(id);
    for (const helper of await this.helpers(session)) {
      await ifThere(this.delete({ id: helper.session }));
    }
  }

  /** Names that no tool of a client may have: those of the server's tools, and of tools that stand for others. */
  get takenNames(): readonly string[] {
    const { tools, advanced: { toolSource } = {} } = this.#options;
    const mayStandFor = toolSource !== undefined || tools.some(({ mayDefer }) => mayDefer);
    return mayStandFor ? [...this.#toolNames, ...STAND_IN_NAMES] : this.#toolNames;
  }

  /** Returns the model calls of a session, the oldest first. @throws {StoreError} */
  async calls({ id, settings: { model } }: AgentSession): Promise<readonly CallReport[]> {
    const events = await this.store.readEvents(id, { types: CALL_EVENTS });
    return callsOf(eventsOf(events), this.#ratesOf(model));
  }

  /** Returns the efforts that a model knows; `undefined` if they are unknown. */
  effortsOf(model: string): readonly string[] | undefined {
    return this.#options.models.efforts?.(model);
  }

  /** Returns the context window of a model, in tokens. */
  windowOf(model: string): number {
    const { windowTokens } = this.#options.models;
    return typeof windowTokens === "function" ? windowTokens(model) : windowTokens;
  }

  /** Returns whether a model is known to receive images; `undefined` if that is unknown. */
  seesPictures(model: string): boolean | undefined {
    return this.#options.models.seesPictures?.(model);
  }

  /**
   * Deletes the sessions that have been idle for so long, one after the other. Returns how many.
   *
   * @throws {StoreError}
   */
  async expire(idleMs: number): Promise<number> {
    const { store } = this.#options;
    const beforeMs = store.now() - idleMs;
    const kept = new Set<string>();
    for (let expired = 0;;) {
      const idle = await store.idleSessions({ kind: "agent", beforeMs, limit: kept.size + 1 });
      const id = idle.find((id) => !kept.has(id));
      if (id === undefined) return expired;
      // Use of a session comes first.
      const session = this.held.find(id);
      const isFree = !this.held.isLoading(id);
      const isDeleted = isFree &&
        await (session ? session.deleteIdle() : this.#remove(id, beforeMs, kept.size + 1));
      if (isDeleted) {
        await this.#options.workspace?.background?.end(id);
        expired += 1;
      } else kept.add(id);
    }
  }

  /** Deletes a session that isn't in memory, unless another server has used it since. */
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
   * Continues what earlier processes left: approvals time out, and turns continue, or end if they can't.
   *
   * @throws {StoreError}
   */
  async attend(): Promise<void> {
    await this.#attend();
    if (this.#options.store.shared) this.#lookAgain();
  }

  async #attend(): Promise<void> {
    const { store } = this.#options;
    for (const session of this.#unsettled) {
      await session.ready();
      this.#unsettled.delete(session);
    }
    await this.#goOn();
    if (store.shared) await this.#takeLeft(store.shared);
    for (const { id, value } of await store.sessionsWith("asks")) {
      const session = this.held.find(id);
      // A session in memory is newer.
      if (!session || store.shared && !session.ownership.isHeld) {
        this.#approvals.set(id, (value as WaitingTurn).untilMs);
      }
    }
  }

  /** Continues turns that other processes left, and starts those that wait. */
  async #goOn(): Promise<void> {
    const { store } = this.#options;
    // All servers search them, each in an order of its own.
    for (const { id, isHeld } of shuffled(await store.sessionsWith("turn"))) {
      if (this.#isClosed) return;
      if (!isHeld && !this.held.find(id)?.isPlayed && !this.#broken.has(id)) await this.#takeOver(id);
    }
    if (this.#isClosed) return;
    this.#mayWait ||= await this.queue.length() > 0;
    this.#freed();
  }

  /** Searches every few seconds for turns that other servers left, or have no room for. */
  #lookAgain(): void {
    if (this.#isClosed) return;
    const { onError = () => {} } = this.#options;
    this.#stopLooking();
    this.#stopLooking = this.#after(LOOK_MS, () => {
      this.#settling.run(() => this.#goOn()).catch(onError).finally(() => this.#lookAgain());
    });
  }

  /** Starts the turn that waits longest in a session. Returns false if that is not possible now. */
  async #startQueued(id: string): Promise<boolean> {
    if (this.held.find(id)?.isPlayed) return false;
    try {
      return await (await this.load(id)).startQueued();
    } catch (error) {
      // Another server was faster, or has deleted it.
      if (error instanceof HttpError) return false;
      throw error;
    }
  }

  #freed(): void {
    if (this.#mayWait && !this.#isClosed) void this.queue.look();
  }

  /** Continues a turn that another process left. */
  async #takeOver(id: string): Promise<void> {
    const { store, onError = () => {} } = this.#options;
    const { holder } = await new SessionRecords(store, id).look() ?? {};
    if (holder !== "nobody" && holder !== "left") return;
    await this.open(id).catch((error) => {
      if (error instanceof StoreError && error.code !== "corrupt") throw error;
      // A session that can't be read doesn't keep the others from continuing, and is reported once.
      this.#broken.add(id);
      onError(error);
    });
  }

  /** Takes sessions that servers left which are gone. */
  async #takeLeft(shared: SharedStore): Promise<void> {
    const { store } = this.#options;
    for (const id of await shared.left()) {
      // Other servers take them too.
      if ((await new SessionRecords(store, id).look())?.holder !== "left") continue;
      if ((await store.getSession(id))?.kind === "agent") await this.get(id);
      // A session of a gateway has no turn that must end.
      else if (await shared.hold(id)) await shared.release(id);
    }
  }

  /** Continues what a server left that is gone, and retries until that is done. */
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
   * Takes no more turns, and settles when none runs any more. Pending approvals wait for the next process; so does a turn
   * that is left within so many milliseconds, at its next step or else in its middle. Default: every turn ends, as
   * interrupted.
   */
  async close({ leaveWithinMs }: CloseOptions = {}): Promise<void> {
    this.#isClosed = true;
    this.slots.close();
    this.warmth?.close();
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
    // Nothing uses the store any more.
    await this.#settling.run(() => this.queue.look());
  }

  get #after(): NonNullable<AdvancedOptions["after"]> {
    return this.#options.advanced?.after ?? systemClock.after;
  }

  /** Names of the tools that sessions may have; for servers whose tools change, `server__*` means all of them. */
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
    return { profile: typeof profile === "function" ? profile(model) : profile, price: price(model) };
  }

  #fillIn(
    { instructions, model, effort, tools, metadata = {}, budget = {}, approvalRules = [] }: CreateSession,
  ): SessionSettings {
    const { models, instructions: own = DEFAULT_INSTRUCTIONS, advanced } = this.#options;
    const offered = this.#toolNames;
    const unknown = tools?.find((name) => !includesTool(offered, name));
    if (unknown !== undefined) {
      throw invalidRequest(`Cannot use tool ${JSON.stringify(unknown)}: there are ${offered.join(", ")}.`);
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
      // In the order in which they are offered; single tools of servers after those.
      tools: tools
        ? [...new Set([...offered.filter((name) => tools.includes(name)), ...tools])]
        : offered.filter((name) => advanced?.delegates || name !== DELEGATE_TOOL.function.name),
      metadata,
      budget,
      approvalRules,
    };
  }

  /** Commits so many new sessions. @throws {HttpError} 507 if no more may be stored. */
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
    await this.#teller?.refresh();
    const session = await AgentSession.load(record, {
      ...this.#options,
      teller: this.#teller,
      ratesOf: (model) => this.#ratesOf(model),
      windowOf: (model) => this.windowOf(model),
      warmth: this.warmth,
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

/** Returns what the work returns; `undefined` if its session was deleted meanwhile. */
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

/** Seconds after which a client that was refused a turn may retry. */
const RETRY_AFTER_S = 5;

/** Time that a request waits for a slot before it is refused, in milliseconds. */
const WAIT_MS = 30_000;

interface TurnSlotsOptions {
  /** Called when a slot is free again for which no request waits. */
  readonly freed: () => void;
  /** Calls back after so many milliseconds, until the function that it returns is called. */
  readonly after: (ms: number, work: () => void) => () => void;
}

/** Limits how many turns run at the same time, over all sessions and routes. */
export class TurnSlots {
  readonly limit: number;
  #taken = 0;
  #isClosed = false;
  readonly #options: TurnSlotsOptions;
  /** Requests that wait for a slot, the longest first. */
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
   * Takes a slot, once one is free for which no earlier request waits.
   *
   * @throws {HttpError} 429 as {@linkcode TurnSlots.take} does, if that takes too long or too many wait; and 503.
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
   * Takes a slot; a turn that runs already gets one in any case. Returns the function that frees the slot; a second call of
   * it does nothing.
   *
   * @throws {HttpError} 429 with `retry-after` if all are taken, 503 if the server is shutting down.
   */
  take(of?: "running"): () => void {
    if (this.#isClosed) throw serverEnding();
    if (of === undefined && this.#taken >= this.limit) {
      throw new HttpError(
        429,
        "too_many_turns",
        `Cannot start a turn: ${this.#taken} run at the moment, and no more may. Try again when one has ended.`,
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

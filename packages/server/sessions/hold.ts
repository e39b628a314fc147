import type { Content } from "@tare/messages";
import { StoreError } from "@tare/session";
import {
  type Hold,
  type HolderRequest,
  SessionRecords,
  type Sighting,
  type StoreRecord,
} from "@tare/session/internal";
import { API_PATH } from "../http/api_path.ts";
import { HttpError, toHttpError } from "../http/http_error.ts";
import type { QueuedTurn } from "../turns/turn_queue.ts";
import { type EventLog, MOST_TOLD } from "./event_log.ts";
import { INTERRUPTED } from "./history.ts";
import type { SessionMemory } from "./session_memory.ts";
import {
  type OpenTurn,
  type PinChange,
  type RunningTurn,
  type SessionEnvironment,
  sessionNotFound,
} from "./session_types.ts";

/** Does one piece of work after the other, each once those before it have settled. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles as the work does, when its time has come. Work must not wait for work that is queued behind it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** What one server asks of the one that holds a session. The latter does it if a turn runs there; else the former may. */
type Wanted =
  | { readonly do: "know" }
  | { readonly do: "cancel" }
  | WantedChange;

/** What a running turn is asked to take, and what is stored with it. */
export type WantedChange =
  | { readonly do: "steer"; readonly input: Content; readonly records: readonly StoreRecord[] }
  | { readonly do: "pin"; readonly change: PinChange; readonly records: readonly StoreRecord[] }
  | { readonly do: "rename"; readonly title: string; readonly records: readonly StoreRecord[] }
  | { readonly do: "queue"; readonly change: QueueChange; readonly records: readonly StoreRecord[] };

/** What is asked of the turns that wait. */
export type QueueChange = { readonly add: QueuedTurn } | { readonly remove: string };

/** How the holder answers: with what went wrong, if anything did. */
interface Told {
  readonly error?: Pick<HttpError, "status" | "code" | "message">;
}

interface SessionHoldOptions {
  readonly id: string;
  readonly environment: SessionEnvironment;
  readonly events: EventLog;
  readonly memory: Pick<SessionMemory, "restore" | "overtaken">;
  /** The turn that runs on this server. */
  readonly turn: () => RunningTurn | undefined;
  readonly resume: (open: OpenTurn) => Promise<void>;
  /** Lets the running turn take what another server was asked for. */
  readonly take: (wanted: WantedChange) => Promise<void>;
  /** Told that what runs here is left. */
  readonly left: () => void;
  /** Told that no turn runs here any more, what still waits to be said, and whether the last one is about to go on. */
  readonly ended: (how: { readonly waiting: readonly Content[]; readonly goesOn?: boolean }) => void;
  /** Told when the session begins or ceases to do something, and when it is gone. */
  readonly changed: () => void;
  /** Told that others wait for the session, and it couldn't be given back: it is to be tried again. */
  readonly unsettled: () => void;
}

/** What a turn may do with its session: nothing any more once another server may have taken it. */
export interface Tenure {
  /** Whether the session is this turn's. */
  readonly isOwn: () => boolean;
  /** Throws if it may be somebody else's. Absent where no other server can have the store open. */
  readonly assertOwn: (() => void) | undefined;
  /** Does some work when nothing else happens in the session, and gives that back if nothing runs then. */
  readonly run: (work: () => Promise<void>) => Promise<void>;
  /** Ends the turn by what is stored of it; `failed` is told if that can't be, and whether because the session was lost. */
  readonly fail: (
    end: NonNullable<Parameters<SessionMemory["restore"]>[0]["end"]>,
    failed: (error: unknown, isLost: boolean) => void,
  ) => Promise<void>;
}

/**
 * Who has a session, and whether memory is right: whenever the session is changed, memory holds what is stored, and, where
 * other servers can have the store open, none of them changes it meanwhile.
 */
export class SessionHold {
  readonly #options: SessionHoldOptions;
  readonly #queue = new Queue();
  /** Absent if this server doesn't hold the session, or where no other one can have the store open. */
  #hold: Hold | undefined;
  #unhear = () => {};
  /** Number of the newest hold, if memory knows all that was written up to its end. */
  #known: number | undefined;
  /** Who waits for the end of what runs: ids of requests. */
  #owed: readonly string[] = [];
  /** Number of the last event before the turn that another server runs, as it was when memory was read. */
  #elsewhereAfter: number | undefined;
  /** How the session was when it was last seen; nothing before that. */
  #seen: Sighting | undefined;
  #isGone = false;
  #isLeft = false;

  constructor(options: SessionHoldOptions) {
    this.#options = options;
    this.#follow();
  }

  /** Whether this server holds the session, if others could. */
  get isHeld(): boolean {
    return this.#hold !== undefined;
  }

  get isGone(): boolean {
    return this.#isGone;
  }

  /** Whether what ran here is left to another process. */
  get isLeft(): boolean {
    return this.#isLeft;
  }

  /** Number of the last event before the turn that another server runs; nothing if none does. */
  get elsewhereAfter(): number | undefined {
    return this.#elsewhereAfter;
  }

  /** Reads the session for the first time. @throws {StoreError} */
  async load(): Promise<void> {
    if (this.#shared) return await this.ready();
    try {
      await this.#mend({ isLate: true, goesOn: true });
    } catch (error) {
      this.#tellFull(error);
      await this.#mend({ isLate: true });
    }
  }

  /** Leaves what runs here to another process: nothing more of it is written or told. */
  leave(): void {
    if (!this.#options.turn()) return;
    this.#isLeft = true;
    this.#options.left();
  }

  /** Lets others have what was left, once nothing of it runs here any more. Never rejects. */
  async giveUp(): Promise<void> {
    const { id, environment: { onError } } = this.#options;
    if (this.#isLeft) await this.#shared?.release(id).catch((error) => onError?.(error));
  }

  /** Settles when memory holds what is stored. @throws {HttpError} 404 if the session is gone. @throws {StoreError} */
  async ready(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#refresh());
    else if (this.#options.events.failed) await this.alone(async () => {});
  }

  /** Settles when the events that are stored can be followed. What else was written is read once somebody asks for it. */
  async followable(): Promise<void> {
    if (this.#shared && !this.#hold) await this.#queue.run(() => this.#see());
    else await this.ready();
  }

  /** Does some work when nothing else happens in the session, whoever has it. */
  queued<T>(work: () => Promise<T>): Promise<T> {
    return this.#queue.run(work);
  }

  /** Asks something of the server that holds the session, and reads what came of it. False if none holds it. */
  async ask(wanted: Wanted): Promise<boolean> {
    const isDone = await this.#ask(wanted);
    await this.ready();
    return isDone;
  }

  /**
   * Does some work when nothing else happens in the session, and memory holds what is stored. If a turn runs on another
   * server, that one is asked for what is wanted; `told` gives what comes of it. Default: to know that it runs.
   */
  async alone<T>(
    work: () => Promise<T>,
    {
      wanted = () => ({ do: "know" }),
      told = () => {
        throw turnRunning(this.#options.id);
      },
    }: { readonly wanted?: () => Wanted; readonly told?: () => T } = {},
  ): Promise<T> {
    for (;;) {
      const done = await this.#queue.run(() => this.#here(work));
      if (done) return done.value;
      if (!await this.#ask(wanted())) continue;
      await this.ready();
      return told();
    }
  }

  /** What a turn that starts now may do. */
  tenure(): Tenure {
    const hold = this.#hold;
    const isOwn = () => this.#hold === hold && !this.#isLeft;
    const lost = () =>
      new StoreError(
        "fenced",
        `Cannot go on in session ${this.#options.id}: another server may have taken it. What it wrote counts.`,
      );
    return {
      isOwn,
      assertOwn: hold && (() => {
        if (isOwn() && hold.isSure()) return;
        if (isOwn()) this.#lost();
        throw lost();
      }),
      run: (work) =>
        this.#queue.run(async () => {
          if (!isOwn()) throw lost();
          await work().catch((error) => {
            if (hold && isFenced(error)) this.#lost();
            throw error;
          });
          await this.#giveBack();
        }),
      fail: (end, failed) =>
        this.#queue.run(async () => {
          // What was lost is ended by whoever has it now.
          if (!isOwn()) return;
          try {
            await this.#restore({ end });
          } catch (error) {
            failed(error, isFenced(error));
            if (isFenced(error)) return this.#lost();
          }
          await this.#giveBack();
        }),
    };
  }

  /** Does what another server asks, if a turn runs: that one does it itself once the session is given back. Never rejects. */
  async asked({ id: requestId, body }: HolderRequest): Promise<void> {
    const wanted = body as Wanted;
    const { environment: { store, onError }, turn, take } = this.#options;
    const answer = (told: Told): StoreRecord[] => [{ type: "answer", requestId, answer: told }];
    await this.#queue.run(async () => {
      const running = turn();
      if (!running) return await (this.#hold ? this.#giveBack() : this.#refresh());
      try {
        if (wanted.do === "know") return await store.commit(answer({}));
        if (wanted.do !== "cancel") {
          return await take({ ...wanted, records: [...wanted.records, ...answer({})] });
        }
        this.#owed = [...this.#owed, requestId];
        running.cancel();
      } catch (error) {
        if (isFenced(error)) return this.#lost();
        const { status, code, message } = toHttpError(error);
        await store.commit(answer({ error: { status, code, message } }));
      }
    }).catch((error) => onError?.(error));
  }

  goAway(): void {
    this.#isGone = true;
    this.#drop();
    this.#options.changed();
  }

  get #shared() {
    return this.#options.environment.store.shared;
  }

  /** @throws {HttpError} what the holder answers. */
  async #ask(wanted: Wanted): Promise<boolean> {
    const asked = await this.#shared?.ask(this.#options.id, wanted);
    const { error } = (asked?.answer ?? {}) as Told;
    if (error) throw new HttpError(error.status, error.code, error.message);
    return asked !== undefined;
  }

  /** Does the work if the session can be held. */
  async #here<T>(work: () => Promise<T>): Promise<{ readonly value: T } | undefined> {
    const { id, environment: { store, teller }, events } = this.#options;
    if (this.#isGone) throw sessionNotFound(id);
    if (this.#isLeft) throw serverEnding(id);
    const taken = await this.#take();
    if (!taken) return undefined;
    let isRead = false;
    try {
      if (taken === "stale" || events.failed) {
        await teller?.refresh();
        if (this.#shared) events.reach(await store.lastEvent(id));
        // A turn that a full disk has ended goes on when somebody says so.
        await this.#mend(this.#shared ? { goesOn: true } : { isLate: true });
      }
      isRead = true;
      if (this.#shared) events.follow(undefined);
      return { value: await work() };
    } catch (error) {
      if (!this.#shared || !isFenced(error)) throw error;
      // Nothing was written; whoever has it now is asked.
      this.#lost();
      return undefined;
    } finally {
      await this.#giveBack(isRead);
    }
  }

  /** Takes the session; says whether memory knows all of it, or nothing if another server has it. @throws {StoreError} */
  async #take(): Promise<"known" | "stale" | undefined> {
    const shared = this.#shared;
    if (!shared || this.#hold) return "known";
    const hold = await this.#orGone(shared.hold(this.#options.id));
    if (!hold || hold.signal.aborted) return undefined;
    const lost = () => this.#lost();
    hold.signal.addEventListener("abort", lost, { once: true });
    this.#unhear = () => hold.signal.removeEventListener("abort", lost);
    this.#hold = hold;
    return this.#known === hold.fence - 1 ? "known" : "stale";
  }

  /**
   * Lets other servers have the session, unless a turn runs, and answers what is owed. `isRead` is whether memory has read
   * what is stored. Never rejects.
   */
  async #giveBack(isRead = true): Promise<void> {
    const { id, environment: { store, onError = () => {} }, events, turn, unsettled } = this.#options;
    const hold = this.#hold;
    if (!hold || turn() || this.#isLeft) return;
    const isKnown = isRead && !events.failed;
    const owed = this.#owed;
    this.#owed = [];
    try {
      for (const requestId of owed) {
        await store.commit([{ type: "answer", requestId, answer: {} }]).catch(onError);
      }
      await this.#shared?.release(id);
      this.#seen = { fence: hold.fence, holder: "nobody", lastEvent: events.last };
    } catch (error) {
      // It may have been given back all the same: from now on the store is asked who has it.
      onError(error);
      unsettled();
    }
    if (this.#hold === hold) this.#drop(isKnown ? hold.fence : undefined);
    this.#follow();
  }

  /** The session isn't held any more. What is known of it stands as of the hold of this number. */
  #drop(known?: number): void {
    this.#unhear();
    this.#hold = undefined;
    this.#known = known;
    this.#owed = [];
  }

  /** Another server may have the session: what runs here is stopped, and nothing of it is written or told any more. */
  #lost(): void {
    const turn = this.#options.turn();
    const isHeld = this.isHeld;
    this.#drop();
    turn?.cancel();
    if (turn) this.#ended({ waiting: [] });
    if (turn && isHeld) this.#elsewhereAfter = turn.before;
    if (turn) this.#options.events.open();
    this.#follow();
    this.#look();
  }

  #ended(how: Parameters<SessionHoldOptions["ended"]>[0]): void {
    this.#elsewhereAfter = undefined;
    this.#options.ended(how);
  }

  #follow(): void {
    const shared = this.#shared;
    if (!shared) return;
    this.#options.events.follow({
      watch: (changed) => shared.watch(this.#options.id, changed),
      look: (seen) => this.#look(seen),
    });
  }

  /** Takes note of what other servers do, for those who follow. Never rejects. */
  #look(seen?: Sighting): Promise<void> {
    return this.#queue.run(() => this.#see(seen)).catch((error) => {
      if (this.#isGone) return;
      this.#options.environment.onError?.(error);
      this.#options.unsettled();
    });
  }

  /** Lets those who follow know how the session is, and reads no more than they need. Default: it is looked at now. */
  async #see(told?: Sighting): Promise<void> {
    const { id, events, memory } = this.#options;
    if (this.#isGone) throw sessionNotFound(id);
    if (!this.#shared || this.#hold || told && this.#seen && isBefore(told, this.#seen)) return;
    // A hold of this server's that it knows nothing of is to be found out.
    const seen = told && told.holder !== "this" ? told : await this.#orGone(this.#shared.look(id));
    const { holder, fence, lastEvent } = seen;
    if (holder === "nobody" && fence === this.#known && !events.failed) return;
    if (holder === "this" || holder === "left") return await this.#refresh(seen);
    events.reach(lastEvent, await this.#newEvents(seen));
    const last = events.newest;
    const isAtRest = last?.type === "turn_end" && last.reason !== "approval";
    if (holder === "nobody" && !isAtRest) return await this.#refresh(seen);
    this.#seen = seen;
    if (holder === "other") return events.open();
    await this.#orGone(memory.overtaken());
    this.#ended({ waiting: [] });
  }

  /** The events that are behind those that the log has, unless these are too many for it. */
  async #newEvents({ lastEvent, told = [] }: Sighting): Promise<Sighting["told"]> {
    const { id, environment: { store }, events: { last } } = this.#options;
    const first = told[0]?.number ?? lastEvent + 1;
    if (first <= last + 1 || lastEvent - last > MOST_TOLD) return told;
    // Once for all who follow here.
    return await this.#orGone(store.readEvents(id, { after: last, limit: lastEvent - last }));
  }

  /** Takes from the store what others have written. Default: the session is looked at now. */
  async #refresh(seen?: Sighting): Promise<void> {
    const { id, events, memory } = this.#options;
    if (this.#isGone) throw sessionNotFound(id);
    if (!this.#shared || this.#hold) return;
    const { holder, fence, lastEvent } = this.#seen = seen ?? await this.#orGone(this.#shared.look(id));
    if (holder === "nobody" && fence === this.#known && !events.failed) return;
    const read = async (isOther: boolean) => {
      const { waiting, runningAfter: after } = await this.#orGone(memory.restore({}));
      this.#known = isOther || after !== undefined ? undefined : fence;
      events.reach(lastEvent);
      this.#ended({ waiting, goesOn: isOther || after !== undefined });
      this.#elsewhereAfter = isOther ? after : undefined;
      return after;
    };
    if (holder === "other") await read(true);
    else if (holder !== "nobody" || await read(false) !== undefined) {
      this.#known = undefined;
      try {
        if (!await this.#here(async () => {})) await read(true);
      } catch (error) {
        this.#tellFull(error);
        await read(true);
        // It goes on once there is room, whoever finds it.
        events.close(toHttpError(error));
      }
    }
  }

  /** A store that has no room keeps nobody from reading. @throws what else has failed. */
  #tellFull(error: unknown): void {
    if (!(error instanceof StoreError && error.code === "full")) throw error;
    this.#options.environment.onError?.(error);
  }

  /** A session that isn't in the store any more was deleted by another server. */
  async #orGone<T>(work: Promise<T>): Promise<T> {
    const { id, environment: { store }, events } = this.#options;
    const done = await new SessionRecords(store, id).ifThere(async () => ({ value: await work }));
    if (done) return done.value;
    events.removed();
    this.goAway();
    throw sessionNotFound(id);
  }

  /** Takes from the store what is there, and goes on with the turn that is left there, or ends it. @throws {StoreError} */
  async #mend(how: Omit<Parameters<SessionMemory["restore"]>[0], "end">): Promise<void> {
    const { isEnding } = this.#options.environment;
    // Who ends himself leaves it to the next.
    const open = await this.#restore(isEnding() ? {} : { ...how, end: INTERRUPTED });
    if (open) await this.#options.resume(open);
  }

  /** Takes from the store what is there. Nothing runs then. Gives the turn that can go on. @throws {StoreError} */
  async #restore(how: Parameters<SessionMemory["restore"]>[0]): Promise<OpenTurn | undefined> {
    const { open, waiting } = await this.#options.memory.restore(how);
    this.#ended({ waiting, goesOn: open !== undefined });
    return open;
  }
}

/** The error for who wants a session that is left to another process. */
export function serverEnding(id: string): HttpError {
  return new HttpError(
    503,
    "server_ending",
    `Cannot use session ${id} here: the server is ending, and the session's turn goes on by itself. ` +
      `Ask again: GET ${API_PATH}/sessions/${id}/events follows it.`,
    { "retry-after": "1" },
  );
}

/**
 * Whether a session was seen so before it was seen as `later`: things told one after the other may be taken note of behind
 * what was found out since. Who gives it back is the last to hold it by that number.
 */
function isBefore({ fence, lastEvent, holder }: Sighting, later: Sighting): boolean {
  if (fence !== later.fence) return fence < later.fence;
  return lastEvent < later.lastEvent || later.holder === "nobody" && holder !== "nobody";
}

/** Whether this is what a store says to those who don't hold the session any more. */
function isFenced(error: unknown): boolean {
  return error instanceof StoreError && error.code === "fenced";
}

/** The error for a turn that is asked for while another one runs. */
export function turnRunning(id: string): HttpError {
  return new HttpError(
    409,
    "turn_running",
    `Cannot start a turn in session ${id}: one is running. Wait for its turn_end, cancel it, or send the input with ` +
      "steer.",
  );
}

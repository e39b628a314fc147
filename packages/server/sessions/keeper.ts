import type { Content } from "@tare/messages";
import { type Hold, StoreError } from "@tare/conversation";
import type { EventLog } from "./event_log.ts";
import type { Queue } from "./queue.ts";
import { INTERRUPTED } from "./recover_history.ts";
import type { SessionMemory } from "./session_memory.ts";
import {
  type RunningTurn,
  type SessionEnvironment,
  sessionNotFound,
  turnRunning,
} from "./session_options.ts";
import { isFenced, Tenure, type Wanted } from "./tenure.ts";

/** What the keeper of a session has to do with. */
export interface KeeperOptions {
  /** Id of the session. */
  readonly id: string;
  readonly environment: SessionEnvironment;
  readonly events: EventLog;
  readonly memory: SessionMemory;
  /** All that changes the session waits in it. */
  readonly queue: Queue;
  /** The turn that runs on this server. */
  readonly turn: () => RunningTurn | undefined;
  /** Told that none runs here any more, and what still waits to be said. */
  readonly ended: (how: { readonly waiting: readonly Content[] }) => void;
  /** Told when the session begins or ceases to do something, and when it is gone. */
  readonly changed: () => void;
  /** Told that others wait for the session, and it couldn't be given back: it is to be tried again. */
  readonly unsettled: () => void;
}

/**
 * Sees to it that memory is right whenever a session is changed: that it holds what is stored, and, where other servers
 * can have the store open, that none of them changes the session meanwhile.
 */
export class Keeper {
  /** What another server does: the number of the last event before the turn that it runs, and its hold. */
  elsewhere: { readonly after?: number | undefined; readonly fence: number } | undefined;
  /** Whether the session was deleted. */
  isGone = false;
  readonly #options: KeeperOptions;
  /** Absent where no other server can have the store open. */
  readonly #tenure: Tenure | undefined;

  /** Nothing is held yet. */
  constructor(options: KeeperOptions) {
    this.#options = options;
    const { id, environment: { store, onError = () => {} } } = options;
    const { shared } = store;
    if (!shared) return;
    this.#tenure = new Tenure({ id, store, shared, onError, lost: () => this.lost() });
    this.#follow();
  }

  /** The hold of this server; absent if it has none, or needs none. */
  get hold(): Hold | undefined {
    return this.#tenure?.hold;
  }

  /** Reads the session for the first time. @throws {StoreError} */
  load(): Promise<void> {
    return this.#tenure ? this.ready() : this.restore({ end: INTERRUPTED, isLate: true });
  }

  /** Settles when memory holds what is stored. @throws {HttpError} 404 if the session is gone. @throws {StoreError} */
  async ready(): Promise<void> {
    const { queue, events } = this.#options;
    if (this.#tenure && !this.hold) await queue.run(() => this.#refresh());
    else if (events.failed) await this.alone(async () => {});
  }

  /** Asks something of the server that holds the session, and reads what came of it. False if none holds it. */
  async ask(wanted: Wanted): Promise<boolean> {
    const isDone = await this.#tenure?.ask(wanted) ?? false;
    await this.ready();
    return isDone;
  }

  /** Who asked for this will be answered once nothing runs any more. */
  owe(requestId: string): void {
    this.#tenure?.owe(requestId);
  }

  #ended(how: { readonly waiting: readonly Content[] }): void {
    this.elsewhere = undefined;
    this.#options.ended(how);
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
      const done = await this.#options.queue.run(() => this.#here(work));
      if (done) return done.value;
      if (!await this.#tenure?.ask(wanted())) continue;
      await this.ready();
      return told();
    }
  }

  /** Does the work if the session can be held. */
  async #here<T>(work: () => Promise<T>): Promise<{ readonly value: T } | undefined> {
    if (this.isGone) throw sessionNotFound(this.#options.id);
    const taken = this.#tenure ? await this.#orGone(this.#tenure.take()) : "known";
    if (!taken) return undefined;
    try {
      if (taken === "stale" || this.#options.events.failed) await this.#mend();
      if (this.#tenure) this.#options.events.follow(undefined);
      return { value: await work() };
    } catch (error) {
      if (!this.#tenure || !isFenced(error)) throw error;
      // Nothing was written; whoever has it now is asked.
      this.lost();
      return undefined;
    } finally {
      await this.giveBack();
    }
  }

  async #mend(): Promise<void> {
    if (this.#tenure) {
      this.#options.events.reach(await this.#options.environment.store.lastEvent(this.#options.id));
    }
    await this.restore({ end: INTERRUPTED, isLate: !this.#tenure });
  }

  /** Lets other servers have the session, unless a turn runs. Never rejects. */
  async giveBack(): Promise<void> {
    if (!this.hold || this.#options.turn()) return;
    try {
      await this.#tenure?.release(!this.#options.events.failed);
      this.#follow();
    } catch (error) {
      this.#options.environment.onError?.(error);
      this.#options.unsettled();
    }
  }

  /** Another server may have the session: what runs here is stopped, and nothing of it is written or told any more. */
  lost(): void {
    const turn = this.#options.turn();
    const isHeld = this.hold !== undefined;
    this.#tenure?.drop();
    turn?.cancel();
    if (turn) this.#ended({ waiting: [] });
    if (turn && isHeld) this.elsewhere = { after: turn.before, fence: 0 };
    if (turn) this.#options.events.open();
    this.#follow();
    this.#look();
  }

  #follow(): void {
    const { shared } = this.#options.environment.store;
    this.#options.events.follow({
      watch: (changed) => shared?.watch(this.#options.id, changed) ?? (() => {}),
      look: () => this.#look(),
    });
  }

  /** Finds out what other servers do, for those who follow. Never rejects. */
  #look(): Promise<void> {
    return this.#options.queue.run(() => this.#refresh(this.elsewhere?.fence)).catch((error) => {
      if (this.isGone) return;
      this.#options.environment.onError?.(error);
      this.#options.unsettled();
    });
  }

  /** Takes from the store what others have written. What is known of the hold of number `known` isn't read again. */
  async #refresh(known?: number): Promise<void> {
    const tenure = this.#tenure;
    if (this.isGone) throw sessionNotFound(this.#options.id);
    if (!tenure || tenure.hold) return;
    const { holder, fence, lastEvent, isKnown } = await this.#orGone(tenure.look());
    if (isKnown && !this.#options.events.failed) return;
    const read = async (isOther: boolean) => {
      const { waiting, runningAfter: after } = await this.#orGone(this.#options.memory.restore({}));
      tenure.knows(isOther || after !== undefined ? undefined : fence);
      this.#options.events.reach(lastEvent);
      this.#ended({ waiting });
      this.elsewhere = isOther ? { after, fence } : undefined;
      if (isOther) this.#options.events.open();
      return after;
    };
    if (holder === "other") {
      if (known === fence) this.#options.events.reach(lastEvent);
      else await read(true);
    } else if (holder !== "nobody" || await read(false) !== undefined) {
      tenure.knows(undefined);
      if (!await this.#here(async () => {})) await read(true);
    }
  }

  /** A session that isn't in the store any more was deleted by another server. */
  async #orGone<T>(work: Promise<T>): Promise<T> {
    try {
      return await work;
    } catch (error) {
      if (error instanceof StoreError || await this.#options.environment.store.getSession(this.#options.id)) {
        throw error;
      }
      this.#options.events.removed();
      this.goAway();
      throw sessionNotFound(this.#options.id);
    }
  }

  goAway(): void {
    this.isGone = true;
    this.#tenure?.drop();
    this.#options.changed();
  }

  /** Takes from the store what is there. Nothing runs then. @throws {StoreError} */
  async restore(how: Parameters<SessionMemory["restore"]>[0]): Promise<void> {
    this.#ended(await this.#options.memory.restore(how));
  }
}

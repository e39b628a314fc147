import { Coalescer } from "./coalescer.ts";
import type { HeldSessions, RegisteredSession } from "./registry.ts";
import {
  Accounts,
  type AddedSessions,
  type CallReport,
  callToStore,
  type Days,
  storedCall,
} from "./report/calls.ts";
import { NOT_STORED, type StoredCopy } from "./session.ts";
import type { ListedSession, SessionRecord, Store, StoreRecord } from "./store/port.ts";
import { type NextState, SessionRecords } from "./store/session_records.ts";
import { StoreError } from "./store/store_error.ts";

/** Time for which requests do not wait for a store that failed or was late, in milliseconds. */
const PAUSE_MS = 10_000;

/** Time for which the end of a process waits, in milliseconds. */
const CLOSE_MS = 2_000;

const HOUR_MS = 60 * 60_000;

/** Most sessions that are loaded by name: by names of their own, else by names that several may have. */
const LOADED = { own: 4, alike: 8 };

/** Most sessions that wait for a store that failed; others are stored with their next commit. */
const MAX_WAITING = 1_000;

/** Most commits of a session whose ids its totals hold. */
const MAX_WRITES = 8;

/** The part of a session's totals that is written with them. */
interface StoredTotals {
  readonly days: Days;
  /** Ids of the newest commits, the newest first, by which an unanswered commit is found to have succeeded. */
  readonly writes: readonly string[];
}

/** What a kind of sessions stores of one, in addition to its row. */
export interface SessionContent extends Pick<NextState, "value" | "texts"> {
  /** Names under which it is found. Default: those that are stored. */
  readonly names?: readonly string[] | undefined;
  /** What these names, or the stored ones, are of: passed back once they are stored. */
  readonly named?: unknown;
}

/** Sessions that are stored after the fact. */
export interface WrittenKind<S extends RegisteredSession> {
  readonly kind: SessionRecord["kind"];
  readonly held: HeldSessions<S>;
  /** Returns a session's record, totals and title. */
  row(session: S): ListedSession & { readonly totals: { readonly days: Days } };
  /** Returns what its totals are added to. */
  group(session: S): Pick<NextState, "group" | "agent">;
  /**
   * Returns the content that is stored of a session.
   *
   * @param known What its stored names are of; `undefined` if that is unknown.
   */
  content(session: S, known: unknown): SessionContent;
}

/** Settings of a {@linkcode WriteBehind}. */
export interface WriteBehindOptions {
  readonly store: Store;
  /** Whether content is stored: titles, values, names and texts. Otherwise only totals and calls are. */
  readonly storesContent: boolean;
  /** How long a session is stored after its last commit, in milliseconds. */
  readonly maxAgeMs: () => number;
  /** Most bytes that all sessions of the kind take in the store. */
  readonly maxBytes: number;
  /** How long callers wait for the store, in milliseconds. */
  readonly waitMs: number;
  /** Called with each failure, and whether it is the first since the store last worked. */
  readonly onFailure: (error: unknown, isFirst: boolean) => void;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
}

/** A session as it was read from its store. */
export interface LoadedSession {
  readonly record: SessionRecord;
  readonly title: string;
  /** The totals of its row. */
  readonly totals: unknown;
  /** What its prompts continue from. Absent: nothing is stored of them. */
  readonly value?: unknown;
  readonly stored: StoredCopy;
  /** Reads an archived text. */
  readonly text: (ref: string) => Promise<string | undefined>;
}

/** Records that are stored with a session for a caller that waits. */
interface Rider {
  readonly records: readonly StoreRecord[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** How a session is written. */
interface Writer {
  readonly stored: SessionRecords;
  readonly commits: Coalescer;
  /** Records that are stored with the next commit. */
  readonly riders: Rider[];
}

/**
 * Writes sessions after the fact, several changes in one commit, so that the next process, or another one on the same
 * store, continues them. A store that is slow, full or away delays nobody: the state in memory counts, and is written once
 * the store works again. Totals that other servers have stored meanwhile are added.
 */
export class WriteBehind<S extends RegisteredSession> {
  readonly #kind: WrittenKind<S>;
  readonly #options: WriteBehindOptions;
  readonly #writers = new WeakMap<S, Writer>();
  /** Sessions with a commit under way. */
  readonly #writing = new Set<S>();
  /** Sessions whose newest state isn't stored because the store failed. */
  readonly #waiting = new Set<S>();
  /** Deleted sessions, of which requests may still run. */
  readonly #deleted = new WeakSet<S>();
  #isReported = false;
  /** By the monotonic clock. */
  #pausedUntilMs = -Infinity;
  #expireAtMs = -Infinity;
  #expiring: Promise<unknown> = Promise.resolve();

  constructor(kind: WrittenKind<S>, options: WriteBehindOptions) {
    this.#kind = kind;
    this.#options = options;
  }

  /**
   * Stores a session as it is now. Resolves once that is done or after a short while, and never rejects; with records of
   * `more`, which are stored in the same commit, once that is done.
   *
   * @throws {StoreError} if there are such records and the store fails.
   */
  async save(session: S, more: () => readonly StoreRecord[] = () => []): Promise<void> {
    if (this.#deleted.has(session)) return;
    const records = more();
    if (records.length > 0) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#writerOf(session).riders.push({ records, resolve, reject });
      this.#save(session);
      return await promise;
    }
    const saved = this.#save(session);
    if (!this.#isPaused) await this.#within(this.#options.waitMs, () => saved);
  }

  /** Removes a session from the store. @throws {StoreError} also if another server owns it. */
  async delete(session: S): Promise<void> {
    this.#deleted.add(session);
    this.#waiting.delete(session);
    const { commits, stored } = this.#writerOf(session);
    await commits.settled();
    await stored.delete();
  }

  /** Waits a while until all sessions are stored. Never rejects. */
  async close(): Promise<void> {
    for (const session of this.#waiting) this.#save(session);
    const saved = Array.from(this.#writing, (session) => this.#writerOf(session).commits.settled());
    await this.#within(CLOSE_MS, () => Promise.all([...saved, this.#expiring]));
  }

  /** Returns the totals of a session that aren't in the sums of the store yet; `undefined` if all are. */
  unsummed({ session: { state: { days }, stored: { summed, parent } } }: S): AddedSessions | undefined {
    if (days === summed) return undefined;
    const isCounted = summed !== undefined || parent !== undefined;
    return { days: Accounts.daysBeyond(days, summed ?? {}), sessions: isCounted ? 0 : 1 };
  }

  /** Returns all calls of a session, the oldest first. @throws {StoreError} */
  async calls(session: S): Promise<readonly CallReport[]> {
    const { store } = this.#options;
    const { id, session: { stored: { lastEvent } } } = session;
    const isThere = await store.getSession(id);
    const events = isThere ? await store.readEvents(id, { types: ["call"] }) : [];
    const calls = events.map(({ number, event: { type: _, ...call } }) => storedCall(call, number));
    const last = events.at(-1)?.number ?? 0;
    // While they are written they may be there already.
    const missing = unwritten(session).slice(this.#writing.has(session) ? last - lastEvent : 0);
    return [...calls, ...missing.map((call, at) => ({ ...call, number: last + at + 1 }))];
  }

  /** Whether a session is at least as new in memory as in the store: not stored yet, or written by this process alone. */
  isNewer(session: S): boolean {
    if (!this.#options.store.shared || this.#writing.has(session) || this.#waiting.has(session)) return true;
    const { fence, totals } = session.session.stored;
    return fence === undefined || totals !== JSON.stringify(this.#kind.row(session).totals);
  }

  /** Whether no other server has continued a session since it was last written here. */
  async isNewest({ id, session: { stored: { fence } } }: S): Promise<boolean> {
    const { shared } = this.#options.store;
    return !shared || fence === undefined || (await shared.look(id)).fence === fence;
  }

  /** Whether the stored session is newer than the one in memory, as of this hold. */
  isNews({ id, fence = 0 }: { readonly id: string; readonly fence?: number | undefined }): boolean {
    const known = this.#kind.held.find(id);
    return !known || (known.session.stored.fence ?? 0) < fence && !this.#writing.has(known);
  }

  /** Returns the newest session of this id, by `restore` if it has to be loaded. @throws {StoreError} */
  async open(
    id: string,
    restore: (loaded: LoadedSession) => Promise<S | undefined>,
  ): Promise<S | undefined> {
    const { store } = this.#options;
    const { kind, held } = this.#kind;
    const known = held.find(id);
    if (known && this.isNewer(known)) return known;
    return await held.load(id, async () => {
      const fence = (await new SessionRecords(store, id).look())?.fence;
      if (fence === undefined || known && !this.isNews({ id, fence })) return known;
      const loaded = await this.#read(id, fence);
      return loaded?.record.kind === kind ? await restore(loaded) ?? known : known;
    });
  }

  /**
   * Passes on the stored sessions of these names that are newer than in memory, the surest last: those that have a name of
   * their own, else those that may be meant. Nothing happens if the store is late or fails. Never rejects.
   */
  async loadNamed(
    { own, alike }: { readonly own: readonly string[]; readonly alike: readonly string[] },
    take: (loaded: readonly LoadedSession[]) => void,
  ): Promise<void> {
    const { store, storesContent, waitMs } = this.#options;
    if (!storesContent || this.#isPaused) return;
    await this.#within(waitMs, async (isLate) => {
      const sure = await store.findNamed(own, LOADED.own);
      const meant = sure.length > 0 ? sure : await store.findNamed(alike, LOADED.alike);
      const news = meant.filter((one) => this.isNews(one));
      const loaded = await Promise.all(news.map(({ id, fence }) => this.#read(id, fence)));
      if (!isLate()) take(loaded.flatMap((one) => one ?? []).reverse());
    });
  }

  get #isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs;
  }

  #writerOf(session: S): Writer {
    const known = this.#writers.get(session);
    if (known) return known;
    const stored = new SessionRecords(this.#options.store, session.id);
    const commits = new Coalescer(() => this.#write(session), () => {});
    const writer: Writer = { stored, commits, riders: [] };
    this.#writers.set(session, writer);
    return writer;
  }

  async #read(id: string, fence: number): Promise<LoadedSession | undefined> {
    const { store } = this.#options;
    const records = new SessionRecords(store, id);
    return await records.ifThere(async () => {
      const [record, lastEvent, { totals, title, value, refs }] = await Promise.all([
        store.getSession(id),
        store.lastEvent(id),
        records.read(),
      ]);
      if (!record || totals === undefined) return undefined;
      const { writes, ...rest } = totals as StoredTotals;
      const { days } = rest;
      const written = { title, refs, days, summed: days, totals: JSON.stringify(rest) };
      const text = async (ref: string) => (await store.readTexts(id, [ref])).get(ref);
      return { record, title, totals: rest, value, stored: { ...written, fence, lastEvent, writes }, text };
    });
  }

  /** Commits a session, one commit after the other. Resolves once it is stored as it is now, or failed. */
  async #save(session: S): Promise<void> {
    const startedMs = performance.now();
    const { commits } = this.#writerOf(session);
    this.#writing.add(session);
    await commits.run();
    if (commits.isRunning || !this.#writing.delete(session) || this.#waiting.has(session)) return;
    this.#works(performance.now() - startedMs <= this.#options.waitMs);
  }

  /** Commits a session and the records that are to be stored with it. Never rejects. */
  async #write(session: S): Promise<void> {
    const riders = this.#writerOf(session).riders.splice(0);
    try {
      await this.#commit(session, riders.flatMap(({ records }) => records));
      for (const { resolve } of riders) resolve();
      this.#waiting.delete(session);
    } catch (error) {
      for (const { reject } of riders) reject(error);
      this.#wait(session);
      this.#fails(error);
    }
  }

  /** Commits a session: again after what others have written meanwhile, and anew if it is no longer stored. */
  async #commit(session: S, more: readonly StoreRecord[]): Promise<void> {
    const { store } = this.#options;
    for (;;) {
      const { records, after } = await this.#recordsOf(session);
      // Until this one is known to be done, the stored names may be its.
      const { named: _, ...before } = session.session.stored;
      const attempts = [after, ...before.attempts ?? []].slice(0, MAX_WRITES);
      session.session.wrote({ ...before, attempts });
      let fence: number | undefined;
      try {
        fence = await this.#writerOf(session).stored.commit(before.fence ?? 0, [...records, ...more]);
      } catch (error) {
        if (error instanceof StoreError) throw error;
        const isThere = await store.getSession(session.id) !== undefined;
        if (isThere === (before.fence !== undefined)) throw error;
        // It has expired, and its texts with it; or a commit that wasn't answered was done.
        if (!isThere) this.#begin(session);
        else await this.#catchUp(session);
        continue;
      }
      if (fence !== undefined) return session.session.wrote({ ...after, fence });
      await this.#catchUp(session);
    }
  }

  /** Forgets what was stored of a session that is no longer stored. */
  #begin({ session }: S): void {
    const { summed, parent } = session.stored;
    session.wrote({ ...NOT_STORED, summed, parent });
  }

  /** Adds the totals that other servers have stored of a session to those of this one. */
  async #catchUp(own: S): Promise<void> {
    const { store } = this.#options;
    const { id, session } = own;
    const { stored } = this.#writerOf(own);
    const seen = await stored.look();
    const totals = seen && await stored.ifThere(() => store.readState(id, "totals"));
    if (!totals) return this.#begin(own);
    const { fence, holder, lastEvent } = seen;
    const { days, writes } = totals as StoredTotals;
    if (holder === "this" || holder === "other") throw new Error(`another server holds the session ${id}`);
    const { refs, parent, attempts, ...known } = session.stored;
    const before = attempts?.find((attempt) => writes.includes(attempt.writes[0]!)) ?? known;
    const unsummed = Accounts.daysBeyond(session.state.days, before.summed ?? {});
    session.bookDays(Accounts.daysBeyond(days, before.days));
    // Who recorded the rest has added it to the sums.
    const summed = Accounts.daysBeyond(session.state.days, unsummed);
    const { lastCall } = before;
    session.wrote({ title: "", refs, parent, fence, days, summed, lastEvent, lastCall, writes });
  }

  /** Returns the records of a commit, and the session as it is stored then. */
  async #recordsOf(session: S): Promise<
    { readonly records: readonly StoreRecord[]; readonly after: StoredCopy }
  > {
    const { store, storesContent } = this.#options;
    const { id: sessionId, session: { stored: before } } = session;
    const { lastEvent: _, totals, title, ...record } = this.#kind.row(session);
    const isNew = before.fence === undefined;
    const parent = isNew && storesContent && before.parent !== undefined &&
        await store.getSession(before.parent)
      ? before.parent
      : undefined;
    const refs = isNew && parent === undefined ? NOT_STORED.refs : before.refs;
    const writes = [crypto.randomUUID().slice(0, 8), ...before.writes].slice(0, MAX_WRITES);
    const known = this.#kind.held.find(sessionId);
    // If another server has continued it, that one's prompt is the newer one.
    const isWhole = storesContent && (!known || known === session);
    const content = isWhole ? this.#kind.content(session, before.named) : undefined;
    const { names, named, ...own } = content ?? {};
    const { records: state, after } = this.#writerOf(session).stored.change(
      { ...before, totals: undefined, refs },
      {
        ...this.#kind.group(session),
        ...own,
        title: content ? title as string : before.title,
        totals: { ...totals, writes },
        days: totals.days,
        isFork: before.parent !== undefined,
      },
    );
    const calls = unwritten(session);
    const events = calls.map(({ number: _, ...call }) => ({
      type: "call",
      ...callToStore(storesContent ? call : withoutQuotes(call)),
    }));
    const records: StoreRecord[] = [
      ...isNew ? [{ type: "session", ...record, ...(parent !== undefined && { parent }) } as const] : [],
      ...state,
      ...names ? [{ type: "names", sessionId, names } as const] : [],
      ...events.length === 0 ? [] : [{ type: "events", sessionId, after: before.lastEvent, events } as const],
    ];
    return {
      records,
      after: {
        ...{ title: after.title, refs: after.refs, parent: before.parent, writes },
        ...{ days: totals.days, summed: totals.days, totals: JSON.stringify(totals) },
        ...(content && { whole: after.whole, named }),
        lastEvent: before.lastEvent + calls.length,
        lastCall: calls.at(-1) ?? before.lastCall,
      },
    };
  }

  #wait(session: S): void {
    this.#waiting.add(session);
    const [first] = this.#waiting;
    if (first && this.#waiting.size > MAX_WAITING) this.#waiting.delete(first);
  }

  #works(isQuick: boolean): void {
    if (isQuick) {
      this.#isReported = false;
      this.#pausedUntilMs = -Infinity;
    }
    // One by one: each that is stored starts the next.
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      this.#save(next);
    }
    if (performance.now() < this.#expireAtMs) return;
    this.#expireAtMs = performance.now() + HOUR_MS;
    const { store, maxAgeMs, maxBytes, now } = this.#options;
    const limits = { kind: this.#kind.kind, beforeMs: now() - maxAgeMs(), maxBytes };
    this.#expiring = store.expireSessions(limits).catch((error) => this.#fails(error));
  }

  #fails(error: unknown): void {
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    const isFirst = !this.#isReported;
    this.#isReported = true;
    this.#options.onFailure(error, isFirst);
  }

  /** Runs work that may fail or take long, and waits for it at most so long. */
  async #within(ms: number, work: (isLate: () => boolean) => Promise<unknown>): Promise<void> {
    let isLate = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        isLate = true;
        this.#fails(new Error(`the store hasn't answered within ${ms} ms`));
        resolve();
      }, ms);
    });
    const done = work(() => isLate).catch((error) => this.#fails(error));
    await Promise.race([done, late]);
    clearTimeout(timer);
  }
}

/** Returns the calls of a session that aren't stored yet. */
function unwritten({ session: { calls, stored: { lastCall } } }: RegisteredSession): readonly CallReport[] {
  return calls.slice(lastCall ? calls.lastIndexOf(lastCall) + 1 : 0);
}

/** Returns a call without its rewrites and changes, which quote messages. */
function withoutQuotes(call: Omit<CallReport, "number">): Omit<CallReport, "number"> {
  return { ...call, rewrites: [], changed: call.changed && { ...call.changed, before: "", after: "" } };
}

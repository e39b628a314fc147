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

/** Milliseconds for which requests don't wait for a store that failed or was late. */
const PAUSE_MS = 10_000;

/** Longest wait at the end of a process, in milliseconds. */
const CLOSE_MS = 2_000;

const HOUR_MS = 60 * 60_000;

/** Most sessions loaded by exact names, then by names that several may share. */
const LOADED = { own: 4, alike: 8 };

/** Most sessions that wait for a failed store. */
const MAX_WAITING = 1_000;

const MAX_WRITES = 8;

interface StoredTotals {
  readonly days: Days;
  /** The newest first; they identify an unanswered commit that succeeded. */
  readonly writes: readonly string[];
}

/** Content that a kind stores in addition to a session's row. */
export interface SessionContent extends Pick<NextState, "value" | "texts"> {
  /** Names under which it is found. Default: the stored ones. */
  readonly names?: readonly string[] | undefined;
  /** Source of the names, passed back once they are stored. */
  readonly named?: unknown;
}

/** A kind that is written behind. */
export interface WrittenKind<S extends RegisteredSession> {
  readonly kind: SessionRecord["kind"];
  readonly held: HeldSessions<S>;
  row(session: S): ListedSession & { readonly totals: { readonly days: Days } };
  group(session: S): Pick<NextState, "group" | "agent">;
  /** Returns a session's content to be stored. @param known Source of its stored names. */
  content(session: S, known: unknown): SessionContent;
}

/** Options of {@linkcode WriteBehind}. */
export interface WriteBehindOptions {
  readonly store: Store;
  /** Whether titles, values, names and texts are stored, or only totals and calls. */
  readonly storesContent: boolean;
  readonly maxAgeMs: () => number;
  readonly maxBytes: number;
  /** Longest wait of callers for the store, in milliseconds. */
  readonly waitMs: number;
  /** Called with each failure, and whether it is the first since the store last worked. */
  readonly onFailure: (error: unknown, isFirst: boolean) => void;
  readonly now: () => number;
}

/** A session read from its store. */
export interface LoadedSession {
  readonly record: SessionRecord;
  readonly title: string;
  readonly totals: unknown;
  /** State of its prompts. Absent: not stored. */
  readonly value?: unknown;
  readonly stored: StoredCopy;
  readonly text: (ref: string) => Promise<string | undefined>;
}

interface Rider {
  readonly records: readonly StoreRecord[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

interface Writer {
  readonly stored: SessionRecords;
  readonly commits: Coalescer;
  readonly riders: Rider[];
}

/**
 * Writes sessions behind requests, several changes in one commit, so that other processes can continue them. A slow,
 * full or absent store delays no request: the state in memory is authoritative, and is written later. Totals stored by
 * other servers are added.
 */
export class WriteBehind<S extends RegisteredSession> {
  readonly #kind: WrittenKind<S>;
  readonly #options: WriteBehindOptions;
  readonly #writers = new WeakMap<S, Writer>();
  readonly #writing = new Set<S>();
  readonly #waiting = new Set<S>();
  /** Deleted sessions that requests may still use. */
  readonly #deleted = new WeakSet<S>();
  #isReported = false;
  #pausedUntilMs = -Infinity;
  #expireAtMs = -Infinity;
  #expiring: Promise<unknown> = Promise.resolve();

  constructor(kind: WrittenKind<S>, options: WriteBehindOptions) {
    this.#kind = kind;
    this.#options = options;
  }

  /**
   * Stores a session. Resolves after a short wait at most, and never rejects; with records of `more`, which are part of
   * the commit, once they are stored.
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

  /** Deletes a session from the store. @throws {StoreError} also if another server owns it. */
  async delete(session: S): Promise<void> {
    this.#deleted.add(session);
    this.#waiting.delete(session);
    const { commits, stored } = this.#writerOf(session);
    await commits.settled();
    await stored.delete();
  }

  async close(): Promise<void> {
    for (const session of this.#waiting) this.#save(session);
    const saved = Array.from(this.#writing, (session) => this.#writerOf(session).commits.settled());
    await this.#within(CLOSE_MS, () => Promise.all([...saved, this.#expiring]));
  }

  /** Returns the totals of a session that the store's totals don't include. */
  unsummed({ session: { state: { days }, stored: { summed, parent } } }: S): AddedSessions | undefined {
    if (days === summed) return undefined;
    const isCounted = summed !== undefined || parent !== undefined;
    return { days: Accounts.daysBeyond(days, summed ?? {}), sessions: isCounted ? 0 : 1 };
  }

  async calls(session: S): Promise<readonly CallReport[]> {
    const { store } = this.#options;
    const { id, session: { stored: { lastEvent } } } = session;
    const isThere = await store.getSession(id);
    const events = isThere ? await store.readEvents(id, { types: ["call"] }) : [];
    const calls = events.map(({ number, event: { type: _, ...call } }) => storedCall(call, number));
    const last = events.at(-1)?.number ?? 0;
    // A commit in progress may have stored them already.
    const missing = unwritten(session).slice(this.#writing.has(session) ? last - lastEvent : 0);
    return [...calls, ...missing.map((call, at) => ({ ...call, number: last + at + 1 }))];
  }

  isUpToDate(session: S): boolean {
    if (!this.#options.store.shared || this.#writing.has(session) || this.#waiting.has(session)) return true;
    const { fence, totals } = session.session.stored;
    return fence === undefined || totals !== JSON.stringify(this.#kind.row(session).totals);
  }

  async isNewest({ id, session: { stored: { fence } } }: S): Promise<boolean> {
    const { shared } = this.#options.store;
    return !shared || fence === undefined || (await shared.inspect(id)).fence === fence;
  }

  isStoredNewer({ id, fence = 0 }: { readonly id: string; readonly fence?: number | undefined }): boolean {
    const known = this.#kind.held.find(id);
    return !known || (known.session.stored.fence ?? 0) < fence && !this.#writing.has(known);
  }

  /** Returns the newest session of this id, by `restore` if it must be loaded. @throws {StoreError} */
  async open(
    id: string,
    restore: (loaded: LoadedSession) => Promise<S | undefined>,
  ): Promise<S | undefined> {
    const { store } = this.#options;
    const { kind, held } = this.#kind;
    const known = held.find(id);
    if (known && this.isUpToDate(known)) return known;
    return await held.load(id, async () => {
      const fence = (await new SessionRecords(store, id).inspect())?.fence;
      if (fence === undefined || known && !this.isStoredNewer({ id, fence })) return known;
      const loaded = await this.#read(id, fence);
      return loaded?.record.kind === kind ? await restore(loaded) ?? known : known;
    });
  }

  /**
   * Passes stored sessions that are newer than in memory to `take`, the best match last: those with a name of `own`,
   * then, unless `take` returns that these suffice, those with a name of `alike`. Does nothing if the store is late or
   * fails. Never rejects.
   */
  async loadNamed(
    { own, alike }: { readonly own: readonly string[]; readonly alike: readonly string[] },
    take: (loaded: readonly LoadedSession[]) => boolean,
  ): Promise<void> {
    const { store, storesContent, waitMs } = this.#options;
    if (!storesContent || this.#isPaused) return;
    await this.#within(waitMs, async (isLate) => {
      for (const [names, limit] of [[own, LOADED.own], [alike, LOADED.alike]] as const) {
        const named = await store.findByName(names, limit);
        if (named.length === 0) continue;
        const news = named.filter((one) => this.isStoredNewer(one));
        const loaded = await Promise.all(news.map(({ id, fence }) => this.#read(id, fence)));
        if (isLate() || take(loaded.flatMap((one) => one ?? []).reverse())) return;
      }
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

  async #save(session: S): Promise<void> {
    const startedMs = performance.now();
    const { commits } = this.#writerOf(session);
    this.#writing.add(session);
    await commits.run();
    if (commits.isRunning || !this.#writing.delete(session) || this.#waiting.has(session)) return;
    this.#works(performance.now() - startedMs <= this.#options.waitMs);
  }

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

  /** Commits a session; retries after writes of others, and stores it as new if it was deleted. */
  async #commit(session: S, more: readonly StoreRecord[]): Promise<void> {
    const { store } = this.#options;
    for (;;) {
      const { records, after } = await this.#recordsOf(session);
      // Until this commit is known to have succeeded, the stored names may be its.
      const { named: _, ...before } = session.session.stored;
      const attempts = [after, ...before.attempts ?? []].slice(0, MAX_WRITES);
      session.session.setStored({ ...before, attempts });
      let fence: number | undefined;
      try {
        fence = await this.#writerOf(session).stored.commit(before.fence ?? 0, [...records, ...more]);
      } catch (error) {
        if (error instanceof StoreError) throw error;
        const isThere = await store.getSession(session.id) !== undefined;
        if (isThere === (before.fence !== undefined)) throw error;
        // It has expired with its texts, or an unanswered commit had succeeded.
        if (!isThere) this.#begin(session);
        else await this.#catchUp(session);
        continue;
      }
      if (fence !== undefined) return session.session.setStored({ ...after, fence });
      await this.#catchUp(session);
    }
  }

  #begin({ session }: S): void {
    const { summed, parent } = session.stored;
    session.setStored({ ...NOT_STORED, summed, parent });
  }

  async #catchUp(own: S): Promise<void> {
    const { store } = this.#options;
    const { id, session } = own;
    const { stored } = this.#writerOf(own);
    const seen = await stored.inspect();
    const totals = seen && await stored.ifThere(() => store.readState(id, "totals"));
    if (!totals) return this.#begin(own);
    const { fence, holder, lastEvent } = seen;
    const { days, writes } = totals as StoredTotals;
    if (holder === "this" || holder === "other") throw new Error(`another server holds the session ${id}`);
    const { refs, parent, attempts, ...known } = session.stored;
    const before = attempts?.find((attempt) => writes.includes(attempt.writes[0]!)) ?? known;
    const unsummed = Accounts.daysBeyond(session.state.days, before.summed ?? {});
    session.recordDays(Accounts.daysBeyond(days, before.days));
    // The server that recorded the rest has added it to the store's totals.
    const summed = Accounts.daysBeyond(session.state.days, unsummed);
    const { lastCall } = before;
    session.setStored({ title: "", refs, parent, fence, days, summed, lastEvent, lastCall, writes });
  }

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
    // If another server has continued it, that server's prompt is newer.
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
    // One at a time: each stored session starts the next.
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

function unwritten({ session: { calls, stored: { lastCall } } }: RegisteredSession): readonly CallReport[] {
  return calls.slice(lastCall ? calls.lastIndexOf(lastCall) + 1 : 0);
}

/** Returns a call without rewrites and changes, which quote messages. */
function withoutQuotes(call: Omit<CallReport, "number">): Omit<CallReport, "number"> {
  return { ...call, rewrites: [], changed: call.changed && { ...call.changed, before: "", after: "" } };
}

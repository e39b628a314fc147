import { type Store, StoreError } from "@tare/session";
import { sameData } from "@tare/messages/internal";
import {
  Coalescer,
  SessionRecords,
  type StateUpdate,
  type StoredState,
  type StoreRecord,
} from "@tare/session/internal";
import {
  Accounts,
  type AddedSessions,
  type CallReport,
  callToStore,
  type Days,
  storedCall,
} from "@tare/session/internal/report";
import type { Protocol, RequestReaders } from "@tare/wire/internal";
import type { GatewaySession, Recognised } from "../sessions/session.ts";
import type { GatewaySessions, StoredSession } from "../sessions/sessions.ts";
import {
  figuresOnly,
  keptRecord,
  type KeptSettings,
  type KeptTotals,
  keptValue,
  type Making,
  namesOf,
  type ReadSession,
  restoreSession,
  type SessionNames,
  soughtNames,
  totalsOf,
} from "./kept_session.ts";

/** Time for which requests do not wait for a store that failed or was late, in milliseconds. */
const PAUSE_MS = 10_000;

/** Time for which the end of a process waits, in milliseconds. */
const CLOSE_MS = 2_000;

const HOUR_MS = 60 * 60_000;

/** So many conversations are loaded: of those that are meant, else of those that may be. */
const LOADED = { own: 4, alike: 8 };

/** Most sessions that wait for a store that failed; others are stored with their next turn. */
const MAX_WAITING = 1_000;

/** Most commits of a session whose ids its totals hold. */
const MAX_WRITES = 8;

/**
 * Items by which a session's history may be longer than it was when its names were stored: a request is looked up by its
 * history as it was up to 64 items ago.
 */
const MAX_UNNAMED_ITEMS = 16;

/** What a {@linkcode Keeper} works with. */
export interface KeeperOptions {
  readonly store: Store;
  /** Whether what a conversation needs to go on is kept too, or figures alone: what sessions and their calls came to. */
  readonly isWhole: boolean;
  readonly sessions: GatewaySessions;
  /** How long a conversation is kept after its last turn, in milliseconds. */
  readonly keepMs: () => number;
  /** Most bytes that all take in the store. */
  readonly keepBytes: number;
  /** How long a request waits for what is kept, and the end of an answer until it is kept, in milliseconds. */
  readonly waitMs: number;
  /** What sessions of a protocol and client are made with; nothing if requests of that protocol go nowhere. */
  readonly makingOf: (protocol: string, client: string | undefined) => Promise<Making | undefined>;
  /** Told of a session that was read. */
  readonly restored: (session: StoredSession["parts"]) => void;
  /** Told of each failure. */
  readonly failed: () => void;
  /** Told once that keeping fails, and again when it fails after it has worked. */
  readonly onError: (error: unknown) => void;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
}

/** Where the conversation of a request is looked for. */
export interface Looking {
  /** The response that the request follows. */
  readonly follows: string | undefined;
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}

/** A session as it is stored, but for the references of its texts. */
interface Written extends Pick<StoredState, "title" | "summed" | "whole"> {
  /** The days of its stored totals. */
  readonly days: Days;
  /** The totals as JSON. */
  readonly totals?: string;
  /** Number of its last event, each of which is a call. */
  readonly lastEvent: number;
  /** The newest stored call that was made here. */
  readonly lastCall?: CallReport | undefined;
  readonly writes: readonly string[];
  /** What its stored names are of. Absent: that isn't known. */
  readonly named?: Pick<SessionNames, "others" | "settled"> | undefined;
  /** How it is stored if a commit was done that failed or was never answered; the newest first. */
  readonly attempts?: readonly Written[];
}

/** Records that are stored with a session for a caller that waits. */
interface Rider {
  readonly records: readonly StoreRecord[];
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

const NOTHING: Written = { days: {}, title: "", lastEvent: 0, writes: [] };

/**
 * Keeps sessions in a store, so that the next process, or another one beside it, sends the same bytes and knows what they
 * came to. A store that is slow, full or away costs nobody an answer: requests go on with what is in memory.
 */
export class Keeper {
  readonly #options: KeeperOptions;
  /** Commits of the sessions that are being written. */
  readonly #saving = new Map<GatewaySession, Coalescer>();
  /** Records that are stored with the next commit of a session. */
  readonly #riders = new Map<GatewaySession, readonly Rider[]>();
  /** Sessions whose newest state isn't stored because the store failed. */
  readonly #waiting = new Set<GatewaySession>();
  /** By conversation: a session that is read anew keeps it. */
  readonly #written = new WeakMap<GatewaySession["session"], Written>();
  readonly #stored = new WeakMap<GatewaySession, SessionRecords>();
  /** Removed sessions, of which turns may still run. */
  readonly #forgotten = new WeakSet<GatewaySession>();
  #isTold = false;
  /** By the monotonic clock. */
  #pausedUntilMs = -Infinity;
  #expireAtMs = -Infinity;
  #expiring: Promise<unknown> = Promise.resolve();

  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Reads what is kept of a request's conversation, if it isn't known here, or others may know more. Never rejects. */
  async look(recognised: Recognised, looking: Looking): Promise<void> {
    const { store, isWhole, sessions, waitMs } = this.#options;
    if (!isWhole || !store.shared && sessions.knows(recognised)) return;
    if (this.#isPaused) return;
    const { own, alike } = soughtNames(recognised, looking);
    const { protocol, readers } = looking;
    const { client, countTokens, prompts } = recognised;
    await this.#within(waitMs, async (isLate) => {
      const sure = await store.findNamed(own, LOADED.own);
      const meant = sure.length > 0 ? sure : await store.findNamed(alike, LOADED.alike);
      const loaded = await Promise.all(
        meant.filter(({ id, fence }) => this.#isNews(id, fence)).map(async ({ id, fence }) => {
          const read = await this.#read(id, fence);
          const settings = read?.record.settings as KeptSettings | undefined;
          // What has another protocol is another conversation, whatever it holds.
          if (!read || settings?.client !== client || settings?.protocol !== protocol.name) return undefined;
          return this.#restore(read, { countTokens, prompts, protocol, readers });
        }),
      );
      if (isLate()) return;
      // What is most surely meant comes last, and so does what was saved last.
      for (const restored of loaded.reverse()) if (restored) this.#takeIn(restored);
    });
  }

  /**
   * Stores a session as it is now. Resolves once that is done or after a short while, and never rejects; with records of
   * `keep`, which are stored in the same commit, once that is done.
   *
   * @throws {StoreError} if there are such records and the store fails.
   */
  async save(session: GatewaySession, keep: () => readonly StoreRecord[] = () => []): Promise<void> {
    if (this.#forgotten.has(session)) return;
    const records = keep();
    if (records.length > 0) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      this.#riders.set(session, [...this.#riders.get(session) ?? [], { records, resolve, reject }]);
      this.#save(session);
      return await promise;
    }
    const saved = this.#save(session);
    if (this.#isPaused) return;
    await this.#within(this.#options.waitMs, () => saved);
  }

  /** Removes a session from the store. @throws {StoreError} also if another server holds it. */
  async forget(session: GatewaySession): Promise<void> {
    this.#forgotten.add(session);
    this.#waiting.delete(session);
    await this.#saving.get(session)?.settled();
    await this.#inStore(session).delete();
  }

  /** Waits a while until all sessions are stored. Never rejects. */
  async close(): Promise<void> {
    for (const session of this.#waiting) this.#save(session);
    const saved = Array.from(this.#saving.values(), (commits) => commits.settled());
    await this.#within(CLOSE_MS, () => Promise.all([...saved, this.#expiring]));
  }

  get store(): Store {
    return this.#options.store;
  }

  /** Returns what a session has come to that isn't in the sums of the store yet; `undefined` if all is. */
  unsummed({ session: { state }, kept, session: conversation }: GatewaySession): AddedSessions | undefined {
    const { summed } = this.#written.get(conversation) ?? NOTHING;
    if (state.days === summed) return undefined;
    const isCounted = summed !== undefined || kept.parent !== undefined;
    return { days: Accounts.daysBeyond(state.days, summed ?? {}), sessions: isCounted ? 0 : 1 };
  }

  /** All calls of a session, the oldest first. @throws {StoreError} */
  async calls(session: GatewaySession): Promise<readonly CallReport[]> {
    const { store } = this.#options;
    const { id, session: conversation } = session;
    const isThere = await store.getSession(id);
    const stored = isThere ? await store.readEvents(id, { types: ["call"] }) : [];
    const calls = stored.map(({ number, event: { type: _, ...call } }) => storedCall(call, number));
    const last = stored.at(-1)?.number ?? 0;
    // While they are written they may be there already.
    const { lastEvent } = this.#written.get(conversation) ?? NOTHING;
    const missing = this.#unwritten(conversation).slice(this.#saving.has(session) ? last - lastEvent : 0);
    return [...calls, ...missing.map((call, at) => ({ ...call, number: last + at + 1 }))];
  }

  /** The session of this id, taken in if it wasn't known. @throws {StoreError} */
  async open(id: string): Promise<GatewaySession | undefined> {
    const { store, sessions: { held }, makingOf } = this.#options;
    const known = held.find(id);
    if (known && this.isNewer(known)) return known;
    return await held.load(id, async () => {
      const fence = (await new SessionRecords(store, id).look())?.fence;
      if (fence === undefined || known && !this.#isNews(id, fence)) return known;
      const read = await this.#read(id, fence);
      if (read?.record.kind !== "gateway") return known;
      const { protocol, client } = read.record.settings as KeptSettings;
      const making = await makingOf(protocol, client);
      if (!making) return known;
      const restored = this.#restore(read, making);
      if (!restored) return known ?? figuresOnly(read, making);
      this.#takeIn(restored);
      return held.find(id);
    });
  }

  get #isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs;
  }

  /** Whether a session is at least as new here as in the store, because it isn't stored yet or is written here alone. */
  isNewer(session: GatewaySession): boolean {
    return !this.#options.store.shared || this.#isChanged(session);
  }

  /** Whether it has come to something that isn't in the store yet. */
  #isChanged(session: GatewaySession): boolean {
    return this.#saving.has(session) || this.#waiting.has(session) || session.kept.fence === undefined ||
      this.#written.get(session.session)?.totals !== JSON.stringify(totalsOf(session));
  }

  /** Whether the store knows more of a session than is known here, as of this hold. */
  #isNews(id: string, fence: number): boolean {
    const known = this.#options.sessions.held.find(id);
    return !known || (known.kept.fence ?? 0) < fence && !this.#saving.has(known);
  }

  /** Takes in a session that was read, if that is still news. */
  #takeIn(restored: StoredSession): void {
    const { session: { id }, kept } = restored.parts;
    if (!this.#isNews(id, kept?.fence ?? 0)) return;
    this.#options.sessions.adopt(restored);
    this.#options.restored(restored.parts);
  }

  /** All that is kept of a session; nothing if nothing is. */
  async #read(id: string, fence: number): Promise<ReadSession | undefined> {
    const { store } = this.#options;
    const stored = new SessionRecords(store, id);
    return await stored.ifThere(async () => {
      const [record, lastEvent, { totals, ...state }] = await Promise.all([
        store.getSession(id),
        store.lastEvent(id),
        stored.read(),
      ]);
      if (!record || totals === undefined) return undefined;
      return { ...state, record, fence, lastEvent, totals: totals as KeptTotals };
    });
  }

  #restore(read: ReadSession, making: Making): StoredSession | undefined {
    const { store } = this.#options;
    const { record: { id }, totals: { writes, ...totals }, title, lastEvent } = read;
    const text = async (ref: string) => (await store.readTexts(id, [ref])).get(ref);
    const restored = restoreSession(read, { ...making, text });
    if (restored) {
      const { days } = totals;
      const written = { days, summed: days, totals: JSON.stringify(totals), title, lastEvent, writes };
      this.#written.set(restored.parts.session, written);
    }
    return restored;
  }

  /** Whether nobody else has gone on with a session since it was last written here. */
  async isNewest({ id, kept }: GatewaySession): Promise<boolean> {
    const { shared } = this.#options.store;
    return !shared || kept.fence === undefined || (await shared.look(id)).fence === kept.fence;
  }

  /** Commits a session, one commit after the other. Resolves once it is stored as it is now, or failed. */
  async #save(session: GatewaySession): Promise<void> {
    const startedMs = performance.now();
    const commits = this.#saving.get(session) ?? new Coalescer(() => this.#write(session), () => {});
    this.#saving.set(session, commits);
    await commits.run();
    if (commits.isRunning || !this.#saving.delete(session) || this.#waiting.has(session)) return;
    this.#works(performance.now() - startedMs <= this.#options.waitMs);
  }

  /** Commits a session and the records that are to be stored with it. Never rejects. */
  async #write(session: GatewaySession): Promise<void> {
    const riders = this.#riders.get(session) ?? [];
    this.#riders.delete(session);
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
  async #commit(session: GatewaySession, more: readonly StoreRecord[]): Promise<void> {
    const { store } = this.#options;
    const { id, session: conversation } = session;
    for (;;) {
      const { kept: { fence } } = session;
      const { records: own, written: after, refs, ends } = await this.#recordsOf(session);
      const records = [...own, ...more];
      // Until this one is known to be done, the stored names may be its.
      const { named: _, ...before } = this.#written.get(conversation) ?? NOTHING;
      const attempts = [after, ...before.attempts ?? []].slice(0, MAX_WRITES);
      this.#written.set(conversation, { ...before, attempts });
      let held: number | undefined;
      try {
        held = await this.#inStore(session).commit(fence ?? 0, records);
      } catch (error) {
        if (error instanceof StoreError) throw error;
        const isThere = await store.getSession(id) !== undefined;
        if (isThere === (fence !== undefined)) throw error;
        // It has expired, and its texts with it.
        if (!isThere) this.#begin(session);
        // A commit that wasn't answered was done.
        else await this.#catchUp(session);
        continue;
      }
      if (held === undefined) await this.#catchUp(session);
      else {
        this.#written.set(conversation, after);
        return session.saved({ ...session.kept, fence: held, refs, ends });
      }
    }
  }

  /** Forgets what was stored of a session that is no longer stored. */
  #begin(session: GatewaySession): void {
    const { fence: _, ...kept } = session.kept;
    session.saved({ ...kept, refs: new Set() });
    const { summed } = this.#written.get(session.session) ?? NOTHING;
    this.#written.set(session.session, { ...NOTHING, ...(summed && { summed }) });
  }

  /** Adds the totals that other servers have stored of a session to those of this one. */
  async #catchUp(session: GatewaySession): Promise<void> {
    const { store } = this.#options;
    const { id, session: conversation, kept } = session;
    const stored = this.#inStore(session);
    const seen = await stored.look();
    const totals = seen && await stored.ifThere(() => store.readState(id, "totals"));
    if (!totals) return this.#begin(session);
    const { fence, holder, lastEvent } = seen;
    const { days, writes } = totals as KeptTotals;
    if (holder === "this" || holder === "other") throw new Error(`another server holds the session ${id}`);
    const known = this.#written.get(conversation) ?? NOTHING;
    const before = known.attempts?.find((attempt) => writes.includes(attempt.writes[0]!)) ?? known;
    const unsummed = Accounts.daysBeyond(conversation.state.days, before.summed ?? {});
    conversation.bookDays(Accounts.daysBeyond(days, before.days));
    const { lastCall } = before;
    // Who recorded the rest has added it to the sums.
    const summed = Accounts.daysBeyond(conversation.state.days, unsummed);
    this.#written.set(conversation, { days, summed, title: "", lastEvent, lastCall, writes });
    session.saved({ ...kept, fence });
  }

  /** Returns the calls that aren't stored yet. */
  #unwritten(conversation: GatewaySession["session"]): readonly CallReport[] {
    const { lastCall } = this.#written.get(conversation) ?? NOTHING;
    return conversation.calls.slice(lastCall ? conversation.calls.lastIndexOf(lastCall) + 1 : 0);
  }

  /** Returns the records of a commit, and the session as it is stored then. */
  async #recordsOf(session: GatewaySession): Promise<
    Pick<StateUpdate, "records"> & Pick<StoredState, "refs"> & {
      readonly written: Written;
      readonly ends: readonly string[];
    }
  > {
    const { store, sessions, isWhole } = this.#options;
    const { id: sessionId, session: conversation, kept } = session;
    const before = this.#written.get(conversation) ?? NOTHING;
    const calls = this.#unwritten(conversation);
    const totals = totalsOf(session);
    const writes = [crypto.randomUUID().slice(0, 8), ...before.writes].slice(0, MAX_WRITES);
    const isNew = kept.fence === undefined;
    const parent = isNew && isWhole && kept.parent !== undefined && await store.getSession(kept.parent)
      ? kept.parent
      : undefined;
    const refs = isNew && parent === undefined ? SessionRecords.NOTHING.refs : kept.refs;
    const known = sessions.held.find(sessionId);
    // If another server has continued it, that one's prompt is the newer one.
    const own = isWhole && (!known || known === session) ? this.#valueOf(session, before) : undefined;
    const { records: state, after } = this.#inStore(session).change({ ...before, totals: undefined, refs }, {
      ...{ group: session.group, agent: session.facts.agent ?? null },
      title: own ? conversation.state.title : before.title,
      totals: { ...totals, writes } satisfies KeptTotals,
      days: totals.days,
      ...(own && { value: own.value, texts: session.archive.texts() }),
      isFork: kept.parent !== undefined,
    });
    const records: StoreRecord[] = [
      ...isNew
        ? [
          {
            type: "session",
            ...keptRecord(session, { isWhole }),
            ...(parent !== undefined && { parent }),
          } as const,
        ]
        : [],
      ...state,
      ...own?.names ? [{ type: "names", sessionId, names: own.names } as const] : [],
      ...calls.length === 0 ? [] : [
        {
          type: "events",
          sessionId,
          after: before.lastEvent,
          // Rewrites and changes are described by quotes of messages.
          events: calls.map(({ number: _, ...call }) => ({
            type: "call",
            ...callToStore({
              ...call,
              ...(!isWhole && {
                rewrites: [],
                changed: call.changed && { ...call.changed, before: "", after: "" },
              }),
            }),
          })),
        } as const,
      ],
    ];
    const written: Written = {
      days: totals.days,
      summed: totals.days,
      totals: JSON.stringify(totals),
      title: after.title,
      whole: own && after.whole,
      named: own?.named,
      lastEvent: before.lastEvent + calls.length,
      lastCall: calls.at(-1) ?? before.lastCall,
      writes,
    };
    return { records, written, refs: after.refs, ends: own?.ends ?? kept.ends };
  }

  #inStore(session: GatewaySession): SessionRecords {
    const stored = this.#stored.get(session) ?? new SessionRecords(this.#options.store, session.id);
    this.#stored.set(session, stored);
    return stored;
  }

  /** Returns what a session continues from, and its names unless those that are stored find it too. */
  #valueOf(session: GatewaySession, { named: known }: Written) {
    const { sessions } = this.#options;
    const history = sessions.historyOf(session);
    const { others, settled, ends: newest } = namesOf(session, history);
    const isNamed = known && known.settled.length >= settled.length - MAX_UNNAMED_ITEMS &&
      isStartOf(known.settled, settled) && sameData(known.others, others);
    const ends = isNamed ? session.kept.ends : newest();
    const heads = history.items.slice(0, session.facts.heads);
    const instructions = sessions.instructionsOf(heads.map(({ exact }) => exact));
    return {
      value: keptValue(session, { history, instructions, ends }),
      ends,
      named: isNamed ? known : { settled, others },
      names: isNamed ? undefined : [...ends, ...others],
    };
  }

  #wait(session: GatewaySession): void {
    this.#waiting.add(session);
    const [first] = this.#waiting;
    if (first && this.#waiting.size > MAX_WAITING) this.#waiting.delete(first);
  }

  #works(isQuick: boolean): void {
    if (isQuick) {
      this.#isTold = false;
      this.#pausedUntilMs = -Infinity;
    }
    // One by one: each that is stored starts the next.
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      this.#save(next);
    }
    const { store, keepMs, keepBytes, now } = this.#options;
    if (performance.now() < this.#expireAtMs) return;
    this.#expireAtMs = performance.now() + HOUR_MS;
    const limits = { kind: "gateway", beforeMs: now() - keepMs(), maxBytes: keepBytes } as const;
    this.#expiring = store.expireSessions(limits).catch((error) => this.#fails(error));
  }

  #fails(error: unknown): void {
    this.#pausedUntilMs = performance.now() + PAUSE_MS;
    this.#options.failed();
    if (this.#isTold) return;
    this.#isTold = true;
    const reason = error instanceof Error ? error.message : String(error);
    const what = "requests go on without; after a restart a conversation may be seen as a new one";
    this.#options.onError(new Error(`Cannot keep conversations: ${reason}; ${what}.`, { cause: error }));
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

function isStartOf(start: readonly string[], keys: readonly string[]): boolean {
  return start.length <= keys.length && start.every((key, at) => key === keys[at]);
}

import type { NewPin } from "@tare/planner/internal";
import { LRUCache } from "lru-cache";
import {
  aboutOf,
  Accounts,
  type AddedSessions,
  type CallReport,
  type Days,
  FIRST_DAY,
  LAST_DAY,
  type LedgerReport,
  MAX_WARNINGS,
  type Overview,
  type ReportedWarnings,
  type SessionGroup,
} from "./report/calls.ts";
import { type PinReport, type PromptSnapshot, reportPins } from "./report/prompt_report.ts";
import { reportSpend, type SpendingReport, type SpendingSession, type SpendOptions } from "./report/spend.ts";
import type { PinChange, Session } from "./session.ts";
import type { ListedSession, SessionListing, SessionRecord, Store, StoreRecord } from "./store/port.ts";
import type { CacheKeepAlive } from "./cache_keep_alive.ts";

/** Options of sessions in memory. */
export interface HeldOptions<S> {
  /** Greatest total weight in memory. The least recently used sessions are evicted first. */
  readonly maxWeight: number;
  readonly weigh: (session: S) => number;
  /** Returns whether a session must not be evicted. Default: none is. */
  readonly isInUse?: (session: S) => boolean;
  readonly evicted?: (session: S) => void;
  /**
   * Whether an evicted session is found while it is referenced elsewhere, so that it isn't loaded twice. Default: no.
   */
  readonly findsEvicted?: boolean;
}

/** The sessions of a kind in memory, each loaded once. */
export class HeldSessions<S extends { readonly id: string }> {
  readonly #options: HeldOptions<S>;
  /** Each weighing needs its own object: the cache weighs no value twice. */
  readonly #used: LRUCache<string, { readonly session: S }>;
  readonly #inUse = new Map<string, S>();
  readonly #evicted = new Map<string, WeakRef<S>>();
  readonly #loading = new Map<string, Promise<S | undefined>>();
  readonly #collected = new FinalizationRegistry<string>((id) => {
    if (!this.#evicted.get(id)?.deref()) this.#evicted.delete(id);
  });

  constructor(options: HeldOptions<S>) {
    this.#options = options;
    this.#used = new LRUCache({
      maxSize: options.maxWeight,
      sizeCalculation: ({ session }) => options.weigh(session),
      dispose: ({ session }, _, reason) => {
        // A session that is too large to be cached is evicted by `use()`.
        if (reason === "evict") this.#evict(session);
      },
      noDisposeOnSet: true,
    });
  }

  get size(): number {
    return this.#used.size + this.#inUse.size;
  }

  find(id: string): S | undefined {
    return this.#used.peek(id)?.session ?? this.#inUse.get(id) ?? this.#evicted.get(id)?.deref();
  }

  get(id: string): S | undefined {
    return this.#used.get(id)?.session ?? this.find(id);
  }

  *values(): Iterable<S> {
    for (const { session } of this.#used.values()) yield session;
    yield* this.#inUse.values();
    for (const [id, evicted] of this.#evicted) {
      const session = evicted.deref();
      if (session && !this.#used.has(id) && !this.#inUse.has(id)) yield session;
    }
  }

  /** May evict others. */
  use(session: S): void {
    const { id } = session;
    this.#inUse.delete(id);
    this.#used.set(id, { session });
    if (!this.#used.has(id)) this.#evict(session);
    if (!this.#options.findsEvicted || this.#evicted.get(id)?.deref() === session) return;
    this.#evicted.set(id, new WeakRef(session));
    this.#collected.register(session, id);
  }

  delete(id: string): void {
    const session = this.find(id);
    this.#used.delete(id);
    this.#inUse.delete(id);
    this.#evicted.delete(id);
    if (session) this.#options.evicted?.(session);
  }

  isLoading(id: string): boolean {
    return this.#loading.has(id);
  }

  load(id: string, read: () => Promise<S | undefined>): Promise<S | undefined> {
    const loading = this.#loading.get(id) ?? read().finally(() => this.#loading.delete(id));
    this.#loading.set(id, loading);
    return loading;
  }

  #evict(session: S): void {
    if (this.#options.isInUse?.(session)) this.#inUse.set(session.id, session);
    else this.#options.evicted?.(session);
  }
}

/** A session in memory. */
export interface RegisteredSession {
  readonly id: string;
  /** Name of the key that created it. Absent: the owner's. */
  readonly by?: string | undefined;
  readonly session: Session;
}

/** A change by a user. */
export type SessionChange = { readonly pins: PinChange } | { readonly title: string };

/** Totals of sessions that the store's totals don't include. */
export interface UnsummedSessions extends AddedSessions {
  readonly group: SessionGroup;
  readonly row?: ListedSession;
}

/** The operations that differ between kinds of sessions. */
export interface SessionKind<
  S extends RegisteredSession = RegisteredSession,
  Summary = unknown,
  Details = unknown,
> {
  readonly kind: SessionRecord["kind"];
  readonly store?: Store | undefined;
  /** Sends cache keep-alive requests. Absent: disabled. */
  readonly keepAlive?: Pick<CacheKeepAlive, "keepFor"> | undefined;
  readonly warnings: ReportedWarnings;
  now(): number;
  find(id: string): S | undefined;
  open(id: string): Promise<S | undefined>;
  row(session: S): ListedSession;
  unsaved?(): readonly ListedSession[];
  /** Returns a stored row with newer data from memory. Default: the row. */
  known?(row: ListedSession): ListedSession;
  /** Returns the totals that aren't stored yet, optionally of one key. Default: none. */
  unsummed?(by?: string): Iterable<UnsummedSessions>;
  summary(row: ListedSession): Summary;
  details(session: S): Promise<Details>;
  spending(row: ListedSession): Pick<SpendingSession, "model" | "agent" | "days">;
  seen(session: S): Promise<PromptSnapshot>;
  /** Returns the model calls, the oldest first. @throws {StoreError} */
  calls(session: S): Promise<readonly CallReport[]>;
  /** Applies a change and commits it with these records, created only if the session is stored. @throws {StoreError} */
  change(session: S, change: SessionChange, records: () => readonly StoreRecord[]): Promise<void>;
  delete(session: S): Promise<void>;
}

/** Filter of a report. */
export interface ReportScope extends Pick<SessionListing, "kind" | "by"> {
  readonly signal?: AbortSignal;
}

/** Calls of a session. */
export interface SessionCalls {
  readonly id: string;
  readonly calls: readonly CallReport[];
}

const SPENDING_SESSIONS = 1_000;

/** All sessions, in memory or stored. */
export class SessionRegistry<Summary = unknown, Details = unknown> {
  readonly kinds: readonly SessionKind<RegisteredSession, Summary, Details>[];

  constructor(kinds: readonly SessionKind<RegisteredSession, Summary, Details>[]) {
    this.kinds = kinds;
  }

  /** @throws {StoreError} */
  async open(id: string): Promise<OpenSession<Summary, Details> | undefined> {
    const held = this.kinds.filter((kind) => kind.find(id));
    for (const kind of held.length > 0 ? held : this.kinds) {
      const session = await kind.open(id);
      if (session) return new OpenSession(kind, session);
    }
    return undefined;
  }

  /** Doesn't load the session. @throws {StoreError} */
  async find(id: string): Promise<Pick<SessionRecord, "kind" | "by"> | undefined> {
    for (const kind of this.kinds) {
      const session = kind.find(id);
      if (session) return { kind: kind.kind, by: session.by };
    }
    const record = await storeOf(this.kinds)?.getSession(id);
    return this.kinds.some(({ kind }) => kind === record?.kind) ? record : undefined;
  }

  /**
   * Returns a page of sessions, the newest first, unstored ones before all.
   *
   * @returns `undefined` if there is no session `after`.
   * @throws {StoreError}
   */
  async list(
    listing: SessionListing = {},
  ): Promise<{ readonly sessions: readonly Summary[]; readonly hasMore: boolean } | undefined> {
    const page = await this.#rows(listing);
    return page && {
      sessions: page.rows.map((row) => this.#kindOf(row).summary(row)),
      hasMore: page.hasMore,
    };
  }

  async *calls({ limit, by, signal }: ReportScope & { readonly limit: number }): AsyncIterable<SessionCalls> {
    for (const { kind } of this.kinds) {
      const page = await this.#rows({ kind, limit, by });
      for (const { id } of page?.rows ?? []) {
        signal?.throwIfAborted();
        const session = await this.open(id);
        if (session) yield { id, calls: await session.calls() };
      }
    }
  }

  /** Returns the savings of today and in total, and the newest warnings. @throws {StoreError} */
  async overview(scope: ReportScope = {}): Promise<Overview> {
    const kinds = this.#kindsOf(scope.kind);
    const accounts = await this.#accounts(scope);
    const all = kinds.flatMap(({ warnings }) => warnings.list);
    const { by } = scope;
    const theirs = new Set<string>();
    for (const id of new Set(all.map(({ session }) => session))) {
      if (by === undefined || (await this.find(id))?.by === by) theirs.add(id);
    }
    const warnings = all.filter(({ session }) => theirs.has(session))
      .sort((one, other) => one.at < other.at ? 1 : -1).slice(0, MAX_WARNINGS);
    return accounts.overview(kinds[0]?.now() ?? 0, warnings);
  }

  /** Compares the costs of planned sessions with those of the holdout. @throws {StoreError} */
  async ledger(scope: ReportScope = {}): Promise<LedgerReport> {
    return (await this.#accounts(scope)).report();
  }

  /** Returns the cost of sessions by day, model, session or agent. @throws {StoreError} */
  async spend(query: SpendOptions, { by, signal }: ReportScope = {}): Promise<SpendingReport> {
    const all: SpendingSession[] = [];
    for (const kind of this.kinds) {
      all.push(...await this.#spending(kind, { ...query, by }));
      signal?.throwIfAborted();
    }
    if (query.by !== "session") return reportSpend(all, query);
    const { all: total } = reportSpend(all, { ...query, by: "day" });
    const newest: SpendingSession[] = [];
    let isCut = false;
    for (const { kind } of this.kinds) {
      const page = await this.#rows({ kind, limit: SPENDING_SESSIONS, by });
      newest.push(...page?.rows.map((row) => this.#spendingOf(row)) ?? []);
      isCut ||= page?.hasMore ?? false;
      signal?.throwIfAborted();
    }
    const report = reportSpend(newest, query);
    return { ...report, all: total, hasMore: report.hasMore || isCut };
  }

  #kindsOf(wanted: SessionRecord["kind"] | undefined) {
    return this.kinds.filter(({ kind }) => wanted === undefined || kind === wanted);
  }

  #kindOf({ kind }: ListedSession) {
    return this.kinds.find((one) => one.kind === kind)!;
  }

  async #rows(
    { kind, limit = 100, after, ...which }: SessionListing,
  ): Promise<{ readonly rows: readonly ListedSession[]; readonly hasMore: boolean } | undefined> {
    const kinds = this.#kindsOf(kind);
    const { search = "", by } = which;
    const unsaved = kinds.flatMap((one) => one.unsaved?.() ?? [])
      .filter((row) => by === undefined || row.by === by);
    const at = unsaved.findIndex(({ id }) => id === after);
    const isStored = after !== undefined && at < 0;
    const store = storeOf(kinds);
    if (isStored) {
      const last = await store?.getSession(after);
      if (!kinds.some((one) => one.kind === last?.kind)) return undefined;
    }
    const text = search.toLowerCase();
    const first = isStored
      ? []
      : unsaved.slice(at + 1).filter((row) => titleOf(row).toLowerCase().includes(text));
    const stored = await store?.listSessions({
      ...{ ...which, limit: limit + 1 },
      ...(kinds.length === 1 && { kind: kinds[0]!.kind }),
      ...(isStored && { after }),
    }) ?? [];
    const rows = [...first, ...stored.map((row) => this.#kindOf(row).known?.(row) ?? row)];
    return { rows: rows.slice(0, limit), hasMore: limit < rows.length };
  }

  async #accounts({ kind, by }: ReportScope): Promise<Accounts> {
    const accounts = new Accounts();
    for (const one of this.#kindsOf(kind)) {
      if (one.store) await accounts.read(one.store, { kind: one.kind, by, nowMs: one.now() });
      for (const { group, ...more } of one.unsummed?.(by) ?? []) accounts.add(group, more);
    }
    return accounts;
  }

  async #spending(
    one: SessionKind<RegisteredSession, Summary, Details>,
    { from = FIRST_DAY, to = LAST_DAY, by }: Pick<SpendOptions, "from" | "to"> & Pick<ReportScope, "by">,
  ): Promise<readonly SpendingSession[]> {
    const { kind, store } = one;
    const summed = await store?.readTotals({ kind, from, to, by }) ?? [];
    const stored = summed.map(({ day, about, totals }): SpendingSession => {
      const { model = "", agent = null } = aboutOf({ about });
      return { id: "", title: "", kind, model, agent, days: { [`${day} ${model}`.trimEnd()]: totals } };
    });
    const others = Array.from(
      one.unsummed?.(by) ?? [],
      ({ row, days }) => row ? [{ ...this.#spendingOf(row), days }] : [],
    );
    return [...stored, ...others.flat()];
  }

  #spendingOf(row: ListedSession): SpendingSession {
    const { id, kind } = row;
    return { id, kind, title: titleOf(row), ...this.#kindOf(row).spending(row) };
  }
}

/** An opened session. */
export class OpenSession<Summary = unknown, Details = unknown> {
  readonly #kind: SessionKind<RegisteredSession, Summary, Details>;
  readonly #session: RegisteredSession;

  constructor(kind: SessionKind<RegisteredSession, Summary, Details>, session: RegisteredSession) {
    this.#kind = kind;
    this.#session = session;
  }

  get id(): string {
    return this.#session.id;
  }

  get kind(): SessionRecord["kind"] {
    return this.#kind.kind;
  }

  get days(): Days {
    return this.#session.session.state.days;
  }

  /** Reason, as text after "Cannot pin". */
  get noPins(): string | undefined {
    return this.#session.session.noPins;
  }

  details(): Promise<Details> {
    return this.#kind.details(this.#session);
  }

  calls(): Promise<readonly CallReport[]> {
    return this.#kind.calls(this.#session);
  }

  seen(): Promise<PromptSnapshot> {
    return this.#kind.seen(this.#session);
  }

  /**
   * Pins a message, and commits the records of `recordsOf` with the pin.
   *
   * @throws {RangeError} if it can't be pinned so.
   * @throws {StoreError}
   */
  async setPin(
    wanted: NewPin,
    recordsOf: (pin: PinReport) => readonly StoreRecord[] = () => [],
  ): Promise<PinReport> {
    const seen = await this.seen();
    const pin = this.#session.session.makePin(seen.history.messages, wanted);
    const report = reportPins({ ...seen, pins: [pin] })[0]!;
    await this.#kind.change(this.#session, { pins: { set: pin } }, () => recordsOf(report));
    return report;
  }

  /** Returns whether there was one. @throws {StoreError} */
  async removePin(place: number, recordsOf: () => readonly StoreRecord[] = () => []): Promise<boolean> {
    if (!this.#session.session.state.pins.some((pin) => pin.place === place)) return false;
    await this.#kind.change(this.#session, { pins: { remove: place } }, recordsOf);
    return true;
  }

  /** Commits the records of `recordsOf` with it. @throws {StoreError} */
  async rename(
    title: string,
    recordsOf: (renamed: Summary) => readonly StoreRecord[] = () => [],
  ): Promise<Summary> {
    const summary = this.#kind.summary({ ...this.#kind.row(this.#session), title });
    await this.#kind.change(this.#session, { title }, () => recordsOf(summary));
    return summary;
  }

  /** Keeps its newest prompt cached for at most `ms`; `undefined` if keep-alive is disabled. */
  keepFor(ms: number): ReturnType<CacheKeepAlive["keepFor"]> | undefined {
    return this.#kind.keepAlive?.keepFor(this.#session.id, ms);
  }

  async archived(ref: string): Promise<string | undefined> {
    return await this.#session.session.archive.get(ref);
  }

  delete(): Promise<void> {
    return this.#kind.delete(this.#session);
  }
}

function storeOf(kinds: readonly Pick<SessionKind, "store">[]): Store | undefined {
  return kinds.find(({ store }) => store)?.store;
}

function titleOf({ title = "" }: ListedSession): string {
  return title as string;
}

/**
 * Stores of plain maps: a reference model for random tests of other stores, and one that several openings
 * share, whose processes can be paused and killed. Contains no tests.
 *
 * @module
 */
import { type Archive, archiveRef } from "@tare/prune";
import {
  documentJson,
  folded,
  jsonText,
  plainRecord,
  promiseOf,
  searchedJson,
} from "../packages/session/store/json_text.ts";
import type {
  Hold,
  HolderRequest,
  ListedSession,
  SessionRecord,
  SessionSnapshot,
  SharedStore,
  Store,
  StoredDelivery,
  StoredDocument,
  StoredEvent,
  StoredTotalsRow,
  StoreRecord,
} from "../packages/session/store/port.ts";
import {
  changedError,
  conflictError,
  fencedError,
  noSessionError,
  notClaimedError,
  notRequestedError,
  otherTextError,
  sessionExistsError,
} from "../packages/session/store/store_error.ts";

interface OpenOptions {
  /**
   * Returns milliseconds since the epoch, for the expiry of idempotency keys. Default: the system's clock.
   */
  readonly now?: () => number;
}

const DAY_MS = 24 * 60 * 60 * 1000;

class Held {
  #holder: object | undefined;
  #fence = 0;

  get holder(): object | undefined {
    return this.#holder;
  }

  /** Number of the newest hold; 0 before the first. */
  get fence(): number {
    return this.#fence;
  }

  /** Takes the hold and returns its number. */
  take(holder: object): number {
    this.#holder = holder;
    return ++this.#fence;
  }

  release(): void {
    this.#holder = undefined;
  }
}

/** Access of one opening in relation to the others. */
interface Access {
  readonly owner: () => object;
  /** Reports whether an owner was this opening, now or before its lease was lost. */
  readonly wasOwner: (owner: object) => boolean;
  readonly isLive: (owner: object) => boolean;
  readonly enter: <T>(act: () => T) => Promise<T>;
  /** @throws {StoreError} `fenced` if it doesn't hold the session. */
  readonly assertHeld: (id: string, held: Held) => void;
  /** Accepts an answer, and returns its undo. @throws if no request waits for it. */
  readonly answer: (requestId: string, json: string) => () => void;
  /** Reports changed or removed sessions, and the written records. */
  readonly changed: (ids: Iterable<string>, records?: readonly StoreRecord[]) => void;
}

/** Session with values as JSON, independent of later changes by callers. */
interface MemorySession {
  readonly held: Held;
  readonly record: string;
  readonly kind: SessionRecord["kind"];
  readonly by: string | undefined;
  parent: MemorySession | undefined;
  readonly events: { readonly type: string; readonly json: string }[];
  readonly state: Map<string, string>;
  readonly texts: Map<string, string>;
  /** Searchable names, and the number of the record that set them. */
  named: { readonly names: readonly string[]; readonly number: number };
  touchedAtMs: number;
}

interface MemoryKey {
  readonly bodyHash: string;
  readonly isAtomic: boolean;
  readonly owner: object;
  readonly touchedAtMs: number;
  readonly done?: { readonly response: string; readonly sessionId: string | undefined };
}

interface MemoryDocument {
  readonly sessionId: string | undefined;
  readonly json: string;
}

interface MemoryDelivery {
  /** JSON of the fields that don't change with time. */
  readonly json: string;
  readonly receiver: string;
  readonly sessionId: string | undefined;
  readonly createdAtMs: number;
  readonly dueAtMs: number | undefined;
  readonly claims: number;
}

interface Tables {
  readonly sessions: Map<string, MemorySession>;
  readonly documents: Map<string, MemoryDocument>;
  readonly keys: Map<string, MemoryKey>;
  readonly deliveries: Map<string, MemoryDelivery>;
  readonly totals: Map<string, StoredTotalsRow>;
  nameOrder: number;
}

interface OpenTables {
  readonly store: Store;
  /** Writes all or nothing. May only be called within {@linkcode Access.enter}. */
  readonly write: (records: readonly StoreRecord[]) => void;
}

/** Creates a place in memory. Returns a function that opens its store as another process would. */
export function memoryPlace(): (options?: OpenOptions) => Store {
  const tables = noTables();
  return (options = {}) => openTables(tables, options, alone()).store;
}

function noTables(): Tables {
  return {
    sessions: new Map(),
    documents: new Map(),
    keys: new Map(),
    deliveries: new Map(),
    totals: new Map(),
    nameOrder: 0,
  };
}

function alone(): Access {
  const own = {};
  return {
    owner: () => own,
    wasOwner: (owner) => owner === own,
    isLive: (owner) => owner === own,
    enter: promiseOf,
    assertHeld() {},
    answer(requestId) {
      throw notRequestedError(requestId);
    },
    changed() {},
  };
}

function openTables(
  tables: Tables,
  { now = Date.now }: OpenOptions,
  { owner, wasOwner, isLive, enter, assertHeld, answer, changed }: Access,
): OpenTables {
  const { sessions, documents, keys, deliveries } = tables;
  let isOpen = true;
  const settle = <T>(act: () => T): Promise<T> =>
    enter(() => {
      if (!isOpen) throw new Error("Cannot use the store: it is closed");
      return act();
    });
  const named = (id: string): MemorySession => {
    const session = sessions.get(id);
    if (!session) throw noSessionError(id);
    return session;
  };

  /** Returns a session to change. One created in the same commit needs no hold. */
  const own = (id: string, made?: ReadonlySet<string>): MemorySession => {
    const session = named(id);
    if (!made?.has(id)) assertHeld(id, session.held);
    return session;
  };

  /** Updates a changed session's last use. Returns the undo. */
  const touch = (id: string, made: ReadonlySet<string>): () => void => {
    const session = own(id, made);
    const { touchedAtMs } = session;
    session.touchedAtMs = now();
    return () => void (session.touchedAtMs = touchedAtMs);
  };

  const addTotals = (added: StoredTotalsRow): () => void => {
    const { kind, by, day, about } = added;
    const name = jsonText([kind, by, day, about]);
    const sum = { ...tables.totals.get(name)?.totals };
    for (const [name, more] of Object.entries(added.totals)) sum[name] = (sum[name] ?? 0) + more;
    return set(tables.totals, name, { ...added, totals: sum });
  };

  const writeOne = (record: StoreRecord, made: Set<string>): () => void => {
    switch (record.type) {
      case "session": {
        const { id, kind, by } = record;
        const parent = record.parent === undefined ? undefined : named(record.parent);
        const archived = parent ?? (record.archiveOf === undefined ? undefined : named(record.archiveOf));
        const texts = new Map(archived?.texts);
        if (sessions.has(id)) throw sessionExistsError(id);
        const json = jsonText(plainRecord(record));
        made.add(id);
        return set(sessions, id, {
          held: new Held(),
          record: json,
          kind,
          by,
          parent,
          events: [],
          state: new Map(),
          texts,
          named: { names: [], number: 0 },
          touchedAtMs: now(),
        });
      }
      case "events": {
        const { events } = own(record.sessionId, made);
        const last = events.length;
        if (last !== record.after) throw conflictError(record.sessionId, { after: record.after, last });
        const added = record.events.map((event) => ({ type: event.type, json: jsonText(event) }));
        for (const event of added) events.push(event);
        return () => void (events.length = last);
      }
      case "state":
        return set(own(record.sessionId, made).state, record.name, jsonText(record.value));
      case "names": {
        const session = own(record.sessionId, made);
        const { named } = session;
        session.named = { names: record.names, number: ++tables.nameOrder };
        return () => void (session.named = named);
      }
      case "totals": {
        const { kind, by } = own(record.sessionId, made);
        const undo = record.added.map((added) =>
          addTotals({ kind, ...(by !== undefined && { by }), ...added })
        );
        return () => undo.reverse().forEach((step) => step());
      }
      case "archive": {
        const { texts } = own(record.sessionId, made);
        if ((texts.get(record.ref) ?? record.content) !== record.content) throw otherTextError(record.ref);
        return set(texts, record.ref, record.content);
      }
      case "document": {
        const { kind, id, sessionId, replaces } = record;
        if (sessionId !== undefined) named(sessionId);
        const json = documentJson(record);
        const name = jsonText([kind, id]);
        const stored = documents.get(name)?.json;
        const wanted = replaces ? documentJson(replaces) : undefined;
        if (replaces !== undefined && stored !== wanted && stored !== json) throw changedError(kind, id);
        return set(documents, name, { sessionId, json });
      }
      case "delete_document": {
        const name = jsonText([record.kind, record.id]);
        const before = documents.get(name);
        documents.delete(name);
        return () => void (before && documents.set(name, before));
      }
      case "delivery": {
        const { id, receiver, sessionId, value, dueInMs } = record;
        if (sessionId !== undefined) named(sessionId);
        const { createdAtMs = now(), claims = -1 } = deliveries.get(id) ?? {};
        return set(deliveries, id, {
          ...{ receiver, sessionId, createdAtMs, claims: claims + 1, dueAtMs: now() + dueInMs },
          json: jsonText({ id, receiver, sessionId, value }),
        });
      }
      case "delivery_attempt": {
        const { id, claim, value, dueInMs } = record;
        const json = jsonText(value);
        const stored = deliveries.get(id);
        if (stored?.claims !== claim) return () => {};
        const whole = { ...JSON.parse(stored.json), value: JSON.parse(json) };
        const dueAtMs = dueInMs === undefined ? undefined : now() + dueInMs;
        return set(deliveries, id, { ...stored, json: jsonText(whole), dueAtMs });
      }
      case "delete_deliveries": {
        const before = [...deliveries];
        for (const [id, { receiver }] of before) if (receiver === record.receiver) deliveries.delete(id);
        return () => {
          deliveries.clear();
          for (const [id, stored] of before) deliveries.set(id, stored);
        };
      }
      case "answer":
        return answer(record.requestId, jsonText(record.answer));
      case "response": {
        const { sessionId } = record;
        const response = jsonText(record.response);
        if (sessionId !== undefined) named(sessionId);
        const stored = claimed(record);
        if (!stored) throw notClaimedError(record);
        return set(keys, keyName(record), { ...stored, touchedAtMs: now(), done: { response, sessionId } });
      }
    }
  };
  const write = (records: readonly StoreRecord[]): void => {
    const undo: (() => void)[] = [];
    const made = new Set<string>();
    try {
      for (const record of records) {
        undo.push(writeOne(record, made));
        if (isHeldFor(record)) undo.push(touch(record.sessionId, made));
      }
    } catch (error) {
      for (const step of undo.reverse()) step();
      throw error;
    }
    changed(records.flatMap((record) => "sessionId" in record ? record.sessionId ?? [] : []), records);
  };
  const commit: Store["commit"] = (records) => settle(() => write(records));

  /** Returns the key, if an existing opening has claimed it and it has no response yet. */
  const claimed = (key: Parameters<Store["releaseKey"]>[0]): MemoryKey | undefined => {
    const stored = keys.get(keyName(key));
    return stored && !stored.done && isLive(stored.owner) ? stored : undefined;
  };
  const claim = (request: Parameters<Store["claimKey"]>[0]): Awaited<ReturnType<Store["claimKey"]>> => {
    const touchedAtMs = now();
    for (const [name, stored] of keys) {
      const isRunning = isLive(stored.owner) && !stored.done;
      if (stored.touchedAtMs <= touchedAtMs - DAY_MS && !isRunning) keys.delete(name);
    }
    const { bodyHash, isAtomic = false } = request;
    const stored = keys.get(keyName(request));
    if (stored && stored.bodyHash !== bodyHash) return { state: "mismatch" };
    if (stored?.done) return { state: "done", response: JSON.parse(stored.done.response) };
    if (stored && isLive(stored.owner)) return { state: "running" };
    keys.set(keyName(request), { bodyHash, isAtomic, owner: owner(), touchedAtMs });
    return { state: stored && !stored.isAtomic ? "interrupted" : "new" };
  };

  const claimDeliveries = (
    { receivers, limit, forMs }: Parameters<Store["claimDeliveries"]>[0],
  ): Awaited<ReturnType<Store["claimDeliveries"]>> => {
    const nowMs = now();
    const due = [...deliveries.entries()].flatMap(([id, stored], number) =>
      stored.dueAtMs !== undefined && stored.dueAtMs <= nowMs
        ? { id, stored, number, dueAtMs: stored.dueAtMs }
        : []
    ).sort((one, other) => one.dueAtMs - other.dueAtMs || one.number - other.number);
    const chosen = receivers.flatMap(({ receiver, limit: most }) =>
      due.filter(({ stored }) => stored.receiver === receiver).slice(0, most)
    );
    const claimed = due.filter((one) => chosen.includes(one)).slice(0, limit)
      .sort((one, other) => one.number - other.number).map(({ id, stored }) => {
        const taken = { ...stored, dueAtMs: nowMs + forMs, claims: stored.claims + 1 };
        deliveries.set(id, taken);
        return storedDelivery(taken);
      });
    const named = new Set(receivers.map(({ receiver }) => receiver));
    const next = [...deliveries.values()].reduce(
      (next, { receiver, dueAtMs = Infinity }) => named.has(receiver) ? Math.min(next, dueAtMs) : next,
      Infinity,
    );
    return { claimed, ...(next < Infinity && { nextInMs: Math.max(0, next - nowMs) }) };
  };

  const remove = (id: string): void => {
    for (const [name, { sessionId }] of documents) if (sessionId === id) documents.delete(name);
    for (const [name, { done }] of keys) if (done?.sessionId === id) keys.delete(name);
    for (const [name, { sessionId }] of deliveries) if (sessionId === id) deliveries.delete(name);
    const expired = sessions.get(id);
    sessions.delete(id);
    for (const session of sessions.values()) if (session.parent === expired) session.parent = undefined;
    changed([id]);
  };
  const byIdleness = (wanted: SessionRecord["kind"]): [string, MemorySession][] =>
    [...sessions].filter(([, { kind }]) => kind === wanted)
      .sort(([, one], [, other]) => one.touchedAtMs - other.touchedAtMs);

  const store: Store = {
    now,
    commit,
    getSession: (id) => settle(() => parsed(sessions.get(id)?.record) as SessionRecord | undefined),
    listSessions: ({ kind: wantedKind, limit = 100, after, search = "", by, forks = true } = {}) =>
      settle(() => {
        const newest = [...sessions.values()].reverse();
        const from = after === undefined ? 0 : newest.indexOf(named(after)) + 1;
        const wanted = searchedJson(search);
        const found = newest.slice(from).filter(({ kind, state, parent, by: maker }) =>
          (by === undefined || maker === by) &&
          (wantedKind === undefined || kind === wantedKind) &&
          (wanted === "" || folded(state.get("title") ?? "").includes(wanted)) &&
          (forks || parent === undefined)
        );
        return found.slice(0, limit).map(({ record, events, state, held: { holder } }): ListedSession => ({
          ...JSON.parse(record) as SessionRecord,
          lastEvent: events.length,
          ...(state.has("totals") && { totals: parsed(state.get("totals")) }),
          ...(state.has("title") && { title: parsed(state.get("title")) }),
          ...(holder && isLive(holder) && { isHeld: true }),
        }));
      }),
    readTotals: ({ kind, by, from, to }) =>
      settle(() =>
        [...tables.totals.values()].filter((one) =>
          one.day >= from && one.day <= to && (kind === undefined || one.kind === kind) &&
          (by === undefined || one.by === by)
        )
      ),
    countSessions: (kind) =>
      settle(() => [...sessions.values()].filter((one) => kind === undefined || one.kind === kind).length),
    idleSessions: ({ kind, beforeMs, limit }) =>
      settle(() =>
        byIdleness(kind).filter(([, { touchedAtMs }]) => touchedAtMs <= beforeMs)
          .slice(0, limit).map(([id]) => id)
      ),
    findByName: (names, limit = 16) =>
      settle(() =>
        [...sessions].map(([id, { held: { fence }, named }]) => ({
          ...{ id, fence, number: named.number },
          place: names.findIndex((name) => named.names.includes(name)),
        })).filter(({ place }) => place >= 0)
          .sort((a, b) => a.place - b.place || b.number - a.number)
          .slice(0, limit).map(({ id, fence }) => ({ id, fence }))
      ),
    deleteSession: (id) =>
      settle(() => {
        if (!sessions.has(id)) return false;
        own(id);
        remove(id);
        return true;
      }),
    expireSessions: ({ kind, beforeMs, maxBytes }) =>
      settle(() => {
        let bytes = 0;
        let expired = 0;
        for (const [id, session] of byIdleness(kind).reverse()) {
          bytes += bytesOf(session);
          const isRetained = session.touchedAtMs >= beforeMs && bytes <= maxBytes;
          if (isRetained || (session.held.holder && isLive(session.held.holder))) continue;
          remove(id);
          expired++;
        }
        return expired;
      }),
    readEvents: (id, { after = 0, types, limit = Infinity } = {}) =>
      settle(() => {
        const read: StoredEvent[] = [];
        const { events } = named(id);
        for (let index = after; index < events.length && read.length < limit; index++) {
          const { type, json } = events[index]!;
          if (types && !types.includes(type)) continue;
          read.push({ number: index + 1, event: JSON.parse(json) });
        }
        return read;
      }),
    lastEvent: (id) => settle(() => named(id).events.length),
    readState: (id, name) => settle(() => parsed(named(id).state.get(name))),
    sessionsWith: (name) =>
      settle(() =>
        [...sessions].flatMap(([id, { state, held: { holder } }]) => {
          const value = parsed(state.get(name)) ?? null;
          return value === null ? [] : [{ id, value, ...(holder && isLive(holder) && { isHeld: true }) }];
        })
      ),
    getDocument: (kind, id) =>
      settle(() => parsed(documents.get(jsonText([kind, id]))?.json) as StoredDocument | undefined),
    listDocuments: (kind) =>
      settle(() =>
        [...documents.values()].map(({ json }) => JSON.parse(json) as StoredDocument)
          .filter((one) => one.kind === kind).sort((a, b) => a.id < b.id ? -1 : 1)
      ),
    archive: (sessionId): Archive => ({
      async put(content) {
        const ref = await archiveRef(content);
        await commit([{ type: "archive", sessionId, ref, content }]);
        return ref;
      },
      get: (ref) => settle(() => sessions.get(sessionId)?.texts.get(ref)),
    }),
    readTexts: (id, refs) =>
      settle(() => {
        const texts = sessions.get(id)?.texts;
        return new Map(refs.flatMap((ref): [string, string][] => {
          const content = texts?.get(ref);
          return content === undefined ? [] : [[ref, content]];
        }));
      }),
    claimKey: (request) => settle(() => claim(request)),
    releaseKey: (key) =>
      settle(() => {
        const stored = keys.get(keyName(key));
        if (stored && !stored.done && wasOwner(stored.owner)) keys.delete(keyName(key));
      }),
    claimDeliveries: (wanted) => settle(() => claimDeliveries(wanted)),
    listDeliveries: (receiver, { limit = 100, before } = {}) =>
      settle(() => {
        const found = [...deliveries].filter(([, stored]) => stored.receiver === receiver).reverse();
        const from = before === undefined ? 0 : found.findIndex(([id]) => id === before) + 1;
        if (before !== undefined && from === 0) return [];
        return found.slice(from, from + limit).map(([, stored]) => storedDelivery(stored));
      }),
    getDelivery: (id) =>
      settle(() => {
        const stored = deliveries.get(id);
        return stored && storedDelivery(stored);
      }),
    expireDeliveries: ({ receiver, olderThanMs, keep }) =>
      settle(() => {
        const found = [...deliveries].filter(([, stored]) => stored.receiver === receiver).reverse();
        for (const [place, [id, { createdAtMs }]] of found.entries()) {
          if (place >= keep || createdAtMs < now() - olderThanMs) deliveries.delete(id);
        }
      }),
    close: () => enter(() => void (isOpen = false)),
  };
  return { store, write };
}

/** Types of records that change an existing session, which requires its hold. */
const HELD = ["events", "state", "totals", "names", "archive"] as const;

function isHeldFor(record: StoreRecord): record is Extract<StoreRecord, { type: (typeof HELD)[number] }> {
  return (HELD as readonly string[]).includes(record.type);
}

function storedDelivery({ json, createdAtMs, dueAtMs, claims }: MemoryDelivery): StoredDelivery {
  return {
    ...JSON.parse(json) as Pick<StoredDelivery, "id" | "receiver" | "sessionId" | "value">,
    ...{ createdAtMs, claims },
    ...(dueAtMs !== undefined && { dueAtMs }),
  };
}

function bytesOf({ events, state, texts }: MemorySession): number {
  const all = [...events.map(({ json }) => json), ...state.values(), ...texts.values()];
  return all.reduce((sum, { length }) => sum + length, 0);
}

function set<K, V>(map: Map<K, V>, key: K, value: V): () => void {
  const before = map.get(key);
  map.set(key, value);
  return () => void (before === undefined ? map.delete(key) : map.set(key, before));
}

function parsed(json: string | undefined): unknown {
  return json === undefined ? undefined : JSON.parse(json);
}

function keyName({ scope, key }: Parameters<Store["releaseKey"]>[0]): string {
  return JSON.stringify([scope, key]);
}

/** Longest JSON of events that are reported with their content. */
const MAX_REPORTED_CHARS = 2_000;

/** Returns the events that a commit adds to a session, as reported to watchers. */
function newEvents(records: readonly StoreRecord[], id: string): readonly StoredEvent[] {
  const added = records.flatMap((record) =>
    record.type === "events" && record.sessionId === id ? record : []
  );
  const json = JSON.stringify(
    added.flatMap(({ after, events }) =>
      events.map((event, index) => ({ number: after + index + 1, event }))
    ),
  );
  return json.length > MAX_REPORTED_CHARS ? [] : JSON.parse(json);
}

/** Identity of an opening as long as its lease is renewed in time. */
interface Owner {
  expiresAtMs: number;
  /** Whether another opening has taken something from it. */
  isDead: boolean;
}

interface Opening {
  owner: Owner;
  /** All identities: each lost lease creates another one. */
  readonly owners: WeakSet<object>;
  listener?: Parameters<SharedStore["listen"]>[0];
  readonly holds: Map<string, { readonly hold: Hold; readonly controller: AbortController; isHeld: boolean }>;
  readonly watchers: Map<string, Set<(seen?: SessionSnapshot) => void>>;
  /** Resolves when the process continues. Absent: it runs. */
  paused?: PromiseWithResolvers<void> | undefined;
  isKilled: boolean;
  lostLeases: number;
  /** Number of sessions taken over from lost openings. */
  takenOver: number;
}

interface HeldRequest {
  readonly request: HolderRequest;
  readonly owner: object;
  readonly resolve: (answer: { readonly answer: unknown } | undefined) => void;
  answer?: string;
}

/** Creates an empty store for several openings. A lost one holds its sessions for `leaseMs`. */
export function sharedMemory({ leaseMs = 10_000 }: { readonly leaseMs?: number } = {}): {
  readonly open: (options?: OpenOptions) => {
    readonly store: Store & { readonly shared: SharedStore };
    /** Pauses the process: its operations wait, and nothing is reported to it. */
    readonly pause: () => void;
    /** Resumes the process. Its waiting operations are done now, as far as allowed. */
    readonly wake: () => void;
    /** Ends the process as `SIGKILL` does. Its operations never complete. */
    readonly kill: () => void;
  };
  /** Advances the time. Then the leases of running openings are renewed. */
  readonly pass: (ms: number) => void;
} {
  const tables = noTables();
  const openings = new Set<Opening>();
  const requests = new Map<string, HeldRequest>();
  let nowMs = 0;

  const newOwner = (): Owner => ({ expiresAtMs: nowMs + leaseMs, isDead: false });
  const isLive = (owner: object) => {
    const { isDead, expiresAtMs } = owner as Owner;
    return !isDead && nowMs < expiresAtMs;
  };
  const named = (id: string): { readonly held: Held; readonly events: readonly unknown[] } => {
    const session = tables.sessions.get(id);
    if (!session) throw noSessionError(id);
    return session;
  };
  const running = async ({ paused, isKilled }: Opening): Promise<void> => {
    await (isKilled ? new Promise<void>(() => {}) : paused?.promise);
  };
  const notifyOpening = (opening: Opening, call: () => void) => {
    running(opening).then(() => openings.has(opening) && call());
  };
  /** Settles requests that are answered, or whose owner no longer holds the session. */
  const settle = () => {
    for (const [id, { request, owner, answer, resolve }] of requests) {
      const isOpen = tables.sessions.get(request.sessionId)?.held.holder === owner && isLive(owner);
      if (answer === undefined && isOpen) continue;
      requests.delete(id);
      resolve(answer === undefined ? undefined : { answer: JSON.parse(answer) });
    }
  };
  const snapshotOf = ({ owner }: Opening, id: string): SessionSnapshot => {
    const { held: { fence, holder }, events: { length: lastEvent } } = named(id);
    const heldBy = holder === owner ? "this" : holder && isLive(holder) ? "other" : "expired";
    return { fence, holder: holder ? heldBy : "none", lastEvent };
  };
  /** Reports a session's state to a watcher, with the last writes. */
  const reportState = (
    opening: Opening,
    id: string,
    { watcher, events = [] }: {
      readonly watcher: (seen?: SessionSnapshot) => void;
      readonly events?: readonly StoredEvent[];
    },
  ) => {
    const seen = tables.sessions.has(id)
      ? { ...snapshotOf(opening, id), ...(events.length > 0 && { events }) }
      : undefined;
    notifyOpening(opening, () => opening.watchers.get(id)?.has(watcher) && watcher(seen));
  };
  const changed = (ids: Iterable<string>, records: readonly StoreRecord[] = []) => {
    settle();
    for (const id of new Set(ids)) {
      const watching = [...openings].filter(({ watchers }) => watchers.has(id));
      if (watching.length === 0) continue;
      const events = newEvents(records, id);
      for (const opening of watching) {
        for (const watcher of opening.watchers.get(id) ?? []) reportState(opening, id, { watcher, events });
      }
    }
  };
  /** Renews an opening's lease, or detects its loss. */
  const renewLease = (opening: Opening) => {
    if (!opening.owner.isDead) {
      opening.owner.expiresAtMs = nowMs + leaseMs;
      return;
    }
    opening.owner = newOwner();
    opening.owners.add(opening.owner);
    opening.lostLeases++;
    const lost = [...opening.holds.values()];
    opening.holds.clear();
    for (const { controller } of lost) controller.abort();
  };
  const notifyExpired = (expired: Opening) => {
    for (const opening of openings) {
      if (opening !== expired) {
        notifyOpening(opening, () => opening.listener?.onExpired());
      }
    }
  };

  const open = (
    options: OpenOptions = {},
  ): ReturnType<ReturnType<typeof sharedMemory>["open"]> => {
    const owner = newOwner();
    const opening: Opening = {
      owner,
      owners: new WeakSet([owner]),
      holds: new Map(),
      watchers: new Map(),
      isKilled: false,
      lostLeases: 0,
      takenOver: 0,
    };
    openings.add(opening);
    const enter = async <T>(act: () => T): Promise<T> => {
      await running(opening);
      if (openings.has(opening)) renewLease(opening);
      const result = await promiseOf(act);
      await running(opening);
      return result;
    };
    /** Session that is held for the current commit. */
    let brief: string | undefined;
    const { store, write } = openTables(tables, options, {
      owner: () => opening.owner,
      wasOwner: (owner) => opening.owners.has(owner),
      isLive,
      enter,
      assertHeld(id, { holder }) {
        if (holder !== opening.owner && id !== brief) throw fencedError(id);
      },
      answer(requestId, json) {
        const request = requests.get(requestId);
        if (!request || request.answer !== undefined) throw notRequestedError(requestId);
        request.answer = json;
        return () => delete request.answer;
      },
      changed,
    });
    const hold = (id: string): Hold | undefined => {
      const { held } = named(id);
      const { owner, holds } = opening;
      if (held.holder === owner) return holds.get(id)?.hold;
      if (held.holder && isLive(held.holder)) return undefined;
      if (held.holder) {
        (held.holder as Owner).isDead = true;
        opening.takenOver++;
      }
      const controller = new AbortController();
      const entry = {
        hold: {
          fence: held.take(owner),
          signal: controller.signal,
          isSure: () => entry.isHeld && !controller.signal.aborted && isLive(owner),
        },
        controller,
        isHeld: true,
      };
      holds.set(id, entry);
      changed([id]);
      return entry.hold;
    };
    const release = (id: string) => {
      const session = tables.sessions.get(id);
      const stored = opening.holds.get(id);
      if (stored) stored.isHeld = false;
      opening.holds.delete(id);
      if (session?.held.holder !== opening.owner) return;
      session.held.release();
      changed([id]);
    };
    const shared: SharedStore = {
      hold: (id) => enter(() => hold(id)),
      holdAndCommit: ({ sessionId, fence, records }) =>
        enter(() => {
          if (!openings.has(opening)) throw new Error("Cannot use the store: it is closed");
          const makes = records.some((record) => record.type === "session" && record.id === sessionId);
          const before = makes ? undefined : named(sessionId).held;
          if ((before?.fence ?? 0) !== fence || (before?.holder && isLive(before.holder))) return undefined;
          brief = sessionId;
          try {
            write(records);
          } finally {
            brief = undefined;
          }
          const { held } = named(sessionId);
          if (held.holder) (held.holder as Owner).isDead = true;
          const number = held.take(opening.owner);
          held.release();
          changed([sessionId]);
          return number;
        }),
      release: (id) => enter(() => release(id)),
      inspect: (id) => enter(() => snapshotOf(opening, id)),
      abandonedSessions: () =>
        enter(() =>
          [...tables.sessions].flatMap(([id, { held: { holder } }]) => holder && !isLive(holder) ? [id] : [])
        ),
      watch(id, watcher) {
        const watchers = opening.watchers.get(id) ?? new Set();
        opening.watchers.set(id, watchers.add(watcher));
        reportState(opening, id, { watcher });
        return () => {
          watchers.delete(watcher);
          if (watchers.size === 0) opening.watchers.delete(id);
        };
      },
      async request(sessionId, body) {
        const text = JSON.stringify(body);
        const answer = await enter(() => {
          const { holder } = named(sessionId).held;
          const holding = [...openings].find(({ owner }) => owner === holder);
          if (!holding || !isLive(holding.owner)) return { answer: undefined };
          const request = { id: crypto.randomUUID(), sessionId, body: JSON.parse(text) };
          const { promise, resolve } = Promise.withResolvers<{ readonly answer: unknown } | undefined>();
          requests.set(request.id, { request, owner: holding.owner, resolve });
          notifyOpening(holding, () => holding.owner === holder && holding.listener?.onRequest(request));
          return { answer: promise };
        });
        const response = await answer.answer;
        await running(opening);
        return response;
      },
      metrics: () => ({
        leaseMs: isLive(opening.owner) ? opening.owner.expiresAtMs - nowMs : 0,
        lostLeases: opening.lostLeases,
        held: opening.holds.size,
        takenOver: opening.takenOver,
      }),
      listen: (listener) => void (opening.listener = listener),
    };
    const close = async () => {
      await store.close();
      if (!openings.delete(opening)) return;
      for (const id of [...opening.holds.keys()]) release(id);
      opening.owner.isDead = true;
      settle();
      notifyExpired(opening);
    };
    return {
      store: { ...store, shared, close },
      pause: () => void (opening.paused ??= Promise.withResolvers()),
      wake() {
        opening.paused?.resolve();
        opening.paused = undefined;
        notifyOpening(opening, () => renewLease(opening));
      },
      kill: () => void (opening.isKilled = true),
    };
  };
  return {
    open,
    pass(ms) {
      nowMs += ms;
      const expired: Opening[] = [];
      for (const opening of openings) {
        const wasThere = nowMs - ms < opening.owner.expiresAtMs;
        if (!opening.paused && !opening.isKilled) renewLease(opening);
        else if (wasThere && !isLive(opening.owner)) expired.push(opening);
      }
      expired.forEach(notifyExpired);
      changed(tables.sessions.keys());
    },
  };
}

import { createHash, randomBytes } from "node:crypto";
import { setTimeout as setTimer } from "node:timers";
import type { Store, StoredDocument, StoreRecord } from "./store/port.ts";
import { Coalescer } from "./coalescer.ts";
import { DocumentReader } from "./documents.ts";
import { isConflict } from "./store/store_error.ts";

/** The key of a request. */
export interface Caller {
  /** Name of the key: `owner`, `guest` without a key, or the name that the owner chose. */
  readonly name: string;
  /** Permitted uses: model calls through the gateway, agent sessions, approvals, and metrics. */
  readonly routes: readonly ("gateway" | "agent" | "approve" | "metrics")[];
}

/** A key without its secret, and its cost today. */
export interface KeyReport extends Caller {
  /** Most US dollars that its sessions may cost per UTC day. Default: no limit. */
  readonly budgetUsdPerDay?: number;
  /** Most requests per minute and server. Default: no limit. */
  readonly perMinute?: number;
  readonly createdAtMs: number;
  /** US dollars spent since midnight UTC. */
  readonly spentUsd: number;
}

/** The prefix distinguishes removed keys from a provider's. */
const SECRET = /^tare_[\w-]{43}$/;

const KEY = "key";
const SPENT = "key_spent";

/** Age in milliseconds at which keys are reread from a shared store. */
const FRESH_MS = 1_000;

/** Assumed maximum of output tokens if a request sets none: no provider's limit is higher. */
const MAX_OUTPUT_TOKENS = 128_000;

/** Polling interval for reservations that other servers release, in milliseconds. */
const POLL_MS = 250;

/** Retry interval of the reservation lock in milliseconds. */
const LOCK_MS = 10;

/** Idempotency-key scopes: the reservation lock, and each server's sign of life. */
const RESERVING = "key_reserving";
const SERVER = "key_server";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

interface StoredKey extends Omit<KeyReport, "spentUsd"> {
  /** SHA-256 of its secret, in hex. */
  readonly hash: string;
}

interface Spent {
  readonly name: string;
  readonly day: string;
  readonly usd: number;
  /** Most that calls in progress may cost; ignored once the server is gone. Default: none. */
  readonly reservedUsd?: number;
}

/** The maximum cost of one call, reserved from a budget until the call is recorded. */
export interface Reservation {
  /** US dollars; 0 without a budget. */
  readonly usd: number;
  readonly release: () => void;
}

/** A refusal of a request. */
export interface KeyRefusal {
  /** HTTP status: 402, 403 or 429. */
  readonly status: number;
  readonly code: "not_for_this_key" | "budget_spent" | "price_unknown" | "rate_limit_exceeded";
  readonly message: string;
  /** Seconds until a retry may succeed. Absent: it can't. */
  readonly retryAfterS?: number;
}

/** Options of keys. */
export interface KeysOptions {
  readonly store: Pick<
    Store,
    "shared" | "now" | "commit" | "getDocument" | "listDocuments" | "claimKey" | "releaseKey"
  >;
  /** Secrets of the owner's keys. */
  readonly owners: readonly string[];
  /** Called if spending can't be stored, which is retried, and for damaged keys. Default: does nothing. */
  readonly onError?: (error: unknown) => void;
}

const UNLIMITED: Reservation = { usd: 0, release() {} };

/** Authentication, permissions, rate limits and budgets by key. Only hashes of secrets are stored. */
export class Keys {
  static readonly NAME: RegExp = /^[a-z0-9][a-z0-9_-]{0,39}$/;
  /** The owner's key: all permissions, access to all sessions. */
  static readonly OWNER: Caller = { name: "owner", routes: ["gateway", "agent", "approve", "metrics"] };
  /** Requests without a key, if permitted: access to sessions made without a key, by id only. */
  static readonly GUEST: Caller = { name: "guest", routes: ["gateway", "agent"] };
  static readonly MAX_OUTPUT_TOKENS: number = MAX_OUTPUT_TOKENS;
  readonly #store: KeysOptions["store"];
  readonly #owners: ReadonlySet<string>;
  readonly #onError: (error: unknown) => void;
  readonly #server = crypto.randomUUID();
  #known: { readonly byHash: ReadonlyMap<string, StoredKey>; readonly atMs: number } | undefined;
  #others: readonly (Spent & { readonly server: string })[] = [];
  readonly #own = new Map<string, Spent>();
  readonly #reserved = new Map<string, number>();
  readonly #waiting = new Set<() => void>();
  /** The newest reservation attempt per key: on a shared store they are sequential. */
  readonly #attempts = new Map<string, Promise<unknown>>();
  readonly #gone = new Set<string>();
  readonly #counts = new Map<string, { readonly minute: number; count: number }>();
  readonly #keys: DocumentReader<StoredKey>;
  readonly #spent: DocumentReader<Spent & { readonly id: string }>;
  readonly #writing: Coalescer;
  #unwritten: unknown;
  #loading: Promise<void> | undefined;

  constructor({ store, owners, onError = () => {} }: KeysOptions) {
    this.#store = store;
    this.#owners = new Set(owners.map(sha256));
    this.#onError = onError;
    this.#keys = new DocumentReader({ store, kind: KEY, read: asKey, onError });
    this.#spent = new DocumentReader({ store, kind: SPENT, read: asSpent, onError });
    this.#writing = new Coalescer(() => this.#write(), onError);
  }

  static newSecret(): string {
    return `tare_${randomBytes(32).toString("base64url")}`;
  }

  static isSecret(text: string): boolean {
    return SECRET.test(text);
  }

  /** Returns the name stored with a key's sessions; `undefined` for the owner. */
  static nameOf({ name }: Caller = Keys.OWNER): string | undefined {
    return name === Keys.OWNER.name ? undefined : name;
  }

  static sees(caller: Caller | undefined, by: string | undefined): boolean {
    const own = Keys.nameOf(caller);
    return own === undefined || own === by;
  }

  /** Returns the key of this secret; `undefined` if there is none. @throws {StoreError} */
  async find(secret: string): Promise<Caller | undefined> {
    const hash = sha256(secret);
    if (this.#owners.has(hash)) return Keys.OWNER;
    if (!Keys.isSecret(secret)) return undefined;
    await this.#refresh();
    return this.#known?.byHash.get(hash);
  }

  /**
   * Adds a key. Returns its secret, which can't be read again.
   *
   * @throws {RangeError} if the name is taken or invalid.
   * @throws {StoreError}
   */
  async add(settings: Omit<KeyReport, "createdAtMs" | "spentUsd">): Promise<string> {
    const { name } = settings;
    if (!Keys.NAME.test(name) || [Keys.OWNER, Keys.GUEST].some((known) => known.name === name)) {
      const wanted = "a name has 1 to 40 characters of a to z, 0 to 9, - and _, and isn't owner or guest";
      throw new RangeError(`Cannot add key ${JSON.stringify(name)}: ${wanted}.`);
    }
    const secret = Keys.newSecret();
    const value: StoredKey = { ...settings, createdAtMs: this.#store.now(), hash: sha256(secret) };
    await this.#store.commit([{ type: "document", kind: KEY, id: name, value, replaces: null }]).catch(
      (error) => {
        if (!isConflict(error)) throw error;
        throw new RangeError(`Cannot add key ${name}: the name is taken. Remove that key first.`);
      },
    );
    await this.#load();
    return secret;
  }

  /**
   * Removes a key, which is refused from then on; its sessions stay. Returns false if there is none.
   *
   * @throws {StoreError}
   */
  async remove(name: string): Promise<boolean> {
    if (!await this.#store.getDocument(KEY, name)) return false;
    await this.#store.commit([{ type: "delete_document", kind: KEY, id: name }]);
    await this.#load();
    return true;
  }

  async list(): Promise<readonly KeyReport[]> {
    await this.#load();
    return [...this.#known?.byHash.values() ?? []].map(({ hash: _, ...key }) => ({
      ...key,
      spentUsd: this.#spentUsd(key.name),
    }));
  }

  /** Returns a key and its cost today; `undefined` for the owner and guests. @throws {StoreError} */
  async report({ name }: Caller): Promise<KeyReport | undefined> {
    return (await this.list()).find((key) => key.name === name);
  }

  count({ name }: Caller): KeyRefusal | undefined {
    const { perMinute } = this.#named(name) ?? {};
    if (perMinute === undefined) return undefined;
    const nowMs = this.#store.now();
    const minute = Math.floor(nowMs / MINUTE_MS);
    const minuteCount = this.#counts.get(name);
    const current = minuteCount?.minute === minute ? minuteCount : { minute, count: 0 };
    this.#counts.set(name, current);
    if (++current.count <= perMinute) return undefined;
    const retryAfterS = Math.ceil(((minute + 1) * MINUTE_MS - nowMs) / 1000);
    return {
      status: 429,
      code: "rate_limit_exceeded",
      message:
        `Rate limit exceeded for key ${name}: ${perMinute} requests per minute. Retry in ${retryAfterS} s.`,
      retryAfterS,
    };
  }

  /** Returns why a key may not make this request. Calls in progress aren't checked again. */
  refusal(caller: Caller, route: Caller["routes"][number]): KeyRefusal | undefined {
    if (!caller.routes.includes(route)) {
      const routes = caller.routes.join(", ");
      const message = `Forbidden: key ${caller.name} is for ${routes}, not for ${route}.`;
      return { status: 403, code: "not_for_this_key", message };
    }
    return this.budgetRefusal(Keys.nameOf(caller));
  }

  /**
   * Returns why no further cost is permitted under a name. `isPriced` is whether the model's price is known: a budget
   * can't be enforced without one.
   */
  budgetRefusal(name: string | undefined, isPriced = true): KeyRefusal | undefined {
    if (name === undefined || name === Keys.GUEST.name) return undefined;
    this.#refresh().catch(this.#onError);
    const key = this.#named(name);
    if (!key) {
      const message = `Forbidden: key ${name}, which pays for this, was removed.`;
      return { status: 403, code: "not_for_this_key", message };
    }
    const { budgetUsdPerDay: most } = key;
    if (most === undefined) return undefined;
    if (!isPriced) {
      const message =
        `Forbidden: key ${name} has a budget of $${most} a day, and the price of this model is unknown. ` +
        "Use a model with a known price, or set TARE_PRICE.";
      return { status: 403, code: "price_unknown", message };
    }
    const usd = this.#spentUsd(name);
    if (usd < most) return undefined;
    const tomorrow = new Date((Math.floor(this.#store.now() / DAY_MS) + 1) * DAY_MS).toISOString();
    const message =
      `Budget exceeded: key ${name} has spent its budget of $${most} for today, $${usd.toFixed(4)}. ` +
      `Retry after ${tomorrow.slice(0, 16)}Z, or raise the budget.`;
    return { status: 402, code: "budget_spent", message };
  }

  /**
   * Reserves the maximum cost of a call. Waits while calls in progress could spend the rest of the budget, so it is
   * exceeded by at most one call's maximum.
   *
   * @returns The reservation, to be released once the cost is recorded; or the refusal.
   * @throws the signal's reason, and {StoreError} on a shared store.
   */
  async reserve(
    name: string | undefined,
    usd: number,
    { signal, progress }: {
      readonly signal?: AbortSignal | undefined;
      readonly progress?: (() => void) | undefined;
    } = {},
  ): Promise<Reservation | KeyRefusal> {
    for (;;) {
      signal?.throwIfAborted();
      const refused = this.budgetRefusal(name);
      if (refused) return refused;
      if (name === undefined || this.#named(name)?.budgetUsdPerDay === undefined) return UNLIMITED;
      const reserved = await this.#tryToReserve(name, usd);
      if (reserved) return reserved;
      await this.#givenBack(signal);
      progress?.();
    }
  }

  #tryToReserve(name: string, usd: number): Reservation | undefined | Promise<Reservation | undefined> {
    if (!this.#store.shared) return this.#hasRoom(name, 0) ? this.#setAside(name, usd) : undefined;
    const before = this.#attempts.get(name) ?? Promise.resolve();
    const attempt = before.catch(() => {}).then(() => this.#reserveAmongServers(name, usd));
    this.#attempts.set(name, attempt);
    return attempt.finally(() => {
      if (this.#attempts.get(name) === attempt) this.#attempts.delete(name);
    });
  }

  /** Reads the spending and reservations of all servers and reserves, under a lock. @throws {StoreError} */
  async #reserveAmongServers(name: string, usd: number): Promise<Reservation | undefined> {
    const store = this.#store;
    const lock = { scope: RESERVING, key: name };
    while ((await store.claimKey({ ...lock, bodyHash: "", isAtomic: true })).state === "running") {
      await new Promise((resolve) => setTimer(resolve, LOCK_MS));
    }
    try {
      // Renews the sign of life: its lease may have been lost.
      await store.claimKey({ scope: SERVER, key: this.#server, bodyHash: "", isAtomic: true });
      await this.#load();
      let others = 0;
      const today = this.#today();
      for (const { name: owner, day, reservedUsd = 0, server } of this.#others) {
        if (owner !== name || day !== today || reservedUsd === 0) continue;
        if (await this.#isThere(server)) others += reservedUsd;
      }
      if (!this.#hasRoom(name, others)) return undefined;
      const reservation = this.#setAside(name, usd);
      try {
        await this.#written();
      } catch (error) {
        reservation.release();
        throw error;
      }
      return reservation;
    } finally {
      await store.releaseKey(lock);
    }
  }

  /** @throws {StoreError} */
  async #isThere(server: string): Promise<boolean> {
    if (this.#gone.has(server)) return false;
    const key = { scope: SERVER, key: server };
    const { state } = await this.#store.claimKey({ ...key, bodyHash: "", isAtomic: true });
    if (state === "running") return true;
    this.#gone.add(server);
    await this.#store.releaseKey(key);
    return false;
  }

  #hasRoom(name: string, others: number): boolean {
    const { budgetUsdPerDay: most = Infinity } = this.#named(name) ?? {};
    return this.#spentUsd(name) + (this.#reserved.get(name) ?? 0) + others < most;
  }

  #setAside(name: string, usd: number): Reservation {
    this.#reserved.set(name, (this.#reserved.get(name) ?? 0) + usd);
    if (!this.#own.has(name)) this.#own.set(name, { name, day: this.#today(), usd: 0 });
    let isHeld = true;
    return {
      usd,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        const rest = (this.#reserved.get(name) ?? 0) - usd;
        // Floating-point sums rarely return to exactly zero.
        if (rest > usd / 1e6) this.#reserved.set(name, rest);
        else this.#reserved.delete(name);
        if (this.#store.shared) this.#writeSoon();
        for (const go of [...this.#waiting]) go();
      },
    };
  }

  /** Resolves once a reservation may have been released. @throws the signal's reason. */
  async #givenBack(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const stop = () => reject(signal?.reason);
    const timer = this.#store.shared ? setTimer(resolve, POLL_MS) : undefined;
    this.#waiting.add(resolve);
    signal?.addEventListener("abort", stop);
    try {
      await promise;
    } finally {
      clearTimeout(timer);
      this.#waiting.delete(resolve);
      signal?.removeEventListener("abort", stop);
    }
  }

  paid(name: string | undefined, usd: number): void {
    if (name === undefined || name === Keys.GUEST.name || !(usd > 0)) return;
    const day = this.#today();
    const before = this.#own.get(name);
    this.#own.set(name, { name, day, usd: usd + (before?.day === day ? before.usd : 0) });
    this.#writeSoon();
  }

  async close(): Promise<void> {
    await this.#loading?.catch(() => {});
    await this.#writing.settled();
  }

  #writeSoon(): void {
    void this.#writing.run();
  }

  /** Stores what is recorded so far. @throws {StoreError} */
  async #written(): Promise<void> {
    await this.#writing.run();
    if (this.#unwritten !== undefined) throw this.#unwritten;
  }

  #named(name: string): StoredKey | undefined {
    for (const key of this.#known?.byHash.values() ?? []) if (key.name === name) return key;
    return undefined;
  }

  #today(): string {
    return new Date(this.#store.now()).toISOString().slice(0, 10);
  }

  #spentUsd(name: string): number {
    const day = this.#today();
    return [...this.#others, ...this.#own.values()]
      .reduce((sum, spent) => spent.name === name && spent.day === day ? sum + spent.usd : sum, 0);
  }

  /** Rereads the keys of a shared store. */
  #refresh(): Promise<void> {
    const isFresh = this.#known && (!this.#store.shared || this.#store.now() - this.#known.atMs < FRESH_MS);
    return isFresh ? Promise.resolve() : this.#load();
  }

  #load(): Promise<void> {
    const read = async () => {
      const [keys, spent] = await Promise.all([this.#keys.list(), this.#spent.list()]);
      this.#known = { byHash: new Map(keys.map((key) => [key.hash, key])), atMs: this.#store.now() };
      this.#others = spent.filter(({ id }) => !id.endsWith(this.#server)).map(({ id, ...rest }) => ({
        ...rest,
        server: id.slice(id.lastIndexOf(" ") + 1),
      }));
    };
    // A read in progress may miss a change made since it began.
    const loading = (this.#loading ?? Promise.resolve()).catch(() => {}).then(read)
      .finally(() => {
        if (this.#loading === loading) this.#loading = undefined;
      });
    return this.#loading = loading;
  }

  #ownSpent(day: string): readonly Spent[] {
    return [...this.#own.values()].flatMap(({ name, day: its, usd }): Spent[] => {
      const reservedUsd = this.#store.shared ? this.#reserved.get(name) : undefined;
      if (its !== day && reservedUsd === undefined) return [];
      return [{ name, day, usd: its === day ? usd : 0, ...(reservedUsd !== undefined && { reservedUsd }) }];
    });
  }

  async #write(): Promise<void> {
    const day = this.#today();
    try {
      const old = (await this.#spent.list()).filter((spent) => spent.day < day);
      await this.#store.commit([
        ...old.map(({ id }): StoreRecord => ({ type: "delete_document", kind: SPENT, id })),
        ...this.#ownSpent(day).map((value): StoreRecord => ({
          type: "document",
          kind: SPENT,
          id: `${value.name} ${this.#server}`,
          value,
        })),
      ]);
      this.#unwritten = undefined;
    } catch (error) {
      this.#unwritten = error;
      throw error;
    }
  }
}

function asKey({ id, value }: StoredDocument): StoredKey {
  const { name, hash, routes } = Object(value) as Partial<StoredKey>;
  if (name === id && typeof hash === "string" && Array.isArray(routes)) return value as StoredKey;
  throw new TypeError("it isn't a valid key.");
}

function asSpent({ id, value }: StoredDocument): Spent & { readonly id: string } {
  const { name, day, usd } = Object(value) as Partial<Spent>;
  if (typeof name === "string" && typeof day === "string" && Number.isFinite(usd)) {
    return { ...value as Spent, id };
  }
  throw new TypeError("it isn't a key's spending.");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

import { createHash, randomBytes } from "node:crypto";
import { setTimeout as setTimer } from "node:timers";
import type { Store, StoredDocument, StoreRecord } from "./store/port.ts";
import { Coalescer } from "./coalescer.ts";
import { DocumentReader } from "./documents.ts";
import { isConflict } from "./store/store_error.ts";

/** Who asks. */
export interface Asker {
  /** Name of the key: `owner`, `guest` of whoever has none, or what the owner has called it. */
  readonly name: string;
  /**
   * What it may be used for: model calls of other agents, the agent's own sessions, saying what their calls may do, and
   * reading the server's figures.
   */
  readonly routes: readonly ("gateway" | "agent" | "approve" | "metrics")[];
}

/** A key without its secret, and what it has cost today. */
export interface KeyReport extends Asker {
  /** Most US dollars that its sessions may cost on a day of UTC. Default: no limit. */
  readonly budgetUsdPerDay?: number;
  /** Most requests in a minute, of each server. Default: no limit. */
  readonly perMinute?: number;
  /** When it was made, in milliseconds since the epoch. */
  readonly createdAtMs: number;
  /** In US dollars, since midnight of UTC. */
  readonly spentUsd: number;
}

/** How each secret begins, so that a key which is gone is never taken for a provider's. */
const SECRET = /^tare_[\w-]{43}$/;

/** Kinds of documents in the store. */
const KEY = "key";
const SPENT = "key_spent";

/** After so many milliseconds keys are read again where other servers may have changed them. */
const FRESH_MS = 1_000;

/** Most tokens that a model writes in one reply where its request doesn't say: no provider's limit is higher. */
const MOST_OUTPUT_TOKENS = 128_000;

/** How soon it is looked again whether other servers have given back what they had reserved, in milliseconds. */
const POLL_MS = 250;

/** How soon a server tries again to read and reserve while another one does so, in milliseconds. */
const LOCK_MS = 10;

/** Scopes of keys in the store: by the first one server at a time reserves, by the second each shows that it is there. */
const RESERVING = "key_reserving";
const SERVER = "key_server";

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

/** What is stored of a key. */
interface StoredKey extends Omit<KeyReport, "spentUsd"> {
  /** SHA-256 of its secret, in hex. */
  readonly hash: string;
}

/** What a server's calls have cost under a key on a day. */
interface Spent {
  readonly name: string;
  /** As in 2026-01-31. */
  readonly day: string;
  readonly usd: number;
  /** What calls under way may cost at most; nothing of a server that is gone. Absent: there are none. */
  readonly reservedUsd?: number;
}

/** What one call may cost, set aside from a budget until it is over and paid for. */
export interface Reservation {
  /** How much, in US dollars; 0 where there is no budget. */
  readonly usd: number;
  /** Gives it back. A second call does nothing. */
  readonly release: () => void;
}

/** Why a request isn't answered. */
export interface KeyRefusal {
  /** HTTP status: 402, 403 or 429. */
  readonly status: number;
  readonly code: "not_for_this_key" | "budget_spent" | "price_unknown" | "rate_limit_exceeded";
  readonly message: string;
  /** When it is worth trying again. Absent: it isn't. */
  readonly retryAfterS?: number;
}

/** Where keys are stored. */
export interface KeysOptions {
  readonly store: Pick<
    Store,
    "shared" | "now" | "commit" | "getDocument" | "listDocuments" | "claimKey" | "releaseKey"
  >;
  /** Secrets of the owner's keys, of which only hashes are held. */
  readonly owners: readonly string[];
  /**
   * Called when what was spent can't be stored, which is tried again with the next call, and for each stored key that is
   * damaged and not valid any more. Default: does nothing.
   */
  readonly onError?: (error: unknown) => void;
}

/** What is set aside of no budget. */
const UNLIMITED: Reservation = { usd: 0, release() {} };

/**
 * The keys of a server, or of several on one store: who asks, what they may, and what they have cost. Secrets are kept
 * nowhere, only their hashes.
 */
export class Keys {
  /** What their names look like. */
  static readonly NAME: RegExp = /^[a-z0-9][a-z0-9_-]{0,39}$/;
  /** Whoever has the owner's key: may do all that a key may be for, and sees all sessions. */
  static readonly OWNER: Asker = { name: "owner", routes: ["gateway", "agent", "approve", "metrics"] };
  /** Whoever has none, where such may ask: sees what somebody else without one has made, by its id alone. */
  static readonly GUEST: Asker = { name: "guest", routes: ["gateway", "agent"] };
  /** Most tokens that a model writes in one reply where its request doesn't say. */
  static readonly MOST_OUTPUT_TOKENS: number = MOST_OUTPUT_TOKENS;
  readonly #store: KeysOptions["store"];
  readonly #owners: ReadonlySet<string>;
  readonly #onError: (error: unknown) => void;
  /** This server's own part of what was spent stands under it. */
  readonly #server = crypto.randomUUID();
  #known: { readonly byHash: ReadonlyMap<string, StoredKey>; readonly atMs: number } | undefined;
  /** What other servers, and this one's predecessors, have spent. */
  #others: readonly (Spent & { readonly server: string })[] = [];
  readonly #own = new Map<string, Spent>();
  /** What calls under way on this server may cost, by the key's name. */
  readonly #reserved = new Map<string, number>();
  /** Called when something was given back. */
  readonly #waiting = new Set<() => void>();
  /** The newest attempt to reserve from each key's budget: on a shared store one is made after the other. */
  readonly #attempts = new Map<string, Promise<unknown>>();
  /** Servers that are gone. */
  readonly #gone = new Set<string>();
  readonly #asked = new Map<string, { readonly minute: number; count: number }>();
  readonly #keys: DocumentReader<StoredKey>;
  readonly #spent: DocumentReader<Spent & { readonly id: string }>;
  readonly #writing: Coalescer;
  /** Why the newest write failed. */
  #unwritten: unknown;
  #loading: Promise<void> | undefined;

  /** The keys in a store, none of which was read yet. */
  constructor({ store, owners, onError = () => {} }: KeysOptions) {
    this.#store = store;
    this.#owners = new Set(owners.map(sha256));
    this.#onError = onError;
    this.#keys = new DocumentReader({ store, kind: KEY, read: asKey, onError });
    this.#spent = new DocumentReader({ store, kind: SPENT, read: asSpent, onError });
    this.#writing = new Coalescer(() => this.#write(), onError);
  }

  /** A new secret: 256 random bits. */
  static newSecret(): string {
    return `tare_${randomBytes(32).toString("base64url")}`;
  }

  /** Whether a text looks like a secret of a key, known or not. */
  static isSecret(text: string): boolean {
    return SECRET.test(text);
  }

  /** Under whose name sessions are kept that somebody makes; nothing of the owner's. */
  static nameOf({ name }: Asker = Keys.OWNER): string | undefined {
    return name === Keys.OWNER.name ? undefined : name;
  }

  /** Whether somebody may see what was made under a name. */
  static sees(asker: Asker | undefined, by: string | undefined): boolean {
    const own = Keys.nameOf(asker);
    return own === undefined || own === by;
  }

  /** Who has this secret; nothing if nobody has. @throws {StoreError} */
  async find(secret: string): Promise<Asker | undefined> {
    const hash = sha256(secret);
    if (this.#owners.has(hash)) return Keys.OWNER;
    if (!Keys.isSecret(secret)) return undefined;
    await this.#refresh();
    return this.#known?.byHash.get(hash);
  }

  /**
   * Makes a key, and gives its secret, which nobody is told again.
   *
   * @throws {RangeError} if there is one of this name, or none can have it.
   * @throws {StoreError}
   */
  async add(settings: Omit<KeyReport, "createdAtMs" | "spentUsd">): Promise<string> {
    const { name } = settings;
    if (!Keys.NAME.test(name) || [Keys.OWNER, Keys.GUEST].some((known) => known.name === name)) {
      const wanted = "1 to 40 of a to z, 0 to 9, - and _ are wanted, other than owner and guest";
      throw new RangeError(`Cannot add key ${JSON.stringify(name)}: ${wanted}.`);
    }
    const secret = Keys.newSecret();
    const value: StoredKey = { ...settings, createdAtMs: this.#store.now(), hash: sha256(secret) };
    await this.#store.commit([{ type: "document", kind: KEY, id: name, value, replaces: null }]).catch(
      (error) => {
        if (!isConflict(error)) throw error;
        throw new RangeError(`Cannot add key ${name}: there is one of that name. Remove it first.`);
      },
    );
    await this.#load();
    return secret;
  }

  /** Takes a key away: nobody is let in by it any more. Its sessions stay. False if there is none. @throws {StoreError} */
  async remove(name: string): Promise<boolean> {
    if (!await this.#store.getDocument(KEY, name)) return false;
    await this.#store.commit([{ type: "no_document", kind: KEY, id: name }]);
    await this.#load();
    return true;
  }

  /** All keys by their names. @throws {StoreError} */
  async list(): Promise<readonly KeyReport[]> {
    await this.#load();
    return [...this.#known?.byHash.values() ?? []].map(({ hash: _, ...key }) => ({
      ...key,
      spentUsd: this.#spentUsd(key.name),
    }));
  }

  /** A key as it is now, with what it has cost today; nothing of the owner and of guests. @throws {StoreError} */
  async report({ name }: Asker): Promise<KeyReport | undefined> {
    return (await this.list()).find((key) => key.name === name);
  }

  /** Counts a request; gives why it comes too often, if it does. */
  count({ name }: Asker): KeyRefusal | undefined {
    const { perMinute } = this.#named(name) ?? {};
    if (perMinute === undefined) return undefined;
    const nowMs = this.#store.now();
    const minute = Math.floor(nowMs / MINUTE_MS);
    const asked = this.#asked.get(name);
    const now = asked?.minute === minute ? asked : { minute, count: 0 };
    this.#asked.set(name, now);
    if (++now.count <= perMinute) return undefined;
    const retryAfterS = Math.ceil(((minute + 1) * MINUTE_MS - nowMs) / 1000);
    return {
      status: 429,
      code: "rate_limit_exceeded",
      message:
        `Cannot answer: key ${name} may ask ${perMinute} times a minute. Try again in ${retryAfterS} s.`,
      retryAfterS,
    };
  }

  /** Why somebody may not ask for this now; nothing if they may. A call that has begun is no longer asked about. */
  refusal(asker: Asker, route: Asker["routes"][number]): KeyRefusal | undefined {
    if (!asker.routes.includes(route)) {
      const routes = asker.routes.join(", ");
      const message = `Cannot answer: key ${asker.name} is for ${routes}, and this is ${route}.`;
      return { status: 403, code: "not_for_this_key", message };
    }
    return this.spent(Keys.nameOf(asker));
  }

  /**
   * Why nothing more may be paid for under a name: its budget of the day is spent, or its key is gone. Nothing if it may.
   * `isPriced` says whether what is asked for has a known price: without one no budget can be held.
   */
  spent(name: string | undefined, isPriced = true): KeyRefusal | undefined {
    if (name === undefined || name === Keys.GUEST.name) return undefined;
    // Who is asked about again may have spent elsewhere.
    this.#refresh().catch(this.#onError);
    const key = this.#named(name);
    if (!key) {
      const message = `Cannot go on: key ${name} was removed, and this would be paid for under it.`;
      return { status: 403, code: "not_for_this_key", message };
    }
    const { budgetUsdPerDay: most } = key;
    if (most === undefined) return undefined;
    if (!isPriced) {
      const message =
        `Cannot answer: key ${name} has a budget of $${most} a day, and what this would cost isn't ` +
        "known. Ask for a model whose price is known; TARE_PRICE says what others cost.";
      return { status: 403, code: "price_unknown", message };
    }
    const usd = this.#spentUsd(name);
    if (usd < most) return undefined;
    const tomorrow = new Date((Math.floor(this.#store.now() / DAY_MS) + 1) * DAY_MS).toISOString();
    const message =
      `Cannot answer: key ${name} has spent its budget of $${most} for today, $${usd.toFixed(4)}. ` +
      `It goes on at ${tomorrow.slice(0, 16)}Z, or when the owner gives it more.`;
    return { status: 402, code: "budget_spent", message };
  }

  /**
   * Sets aside from the budget under a name what a call may cost at most, before it is made. As long as calls under way, on
   * any server, could spend the rest, it waits: so the budget is passed by one call's maximum at most, however many are
   * made at once.
   *
   * @returns What gives it back, to be called once what the call cost is paid; or why nothing more may be paid for.
   * @throws the signal's reason, and {StoreError} where the store is shared.
   */
  async reserve(
    name: string | undefined,
    usd: number,
    { signal, progress }: {
      /** Ends the wait. */
      readonly signal?: AbortSignal | undefined;
      /** Called now and then while it waits. */
      readonly progress?: (() => void) | undefined;
    } = {},
  ): Promise<Reservation | KeyRefusal> {
    for (;;) {
      signal?.throwIfAborted();
      const refused = this.spent(name);
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

  /** Reads what all servers have spent and reserved, and reserves, while no other one does. @throws {StoreError} */
  async #reserveAmongServers(name: string, usd: number): Promise<Reservation | undefined> {
    const store = this.#store;
    const lock = { scope: RESERVING, key: name };
    while ((await store.claimKey({ ...lock, bodyHash: "", isAtomic: true })).state === "running") {
      await new Promise((resolve) => setTimer(resolve, LOCK_MS));
    }
    try {
      // By this the others know that it is there: its lease may have been lost since.
      await store.claimKey({ scope: SERVER, key: this.#server, bodyHash: "", isAtomic: true });
      await this.#load();
      let others = 0;
      const today = this.#today();
      for (const { name: whose, day, reservedUsd = 0, server } of this.#others) {
        if (whose !== name || day !== today || reservedUsd === 0) continue;
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

  /** Whether the server of this name is there: what one reserved that is gone nobody gives back. @throws {StoreError} */
  async #isThere(server: string): Promise<boolean> {
    if (this.#gone.has(server)) return false;
    const key = { scope: SERVER, key: server };
    const { state } = await this.#store.claimKey({ ...key, bodyHash: "", isAtomic: true });
    if (state === "running") return true;
    this.#gone.add(server);
    await this.#store.releaseKey(key);
    return false;
  }

  /** Whether what is spent and what calls under way may cost leaves something of the budget. */
  #hasRoom(name: string, others: number): boolean {
    const { budgetUsdPerDay: most = Infinity } = this.#named(name) ?? {};
    return this.#spentUsd(name) + (this.#reserved.get(name) ?? 0) + others < most;
  }

  #setAside(name: string, usd: number): Reservation {
    this.#reserved.set(name, (this.#reserved.get(name) ?? 0) + usd);
    // With it is stored that it was given back, too.
    if (!this.#own.has(name)) this.#own.set(name, { name, day: this.#today(), usd: 0 });
    let isHeld = true;
    return {
      usd,
      release: () => {
        if (!isHeld) return;
        isHeld = false;
        const rest = (this.#reserved.get(name) ?? 0) - usd;
        // Sums of what was added and taken away aren't exactly zero.
        if (rest > usd / 1e6) this.#reserved.set(name, rest);
        else this.#reserved.delete(name);
        if (this.#store.shared) this.#writeSoon();
        for (const go of [...this.#waiting]) go();
      },
    };
  }

  /** Resolves once something was given back, or other servers may have. @throws the signal's reason. */
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

  /** Something was paid for under a name. */
  paid(name: string | undefined, usd: number): void {
    if (name === undefined || name === Keys.GUEST.name || !(usd > 0)) return;
    const day = this.#today();
    const before = this.#own.get(name);
    this.#own.set(name, { name, day, usd: usd + (before?.day === day ? before.usd : 0) });
    this.#writeSoon();
  }

  /** Waits until what was paid is stored. Never rejects. */
  async close(): Promise<void> {
    await this.#loading?.catch(() => {});
    await this.#writing.settled();
  }

  #writeSoon(): void {
    void this.#writing.run();
  }

  /** Resolves once all that is known now is stored. @throws {StoreError} */
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

  /** Reads the keys, if others may have changed them since. */
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
    // What was changed after the last one had begun to read it may have missed.
    const loading = (this.#loading ?? Promise.resolve()).catch(() => {}).then(read)
      .finally(() => {
        if (this.#loading === loading) this.#loading = undefined;
      });
    return this.#loading = loading;
  }

  /** What is stored of this server. */
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
        ...old.map(({ id }): StoreRecord => ({ type: "no_document", kind: SPENT, id })),
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

/** Returns a stored key. @throws {TypeError} if it is none. */
function asKey({ id, value }: StoredDocument): StoredKey {
  const { name, hash, routes } = Object(value) as Partial<StoredKey>;
  if (name === id && typeof hash === "string" && Array.isArray(routes)) return value as StoredKey;
  throw new TypeError("it isn't a key.");
}

/** Returns what was spent, with its document's id. @throws {TypeError} if it is something else. */
function asSpent({ id, value }: StoredDocument): Spent & { readonly id: string } {
  const { name, day, usd } = Object(value) as Partial<Spent>;
  if (typeof name === "string" && typeof day === "string" && Number.isFinite(usd)) {
    return { ...value as Spent, id };
  }
  throw new TypeError("it isn't what a key has spent.");
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

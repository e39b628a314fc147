import { createHash, randomBytes } from "node:crypto";
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
}

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
  readonly #store: Pick<Store, "shared" | "now" | "commit" | "getDocument" | "listDocuments">;
  readonly #owners: ReadonlySet<string>;
  readonly #onError: (error: unknown) => void;
  /** This server's own part of what was spent stands under it. */
  readonly #server = crypto.randomUUID();
  #known: { readonly byHash: ReadonlyMap<string, StoredKey>; readonly atMs: number } | undefined;
  /** What other servers, and this one's predecessors, have spent. */
  #others: readonly Spent[] = [];
  readonly #own = new Map<string, Spent>();
  readonly #asked = new Map<string, { readonly minute: number; count: number }>();
  readonly #keys: DocumentReader<StoredKey>;
  readonly #spent: DocumentReader<Spent & { readonly id: string }>;
  readonly #writing: Coalescer;
  #loading: Promise<void> | undefined;

  /** The keys in a store. `owners` are the secrets of the owner's keys, of which only hashes are held. */
  constructor({ store, owners, onError = () => {} }: {
    readonly store: Pick<Store, "shared" | "now" | "commit" | "getDocument" | "listDocuments">;
    readonly owners: readonly string[];
    /**
     * Called when what was spent can't be stored, which is tried again with the next call, and for each stored key that is
     * damaged and not valid any more. Default: does nothing.
     */
    readonly onError?: (error: unknown) => void;
  }) {
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
  count({ name }: Asker): ReturnType<Keys["spent"]> {
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
  refusal(asker: Asker, route: Asker["routes"][number]): ReturnType<Keys["spent"]> {
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
  spent(name: string | undefined, isPriced = true): {
    /** HTTP status: 402, 403 or 429. */
    readonly status: number;
    readonly code: "not_for_this_key" | "budget_spent" | "price_unknown" | "rate_limit_exceeded";
    readonly message: string;
    /** When it is worth trying again. Absent: it isn't. */
    readonly retryAfterS?: number;
  } | undefined {
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

  /** Something was paid for under a name. */
  paid(name: string | undefined, usd: number): void {
    if (name === undefined || name === Keys.GUEST.name || !(usd > 0)) return;
    const day = this.#today();
    const before = this.#own.get(name);
    this.#own.set(name, { name, day, usd: usd + (before?.day === day ? before.usd : 0) });
    void this.#writing.run();
  }

  /** Waits until what was paid is stored. Never rejects. */
  async close(): Promise<void> {
    await this.#loading?.catch(() => {});
    await this.#writing.settled();
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
      this.#others = spent.filter(({ id }) => !id.endsWith(this.#server));
    };
    // What was changed after the last one had begun to read it may have missed.
    const loading = (this.#loading ?? Promise.resolve()).catch(() => {}).then(read)
      .finally(() => {
        if (this.#loading === loading) this.#loading = undefined;
      });
    return this.#loading = loading;
  }

  async #write(): Promise<void> {
    const day = this.#today();
    const old = (await this.#spent.list()).filter((spent) => spent.day < day);
    await this.#store.commit([
      ...old.map(({ id }): StoreRecord => ({ type: "no_document", kind: SPENT, id })),
      ...[...this.#own.values()].filter((spent) => spent.day === day).map((value): StoreRecord => ({
        type: "document",
        kind: SPENT,
        id: `${value.name} ${this.#server}`,
        value,
      })),
    ]);
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

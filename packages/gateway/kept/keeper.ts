import type { ConversationStore, FoundConversation } from "@tare/conversation";
import type { Protocol, RequestReaders } from "@tare/wire";
import { chainTo } from "../sessions/chain_index.ts";
import type { Recognised } from "../sessions/recognised.ts";
import { type GatewaySession, neverSaved } from "../sessions/session.ts";
import type { Sessions } from "../sessions/sessions.ts";
import { namesOf, soughtNames } from "./conversation_names.ts";
import { keptValue, type RestoredSession, restoreSession } from "./kept_session.ts";
import { JsonPacker, refsIn, unpackJson } from "./packed_json.ts";

/** How long nobody waits after it has failed or taken too long, in milliseconds. */
const PAUSE_MS = 10_000;

/** How long the end of a process waits. */
const CLOSE_MS = 2_000;

const HOUR_MS = 60 * 60_000;

/** So many conversations are loaded: of those that are meant, else of those that may be. */
const LOADED = { own: 4, alike: 8 };

/** So many sessions wait at most until the store takes them again; those beyond are kept with their next turn. */
const MAX_WAITING = 1_000;

/** What a {@linkcode Keeper} works with. */
export interface KeeperOptions {
  readonly store: ConversationStore;
  readonly sessions: Sessions;
  /** How long a conversation is kept after its last turn, in milliseconds. */
  readonly keepMs: number;
  /** Most bytes that all take in the store. */
  readonly keepBytes: number;
  /** How long a request waits for what is kept, and the end of an answer until it is kept, in milliseconds. */
  readonly waitMs: number;
  /** Told of a session that was read. */
  readonly restored: (session: RestoredSession["session"]) => void;
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

/**
 * Keeps sessions in a store, so that the next process, or another one beside it, sends the same bytes. A store that is
 * slow, full or away costs nobody an answer: requests go on with what is in memory.
 */
export class Keeper {
  readonly #options: KeeperOptions;
  /** Being written, and whether they have changed since. */
  readonly #saving = new Map<GatewaySession, { again: boolean; done: Promise<void> }>();
  /** Not in the store as they are, because it failed. */
  readonly #waiting = new Set<GatewaySession>();
  readonly #packers = new WeakMap<GatewaySession, JsonPacker>();
  /** Whose turns may still be under way. */
  readonly #forgotten = new WeakSet<GatewaySession>();
  #isTold = false;
  /** By the clock that only goes on. */
  #pausedUntilMs = -Infinity;
  #expireAtMs = -Infinity;
  #expiring: Promise<unknown> = Promise.resolve();

  /** Nothing was read or written yet. */
  constructor(options: KeeperOptions) {
    this.#options = options;
  }

  /** Reads what is kept of a request's conversation, if it isn't known here, or others may know more. Never rejects. */
  async look(recognised: Recognised, looking: Looking): Promise<void> {
    const { store, sessions, waitMs } = this.#options;
    if (!store.isShared && sessions.knows(recognised)) return;
    if (this.#isPaused) return;
    const { own, alike } = soughtNames(recognised, looking);
    await this.#within(waitMs, async (isLate) => {
      const sure = await store.find(own, LOADED.own);
      const meant = sure.length > 0 ? sure : await store.find(alike, LOADED.alike);
      const isNews = ({ id, version }: FoundConversation) => {
        const known = sessions.peek(id);
        return !known || known.kept.version < version && !this.#saving.has(known);
      };
      const loaded = await Promise.all(
        meant.filter(isNews).map(({ id }) => this.#load(id, recognised, looking)),
      );
      if (isLate()) return;
      // What is most surely meant comes last, and so does what was saved last.
      for (const restored of loaded.reverse()) {
        if (!restored || !isNews({ ...restored.session.kept, id: restored.session.id })) continue;
        sessions.adopt(restored);
        this.#options.restored(restored.session);
      }
    });
  }

  /** Keeps a session as it is now. Resolves once it is kept, or after a short while. Never rejects. */
  async save(session: GatewaySession): Promise<void> {
    if (this.#forgotten.has(session)) return;
    const saved = this.#save(session);
    if (this.#isPaused) return;
    await this.#within(this.#options.waitMs, () => saved);
  }

  /**
   * Lets nobody find again what is kept of a session: without names it is nobody's, and goes with the next that expires.
   *
   * @throws {StoreError}
   */
  async forget(session: GatewaySession): Promise<void> {
    this.#forgotten.add(session);
    this.#waiting.delete(session);
    await this.#saving.get(session)?.done;
    if (session.kept.version > 0) await this.#options.store.save({ id: session.id, names: [], value: null });
  }

  /** Waits until all is kept, for a while. Never rejects. */
  async close(): Promise<void> {
    for (const session of this.#waiting) this.#save(session);
    const saved = Array.from(this.#saving.values(), ({ done }) => done);
    await this.#within(CLOSE_MS, () => Promise.all([...saved, this.#expiring]));
  }

  get #isPaused(): boolean {
    return performance.now() < this.#pausedUntilMs;
  }

  async #load(
    id: string,
    recognised: Recognised,
    { protocol, readers }: Looking,
  ): Promise<RestoredSession | undefined> {
    const { store } = this.#options;
    const stored = await store.load(id);
    if (!stored) return undefined;
    const needed = refsIn(stored.value);
    const texts = await store.texts(id, needed);
    const value = unpackJson(stored.value, texts);
    return restoreSession(value, {
      ...{ id, version: stored.version, recognised, protocol, readers, refs: new Set(needed) },
      text: async (ref) => (await store.texts(id, [ref])).get(ref),
    });
  }

  /** Writes a session, one version after the other. Resolves once it is written as it is now, or failed. */
  #save(session: GatewaySession): Promise<void> {
    const saving = this.#saving.get(session);
    if (saving) {
      saving.again = true;
      return saving.done;
    }
    const state = { again: false, done: Promise.resolve() };
    const startedMs = performance.now();
    const work = async () => {
      do {
        state.again = false;
        await this.#write(session);
      } while (state.again);
      this.#waiting.delete(session);
    };
    this.#saving.set(session, state);
    state.done = work().then(() => {
      this.#saving.delete(session);
      this.#works(performance.now() - startedMs <= this.#options.waitMs);
    }, (error) => {
      this.#saving.delete(session);
      this.#wait(session);
      this.#fails(error);
    });
    return state.done;
  }

  async #write(session: GatewaySession): Promise<void> {
    const { store, sessions } = this.#options;
    const { id } = session;
    const keys = chainTo(session.tip).map(({ key }) => key);
    const { names, ends } = namesOf(session, keys);
    const instructions = sessions.instructionsOf(keys.slice(0, session.heads));
    const { version: before, refs, parent } = session.kept;
    const packer = this.#packers.get(session) ?? new JsonPacker();
    this.#packers.set(session, packer);
    const packed = packer.pack(keptValue(session, { keys, instructions, ends }), refs);
    const all = [
      ...packed.texts,
      ...Array.from(session.archive.texts(), ([ref, content]) => ({ ref, content })),
    ];
    const texts = all.filter(({ ref }) => !refs.has(ref));
    const version = await store.save({
      ...{ id, names, value: packed.value, texts },
      ...(parent !== undefined && { parent }),
    });
    const isWhole = version > 1 || before === 0;
    const now = isWhole ? refs : neverSaved().refs;
    if (isWhole) { for (const { ref } of texts) now.add(ref); }
    session.kept = { version, refs: now, ends };
    // It had expired, and with it the texts that were there.
    if (!isWhole) await this.#write(session);
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
    // One after the other: each that is written lets the next one follow.
    const [next] = this.#waiting;
    if (next) {
      this.#waiting.delete(next);
      this.#save(next);
    }
    const { store, keepMs, keepBytes, now } = this.#options;
    if (performance.now() < this.#expireAtMs) return;
    this.#expireAtMs = performance.now() + HOUR_MS;
    const limits = { beforeMs: now() - keepMs, maxBytes: keepBytes };
    this.#expiring = store.expire(limits).catch((error) => this.#fails(error));
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

  /** Does what may take long, or fail: after so long it is left to itself. */
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

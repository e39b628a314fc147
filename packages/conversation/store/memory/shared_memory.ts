import { promiseOf } from "../json_text.ts";
import type { Hold, HolderRequest, SharedStore, Store } from "../port.ts";
import { fencedError, noSessionError, notAskedError } from "../store_error.ts";
import { type Held, type memoryStore, noTables, openTables } from "./memory_store.ts";

/** A store that others have open too, as one process has it. */
export interface SharedOpening {
  readonly store: Store & { readonly shared: SharedStore };
  /** Stops the process: nothing that it asks of the store is done, and it is told nothing. */
  readonly pause: () => void;
  /** Lets it go on. What it asked for is done now, as far as it may be. */
  readonly wake: () => void;
  /** Ends the process as `SIGKILL` does. What it waits for never comes. */
  readonly kill: () => void;
}

/** What an opening is as long as its lease is renewed in time. */
interface Owner {
  expiresAtMs: number;
  /** Whether another opening has taken something from it. */
  isDead: boolean;
}

interface Opening {
  owner: Owner;
  listener?: Parameters<SharedStore["listen"]>[0];
  readonly holds: Map<string, { readonly hold: Hold; readonly controller: AbortController; isHeld: boolean }>;
  readonly watchers: Map<string, Set<() => void>>;
  /** Lets those go on who wait for the process. Absent: it runs. */
  paused?: PromiseWithResolvers<void> | undefined;
  isKilled: boolean;
}

interface Asked {
  readonly request: HolderRequest;
  /** Who was asked. */
  readonly owner: object;
  readonly resolve: (answer: { readonly answer: unknown } | undefined) => void;
  /** As JSON. */
  answer?: string;
}

/** An empty store in memory that several can have open. An opening that is lost keeps its sessions for `leaseMs`. */
export function sharedMemory({ leaseMs = 10_000 }: { readonly leaseMs?: number } = {}): {
  /** Opens it once more. */
  readonly open: (options?: Parameters<typeof memoryStore>[0]) => SharedOpening;
  /** Lets so many milliseconds go by. The leases of those that are neither paused nor killed are renewed then. */
  readonly pass: (ms: number) => void;
} {
  const tables = noTables();
  const openings = new Set<Opening>();
  const asks = new Map<string, Asked>();
  let nowMs = 0;

  const newOwner = (): Owner => ({ expiresAtMs: nowMs + leaseMs, isDead: false });
  const isThere = (owner: object) => {
    const { isDead, expiresAtMs } = owner as Owner;
    return !isDead && nowMs < expiresAtMs;
  };
  const named = (id: string): { readonly held: Held; readonly events: readonly unknown[] } => {
    const session = tables.sessions.get(id);
    if (!session) throw noSessionError(id);
    return session;
  };
  /** Waits until the process runs. */
  const running = async ({ paused, isKilled }: Opening): Promise<void> => {
    await (isKilled ? new Promise<void>(() => {}) : paused?.promise);
  };
  /** Calls a process back, once it runs. */
  const tell = (opening: Opening, call: () => void) => {
    running(opening).then(() => openings.has(opening) && call());
  };
  /** Settles what was asked of those who have answered, or don't hold the session any more. */
  const settle = () => {
    for (const [id, { request, owner, answer, resolve }] of asks) {
      const isOpen = tables.sessions.get(request.sessionId)?.held.holder === owner && isThere(owner);
      if (answer === undefined && isOpen) continue;
      asks.delete(id);
      resolve(answer === undefined ? undefined : { answer: JSON.parse(answer) });
    }
  };
  const changed = (ids: Iterable<string>) => {
    settle();
    for (const id of new Set(ids)) {
      for (const opening of openings) {
        for (const watcher of opening.watchers.get(id) ?? []) {
          tell(opening, () => opening.watchers.get(id)?.has(watcher) && watcher());
        }
      }
    }
  };
  /** What an opening does every now and then: it renews its lease, or finds that it was lost. */
  const beat = (opening: Opening) => {
    if (!opening.owner.isDead) {
      opening.owner.expiresAtMs = nowMs + leaseMs;
      return;
    }
    opening.owner = newOwner();
    const lost = [...opening.holds.values()];
    opening.holds.clear();
    for (const { controller } of lost) controller.abort();
  };
  const tellGone = (gone: Opening) => {
    for (const opening of openings) if (opening !== gone) tell(opening, () => opening.listener?.gone());
  };

  const open = (options: Parameters<typeof memoryStore>[0] = {}): SharedOpening => {
    const opening: Opening = {
      owner: newOwner(),
      holds: new Map(),
      watchers: new Map(),
      isKilled: false,
    };
    openings.add(opening);
    const enter = async <T>(act: () => T): Promise<T> => {
      await running(opening);
      if (openings.has(opening)) beat(opening);
      const result = await promiseOf(act);
      await running(opening);
      return result;
    };
    /** The session that is held for the commit that is being written. */
    let brief: string | undefined;
    const { store, write } = openTables(tables, options, {
      owner: () => opening.owner,
      isThere,
      enter,
      assertHeld(id, { holder }) {
        if (holder !== opening.owner && id !== brief) throw fencedError(id);
      },
      answer(requestId, json) {
        const asked = asks.get(requestId);
        if (!asked || asked.answer !== undefined) throw notAskedError(requestId);
        asked.answer = json;
        return () => delete asked.answer;
      },
      changed,
    });
    const hold = (id: string): Hold | undefined => {
      const { held } = named(id);
      const { owner, holds } = opening;
      if (held.holder === owner) return holds.get(id)?.hold;
      if (held.holder && isThere(held.holder)) return undefined;
      if (held.holder) (held.holder as Owner).isDead = true;
      const controller = new AbortController();
      const kept = {
        hold: {
          fence: held.take(owner),
          signal: controller.signal,
          isSure: () => kept.isHeld && !controller.signal.aborted && isThere(owner),
        },
        controller,
        isHeld: true,
      };
      holds.set(id, kept);
      changed([id]);
      return kept.hold;
    };
    const release = (id: string) => {
      const session = tables.sessions.get(id);
      const kept = opening.holds.get(id);
      if (kept) kept.isHeld = false;
      opening.holds.delete(id);
      if (session?.held.holder !== opening.owner) return;
      session.held.release();
      changed([id]);
    };
    const shared: SharedStore = {
      hold: (id) => enter(() => hold(id)),
      commitBriefly: ({ sessionId, fence, records }) =>
        enter(() => {
          if (!openings.has(opening)) throw new Error("Cannot use the store: it is closed");
          const makes = records.some((record) => record.type === "session" && record.id === sessionId);
          const before = makes ? undefined : named(sessionId).held;
          if ((before?.fence ?? 0) !== fence || (before?.holder && isThere(before.holder))) return undefined;
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
      look: (id) =>
        enter(() => {
          const { held: { fence, holder }, events: { length: lastEvent } } = named(id);
          if (!holder) return { fence, holder: "nobody", lastEvent };
          if (holder === opening.owner) return { fence, holder: "this", lastEvent };
          return { fence, holder: isThere(holder) ? "other" : "left", lastEvent };
        }),
      left: () =>
        enter(() =>
          [...tables.sessions].flatMap(([id, { held: { holder } }]) => holder && !isThere(holder) ? [id] : [])
        ),
      watch(id, watcher) {
        const watchers = opening.watchers.get(id) ?? new Set();
        opening.watchers.set(id, watchers.add(watcher));
        return () => {
          watchers.delete(watcher);
          if (watchers.size === 0) opening.watchers.delete(id);
        };
      },
      async ask(sessionId, body) {
        const text = JSON.stringify(body);
        const answer = await enter(() => {
          const { holder } = named(sessionId).held;
          const holding = [...openings].find(({ owner }) => owner === holder);
          if (!holding || !isThere(holding.owner)) return { answer: undefined };
          const request = { id: crypto.randomUUID(), sessionId, body: JSON.parse(text) };
          const { promise, resolve } = Promise.withResolvers<{ readonly answer: unknown } | undefined>();
          asks.set(request.id, { request, owner: holding.owner, resolve });
          tell(holding, () => holding.owner === holder && holding.listener?.asked(request));
          return { answer: promise };
        });
        const told = await answer.answer;
        await running(opening);
        return told;
      },
      listen: (listener) => void (opening.listener = listener),
    };
    const close = async () => {
      await store.close();
      if (!openings.delete(opening)) return;
      for (const id of [...opening.holds.keys()]) release(id);
      opening.owner.isDead = true;
      settle();
      tellGone(opening);
    };
    return {
      store: { ...store, shared, close },
      pause: () => void (opening.paused ??= Promise.withResolvers()),
      wake() {
        opening.paused?.resolve();
        opening.paused = undefined;
        tell(opening, () => beat(opening));
      },
      kill: () => void (opening.isKilled = true),
    };
  };
  return {
    open,
    pass(ms) {
      nowMs += ms;
      const gone: Opening[] = [];
      for (const opening of openings) {
        const wasThere = nowMs - ms < opening.owner.expiresAtMs;
        if (!opening.paused && !opening.isKilled) beat(opening);
        else if (wasThere && !isThere(opening.owner)) gone.push(opening);
      }
      gone.forEach(tellGone);
      changed(tables.sessions.keys());
    },
  };
}

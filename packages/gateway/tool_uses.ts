import type { Store } from "@tare/session";
import { LRUCache } from "lru-cache";

const KIND = "tool_uses";

/** Sessions of a client after which calls of its tools are first evaluated. */
const LEAST_SESSIONS = 4;

/** Share of sessions that call a tool from which it is not deferred: a lookup then costs more than its definition. */
const CALLED_SHARE = 0.25;

const MAX_HELD = 1_000;

/** Calls of a tool set in a client's sessions. Plain data. */
interface Uses {
  readonly sessions: number;
  /** Number of sessions that called a tool, by its name. */
  readonly called: Readonly<Record<string, number>>;
  /** Names of the tools that are not deferred, as of the newest evaluation. */
  readonly inFront: readonly string[];
  readonly lastMs: number;
}

export interface ToolUsesOptions {
  /** Default: counts end with the process. */
  readonly store?: Pick<Store, "listDocuments" | "commit"> | undefined;
  /** Storage time after the newest session, in milliseconds. */
  readonly maxAgeMs: () => number;
  /** Longest wait for the stored counts, once, and for their last write, in milliseconds. */
  readonly waitMs: number;
  readonly now: () => number;
  readonly onFailure: (error: unknown) => void;
}

/**
 * Counts the calls of tools over the sessions of a client, to find those that it usually calls. They are evaluated when
 * the number of sessions doubles, so that the prompts of successive sessions begin alike.
 */
export class ToolUses {
  readonly #options: ToolUsesOptions;
  readonly #held = new LRUCache<string, Uses>({ max: MAX_HELD });
  #loaded: Promise<void> | undefined;
  #written: Promise<void> = Promise.resolve();

  constructor(options: ToolUsesOptions) {
    this.#options = options;
  }

  /** Returns the names of the tools that sessions with this tool set usually call. */
  async inFront(key: string): Promise<readonly string[]> {
    await (this.#loaded ??= atMost(this.#options.waitMs, this.#load()));
    return evaluated(this.#uses(key)).inFront;
  }

  /** Counts a new session. */
  began(key: string): void {
    const { sessions, ...uses } = evaluated(this.#uses(key));
    this.#write(key, { ...uses, sessions: sessions + 1 });
  }

  /** Counts tools that a session calls for the first time. */
  called(key: string, names: readonly string[]): void {
    const { called, ...uses } = this.#uses(key);
    const more = names.map((name) => [name, (called[name] ?? 0) + 1]);
    this.#write(key, { ...uses, called: { ...called, ...Object.fromEntries(more) } });
  }

  async close(): Promise<void> {
    await atMost(this.#options.waitMs, this.#written);
  }

  #uses(key: string): Uses {
    return this.#held.get(key) ?? { sessions: 0, called: {}, inFront: [], lastMs: 0 };
  }

  async #load(): Promise<void> {
    const { store, now, maxAgeMs, onFailure } = this.#options;
    try {
      const expired: string[] = [];
      for (const { id, value } of await store?.listDocuments(KIND, () => {}) ?? []) {
        const uses = value as Uses;
        if (uses.lastMs < now() - maxAgeMs()) expired.push(id);
        // Requests that didn't wait may have counted in the meantime.
        else if (!this.#held.has(id)) this.#held.set(id, uses);
      }
      if (expired.length === 0) return;
      await store?.commit(expired.map((id) => ({ type: "delete_document", kind: KIND, id } as const)));
    } catch (error) {
      onFailure(error);
    }
  }

  #write(key: string, uses: Uses): void {
    const { store, now, onFailure } = this.#options;
    const value: Uses = { ...uses, lastMs: now() };
    this.#held.set(key, value);
    if (!store) return;
    const commit = () => store.commit([{ type: "document", kind: KIND, id: key, value }]);
    this.#written = this.#written.then(commit).catch(onFailure);
  }
}

async function atMost(ms: number, work: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => timer = setTimeout(resolve, ms));
  await Promise.race([work, late]);
  clearTimeout(timer);
}

function evaluated(uses: Uses): Uses {
  const { sessions, called } = uses;
  if (sessions < LEAST_SESSIONS || !Number.isInteger(Math.log2(sessions))) return uses;
  const inFront = Object.keys(called).filter((name) => called[name]! >= CALLED_SHARE * sessions).sort();
  return { ...uses, inFront };
}

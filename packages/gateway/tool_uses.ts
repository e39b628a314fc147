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
  readonly store?: Pick<Store, "getDocument" | "listDocuments" | "commit"> | undefined;
  /** Storage time after the newest session, in milliseconds. */
  readonly maxAgeMs: () => number;
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

  constructor(options: ToolUsesOptions) {
    this.#options = options;
  }

  /** Returns the names of the tools that sessions with this tool set usually call. */
  async inFront(key: string): Promise<readonly string[]> {
    await this.#load(key);
    return evaluated(this.#uses(key)).inFront;
  }

  /** Counts a new session. */
  async began(key: string): Promise<void> {
    await this.#load(key);
    const { sessions, ...uses } = evaluated(this.#uses(key));
    await this.#write(key, { ...uses, sessions: sessions + 1 });
  }

  /** Counts tools that a session calls for the first time. */
  async called(key: string, names: readonly string[]): Promise<void> {
    await this.#load(key);
    const { called, ...uses } = this.#uses(key);
    const more = names.map((name) => [name, (called[name] ?? 0) + 1]);
    await this.#write(key, { ...uses, called: { ...called, ...Object.fromEntries(more) } });
  }

  #uses(key: string): Uses {
    return this.#held.get(key) ?? { sessions: 0, called: {}, inFront: [], lastMs: 0 };
  }

  async #load(key: string): Promise<void> {
    const { store, onFailure } = this.#options;
    if (this.#held.has(key)) return;
    const document = await store?.getDocument(KIND, key).catch(onFailure);
    // Another request may have counted in the meantime.
    if (document && !this.#held.has(key)) this.#held.set(key, document.value as Uses);
  }

  async #write(key: string, uses: Uses): Promise<void> {
    const { store, now, maxAgeMs, onFailure } = this.#options;
    const value = { ...uses, lastMs: now() };
    const isNew = uses.sessions === 1;
    this.#held.set(key, value);
    try {
      const old = isNew ? await store?.listDocuments(KIND, () => {}) ?? [] : [];
      const expired = old.filter(({ value }) => (value as Uses).lastMs < now() - maxAgeMs());
      await store?.commit([
        ...expired.map(({ id }) => ({ type: "delete_document", kind: KIND, id } as const)),
        { type: "document", kind: KIND, id: key, value },
      ]);
    } catch (error) {
      onFailure(error);
    }
  }
}

function evaluated(uses: Uses): Uses {
  const { sessions, called } = uses;
  if (sessions < LEAST_SESSIONS || !Number.isInteger(Math.log2(sessions))) return uses;
  const inFront = Object.keys(called).filter((name) => called[name]! >= CALLED_SHARE * sessions).sort();
  return { ...uses, inFront };
}

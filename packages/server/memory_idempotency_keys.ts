import type { IdempotencyKey, IdempotencyKeys } from "@tare/store";

interface Entry {
  readonly bodyHash: string;
  /** JSON text; absent while the request is being worked on. */
  readonly response?: string;
}

/**
 * Idempotency keys in memory, for as long as the process lives: at most `maxKeys` (default 1,000), the oldest are
 * forgotten first, and never one that is being worked on. Nothing is forgotten with its session.
 */
export function memoryIdempotencyKeys(maxKeys = 1000): IdempotencyKeys {
  const entries = new Map<string, Entry>();
  const nameOf = ({ scope, key }: IdempotencyKey) => JSON.stringify([scope, key]);
  return {
    claim({ bodyHash, ...key }) {
      const entry = entries.get(nameOf(key));
      if (!entry) {
        entries.set(nameOf(key), { bodyHash });
        return { state: "new" };
      }
      if (entry.bodyHash !== bodyHash) return { state: "mismatch" };
      if (entry.response === undefined) return { state: "running" };
      return { state: "done", response: JSON.parse(entry.response) };
    },
    complete(key, { response }) {
      const name = nameOf(key);
      const entry = entries.get(name);
      if (!entry) throw new Error(`Cannot keep the response to ${name}: nobody has claimed it.`);
      // Behind all others, so that the map's order is that of their age.
      entries.delete(name);
      entries.set(name, { ...entry, response: JSON.stringify(response) });
      for (const [oldest, { response }] of entries) {
        if (entries.size <= maxKeys) break;
        if (response !== undefined) entries.delete(oldest);
      }
    },
    release: (key) => void entries.delete(nameOf(key)),
  };
}

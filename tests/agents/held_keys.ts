/** Keys of cached prefixes, until they were unused for a time. */
export class HeldKeys {
  readonly #usedMs = new Map<string, number>();
  readonly #ttlMs: number;
  readonly #now: () => number;

  constructor({ ttlMs, now }: { readonly ttlMs: number; readonly now: () => number }) {
    this.#ttlMs = ttlMs;
    this.#now = now;
  }

  has(key: string): boolean {
    const usedMs = this.#usedMs.get(key);
    return usedMs !== undefined && this.#now() - usedMs <= this.#ttlMs;
  }

  /** Stores a key or refreshes it. */
  add(key: string): void {
    this.#usedMs.set(key, this.#now());
  }
}

import { PrefixCache, type Profile } from "@tare/planner";

/** Units that one cache remembers: at up to 16 tokens each some 4 million tokens, in about 100 MB. */
const MAX_UNITS = 250_000;

/** Caches that are kept; the one not used for longest goes first. */
const MAX_CACHES = 16;

/** The prefix caches of a provider: one for each API key and model, as neither may see what another has sent. */
export class ProviderCaches {
  readonly #profile: Profile;
  readonly #caches = new Map<string, PrefixCache>();

  constructor(profile: Profile) {
    this.#profile = profile;
  }

  /** The cache for this key and model. */
  of(key: string, model: string): PrefixCache {
    const id = JSON.stringify([key, model]);
    const cache = this.#caches.get(id) ?? new PrefixCache(this.#profile, { maxUnits: MAX_UNITS });
    // A Map keeps the order of insertion: what was used last moves to the end.
    this.#caches.delete(id);
    this.#caches.set(id, cache);
    for (const oldest of this.#caches.keys()) {
      if (this.#caches.size <= MAX_CACHES) break;
      this.#caches.delete(oldest);
    }
    return cache;
  }
}

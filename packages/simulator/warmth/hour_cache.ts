import type { Usage } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { PrefixCache, type PromptUnit } from "@tare/planner/internal/parts";
import { HOUR_PROFILE } from "../economy/assumptions.ts";

/** How a request asks for its prompt to be cached. */
export interface Marks {
  /** Units in front that are to last for an hour. Default: none. */
  readonly hourUnits?: number;
  /** Units that are written at all. Default: all. */
  readonly markedUnits?: number;
}

/** Anthropic's cache as documented: entries of five minutes and of an hour, the longest prefix served and extended. */
export class HourCache {
  readonly #short: PrefixCache;
  readonly #hour = new PrefixCache(HOUR_PROFILE);
  readonly #grants: boolean;

  /** An empty cache. Where an hour isn't granted, what asks for it is written for five minutes, and only the bill says so. */
  constructor(profile: Profile, { grants = true }: { readonly grants?: boolean } = {}) {
    this.#short = new PrefixCache(profile);
    this.#grants = grants;
  }

  /** Answers a request, and says what its prompt took. */
  serve(units: readonly PromptUnit[], atMs: number, marks: Marks = {}): Omit<Usage, "outputTokens"> {
    const { markedUnits = units.length } = marks;
    const hourUnits = this.#grants ? marks.hourUnits ?? 0 : 0;
    const promptTokens = tokensOf(units, units.length);
    const heldForAnHour = this.#hour.held(units, atMs, units.map((_, at) => at + 1));
    const cachedTokens = Math.max(this.#short.lookup(units, atMs), this.#hour.lookup(units, atMs));
    const hourWriteTokens = Math.max(0, tokensOf(units, hourUnits) - cachedTokens);
    const cacheWriteTokens = Math.max(0, tokensOf(units, markedUnits) - cachedTokens);
    this.#short.store(units.slice(0, markedUnits), atMs);
    this.#hour.store(units.slice(0, hourUnits), atMs);
    // A read is a use.
    let held = 0;
    const read = units.findIndex(({ tokens }) => (held += tokens) > heldForAnHour);
    this.#hour.store(units.slice(0, read < 0 ? units.length : read), atMs);
    return { promptTokens, cachedTokens, cacheWriteTokens, hourWriteTokens };
  }
}

function tokensOf(units: readonly PromptUnit[], to: number): number {
  return units.slice(0, to).reduce((sum, { tokens }) => sum + tokens, 0);
}

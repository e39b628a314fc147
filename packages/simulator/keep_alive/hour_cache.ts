import type { Usage } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { PrefixCache, type PromptUnit } from "@tare/planner/internal/parts";
import { HOUR_PROFILE } from "../economy/assumptions.ts";

export interface Breakpoints {
  /** Leading units cached for an hour. Default: 0. */
  readonly hourUnits?: number;
  /** Leading units cached at all. Default: all. */
  readonly markedUnits?: number;
}

/** Anthropic's documented cache: entries of five minutes and of an hour; the longest cached prefix is read and renewed. */
export class HourCache {
  readonly #short: PrefixCache;
  readonly #hour = new PrefixCache(HOUR_PROFILE);
  readonly #grants: boolean;

  /** Creates an empty cache. If `grants` is false, one-hour writes last five minutes, visible only in the bill. Default: true. */
  constructor(profile: Profile, { grants = true }: { readonly grants?: boolean } = {}) {
    this.#short = new PrefixCache(profile);
    this.#grants = grants;
  }

  /** Serves a request; returns the usage of its prompt. */
  serve(
    units: readonly PromptUnit[],
    atMs: number,
    breakpoints: Breakpoints = {},
  ): Omit<Usage, "outputTokens"> {
    const { markedUnits = units.length } = breakpoints;
    const hourUnits = this.#grants ? breakpoints.hourUnits ?? 0 : 0;
    const promptTokens = tokensOf(units, units.length);
    const heldForAnHour = this.#hour.held(units, atMs, units.map((_, at) => at + 1));
    const cachedTokens = Math.max(this.#short.lookup(units, atMs), this.#hour.lookup(units, atMs));
    const hourWriteTokens = Math.max(0, tokensOf(units, hourUnits) - cachedTokens);
    const cacheWriteTokens = Math.max(0, tokensOf(units, markedUnits) - cachedTokens);
    this.#short.store(units.slice(0, markedUnits), atMs);
    this.#hour.store(units.slice(0, hourUnits), atMs);
    // A cache read renews the entry.
    let held = 0;
    const read = units.findIndex(({ tokens }) => (held += tokens) > heldForAnHour);
    this.#hour.store(units.slice(0, read < 0 ? units.length : read), atMs);
    return { promptTokens, cachedTokens, cacheWriteTokens, hourWriteTokens };
  }
}

function tokensOf(units: readonly PromptUnit[], to: number): number {
  return units.slice(0, to).reduce((sum, { tokens }) => sum + tokens, 0);
}

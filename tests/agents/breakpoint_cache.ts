import type { HeldKeys } from "./held_keys.ts";
import type { CallUsage, Piece } from "./protocols/protocol.ts";

/** Most pieces that a provider looks back from a breakpoint. */
const LOOK_BACK = 20;

const MIN_TOKENS = 1024;

/**
 * Anthropic's cache: stores prefixes up to breakpoints, and serves the longest one at most 20 pieces before
 * a breakpoint.
 */
export class BreakpointCache {
  readonly #held: HeldKeys;

  constructor(held: HeldKeys) {
    this.#held = held;
  }

  /** Returns the cache reads and writes of a prompt, whose pieces have `sizes` tokens, and stores it. */
  serve(
    pieces: readonly Piece[],
    { sizes, model }: { readonly sizes: readonly number[]; readonly model: string },
  ): Omit<CallUsage, "output"> {
    const breakpoints = pieces.flatMap(({ mark }, at) => mark ? [{ at, mark }] : []);
    const ends: { readonly key: string; readonly tokens: number }[] = [];
    let key = model;
    let prompt = 0;
    for (const [at, piece] of pieces.entries()) {
      key = `${key.length + piece.key.length}:${hash(key + piece.key)}`;
      prompt += sizes[at] ?? 0;
      ends.push({ key, tokens: prompt });
    }
    let cached = 0;
    for (const { at: mark } of breakpoints) {
      for (let at = mark; at >= Math.max(0, mark - LOOK_BACK); at--) {
        const end = ends[at];
        if (!end || end.tokens < MIN_TOKENS || !this.#held.has(end.key)) continue;
        this.#held.add(end.key);
        cached = Math.max(cached, end.tokens);
      }
    }
    for (const { at } of breakpoints) this.#held.add(ends[at]?.key ?? "");
    const writtenTo = (to: typeof breakpoints) => {
      const tokens = ends[to.at(-1)?.at ?? -1]?.tokens ?? 0;
      return tokens < MIN_TOKENS ? 0 : Math.max(0, tokens - cached);
    };
    const written = writtenTo(breakpoints);
    return {
      prompt,
      cached,
      written,
      hourWritten: writtenTo(breakpoints.filter(({ mark }) => mark === "1h")),
    };
  }
}

/** Returns two FNV-1a hashes of a text. */
function hash(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x85ebca6b);
  }
  return `${(a >>> 0).toString(36)}${(b >>> 0).toString(36)}`;
}

/** Most pieces that a provider looks back from a breakpoint. */
const LOOK_BACK = 20;

/** Most breakpoints in a request. */
const MAX_BREAKPOINTS = 4;

/** Smallest prompt that is cached, in tokens. */
const MIN_TOKENS = 1024;

/** A prompt that is cached at its breakpoints. */
export interface MarkedPrompt {
  /** Tools, system blocks, blocks of messages. */
  readonly pieces: readonly string[];
  /** Tokens of each. */
  readonly sizes: readonly number[];
  /** Places of the pieces that end with a breakpoint. */
  readonly marks: readonly number[];
}

/**
 * Anthropic's cache: it holds what stands before a breakpoint, and serves a prompt from the longest such stretch that
 * ends at one of its own breakpoints or at most 20 pieces before one.
 */
export class BreakpointCache {
  readonly #held = new Set<string>();

  /** Tokens that are read from the cache. From now on it holds this prompt too. @throws over four breakpoints. */
  serve({ pieces, sizes, marks }: MarkedPrompt): number {
    if (marks.length > MAX_BREAKPOINTS) {
      throw new RangeError(
        `Cannot cache a prompt with ${marks.length} breakpoints: ${MAX_BREAKPOINTS} are the limit.`,
      );
    }
    const ends: { readonly key: string; readonly tokens: number }[] = [];
    let key = "";
    let tokens = 0;
    for (const [at, piece] of pieces.entries()) {
      key = `${key.length + piece.length}:${hash(key + piece)}`;
      tokens += sizes[at] ?? 0;
      ends.push({ key, tokens });
    }
    let cached = 0;
    for (const mark of marks) {
      for (let at = mark; at >= Math.max(0, mark - LOOK_BACK); at--) {
        const end = ends[at];
        if (end && end.tokens >= MIN_TOKENS && this.#held.has(end.key)) cached = Math.max(cached, end.tokens);
      }
    }
    for (const mark of marks) this.#held.add(ends[mark]?.key ?? "");
    return cached;
  }
}

/** FNV-1a, twice. */
function hash(text: string): string {
  let [a, b] = [0x811c9dc5, 0x9e3779b9];
  for (let i = 0; i < text.length; i++) {
    a = Math.imul(a ^ text.charCodeAt(i), 0x01000193);
    b = Math.imul(b ^ text.charCodeAt(i), 0x85ebca6b);
  }
  return `${(a >>> 0).toString(36)}${(b >>> 0).toString(36)}`;
}

import type { HeldKeys } from "./held_keys.ts";
import type { CallUsage } from "./protocols/protocol.ts";

const BLOCK = 128;

const MIN_TOKENS = 1024;

/** OpenAI's cache: stores prompts in whole blocks and serves the longest stored prefix. */
export class BlockCache {
  readonly #held: HeldKeys;

  constructor(held: HeldKeys) {
    this.#held = held;
  }

  /** Returns the cached tokens of a prompt, and stores the prompt. */
  serve(tokens: readonly number[], { model }: { readonly model: string }): Omit<CallUsage, "output"> {
    let cached = 0;
    let [a, b] = [0x811c9dc5, 0x9e3779b9];
    for (const [at, token] of tokens.entries()) {
      a = Math.imul(a ^ token, 0x01000193);
      b = Math.imul(b ^ token, 0x85ebca6b);
      const end = at + 1;
      if (end % BLOCK !== 0) continue;
      const block = `${model}:${end}:${a}:${b}`;
      // The last token is always processed.
      if (cached === end - BLOCK && end < tokens.length && this.#held.has(block)) cached = end;
      this.#held.add(block);
    }
    return { prompt: tokens.length, cached: cached < MIN_TOKENS ? 0 : cached };
  }
}

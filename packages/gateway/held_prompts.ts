import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { PrefixCache, type PromptUnit, promptUnits } from "@tare/planner/parts";

/** What a prompt takes here for each of its messages and tools, in bytes. */
const UNIT_BYTES = 200;

/** A prompt that is sent. */
export interface HeldPrompt {
  readonly client: string;
  readonly model: string;
  readonly tools: readonly ToolDefinition[];
  readonly messages: readonly Message[];
  /** Behind how many messages the provider is asked to cache it; 0 is behind the tools. Absent: it caches all of it. */
  readonly ends: readonly number[] | undefined;
  readonly countTokens: CountTokens;
}

/**
 * The prompts that providers have read, whatever session they were of, as their caches know them: up to the marks where
 * a request has some. Takes at most `maxBytes` bytes; what was used longest ago is forgotten first.
 */
export class HeldPrompts {
  readonly #cache: PrefixCache;

  /** None was read. */
  constructor({ maxBytes }: { readonly maxBytes: number }) {
    // How long each is held a session finds out by itself.
    const rules = { minTokens: 0, blockTokens: 1, ttlMs: Infinity };
    this.#cache = new PrefixCache(rules, { maxUnits: Math.ceil(maxBytes / UNIT_BYTES) });
  }

  /** Tokens with which a prompt begins like one that was read, counted here. */
  held(prompt: HeldPrompt): number {
    return this.#cache.held(unitsOf(prompt), 0, endsOf(prompt));
  }

  /** A provider has read it, at this time in milliseconds since the epoch. */
  read(prompt: HeldPrompt, nowMs: number): void {
    this.#cache.store(unitsOf(prompt), nowMs, endsOf(prompt));
  }
}

function unitsOf({ client, model, countTokens, ...prompt }: HeldPrompt): readonly PromptUnit[] {
  return [{ hash: `${client} ${model}`, tokens: 0 }, ...promptUnits(prompt, countTokens)];
}

function endsOf({ tools, ends }: HeldPrompt): readonly number[] | undefined {
  return ends?.map((end) => 1 + tools.length + end);
}

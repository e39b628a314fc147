import {
  countMessageTokens,
  type CountTokens,
  countToolTokens,
  hashBytes,
  type Message,
  type ToolDefinition,
} from "@tare/messages";
import type { Profile } from "../providers.ts";
import { servedTokens } from "./predict.ts";

/**
 * One piece of a prompt as the provider's cache sees it: a tool definition, a message, or a run of token ids.
 * Pieces with the same hash must be the same piece.
 */
export interface PromptUnit {
  /** Tells the piece from every other. */
  readonly hash: string | number;
  /** Size of the piece. */
  readonly tokens: number;
}

/**
 * A request as its provider's cache sees it: one unit for each tool, then one for each message. What is known of
 * an object is remembered, so that a growing conversation costs only what is new.
 */
export function promptUnits(
  { messages, tools }: { readonly messages: readonly Message[]; readonly tools: readonly ToolDefinition[] },
  countTokens: CountTokens,
): PromptUnit[] {
  return [
    ...tools.map((tool) => ({ hash: hashBytes(tool), tokens: countToolTokens(tool, countTokens) })),
    ...messages.map((message) => ({
      hash: hashBytes(message),
      tokens: countMessageTokens(message, countTokens),
    })),
  ];
}

/** What of a profile it goes by. */
type CacheRules = Pick<Profile, "minTokens" | "blockTokens" | "ttlMs">;

interface Node {
  readonly children: Map<string | number, Node>;
  /** Tokens from the start of the prompt to the end of this unit. */
  readonly endTokens: number;
  usedMs: number;
  /** Whether a prompt is held up to its end. */
  isEnd: boolean;
}

/** Prefix ends that a cache remembers unless told otherwise: some hundred long sessions. */
const DEFAULT_MAX_UNITS = 1_000_000;

/**
 * A provider's prefix cache as a pure model: it holds every prefix that was sent to it, not only the last,
 * honours the profile's smallest size, blocks and time to live, and forgets what was used longest ago when it is
 * full. Units stand in the provider's order: tools, system, messages.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { PrefixCache, profileNamed } from "@tare/planner";
 *
 * const cache = new PrefixCache(profileNamed("anthropic-5m"));
 * const prompt = [{ hash: "system", tokens: 2000 }, { hash: "hello", tokens: 10 }];
 * cache.store(prompt, 0);
 * assertEquals(cache.lookup([...prompt, { hash: "again", tokens: 10 }], 60_000), 2010);
 * assertEquals(cache.lookup(prompt, 60_000), 2009); // the last token is always processed
 * assertEquals(cache.lookup(prompt, 301_000), 0);
 * ```
 */
export class PrefixCache {
  readonly #profile: CacheRules;
  readonly #maxUnits: number;
  readonly #root: Node = { children: new Map(), endTokens: 0, usedMs: -Infinity, isEnd: false };
  #units = 0;

  /** An empty cache that remembers `maxUnits` units at most; default one million. */
  constructor(profile: CacheRules, options: { readonly maxUnits?: number } = {}) {
    this.#profile = profile;
    this.#maxUnits = options.maxUnits ?? DEFAULT_MAX_UNITS;
  }

  /**
   * Tokens of this prompt that are cached now.
   *
   * @param ends Behind how many units it asks for what is cached. Default: behind each.
   */
  lookup(units: readonly PromptUnit[], nowMs: number, ends?: readonly number[]): number {
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    return servedTokens(this.#profile, { promptTokens, sharedTokens: this.held(units, nowMs, ends) });
  }

  /** Tokens with which this prompt starts like those that are cached now, however few a provider would serve. */
  held(units: readonly PromptUnit[], nowMs: number, ends: readonly number[] = [units.length]): number {
    const { ttlMs } = this.#profile;
    let node = this.#root;
    let heldTokens = 0;
    for (const unit of units.slice(0, Math.max(0, ...ends))) {
      const next = node.children.get(unit.hash);
      if (!next || nowMs - next.usedMs > ttlMs) break;
      node = next;
      if (node.isEnd) heldTokens = node.endTokens;
    }
    return heldTokens;
  }

  /**
   * Remembers a prompt that was processed, and refreshes what it used.
   *
   * @param ends Behind how many units it is cached. Default: behind each.
   */
  store(units: readonly PromptUnit[], nowMs: number, ends?: readonly number[]): void {
    if (this.#profile.minTokens === Infinity) return;
    const held = ends && new Set(ends);
    let node = this.#root;
    for (const [at, unit] of units.slice(0, Math.max(0, ...ends ?? [units.length])).entries()) {
      let next = node.children.get(unit.hash);
      if (!next) {
        const endTokens = node.endTokens + unit.tokens;
        next = { children: new Map(), endTokens, usedMs: nowMs, isEnd: false };
        node.children.set(unit.hash, next);
        this.#units++;
      }
      next.usedMs = Math.max(next.usedMs, nowMs);
      next.isEnd ||= !held || held.has(at + 1);
      node = next;
    }
    if (this.#units > this.#maxUnits) this.#forget();
  }

  /** Drops the older half. A unit is never used later than the one before it, so what stays hangs together. */
  #forget(): void {
    const times: number[] = [];
    visit(this.#root, (node) => times.push(node.usedMs));
    times.sort((a, b) => a - b);
    const keptFromMs = times[times.length >> 1] ?? 0;
    this.#units = 0;
    visit(this.#root, (node) => {
      for (const [hash, child] of node.children) {
        if (child.usedMs < keptFromMs) node.children.delete(hash);
        else this.#units++;
      }
    });
    if (this.#units <= this.#maxUnits) return;
    // All of one age.
    this.#root.children.clear();
    this.#units = 0;
  }
}

/** Calls `see` for each node below `root` and `root` itself, parents first, without recursion: prompts are long. */
function visit(root: Node, see: (node: Node) => void): void {
  const pending = [root];
  for (let node = pending.pop(); node; node = pending.pop()) {
    see(node);
    for (const child of node.children.values()) pending.push(child);
  }
}

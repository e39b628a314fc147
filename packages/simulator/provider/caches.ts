import type { readCacheBreakpoints } from "@tare/wire/internal";
import type { ReadPrompt } from "./prompt_reader.ts";
import { RunningHash } from "./prompt_units.ts";

interface MarkedUsage {
  readonly cachedTokens: number;
  readonly cacheWriteTokens: number;
  readonly hourWriteTokens: number;
}

/** Blocks before a breakpoint that are searched for an entry. */
const LOOK_BACK = 20;

const HOUR_MS = 3_600_000;

const MAX_ENTRIES = 20_000;

interface Place {
  readonly name: string;
  readonly tokens: number;
  readonly blocks: number;
}

/** A cache with entries at requested breakpoints only; the longest at most 20 blocks before a breakpoint is served. */
export class MarkedCache {
  readonly #minTokens: number;
  readonly #entries = new Map<string, { usedMs: number; readonly ttlMs: number }>();

  constructor({ minTokens }: { readonly minTokens: number }) {
    this.#minTokens = minTokens;
  }

  /** Returns a prompt's cache usage. `store` adds the prompt, when the reply begins. */
  serve(
    prompt: ReadPrompt,
    { breakpoints, nowMs }: {
      readonly breakpoints: ReturnType<typeof readCacheBreakpoints>;
      readonly nowMs: number;
    },
  ): MarkedUsage & { readonly store: (nowMs: number) => void } {
    const places = placesOf(prompt);
    const isAlive = ({ name }: Place) => {
      const entry = this.#entries.get(name);
      return entry !== undefined && nowMs - entry.usedMs <= entry.ttlMs;
    };
    const marked = breakpoints.flatMap(({ of, at, ttlMs }) => {
      const place = places[of === "tool" ? at : prompt.tools.length + at];
      return place && place.tokens >= this.#minTokens ? [{ place, ttlMs }] : [];
    });
    const found = marked.flatMap(({ place }) =>
      places.filter((one) =>
        one.tokens <= place.tokens && place.blocks - one.blocks <= LOOK_BACK && isAlive(one)
      )
    );
    const endOf = (some: readonly { readonly place: Place }[]) =>
      Math.max(0, ...some.map(({ place }) => place.tokens));
    const cachedTokens = Math.max(0, ...found.map(({ tokens }) => tokens));
    const written = Math.max(0, endOf(marked) - cachedTokens);
    const hours = endOf(marked.filter(({ ttlMs }) => ttlMs >= HOUR_MS)) - cachedTokens;
    return {
      cachedTokens,
      cacheWriteTokens: written,
      hourWriteTokens: Math.max(0, hours),
      store: (storedMs) => {
        // A cache read renews the entry.
        for (const place of places) {
          const entry = this.#entries.get(place.name);
          if (entry && place.tokens <= cachedTokens && isAlive(place)) entry.usedMs = storedMs;
        }
        for (const { place, ttlMs } of marked) {
          this.#entries.delete(place.name);
          this.#entries.set(place.name, { usedMs: storedMs, ttlMs });
        }
        for (const name of this.#entries.keys()) {
          if (this.#entries.size <= MAX_ENTRIES) break;
          this.#entries.delete(name);
        }
      },
    };
  }
}

function placesOf({ units, ends, tools, messages }: ReadPrompt): Place[] {
  const hash = new RunningHash();
  const pieces = [...tools, ...messages];
  let [at, tokens, blocks] = [0, 0, 0];
  return ends.map((end, piece) => {
    for (; at < end; at++) {
      const unit = units[at];
      hash.add(unit?.hash ?? 0);
      tokens += unit?.tokens ?? 0;
    }
    const { content, tool_calls: calls, reasoning_content: thoughts } = {
      ...pieces[piece],
    } as { content?: unknown; tool_calls?: readonly unknown[]; reasoning_content?: unknown };
    blocks += Math.max(1, (content ? 1 : 0) + (thoughts ? 1 : 0) + (calls?.length ?? 0));
    return { name: `${hash.value()} ${tokens}`, tokens, blocks };
  });
}

/** Leading tokens that a prompt is routed by, rounded up to whole units. */
const ROUTED_TOKENS = 256;

/** Requests per minute with the same route that go to one machine; the others overflow. */
const REQUESTS_A_MINUTE = 15;

const MINUTE_MS = 60_000;

/**
 * Chooses the machine for a request, as documented by OpenAI: by a hash of the prompt's first tokens and the client's
 * cache key; requests beyond 15 a minute for one such pair go to other machines, here pseudo-randomly.
 *
 * https://platform.openai.com/docs/guides/prompt-caching
 */
export class ShardRouter {
  readonly #shards: number;
  readonly #times = new Map<number, number[]>();
  #drawn = 0;

  constructor(shards: number) {
    this.#shards = shards;
  }

  /** Returns the machine for a prompt, from 0; `routed` is the rest of its route. */
  shardOf(
    { units }: Pick<ReadPrompt, "units">,
    { routed, nowMs }: { readonly routed: readonly string[]; readonly nowMs: number },
  ): number {
    if (this.#shards === 1) return 0;
    const hash = new RunningHash();
    hash.addText(JSON.stringify(routed));
    let tokens = 0;
    for (const unit of units) {
      if (tokens >= ROUTED_TOKENS) break;
      tokens += unit.tokens;
      hash.add(unit.hash);
    }
    const pair = hash.value();
    for (const [other, times] of this.#times) {
      if (nowMs - (times.at(-1) ?? 0) >= MINUTE_MS) this.#times.delete(other);
    }
    const times = (this.#times.get(pair) ?? []).filter((atMs) => nowMs - atMs < MINUTE_MS);
    const home = pair % this.#shards;
    const isOver = times.length >= REQUESTS_A_MINUTE;
    if (!isOver) times.push(nowMs);
    this.#times.set(pair, times);
    return isOver ? (home + 1 + this.#draw()) % this.#shards : home;
  }

  #draw(): number {
    const hash = new RunningHash();
    hash.add(this.#drawn++);
    hash.add(this.#drawn);
    return hash.value() % (this.#shards - 1);
  }
}

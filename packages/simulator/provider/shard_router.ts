import type { ReadPrompt } from "./prompt_reader.ts";
import { RunningHash } from "./prompt_units.ts";

/** By so many tokens of its beginning, rounded up to whole units, a prompt is sent to a machine. */
const ROUTED_TOKENS = 256;

/** So many requests a minute that begin alike go to one machine; the others go wherever there is room. */
const REQUESTS_A_MINUTE = 15;

const MINUTE_MS = 60_000;

/**
 * Chooses the machine that answers a request, as OpenAI documents it: by a hash of the prompt's first tokens joined with the
 * client's key for the cache; of more than 15 requests a minute for one such pair the rest goes to others, here by a lot
 * that depends on nothing but how many were drawn before.
 *
 * https://platform.openai.com/docs/guides/prompt-caching
 */
export class ShardRouter {
  readonly #shards: number;
  /** When the requests of the last minute came, by what they are routed by. */
  readonly #times = new Map<number, number[]>();
  #drawn = 0;

  /** So many machines. */
  constructor(shards: number) {
    this.#shards = shards;
  }

  /** The machine for a prompt, from 0; `routed` is what else it is told from others by. */
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

  /** One of the other machines, from 0. */
  #draw(): number {
    const hash = new RunningHash();
    hash.add(this.#drawn++);
    hash.add(this.#drawn);
    return hash.value() % (this.#shards - 1);
  }
}

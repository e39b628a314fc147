import { countMessageTokens, type CountTokens, type Message } from "@tare/messages";
import type { Edit } from "../edits/edit.ts";
import { Layout } from "../edits/layout.ts";
import { Standings, type StandingsOptions } from "../retention/standings.ts";

/** What a planner has worked out of its session's history. It stays in memory, and is worked out again after a restart. */
export class KnownHistory {
  readonly layout: Layout;
  readonly #options: StandingsOptions & { readonly countTokens: CountTokens };
  #standings: Standings;
  /** The messages that the standings are of. */
  #taken: Message[] = [];
  /** Of each rewrite, the tokens of messages in front of it. */
  readonly #kept: number[] = [];
  #isNew: boolean;
  #judgedBy = "";

  /**
   * @param from What is known of the session that goes on here.
   */
  constructor(options: StandingsOptions & { readonly countTokens: CountTokens }, from?: KnownHistory) {
    this.#options = options;
    this.layout = new Layout(options.countTokens, from?.layout);
    this.#standings = new Standings(options);
    this.#isNew = !from;
  }

  /** How the messages stand that were looked at last. */
  get standings(): Standings {
    return this.#standings;
  }

  /** Whether a history goes on from the one that was looked at last. */
  isStartOf(history: readonly Message[]): boolean {
    return !this.#isNew && this.layout.isStartOf(history);
  }

  /** How many messages of a history are those that were looked at last; infinite if it goes on from them, or none were. */
  sharedLength(history: readonly Message[]): number {
    return this.#isNew || this.layout.isStartOf(history) ? Infinity : this.layout.sharedLength(history);
  }

  /** Reads what is new of a history, a message at each step: most of the work of looking at it. */
  *take(history: readonly Message[]): Generator<void, void> {
    if (this.#taken.some((message, at) => message !== history[at])) {
      this.#standings = new Standings(this.#options);
      this.#taken = [];
    }
    const taken = this.#taken;
    // Somebody else may look at another history meanwhile.
    while (taken === this.#taken && taken.length < history.length) {
      const message = history[taken.length]!;
      taken.push(message);
      this.#standings.add(message);
      // It is remembered, for who asks next.
      countMessageTokens(message, this.#options.countTokens);
      yield;
    }
  }

  /**
   * Takes in what is new of a history.
   *
   * @returns Tokens of messages at the start of what the model sees that are as they were; infinite if it only grew, or
   * nothing is known of what it was.
   */
  lookAt(history: readonly Message[], edits: readonly Edit[]): number {
    for (const _ of this.take(history)) { /* Each step at once. */ }
    const kept = this.layout.update(history, edits);
    const wasNew = this.#isNew;
    this.#isNew = false;
    if (wasNew || kept === Infinity) return Infinity;
    this.#kept.push(kept);
    return kept;
  }

  /** What is known to be worth carrying was judged by this: where it has changed, everything is looked at again. */
  judgeBy(basis: string): void {
    const judgedBy = `${basis} ${this.layout.version}`;
    if (judgedBy !== this.#judgedBy) this.#standings.wakeAll();
    for (const at of this.layout.changed) this.#standings.wake(at);
    this.#judgedBy = judgedBy;
  }

  /** Number of rewrites so far. */
  get rewrites(): number {
    return this.#kept.length;
  }

  /** The fewest tokens of messages that all rewrites since that many have left as they were. */
  keptSince(rewrites: number): number {
    return Math.min(Infinity, ...this.#kept.slice(rewrites));
  }
}

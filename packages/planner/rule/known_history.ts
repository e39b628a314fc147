import { countMessageTokens, type CountTokens, hashPiece, type Message } from "@tare/messages";
import type { Edit } from "../edits/edit.ts";
import { Layout } from "../edits/layout.ts";
import { Standings, type StandingsOptions } from "../retention/standings.ts";

/** What was looked at last of a history, as far as the next look may need it. Plain data. */
export interface LookedAt {
  /** Hashes of its messages. */
  readonly history: readonly number[];
  /** Tokens of all of them. */
  readonly fullTokens: number;
  /** Hashes of what the model saw of them. */
  readonly shown: readonly number[];
  /** Tokens of each of these. */
  readonly tokens: readonly number[];
}

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
  /** What was looked at before the restart; nothing once something was looked at here. */
  #before: LookedAt | undefined;
  #judgedBy = "";

  /**
   * @param from What is known of the session that goes on here.
   * @param before What was looked at last before a restart.
   */
  constructor(
    options: StandingsOptions & { readonly countTokens: CountTokens },
    { from, before }: { readonly from?: KnownHistory | undefined; readonly before?: LookedAt | undefined } =
      {},
  ) {
    this.#options = options;
    this.layout = new Layout(options.countTokens, from?.layout);
    this.#standings = new Standings(options);
    this.#isNew = from ? from.#isNew : true;
    this.#before = from ? from.#before : before;
  }

  /** What was looked at last; nothing if nothing was. */
  get lookedAt(): LookedAt | undefined {
    if (this.#isNew) return this.#before;
    const { layout } = this;
    const { messages } = layout.placed;
    return {
      history: layout.history.map(hashPiece),
      fullTokens: layout.fullTokens,
      shown: messages.map(hashPiece),
      tokens: messages.map((message) => countMessageTokens(message, this.#options.countTokens)),
    };
  }

  /** How the messages stand that were looked at last. */
  get standings(): Standings {
    return this.#standings;
  }

  /** Whether a history goes on from the one that was looked at last. */
  isStartOf(history: readonly Message[]): boolean {
    if (this.#isNew) return this.#before !== undefined && this.sharedLength(history) === Infinity;
    return this.layout.isStartOf(history);
  }

  /** How many messages of a history are those that were looked at last; infinite if it goes on from them, or none were. */
  sharedLength(history: readonly Message[]): number {
    if (!this.#isNew) return this.layout.isStartOf(history) ? Infinity : this.layout.sharedLength(history);
    const { history: before = [] } = this.#before ?? {};
    const shared = commonLength(before, history);
    return shared === before.length ? Infinity : shared;
  }

  /** Tokens of the whole history that was looked at last. */
  get lookedTokens(): number {
    return this.#isNew ? this.#before?.fullTokens ?? 0 : this.layout.fullTokens;
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
    let kept = this.layout.update(history, edits);
    if (this.#isNew) kept = this.#keptOf(this.#before);
    this.#isNew = false;
    this.#before = undefined;
    if (kept !== Infinity) this.#kept.push(kept);
    return kept;
  }

  /** Tokens at the start of what the model saw before the restart that are as they were; infinite if all are. */
  #keptOf(before: LookedAt | undefined): number {
    if (!before) return Infinity;
    const rows = commonLength(before.shown, this.layout.placed.messages);
    return rows === before.shown.length ? Infinity : before.tokens.slice(0, rows).reduce((a, b) => a + b, 0);
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

function commonLength(hashes: readonly number[], messages: readonly Message[]): number {
  const at = hashes.findIndex((hash, at) => !messages[at] || hashPiece(messages[at]) !== hash);
  return at < 0 ? hashes.length : at;
}

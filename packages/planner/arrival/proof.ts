import type { LedgerEntry } from "../ledger/entry.ts";

/** What came of one result that could be said once. Plain data. */
export type SaidOutcome = NonNullable<LedgerEntry["said"]>[number];

/** A result of which isn't known yet what comes of it. Plain data. */
export interface Trial extends Pick<SaidOutcome, "tool" | "isSaid"> {
  /** Its position in the history. */
  readonly place: number;
  /** Tells it from any other message that may come to stand there. */
  readonly hash: number;
}

/** What came of the results of one tool, with one model. Plain data. */
export interface SaidRecord {
  readonly model: string;
  readonly tool: string;
  /** Those that were said once. */
  readonly said: {
    readonly results: number;
    /** Those behind which an edit of the file that they show failed. */
    readonly failedEdits: number;
    /** Those that were read again at once. */
    readonly readAgain: number;
  };
  /** Those that were left as they came. */
  readonly untouched: SaidRecord["said"];
}

type SaidCounts = SaidRecord["said"];

const NONE: SaidCounts = { results: 0, failedEdits: 0, readAgain: 0 };

/** One in so many results stays as it came, until this many have and so many were said. */
const ONE_IN = 10;
const ENOUGH_UNTOUCHED = 300;
const ENOUGH_SAID = 3_000;

/**
 * How often a result is followed by what counts against it, as expected before anything is known: a beta distribution,
 * once in 61. Of 645 results of 26 recorded sessions, in which nothing was said once, 6 were.
 */
const PRIOR = { against: 1, forIt: 60 };

/** How many times as likely what was seen must be if saying once does harm as if it doesn't. */
const BEYOND_CHANCE = 30;

/** So many models and tools are told apart; those that come later count together. */
const MOST_RECORDS = 1_000;

/**
 * Whether results that are said once serve a model as well as those that it gets as they came: counted over all sessions
 * that share it. For a model or a tool for which they don't, beyond chance, nothing is said once any more.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { SaidProof } from "@tare/planner/parts";
 *
 * const proof = new SaidProof();
 * const untouched = { results: 60, failedEdits: 1, readAgain: 1 };
 * proof.add({ model: "m", tool: "read", said: { results: 500, failedEdits: 9, readAgain: 4 }, untouched });
 * assertEquals(proof.objection({ model: "m", tool: "read" }), undefined);
 * proof.add({ model: "m", tool: "read", said: { results: 200, failedEdits: 90, readAgain: 8 }, untouched });
 * assertEquals(
 *   proof.objection({ model: "m", tool: "read" }),
 *   "of 700 that were said once 111 were followed by a failed edit or read again at once, of 120 left as they came 4",
 * );
 * ```
 */
export class SaidProof {
  readonly #records = new Map<string, SaidRecord>();
  readonly #objections = new Map<string, string | undefined>();

  /** What came of results, by model and tool. */
  get records(): readonly SaidRecord[] {
    return [...this.#records.values()];
  }

  /** Takes what came of more results. */
  add(
    { model, tool, said = NONE, untouched = NONE }: Pick<SaidRecord, "model" | "tool"> & Partial<SaidRecord>,
  ): void {
    const named = keyOf({ model, tool });
    const isNew = !this.#records.has(named);
    const its = isNew && this.#records.size >= MOST_RECORDS ? { model: "", tool: "" } : { model, tool };
    const key = keyOf(its);
    const before = this.#records.get(key) ?? { ...its, said: NONE, untouched: NONE };
    this.#records.set(key, {
      ...before,
      said: sum(before.said, said),
      untouched: sum(before.untouched, untouched),
    });
    this.#objections.clear();
  }

  /**
   * Why results of a tool come as they are for a model, in words; nothing as long as they may be said once. Harm to one
   * model counts over all its tools, and that of one tool over all models.
   */
  objection(which: Pick<SaidRecord, "model" | "tool">): string | undefined {
    const key = keyOf(which);
    if (!this.#objections.has(key)) this.#objections.set(key, this.#object(which));
    return this.#objections.get(key);
  }

  /** Whether a result that could be said once stays as it came, to compare with, by a number that is as good as random. */
  staysUntouched({ model }: Pick<SaidRecord, "model">, random: number): boolean {
    if (random % ONE_IN !== 0) return false;
    const { said, untouched } = this.#sumUp((one) => one.model === model);
    return said.results < ENOUGH_SAID || untouched.results < ENOUGH_UNTOUCHED;
  }

  #object({ model, tool }: Pick<SaidRecord, "model" | "tool">): string | undefined {
    const shares = [
      this.#sumUp((one) => one.model === model),
      this.#sumUp((one) => one.tool === tool),
    ];
    const harmed = shares.find((one) => evidenceOfHarm(one) > BEYOND_CHANCE);
    if (!harmed) return undefined;
    const { said, untouched } = harmed;
    return `of ${said.results} that were said once ${
      against(said)
    } were followed by a failed edit or read again at ` +
      `once, of ${untouched.results} left as they came ${against(untouched)}`;
  }

  #sumUp(isMeant: (record: SaidRecord) => boolean): Pick<SaidRecord, "said" | "untouched"> {
    return this.records.filter(isMeant).reduce(
      (all, { said, untouched }) => ({ said: sum(all.said, said), untouched: sum(all.untouched, untouched) }),
      { said: NONE, untouched: NONE },
    );
  }
}

/** What came of one result, as {@linkcode SaidProof.add} takes it. */
export function recordOf({ tool, isSaid, came }: SaidOutcome, model: string): SaidRecord {
  const counts = {
    results: 1,
    failedEdits: came === "failed_edit" ? 1 : 0,
    readAgain: came === "read_again" ? 1 : 0,
  };
  return { model, tool, said: isSaid ? counts : NONE, untouched: isSaid ? NONE : counts };
}

function keyOf({ model, tool }: Pick<SaidRecord, "model" | "tool">): string {
  return JSON.stringify([model, tool]);
}

function sum(a: SaidCounts, b: SaidCounts): SaidCounts {
  return {
    results: a.results + b.results,
    failedEdits: a.failedEdits + b.failedEdits,
    readAgain: a.readAgain + b.readAgain,
  };
}

function against({ failedEdits, readAgain }: SaidCounts): number {
  return failedEdits + readAgain;
}

/**
 * The Bayes factor of two rates against one (Gunel and Dickey 1974), where those said once do worse; else 0. It may be
 * looked at after each result: of sessions without a difference it ever exceeds a number `n` in about one of `n` at most.
 */
function evidenceOfHarm({ said, untouched }: Pick<SaidRecord, "said" | "untouched">): number {
  const [a, b] = [against(said), against(untouched)];
  if (a * untouched.results <= b * said.results) return 0;
  const logBeta = (harmed: number, others: number) =>
    logGamma(PRIOR.against + harmed) + logGamma(PRIOR.forIt + others) -
    logGamma(PRIOR.against + PRIOR.forIt + harmed + others);
  const [c, d] = [said.results - a, untouched.results - b];
  return Math.exp(logBeta(a, c) + logBeta(b, d) - logBeta(0, 0) - logBeta(a + b, c + d));
}

/** The logarithm of the gamma function of a number over 0, by Stirling's series (Abramowitz and Stegun 6.1.41). */
function logGamma(x: number): number {
  if (x < 10) return logGamma(x + 1) - Math.log(x);
  return (x - 0.5) * Math.log(x) - x + Math.log(2 * Math.PI) / 2 + 1 / (12 * x) - 1 / (360 * x ** 3);
}

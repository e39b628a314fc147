import type { LoggedCall } from "./log.ts";

/** Fingerprints of what was said, when, and its usage, by which a copied call is recognized. */
export interface CallFingerprints {
  readonly own: readonly number[];
  /** Fingerprints that make the call a copy if another call had them. Default: its own. */
  readonly sought?: readonly number[];
  /** Position in the beginning of a log that repeats other sessions. Default: calls of all sessions are compared. */
  readonly replay?: Replay;
}

/** `written`: stored faster than a model replies, or older than the session. `possible`: perhaps so. */
export type Replay = "written" | "possible" | "none";

/** Where a session comes from, in logs that repeat other sessions with new times. */
export interface Lineage {
  readonly id: string;
  readonly ancestors: readonly string[];
  /** Whether the log declares that it repeats another one. */
  readonly isFork: boolean;
}

interface Holder {
  readonly lineage: Lineage;
  readonly replay: Replay;
  readonly atMs: number;
}

/** Recognizes the calls that a session's log copied from another one's. */
export class Copies {
  readonly #known = new Set<number>();
  /** Calls of sessions with ancestors, and of others. */
  readonly #descendants = new Map<number, Holder[]>();
  readonly #others = new Map<number, Holder[]>();
  readonly #ancestors = new Map<string, readonly string[]>();
  readonly #families = new Map<Lineage, Family>();

  /** Returns whether a call is known, and remembers it. */
  isCopy({ fingerprints, atMs }: LoggedCall, lineage: Lineage | undefined): boolean {
    const { own, sought = own, replay } = fingerprints;
    if (!lineage || replay === undefined) {
      const isKnown = sought.some((one) => this.#known.has(one));
      for (const one of own) this.#known.add(one);
      return isKnown;
    }
    this.#ancestors.set(lineage.id, lineage.ancestors);
    const mine: Holder = { lineage, replay, atMs };
    const isAlone = lineage.ancestors.length === 0;
    const named = own.map((one) => fingerprint(one, lineage.id));
    // Sessions without ancestors repeat nothing, and most have none.
    const isKnown = named.some((one) => this.#known.has(one)) ||
      own.some((one) => this.#isHeld(mine, this.#descendants.get(one))) ||
      !isAlone && own.some((one) => this.#isHeld(mine, this.#others.get(one)));
    if (isKnown && replay !== "none") return true;
    for (const one of named) this.#known.add(one);
    const holdersOf = isAlone ? this.#others : this.#descendants;
    for (const one of own) {
      const holders = holdersOf.get(one);
      if (holders) holders.push(mine);
      else holdersOf.set(one, [mine]);
    }
    return isKnown;
  }

  #isHeld(mine: Holder, holders: readonly Holder[] = []): boolean {
    return holders.some((held) => this.#repeats(mine, held) || this.#repeats(held, mine));
  }

  /** Returns whether a call at the beginning of a log repeats that of another session. */
  #repeats({ lineage, replay, atMs }: Holder, other: Holder): boolean {
    const { members, isComplete } = this.#familyOf(lineage);
    if (members.size === 1) return false;
    if (replay === "written") {
      // A session between the two may have been deleted.
      const theirs = this.#familyOf(other.lineage).members;
      return members.values().some((member) => theirs.has(member)) || !isComplete;
    }
    return (replay === "possible" && lineage.isFork || atMs === other.atMs) && members.has(other.lineage.id);
  }

  #familyOf(lineage: Lineage): Family {
    const known = this.#families.get(lineage);
    if (known) return known;
    const members = new Set([lineage.id, ...lineage.ancestors]);
    let isComplete = true;
    for (const member of members) {
      const further = this.#ancestors.get(member);
      isComplete &&= further !== undefined;
      for (const ancestor of further ?? []) members.add(ancestor);
    }
    const family = { members, isComplete };
    this.#families.set(lineage, family);
    return family;
  }
}

/** A session and those before it. */
interface Family {
  readonly members: ReadonlySet<string>;
  /** Whether the logs of all were read. */
  readonly isComplete: boolean;
}

const SAMPLE = 64;

/** Returns the parts of a text that distinguish it, at a bounded cost. */
export function textSample(text: string): string {
  return text.length <= 2 * SAMPLE ? text : `${text.length} ${text.slice(0, SAMPLE)}${text.slice(-SAMPLE)}`;
}

/** Returns a number of 53 bits that differs for different parts. */
export function fingerprint(...parts: readonly (string | number | undefined)[]): number {
  let [a, b] = [0x811c9dc5, 0x1b873593];
  for (const part of parts) {
    const text = String(part);
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at);
      a = Math.imul(a ^ unit, 0x01000193);
      b = Math.imul(b ^ unit, 0x5bd1e995) ^ (b >>> 15);
    }
    // Separates "ab", "c" from "a", "bc".
    a = Math.imul(a ^ 0x1f1f, 0x01000193);
    b = Math.imul(b ^ 0x2e2e, 0x5bd1e995) ^ (b >>> 15);
  }
  return (a >>> 0) * 2 ** 21 + (b >>> 11);
}

import type { Facts } from "./facts.ts";

/** What is counted of a message while the session goes on. */
export interface Standing {
  readonly facts: Facts;
  /** The call before which it came. */
  readonly came: number;
  /** The call before which it came, or by which one of its names was last used. */
  wanted: number;
  /** The same for its names and for the lines of texts that edits replace. */
  wantedText: number;
  /** Lines of which it is the newest bearer. */
  lines: number;
  /** Names of which it is the newest bearer. */
  names: number;
}

/**
 * The newest bearer of each line and name, and when each file was last touched. A message costs what it says, once;
 * nothing is done for those that came before.
 */
export class Bearers {
  readonly all: Standing[] = [];
  readonly #lines = new Map<string, Standing>();
  readonly #names = new Map<string, Standing>();
  readonly #touched = new Map<string, number>();
  readonly #edited = new Map<string, number>();

  /** Takes the next message, which comes before this call. */
  add(facts: Facts, call: number): void {
    for (const name of facts.wants.names) renew(this.#names.get(name), call);
    for (const line of facts.wants.lines) {
      const bearer = this.#lines.get(line);
      if (bearer) bearer.wantedText = call;
    }
    const standing = { facts, came: call, wanted: call, wantedText: call, lines: 0, names: 0 };
    for (const line of facts.lines) {
      const before = this.#lines.get(line);
      if (before) before.lines--;
      this.#lines.set(line, standing);
      standing.lines++;
    }
    for (const name of facts.names) {
      const before = this.#names.get(name);
      if (before) before.names--;
      this.#names.set(name, standing);
      standing.names++;
    }
    for (const file of facts.files) {
      this.#touched.set(file, call);
      if (facts.edits) this.#edited.set(file, call);
    }
    this.all.push(standing);
  }

  /** Calls since one of the files of a message was last read or written, counted from 1; infinite without a file. */
  fileAge({ facts }: Standing, call: number): number {
    let age = Infinity;
    for (const file of facts.files) age = Math.min(age, 1 + call - (this.#touched.get(file) ?? -Infinity));
    return age;
  }

  /** Whether a file of this message was edited after it came. */
  isStale({ facts, came }: Standing): boolean {
    return facts.files.some((file) => (this.#edited.get(file) ?? -1) > came);
  }
}

function renew(standing: Standing | undefined, call: number): void {
  if (standing) standing.wanted = standing.wantedText = call;
}

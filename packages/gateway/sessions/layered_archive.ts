import type { Archive } from "@tare/prune";
import { bytesFromText } from "@tare/prune/internal";
import { createHash } from "node:crypto";

/** What a text takes beside its characters, in bytes. */
const ENTRY_BYTES = 200;

/**
 * An archive in memory that forks: a fork sees what was put before, and neither sees what the other puts from then
 * on. What both see is kept once. Each text belongs to the conversation whose history was complete up to there when the
 * text was put: a fork has all texts, but lists only those of the history that it shares.
 */
export class LayeredArchive implements Archive {
  #own = new Map<string, string>();
  /** The references of the conversation's texts, each with the length of the history when it was put, in messages. */
  #refs: Map<string, number>;
  #length = 0;
  /** What was put before the forks, newest first. Never changed. */
  #shared: readonly ReadonlyMap<string, string>[];
  #bytes: number;
  readonly #elsewhere: Archive["get"] | undefined;

  /**
   * An archive of what these maps hold: their texts take `bytes` together. What they don't hold is looked for elsewhere.
   * Default: there is nowhere else.
   *
   * @param listed What {@linkcode listed} returned. Default: none.
   */
  constructor(
    { shared = [], bytes = 0, elsewhere, listed = [] }: {
      readonly shared?: readonly ReadonlyMap<string, string>[];
      readonly bytes?: number;
      readonly elsewhere?: Archive["get"] | undefined;
      readonly listed?: Iterable<readonly [ref: string, length: number]>;
    } = {},
  ) {
    this.#refs = new Map(listed);
    this.#shared = shared;
    this.#bytes = bytes;
    this.#elsewhere = elsewhere;
  }

  /** Bytes of memory that its texts take, those included that it shares. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The references of the conversation's texts, with what tells which of them a fork lists too; the oldest first. */
  get listed(): Iterable<readonly [ref: string, length: number]> {
    return this.#refs;
  }

  /** The references of the conversation's texts, the oldest first. */
  refs(): readonly string[] {
    return [...this.#refs.keys()];
  }

  /** The history has so many messages: what is put from now on is of these. */
  grewTo(length: number): void {
    this.#length = length;
  }

  /** The history went back to so many messages. What it has evicted stays listed, but not for a fork from before. */
  cutBack(length: number): void {
    for (const [ref, at] of this.#refs) this.#refs.set(ref, Math.min(at, length + 1));
  }

  /** Lists a text that a fork shares, though it was archived of a longer history. */
  list(ref: string): void {
    if (!this.#refs.has(ref)) this.#refs.set(ref, this.#length);
  }

  /** Another archive with all that this one holds now. It lists the texts of the first `length` messages. */
  fork(length: number): LayeredArchive {
    if (this.#own.size > 0) this.#shared = [this.#own, ...this.#shared];
    this.#own = new Map();
    return new LayeredArchive({
      ...{ shared: this.#shared, bytes: this.#bytes, elsewhere: this.#elsewhere },
      listed: Array.from(this.#refs).filter(([, at]) => at <= length),
    });
  }

  /** Keeps a text. @throws {Error} if other content stands under its reference. */
  put(content: string): Promise<string> {
    // `archiveRef`, but at once: handing a text to another thread takes four times as long as hashing it here.
    const ref = createHash("sha256").update(bytesFromText(content)).digest("hex").slice(0, 16);
    const known = this.#find(ref);
    if (known === undefined) {
      this.#own.set(ref, content);
      this.#bytes += bytesOfText(content);
    } else if (known !== content) {
      return Promise.reject(new Error(`Cannot archive a text under ${ref}: other content stands there`));
    }
    if (!this.#refs.has(ref)) this.#refs.set(ref, this.#length);
    return Promise.resolve(ref);
  }

  /** The text under a reference. */
  async get(ref: string): Promise<string | undefined> {
    return this.#find(ref) ?? await this.#elsewhere?.(ref);
  }

  /** All texts that it holds itself, with their references. */
  *texts(): Generator<readonly [ref: string, content: string]> {
    for (const texts of [this.#own, ...this.#shared]) yield* texts;
  }

  #find(ref: string): string | undefined {
    return this.#own.get(ref) ?? this.#shared.find((texts) => texts.has(ref))?.get(ref);
  }
}

function bytesOfText({ length }: string): number {
  return ENTRY_BYTES + length;
}

import { type Archive, bytesFromText } from "@tare/prune";
import { createHash } from "node:crypto";

/** What a text takes beside its characters, in bytes. */
const ENTRY_BYTES = 200;

/**
 * An archive in memory that forks: a fork sees what was put before, and neither sees what the other puts from then
 * on. What both see is kept once.
 */
export class LayeredArchive implements Archive {
  #own = new Map<string, string>();
  /** What was put before the forks, newest first. Never changed. */
  #shared: readonly ReadonlyMap<string, string>[];
  #bytes: number;
  readonly #elsewhere: Archive["get"] | undefined;

  /**
   * An archive of what these maps hold: their texts take `bytes` together. What they don't hold is looked for elsewhere.
   * Default: there is nowhere else.
   */
  constructor(
    { shared = [], bytes = 0, elsewhere }: {
      readonly shared?: readonly ReadonlyMap<string, string>[];
      readonly bytes?: number;
      readonly elsewhere?: Archive["get"] | undefined;
    } = {},
  ) {
    this.#shared = shared;
    this.#bytes = bytes;
    this.#elsewhere = elsewhere;
  }

  /** Most bytes of memory that its texts can take, those included that it shares. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Another archive with all that this one holds now. */
  fork(): LayeredArchive {
    if (this.#own.size > 0) this.#shared = [this.#own, ...this.#shared];
    this.#own = new Map();
    return new LayeredArchive({ shared: this.#shared, bytes: this.#bytes, elsewhere: this.#elsewhere });
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

  /** Forgets a text, unless a fork shares it. */
  delete(ref: string): Promise<void> {
    const known = this.#own.get(ref);
    if (this.#own.delete(ref) && known !== undefined) this.#bytes -= bytesOfText(known);
    return Promise.resolve();
  }

  #find(ref: string): string | undefined {
    return this.#own.get(ref) ?? this.#shared.find((texts) => texts.has(ref))?.get(ref);
  }
}

function bytesOfText({ length }: string): number {
  return ENTRY_BYTES + 2 * length;
}

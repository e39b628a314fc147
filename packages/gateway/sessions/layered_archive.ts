import { type Archive, archiveRef } from "@tare/prune";

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

  /** An archive of what these maps hold: their texts take `bytes` together. */
  constructor(shared: readonly ReadonlyMap<string, string>[] = [], bytes = 0) {
    this.#shared = shared;
    this.#bytes = bytes;
  }

  /** Most bytes of memory that its texts can take, those included that it shares. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Another archive with all that this one holds now. */
  fork(): LayeredArchive {
    if (this.#own.size > 0) this.#shared = [this.#own, ...this.#shared];
    this.#own = new Map();
    return new LayeredArchive(this.#shared, this.#bytes);
  }

  /** Keeps a text. @throws {Error} if other content stands under its reference. */
  async put(content: string): Promise<string> {
    const ref = await archiveRef(content);
    const known = this.#find(ref);
    if (known === undefined) {
      this.#own.set(ref, content);
      this.#bytes += bytesOfText(content);
    } else if (known !== content) {
      throw new Error(`Cannot archive a text under ${ref}: other content stands there`);
    }
    return ref;
  }

  /** The text under a reference. */
  get(ref: string): Promise<string | undefined> {
    return Promise.resolve(this.#find(ref));
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

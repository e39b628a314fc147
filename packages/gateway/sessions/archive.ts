import type { Archive } from "@tare/prune";
import { bytesFromText } from "@tare/prune/internal";
import { createHash } from "node:crypto";

/** Memory for a text in addition to its characters, in bytes. */
const ENTRY_BYTES = 200;

/** What an archive begins with. */
interface ArchiveInit {
  /** Texts by reference. Default: none. */
  readonly texts?: ReadonlyMap<string, string>;
  /** References of the session's texts. Default: none. */
  readonly listed?: Iterable<readonly [ref: string, length: number]>;
  /** Reads texts that aren't in memory. Default: there are none. */
  readonly stored?: Archive["get"] | undefined;
}

/**
 * The archive of a session, in memory and in its store. A fork has the texts that were archived before it; from then on
 * neither sees what the other archives. A text belongs to the session whose history was complete up to there when it was
 * archived: a fork has all texts, and lists those of the history that it shares.
 */
export class SessionArchive implements Archive {
  readonly #texts: Map<string, string>;
  /** References of the session's texts, each with the length of its history at that time, in messages. */
  readonly #listed: Map<string, number>;
  readonly #stored: Archive["get"] | undefined;
  #length = 0;
  #bytes = 0;

  constructor({ texts = new Map(), listed = [], stored }: ArchiveInit = {}) {
    this.#texts = new Map(texts);
    this.#listed = new Map(listed);
    this.#stored = stored;
    for (const text of texts.values()) this.#bytes += ENTRY_BYTES + text.length;
  }

  /** Bytes of memory that its texts take; what forks share counts for each. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The references of the session's texts, with the length of its history at that time; the oldest first. */
  get listed(): Iterable<readonly [ref: string, length: number]> {
    return this.#listed;
  }

  /** All texts in memory, by reference. */
  get texts(): Iterable<readonly [ref: string, content: string]> {
    return this.#texts;
  }

  /** Returns the references of the session's texts, the oldest first. */
  refs(): readonly string[] {
    return [...this.#listed.keys()];
  }

  /** The history has so many messages: what is archived from now on is of these. */
  grewTo(length: number): void {
    this.#length = length;
  }

  /** The history went back to so many messages: what was evicted stays listed, but not for a fork of an earlier place. */
  cutBack(length: number): void {
    for (const [ref, at] of this.#listed) this.#listed.set(ref, Math.min(at, length + 1));
  }

  /** Lists a text that a fork shares, though it was archived of a longer history. */
  list(ref: string): void {
    if (!this.#listed.has(ref)) this.#listed.set(ref, this.#length);
  }

  /** Returns another archive with all that this one has now. It lists the texts of the first `length` messages. */
  fork(length: number): SessionArchive {
    const listed = [...this.#listed].filter(([, at]) => at <= length);
    return new SessionArchive({ texts: this.#texts, listed, stored: this.#stored });
  }

  /** Stores a text in memory. @throws {Error} if its reference belongs to other content. */
  put(content: string): Promise<string> {
    // `archiveRef`, but at once: handing a text to another thread takes four times as long as hashing it here.
    const ref = createHash("sha256").update(bytesFromText(content)).digest("hex").slice(0, 16);
    const known = this.#texts.get(ref);
    if (known !== undefined && known !== content) {
      return Promise.reject(new Error(`Cannot archive a text under ${ref}: other content stands there`));
    }
    if (known === undefined) this.#bytes += ENTRY_BYTES + content.length;
    this.#texts.set(ref, content);
    this.list(ref);
    return Promise.resolve(ref);
  }

  async get(ref: string): Promise<string | undefined> {
    return this.#texts.get(ref) ?? await this.#stored?.(ref);
  }
}

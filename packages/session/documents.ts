import type { Store, StoredDocument } from "./store/port.ts";

/** Options of {@linkcode DocumentReader}. */
export interface DocumentReaderOptions<T> {
  readonly store: Pick<Store, "listDocuments">;
  readonly kind: string;
  /** Returns a document's value. @throws if it isn't valid. */
  readonly read: (document: StoredDocument) => T;
  readonly onError: (error: string) => void;
}

/** Reads the documents of a kind; unreadable ones are omitted. */
export class DocumentReader<T> {
  readonly #store: Pick<Store, "listDocuments">;
  readonly #kind: string;
  readonly #read: (document: StoredDocument) => T;
  readonly #onError: (error: string) => void;
  readonly #reported = new Set<string>();

  constructor({ store, kind, read, onError }: DocumentReaderOptions<T>) {
    this.#store = store;
    this.#kind = kind;
    this.#read = read;
    this.#onError = onError;
  }

  /** Ordered by id. @throws {StoreError} */
  async list(): Promise<readonly T[]> {
    const documents = await this.#store.listDocuments(this.#kind, (id, error) => this.#report(id, error));
    return documents.flatMap((document) => {
      try {
        return [this.#read(document)];
      } catch (error) {
        this.#report(document.id, error);
        return [];
      }
    });
  }

  #report(id: string, error: unknown): void {
    const reason = error instanceof Error ? error.message : String(error);
    const message = `Cannot use document ${JSON.stringify(id)} of kind ${
      JSON.stringify(this.#kind)
    }: ${reason}`;
    if (this.#reported.has(message)) return;
    this.#reported.add(message);
    this.#onError(message);
  }
}

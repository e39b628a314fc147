import type { DocumentStore } from "./document_store.ts";

/** A place in a session's history: after its first `messages` messages, the system message included. */
export interface ConversationPoint {
  /** The session. */
  readonly sessionId: string;
  /** How many messages of its history were there. */
  readonly messages: number;
}

/** What is known of a conversation's beginning. */
export interface KnownBeginning {
  /** Where it stands in a session. */
  readonly point: ConversationPoint;
  /** How many messages of the conversation that covers. */
  readonly length: number;
}

const KIND = "conversation";

/**
 * Recognises conversations that clients send as a whole, by the names that a `ConversationHash` gives them. A
 * conversation that the store forgot is merely seen as new.
 */
export class ConversationIndex {
  readonly #documents: DocumentStore;

  /** An index that keeps what it knows in this store, as documents of the kind `conversation`. */
  constructor(documents: DocumentStore) {
    this.#documents = documents;
  }

  /** Remembers where the conversation of this name stands. */
  async remember(key: string, { sessionId, messages }: ConversationPoint): Promise<void> {
    await this.#documents.put({ kind: KIND, id: key, sessionId, json: JSON.stringify({ messages }) });
  }

  /** The longest beginning that is known; `keys` names the conversation up to each of its messages, in order. */
  async find(keys: readonly string[]): Promise<KnownBeginning | undefined> {
    for (let length = keys.length; length > 0; length--) {
      const document = await this.#documents.get(KIND, keys[length - 1] ?? "");
      if (!document) continue;
      const { messages } = JSON.parse(document.json) as { readonly messages: number };
      return { point: { sessionId: document.sessionId, messages }, length };
    }
    return undefined;
  }
}

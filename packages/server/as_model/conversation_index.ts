import type { SessionDocuments } from "@tare/store";

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
 * Recognises conversations that clients send as a whole, by the names that a `ConversationHash` gives them. One that
 * the documents have forgotten is merely seen as new.
 */
export class ConversationIndex {
  readonly #documents: SessionDocuments;

  /** An index that keeps what it knows as documents of the kind `conversation`. */
  constructor(documents: SessionDocuments) {
    this.#documents = documents;
  }

  /** Remembers where the conversation of this name stands. */
  remember(key: string, { sessionId, messages }: ConversationPoint): void {
    this.#documents.put({ kind: KIND, id: key, sessionId, value: { messages } });
  }

  /** The longest beginning that is known; `keys` names the conversation up to each of its messages, in order. */
  find(keys: readonly string[]): KnownBeginning | undefined {
    for (let length = keys.length; length > 0; length--) {
      const document = this.#documents.get(KIND, keys[length - 1] ?? "");
      if (!document) continue;
      const { messages } = document.value as { readonly messages: number };
      return { point: { sessionId: document.sessionId, messages }, length };
    }
    return undefined;
  }
}

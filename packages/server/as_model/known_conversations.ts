import { createHash } from "node:crypto";
import { type Content, contentText } from "@tare/messages";
import type { Store, StoreRecord } from "@tare/store";

/** What one side said, without tool calls. */
export interface Said {
  readonly role: "user" | "assistant";
  readonly content: Content;
}

/** A place in a session's history: after its first `messages` messages, the system message included. */
export interface ConversationPoint {
  readonly sessionId: string;
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

/** The record by which the conversation of this name, one of a {@linkcode ConversationHash}, is known to stand there. */
export function knownConversation(id: string, { sessionId, messages }: ConversationPoint): StoreRecord {
  return { type: "document", kind: KIND, id, sessionId, value: { messages } };
}

/**
 * The longest beginning of a conversation that is known; `keys` names it up to each of its messages, in order. One that
 * went with its session is merely seen as new.
 */
export async function findConversation(
  store: Store,
  keys: readonly string[],
): Promise<KnownBeginning | undefined> {
  for (let length = keys.length; length > 0; length--) {
    const document = await store.getDocument(KIND, keys[length - 1] ?? "");
    if (!document) continue;
    const { messages } = document.value as { readonly messages: number };
    return { point: { sessionId: document.sessionId, messages }, length };
  }
  return undefined;
}

/**
 * Names a conversation by its content, message by message: SHA-256 over all that was said so far. Two spellings of
 * one text (a string, or text parts; an answer with or without blanks around it) give the same name, because clients
 * send back what they got in their own spelling.
 */
export class ConversationHash {
  readonly #hash = createHash("sha256");

  /** The empty conversation. Conversations of another `scope` (another user, other instructions) never meet. */
  constructor(scope: readonly string[]) {
    this.#add(scope);
  }

  /** Adds a message and gives the name of the conversation up to it, as 64 hexadecimal digits. */
  add({ role, content }: Said): string {
    const text = isText(content) ? contentText(content) : content;
    this.#add([role, role === "assistant" && typeof text === "string" ? text.trim() : text]);
    return this.#hash.copy().digest("hex");
  }

  #add(value: unknown): void {
    // JSON holds no line break of its own, so no two lists of messages give the same bytes.
    this.#hash.update(`${JSON.stringify(value)}\n`);
  }
}

function isText(content: Content): boolean {
  return typeof content === "string" || content.every(({ type }) => type === "text" || type === "refusal");
}

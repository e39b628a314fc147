import { createHash } from "node:crypto";
import {
  type AssistantMessage,
  type Content,
  contentText,
  type Message,
  type ToolCall,
  type ToolMessage,
} from "@tare/messages";
import { describeCall } from "@tare/messages/internal";
import type { Store } from "@tare/session";
import type { StoreRecord } from "@tare/session/internal";
import { Type } from "typebox";
import { COUNT, storedReader } from "../http/schema.ts";

/**
 * What one side said: the user, the agent with the calls that it left to its client, or the client of what came of
 * one. The agent's own calls aren't among it.
 */
export type SaidMessage = Extract<Message, { readonly role: "user" }> | AssistantMessage | ToolMessage;

/** A place in a session's history: after its first `messages` messages, the system message included. */
export interface ConversationPoint {
  readonly sessionId: string;
  readonly messages: number;
}

/** What is known of a conversation's beginning. */
export interface KnownBeginning {
  readonly point: ConversationPoint;
  /** How many messages of the conversation that covers. */
  readonly length: number;
}

const KIND = "conversation";

const readStored = storedReader(Type.Object({ messages: COUNT }), "where a conversation stands");

/** The record by which the conversation of this name, one of a {@linkcode ConversationHash}, is known to stand there. */
export function knownConversation(id: string, { sessionId, messages }: ConversationPoint): StoreRecord {
  return { type: "document", kind: KIND, id, sessionId, value: { messages } };
}

/** Where the conversation of this name stands. One that went with its session is merely seen as new. */
export async function findConversation(store: Store, key: string): Promise<ConversationPoint | undefined> {
  const document = await store.getDocument(KIND, key);
  if (!document) return undefined;
  const { messages } = readStored(document.value);
  return { sessionId: document.sessionId ?? "", messages };
}

/** The longest beginning of a conversation that ends with an answer and is known; `keys` names it up to each message. */
export async function findBeginning(
  store: Store,
  { dialogue, keys }: { readonly dialogue: readonly SaidMessage[]; readonly keys: readonly string[] },
): Promise<KnownBeginning | undefined> {
  for (let length = dialogue.length; length > 0; length--) {
    // What stands for a question is where it was asked, before it.
    if (dialogue[length - 1]?.role !== "assistant") continue;
    const point = await findConversation(store, keys[length - 1] ?? "");
    if (point) return { point, length };
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
  add(said: SaidMessage): string {
    const { role, content } = said;
    const text = isText(content) ? contentText(content) : content;
    this.#add([
      role,
      role === "assistant" && typeof text === "string" ? text.trim() : text,
      ...(said.role === "tool" ? [said.tool_call_id] : []),
      ...(said.role === "assistant" ? (said.tool_calls ?? []).map(plainCall) : []),
    ]);
    return this.#hash.copy().digest("hex");
  }

  #add(value: unknown): void {
    // JSON holds no line break of its own, so no two lists of messages give the same bytes.
    this.#hash.update(`${JSON.stringify(value)}\n`);
  }
}

function isText(content: Content | null | undefined): boolean {
  return !content || typeof content === "string" ||
    content.every(({ type }) => type === "text" || type === "refusal");
}

/** Clients write the arguments anew, with other blanks. */
function plainCall(call: ToolCall): readonly unknown[] {
  const { name, arguments: text } = describeCall(call);
  try {
    return [call.id, name, JSON.parse(text)];
  } catch {
    return [call.id, name, text];
  }
}

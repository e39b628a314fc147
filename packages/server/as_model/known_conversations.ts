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
import { hashPrefixes, type StoreRecord } from "@tare/session/internal";
import { Type } from "typebox";
import { COUNT, storedReader } from "../http/schema.ts";

/** A message that the client sees. */
export type DialogueMessage = Extract<Message, { readonly role: "user" }> | AssistantMessage | ToolMessage;

/** A position in a session's history: after `messages` messages, the system message included. */
export interface ConversationPoint {
  readonly sessionId: string;
  readonly messages: number;
}

export interface KnownBeginning {
  readonly point: ConversationPoint;
  /** Number of its messages. */
  readonly length: number;
}

const KIND = "conversation";

const readStored = storedReader(Type.Object({ messages: COUNT }), "the point of a conversation");

/** Returns the record of a conversation's point, by one of its {@linkcode conversationNames}. */
export function knownConversation(id: string, { sessionId, messages }: ConversationPoint): StoreRecord {
  return { type: "document", kind: KIND, id, sessionId, value: { messages } };
}

/** Returns the stored point, unless its session was deleted. */
export async function findConversation(store: Store, name: string): Promise<ConversationPoint | undefined> {
  const document = await store.getDocument(KIND, name);
  if (!document) return undefined;
  const { messages } = readStored(document.value);
  return { sessionId: document.sessionId ?? "", messages };
}

/** Returns the longest known start that ends with a reply; `names` has a name per message. */
export async function findBeginning(
  store: Store,
  { dialogue, names }: { readonly dialogue: readonly DialogueMessage[]; readonly names: readonly string[] },
): Promise<KnownBeginning | undefined> {
  for (let length = dialogue.length; length > 0; length--) {
    // A user message's point precedes it.
    if (dialogue[length - 1]?.role !== "assistant") continue;
    const point = await findConversation(store, names[length - 1] ?? "");
    if (point) return { point, length };
  }
  return undefined;
}

/**
 * Returns a name per message: hashes of the content up to there and `scope` (user, instructions). Spellings of one
 * text (string or parts, surrounding blanks) share a name, because clients respell it.
 */
export function conversationNames(
  scope: readonly string[],
  dialogue: readonly DialogueMessage[],
): readonly string[] {
  return hashPrefixes([JSON.stringify(scope), ...dialogue.map(keyOf)], 1);
}

function keyOf(message: DialogueMessage): string {
  const { role, content } = message;
  const text = isText(content) ? contentText(content) : content;
  return JSON.stringify([
    role,
    role === "assistant" && typeof text === "string" ? text.trim() : text,
    ...(message.role === "tool" ? [message.tool_call_id] : []),
    ...(message.role === "assistant" ? (message.tool_calls ?? []).map(plainCall) : []),
  ]);
}

function isText(content: Content | null | undefined): boolean {
  return !content || typeof content === "string" ||
    content.every(({ type }) => type === "text" || type === "refusal");
}

/** Clients change the whitespace of arguments. */
function plainCall(call: ToolCall): readonly unknown[] {
  const { name, arguments: text } = describeCall(call);
  try {
    return [call.id, name, JSON.parse(text)];
  } catch {
    return [call.id, name, text];
  }
}

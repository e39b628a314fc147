import { createHash } from "node:crypto";
import { type Content, contentText } from "@tare/messages";

/** What one side said, without tool calls. */
export interface Said {
  /** Who said it. */
  readonly role: "user" | "assistant";
  /** What was said. */
  readonly content: Content;
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

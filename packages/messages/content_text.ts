import type { Content } from "./message.ts";

/**
 * The text of a message's content: the string itself, or its text and refusal parts joined by newlines. Pictures,
 * recordings and files have no text.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { contentText } from "@tare/messages";
 *
 * assertEquals(contentText([{ type: "text", text: "a" }, { type: "text", text: "b" }]), "a\nb");
 * ```
 */
export function contentText(content: Content | null | undefined): string {
  if (!content) return "";
  if (typeof content === "string") return content;
  const texts: string[] = [];
  for (const part of content) {
    if (part.type === "text") texts.push(part.text);
    else if (part.type === "refusal") texts.push(part.refusal);
  }
  return texts.join("\n");
}

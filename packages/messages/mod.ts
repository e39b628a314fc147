/**
 * Messages, tool calls and tools of the OpenAI chat-completions wire format, and counting their tokens.
 *
 * The types are structural: an array of `npm:openai`'s message parameters fits {@linkcode Message} as it is, and
 * fields that the types don't name pass through untouched.
 *
 * @example Count a request with any counter
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { countRequestTokens, type Message } from "@tare/messages";
 *
 * const messages: Message[] = [
 *   { role: "system", content: "You are brief." },
 *   { role: "user", content: "What is Tare?" },
 * ];
 * const byWords = (text: string) => text.split(/\s+/).length;
 * assertEquals(countRequestTokens({ messages }, byWords), 4 + 3 + 4 + 3);
 * ```
 *
 * @module
 */
export * from "./calls.ts";
export * from "./context_hook.ts";
export * from "./count_tokens.ts";
export * from "./message.ts";
export * from "./model.ts";
export * from "./tool.ts";
export * from "./usage.ts";

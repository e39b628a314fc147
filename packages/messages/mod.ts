/**
 * Messages, tool calls and tools of the OpenAI chat-completions wire format, and counting their tokens.
 *
 * The types are structural: an array of `npm:openai`'s message parameters fits {@linkcode Message} as it is, and
 * fields that the types don't name pass through untouched.
 *
 * README.md shows it in use.
 *
 * @module
 */
export * from "./calls.ts";
export { checkGiven, type Needed, type NeededKind } from "./check_given.ts";
export * from "./context_hook.ts";
export * from "./count_tokens.ts";
export * from "./hash_piece.ts";
export * from "./message.ts";
export * from "./model.ts";
export * from "./tool.ts";
export * from "./transcribe.ts";
export * from "./usage.ts";

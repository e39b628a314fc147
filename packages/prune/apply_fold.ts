import type { Message } from "@tare/messages";

/** Old turns that gave way to one message. Plain data: applied again to the same messages it gives the same bytes. */
export interface Fold {
  /** The messages before this index are folded, but for system and developer messages. */
  readonly end: number;
  /** `summary`: the user messages stay, and an assistant message follows them. `drop`: a user message stands for all. */
  readonly kind: "summary" | "drop";
  /** Text of that message. */
  readonly text: string;
  /** Archive reference of the folded messages, user messages included: the JSON of each on a line of its own. */
  readonly ref: string;
  /** Tokens of all the messages before. */
  readonly tokensBefore: number;
  /** Tokens of all the messages after. */
  readonly tokensAfter: number;
}

/** The message that a fold puts in. */
export interface FoldMessage {
  /** `assistant` if it is a summary; `user` where the dropped turns' user messages were. */
  readonly role: "assistant" | "user";
  /** The fold's text. */
  readonly content: string;
}

/** The messages after a fold. All of them but the new one are the same objects. */
export function applyFold<M extends Message>(
  messages: readonly M[],
  { end, kind, text }: Pick<Fold, "end" | "kind" | "text">,
): (M | FoldMessage)[] {
  const kept = messages.slice(0, end).filter(({ role }) =>
    role === "system" || role === "developer" || (kind === "summary" && role === "user")
  );
  const role = kind === "summary" ? "assistant" : "user";
  return [...kept, { role, content: text }, ...messages.slice(end)];
}

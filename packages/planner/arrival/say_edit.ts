import type { Message } from "@tare/messages";
import { resultText } from "@tare/prune";
import { notate, render } from "./notation.ts";

/** Lines of a result that are shown as a reference to where they stand already. Plain data. */
export interface Reference {
  /** The first of the result's lines, as {@linkcode notate} gives them, and the one behind the last. */
  readonly from: number;
  readonly to: number;
  /** Position in the history of the message in which the lines stand. */
  readonly source: number;
  /** What the model knows that message by: a file, or a tool. */
  readonly as: string;
  /** Tokens that saying the lines would take. */
  readonly tokens: number;
}

/** Shows a tool result without what says nothing or stands in the prompt already, from its first send on. */
export interface SayEdit {
  /** Which kind of edit it is. */
  readonly type: "say";
  /** Position of the result in the history. */
  readonly index: number;
  /** Its `tool_call_id`. */
  readonly toolCallId: string;
  /** Archive reference of the original. */
  readonly ref: string;
  /** Whether it shows a file. */
  readonly fileText: boolean;
  /** Whether notation that says nothing is left out. */
  readonly notation: boolean;
  /** Tokens that this saves. */
  readonly notationTokens: number;
  /** In order. */
  readonly references: readonly Reference[];
}

/** What a label quotes, in characters: how the block starts, and how it ends. */
const FIRST_CHARACTERS = 40;
const LAST_CHARACTERS = 24;

/** How the first and the last line of a block are quoted. */
export function quotesOf(lines: readonly string[], { from, to }: Pick<Reference, "from" | "to">): {
  readonly first: string;
  readonly last: string;
} {
  return {
    first: lines[from]!.trim().slice(0, FIRST_CHARACTERS),
    last: lines[to - 1]!.trim().slice(-LAST_CHARACTERS),
  };
}

/** The line that the model sees in place of a block; a numbered text says which lines it has. */
export function labelOf(
  { lines, numbers }: ReturnType<typeof notate>,
  reference: Omit<Reference, "tokens" | "source">,
): string {
  const { from, to, as } = reference;
  const { first, last } = quotesOf(lines, reference);
  const [start = -1, end = -1] = [numbers?.[from], numbers?.[to - 1]];
  const which = start >= 0 && end >= 0 ? `lines ${start}-${end}` : `${to - from} lines`;
  return `[${which} unchanged, as in ${as} above: "${first}" to "${last}"]`;
}

/** What the model sees of a result after this edit; the same object each time. */
export function said(message: Message, edit: SayEdit): Message {
  const known = shown.get(message);
  if (known?.edit === edit) return known.shown;
  const made = { ...message, content: saidText(message, edit) } as Message;
  shown.set(message, { edit, shown: made });
  return made;
}

const shown = new WeakMap<Message, { readonly edit: SayEdit; readonly shown: Message }>();

/** The text of a result after this edit. */
export function saidText(
  message: Message,
  { fileText, notation, references }: Pick<SayEdit, "fileText" | "notation" | "references">,
): string {
  const text = message.role === "tool" ? resultText(message) : undefined;
  const notated = notate(text ?? "", { fileText, notation });
  const stretches = references.map((one) => ({ ...one, label: labelOf(notated, one) }));
  return render(notated, { notation, stretches });
}

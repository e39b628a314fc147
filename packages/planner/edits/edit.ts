import type { Message, ToolMessage } from "@tare/messages";
import { hashPiece, meantCall, pairCalls } from "@tare/messages/internal";
import type { Elision } from "@tare/prune";
import type { ElisionCandidate } from "@tare/prune/internal";
import type { SayEdit } from "../arrival/said.ts";

/** Shows a placeholder instead of a tool result. */
export interface ElideEdit extends Pick<Elision, "index" | "toolCallId" | "ref" | "text"> {
  readonly type: "elide";
}

/** Leaves out a stretch of old messages; one line stands for them. System and developer messages stay. */
export interface DropEdit {
  readonly type: "drop";
  readonly from: number;
  readonly to: number;
  /** Archive reference of the messages: the JSON of each on a line of its own. */
  readonly ref: string;
  /** The line that the model sees instead, behind what stays of the stretch. */
  readonly text: string;
}

/**
 * Like {@linkcode DropEdit}, but the text is a summary, or where none could be had the line that stands for what left.
 * The user's messages stay as they are, but for those that it names.
 */
export interface SummariseEdit extends Omit<DropEdit, "type"> {
  readonly type: "summarise";
  /** Positions of the user's messages that left with the others. Default: none. */
  readonly users?: readonly number[];
  /** Who says the text. Default: the model. */
  readonly role?: "user";
}

/** Shows head and tail of a long text that the user said. */
export interface ShortenEdit {
  readonly type: "shorten";
  readonly index: number;
  /** Position of the text among the parts of the message. Default: the message is one text. */
  readonly part?: number;
  readonly ref: string;
  /** What the model sees instead. */
  readonly text: string;
}

/** Shows a tool by names and types alone, as long as its definition stays the same. */
export interface CompactEdit {
  readonly type: "compact";
  readonly tool: string;
  /** Tells the full definition that the model has seen from any other of that name. */
  readonly definition: number;
}

/** Shows a message itself though the stretch has left in which it stands: somebody asked for it. */
export interface KeepEdit {
  readonly type: "keep";
  readonly index: number;
}

/**
 * A small record that changes what the model sees of an append-only history. Edits are sticky: once applied they
 * stay until a later edit of the same place replaces them. All positions count in the history, not in the view.
 */
export type Edit = SayEdit | ElideEdit | DropEdit | SummariseEdit | ShortenEdit | CompactEdit | KeepEdit;

/** Tokens that the line is expected to take that stands for a result. */
export const EXPECTED_LINE_TOKENS = 32;

/** Returns what an old result would leave by. */
export function candidateOf(
  { tool_call_id: toolCallId }: ToolMessage,
  at: { readonly index: number; readonly tool: string; readonly tokensBefore: number },
): ElisionCandidate {
  return { ...at, toolCallId, tokensAfter: EXPECTED_LINE_TOKENS, reason: "old" };
}

/** Returns the names of the tools whose results are at these positions. */
export function resultTools(history: readonly Message[]): ReadonlyMap<number, string> {
  return new Map(
    pairCalls(history).flatMap(({ call, answer }) => answer ? [[answer.at, meantCall(call).name]] : []),
  );
}

/** How something would leave: by an elision, by dropping a stretch of messages, or by an edit that is ready. */
export type Way =
  | { readonly type: "elide"; readonly candidate: ElisionCandidate }
  | { readonly type: "drop"; readonly from: number; readonly to: number }
  | CompactEdit;

/** The edits of messages that are there: a history that went back, or another one, has others. */
export function fittingEdits<E extends Edit>(
  edits: readonly E[],
  messages: readonly Message[],
): readonly E[] {
  return edits.filter((edit: Edit) => {
    if (edit.type === "compact") return true;
    if (edit.type === "keep") return edit.index < messages.length;
    if (edit.type === "shorten") return textAt(messages[edit.index], edit.part) !== undefined;
    if (edit.type !== "elide" && edit.type !== "say") return edit.to <= messages.length;
    const message = messages[edit.index];
    if (message?.role !== "tool" || message.tool_call_id !== edit.toolCallId) return false;
    return edit.type === "elide" || saysTrue(edit, messages);
  });
}

/** Whether a result and what it refers to are still what they were. */
function saysTrue({ index, hash, references }: SayEdit, messages: readonly Message[]): boolean {
  const isSame = (at: number, hash: number) => messages[at] !== undefined && hashPiece(messages[at]) === hash;
  return isSame(index, hash) && references.every(({ source, hash }) => isSame(source, hash));
}

/** The edits of the first `length` messages alone, and those of tools. */
export function leadingEdits<E extends Edit>(edits: readonly E[], length: number): readonly E[] {
  return edits.filter((edit: Edit) =>
    edit.type === "compact" || ("index" in edit ? edit.index < length : edit.to <= length)
  );
}

/** A text of a user's message: the only one, or that of one of its parts. */
export function textAt(message: Message | undefined, part?: number): string | undefined {
  if (message?.role !== "user") return undefined;
  const { content } = message;
  if (part === undefined) return typeof content === "string" ? content : undefined;
  const found = typeof content === "string" ? undefined : content?.[part];
  return found?.type === "text" ? found.text : undefined;
}

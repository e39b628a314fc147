import type { Message, ToolMessage } from "@tare/messages";
import { hashPiece, meantCall, pairCalls } from "@tare/messages/internal";
import type { Elision } from "@tare/prune";
import type { ElisionCandidate } from "@tare/prune/internal";
import type { IngestEdit } from "../ingestion/ingested.ts";

/** Placeholder for a tool result. */
export interface ElideEdit extends Pick<Elision, "index" | "toolCallId" | "ref" | "text"> {
  readonly type: "elide";
}

/** Replacement of a range of old messages by one line. System and developer messages stay. */
export interface DropEdit {
  readonly type: "drop";
  readonly from: number;
  readonly to: number;
  /** Archive reference of the messages, one JSON per line. */
  readonly ref: string;
  readonly text: string;
}

/**
 * {@linkcode DropEdit} with a summary, or with a placeholder if there is none. The user's messages stay,
 * except those in `users`.
 */
export interface SummarizeEdit extends Omit<DropEdit, "type"> {
  readonly type: "summarize";
  readonly users?: readonly number[];
  /** Role of the text. Default: `assistant`. */
  readonly role?: "user";
}

/** Head and tail of a long text of the user. */
export interface ShortenEdit {
  readonly type: "shorten";
  readonly index: number;
  /** Position of the text among the parts of the message. Default: the message is one text. */
  readonly part?: number;
  readonly ref: string;
  readonly text: string;
}

/** Names and types of a tool, until its definition changes. */
export interface CompactEdit {
  readonly type: "compact";
  readonly tool: string;
  readonly definition: number;
}

/** Visible pinned message of an evicted range. */
export interface KeepEdit {
  readonly type: "keep";
  readonly index: number;
}

/**
 * A record that changes the view of an append-only history. Edits stay until a later edit of the same place
 * replaces them. Positions are those of the history.
 */
export type Edit = IngestEdit | ElideEdit | DropEdit | SummarizeEdit | ShortenEdit | CompactEdit | KeepEdit;

/** Expected tokens of a result's placeholder. */
export const EXPECTED_LINE_TOKENS = 32;

export function candidateOf(
  { tool_call_id: toolCallId }: ToolMessage,
  at: { readonly index: number; readonly tool: string; readonly tokensBefore: number },
): ElisionCandidate {
  return { ...at, toolCallId, tokensAfter: EXPECTED_LINE_TOKENS, reason: "old" };
}

export function resultTools(history: readonly Message[]): ReadonlyMap<number, string> {
  return new Map(
    pairCalls(history).flatMap(({ call, answer }) => answer ? [[answer.at, meantCall(call).name]] : []),
  );
}

/** Form of an eviction: an elision, a range of messages, or a finished edit. */
export type Way =
  | { readonly type: "elide"; readonly candidate: ElisionCandidate }
  | { readonly type: "drop"; readonly from: number; readonly to: number }
  | CompactEdit;

/** Returns the edits that fit a history, which may have gone back or be another one. */
export function fittingEdits<E extends Edit>(
  edits: readonly E[],
  messages: readonly Message[],
): readonly E[] {
  return edits.filter((edit: Edit) => {
    if (edit.type === "compact") return true;
    if (edit.type === "keep") return edit.index < messages.length;
    if (edit.type === "shorten") return textAt(messages[edit.index], edit.part) !== undefined;
    if (edit.type !== "elide" && edit.type !== "ingest") return edit.to <= messages.length;
    const message = messages[edit.index];
    if (message?.role !== "tool" || message.tool_call_id !== edit.toolCallId) return false;
    return edit.type === "elide" || isValid(edit, messages);
  });
}

function isValid({ index, hash, references }: IngestEdit, messages: readonly Message[]): boolean {
  const isSame = (at: number, hash: number) => messages[at] !== undefined && hashPiece(messages[at]) === hash;
  return isSame(index, hash) && references.every(({ source, hash }) => isSame(source, hash));
}

export function leadingEdits<E extends Edit>(edits: readonly E[], length: number): readonly E[] {
  return edits.filter((edit: Edit) =>
    edit.type === "compact" || ("index" in edit ? edit.index < length : edit.to <= length)
  );
}

export function textAt(message: Message | undefined, part?: number): string | undefined {
  if (message?.role !== "user") return undefined;
  const { content } = message;
  if (part === undefined) return typeof content === "string" ? content : undefined;
  const found = typeof content === "string" ? undefined : content?.[part];
  return found?.type === "text" ? found.text : undefined;
}

import { checkGiven, hashPiece, type Message, type ToolDefinition } from "@tare/messages";
import { applyElisions } from "@tare/prune";
import { compactTool } from "@tare/schemas";
import { type DropEdit, type Edit, type ShortenEdit, type SummariseEdit, textAt } from "./edit.ts";

/** What a session has said, or what of it a model sees. */
export interface Conversation {
  /** In order, first to last. */
  readonly messages: readonly Message[];
  /** In the order in which the model is shown them. */
  readonly tools: readonly ToolDefinition[];
}

/**
 * What the model sees of a history after these edits. Pure: the same history and edits give the same bytes.
 * Messages that no edit touches keep their identity, and an edited message is the same object in every view, so
 * that what is remembered of it, such as its token count, stays known.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { view } from "@tare/planner";
 * import type { Message } from "@tare/messages";
 *
 * const messages: Message[] = [
 *   { role: "user", content: "Read a." },
 *   { role: "assistant", tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }] },
 *   { role: "tool", tool_call_id: "1", content: "a long text" },
 * ];
 * const seen = view({ messages, tools: [] }, [
 *   { type: "elide", index: 2, toolCallId: "1", ref: "2cf24dba5fb0a30e", text: "[elided]" },
 * ]);
 * assertEquals(seen.messages[2], { role: "tool", tool_call_id: "1", content: "[elided]" });
 * ```
 *
 * @throws {RangeError} if an edit names messages that are not there, or elides what is no tool result.
 */
export function view(history: Conversation, edits: readonly Edit[]): Conversation {
  checkGiven("view()", { history, edits }, {
    history: { messages: "array", tools: "array" },
    edits: "array",
  });
  const { messages, tools } = placedView(history, edits);
  return { messages, tools };
}

/** A view, and where in the history each of its messages stands. */
export type PlacedView = Conversation & PlacedMessages;

/** Like {@linkcode view}, with the places of the messages. */
export function placedView(history: Conversation, edits: readonly Edit[]): PlacedView {
  return { ...placeMessages(history.messages, edits), tools: compactedTools(history.tools, edits) };
}

/** The messages of a view, and where in the history each stands. */
export interface PlacedMessages {
  /** What the model sees. */
  readonly messages: readonly Message[];
  /** The position of each in the history; −1 for a line that stands for several. */
  readonly places: readonly number[];
  /** The whole history with the elided results and shortened texts, nothing dropped or summarised. */
  readonly elided: readonly Message[];
}

/** Like {@linkcode view}, for the messages alone, with their places. */
export function placeMessages(history: readonly Message[], edits: readonly Edit[]): PlacedMessages {
  const elided = shortened(
    applyElisions(history, edits.filter((edit) => edit.type === "elide")),
    edits.filter((edit) => edit.type === "shorten"),
  );
  const stretches = edits.filter((edit) => edit.type === "drop" || edit.type === "summarise");
  if (stretches.length === 0) return { messages: elided, places: elided.map((_, index) => index), elided };
  const kept = new Set(edits.flatMap((edit) => edit.type === "keep" ? [edit.index] : []));
  const gone = new Set<number>();
  const lineBefore = new Map<number, Message>();
  for (const edit of stretches) {
    const { type, from, to } = edit;
    if (!(0 <= from && from < to && to <= history.length)) {
      throw new RangeError(`Cannot ${type} messages ${from} to ${to}: the history has ${history.length}`);
    }
    const users = new Set(edit.type === "summarise" ? edit.users : []);
    for (let index = from; index < to; index++) {
      if ((leaves(history[index], edit) || users.has(index)) && !kept.has(index)) gone.add(index);
      lineBefore.delete(index + 1);
    }
    lineBefore.set(to, lineOf(edit));
  }
  const messages: Message[] = [];
  const places: number[] = [];
  for (let index = 0; index <= elided.length; index++) {
    const line = lineBefore.get(index);
    if (line) {
      messages.push(line);
      places.push(-1);
    }
    const message = elided[index];
    if (!message || gone.has(index)) continue;
    messages.push(message);
    places.push(index);
  }
  return { messages, places, elided };
}

/** Like {@linkcode view}, for the tools alone. */
export function compactedTools(
  tools: readonly ToolDefinition[],
  edits: readonly Edit[],
): readonly ToolDefinition[] {
  const compact = new Set(edits.flatMap((edit) => edit.type === "compact" ? [edit.definition] : []));
  if (compact.size === 0) return tools;
  return tools.map((tool) => compact.has(hashPiece(tool)) ? compactTool(tool) : tool);
}

/** The messages, those that are shortened as the model sees them. */
function shortened(messages: readonly Message[], edits: readonly ShortenEdit[]): readonly Message[] {
  if (edits.length === 0) return messages;
  const shown = [...messages];
  for (const edit of edits) {
    const message = shown[edit.index];
    if (!message || textAt(message, edit.part) === undefined) {
      throw new RangeError(`Cannot shorten message ${edit.index}: it holds no such text of a user`);
    }
    shown[edit.index] = shorten(message, edit);
  }
  return shown;
}

const short = new WeakMap<Message, { readonly edit: ShortenEdit; readonly shown: Message }>();

function shorten(message: Message, edit: ShortenEdit): Message {
  const known = short.get(message);
  if (known?.edit === edit) return known.shown;
  const { content } = message;
  const parts = typeof content === "string" || !content
    ? edit.text
    : content.map((part, at) => at === edit.part ? { ...part, text: edit.text } : part);
  const shown = { ...message, content: parts } as Message;
  short.set(message, { edit, shown });
  return shown;
}

function leaves(message: Message | undefined, { type }: DropEdit | SummariseEdit): boolean {
  if (message?.role === "system" || message?.role === "developer") return false;
  return type === "drop" || message?.role !== "user";
}

const lines = new WeakMap<Edit, Message>();

function lineOf(edit: DropEdit | SummariseEdit): Message {
  const known = lines.get(edit);
  if (known) return known;
  // A summary is the model's own; a model that reads a bare placeholder as its own would learn to write such.
  const role = edit.type === "summarise" ? edit.role ?? "assistant" : "user";
  const line: Message = { role, content: edit.text };
  lines.set(edit, line);
  return line;
}

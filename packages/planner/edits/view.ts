import { hashPiece, type Message, type ToolDefinition } from "@tare/messages";
import { applyElisions, type Elision, type ElisionCandidate, parsePlaceholder } from "@tare/prune";
import { compactTool } from "@tare/schemas";
import { said, type SayEdit } from "../arrival/said.ts";

/** Shows a placeholder instead of a tool result. */
export interface ElideEdit extends Pick<Elision, "index" | "toolCallId" | "ref" | "text"> {
  /** Which kind of edit it is. */
  readonly type: "elide";
}

/** Leaves out a stretch of old messages; one line stands for them. System and developer messages stay. */
export interface DropEdit {
  /** Which kind of edit it is. */
  readonly type: "drop";
  /** Position in the history of the first message of the stretch. */
  readonly from: number;
  /** Position behind its last message. */
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
  /** Which kind of edit it is. */
  readonly type: "summarise";
  /** Positions of the user's messages that left with the others. Default: none. */
  readonly users?: readonly number[];
  /** Who says the text. Default: the model. */
  readonly role?: "user";
}

/** Shows head and tail of a long text that the user said. */
export interface ShortenEdit {
  /** Which kind of edit it is. */
  readonly type: "shorten";
  /** Position of the message in the history. */
  readonly index: number;
  /** Position of the text among the parts of the message. Default: the message is one text. */
  readonly part?: number;
  /** Archive reference of the whole text. */
  readonly ref: string;
  /** What the model sees instead. */
  readonly text: string;
}

/** Shows a tool by names and types alone, as long as its definition stays the same. */
export interface CompactEdit {
  /** Which kind of edit it is. */
  readonly type: "compact";
  /** Name of the tool. */
  readonly tool: string;
  /** Tells the full definition that the model has seen from any other of that name. */
  readonly definition: number;
}

/** Shows a message itself though the stretch has left in which it stands: somebody asked for it. */
export interface KeepEdit {
  /** Which kind of edit it is. */
  readonly type: "keep";
  /** Position of the message in the history. */
  readonly index: number;
}

/**
 * A small record that changes what the model sees of an append-only history. Edits are sticky: once applied they
 * stay until a later edit of the same place replaces them. All positions count in the history, not in the view.
 */
export type Edit = SayEdit | ElideEdit | DropEdit | SummariseEdit | ShortenEdit | CompactEdit | KeepEdit;

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

/** What a session has said, or what of it a model sees. */
export interface History {
  /** In order, first to last. */
  readonly messages: readonly Message[];
  /** In the order in which the model is shown them. */
  readonly tools: readonly ToolDefinition[];
}

/** A view, and where in the history each of its messages stands. */
export type PlacedView = History & PlacedMessages;

/**
 * What the model sees of a history after these edits. Pure: the same history and edits give the same bytes.
 * Messages that no edit touches keep their identity, and an edited message is the same object in every view, so
 * that what is remembered of it, such as its token count, stays known.
 *
 * @throws {RangeError} if an edit names messages that are not there, or elides what is no tool result.
 */
export function placedView(history: History, edits: readonly Edit[]): PlacedView {
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

/** Like {@linkcode placedView}, for the messages alone. */
export function placeMessages(history: readonly Message[], edits: readonly Edit[]): PlacedMessages {
  const elisions = edits.filter((edit) => edit.type === "elide");
  const elided = shortened(
    applyElisions(withSaid(history, edits, elisions), elisions),
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

/** Like {@linkcode placedView}, for the tools alone. */
export function compactedTools(
  tools: readonly ToolDefinition[],
  edits: readonly Edit[],
): readonly ToolDefinition[] {
  const { compact } = sortedOut(edits);
  if (compact.size === 0) return tools;
  return tools.map((tool) => compact.has(hashPiece(tool)) ? compactTool(tool) : tool);
}

/** The messages, with what is new alone of results that are said so and not elided. */
function withSaid(
  history: readonly Message[],
  edits: readonly Edit[],
  elisions: readonly ElideEdit[],
): readonly Message[] {
  const edit = sayEdits(edits);
  if (edit.size === 0) return history;
  const elided = new Set(elisions.map(({ index }) => index));
  const shown = [...history];
  for (const [index, one] of edit) {
    const message = history[index];
    if (message?.role !== "tool" || message.tool_call_id !== one.toolCallId) {
      throw new RangeError(`Cannot say message ${index} once: it is no such tool result`);
    }
    if (!elided.has(index)) shown[index] = said(message, one);
  }
  return shown;
}

/** Which messages of calls and results edits hide or cut. Edits that go on from those before cost what is new. */
export class HiddenBy {
  #edits: readonly Edit[] = [];
  #elided = new Set<number>();
  #kept = new Set<number>();
  #stretches: (DropEdit | SummariseEdit)[] = [];
  #cut = new Map<number, string>();

  /** These edits hold from now on. */
  follow(edits: readonly Edit[]): void {
    const before = this.#edits;
    const goesOn = before.length <= edits.length && before.every((edit, at) => edit === edits[at]);
    if (!goesOn) {
      this.#elided = new Set();
      this.#kept = new Set();
      this.#stretches = [];
      this.#cut = new Map();
    }
    for (let at = goesOn ? before.length : 0; at < edits.length; at++) this.#add(edits[at]!);
    this.#edits = edits;
  }

  /** Whether the model doesn't see a message. */
  has(place: number): boolean {
    return this.#elided.has(place) ||
      !this.#kept.has(place) && this.#stretches.some(({ from, to }) => from <= place && place < to);
  }

  /** The head and tail that a result shows; nothing if it shows all, or nothing. */
  cutAt(place: number): string | undefined {
    return this.#cut.get(place);
  }

  #add(edit: Edit): void {
    if (edit.type === "elide" && standsForAll(edit)) this.#elided.add(edit.index);
    else if (edit.type === "elide") this.#cut.set(edit.index, edit.text);
    if (edit.type === "keep") this.#kept.add(edit.index);
    if (edit.type === "drop" || edit.type === "summarise") this.#stretches.push(edit);
  }
}

/** Whether a line stands for all of a result. One that was truncated on arrival still shows head and tail. */
export function standsForAll(edit: ElideEdit): boolean {
  let all = placeholders.get(edit);
  if (all === undefined) {
    all = parsePlaceholder(edit.text.split("\n", 1)[0] ?? "")?.of === "result";
    placeholders.set(edit, all);
  }
  return all;
}

const placeholders = new WeakMap<ElideEdit, boolean>();

/** How results are said, by position: of several edits of one the last counts. */
export function sayEdits(edits: readonly Edit[]): ReadonlyMap<number, SayEdit> {
  return sortedOut(edits).said;
}

/** How results were said when they came, by position. */
export function arrivalEdits(edits: readonly Edit[]): ReadonlyMap<number, SayEdit> {
  return sortedOut(edits).arrived;
}

/** What is asked of all edits at once, worked out once for each list of them. */
interface SortedOut {
  /** The first and the last edit by which each result is said, by position. */
  readonly arrived: ReadonlyMap<number, SayEdit>;
  readonly said: ReadonlyMap<number, SayEdit>;
  /** Definitions of tools that are compact. */
  readonly compact: ReadonlySet<number>;
}

const sorted = new WeakMap<readonly Edit[], SortedOut>();

function sortedOut(edits: readonly Edit[]): SortedOut {
  const known = sorted.get(edits);
  if (known) return known;
  const [arrived, said] = [new Map<number, SayEdit>(), new Map<number, SayEdit>()];
  const compact = new Set<number>();
  for (const edit of edits) {
    if (edit.type === "compact") compact.add(edit.definition);
    if (edit.type !== "say") continue;
    if (!arrived.has(edit.index)) arrived.set(edit.index, edit);
    said.set(edit.index, edit);
  }
  const all = { arrived, said, compact };
  sorted.set(edits, all);
  return all;
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

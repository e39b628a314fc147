import type {
  AssistantMessage,
  CountTokens,
  Message,
  StableMessages,
  ToolCall,
  ToolDefinition,
  ToolMessage,
} from "@tare/messages";
import { countMessageTokens, describeCall, hashPiece } from "@tare/messages/internal";
import { applyElisions, RECALL_TOOL, type ToolTraits } from "@tare/prune";
import { parsePlaceholder } from "@tare/prune/internal";
import { compactTool } from "@tare/schemas";
import { ingested, type IngestEdit } from "../ingestion/ingested.ts";
import { type ByKind, messageKinds, NO_TEXT } from "../cache/prompt_size.ts";
import {
  type DropEdit,
  type Edit,
  type ElideEdit,
  type ShortenEdit,
  type SummarizeEdit,
  textAt,
} from "./edit.ts";
import { Rereads } from "./rereads.ts";

/** Messages and tools of a session, or of a model's view. */
export interface History {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

export type PlacedView = History & PlacedMessages;

/**
 * Returns the view of a history after these edits. Pure: the same history and edits give the same bytes.
 * Unedited messages keep their identity, and edited ones are the same object in every view, so that counts
 * stay cached.
 * @throws {RangeError} if an edit's messages don't exist, or it elides anything but a tool result.
 */
export function placedView(history: History, edits: readonly Edit[]): PlacedView {
  return { ...placeMessages(history.messages, edits), tools: compactedTools(history.tools, edits) };
}

export interface PlacedMessages {
  readonly messages: readonly Message[];
  /** Position of each message; −1 for a line that replaces several. */
  readonly places: readonly number[];
  readonly elided: readonly Message[];
}

export function placeMessages(history: readonly Message[], edits: readonly Edit[]): PlacedMessages {
  const elisions = edits.filter((edit) => edit.type === "elide");
  const elided = shortened(
    applyElisions(withIngested(history, edits, elisions), elisions),
    edits.filter((edit) => edit.type === "shorten"),
  );
  const stretches = edits.filter((edit) => edit.type === "drop" || edit.type === "summarize");
  if (stretches.length === 0) return { messages: elided, places: elided.map((_, index) => index), elided };
  const retained = new Set(edits.flatMap((edit) => edit.type === "keep" ? [edit.index] : []));
  const gone = new Set<number>();
  const lineBefore = new Map<number, Message>();
  for (const edit of stretches) {
    const { type, from, to } = edit;
    if (!(0 <= from && from < to && to <= history.length)) {
      throw new RangeError(
        `Cannot ${type} messages ${from} to ${to}: the history has ${history.length} messages.`,
      );
    }
    const users = new Set(edit.type === "summarize" ? edit.users : []);
    for (let index = from; index < to; index++) {
      if ((evicts(history[index], edit) || users.has(index)) && !retained.has(index)) gone.add(index);
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

export function compactedTools(
  tools: readonly ToolDefinition[],
  edits: readonly Edit[],
): readonly ToolDefinition[] {
  const { compact } = sortedOut(edits);
  if (compact.size === 0) return tools;
  return tools.map((tool) => compact.has(hashPiece(tool)) ? compactTool(tool) : tool);
}

function withIngested(
  history: readonly Message[],
  edits: readonly Edit[],
  elisions: readonly ElideEdit[],
): readonly Message[] {
  const edit = lastIngestEdits(edits);
  if (edit.size === 0) return history;
  const elided = new Set(elisions.map(({ index }) => index));
  const visible = [...history];
  for (const [index, one] of edit) {
    const message = history[index];
    if (message?.role !== "tool" || message.tool_call_id !== one.toolCallId) {
      throw new RangeError(`Cannot compress message ${index}: it is not the tool result of the edit.`);
    }
    if (!elided.has(index)) visible[index] = ingested(message, one);
  }
  return visible;
}

/** Returns whether a placeholder replaces the whole result, unlike truncation. */
export function standsForAll(edit: ElideEdit): boolean {
  let all = placeholders.get(edit);
  if (all === undefined) {
    all = parsePlaceholder(edit.text.split("\n", 1)[0] ?? "")?.of === "result";
    placeholders.set(edit, all);
  }
  return all;
}

const placeholders = new WeakMap<ElideEdit, boolean>();

/** Returns the last compression of each result, by position. */
export function lastIngestEdits(edits: readonly Edit[]): ReadonlyMap<number, IngestEdit> {
  return sortedOut(edits).ingested;
}

export function firstIngestEdits(edits: readonly Edit[]): ReadonlyMap<number, IngestEdit> {
  return sortedOut(edits).arrived;
}

interface SortedOut {
  readonly arrived: ReadonlyMap<number, IngestEdit>;
  readonly ingested: ReadonlyMap<number, IngestEdit>;
  readonly compact: ReadonlySet<number>;
}

const sorted = new WeakMap<readonly Edit[], SortedOut>();

function sortedOut(edits: readonly Edit[]): SortedOut {
  const known = sorted.get(edits);
  if (known) return known;
  const [arrived, ingested] = [new Map<number, IngestEdit>(), new Map<number, IngestEdit>()];
  const compact = new Set<number>();
  for (const edit of edits) {
    if (edit.type === "compact") compact.add(edit.definition);
    if (edit.type !== "ingest") continue;
    if (!arrived.has(edit.index)) arrived.set(edit.index, edit);
    ingested.set(edit.index, edit);
  }
  const all = { arrived, ingested, compact };
  sorted.set(edits, all);
  return all;
}

function shortened(messages: readonly Message[], edits: readonly ShortenEdit[]): readonly Message[] {
  if (edits.length === 0) return messages;
  const visible = [...messages];
  for (const edit of edits) {
    const message = visible[edit.index];
    if (!message || textAt(message, edit.part) === undefined) {
      throw new RangeError(`Cannot shorten message ${edit.index}: it does not contain that text of a user.`);
    }
    visible[edit.index] = shorten(message, edit);
  }
  return visible;
}

const short = new WeakMap<Message, { readonly edit: ShortenEdit; readonly visible: Message }>();

function shorten(message: Message, edit: ShortenEdit): Message {
  const known = short.get(message);
  if (known?.edit === edit) return known.visible;
  const { content } = message;
  const parts = typeof content === "string" || !content
    ? edit.text
    : content.map((part, at) => at === edit.part ? { ...part, text: edit.text } : part);
  const visible = { ...message, content: parts } as Message;
  short.set(message, { edit, visible });
  return visible;
}

function evicts(message: Message | undefined, { type }: DropEdit | SummarizeEdit): boolean {
  if (message?.role === "system" || message?.role === "developer") return false;
  return type === "drop" || message?.role !== "user";
}

const lines = new WeakMap<Edit, Message>();

function lineOf(edit: DropEdit | SummarizeEdit): Message {
  const known = lines.get(edit);
  if (known) return known;
  // A summary is the model's own text; a model that reads bare placeholders as its own would learn to write
  // them.
  const role = edit.type === "summarize" ? edit.role ?? "assistant" : "user";
  const line: Message = { role, content: edit.text };
  lines.set(edit, line);
  return line;
}

interface LayoutTotals {
  readonly all: number;
  readonly core: number;
  readonly dialogue: number;
  readonly results: number;
  readonly placeholders: number;
  readonly elided: number;
}

const NOTHING: LayoutTotals = { all: 0, core: 0, dialogue: 0, results: 0, placeholders: 0, elided: 0 };

type ResultEdit = ElideEdit | IngestEdit;

interface Row {
  readonly message: Message;
  readonly start: number;
  readonly tokens: number;
}

/**
 * The view of a growing history in rows with their tokens. A new message takes time for its own length, an
 * elision for the rows after it; other edits rebuild the layout.
 */
export class Layout {
  readonly #countTokens: CountTokens;
  #history: Message[] = [];
  #edits: readonly Edit[] = [];
  #placed: { messages: Message[]; places: number[]; elided: Message[] } = {
    messages: [],
    places: [],
    elided: [],
  };
  #totals: LayoutTotals[] = [];
  #fullEnds: number[] = [];
  /** Tokens up to the end of each message without refetches and their results. */
  #ownEnds: number[] = [];
  #reply = NO_REPLY;
  /** Absent in a dry run. */
  readonly #rereads: Rereads | undefined;
  #reread: readonly number[];
  /** Messages before this one were compared when they arrived. */
  readonly #comparedFrom: number;
  #rows: number[] = [];
  #elided = new Set<number>();
  #version = 0;
  #changed: number[] = [];
  #kinds: number[] = [...NO_TEXT];

  constructor(
    countTokens: CountTokens,
    { other, tools, reread = [], seen = 0, dryRun = false }: {
      readonly other?: Layout | undefined;
      /** Whether the model sees what was evicted, so that no read is a refetch. Default: false. */
      readonly dryRun?: boolean;
      readonly tools?: ToolTraits | undefined;
      /** {@linkcode Layout.reread} of an earlier layout, and the number of its messages. Default: none. */
      readonly reread?: readonly number[] | undefined;
      readonly seen?: number;
    } = {},
  ) {
    this.#countTokens = countTokens;
    this.#rereads = dryRun ? undefined : new Rereads(tools, other && other.#rereads);
    this.#reread = other ? other.#reread : reread;
    this.#comparedFrom = other ? 0 : seen;
    if (!other) return;
    const { messages, places, elided } = other.#placed;
    this.#history = [...other.#history];
    this.#edits = other.#edits;
    this.#placed = { messages: [...messages], places: [...places], elided: [...elided] };
    this.#totals = [...other.#totals];
    this.#fullEnds = [...other.#fullEnds];
    this.#ownEnds = [...other.#ownEnds];
    this.#reply = other.#reply;
    this.#rows = [...other.#rows];
    this.#elided = new Set(other.#elided);
    this.#kinds = [...other.#kinds];
  }

  get history(): readonly Message[] {
    return this.#history;
  }

  sharedLength(history: readonly Message[]): number {
    let at = 0;
    while (at < this.#history.length && this.#history[at] === history[at]) at++;
    return at;
  }

  isStartOf(history: readonly Message[]): boolean {
    return this.sharedLength(history) === this.#history.length;
  }

  /**
   * Updates the layout. Returns the unchanged tokens at the start of the prompt; infinite if it only grew.
   */
  update(history: readonly Message[], edits: readonly Edit[]): number {
    const shared = this.sharedLength(history);
    this.#changed = [];
    if (shared === this.#history.length) {
      const changes = this.#changesOf(edits);
      if (changes) {
        this.#edits = edits;
        const unchangedTokens = this.#change(changes.filter(({ index }) => index < shared));
        const arrived = new Map(changes.map((edit) => [edit.index, edit]));
        for (let at = shared; at < history.length; at++) this.#append(history[at]!, arrived.get(at));
        return unchangedTokens;
      }
    }
    const before = this.#placed.messages;
    const totals = this.#totals;
    this.#relay(history, edits, shared);
    const { messages } = this.#placed;
    let row = 0;
    const isSame = (one: Message, other: Message) => one === other || hashPiece(one) === hashPiece(other);
    while (row < before.length && messages[row] && isSame(before[row]!, messages[row]!)) row++;
    return row === before.length ? Infinity : totals[row - 1]?.all ?? 0;
  }

  get changed(): readonly number[] {
    return this.#changed;
  }

  get kinds(): ByKind {
    return [...this.#kinds];
  }

  get version(): number {
    return this.#version;
  }

  get placed(): PlacedMessages {
    return this.#placed;
  }

  get totals(): LayoutTotals {
    return this.#totals.at(-1) ?? NOTHING;
  }

  get tokens(): number {
    return this.totals.all;
  }

  get fullTokens(): number {
    return this.#fullEnds.at(-1) ?? 0;
  }

  fullTokensOf(length: number): number {
    return this.#fullEnds[length - 1] ?? (length > 0 ? this.fullTokens : 0);
  }

  /** Tokens of the original messages without recalls. */
  get ownTokens(): number {
    return this.#ownEnds.at(-1) ?? 0;
  }

  ownTokensOf(length: number): number {
    return this.#ownEnds[length - 1] ?? (length > 0 ? this.ownTokens : 0);
  }

  get openingTokens(): number {
    const first = this.#history.findIndex(({ role }) => role === "assistant");
    return this.ownTokensOf(first < 0 ? this.#history.length : first);
  }

  /** Positions of results that returned evicted content again. */
  get reread(): readonly number[] {
    return this.#reread;
  }

  /** Whether the history ends with refetched results only, so that the reply is an additional one. */
  get endsWithRefetches(): boolean {
    return this.#history.at(-1)?.role === "tool" && isRefetch(this.#reply);
  }

  dialogueBefore(at: number): number {
    return this.#before(this.#rows[at] ?? this.#totals.length).dialogue;
  }

  find(at: number): Row | undefined {
    const row = this.#rows[at] ?? -1;
    const message = this.#placed.messages[row];
    if (!message || this.#elided.has(at)) return undefined;
    const start = this.#before(row).all;
    return { message, start, tokens: this.#totals[row]!.all - start };
  }

  shows(at: number): boolean {
    return (this.#rows[at] ?? -1) >= 0 && !this.#elided.has(at);
  }

  isElided(at: number): boolean {
    return this.#elided.has(at);
  }

  hasLeft(at: number): boolean {
    return (this.#rows[at] ?? -1) < 0;
  }

  startAt(at: number): number {
    let row = this.#rows[at] ?? -1;
    if (row < 0) {
      row = this.#placed.places.findIndex((place) => place > at);
      if (row < 0) row = this.#placed.places.length;
      while (this.#placed.places[row - 1] === -1) row--;
    }
    return this.#before(row).all;
  }

  /** Returns the tokens of a message or its placeholder; 0 if its range was evicted. */
  tokensAt(at: number): number {
    const row = this.#rows[at] ?? -1;
    return row < 0 ? 0 : this.#totals[row]!.all - this.#before(row).all;
  }

  savedAt(at: number): number {
    const row = this.#rows[at] ?? -1;
    return row < 0 ? 0 : this.#totals[row]!.elided - this.#before(row).elided;
  }

  /** Returns the position of the first message from which at most these tokens follow. */
  tailStart(tokens: number): number {
    const { places } = this.#placed;
    let [low, high] = [0, places.length];
    while (low < high) {
      const row = (low + high) >> 1;
      if (this.tokens - this.#before(row).all <= tokens) high = row;
      else low = row + 1;
    }
    while (places[low] === -1) low++;
    return places[low] ?? this.#history.length;
  }

  /**
   * Returns how many messages are within these tokens from the start, and up to which one messages were
   * changed. Results in the form of their ingestion were never changed.
   */
  stableWithin(tokens: number, asArrived: readonly number[] = []): StableMessages {
    const { messages, places } = this.#placed;
    let [shared, high] = [0, messages.length];
    while (shared < high) {
      const row = (shared + high) >> 1;
      if (this.#totals[row]!.all <= tokens) shared = row + 1;
      else high = row;
    }
    const onIngestion = new Set(asArrived);
    let edited = messages.length;
    while (edited > 0) {
      const place = places[edited - 1]!;
      if (messages[edited - 1] !== this.#history[place] && !onIngestion.has(place)) break;
      edited--;
    }
    return { shared, edited };
  }

  #before(row: number): LayoutTotals {
    return this.#totals[row - 1] ?? NOTHING;
  }

  #append(message: Message, edit: ResultEdit | undefined): void {
    const at = this.#history.push(message) - 1;
    const visible = edit ? this.#edited(message, edit) : message;
    this.#count(message, at);
    this.#rows.push(this.#placed.messages.push(visible) - 1);
    this.#placed.places.push(at);
    this.#placed.elided.push(visible);
    this.#addKinds(visible, 1);
    this.#sum();
  }

  #changesOf(edits: readonly Edit[]): readonly ResultEdit[] | undefined {
    if (edits === this.#edits) return [];
    const known = this.#edits.length;
    if (edits.length < known || this.#edits.some((edit, at) => edit !== edits[at])) return undefined;
    const changes: ResultEdit[] = [];
    for (const edit of edits.slice(known)) {
      if (edit.type === "compact") continue;
      if (edit.type !== "elide" && edit.type !== "ingest") return undefined;
      if (
        edit.index < this.#history.length && (this.#rows[edit.index]! < 0 || this.#elided.has(edit.index))
      ) {
        return undefined;
      }
      changes.push(edit);
    }
    return changes;
  }

  #change(changes: readonly ResultEdit[]): number {
    const { messages, elided } = this.#placed;
    let first = Infinity;
    for (const edit of changes) {
      const { index } = edit;
      const row = this.#rows[index]!;
      this.#addKinds(messages[row]!, -1);
      messages[row] = elided[index] = this.#edited(this.#history[index]!, edit);
      this.#addKinds(elided[index], 1);
      this.#changed.push(index);
      first = Math.min(first, row);
    }
    if (first === Infinity) return first;
    this.#totals.length = first;
    while (this.#totals.length < messages.length) this.#sum();
    return this.#before(first).all;
  }

  #edited(message: Message, edit: ResultEdit): Message {
    if (edit.type === "ingest") return ingested(message, edit);
    if (standsForAll(edit)) this.#elided.add(edit.index);
    return applyElisions([message], [{ ...edit, index: 0 }])[0]!;
  }

  #relay(history: readonly Message[], edits: readonly Edit[], shared: number): void {
    const isCut = shared < this.#history.length;
    this.#history = [...history];
    this.#edits = edits;
    if (isCut) {
      this.#fullEnds.length = this.#ownEnds.length = shared;
      this.#reread = this.#reread.filter((at) => at < shared);
      this.#rereads?.cutBack(shared);
      this.#reply = this.#replyBefore(shared);
    }
    for (let at = shared; at < history.length; at++) this.#count(history[at]!, at);
    const { messages, places, elided } = placeMessages(history, edits);
    this.#kinds = [...NO_TEXT];
    for (const message of messages) this.#addKinds(message, 1);
    this.#placed = { messages: [...messages], places: [...places], elided: [...elided] };
    this.#elided = new Set(
      edits.flatMap((edit) => edit.type === "elide" && standsForAll(edit) ? [edit.index] : []),
    );
    this.#rows = history.map(() => -1);
    for (const [row, place] of places.entries()) if (place >= 0) this.#rows[place] = row;
    this.#totals = [];
    while (this.#totals.length < messages.length) this.#sum();
    this.#version++;
  }

  #addKinds(message: Message, times: number): void {
    const tokens = messageKinds(message, this.#countTokens);
    for (let kind = 0; kind < tokens.length; kind++) this.#kinds[kind]! += times * tokens[kind]!;
  }

  #count(message: Message, at: number): void {
    const tokens = countMessageTokens(message, this.#countTokens);
    this.#fullEnds.push(this.fullTokens + tokens);
    const isReply = message.role === "assistant";
    if (isReply) {
      this.#reply = replyOf(message, at, this.#history[at - 1]?.role === "assistant" && this.#reply);
    } else if (message.role !== "tool") this.#reply = NO_REPLY;
    const own = message.role === "tool"
      ? this.#countResult(message, at)
      : isReply
      ? this.#ownTokensOf(message, tokens)
      : tokens;
    this.#ownEnds.push(this.ownTokens + (own ?? tokens));
  }

  /** Returns the own tokens of a reply, without its recalls. */
  #ownTokensOf(message: AssistantMessage, tokens: number): number {
    const others = message.tool_calls?.filter((call) => !isRecall(call)) ?? [];
    if (others.length === (message.tool_calls ?? []).length) return tokens;
    return others.length === 0
      ? 0
      : countMessageTokens({ ...message, tool_calls: others }, this.#countTokens);
  }

  /** Notes the result of a call. Returns 0 for a refetched one. */
  #countResult(message: ToolMessage, at: number): 0 | undefined {
    const reply = this.#reply;
    const call = reply.calls.get(message.tool_call_id);
    if (!call) return undefined;
    const isReread = !isRecall(call) && this.#isReread(message, call, at);
    if (!isReread && !isRecall(call)) {
      this.#reply = { ...reply, hasOwn: true };
      return undefined;
    }
    const refetched = new Set([...reply.refetched, message.tool_call_id]);
    this.#reply = { ...reply, refetched };
    // A reply that only reads evicted content again would not have been made.
    if (isRefetch(this.#reply)) {
      const start = this.ownTokensOf(reply.at);
      for (let at = reply.at; at < this.#ownEnds.length; at++) this.#ownEnds[at] = start;
    }
    return 0;
  }

  #isReread(message: ToolMessage, call: ToolCall, at: number): boolean {
    if (!this.#rereads) return false;
    const isKnown = this.#reread.includes(at);
    const isFound = this.#rereads.add(message, {
      ...{ call, at },
      find: (at) => {
        const row = this.#rows[at] ?? -1;
        return { original: this.#history[at]!, visible: this.#placed.messages[row] };
      },
    });
    if (at < this.#comparedFrom || isKnown) return isKnown;
    if (isFound) this.#reread = [...this.#reread, at];
    return isFound;
  }

  #replyBefore(end: number): Reply {
    let from = this.#history.findLastIndex(({ role }, at) => at < end && role !== "tool");
    if (this.#history[from]?.role !== "assistant") return NO_REPLY;
    while (this.#history[from - 1]?.role === "assistant") from--;
    let reply = NO_REPLY;
    for (const [at, message] of this.#history.slice(0, end).entries()) {
      if (at < from) continue;
      if (message.role === "assistant") reply = replyOf(message, at, at > from && reply);
      if (message.role !== "tool") continue;
      const { tool_call_id: id } = message;
      const call = reply.calls.get(id);
      if (!call) continue;
      reply = isRecall(call) || this.#reread.includes(at)
        ? { ...reply, refetched: new Set([...reply.refetched, id]) }
        : { ...reply, hasOwn: true };
    }
    return reply;
  }

  #sum(): void {
    const row = this.#totals.length;
    const message = this.#placed.messages[row]!;
    const place = this.#placed.places[row]!;
    const { all, core, dialogue, results, placeholders, elided } = this.#before(row);
    const tokens = countMessageTokens(message, this.#countTokens);
    const isLine = message !== this.#history[place] && (message.role !== "tool" || this.#elided.has(place));
    const isCore = !isLine && (message.role === "system" || message.role === "developer");
    const isResult = !isLine && message.role === "tool";
    const full = place < 0 ? tokens : this.#fullEnds[place]! - (this.#fullEnds[place - 1] ?? 0);
    this.#totals.push({
      all: all + tokens,
      core: core + (isCore ? tokens : 0),
      dialogue: dialogue + (isLine || isCore || isResult ? 0 : tokens),
      results: results + (isResult ? tokens : 0),
      placeholders: placeholders + (isLine ? tokens : 0),
      elided: elided + full - tokens,
    });
  }
}

/** The newest reply, of one or more messages from `at`, and what its results returned. */
interface Reply {
  readonly at: number;
  readonly calls: ReadonlyMap<string, ToolCall>;
  /** Ids of calls whose results were recalled or read again. */
  readonly refetched: ReadonlySet<string>;
  /** Whether another result was returned. */
  readonly hasOwn: boolean;
}

const NO_REPLY: Reply = { at: -1, calls: new Map(), refetched: new Set(), hasOwn: false };

function replyOf(message: AssistantMessage, at: number, before: Reply | false): Reply {
  const calls = (message.tool_calls ?? []).map((call) => [call.id, call] as const);
  return before
    ? { ...before, calls: new Map([...before.calls, ...calls]) }
    : { ...NO_REPLY, at, calls: new Map(calls) };
}

/** Returns whether all calls of a reply were answered and returned evicted content. */
function isRefetch({ calls, refetched, hasOwn }: Reply): boolean {
  return calls.size > 0 && !hasOwn && refetched.size === calls.size;
}

function isRecall(call: ToolCall): boolean {
  return describeCall(call).name === RECALL_TOOL.function.name;
}

/** Returns whether a message of a view is an earlier summary: only those end with such a placeholder. */
export function isSummary(message: Message): boolean {
  if (message.role !== "assistant" || typeof message.content !== "string" || message.tool_calls) return false;
  return parsePlaceholder(message.content.slice(message.content.lastIndexOf("\n") + 1))?.of === "messages";
}

import {
  contentText,
  type Message,
  type ToolCall,
  type ToolDefinition,
  type ToolMessage,
} from "@tare/messages";
import { describeCall, hashBytes, hashPiece, hashText, setHash } from "@tare/messages/internal";
import {
  arrayItems,
  asRecord,
  editJson,
  findField,
  isRecord,
  joinBytes,
  jsonBytes,
  type JsonEdit,
  type JsonRecord,
  objectFields,
  readJsonAt,
  type Span,
} from "./json.ts";
import { argumentsMeaning } from "./meaning.ts";
import {
  type ItemPart,
  type KnownList,
  type PairedPiece,
  type Protocol,
  type Reading,
  type ReadPiece,
  type ReadTool,
  type RequestHints,
  type RequestPrompt,
  type RequestReaders,
  type Spelling,
  UnknownShape,
  type WireBody,
  type WireItem,
  type WireRequest,
  type WrittenItem,
} from "./protocol.ts";

/** Returns the tools at the front of the prompt. */
export function toolsInFront({ tools = [] }: Pick<WireRequest, "tools">): readonly ToolDefinition[] {
  return tools.flatMap(({ definition, inFront }) => inFront ? [definition] : []);
}

/** Returns a tool that is no function, named by its JSON so that it is never shortened. */
export function wholeTool(tool: JsonRecord): ReadTool {
  const name = `${tool.name ?? tool.type} ${JSON.stringify(tool)}`;
  return { definition: { type: "function", function: { name } }, inFront: true };
}

/**
 * Returns field spans and known list items.
 * @throws {SyntaxError} if the body is no object.
 */
export function readWireBody(
  bytes: Uint8Array<ArrayBuffer>,
  { protocol, lists }: { readonly protocol?: Protocol } & Pick<RequestReaders, "lists"> = {},
): WireBody {
  let known: KnownList | undefined;
  const fields = objectFields(bytes, 0, (name, start) => {
    if (!protocol || name !== protocol.listField) return undefined;
    known = bytes[start] === OPEN_ARRAY ? lists?.find(bytes, start, protocol.name) : undefined;
    return known?.end;
  });
  return { bytes, fields, known };
}

/** Returns a field's value, if any. @throws {SyntaxError} if it is no JSON. */
export function readField({ bytes, fields }: WireBody, name: string): unknown {
  const span = fields.get(name);
  return span && readJsonAt(bytes, span);
}

/** Bytes read by {@linkcode peekField}, which blocks other requests. */
const PEEKED_BYTES = 2 ** 24;

/** Returns the first field of this name in a possibly truncated or invalid body. */
export function peekField(bytes: Uint8Array<ArrayBuffer>, name: string): unknown {
  try {
    const span = findField(bytes.subarray(0, PEEKED_BYTES), name);
    return span && readJsonAt(bytes, span);
  } catch {
    return undefined;
  }
}

/** Returns hints common to all protocols. */
export function readCommonHints(
  body: WireBody,
  headers: Headers,
): Pick<RequestHints, "key" | "purpose" | "forbidsTools" | "forcesTool"> {
  const key = readField(body, "prompt_cache_key") ?? headers.get("x-session-id");
  const kind = readRequestKind(body, headers);
  const choice = readField(body, "tool_choice");
  const purpose = /compact|summar/i.test(kind ?? "") ? "compaction" : "other";
  return {
    ...(typeof key === "string" && { key }),
    ...(kind !== undefined && { purpose: kind === "turn" ? "turn" : purpose }),
    ...((isRecord(choice) ? choice.type : choice) === "none" && { forbidsTools: true }),
    ...(isRecord(choice) && ["tool", "function", "custom"].includes(String(choice.type)) && {
      forcesTool: true,
    }),
  };
}

function readRequestKind(body: WireBody, headers: Headers): string | undefined {
  const metadata = readField(body, "client_metadata");
  for (const [name, value] of [...headers, ...Object.entries(isRecord(metadata) ? metadata : {})]) {
    if (!name.endsWith("-turn-metadata") || typeof value !== "string") continue;
    try {
      const parsed: unknown = JSON.parse(value);
      if (isRecord(parsed) && typeof parsed.request_kind === "string") return parsed.request_kind;
    } catch {
      // No metadata.
    }
  }
  return undefined;
}

/**
 * Reads a request.
 *
 * @example An old result is removed from a request, and its other bytes stay
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import {
 *   CHAT_PROTOCOL,
 *   type JsonReader,
 *   readJsonAt,
 *   readRequest,
 *   readWireBody,
 *   writeRequest,
 * } from "@tare/wire/internal";
 *
 * const reader: JsonReader<never> = {
 *   read: (bytes, { read, ...span }) => ({ key: "", value: read(readJsonAt(bytes, span)) }),
 * };
 * const body = '{"model":"m","top_p":1.0,"messages":[{"role":"tool","tool_call_id":"c","content":"long"}]}';
 * const request = readRequest(readWireBody(new TextEncoder().encode(body)), CHAT_PROTOCOL, {
 *   items: reader,
 *   tools: reader,
 * });
 * const { items } = request;
 * const messages = items.flatMap(({ parts }) =>
 *   parts.map(({ message }) => ({ ...message, content: "[elided]" }))
 * );
 * const bytes = writeRequest(request, { items, messages, places: [0], tools: [] });
 * assertEquals(new TextDecoder().decode(bytes), body.replace("long", "[elided]"));
 * ```
 *
 * @throws {UnknownShape} if an item or a tool is invalid in the protocol.
 * @throws {SyntaxError} if there is no list of items.
 */
export function readRequest(
  body: WireBody,
  protocol: Protocol,
  readers: RequestReaders,
): WireRequest {
  const steps = readingRequest(body, protocol, readers);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Longest text of a message or of the tools, in UTF-16 code units, as processing isn't interruptible. */
const MAX_TEXT_CHARS = 2 ** 21;

/** @throws {RangeError} if a text is too long. */
function assertShort(parts: readonly ItemPart[]): readonly ItemPart[] {
  for (const { message } of parts) {
    const { content } = message;
    let chars = contentText(content).length;
    if (message.role === "assistant") {
      chars += message.reasoning_content?.length ?? 0;
      for (const call of message.tool_calls ?? []) chars += describeCall(call).arguments.length;
    }
    if (chars > MAX_TEXT_CHARS) {
      throw new RangeError(`one of its texts has more than ${MAX_TEXT_CHARS} characters`);
    }
  }
  return parts;
}

/** Reads a request in steps, between which other requests can run. */
export function* readingRequest(
  body: WireBody,
  protocol: Protocol,
  readers: RequestReaders,
): Generator<void, WireRequest> {
  const { bytes, fields, known } = body;
  const { head, listField, name: kind } = protocol;
  const items: WireItem[] = [];
  if (head) {
    const json = jsonBytes(head.fields.map((name) => readField(body, name) ?? null));
    const read = (values: unknown) => assertShort(head.read(values as readonly unknown[]));
    const { key, value } = readers.items.read(json, {
      start: 0,
      end: json.length,
      kind: `${kind} head`,
      read,
      spelling: SPELLING,
    });
    items.push({ key, parts: value });
    yield;
  }
  const list = fields.get(listField);
  if (list && bytes[list.start] === QUOTE) {
    const item = readItem(bytes, list, { protocol, readers });
    const [part] = item.parts;
    items.push(part ? { ...item, bytes: encoder.encode(protocol.writeMessage(part.message)) } : item);
  } else if (list) {
    const { start } = list;
    const listed = [...known?.items ?? []];
    for (const span of arrayItems(bytes, start, known?.end)) {
      const piece = readPiece(bytes, span, { protocol, readers });
      listed.push({ start: span.start - start, end: span.end - start, ...paired(piece, listed) });
      yield;
    }
    const listItems = listed.map(({ piece, start: from, end }) =>
      itemOf(piece, bytes.subarray(start + from, start + end), readers)
    );
    items.push(...withThoughts(listItems));
    readers.lists?.keep(bytes, { start, kind, items: listed, known });
  }
  const toolsSpan = fields.get("tools");
  if (toolsSpan && toolsSpan.end - toolsSpan.start > MAX_TEXT_CHARS) {
    throw new RangeError(`its tools have more than ${MAX_TEXT_CHARS} bytes`);
  }
  yield;
  const tools = toolsSpan !== undefined && bytes[toolsSpan.start] === OPEN_ARRAY
    ? arrayItems(bytes, toolsSpan.start).map((span) => ({
      bytes: bytes.subarray(span.start, span.end),
      ...readers.tools.read(bytes, { ...span, kind, read: protocol.readTool }).value,
    }))
    : undefined;
  return {
    ...body,
    protocol,
    model: String(readField(body, "model")),
    stream: readField(body, "stream") === true,
    ...readReplyTokens(body, protocol),
    items: withFoundTools(items, tools),
    tools,
  };
}

function readReplyTokens(
  body: WireBody,
  { replyFields }: Pick<Protocol, "replyFields">,
): Pick<WireRequest, "replyTokens"> {
  const replyTokens = replyFields.map((name) => readField(body, name)).find((value) =>
    typeof value === "number"
  );
  return replyTokens === undefined ? {} : { replyTokens };
}

/** Returns the items with found tools' definitions; others are the same objects. */
export function withFoundTools(
  items: readonly WireItem[],
  tools: WireRequest["tools"] = [],
): readonly WireItem[] {
  const isFinder = ({ parts }: WireItem) => parts.some(({ finds }) => finds !== undefined);
  if (!items.some(isFinder)) return items;
  const known = new Map(tools.map(({ definition }) => [definition.function.name, definition]));
  const find = ({ finds = [], ...part }: ItemPart): ItemPart => {
    const found = finds.flatMap((name) => known.get(name) ?? []);
    return found.length === 0 ? part : { ...part, message: withTools(part.message, found) };
  };
  return items.map((item) => isFinder(item) ? { ...item, parts: item.parts.map(find) } : item);
}

const found = new WeakMap<Message, Message & Pick<ToolMessage, "findsTools">>();

/** Returns the same object for the same message and tools, so that its cached data stays valid. */
function withTools(message: Message, tools: readonly ToolDefinition[]): Message {
  const known = found.get(message);
  const { findsTools = [] } = known ?? {};
  const isKnown = findsTools.length === tools.length && tools.every((tool, at) => tool === findsTools[at]);
  if (known && isKnown) return known;
  const now = { ...message, findsTools: tools };
  setHash(now, hashText([message, ...tools].map(hashPiece).join()));
  found.set(message, now);
  return now;
}

/** Reads JSON items. @throws errors of {@linkcode readRequest}. */
export function readItems(pieces: readonly string[], reading: Reading): readonly WireItem[] {
  const read: (PairedPiece & { readonly bytes: Uint8Array<ArrayBuffer> })[] = [];
  for (const json of pieces) {
    const bytes = encoder.encode(json);
    const piece = readPiece(bytes, { start: 0, end: bytes.length }, reading);
    read.push({ bytes, ...paired(piece, read) });
  }
  return read.map(({ piece, bytes }) => itemOf(piece, bytes, reading.readers));
}

function readItem(bytes: Uint8Array<ArrayBuffer>, span: Span, reading: Reading): WireItem {
  return itemOf(readPiece(bytes, span, reading), bytes.subarray(span.start, span.end), reading.readers);
}

/** Previous items searched for a call. */
const PAIR_REACH = 256;

/**
 * Returns a piece with call ids derived from name, arguments and occurrence in the reply, since clients
 * rewrite ids.
 */
function paired(piece: ReadPiece, before: readonly PairedPiece[]): PairedPiece {
  const { key, value } = piece;
  const calls: PairedPiece["calls"][number][] = [];
  const answers: string[] = [];
  const ids: string[] = [];
  for (const { message } of value) {
    if (message.role === "tool") {
      const { tool_call_id: clientId } = message;
      ids.push(answeredBy(clientId, answers, before) ?? clientId);
      answers.push(clientId);
    } else if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) {
        const what = nameOfCall(call);
        const same = [{ calls }, ...replyUpTo(before, before.length)].flatMap(({ calls }) => calls)
          .filter((other) => other.what === what).length;
        const id = same === 0 ? what : `${what} ${same + 1}`;
        ids.push(id);
        calls.push({ clientId: call.id, what, id });
      }
    }
  }
  const isReply = value.every(({ message }) => message.role === "assistant");
  if (ids.length === 0) return { piece, isReply, calls, answers };
  const answerKey = answers.length === 0 ? key : [key, ...ids].join(" ");
  return { piece: { key: answerKey, value: withIds(value, ids) }, isReply, calls, answers };
}

function nameOfCall(call: ToolCall): string {
  const { name } = describeCall(call);
  return `${name} ${hashText(JSON.stringify(callMeaning(call))).toString(36)}`;
}

function replyUpTo(pieces: readonly PairedPiece[], end: number): readonly PairedPiece[] {
  let from = end;
  while (end - from < PAIR_REACH && pieces[from - 1]?.isReply) from--;
  return pieces.slice(from, end);
}

/** Returns the assigned id for a client's call id, given earlier pieces and the item's earlier answers. */
function answeredBy(
  clientId: string,
  answered: readonly string[],
  before: readonly PairedPiece[],
): string | undefined {
  const count = (ids: readonly string[]) => ids.filter((id) => id === clientId).length;
  let place = count(answered);
  for (let at = before.length - 1; at >= Math.max(0, before.length - PAIR_REACH); at--) {
    const { calls, answers } = before[at]!;
    place += count(answers);
    if (!calls.some((call) => call.clientId === clientId)) continue;
    const meant = replyUpTo(before, at + 1)
      .flatMap(({ calls }) => calls.filter((call) => call.clientId === clientId));
    return (meant[place] ?? meant.at(-1))?.id;
  }
  return undefined;
}

const withOtherIds = new WeakMap<
  readonly ItemPart[],
  { readonly ids: string; readonly parts: readonly ItemPart[] }
>();

/** Returns the same objects for the same ids, so that their cached data stays valid. */
function withIds(parts: readonly ItemPart[], ids: readonly string[]): readonly ItemPart[] {
  const known = withOtherIds.get(parts);
  if (known?.ids === ids.join("\n")) return known.parts;
  let at = 0;
  const now = parts.map((part): ItemPart => {
    const { message } = part;
    if (message.role === "tool") {
      const answer = { ...message, tool_call_id: ids[at++]! };
      setHash(answer, hashText(`${hashPiece(message)} ${answer.tool_call_id}`));
      return { ...part, message: answer };
    }
    if (message.role !== "assistant" || !message.tool_calls?.length) return part;
    const reply = { ...message, tool_calls: message.tool_calls.map((call) => ({ ...call, id: ids[at++]! })) };
    setHash(reply, hashPiece(message));
    return { ...part, message: reply };
  });
  withOtherIds.set(parts, { ids: ids.join("\n"), parts: now });
  return now;
}

/**
 * Returns the items with reasoning attached to the reply's next item, or its last one, with which it is
 * evicted. Omitted reasoning yields the same items.
 */
export function withThoughts(items: readonly WireItem[]): readonly WireItem[] {
  if (!items.some(isThought)) return items;
  const all: WireItem[] = [];
  let thoughts: WireItem[] = [];
  const endThoughts = () => {
    const last = all.at(-1);
    if (thoughts.length > 0 && last && isReply(last)) {
      all[all.length - 1] = { ...last, bytes: spanned([last, ...thoughts]) };
    } else all.push(...thoughts);
    thoughts = [];
  };
  for (const item of items) {
    if (isThought(item)) thoughts.push(item);
    else if (thoughts.length > 0 && isReply(item)) {
      all.push(thinking(thoughts, item, spanned([...thoughts, item])));
      thoughts = [];
    } else {
      endThoughts();
      all.push(item);
    }
  }
  endThoughts();
  return all;
}

/** Returns an item without attached reasoning that has one of these anchors. */
export function withoutThoughts(item: WireItem, names: readonly string[]): WireItem {
  const { thought } = item;
  if (!thought) return item;
  const isLeft = ({ parts: [part] }: WireItem) => !part || !names.includes(anchorOf(part.message));
  const left = thought.before.filter(isLeft);
  if (left.length === thought.before.length) return item;
  if (left.length === 0) return thought.item;
  return thinking(left, thought.item, listed([...left, thought.item]));
}

/**
 * Returns items with the call ids of the client's item that they replace, which its answers use. The same
 * objects each time, so that cached data stays valid.
 */
export function underClientIds(
  items: readonly WireItem[],
  client: WireItem,
  { idPaths }: Pick<Protocol, "idPaths">,
): readonly WireItem[] {
  if (!idPaths) return items;
  const wanted = callIds(client, idPaths);
  if (wanted.length === 0) return items;
  const isAnswer = ({ parts }: WireItem) => parts.some(({ message }) => message.role === "tool");
  const answered = new Set(items.filter(isAnswer).flatMap((item) => callIds(item, idPaths)));
  const left = items.filter((item) => !isAnswer(item)).flatMap((item) => callIds(item, idPaths))
    .filter((id) => !answered.has(id));
  if (left.length !== wanted.length || left.every((id, at) => id === wanted[at])) return items;
  const before = respelled.get(items);
  if (before?.ids === wanted.join("\n")) return before.items;
  const ids = new Map(left.map((id, at) => [id, wanted[at]!]));
  const now = items.map((item) => withCallIds(item, ids, idPaths));
  respelled.set(items, { ids: wanted.join("\n"), items: now });
  return now;
}

const respelled = new WeakMap<
  readonly WireItem[],
  { readonly ids: string; readonly items: readonly WireItem[] }
>();

function callIds(
  { bytes, thought }: WireItem,
  idPaths: NonNullable<Protocol["idPaths"]>,
): readonly string[] {
  const own = thought?.item.bytes ?? bytes;
  if (!own) return [];
  const known = idsIn.get(own);
  if (known) return known;
  const item = readJsonAt(own);
  const ids = idPaths(item).map((path) => String(valueAt(item, path)));
  idsIn.set(own, ids);
  return ids;
}

const idsIn = new WeakMap<Uint8Array, readonly string[]>();

function withCallIds(
  item: WireItem,
  others: ReadonlyMap<string, string>,
  idPaths: NonNullable<Protocol["idPaths"]>,
): WireItem {
  const { bytes } = item;
  const ids = callIds(item, idPaths).map((id) => others.get(id) ?? id);
  if (!bytes || ids.length === 0) return item;
  const paths = idPaths(readJsonAt(bytes));
  const edits = paths.map((path, at) => ({ path, value: jsonBytes(ids[at]) }));
  return { ...item, bytes: editJson(bytes, edits) };
}

function valueAt(value: unknown, path: readonly (string | number)[]): unknown {
  return path.reduce<unknown>(
    (at, step) => Array.isArray(at) ? at[Number(step)] : asRecord(at)?.[step],
    value,
  );
}

function isThought({ parts: [part] }: WireItem): boolean {
  return part?.isThought === true;
}

function isReply({ bytes, parts }: WireItem): boolean {
  return bytes !== undefined && parts.length > 0 &&
    parts.every(({ message }) => message.role === "assistant");
}

/** Returns the bytes of adjacent items: a view of their list, if possible. */
function spanned(items: readonly WireItem[]): Uint8Array<ArrayBuffer> {
  const [from, to] = [items[0]!.bytes!, items.at(-1)!.bytes!];
  const { buffer, byteOffset } = from;
  return buffer === to.buffer
    ? new Uint8Array(buffer, byteOffset, to.byteOffset + to.length - byteOffset)
    : listed(items);
}

function listed(items: readonly WireItem[]): Uint8Array<ArrayBuffer> {
  return joinBytes(items.flatMap(({ bytes }, at) => [...at === 0 ? [] : [COMMA], bytes!]));
}

const withThought = new WeakMap<Message, { readonly bytesHash: number; readonly message: Message }>();

function thinking(
  before: readonly WireItem[],
  item: WireItem,
  bytes: Uint8Array<ArrayBuffer>,
): WireItem {
  const text = before.flatMap(({ parts }) => parts.map(({ message }) => thoughtOf(message)))
    .filter(Boolean).join("\n");
  const thought = { before, item };
  const [part, ...others] = item.parts;
  if (!part || part.message.role !== "assistant") return { ...item, bytes, thought };
  // Sealed reasoning is part of the cached prefix.
  const bytesHash = hashText(
    [...before.flatMap(({ parts }) => parts), part].map(({ message }) => hashBytes(message)).join(),
  );
  const known = withThought.get(part.message);
  const message = known?.bytesHash === bytesHash
    ? known.message
    : { ...part.message, ...(text !== "" && { reasoning_content: text }) };
  if (known?.message !== message) {
    setHash(message, hashPiece(part.message), bytesHash);
    withThought.set(part.message, { bytesHash, message });
  }
  return { ...item, parts: [{ ...part, message }, ...others], bytes, thought };
}

function thoughtOf(message: Message): string {
  return message.role === "assistant" ? message.reasoning_content ?? "" : "";
}

export function readPiece(
  bytes: Uint8Array<ArrayBuffer>,
  { start, end }: Span,
  { protocol, readers }: Reading,
): ReadPiece {
  const { name: kind, readItem } = protocol;
  const read: typeof readItem = end - start > MAX_TEXT_CHARS
    ? (json) => assertShort(readItem(json))
    : readItem;
  return readers.items.read(bytes, { start, end, kind, read, spelling: SPELLING });
}

function itemOf(
  { key, value }: ReadPiece,
  bytes: Uint8Array<ArrayBuffer>,
  { referred }: RequestReaders,
): WireItem {
  const [{ refersTo } = {}] = value;
  return { key, parts: (refersTo === undefined ? undefined : referred?.(refersTo)) ?? value, bytes };
}

const SPELLING: Spelling<readonly ItemPart[]> = {
  spelled: (parts) =>
    parts.every(({ meaning }) => meaning !== undefined)
      ? parts.map(({ meaning }) => JSON.stringify(meaning))
      : undefined,
  named: (parts, names) =>
    parts.map(({ meaning: _, ...part }, at) => {
      setHash(part.message, hashText(names[at]!));
      return part;
    }),
  adopt: withMessages,
};

/** Returns parts with the equal messages of another spelling, so that cached data stays valid. */
function withMessages(made: readonly ItemPart[], known: readonly ItemPart[]): readonly ItemPart[] {
  return made.map((part, at) => {
    const { message = part.message } = known[at] ?? {};
    return hashBytes(message) === hashBytes(part.message) ? { ...part, message } : part;
  });
}

const encoder = new TextEncoder();

const QUOTE = 0x22;

const OPEN_ARRAY = 0x5b;

/**
 * Returns the body for the upstream; unchanged parts keep the client's bytes.
 * @throws {UnknownShape} if a changed message can't be written.
 */
export function writeRequest(
  request: WireRequest,
  prompt: RequestPrompt,
): Uint8Array<ArrayBuffer> {
  const { bytes, fields, protocol } = request;
  const values = new Map(protocol.addedFields(request));
  const list = writeList(request, prompt);
  if (list) values.set(protocol.listField, joinArray(list));
  const tools = writeTools(request, prompt.tools);
  if (tools) values.set("tools", tools);
  const { followsField: field } = protocol;
  if (field !== undefined && prompt.follows !== undefined && prompt.follows !== readField(request, field)) {
    values.set(field, jsonBytes(prompt.follows));
  }
  for (const [name, text] of Object.entries(prompt.fields ?? {})) {
    if (!fields.has(name)) values.set(name, jsonBytes(text));
  }
  if (values.size === 0) return bytes;
  return editJson(bytes, [...values].map(([name, value]) => ({ path: [name], value })), fields);
}

/** Returns the list's items, if changed. @throws errors of {@linkcode writeRequest}. */
export function writeList(
  request: WireRequest,
  prompt: Omit<RequestPrompt, "tools">,
): readonly Uint8Array<ArrayBuffer>[] | undefined {
  const { protocol, items } = request;
  const entries = writeItems(prompt, protocol);
  const written = entries.flatMap(({ bytes }) => bytes ?? []);
  const whole = items.flatMap(({ bytes }) => bytes ?? []);
  const ends = prompt.marked && protocol.markedEnds?.(request, entries);
  const isChanged = (items: readonly Uint8Array<ArrayBuffer>[]) =>
    items.length !== whole.length || items.some((item, at) => item !== whole[at]);
  const arranged = (prompt.completesBreakpoints || isChanged(written))
    ? protocol.arrange?.(request, entries, prompt)
    : undefined;
  if (ends) prompt.marked?.([...ends, ...arranged?.ends ?? []]);
  const list = arranged?.items ?? written;
  return isChanged(list) ? list : undefined;
}

/** Places added messages between items, never inside. */
function writeItems(
  { items, messages, places }: Omit<RequestPrompt, "tools">,
  protocol: Protocol,
): WrittenItem[] {
  const written: WrittenItem[] = [];
  const write = (message: Message, end: number): WrittenItem => ({
    seen: [],
    bytes: encoder.encode(protocol.writeMessage(message)),
    end,
  });
  let at = 0;
  let start = 0;
  for (const item of items) {
    const end = start + item.parts.length;
    const seen: (Message | undefined)[] = [];
    let after: WrittenItem[] | undefined;
    for (; at < messages.length; at++) {
      const message = messages[at];
      const place = places[at];
      if (!message || place === undefined || place >= end) break;
      if (place >= start) seen[place - start] = message;
      else (seen.length > 0 ? after ??= [] : written).push(write(message, at + 1));
    }
    written.push({ item, seen, bytes: seen.length > 0 ? writeItem(item, seen) : undefined, end: at });
    if (after) written.push(...after);
    start = end;
  }
  return [...written, ...messages.slice(at).map((message, more) => write(message, at + more + 1))];
}

function writeItem(
  { bytes, parts }: WireItem,
  seen: WrittenItem["seen"],
): Uint8Array<ArrayBuffer> | undefined {
  if (parts.every((part, at) => seen[at] === part.message)) return bytes;
  const edits = parts.flatMap((part, at): JsonEdit[] => {
    const message = seen[at];
    if (message === part.message) return [];
    if (message && part.text) {
      return [{ path: part.text, value: jsonBytes(message.content) }];
    }
    if (message || !part.at) throw new UnknownShape("a changed message can't be written to its item");
    return [{ path: part.at }];
  });
  return bytes && editJson(bytes, edits);
}

/** Returns the list of tools, if changed. */
export function writeTools(
  { tools = [], protocol, hasOtherTools = false }: Pick<WireRequest, "tools" | "protocol" | "hasOtherTools">,
  visible: readonly ToolDefinition[],
): Uint8Array<ArrayBuffer> | undefined {
  const full = toolsInFront({ tools });
  if (!hasOtherTools && visible.length === full.length && visible.every((tool, at) => tool === full[at])) {
    return undefined;
  }
  let at = 0;
  const written = tools.map(({ definition, inFront, bytes }) => {
    const now = inFront ? visible[at++] : undefined;
    if (!now || now === definition) return bytes;
    return encoder.encode(protocol.writeTool(now, readJsonAt(bytes)));
  });
  const more = visible.slice(full.length).map((tool) => encoder.encode(protocol.writeTool(tool)));
  return joinArray([...written, ...more]);
}

function joinArray(items: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  return joinBytes([OPEN, ...items.flatMap((item, at) => at === 0 ? [item] : [COMMA, item]), CLOSE]);
}

const OPEN = encoder.encode("[");

const CLOSE = encoder.encode("]");

const COMMA = encoder.encode(",");

/**
 * Returns a message's anchor, equal for all spellings: text, calls without ids, and the id of an item without
 * text.
 */
export function anchorOf(message: Message): string {
  const known = anchors.get(message);
  if (known !== undefined) return known;
  const calls = message.role === "assistant" ? message.tool_calls ?? [] : [];
  const { id } = message as { readonly id?: unknown };
  const meaning = [message.role, contentText(message.content).trim(), calls.map(callMeaning), id ?? null];
  const anchor = JSON.stringify(meaning);
  anchors.set(message, anchor);
  return anchor;
}

const anchors = new WeakMap<Message, string>();

function callMeaning(call: ToolCall): unknown {
  const { name, arguments: args } = describeCall(call);
  return [name, call.type === "custom" ? args : argumentsMeaning(args)];
}

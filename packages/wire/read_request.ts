import { checkGiven, type ToolDefinition } from "@tare/messages";
import { arrayItems, findField, objectFields, readJsonAt, type Span } from "./json_spans.ts";
import { isRecord } from "./json_record.ts";
import type { ItemPart, Protocol, SessionHints } from "./protocol.ts";

/** A body of JSON with the places of its fields. */
export interface WireBody {
  /** As it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Places of the values of its fields, by name. */
  readonly fields: ReadonlyMap<string, Span>;
  /** What is known of its list of items. */
  readonly known?: KnownList | undefined;
}

/** An item of a request's list, or of what shall stand in it. */
export interface WireItem {
  /** Names its bytes: those of two items differ if the items do. */
  readonly key: string;
  /** What it is to the planner. */
  readonly parts: readonly ItemPart[];
  /** Its JSON; nothing for what stands before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer>;
}

/** A tool of a request. */
export interface WireTool {
  /** Its JSON, as it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What it is to the planner; nothing of a tool that is no function. */
  readonly definition: ToolDefinition | undefined;
}

/** A request, read as far as the gateway has to know it. */
export interface WireRequest extends WireBody {
  readonly protocol: Protocol;
  /** The model that it asks for. */
  readonly model: string;
  /** Whether the answer shall be streamed. */
  readonly stream: boolean;
  /** What stands before the list, then the list's items. */
  readonly items: readonly WireItem[];
  /** The tools; nothing if the request has none. */
  readonly tools: readonly WireTool[] | undefined;
}

/** A piece of JSON that was read. */
export interface KnownPiece<T> {
  /** Names it: the names of two pieces differ if the pieces do. */
  readonly key: string;
  /** What was made of it: the same object whenever the same bytes come again, as long as they are remembered. */
  readonly value: T;
}

/** Where a piece of JSON stands, and what is to be made of it. */
export interface PieceToRead<T> extends Span {
  /** Keeps apart what is read in different ways. */
  readonly kind: string;
  /** Makes of the JSON what is remembered of it. */
  readonly read: (value: unknown) => T;
  /** Of pieces in several spellings: what all of them share. Default: bytes that differ are different pieces. */
  readonly spelling?: {
    /** The piece without what doesn't tell it from another. */
    plain(value: unknown): unknown;
    /** What was made of one spelling, with all that it shares with what was made of another. */
    adopt(made: T, known: T): T;
  };
}

/** Reads pieces of JSON, and may remember those that come again and again. */
export interface JsonReader<T> {
  /** The piece at this place. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
  read(bytes: Uint8Array<ArrayBuffer>, place: PieceToRead<T>): KnownPiece<T>;
}

/** An item of a list, where it stands counted from the list's first byte. */
export interface ListedItem extends Span {
  readonly piece: KnownPiece<readonly ItemPart[]>;
}

/** Items with which a list starts like one that was read before. */
export interface KnownList {
  readonly items: readonly ListedItem[];
  /** The byte behind the last of them. */
  readonly end: number;
}

/** Remembers lists of items: a client that sends its whole history again starts with the list that it sent before. */
export interface ListReader {
  /** What is known of the list that starts at this byte, byte for byte. */
  find(bytes: Uint8Array<ArrayBuffer>, start: number, kind: string): KnownList | undefined;
  /** These are all items of a list; with those that were known of it. */
  keep(bytes: Uint8Array<ArrayBuffer>, list: {
    readonly start: number;
    readonly kind: string;
    readonly items: readonly ListedItem[];
    readonly known: KnownList | undefined;
  }): void;
}

/** What the parts of requests are read with. */
export interface RequestReaders {
  /** Default: no list is remembered. */
  readonly lists?: ListReader | undefined;
  readonly items: JsonReader<readonly ItemPart[]>;
  readonly tools: JsonReader<ToolDefinition | undefined>;
  /** The item of an earlier reply with this id. Default: none is known. */
  readonly referred?: (id: string) => readonly ItemPart[] | undefined;
}

/**
 * The places of a body's fields, and what is known of its list of items.
 *
 * @throws {SyntaxError} if it is no object.
 */
export function readBody(
  bytes: Uint8Array<ArrayBuffer>,
  { protocol, lists }: { readonly protocol?: Protocol } & Pick<RequestReaders, "lists"> = {},
): WireBody {
  checkGiven("readBody()", { bytes }, { bytes: "bytes" });
  let known: KnownList | undefined;
  const fields = objectFields(bytes, 0, (name, start) => {
    if (!protocol || name !== protocol.listField) return undefined;
    known = bytes[start] === OPEN_ARRAY ? lists?.find(bytes, start, protocol.name) : undefined;
    return known?.end;
  });
  return { bytes, fields, known };
}

/** A field's value; nothing if there is no such field. @throws {SyntaxError} if it is no JSON. */
export function readField({ bytes, fields }: WireBody, name: string): unknown {
  const span = fields.get(name);
  return span && readJsonAt(bytes, span);
}

/** A field of a body that may be cut off, or no JSON at all; nothing if the field isn't there. The first of its name. */
export function peekField(bytes: Uint8Array<ArrayBuffer>, name: string): unknown {
  try {
    const span = findField(bytes, name);
    return span && readJsonAt(bytes, span);
  } catch {
    return undefined;
  }
}

/** What any protocol's client may say of a request, in body or headers: which session it belongs to, and what it is for. */
export function readCommonHints(
  body: WireBody,
  headers: Headers,
): Pick<SessionHints, "key" | "purpose" | "forbidsTools"> {
  const key = readField(body, "prompt_cache_key") ?? headers.get("x-session-id");
  const kind = readRequestKind(body, headers);
  const choice = readField(body, "tool_choice");
  const purpose = /compact|summar/i.test(kind ?? "") ? "compaction" : "other";
  return {
    ...(typeof key === "string" && { key }),
    ...(kind !== undefined && { purpose: kind === "turn" ? "turn" : purpose }),
    ...((isRecord(choice) ? choice.type : choice) === "none" && { forbidsTools: true }),
  };
}

/** The kind of request that a client names in its metadata of the turn. */
function readRequestKind(body: WireBody, headers: Headers): string | undefined {
  const metadata = readField(body, "client_metadata");
  for (const [name, value] of [...headers, ...Object.entries(isRecord(metadata) ? metadata : {})]) {
    if (!name.endsWith("-turn-metadata") || typeof value !== "string") continue;
    try {
      const said: unknown = JSON.parse(value);
      if (isRecord(said) && typeof said.request_kind === "string") return said.request_kind;
    } catch {
      // Whatever it is, it names no kind.
    }
  }
  return undefined;
}

/**
 * Reads a request.
 *
 * @throws {UnknownShape} if an item or a tool isn't as the protocol says.
 * @throws {SyntaxError} if there is no list of items.
 */
export function readRequest(body: WireBody, protocol: Protocol, readers: RequestReaders): WireRequest {
  checkGiven("readRequest()", { body, protocol, readers }, {
    body: { bytes: "bytes", fields: "object" },
    protocol: { name: "string", listField: "string" },
    readers: "object",
  });
  const steps = readingRequest(body, protocol, readers);
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
  }
}

/** Like {@linkcode readRequest}, an item at each step: a long list takes a while, and others may be let in between. */
export function* readingRequest(
  body: WireBody,
  protocol: Protocol,
  readers: RequestReaders,
): Generator<void, WireRequest> {
  const { bytes, fields, known } = body;
  const { head, listField, name: kind } = protocol;
  const items: WireItem[] = [];
  if (head) {
    const json = encoder.encode(JSON.stringify(head.fields.map((name) => readField(body, name) ?? null)));
    const read = (values: unknown) => head.read(values as readonly unknown[]);
    const { key, value } = readers.items.read(json, {
      start: 0,
      end: json.length,
      kind: `${kind} head`,
      read,
      ...spellingOf(protocol),
    });
    items.push({ key, parts: value });
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
      listed.push({ start: span.start - start, end: span.end - start, piece });
      yield;
    }
    for (const { piece, ...place } of listed) {
      items.push(itemOf(piece, bytes.subarray(start + place.start, start + place.end), readers));
    }
    readers.lists?.keep(bytes, { start, kind, items: listed, known });
  }
  const tools = fields.get("tools");
  const isList = tools !== undefined && bytes[tools.start] === OPEN_ARRAY;
  return {
    ...body,
    protocol,
    model: String(readField(body, "model")),
    stream: readField(body, "stream") === true,
    items,
    tools: isList
      ? arrayItems(bytes, tools.start).map((span) => ({
        bytes: bytes.subarray(span.start, span.end),
        definition: readers.tools.read(bytes, { ...span, kind, read: protocol.readTool }).value,
      }))
      : undefined,
  };
}

/** The item that stands at a place. @throws what {@linkcode readRequest} throws. */
export function readItem(
  bytes: Uint8Array<ArrayBuffer>,
  span: Span,
  reading: { readonly protocol: Protocol; readonly readers: RequestReaders },
): WireItem {
  return itemOf(readPiece(bytes, span, reading), bytes.subarray(span.start, span.end), reading.readers);
}

function readPiece(
  bytes: Uint8Array<ArrayBuffer>,
  { start, end }: Span,
  { protocol, readers }: { readonly protocol: Protocol; readonly readers: RequestReaders },
): KnownPiece<readonly ItemPart[]> {
  const place = { start, end, kind: protocol.name, read: protocol.readItem, ...spellingOf(protocol) };
  return readers.items.read(bytes, place);
}

function itemOf(
  { key, value }: KnownPiece<readonly ItemPart[]>,
  bytes: Uint8Array<ArrayBuffer>,
  { referred }: RequestReaders,
): WireItem {
  const [{ refersTo } = {}] = value;
  return { key, parts: (refersTo === undefined ? undefined : referred?.(refersTo)) ?? value, bytes };
}

function spellingOf({ plain }: Protocol): Pick<PieceToRead<readonly ItemPart[]>, "spelling"> {
  return plain ? { spelling: { plain, adopt: withMessages } } : {};
}

/** The parts of an item with the messages that another spelling of it has: what is known of them stays known. */
function withMessages(made: readonly ItemPart[], known: readonly ItemPart[]): readonly ItemPart[] {
  return made.map((part, at) => ({ ...part, message: known[at]?.message ?? part.message }));
}

const encoder = new TextEncoder();
const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;

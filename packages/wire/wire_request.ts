import type { Message, ToolDefinition } from "@tare/messages";
import { arrayItems, joinBytes, objectFields, readJsonAt, type Span } from "./json_spans.ts";
import { isRecord } from "./json_record.ts";
import type { WireBody, WireFormat } from "./wire_format.ts";

/** A tool of a request. */
export interface WireTool {
  /** Its JSON, as it was sent. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** What it is to the planner; nothing of a tool that is no function. */
  readonly definition: ToolDefinition | undefined;
}

/** A request, read as far as the gateway has to know it. */
export interface WireRequest extends WireBody {
  /** Its format. */
  readonly format: WireFormat;
  /** The model that it asks for. */
  readonly model: string;
  /** Whether the answer shall be streamed. */
  readonly stream: boolean;
  /** What stands before the list, then the list's items. */
  readonly items: readonly KnownPiece<Message>[];
  /** Where the items stand; nothing for what stands before the list. */
  readonly spans: readonly (Span | undefined)[];
  /** The tools; nothing if the request has none. */
  readonly tools: readonly WireTool[] | undefined;
}

/** A piece of JSON that was read. */
export interface KnownPiece<T> {
  /** Names its bytes: those of two pieces differ in their keys if they differ at all. */
  readonly key: string;
  /** What was made of it: the same object whenever the same bytes come again. */
  readonly value: T;
}

/** Where a piece of JSON stands, and what is to be made of it. */
export interface PieceToRead<T> extends Span {
  /** Keeps apart what is read in different ways. */
  readonly kind: string;
  /** Makes of the JSON what is remembered of it. */
  readonly read: (value: unknown) => T;
}

/** Reads pieces of JSON, and may remember those that come again and again. */
export interface JsonReader<T> {
  /** The piece at this place. @throws {SyntaxError} if it is no JSON. @throws whatever `read` throws. */
  read(bytes: Uint8Array<ArrayBuffer>, place: PieceToRead<T>): KnownPiece<T>;
}

/** What reads the parts of requests. */
export interface KnownParts {
  /** Their messages. */
  readonly messages: JsonReader<Message>;
  /** Their tools. */
  readonly tools: JsonReader<ToolDefinition | undefined>;
}

/** A field's value; nothing if there is no such field. @throws {SyntaxError} if it is no JSON. */
export function readField({ bytes, fields }: WireBody, name: string): unknown {
  const span = fields.get(name);
  return span && readJsonAt(bytes, span);
}

/**
 * Reads a request.
 *
 * @throws {UnknownShape} if a message or tool isn't as the format says.
 * @throws {SyntaxError} if there is no list of messages.
 */
export function readWireRequest(body: WireBody, format: WireFormat, known: KnownParts): WireRequest {
  const { bytes, fields } = body;
  const items: KnownPiece<Message>[] = [];
  const spans: (Span | undefined)[] = [];
  if (format.head) {
    const { fields: names, read } = format.head;
    const json = encoder.encode(JSON.stringify(names.map((name) => readField(body, name) ?? null)));
    items.push(known.messages.read(json, {
      start: 0,
      end: json.length,
      kind: `${format.name} head`,
      read: (values) => read(values as readonly unknown[]),
    }));
    spans.push(undefined);
  }
  const list = fields.get(format.listField);
  const listed = list === undefined
    ? []
    : bytes[list.start] === QUOTE
    ? [list]
    : arrayItems(bytes, list.start);
  for (const span of listed) {
    items.push(known.messages.read(bytes, { ...span, kind: format.name, read: format.readItem }));
    spans.push(span);
  }
  const tools = fields.get("tools");
  const isList = tools !== undefined && bytes[tools.start] === OPEN_ARRAY;
  return {
    ...body,
    format,
    model: String(readField(body, "model")),
    stream: readField(body, "stream") === true,
    items,
    spans,
    tools: isList
      ? arrayItems(bytes, tools.start).map((span) => ({
        bytes: bytes.subarray(span.start, span.end),
        definition: known.tools.read(bytes, { ...span, kind: format.name, read: format.readTool }).value,
      }))
      : undefined,
  };
}

/** The places of a body's fields. @throws {SyntaxError} if it is no object. */
export function readWireBody(bytes: Uint8Array<ArrayBuffer>): WireBody {
  return { bytes, fields: objectFields(bytes) };
}

/** A body with these values in place of its fields', or in front of all if it has no such fields. */
export function withFields(
  { bytes, fields }: WireBody,
  values: ReadonlyMap<string, Uint8Array<ArrayBuffer>>,
): Uint8Array<ArrayBuffer> {
  const changes = [...values].map(([name, value]) => {
    const span = fields.get(name);
    if (span) return { ...span, value };
    const start = bytes.indexOf(OPEN_OBJECT) + 1;
    return {
      start,
      end: start,
      value: joinBytes([encoder.encode(`${JSON.stringify(name)}:`), value, COMMA]),
    };
  });
  changes.sort((a, b) => a.start - b.start);
  const pieces: Uint8Array<ArrayBuffer>[] = [];
  let from = 0;
  for (const { start, end, value } of changes) {
    pieces.push(bytes.subarray(from, start), value);
    from = end;
  }
  return joinBytes([...pieces, bytes.subarray(from)]);
}

/** A JSON array of these items. */
export function joinArray(items: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  return joinBytes([OPEN, ...items.flatMap((item, at) => at === 0 ? [item] : [COMMA, item]), CLOSE]);
}

/** The value of `stream_options` that asks for usage; nothing if it does already, or isn't as the format says. */
export function askForUsage({ bytes, fields }: WireBody): Uint8Array<ArrayBuffer> | undefined {
  const span = fields.get("stream_options");
  const options = span && readJsonAt(bytes, span);
  if (options === undefined || options === null) return ASKS_FOR_USAGE;
  if (!isRecord(options) || options.include_usage === true) return undefined;
  if (Object.keys(options).length === 0) return ASKS_FOR_USAGE;
  return withFields(readWireBody(bytes.subarray(span?.start, span?.end)), new Map([["include_usage", TRUE]]));
}

const encoder = new TextEncoder();
const QUOTE = 0x22;
const OPEN_ARRAY = 0x5b;
const OPEN_OBJECT = 0x7b;
const OPEN = encoder.encode("[");
const CLOSE = encoder.encode("]");
const COMMA = encoder.encode(",");
const TRUE = encoder.encode("true");
const ASKS_FOR_USAGE = encoder.encode('{"include_usage":true}');

import { checkGiven, type Message, type ToolDefinition } from "@tare/messages";
import { editJson, type JsonEdit } from "./edit_json.ts";
import { joinBytes, readJsonAt } from "./json_spans.ts";
import { type ItemPart, type Protocol, UnknownShape } from "./protocol.ts";
import { readField, type WireItem, type WireRequest } from "./read_request.ts";

/** What the upstream shall see of a request. */
export interface WirePrompt {
  /** All items that could stand in the list. */
  readonly items: readonly WireItem[];
  /** What is seen of the messages of these items. */
  readonly messages: readonly Message[];
  /** Which of them each is, counted over all items; −1 for a message that is none of theirs. */
  readonly places: readonly number[];
  /** What is seen of the request's functions, in their order; then such as aren't the client's. */
  readonly tools: readonly ToolDefinition[];
  /** How many of them, from the first, the request before showed too, if it showed others behind them. */
  readonly kept?: number | undefined;
  /** The response that the request goes on from, if the upstream has another name for it than the client. */
  readonly follows?: string | undefined;
}

/** What becomes of an item, or of a message that is none of theirs. */
export interface WrittenItem {
  /** The item. Default: it is none. */
  readonly item?: WireItem;
  /** What is seen of its parts. */
  readonly seen: ReadonlyMap<ItemPart, Message>;
  /** What goes upstream; nothing of an item that left, or that stands before the list. */
  readonly bytes?: Uint8Array<ArrayBuffer> | undefined;
  /** How many messages are seen up to its end. */
  readonly end: number;
}

/**
 * The body for the upstream: the client's own bytes wherever nothing is changed.
 *
 * @throws {UnknownShape} if a message was changed that can't be written in another way.
 */
export function writeRequest(request: WireRequest, prompt: WirePrompt): Uint8Array<ArrayBuffer> {
  checkGiven("writeRequest()", { request, prompt }, {
    request: { bytes: "bytes", protocol: "object", items: "array" },
    prompt: "object",
  });
  const { bytes, fields, protocol, items } = request;
  const values = new Map(protocol.addedFields(request));
  const entries = writeItems(prompt, protocol);
  const written = entries.flatMap(({ bytes }) => bytes ?? []);
  const whole = items.flatMap(({ bytes }) => bytes ?? []);
  if (written.length !== whole.length || written.some((item, at) => item !== whole[at])) {
    const arranged = protocol.arrange?.(request, entries, prompt.kept) ?? written;
    values.set(protocol.listField, joinArray(arranged));
  }
  const tools = writeTools(request, prompt.tools);
  if (tools) values.set("tools", tools);
  const { followsField: field } = protocol;
  if (field !== undefined && prompt.follows !== undefined && prompt.follows !== readField(request, field)) {
    values.set(field, encoder.encode(JSON.stringify(prompt.follows)));
  }
  if (values.size === 0) return bytes;
  return editJson(bytes, [...values].map(([name, value]) => ({ path: [name], value })), fields);
}

/** The list's items. Messages that are none of theirs stand beside the items, never inside of one. */
function writeItems({ items, messages, places }: WirePrompt, protocol: Protocol): WrittenItem[] {
  const written: WrittenItem[] = [];
  const write = (message: Message, end: number): WrittenItem => ({
    seen: new Map(),
    bytes: encoder.encode(protocol.writeMessage(message)),
    end,
  });
  let at = 0;
  let start = 0;
  for (const item of items) {
    const end = start + item.parts.length;
    const seen = new Map<ItemPart, Message>();
    const behind: WrittenItem[] = [];
    for (; at < messages.length; at++) {
      const [message, place] = [messages[at], places[at]];
      if (!message || place === undefined || place >= end) break;
      const part = item.parts[place - start];
      if (part) seen.set(part, message);
      else (seen.size > 0 ? behind : written).push(write(message, at + 1));
    }
    written.push({ item, seen, bytes: seen.size > 0 ? writeItem(item, seen) : undefined, end: at });
    written.push(...behind);
    start = end;
  }
  return [...written, ...messages.slice(at).map((message, more) => write(message, at + more + 1))];
}

/** An item of which only these parts are seen, perhaps with other texts; nothing of what stands before the list. */
function writeItem(
  { bytes, parts }: WireItem,
  seen: ReadonlyMap<ItemPart, Message>,
): Uint8Array<ArrayBuffer> | undefined {
  const edits = parts.flatMap((part): JsonEdit[] => {
    const message = seen.get(part);
    if (message === part.message) return [];
    if (message && part.text) {
      return [{ path: part.text, value: encoder.encode(JSON.stringify(message.content)) }];
    }
    if (message || !part.at) throw new UnknownShape("a message that was changed has no place in its item");
    return [{ path: part.at }];
  });
  return edits.length === 0 || !bytes ? bytes : editJson(bytes, edits);
}

/** The list of tools; nothing if it is the client's own. */
function writeTools(
  { tools = [], protocol }: WireRequest,
  shown: readonly ToolDefinition[],
): Uint8Array<ArrayBuffer> | undefined {
  const full = tools.flatMap(({ definition }) => definition ?? []);
  if (shown.length === full.length && shown.every((tool, at) => tool === full[at])) return undefined;
  let at = 0;
  const written = tools.map(({ definition, bytes }) => {
    const now = definition && shown[at++];
    if (!now || now === definition) return bytes;
    return encoder.encode(protocol.writeTool(now, readJsonAt(bytes, { start: 0, end: bytes.length })));
  });
  const more = shown.slice(full.length).map((tool) => encoder.encode(protocol.writeTool(tool)));
  return joinArray([...written, ...more]);
}

/** A JSON array of these items. */
function joinArray(items: readonly Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  return joinBytes([OPEN, ...items.flatMap((item, at) => at === 0 ? [item] : [COMMA, item]), CLOSE]);
}

const encoder = new TextEncoder();
const OPEN = encoder.encode("[");
const CLOSE = encoder.encode("]");
const COMMA = encoder.encode(",");

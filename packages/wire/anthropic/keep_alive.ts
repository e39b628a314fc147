import {
  arrayItems,
  asRecord,
  editJson,
  isListAt,
  isRecord,
  joinBytes,
  type JsonEdit,
  type JsonRecord,
  objectFields,
  readJsonAt,
  type Span,
} from "../json.ts";
import { splitEvents } from "../sse.ts";
import { hasContent, isThinking, LOOK_BACK_BLOCKS } from "./cache_breakpoints.ts";

type Bytes = Uint8Array<ArrayBuffer>;

/** Stop reasons that a user message may follow. */
const FINISHED: readonly unknown[] = ["end_turn", "stop_sequence", "tool_use"];

const HOUR_MARK = '{"type":"ephemeral","ttl":"1h"}';

/** Requests the prompt only, without a reply. */
const ASKS_NOTHING: Readonly<Record<string, string>> = { max_tokens: "0", stream: "false" };

/**
 * Returns a request without a reply, with the same cached prefix.
 * @param answer Result of {@linkcode readAnswerBlocks}: appended with an hour's breakpoint on its last block
 * that isn't thinking; five-minute breakpoints are removed. Default: none.
 */
export function keepAliveBody(body: Bytes, answer?: readonly string[]): Bytes {
  const fields = objectFields(body);
  const edits = Object.entries(ASKS_NOTHING).flatMap(([name, value]): JsonEdit[] =>
    fields.has(name) || name === "max_tokens" ? [{ path: [name], value: encoder.encode(value) }] : []
  );
  return editJson(body, [...edits, ...(answer ? upgradeEdits(body, answer) : [])]);
}

/**
 * Returns the JSON blocks of a finished reply; `undefined` if it can't be continued or restored exactly, or
 * if the cached prompt is beyond the provider's lookback from its end.
 */
export function readAnswerBlocks(
  body: Bytes,
  reply: Bytes,
  isStream: boolean,
): readonly string[] | undefined {
  try {
    const { blocks, finish } = isStream ? streamedReply(reply) : wholeReply(reply);
    const values = blocks.map((block) => asRecord(JSON.parse(block)));
    const isWhole = values.every((block) => block && hasContent(block));
    if (!FINISHED.includes(finish) || !isWhole || !values.some(canHaveMark)) return undefined;
    const after = blocksAfterMark(body);
    return after !== undefined && after + blocks.length < LOOK_BACK_BLOCKS ? blocks : undefined;
  } catch (error) {
    // Malformed replies are ignored.
    if (error instanceof SyntaxError || error instanceof RangeError) return undefined;
    throw error;
  }
}

export function isLimitExhausted(headers: Headers): boolean {
  return [...headers].some(([name, value]) =>
    /^anthropic-ratelimit-.*-remaining$/.test(name) && Number(value) <= 0
  );
}

/** Returns whether a subscription pays, whose limits keep-alive requests would count toward. */
export function isSubscription(headers: Headers): boolean {
  return /^bearer /i.test(headers.get("authorization") ?? "") &&
    (headers.get("anthropic-beta") ?? "").includes("oauth");
}

interface Reply {
  readonly blocks: readonly string[];
  readonly finish: unknown;
}

function wholeReply(reply: Bytes): Reply {
  const fields = objectFields(reply);
  const content = fields.get("content");
  const finish = fields.get("stop_reason");
  return {
    blocks: content ? arrayItems(reply, content.start).map((span) => textAt(reply, span)) : [],
    finish: finish && readJsonAt(reply, finish),
  };
}

/** Fields extended by deltas, by type. */
const TEXTS: ReadonlyMap<unknown, string> = new Map([
  ["text_delta", "text"],
  ["thinking_delta", "thinking"],
  ["signature_delta", "signature"],
]);

interface StreamedBlock {
  readonly begun: Bytes;
  readonly texts: Map<string, string>;
  readonly citations: string[];
  input: string;
}

/** @throws {SyntaxError} if events are unknown or missing. */
function streamedReply(reply: Bytes): Reply {
  const blocks = new Map<unknown, StreamedBlock>();
  let finish: unknown;
  let isOver = false;
  for (const { data } of splitEvents(reply)) {
    if (data === undefined) continue;
    const bytes = encoder.encode(data);
    const event: unknown = JSON.parse(data);
    if (!isRecord(event)) throw unknownEvent(data);
    const { type, index, delta } = event;
    if (type === "content_block_start") {
      const begun = partOf(bytes, "content_block");
      blocks.set(index, { begun, texts: new Map(), citations: [], input: "" });
    } else if (type === "content_block_delta") {
      addDelta(blocks.get(index), bytes, asRecord(delta));
    } else if (type === "message_delta") finish = asRecord(delta)?.stop_reason ?? finish;
    else if (type === "message_stop") isOver = true;
    else if (type === "error") throw unknownEvent(data);
  }
  if (!isOver) throw new SyntaxError("the stream is incomplete");
  const inOrder = [...blocks].sort(([a], [b]) => Number(a) - Number(b));
  return { blocks: inOrder.map(([, block]) => decoder.decode(written(block))), finish };
}

function addDelta(block: StreamedBlock | undefined, event: Bytes, delta: JsonRecord | undefined): void {
  const { type, partial_json: json } = delta ?? {};
  const field = TEXTS.get(type);
  const more = field === undefined ? undefined : delta?.[field];
  if (!block) throw new SyntaxError("a delta has no block");
  if (field !== undefined && typeof more === "string") {
    block.texts.set(field, (block.texts.get(field) ?? "") + more);
  } else if (type === "input_json_delta" && typeof json === "string") block.input += json;
  else if (type === "citations_delta") {
    block.citations.push(decoder.decode(partOf(partOf(event, "delta"), "citation")));
  } else throw unknownEvent(String(type));
}

function written({ begun, texts, citations, input }: StreamedBlock): Bytes {
  const before = asRecord(JSON.parse(decoder.decode(begun))) ?? {};
  const values = new Map<string, string>();
  for (const [field, text] of texts) {
    const start = before[field];
    values.set(field, JSON.stringify((typeof start === "string" ? start : "") + text));
  }
  if (input !== "") values.set("input", input);
  if (citations.length > 0) values.set("citations", `[${citations.join(",")}]`);
  return editJson(
    begun,
    Array.from(values, ([name, json]) => ({ path: [name], value: encoder.encode(json) })),
  );
}

function partOf(bytes: Bytes, name: string): Bytes {
  const span = objectFields(bytes).get(name);
  if (!span) throw new SyntaxError(`a ${name} is missing`);
  return bytes.subarray(span.start, span.end);
}

function unknownEvent(what: string): SyntaxError {
  return new SyntaxError(`unknown event or delta ${what.slice(0, 40)}`);
}

function canHaveMark(block: JsonRecord | undefined): boolean {
  return block !== undefined && !isThinking(block);
}

/**
 * Returns the number of blocks after the last breakpoint; `undefined` if the last message isn't a user's, or
 * the breakpoint isn't near.
 */
function blocksAfterMark(body: Bytes): number | undefined {
  const fields = objectFields(body);
  const messages = fields.get("messages");
  if (!messages) return undefined;
  const spans = arrayItems(body, messages.start);
  const last = spans.at(-1);
  if (!last || asRecord(readJsonAt(body, last))?.role !== "user") return undefined;
  // The request sets a breakpoint at its end.
  const whole = fields.get("cache_control");
  if (whole && isRecord(readJsonAt(body, whole))) return 0;
  let after = 0;
  for (const span of spans.toReversed()) {
    const content = asRecord(readJsonAt(body, span))?.content;
    const blocks: readonly unknown[] = Array.isArray(content) ? content : [content];
    for (const block of blocks.toReversed()) {
      if (holdsMark(block)) return after;
      after++;
    }
    if (after >= LOOK_BACK_BLOCKS) return undefined;
  }
  return undefined;
}

function holdsMark(block: unknown): boolean {
  if (!isRecord(block)) return false;
  return isRecord(block.cache_control) || (Array.isArray(block.content) && block.content.some(holdsMark));
}

function upgradeEdits(body: Bytes, answer: readonly string[]): JsonEdit[] {
  const fields = objectFields(body);
  const edits: JsonEdit[] = [];
  for (const name of ["system", "tools", "messages"]) {
    const span = fields.get(name);
    // Instructions may be one text.
    if (!span || !isListAt(body, span)) continue;
    const items = arrayItems(body, span.start);
    for (const [at, item] of items.entries()) {
      const before = body.subarray(item.start, item.end);
      const bare = withoutShortBreakpoints(before);
      const isLast = name === "messages" && at === items.length - 1;
      const value = isLast ? joinBytes([bare, encoder.encode(`,${continued(answer)}`)]) : bare;
      if (value !== before) edits.push({ path: [name, at], value });
    }
  }
  return edits;
}

function continued(answer: readonly string[]): string {
  const values = answer.map((block) => asRecord(JSON.parse(block)) ?? {});
  const marked = values.findLastIndex(canHaveMark);
  const blocks = answer.map((block, at) => at === marked ? withMark(block) : block);
  const results = values.flatMap(({ type, id }) =>
    type === "tool_use" ? [{ type: "tool_result", tool_use_id: id, content: "." }] : []
  );
  const next = { role: "user", content: results.length > 0 ? results : "." };
  return `{"role":"assistant","content":[${blocks.join(",")}]},${JSON.stringify(next)}`;
}

function withMark(block: string): string {
  const edit = { path: ["cache_control"], value: encoder.encode(HOUR_MARK) };
  return decoder.decode(editJson(encoder.encode(block), [edit]));
}

/** Removes five-minute breakpoints. Returns the same bytes if unchanged. */
function withoutShortBreakpoints(bytes: Bytes): Bytes {
  if (bytes[0] !== OPEN_OBJECT) return bytes;
  const fields = objectFields(bytes);
  const mark = fields.get("cache_control");
  const content = fields.get("content");
  const edits = content && isListAt(bytes, content)
    ? arrayItems(bytes, content.start).flatMap(({ start, end }, at): JsonEdit[] => {
      const before = bytes.subarray(start, end);
      const value = withoutShortBreakpoints(before);
      return value === before ? [] : [{ path: ["content", at], value }];
    })
    : [];
  const bare = edits.length > 0 ? editJson(bytes, edits) : bytes;
  if (!mark || !isRecord(readJsonAt(bytes, mark)) || asRecord(readJsonAt(bytes, mark))?.ttl === "1h") {
    return bare;
  }
  return editJson(bare, [{ path: ["cache_control"] }]);
}

function textAt(bytes: Bytes, { start, end }: Span): string {
  return decoder.decode(bytes.subarray(start, end));
}

const OPEN_OBJECT = 0x7b;
const encoder = new TextEncoder();
const decoder = new TextDecoder();

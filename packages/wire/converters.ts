/**
 * Converters between requests of Anthropic's Messages or OpenAI's Responses API and the chat messages of a
 * session.
 * @module
 */
import type { ModelRequest } from "@tare/messages";
import { checkGiven, hashPiece, sameData } from "@tare/messages/internal";
import { MESSAGES_PROTOCOL } from "./anthropic/messages_protocol.ts";
import { jsonBytes, readJsonAt } from "./json.ts";
import {
  type JsonReader,
  type Protocol,
  UnknownShape,
  type WireItem,
  type WireRequest,
  type WireTool,
} from "./protocol.ts";
import { RESPONSES_PROTOCOL } from "./responses/responses_protocol.ts";
import {
  readPiece,
  readRequest,
  readWireBody,
  toolsInFront,
  withFoundTools,
  withThoughts,
  writeList,
  writeTools,
} from "./request.ts";

/** A request of Anthropic's Messages API. */
export interface AnthropicRequest {
  readonly system?: unknown;
  readonly messages: readonly unknown[];
  readonly tools?: readonly unknown[] | undefined;
}

/** A request of OpenAI's Responses API. */
export interface OpenaiResponsesRequest {
  readonly instructions?: unknown;
  readonly input: string | readonly unknown[];
  readonly tools?: readonly unknown[] | undefined;
}

/** A session's view of a request. */
export interface RequestView extends Pick<ModelRequest, "messages" | "tools" | "stable"> {
  /** Index in the history of each message; −1 for none. */
  readonly places: readonly number[];
}

/**
 * Returns the chat messages and tools of a Messages request, for `view()` of a session. Each block of a user
 * message becomes one message, a whole reply too. Equal messages are the same objects at each call. Images
 * and files are omitted; {@linkcode toAnthropic} restores them.
 * @throws {TypeError} if a message isn't one of that API.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStrictEquals } from "@std/assert";
 * import { fromAnthropic, toAnthropic } from "@tare/wire";
 *
 * const result = { type: "tool_result", tool_use_id: "1", content: "Long." };
 * const request = { model: "claude-sonnet-5", messages: [{ role: "user", content: [result] }] };
 * const { messages, tools } = fromAnthropic(request);
 * assertEquals(messages, [{ role: "tool", tool_call_id: "1", content: "Long." }]);
 *
 * // view() of a session evicts content; here a placeholder has replaced the result.
 * const visible = [{ ...messages[0]!, content: "[elided]" }] as typeof messages;
 * const { messages: [message], model } = toAnthropic(request, { messages: visible, tools, places: [0] });
 * assertEquals([message?.content[0]?.content, model], ["[elided]", "claude-sonnet-5"]);
 * const same = toAnthropic(request, { messages, tools, places: [0] });
 * assertStrictEquals(same.messages[0], request.messages[0]);
 * ```
 */
export function fromAnthropic(request: AnthropicRequest): Pick<ModelRequest, "messages" | "tools"> {
  checkGiven("fromAnthropic()", { request }, { request: { messages: "array" } });
  return promptOf(readGiven(request, MESSAGES, "fromAnthropic()").wire);
}

/**
 * Returns the request with a session's view of {@linkcode fromAnthropic}. Unchanged parts are the request's
 * own; cache breakpoints of evicted blocks move to the nearest block before.
 * @throws {TypeError} if a message isn't one of that API.
 *
 * @example
 * ```ts
 * import { assertStrictEquals } from "@std/assert";
 * import { fromAnthropic, toAnthropic } from "@tare/wire";
 *
 * const request = { model: "claude-sonnet-5", messages: [{ role: "user", content: "Hi." }] };
 * const { messages, tools } = fromAnthropic(request);
 * const sent = toAnthropic(request, { messages, tools, places: [0] });
 * assertStrictEquals(sent.messages[0], request.messages[0]);
 * ```
 */
export function toAnthropic<Request extends AnthropicRequest>(request: Request, view: RequestView): Request {
  checkGiven("toAnthropic()", { request, view }, { request: { messages: "array" }, view: VIEW });
  return { ...request, ...writeGiven(request, view, { ...MESSAGES, caller: "toAnthropic()" }) };
}

/**
 * Returns the chat messages and tools of a Responses request, like {@linkcode fromAnthropic}. Reasoning is
 * evicted only with the item after it.
 * @throws {TypeError} if an item isn't one of that API.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { fromResponses } from "@tare/wire";
 *
 * const output = { type: "function_call_output", call_id: "1", output: "Long." };
 * const { messages } = fromResponses({ instructions: "Be brief.", input: [output] });
 * assertEquals(messages.map(({ role, content }) => [role, content]), [
 *   ["system", "Be brief."],
 *   ["tool", "Long."],
 * ]);
 * ```
 */
export function fromResponses(request: OpenaiResponsesRequest): Pick<ModelRequest, "messages" | "tools"> {
  checkGiven("fromResponses()", { request }, { request: { input: ["array", "string"] } });
  return promptOf(readGiven(request, RESPONSES, "fromResponses()").wire);
}

/**
 * Returns the request with a session's view of {@linkcode fromResponses}, like {@linkcode toAnthropic}.
 * @throws {TypeError} if an item isn't one of that API.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { fromResponses, toResponses } from "@tare/wire";
 *
 * const request = { model: "gpt-5.5", input: [{ type: "function_call_output", call_id: "1", output: "Long." }] };
 * const { messages: [result], tools } = fromResponses(request);
 * const view = { messages: [{ ...result!, content: "[elided]" }] as [typeof result & object], tools, places: [0] };
 * assertEquals(toResponses(request, view).input[0]?.output, "[elided]");
 * ```
 */
export function toResponses<Request extends OpenaiResponsesRequest>(
  request: Request,
  view: RequestView,
): Request {
  checkGiven("toResponses()", { request, view }, {
    request: { input: ["array", "string"] },
    view: VIEW,
  });
  return { ...request, ...writeGiven(request, view, { ...RESPONSES, caller: "toResponses()" }) };
}

type Given = AnthropicRequest | OpenaiResponsesRequest;

const VIEW = { messages: "messages", tools: "array", places: "array" } as const;

interface Api {
  readonly protocol: Protocol;
  /** Description for errors. */
  readonly item: string;
  /** Caches by the caller's values. */
  readonly items: WeakMap<object, Known<WireItem>>;
  readonly tools: WeakMap<object, Known<WireTool>>;
}

interface Known<Made> {
  readonly spelled: unknown;
  readonly made: Made;
}

const MESSAGES: Api = {
  protocol: MESSAGES_PROTOCOL,
  item: "a message of Anthropic's Messages API",
  items: new WeakMap(),
  tools: new WeakMap(),
};
const RESPONSES: Api = {
  protocol: RESPONSES_PROTOCOL,
  item: "an item of OpenAI's Responses API",
  items: new WeakMap(),
  tools: new WeakMap(),
};

/** Reads without a cache: `knownOf` caches by object. */
const READER: JsonReader<never> = {
  read(bytes, { read, spelling, ...span }) {
    const made = read(readJsonAt(bytes, span));
    const spelled = spelling?.spelled(made);
    return { key: "", value: spelling && spelled ? spelling.named(made, spelled) : made };
  },
};

const readers = { items: READER, tools: READER };

/** Compares contents, since callers move cache breakpoints inside messages. */
function knownOf<Made>(
  value: unknown,
  known: WeakMap<object, Known<Made>>,
  make: (bytes: Uint8Array<ArrayBuffer>) => Made,
): Made {
  if (typeof value !== "object" || value === null) return make(encode(value));
  const before = known.get(value);
  if (before && sameData(before.spelled, value)) return before.made;
  const made = make(encode(value));
  known.set(value, { spelled: copyOf(value), made });
  return made;
}

function copyOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(copyOf);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, field]) => [name, copyOf(field)]));
}

function readGiven(
  request: Given,
  { protocol, item: right, items: knownItems, tools: knownTools }: Api,
  caller: string,
): { readonly wire: WireRequest; readonly values: ReadonlyMap<Uint8Array, unknown> } {
  const { listField } = protocol;
  const { tools: givenTools, ...fields } = request;
  const { [listField]: given, ...rest } = fields as Readonly<Record<string, unknown>>;
  const values = new Map<Uint8Array, unknown>();
  const reading = <Made>(name: string, read: () => Made): Made => {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof UnknownShape)) throw error;
      const { message } = error;
      throw new TypeError(`Cannot run ${caller}: ${name} must be ${right}, but ${message}`, { cause: error });
    }
  };
  const items = (Array.isArray(given) ? given : [given]).map((value: unknown, at) =>
    reading(`request.${listField}[${at}]`, () => {
      const item = knownOf(value, knownItems, (bytes): WireItem => {
        const span = { start: 0, end: bytes.length };
        return { key: "", parts: readPiece(bytes, span, { protocol, readers }).value, bytes };
      });
      values.set(item.bytes!, value);
      return item;
    })
  );
  const tools = givenTools?.map((tool, at) =>
    reading(
      `request.tools[${at}]`,
      () =>
        knownOf(
          tool,
          knownTools,
          (bytes) => ({ bytes, ...protocol.readTool(readJsonAt(bytes)) }),
        ),
    )
  );
  const wire = reading(
    "request",
    () => readRequest(readWireBody(encode({ ...rest, [listField]: [] })), protocol, readers),
  );
  return {
    wire: { ...wire, items: withFoundTools(withThoughts([...wire.items, ...items]), tools), tools },
    values,
  };
}

function promptOf({ items, tools = [] }: WireRequest): Pick<ModelRequest, "messages" | "tools"> {
  return {
    messages: items.flatMap(({ parts }) => parts.map(({ message }) => message)),
    tools: toolsInFront({ tools }),
  };
}

function writeGiven(
  request: Given,
  view: RequestView,
  { caller, ...api }: Api & { readonly caller: string },
): Readonly<Record<string, unknown>> {
  const { wire, values } = readGiven(request, api, caller);
  const own = promptOf(wire).messages;
  // Messages that were read again are equal, not identical.
  const messages = view.messages.map((message, row) => {
    const known = own[view.places[row]!];
    return known && hashPiece(known) === hashPiece(message) ? known : message;
  });
  const list = writeList(wire, { ...view, messages, items: wire.items });
  const tools = writeTools(wire, view.tools);
  const given = (item: WireItem): Uint8Array<ArrayBuffer>[] =>
    item.thought ? [...item.thought.before.flatMap(given), ...given(item.thought.item)] : [item.bytes!];
  const whole = new Map(wire.items.map((item) => [item.bytes, given(item)]));
  const valuesOf = (bytes: Uint8Array<ArrayBuffer>): unknown[] =>
    values.has(bytes)
      ? [values.get(bytes)]
      : whole.get(bytes)?.map((one) => values.get(one)) ?? JSON.parse(`[${decoder.decode(bytes)}]`);
  return {
    ...(list && { [api.protocol.listField]: list.flatMap(valuesOf) }),
    ...(tools && { tools: JSON.parse(decoder.decode(tools)) }),
  };
}

const decoder = new TextDecoder();

function encode(value: unknown): Uint8Array<ArrayBuffer> {
  return jsonBytes(value);
}

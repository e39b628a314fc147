import { nearestName } from "./nearest_name.ts";

/** A kind that a value may be required to have. */
export type NeededKind =
  | "function"
  | "counter"
  | "string"
  | "boolean"
  | "number"
  | "positive"
  | "count"
  | "share"
  | "object"
  | "array"
  | "message"
  | "messages"
  | "value";

/**
 * The requirement of a value: a kind, one of several kinds, one of a set of values, or an object with fields,
 * where a name that ends in `?` is optional. `value` is anything but undefined and null, `positive` a number
 * above 0, `count` one of 0 or more, `share` one from 0 to 1.
 */
export type Needed = NeededKind | readonly NeededKind[] | ReadonlySet<unknown> | {
  readonly [name: string]: Needed;
};

/** The requirements of an options object: each name of its type, optional ones with a `?`. */
export type NeededOptions<Options> = {
  readonly [
    Name in keyof Options as Name extends string
      ? Record<never, never> extends Pick<Options, Name> ? `${Name}?` : Name
      : never
  ]-?: Needed;
};

const isFunction = (value: unknown) => typeof value === "function";
const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);
const isNumber = (value: unknown): value is number => typeof value === "number" && !Number.isNaN(value);

/** Description and check of each kind. */
const KINDS: Readonly<Record<NeededKind, readonly [words: string, is: (value: unknown) => boolean]>> = {
  function: ["a function", isFunction],
  counter: ["a function that gives the tokens of a text as a number, at once", isFunction],
  string: ["a string", (value) => typeof value === "string"],
  boolean: ["true or false", (value) => typeof value === "boolean"],
  number: ["a number", isNumber],
  positive: ["a number above 0", (value) => isNumber(value) && value > 0],
  count: ["a number of 0 or more", (value) => isNumber(value) && value >= 0],
  share: ["a number from 0 to 1", (value) => isNumber(value) && value >= 0 && value <= 1],
  object: ["an object", isObject],
  array: ["an array", Array.isArray],
  message: ["a chat message", isObject],
  messages: ["an array of chat messages", Array.isArray],
  value: ["given", (value) => value !== undefined && value !== null],
};

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool", "function"];

/**
 * Checks the arguments of a function, for callers without TypeScript.
 * @param caller The function's name in errors.
 * @param given The arguments by parameter name.
 * @param needed The requirements by the same names.
 * @throws {TypeError} at the first wrong value, unknown option, or message that is no chat message.
 * @throws {RangeError} at a number that is out of its range.
 */
export function checkGiven(
  caller: string,
  given: Readonly<Record<string, unknown>>,
  needed: Readonly<Record<string, Needed>>,
): void {
  for (const name in needed) check(caller, name, { value: given[name], need: needed[name]! });
}

function check(
  caller: string,
  name: string,
  { value, need }: { readonly value: unknown; readonly need: Needed },
): void {
  if (typeof need === "string") {
    if (!isOf(need, value)) {
      refuse(caller, name, { value, right: wordsOf(need === "counter" ? "function" : need) });
    }
    if (need === "counter") checkCounter(caller, name, value as (text: string) => unknown);
    if (need === "message") checkMessage(caller, name, value as JsonFields);
    if (need === "messages") checkMessages(caller, name, value as readonly unknown[]);
    return;
  }
  if (need instanceof Set) {
    if (!need.has(value)) refuse(caller, name, { value, right: `one of ${[...need].join(", ")}` });
    return;
  }
  if (Array.isArray(need)) {
    const kinds = need as readonly NeededKind[];
    if (kinds.some((kind) => isOf(kind, value))) return;
    refuse(caller, name, { value, right: kinds.map(wordsOf).join(", or ") });
  }
  checkFields(caller, name, { value, needed: need as Readonly<Record<string, Needed>> });
}

function checkFields(
  caller: string,
  name: string,
  { value, needed }: { readonly value: unknown; readonly needed: Readonly<Record<string, Needed>> },
): void {
  const names = Object.keys(needed);
  if (!isOf("object", value)) {
    const must = names.filter((field) => !field.endsWith("?"));
    refuse(caller, name, {
      value,
      right: must.length > 0 ? `an object with ${must.join(", ")}` : wordsOf("object"),
    });
  }
  const fields = value as Readonly<Record<string, unknown>>;
  // A requirement with optional names is complete, so other names are errors.
  const known = new Set(names.map((field) => field.replace("?", "")));
  const unknown = known.size > 0 && names.some((field) => field.endsWith("?"))
    ? Object.keys(fields).find((field) => fields[field] !== undefined && !known.has(field))
    : undefined;
  if (unknown !== undefined) {
    throw new TypeError(
      `Cannot run ${caller}: ${name}.${unknown} is unknown; the nearest known name is ${
        nearestName(unknown, known, { isAny: true })
      }`,
    );
  }
  for (const field of names) {
    const isOptional = field.endsWith("?");
    const own = isOptional ? field.slice(0, -1) : field;
    if (isOptional && fields[own] === undefined) continue;
    check(caller, `${name}.${own}`, { value: fields[own], need: needed[field]! });
  }
}

const rightCounters = new WeakSet<(text: string) => unknown>();

function checkCounter(caller: string, name: string, count: (text: string) => unknown): void {
  if (rightCounters.has(count)) return;
  const tokens = count("tokens");
  if (!isOf("count", tokens)) {
    throw new TypeError(
      `Cannot run ${caller}: ${name} gives ${describe(tokens)}; it must be ${wordsOf("counter")}`,
    );
  }
  rightCounters.add(count);
}

type JsonFields = Readonly<Record<string, unknown>>;

function checkMessages(caller: string, name: string, messages: readonly unknown[]): void {
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at] as JsonFields | null | undefined;
    // Fast path for valid messages: conversations have thousands.
    switch (message?.role) {
      case "assistant":
      case "function":
        if (message.content === undefined || message.content === null) continue;
        if (typeof message.content === "string") continue;
        break;
      case "tool":
      case "user":
      case "system":
      case "developer":
        if (typeof message.content === "string") continue;
    }
    check(caller, `${name}[${at}]`, { value: message, need: "message" });
  }
}

const OF_ANTHROPIC =
  "a message of Anthropic's Messages API: fromAnthropic() of @tare/wire reads its requests";
const OF_RESPONSES = "an item of OpenAI's Responses API: fromResponses() of @tare/wire reads its requests";
const OF_AI_SDK = "a message of the AI SDK: fromAiSdk() of @tare/adapters/ai-sdk makes chat messages of them";

/** Part types of other APIs, with the converter that the error names. */
const FOREIGN_TYPES: readonly (readonly [RegExp, string])[] = [
  [/^tool-(?:call|result|approval-.+)$/, OF_AI_SDK],
  [/^(?:tool_use|tool_result|redacted_thinking|server_tool_use)$/, OF_ANTHROPIC],
  [
    /^(?:(?:in|out)put_(?:text|image|file)|(?:function|custom_tool)_call(?:_output)?|item_reference)$/,
    OF_RESPONSES,
  ],
];

/** Returns the API that a foreign part or item belongs to. Some types belong to several. */
function foreignOf(fields: JsonFields): string | undefined {
  const { type } = fields;
  switch (type) {
    case "text":
      return undefined;
    case "image":
    case "document":
      return "source" in fields ? OF_ANTHROPIC : "image" in fields ? OF_AI_SDK : undefined;
    case "file":
      return "mediaType" in fields ? OF_AI_SDK : undefined;
    case "reasoning":
      return "text" in fields ? OF_AI_SDK : OF_RESPONSES;
    case "thinking":
      // Mistral's chat messages have such parts with a list in this field.
      return typeof fields.thinking === "string" ? OF_ANTHROPIC : undefined;
    default:
      return FOREIGN_TYPES.find(([types]) => typeof type === "string" && types.test(type))?.[1];
  }
}

function checkMessage(caller: string, name: string, message: JsonFields): void {
  const { role, type, content } = message;
  if (!ROLES.includes(role)) {
    refuseForeign(caller, name, message);
    if (typeof type === "string" && "lc_kwargs" in message) {
      throw new TypeError(
        `Cannot run ${caller}: ${name} is a message of LangChain; use @tare/adapters/langchain`,
      );
    }
    refuse(caller, `${name}.role`, { value: role, right: `one of ${ROLES.join(", ")}` });
  }
  if (typeof content === "string" || (content == null && (role === "assistant" || role === "function"))) {
    return;
  }
  const of = describeMessage(message);
  if (!Array.isArray(content)) {
    refuse(caller, `${name}.content${of}`, {
      value: content,
      right: "a string, or an array of content parts",
    });
  }
  for (const [at, part] of (content as readonly unknown[]).entries()) {
    const fields: JsonFields = Object(part);
    refuseForeign(caller, name, fields);
    const isRight = typeof fields.type === "string" &&
      (fields.type !== "text" || typeof fields.text === "string");
    if (isRight) continue;
    refuse(caller, `${name}.content[${at}]${of}`, {
      value: part,
      right: 'a content part, such as { type: "text", text: "…" }',
    });
  }
}

/** Returns the role and call id of a message, for errors. */
function describeMessage({ role, tool_call_id: id }: JsonFields): string {
  return role === "tool" ? ` (role tool, tool_call_id ${JSON.stringify(id)})` : ` (role ${role})`;
}

function refuseForeign(caller: string, name: string, part: JsonFields): void {
  const foreign = foreignOf(part);
  if (foreign !== undefined) throw new TypeError(`Cannot run ${caller}: ${name} is ${foreign}`);
}

function isOf(kind: NeededKind, value: unknown): boolean {
  return KINDS[kind][1](value);
}

function wordsOf(kind: NeededKind): string {
  return KINDS[kind][0];
}

function refuse(
  caller: string,
  name: string,
  { value, right }: { readonly value: unknown; readonly right: string },
): never {
  const state = value === undefined ? "missing" : describe(value);
  const sentence = `Cannot run ${caller}: ${name} is ${state}; it must be ${right}`;
  throw typeof value === "number" && right.includes("a number")
    ? new RangeError(sentence)
    : new TypeError(sentence);
}

function describe(value: unknown): string {
  if (typeof value === "string") return JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value);
  if (value instanceof Promise) return "a promise";
  const kind = (["array", "function", "object"] as const).find((kind) => isOf(kind, value));
  return kind ? wordsOf(kind) : String(value);
}

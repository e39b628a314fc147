/**
 * Rules whose violation providers reject with status 400, by dialect: documented ones and those of their error messages.
 * Shares no code with the writers of requests.
 *
 * @module
 */
import { type Content, contentText } from "@tare/messages";

/** Provider or API whose rules apply. */
export type Dialect = "openai" | "deepseek" | "gemini" | "vllm" | "llama.cpp" | "responses" | "anthropic";

export const DIALECTS: Readonly<Record<"chat" | "responses" | "messages", readonly Dialect[]>> = {
  chat: ["openai", "deepseek", "gemini", "vllm", "llama.cpp"],
  responses: ["responses"],
  messages: ["anthropic"],
};

type Fields = Readonly<Record<string, unknown>>;

export function refusalOf(body: unknown, dialect: Dialect): string | undefined {
  return refusalIn(body, [dialect])?.slice(`${dialect}: `.length);
}

/** Checks several dialects like {@linkcode refusalOf}; returns the dialect's name and its message. */
export function refusalIn(body: unknown, dialects: readonly Dialect[]): string | undefined {
  let at: string | undefined;
  try {
    for (const dialect of dialects) {
      const isFirst = at === undefined;
      at = dialect;
      if (!isFields(body)) refuse("the body must be an object");
      if (isFirst) checkText(body);
      if (dialect === "responses") checkResponses(body);
      else if (dialect === "anthropic") checkMessages(body);
      else checkChat(body, dialect);
    }
    return undefined;
  } catch (error) {
    if (error instanceof Refusal) return `${at}: ${error.message}`;
    throw error;
  }
}

class Refusal extends Error {}

function refuse(message: string): never {
  throw new Refusal(message);
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

function fieldsOf(value: unknown, at: string): Fields {
  return isFields(value) ? value : refuse(`${at} must be an object`);
}

function textOf(value: unknown, at: string): string {
  return typeof value === "string" ? value : refuse(`${at} must be a string`);
}

/** Rejects lone surrogates, as JSON parsers do. */
function checkText(value: unknown): void {
  if (typeof value === "string") {
    if (!value.isWellFormed()) refuse("the request body is not valid JSON: no low surrogate in string");
  } else if (Array.isArray(value)) value.forEach(checkText);
  else if (typeof value === "object" && value !== null) {
    Object.keys(value).forEach(checkText);
    Object.values(value).forEach(checkText);
  }
}

const NAME = /^[a-zA-Z0-9_-]{1,64}$/;

const ROLES: readonly unknown[] = ["system", "developer", "user", "assistant", "tool", "function"];

const PARTS: Readonly<Record<string, readonly string[] | undefined>> = {
  system: ["text"],
  developer: ["text"],
  tool: ["text"],
  assistant: ["text", "refusal"],
};

/** Path of the required text, by part type. */
const TEXT_OF: Readonly<Record<string, readonly string[] | undefined>> = {
  text: ["text"],
  refusal: ["refusal"],
  image_url: ["image_url", "url"],
  input_audio: ["input_audio", "data"],
};

function checkChat(body: Fields, dialect: Dialect): void {
  const { messages } = body;
  if (!Array.isArray(messages)) refuse("Invalid type for 'messages': it must be array");
  if (messages.length === 0) refuse("[] is too short - 'messages'");
  const tools = body.tools ?? [];
  if (!Array.isArray(tools)) refuse("Invalid type for 'tools': expected an array");
  if (Array.isArray(body.tools) && tools.length === 0) refuse("[] is too short - 'tools'");
  let open = new Map<string, string>();
  messages.forEach((value, at) => {
    const message = fieldsOf(value, `messages[${at}]`);
    const { role, content, tool_calls: made, tool_call_id: answers, refusal } = message;
    if (role === "tool") {
      const name = open.get(textOf(answers, `messages[${at}].tool_call_id`));
      if (name === undefined) {
        refuse("messages with role 'tool' must be a response to a preceding message with 'tool_calls'");
      }
      open.delete(String(answers));
      if (dialect === "gemini" && /gemini/.test(String(body.model)) && message.name !== name) {
        refuse("function_response.name: Name cannot be empty.");
      }
    } else if (open.size > 0) refuse(`tool_call_ids did not have response messages: ${[...open.keys()]}`);
    if (!ROLES.includes(role)) refuse(`Invalid value: '${role}'. Supported values are: ${ROLES}.`);
    for (const name of ["name", "reasoning_content", "refusal"]) {
      if (typeof (message[name] ?? "") !== "string") refuse(`messages[${at}].${name} must be a string`);
    }
    if (Array.isArray(content) && content.length === 0) refuse(`[] is too short - 'messages.${at}.content'`);
    if (isFields(content) || typeof content === "number" || typeof content === "boolean") {
      refuse(`Invalid type for 'messages[${at}].content'`);
    }
    for (const part of listOf(content)) {
      const fields = fieldsOf(part, `messages[${at}].content`);
      const type = textOf(fields.type, `messages[${at}].content.type`);
      if (!(PARTS[String(role)]?.includes(type) ?? true)) {
        refuse(`Invalid 'messages[${at}]': a '${role}' message may not hold a part of type '${type}'`);
      }
      if (type === "file") textOf(fieldsOf(fields.file, "file").file_data ?? "", "file.file_data");
      checkPart(part, `messages[${at}].content`, TEXT_OF[type]);
    }
    if (role !== "assistant") {
      if (typeof content !== "string" && !Array.isArray(content)) {
        refuse(`messages[${at}].content is missing`);
      }
      if (
        dialect === "gemini" && role === "user" && contentText(content as Content) === "" &&
        !hasMedia(content)
      ) {
        refuse("contents.parts must not be empty.");
      }
      return;
    }
    const calls = made === undefined || made === null ? [] : listOf(made);
    if (Array.isArray(made) && calls.length === 0) refuse(`[] is too short - 'messages.${at}.tool_calls'`);
    const hasText = contentText(content as Content) !== "" || dialect === "openai" && Boolean(refusal);
    if (calls.length === 0 && !hasText) {
      refuse("Invalid assistant message: content or tool_calls must be set");
    }
    open = new Map(
      calls.map((call, place) => readCall(call, `messages[${at}].tool_calls[${place}]`, dialect)),
    );
    if (open.size < calls.length) refuse(`messages[${at}].tool_calls: two calls have one id`);
  });
  if (open.size > 0) refuse(`tool_call_ids did not have response messages: ${[...open.keys()]}`);
  const names = tools.map((value, at) => {
    const { type, function: definition } = fieldsOf(value, `tools[${at}]`);
    if (type === "custom") return String((value as { custom?: Fields }).custom?.name);
    const { name, description = "", parameters } = fieldsOf(definition, `tools[${at}].function`);
    textOf(description, `tools[${at}].function.description`);
    checkName(name, `tools[${at}].function.name`, dialect);
    if (parameters !== undefined && parameters !== null) {
      checkSchema(parameters, `tools[${at}].function.parameters`, dialect);
    }
    return String(name);
  });
  if (new Set(names).size < names.length) refuse("tools: names must be unique");
}

function checkPart(part: unknown, at: string, path: readonly string[] = []): void {
  let value = part;
  for (const name of path) value = fieldsOf(value, at)[name];
  if (path.length > 0) textOf(value, `${at}.${path.join(".")}`);
}

function hasMedia(content: unknown): boolean {
  return listOf(content).some((part) => isFields(part) && part.type !== "text");
}

function checkName(name: unknown, at: string, dialect: Dialect): void {
  const right = dialect === "gemini"
    ? /^[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}$/
    : dialect === "anthropic"
    ? /^[a-zA-Z0-9_-]{1,128}$/
    : NAME;
  if (!right.test(textOf(name, at))) refuse(`${at}: String should match pattern '${right.source}'`);
}

function readCall(value: unknown, at: string, dialect: Dialect): readonly [string, string] {
  const call = fieldsOf(value, at);
  const id = textOf(call.id, `${at}.id`);
  if (id === "" || id.length > 40) {
    refuse(
      `Invalid '${at}.id': expected a string with maximum length 40, but got one with length ${id.length}`,
    );
  }
  if (call.type === "custom") {
    const { name, input } = fieldsOf(call.custom, at);
    textOf(input, `${at}.custom.input`);
    checkName(name, `${at}.custom.name`, "openai");
    return [id, String(name)];
  }
  const { name, arguments: text } = fieldsOf(call.function, `${at}.function`);
  checkName(name, `${at}.function.name`, dialect);
  checkArguments(textOf(text, `${at}.function.arguments`), dialect);
  return [id, String(name)];
}

/** Checks arguments, which servers with a chat template parse again in all calls. */
function checkArguments(text: string, dialect: Dialect): void {
  if (dialect === "openai" || dialect === "deepseek") return;
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    refuse(`Failed to parse tool call arguments as JSON: ${(error as Error).message}`);
  }
  if (!isFields(value)) refuse("Tool call arguments must be a JSON object");
  checkText(value);
}

function checkResponses(body: Fields): void {
  const { input, tools } = body;
  if (typeof input === "string") return;
  const items = listOf(input);
  if (items.length === 0) refuse("One of 'input' or 'previous_response_id' must be provided.");
  const isWhole = body.previous_response_id === undefined && body.conversation === undefined &&
    items.every((item) => isFields(item) && item.type !== "item_reference");
  const open = new Set<string>();
  items.forEach((value, at) => {
    const item = fieldsOf(value, `input[${at}]`);
    const { type = "message", call_id: id, name, content } = item;
    if (type === "function_call" || type === "custom_tool_call") {
      checkCallId(id, at);
      checkName(name, `input[${at}].name`, "responses");
      if (type === "function_call") checkArguments(textOf(item.arguments, `input[${at}].arguments`), "vllm");
      open.add(String(id));
    } else if (String(type).endsWith("_call")) {
      if (typeof id === "string") open.add(id);
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      checkCallId(id, at);
      if (isWhole && !open.delete(String(id))) {
        refuse(`No tool call found for function call output with call_id ${id}.`);
      }
      if (item.output === undefined) refuse(`Missing required parameter: 'input[${at}].output'.`);
      if (Array.isArray(item.output) && item.output.length === 0) {
        refuse(`input[${at}].output must not be empty`);
      }
    } else if (String(type).endsWith("_output")) open.delete(String(id));
    else if (type === "message") {
      if (typeof content !== "string" && listOf(content).length === 0 && item.role !== "assistant") {
        refuse(`Missing required parameter: 'input[${at}].content'.`);
      }
    }
  });
  if (isWhole && open.size > 0) refuse(`No tool output found for function call ${[...open][0]}.`);
  const names = listOf(tools).flatMap((value, at) => {
    const tool = fieldsOf(value, `tools[${at}]`);
    if (tool.type !== "function") return [];
    checkName(tool.name, `tools[${at}].name`, "responses");
    if (tool.parameters === undefined) refuse(`Missing required parameter: 'tools[${at}].parameters'.`);
    if (tool.parameters !== null) checkSchema(tool.parameters, `tools[${at}].parameters`, "responses");
    return [String(tool.name)];
  });
  if (new Set(names).size < names.length) refuse("tools: names must be unique");
}

function checkCallId(id: unknown, at: number): void {
  const { length } = textOf(id, `input[${at}].call_id`);
  if (length < 1 || length > 64) {
    refuse(`Invalid 'input[${at}].call_id': expected a string with length 1 to 64, but got ${length}`);
  }
}

const ID = /^[a-zA-Z0-9_-]+$/;
const KEY = /^[a-zA-Z0-9_.-]{1,64}$/;
const IMAGES: readonly unknown[] = ["image/jpeg", "image/png", "image/gif", "image/webp"];
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

function checkMessages(body: Fields): void {
  if (typeof body.max_tokens !== "number") refuse("max_tokens: Field required");
  const given = listOf(body.messages);
  if (given.length === 0) refuse("messages: at least one message is required");
  checkThinking(body);
  for (const block of listOf(body.system)) checkBlock(fieldsOf(block, "system"), "system", "system");
  // Consecutive messages of one role are merged.
  const turns: { readonly role: string; readonly blocks: Fields[]; readonly at: number }[] = [];
  given.forEach((value, at) => {
    const { role, content } = fieldsOf(value, `messages.${at}`);
    // Instructions within a conversation, a beta that Claude Code requests.
    if (role === "system" && at > 0) return;
    if (role !== "user" && role !== "assistant") {
      refuse(`messages.${at}.role: Input should be 'user' or 'assistant'`);
    }
    const isLast = at === given.length - 1;
    const blocks = typeof content === "string"
      ? [{ type: "text", text: content }]
      : listOf(content).map((block) => fieldsOf(block, `messages.${at}.content`));
    const isEmpty = blocks.length === 0 || typeof content === "string" && content.trim() === "";
    if (isEmpty && !(isLast && role === "assistant")) {
      refuse(
        `messages.${at}: all messages must have non-empty content except for the optional final assistant message`,
      );
    }
    if (!isEmpty) {
      blocks.forEach((block, place) => checkBlock(block, `messages.${at}.content.${place}`, String(role)));
    }
    const last = turns.at(-1);
    if (last?.role === role) last?.blocks.push(...blocks);
    else turns.push({ role: String(role), blocks: [...blocks], at });
  });
  checkPairs(turns);
  const end = turns.at(-1)!;
  const text = end.blocks.at(-1)?.text;
  if (end.role === "assistant" && typeof text === "string" && text !== text.trimEnd()) {
    refuse("messages: final assistant content cannot end with trailing whitespace");
  }
  const names = listOf(body.tools).map((value, at) => {
    const tool = fieldsOf(value, `tools.${at}`);
    if (tool.type !== undefined && tool.type !== "custom") return String(tool.name);
    checkName(tool.name, `tools.${at}.custom.name`, "anthropic");
    checkSchema(tool.input_schema, `tools.${at}.custom.input_schema`, "anthropic");
    return String(tool.name);
  });
  if (new Set(names).size < names.length) refuse("tools: Tool names must be unique.");
}

function checkThinking(body: Fields): void {
  const thinking = isFields(body.thinking) ? body.thinking : {};
  if (thinking.type !== "enabled") return;
  if (typeof thinking.budget_tokens !== "number" || thinking.budget_tokens < 1024) {
    refuse("thinking.enabled.budget_tokens: Input should be greater than or equal to 1024");
  }
  if (thinking.budget_tokens >= Number(body.max_tokens)) {
    refuse("`max_tokens` must be greater than `thinking.budget_tokens`");
  }
}

function checkBlock(block: Fields, at: string, role: string): void {
  const { type, text, id, name, input, source, content } = block;
  switch (type) {
    case "text":
      if (typeof text !== "string") refuse(`${at}.text: Field required`);
      if (text.trim() === "") refuse(`${at}: text content blocks must contain non-whitespace text`);
      break;
    case "tool_use":
      if (role !== "assistant") refuse(`${at}: \`tool_use\` blocks can only be in \`assistant\` messages`);
      if (!ID.test(textOf(id, `${at}.id`))) {
        refuse(`${at}.tool_use.id: String should match pattern '${ID.source}'`);
      }
      checkName(name, `${at}.tool_use.name`, "anthropic");
      if (!isFields(input)) refuse(`${at}.tool_use.input: Input should be a valid dictionary`);
      break;
    case "tool_result":
      if (role !== "user") refuse(`${at}: \`tool_result\` blocks can only be in \`user\` messages`);
      for (const one of listOf(content)) checkBlock(fieldsOf(one, at), `${at}.tool_result.content`, "result");
      break;
    case "image": {
      const { type: kind, media_type: media, data } = fieldsOf(source, `${at}.source`);
      if (kind !== "base64") break;
      if (!IMAGES.includes(media)) {
        refuse(`${at}.image.source.base64.media_type: Input should be ${IMAGES}`);
      }
      if (typeof data !== "string" || data === "" || !BASE64.test(data)) {
        refuse(`${at}.image.source.base64: invalid base64 data`);
      }
      break;
    }
    case "thinking":
    case "redacted_thinking":
      if (block.cache_control) refuse(`${at}: cache_control cannot be set for thinking blocks`);
  }
}

function checkPairs(
  turns: readonly { readonly role: string; readonly blocks: readonly Fields[]; readonly at: number }[],
): void {
  const ids = new Set<unknown>();
  turns.forEach(({ role, blocks, at }, place) => {
    if (role === "assistant") {
      for (const { type, id } of blocks) {
        if (type !== "tool_use") continue;
        if (ids.has(id)) refuse(`messages.${at}: \`tool_use\` ids must be unique`);
        ids.add(id);
      }
      const { type } = blocks.at(-1) ?? {};
      if (type === "thinking" || type === "redacted_thinking") {
        refuse(`messages.${at}: The final block in an assistant message cannot be \`thinking\`.`);
      }
      const open = new Set(blocks.filter(({ type }) => type === "tool_use").map(({ id }) => id));
      for (const { type, tool_use_id: id } of turns[place + 1]?.blocks ?? []) {
        if (type === "tool_result") open.delete(id);
      }
      if (open.size > 0) {
        refuse(
          `messages.${at}: \`tool_use\` ids were found without \`tool_result\` blocks immediately after: ${[
            ...open,
          ]}`,
        );
      }
      return;
    }
    const calls = new Set(
      turns[place - 1]?.blocks.filter(({ type }) => type === "tool_use").map(({ id }) => id) ?? [],
    );
    let isAfter = false;
    for (const { type, tool_use_id: id } of blocks) {
      if (type !== "tool_result") {
        isAfter = true;
        continue;
      }
      if (!calls.delete(id)) {
        refuse(`messages.${at}: unexpected \`tool_use_id\` found in \`tool_result\` blocks: ${id}`);
      }
      if (isAfter) refuse(`messages.${at}: \`tool_result\` blocks must come first in the content`);
    }
  });
}

const TYPES: readonly unknown[] = ["object", "array", "string", "number", "integer", "boolean", "null"];

function checkSchema(value: unknown, at: string, dialect: Dialect): void {
  const root = fieldsOf(value, at);
  if (root.type !== "object") {
    refuse(`${at}: schema must be a JSON Schema of 'type: "object"', got '${root.type}'`);
  }
  const top = dialect === "anthropic"
    ? ["oneOf", "allOf", "anyOf"]
    : ["oneOf", "anyOf", "allOf", "enum", "const", "not"];
  for (const keyword of top) {
    if (keyword in root) refuse(`${at}: schema does not support ${top.join(", ")} at the top level`);
  }
  if (dialect !== "anthropic" && !isFields(root.properties)) {
    refuse(`${at}: object schema missing properties`);
  }
  if (dialect === "anthropic") {
    for (const name of Object.keys(isFields(root.properties) ? root.properties : {})) {
      if (!KEY.test(name)) refuse(`${at}.properties: Property keys should match pattern '${KEY.source}'`);
    }
  }
  checkNode(root, at, { root, dialect });
}

function checkNode(
  value: unknown,
  at: string,
  about: { readonly root: Fields; readonly dialect: Dialect },
): void {
  const { root, dialect } = about;
  const makesGrammar = dialect === "llama.cpp" && !NOT_IN_GRAMMAR.test(at);
  if (typeof value === "boolean") {
    if (makesGrammar && !at.endsWith(".additionalProperties")) refuse(`${at}: Unrecognized schema: ${value}`);
    return;
  }
  const node = fieldsOf(value, at);
  const { type, $ref: ref, required, items, properties } = node;
  if (type !== undefined && ![type].flat().every((one) => TYPES.includes(one))) {
    refuse(`${at}: '${type}' is not a type`);
  }
  if (Array.isArray(type) && type.length === 0) refuse(`${at}.type must not be empty`);
  if (
    required !== undefined && !(Array.isArray(required) && required.every((one) => typeof one === "string"))
  ) {
    refuse(`${at}.required must be an array of strings`);
  }
  if (dialect === "gemini" && isFields(properties)) {
    for (const name of listOf(required)) {
      if (!Object.hasOwn(properties, String(name))) {
        refuse(`${at}.required: property is not defined: ${name}`);
      }
    }
  }
  if ([type].flat().includes("array") && items === undefined && dialect !== "anthropic") {
    refuse(`${at}: array schema missing items`);
  }
  if (Array.isArray(items)) refuse(`${at}.items must be a schema (JSON Schema draft 2020-12)`);
  for (const name of ["exclusiveMinimum", "exclusiveMaximum"]) {
    if (node[name] !== undefined && typeof node[name] !== "number") refuse(`${at}.${name} must be a number`);
  }
  for (const name of ["enum", "anyOf", "oneOf", "allOf", "prefixItems"]) {
    if (node[name] !== undefined && listOf(node[name]).length === 0) {
      refuse(`${at}.${name} must be a non-empty array`);
    }
  }
  for (const name of ["description", "format"]) {
    if (node[name] !== undefined && typeof node[name] !== "string") refuse(`${at}.${name} must be a string`);
  }
  if (ref !== undefined && !resolves(root, ref, dialect)) refuse(`${at}: unresolvable reference ${ref}`);
  if (makesGrammar) checkGrammar(node, at);
  for (const name of ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]) {
    if (node[name] === undefined) continue;
    for (const [key, one] of Object.entries(fieldsOf(node[name], `${at}.${name}`))) {
      checkNode(one, `${at}.${name}.${key}`, about);
    }
  }
  for (const name of ["anyOf", "oneOf", "allOf", "prefixItems"]) {
    listOf(node[name]).forEach((one, place) => checkNode(one, `${at}.${name}.${place}`, about));
  }
  for (
    const name of ["items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"]
  ) {
    if (node[name] !== undefined) checkNode(node[name], `${at}.${name}`, about);
  }
}

function resolves(root: Fields, ref: unknown, dialect: Dialect): boolean {
  if (typeof ref !== "string") return false;
  if (ref === "#") return dialect !== "llama.cpp";
  if (!ref.startsWith("#/")) return false;
  let at: unknown = root;
  for (const step of ref.slice(2).split("/")) {
    // llama.cpp's grammar converter doesn't decode it.
    const name = dialect === "llama.cpp" ? step : decode(step);
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, name)) return false;
    at = (at as Fields)[name];
  }
  return isFields(at) || typeof at === "boolean";
}

function decode(step: string): string {
  try {
    return decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
  } catch {
    return step.replaceAll("~1", "/").replaceAll("~0", "~");
  }
}

/** Positions in schemas that aren't converted to a grammar. */
const NOT_IN_GRAMMAR = /\.(?:not|if|then|else|contains|propertyNames)(?:\.|$)/;

/** A schema needs one of these keywords to be converted to a grammar. */
const RECOGNIZED: readonly string[] = [
  ...["type", "$ref", "anyOf", "oneOf", "allOf", "const", "enum"],
  ...["properties", "items", "prefixItems", "pattern", "additionalProperties"],
];

function checkGrammar(node: Fields, at: string): void {
  const { pattern } = node;
  if (pattern !== undefined) {
    const text = textOf(pattern, `${at}.pattern`);
    if (!text.startsWith("^") || !text.endsWith("$")) {
      refuse(`${at}: Pattern must start with '^' and end with '$'`);
    }
    if (/\\[a-zA-Z]/.test(text)) refuse(`${at}: error parsing grammar: unknown escape in ${text}`);
  }
  for (const name of ["minLength", "maxLength", "minItems", "maxItems"]) {
    if (typeof node[name] === "number" && node[name] > 2000) {
      refuse(`${at}: number of repetitions exceeds sane defaults`);
    }
  }
  if (Object.keys(node).length > 0 && !RECOGNIZED.some((name) => name in node)) {
    refuse(`${at}: Unrecognized schema: ${JSON.stringify(node)}`);
  }
}

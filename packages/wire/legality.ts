/**
 * Sanitizes requests for providers: names, ids, arguments, order and characters. The same history gives the
 * same bytes.
 * @module
 */
import type {
  AssistantMessage,
  Content,
  ContentPart,
  Message,
  ModelRequest,
  ToolCall,
  ToolDefinition,
  ToolMessage,
} from "@tare/messages";
import { describeCall, hashText, pairCalls } from "@tare/messages/internal";
import { isRecord, jsonExcess, type JsonRecord, parseRecord } from "./json.ts";
import { legalSchema, type SchemaRules } from "./legal_schema.ts";

/** Names, ids and schemas that a protocol's providers accept. */
export interface LegalForms {
  readonly name: RegExp;
  readonly id: RegExp;
  /** Default: common restrictions. */
  readonly schema?: SchemaRules;
  /** Whether schemas are optional. Default: false. */
  readonly allowsNoSchema?: boolean;
}

/** Longest generated name or id, in characters. */
const MAX_MADE = 40;

/** Returns an accepted name or id: the original's legal characters and a hash. */
export function madeName(original: string, attempt = 0): string {
  const hash = hashText(attempt === 0 ? original : `${attempt} ${original}`).toString(36);
  const plain = original.replaceAll(/[^A-Za-z0-9_-]+/g, "_").replace(/^[^A-Za-z_]/, "_$&");
  return `${plain.slice(0, MAX_MADE - hash.length - 1) || "x"}_${hash}`;
}

/** A reversible mapping without collisions. */
class LegalNames {
  readonly #pattern: RegExp;
  readonly #sent = new Map<string, string>();
  readonly #originals = new Map<string, string>();

  constructor(pattern: RegExp, tools: readonly ToolDefinition[]) {
    this.#pattern = pattern;
    // Offered tools have priority over invented names.
    const offered = tools.map(({ function: { name } }) => name);
    for (const name of offered.filter((name) => pattern.test(name))) this.of(name);
    for (const name of offered) this.of(name);
  }

  of(original: string): string {
    const known = this.#sent.get(original);
    if (known !== undefined) return known;
    let name = original;
    for (let attempt = 0; !this.#pattern.test(name) || this.#originals.has(name); attempt++) {
      name = madeName(original, attempt);
    }
    this.#sent.set(original, name);
    this.#originals.set(name, original);
    return name;
  }

  originalOf(sent: string): string {
    return this.#originals.get(sent) ?? sent;
  }
}

/** A sanitized message. */
export interface LegalMessage {
  readonly message: Message;
  readonly made: readonly ToolCall[];
  readonly at: number;
}

/** A sanitized tool. */
export interface LegalTool {
  readonly definition: ToolDefinition;
  /** Original argument names by sent name. */
  readonly renamed: ReadonlyMap<string, string>;
}

/**
 * Returns sanitized messages and tools: legal names and ids, JSON-object arguments, exactly one result
 * directly after each call, no empty replies. Legal messages are the same objects.
 */
export function legalPrompt(
  { messages, tools }: Pick<ModelRequest, "messages" | "tools">,
  forms: LegalForms,
): {
  readonly messages: readonly LegalMessage[];
  readonly tools: readonly LegalTool[];
  readonly nameOf: (name: string) => string;
} {
  const names = new LegalNames(forms.name, tools);
  return {
    messages: legalMessages(messages, forms, names),
    tools: legalTools(tools, forms, names),
    nameOf: (name) => names.of(name),
  };
}

/** Returns a reply with the original names of tools and arguments; the same object if unchanged. */
export function originalCalls(
  reply: AssistantMessage,
  { messages, tools }: Pick<ModelRequest, "messages" | "tools">,
  forms: LegalForms,
): AssistantMessage {
  const { tool_calls: calls } = reply;
  if (!calls || calls.length === 0) return reply;
  const names = new LegalNames(forms.name, tools);
  for (const message of messages) {
    if (message.role === "assistant") {
      message.tool_calls?.forEach((call) => names.of(describeCall(call).name));
    }
  }
  const original = calls.map((call) => {
    const { name } = describeCall(call);
    const meant = names.originalOf(name);
    if (call.type === "custom") {
      return name === meant ? call : { ...call, custom: { ...call.custom, name: meant } };
    }
    const tool = tools.find((one) => one.function.name === meant);
    const renamed = tool && legalTool(tool, forms).renamed;
    const text = renamed && renamed.size > 0
      ? originalArguments(call.function.arguments, renamed)
      : call.function.arguments;
    if (name === meant && text === call.function.arguments) return call;
    return { ...call, function: { ...call.function, name: meant, arguments: text } };
  });
  return original.every((call, at) => call === calls[at]) ? reply : { ...reply, tool_calls: original };
}

function originalArguments(text: string, renamed: ReadonlyMap<string, string>): string {
  const given = parseRecord(text);
  if (!given || !Object.keys(given).some((name) => renamed.has(name))) return text;
  return JSON.stringify(
    Object.fromEntries(Object.entries(given).map(([name, value]) => [renamed.get(name) ?? name, value])),
  );
}

function legalTools(
  tools: readonly ToolDefinition[],
  forms: LegalForms,
  names: LegalNames,
): readonly LegalTool[] {
  const seen = new Set<string>();
  return tools.flatMap((tool) => {
    const name = names.of(tool.function.name);
    if (seen.has(name)) return [];
    seen.add(name);
    const legal = legalTool(tool, forms);
    const { definition } = legal;
    if (name === definition.function.name) return [legal];
    return [{ ...legal, definition: { ...definition, function: { ...definition.function, name } } }];
  });
}

const legalOnes = new WeakMap<LegalForms, WeakMap<ToolDefinition, LegalTool>>();

function legalTool(tool: ToolDefinition, forms: LegalForms): LegalTool {
  let known = legalOnes.get(forms);
  if (!known) legalOnes.set(forms, known = new WeakMap());
  let legal = known.get(tool);
  if (!legal) known.set(tool, legal = makeLegalTool(tool, forms));
  return legal;
}

function makeLegalTool(tool: ToolDefinition, forms: LegalForms): LegalTool {
  const { parameters, description, ...rest } = tool.function;
  if (parameters === undefined && forms.allowsNoSchema) return { definition: tool, renamed: new Map() };
  const { schema, note, renamed } = legalSchema(parameters, forms.schema);
  if (schema === parameters) return { definition: tool, renamed };
  const text = [description, note].filter((text) => text !== undefined && text !== "").join("\n");
  return {
    definition: {
      ...tool,
      function: {
        ...rest,
        ...(text !== "" && { description: text }),
        parameters: schema,
        // A changed schema may not be strict.
        ...(rest.strict && { strict: false }),
      },
    },
    renamed,
  };
}

const NO_RESULT = "[No result: the call was not run, or its result is not part of this conversation.]";

const NO_CALL = "[Result of a call that is not part of this conversation:]";

function legalMessages(
  messages: readonly Message[],
  { id: pattern }: LegalForms,
  names: LegalNames,
): readonly LegalMessage[] {
  const ids = new LegalIds(pattern);
  const pairs = Map.groupBy(pairCalls(messages), ({ at }) => at);
  const answers = new Set([...pairs.values()].flat().flatMap(({ answer }) => answer?.at ?? []));
  const sent: LegalMessage[] = [];
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool") {
      if (answers.has(at)) continue;
      const visible: Content = typeof message.content === "string"
        ? `${NO_CALL}\n${message.content}`
        : [{ type: "text", text: NO_CALL }, ...message.content];
      sent.push({ message: { role: "user", content: visible }, made: [], at });
      continue;
    }
    if (message.role === "function") {
      const content = `[Result of ${message.name}:]\n${message.content ?? ""}`;
      sent.push({ message: { role: "user", content }, made: [], at });
      continue;
    }
    if (message.role !== "assistant") {
      sent.push({ message, made: [], at });
      continue;
    }
    const made = message.tool_calls ?? [];
    const calls = made.map((call) => legalCall(call, ids.next(call.id), names));
    const isSame = calls.every((call, place) => call === made[place]);
    const { tool_calls: _, ...entry } = message;
    const legal = made.length === 0 && message.tool_calls !== undefined
      ? entry
      : isSame
      ? message
      : { ...message, tool_calls: calls };
    sent.push({ message: legal, made, at });
    const results = (pairs.get(at) ?? []).map(({ answer }, place) => ({ answer, id: calls[place]!.id }));
    for (
      const { answer, id } of results.toSorted((a, b) =>
        (a.answer?.at ?? Infinity) - (b.answer?.at ?? Infinity) || 0
      )
    ) {
      const message: ToolMessage = answer?.message ?? { role: "tool", tool_call_id: id, content: NO_RESULT };
      const result = message.tool_call_id === id ? message : { ...message, tool_call_id: id };
      sent.push({ message: result, made: [], at: answer?.at ?? at });
    }
  }
  return sent.filter(({ message }) => !isEmptyReply(message));
}

class LegalIds {
  readonly #pattern: RegExp;
  readonly #taken = new Set<string>();

  constructor(pattern: RegExp) {
    this.#pattern = pattern;
  }

  next(original: string): string {
    let id = original;
    for (let attempt = 0; !this.#pattern.test(id) || this.#taken.has(id); attempt++) {
      id = madeName(original, attempt);
    }
    this.#taken.add(id);
    return id;
  }
}

function legalCall(call: ToolCall, id: string, names: LegalNames): ToolCall {
  if (call.type === "custom") {
    const name = names.of(call.custom.name);
    const isSame = name === call.custom.name && id === call.id;
    return isSame ? call : { ...call, id, custom: { ...call.custom, name } };
  }
  const { function: made } = call;
  const name = names.of(made.name);
  const text = legalArguments(made.arguments);
  if (name === made.name && text === made.arguments && id === call.id) return call;
  return { ...call, id, function: { ...made, name, arguments: text } };
}

/** Argument for text that is no JSON object. */
const INVALID = "invalid_arguments";

/** Shorter texts can't be nested too deeply. */
const MAX_SHORT = 200;

/**
 * Returns a call's arguments as a JSON object, which servers parse with every request; other texts become its
 * field `invalid_arguments`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { legalArguments } from "@tare/wire/internal";
 *
 * assertEquals(legalArguments('{"path": "a.txt"}'), '{"path": "a.txt"}');
 * assertEquals(legalArguments('{"path": "a.t'), '{"invalid_arguments":"{\\"path\\": \\"a.t"}');
 * ```
 */
export function legalArguments(text: string): string {
  if (text.trim() === "") return "{}";
  const given = parseRecord(text);
  if (!given || text.length > MAX_SHORT && jsonExcess(encoder.encode(text)) !== undefined) {
    return JSON.stringify({ [INVALID]: text.toWellFormed() });
  }
  const clean = wellFormed(given);
  return clean === given ? text : JSON.stringify(clean);
}

const encoder = new TextEncoder();

/** Returns whether a reply is empty, and therefore refused. */
function isEmptyReply(message: Message): boolean {
  if (message.role !== "assistant") return false;
  const { content, refusal, tool_calls: calls = [], carried } = message;
  const hasContent = typeof content === "string"
    ? content.trim() !== ""
    : content?.some((part) => !isBlank(part)) ?? false;
  return calls.length === 0 && !hasContent && !refusal && (carried?.items ?? []).length === 0;
}

function isBlank(part: ContentPart): boolean {
  if (part.type === "text") return part.text.trim() === "";
  return part.type === "refusal" && part.refusal.trim() === "";
}

/**
 * Replaces unpaired surrogates, which no provider accepts, by U+FFFD. Returns the same object if unchanged.
 */
export function wellFormed<Value>(value: Value): Value;
export function wellFormed(value: unknown): unknown {
  if (typeof value === "string") return value.isWellFormed() ? value : value.toWellFormed();
  if (Array.isArray(value)) {
    let changed: unknown[] | undefined;
    for (let at = 0; at < value.length; at++) {
      const one = wellFormed(value[at]);
      if (one !== value[at]) (changed ??= [...value])[at] = one;
    }
    return changed ?? value;
  }
  if (!isRecord(value)) return value;
  const entries = Object.entries(value);
  const all = entries.map(([name, one]) => [wellFormed(name), wellFormed(one)] as const);
  return all.some(([name, one], at) => name !== entries[at]![0] || one !== entries[at]![1])
    ? Object.fromEntries(all)
    : value;
}

/**
 * Returns a reply's items with calls in place, then calls without an item.
 * @param calls The calls as sent; `made` has the items' ids.
 */
export function placeCalls(
  items: readonly JsonRecord[],
  { calls, made, idOf, write }: {
    readonly calls: readonly ToolCall[];
    readonly made: readonly ToolCall[];
    /** Returns the call id of an item, if it is a call. */
    readonly idOf: (item: JsonRecord) => unknown;
    readonly write: (call: ToolCall) => JsonRecord;
  },
): Record<string, unknown>[] {
  const left = new Set(made.keys());
  const placed = items.map((item) => {
    const id = idOf(item);
    const place = id === undefined ? undefined : [...left].find((one) => made[one]!.id === id);
    if (place === undefined) return { ...item };
    left.delete(place);
    return { ...item, ...write(calls[place]!) };
  });
  return [...placed, ...[...left].map((place) => ({ ...write(calls[place]!) }))];
}

export const EMPTY_MESSAGE = "[empty message]";

export function absentPart(what: string): string {
  return `[${what}: omitted, unsupported by this provider's format]`;
}

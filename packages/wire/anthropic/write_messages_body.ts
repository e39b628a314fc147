import type {
  AssistantMessage,
  Content,
  ContentPart,
  Message,
  ModelRequest,
  ModelSettings,
  StableMessages,
  ToolCall,
  ToolDefinition,
} from "@tare/messages";
import { describeCall } from "@tare/messages/internal";
import { type JsonRecord, parseRecord } from "../json.ts";
import {
  absentPart,
  EMPTY_MESSAGE,
  legalArguments,
  type LegalForms,
  type LegalMessage,
  legalPrompt,
  madeName,
  placeCalls,
  wellFormed,
} from "../legality.ts";
import { UnknownShape } from "../protocol.ts";
import {
  hasContent,
  isThinking,
  LOOK_BACK_BLOCKS,
  MAX_CACHE_BREAKPOINTS,
  SHORT_TTL_MS,
} from "./cache_breakpoints.ts";

/** Forms accepted by providers of Messages. */
export const MESSAGES_FORMS: LegalForms = {
  name: /^[A-Za-z0-9_-]{1,128}$/,
  id: /^[A-Za-z0-9_-]+$/,
  schema: { key: { pattern: /^[A-Za-z0-9_.-]{1,64}$/, legal: (name) => madeName(name) } },
};

/** Precedes a reply at the start of a prompt. */
const BEGINNING = "[Earlier messages were removed.]";

/** A block, with the index of its message. */
interface PlacedBlock {
  readonly role: "user" | "assistant";
  readonly at: number;
  readonly value: Record<string, unknown>;
}

/** Options of {@linkcode messagesBody}. */
export interface MessagesBodyOptions {
  /** Longest reply in tokens, including thinking. */
  readonly maxTokens: number;
  /** Thinking as the model decides, or within a budget if an effort is set. Default: none. */
  readonly thinking?: "adaptive" | "budget" | undefined;
  /** Cache lifetime after the last use, in milliseconds; 0 without caching. Default: 300,000. */
  readonly cacheTtlMs?: number | undefined;
}

/**
 * Returns the prompt and settings of a Messages request. Content between two replies is one message, so that
 * all results are together. Replies read by `MessageAssembler` keep their original blocks; unsigned reasoning
 * is omitted.
 * At most four cache breakpoints are set, by priority: the end; an earlier request's end beyond the
 * provider's lookback of 20 blocks; after the last edited message; the end of the system prompt; the end of
 * the tools.
 * Thinking is omitted with sampling settings or a required tool, as the API demands, and in a tool loop that
 * began without it.
 * Illegal names, ids, arguments and schemas are replaced, and unsupported content becomes a placeholder.
 * @throws {UnknownShape} if the format doesn't support a setting or its value.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { messagesBody } from "@tare/wire";
 *
 * const settings = { temperature: 0.2, reasoning_effort: "low", parallel_tool_calls: false } as const;
 * const messages = [{ role: "user", content: "Hi." }] as const;
 * assertEquals(messagesBody({ messages, tools: [], settings }, { maxTokens: 1_000, cacheTtlMs: 0 }), {
 *   max_tokens: 1_000,
 *   messages: [{ role: "user", content: [{ type: "text", text: "Hi." }] }],
 *   temperature: 0.2,
 *   output_config: { effort: "low" },
 *   tool_choice: { type: "auto", disable_parallel_tool_use: true },
 * });
 * ```
 */
export function messagesBody(
  { messages, tools, stable, settings = {} }: Pick<
    ModelRequest,
    "messages" | "tools" | "stable" | "settings"
  >,
  { maxTokens, thinking, cacheTtlMs = SHORT_TTL_MS }: MessagesBodyOptions,
): JsonRecord {
  const legal = legalPrompt({ messages, tools }, MESSAGES_FORMS);
  const sent = legal.messages;
  const first = sent.findIndex(({ message }) => !isInstruction(message));
  const heads = first < 0 ? sent.length : first;
  const system = sent.slice(0, heads).flatMap(({ message }) => contentBlocks(message.content));
  const toolBlocks = legal.tools.map(({ definition }) => toolOf(definition));
  const written = sent.slice(heads).flatMap((legal, place): PlacedBlock[] => {
    const role = legal.message.role === "assistant" ? "assistant" : "user";
    const isLast = heads + place === sent.length - 1;
    return blocksOf(legal, isLast).map((value) => ({ role, at: legal.at, value }));
  });
  const blocks = withLegalEnds(written, heads);
  const useful = usefulPlaces(blocks, { messages, ...stable });
  const marked = [...useful, system.at(-1), toolBlocks.at(-1)].filter((block) => block !== undefined);
  const mark = { type: "ephemeral", ...(cacheTtlMs >= HOUR_MS && { ttl: "1h" }) };
  const most = cacheTtlMs > 0 ? MAX_CACHE_BREAKPOINTS : 0;
  for (const block of [...new Set(marked)].slice(0, most)) block.cache_control = mark;
  return wellFormed({
    max_tokens: maxTokens,
    ...(system.length > 0 && { system }),
    ...(toolBlocks.length > 0 && { tools: toolBlocks }),
    messages: grouped(blocks),
    ...settingsOf(settings, { thinking, maxTokens, messages, nameOf: legal.nameOf }),
  });
}

function isInstruction({ role }: Message): boolean {
  return role === "system" || role === "developer";
}

/** Puts a user's block first and trims a final reply, as providers require. */
function withLegalEnds(blocks: readonly PlacedBlock[], at: number): PlacedBlock[] {
  const [first] = blocks;
  const begun = first?.role === "user" ? [...blocks] : [
    { role: "user" as const, at, value: { type: "text", text: first ? BEGINNING : EMPTY_MESSAGE } },
    ...blocks,
  ];
  const last = begun.at(-1)!;
  const { type, text } = last.value;
  if (last.role === "assistant" && type === "text" && typeof text === "string") {
    begun[begun.length - 1] = { ...last, value: { ...last.value, text: text.trimEnd() } };
  }
  return begun;
}

const HOUR_MS = 3_600_000;

export function toolOf({ function: definition }: ToolDefinition): Record<string, unknown> {
  const { name, description, parameters = { type: "object" } } = definition;
  return { name, ...(description !== undefined && { description }), input_schema: parameters };
}

/** Returns the blocks for cache breakpoints, by priority. */
function usefulPlaces(
  blocks: readonly PlacedBlock[],
  { messages, shared = messages.length, edited = 0 }:
    & Pick<ModelRequest, "messages">
    & Partial<StableMessages>,
): Record<string, unknown>[] {
  /** Returns the last block of `length` messages that can have a breakpoint. */
  const lastOf = (length: number) =>
    blocks.findLastIndex(({ at, value }) => at < length && !isThinking(value));
  const end = lastOf(Infinity);
  // Each earlier request ended before a reply.
  const known = lastOf(messages.findLastIndex(({ role }, at) => at <= shared && role === "assistant"));
  const places = [end, end - known > LOOK_BACK_BLOCKS ? known : -1, edited > 0 ? lastOf(edited) : -1];
  return places.flatMap((place) => blocks[place] ?? []).map(({ value }) => value);
}

function grouped(blocks: readonly PlacedBlock[]): JsonRecord[] {
  const groups: { readonly role: string; readonly content: JsonRecord[] }[] = [];
  let last: PlacedBlock | undefined;
  for (const block of blocks) {
    const continues = last?.role === block.role && (block.role === "user" || last.at === block.at);
    if (continues) groups.at(-1)?.content.push(block.value);
    else groups.push({ role: block.role, content: [block.value] });
    last = block;
  }
  return groups;
}

function blocksOf({ message, made }: LegalMessage, isLast: boolean): Record<string, unknown>[] {
  if (message.role === "assistant") return replyBlocks(message, made, isLast);
  if (message.role !== "tool") return contentBlocks(message.content);
  const { tool_call_id: id, content } = message;
  const blocks = typeof content === "string" ? content : contentBlocks(content);
  return [{ type: "tool_result", tool_use_id: id, content: blocks }];
}

/** Returns the original blocks of a reply, if stored, with its calls. */
export function writeReply(message: AssistantMessage): Record<string, unknown>[] {
  const [legal] = legalPrompt({ messages: [message], tools: [] }, MESSAGES_FORMS).messages;
  return legal ? blocksOf(legal, true) : [];
}

/**
 * Returns the blocks of a reply.
 * @param made Its calls with the original ids.
 * @param isLast Whether its provider may continue it.
 */
function replyBlocks(
  message: AssistantMessage,
  made: readonly ToolCall[],
  isLast: boolean,
): Record<string, unknown>[] {
  const { tool_calls: calls = [], refusal, carried: { items: carriedItems } = {} } = message;
  if (!carriedItems) {
    const contents = contentBlocks(message.content || refusal || null);
    return [...contents, ...calls.map(callBlock)];
  }
  const blocks = withoutLooseEnds(carriedItems.filter(hasContent), isLast);
  const idOf = ({ type, id }: JsonRecord) => type === "tool_use" ? id : undefined;
  return placeCalls(blocks, { calls, made, idOf, write: callBlock });
}

/** Removes unanswered calls of the provider's own tools, and trailing thinking, which providers refuse. */
function withoutLooseEnds(blocks: readonly JsonRecord[], isLast: boolean): readonly JsonRecord[] {
  const answered = new Set(blocks.flatMap(({ tool_use_id: id }) => typeof id === "string" ? [id] : []));
  const isLoose = ({ type, id }: JsonRecord) =>
    type === "server_tool_use" && !answered.has(String(id)) && !isLast;
  return blocks.slice(0, blocks.findLastIndex((block) => !isThinking(block) && !isLoose(block)) + 1);
}

/** Returns a reply in the API's format, with its original blocks. */
export function finishedReply(
  message: AssistantMessage,
): { readonly content: readonly JsonRecord[]; readonly stop_reason: string } {
  return { content: writeReply(message), stop_reason: "end_turn" };
}

function callBlock(call: ToolCall): Record<string, unknown> {
  const { name, arguments: text } = describeCall(call);
  const input = call.type === "custom" ? { input: text } : readInput(legalArguments(text));
  return { type: "tool_use", id: call.id, name, input };
}

export function readInput(text: string): JsonRecord {
  return parseRecord(text) ?? {};
}

function contentBlocks(content: Content | null | undefined): Record<string, unknown>[] {
  const parts = typeof content === "string" ? [{ type: "text", text: content } as const] : content ?? [];
  return parts.map(blockOf).filter(hasContent);
}

function blockOf(part: ContentPart): Record<string, unknown> {
  switch (part.type) {
    case "text":
      return { type: "text", text: part.text };
    case "refusal":
      return { type: "text", text: part.refusal };
    case "image_url":
      return mediaBlock("image", part.image_url.url, "an image");
    case "file":
      return mediaBlock("document", part.file.file_data ?? "", part.file.filename ?? "a file");
    default:
      return { type: "text", text: absentPart(part.type) };
  }
}

/** Media types accepted as base64. */
const MEDIA: Readonly<Record<"image" | "document", readonly string[]>> = {
  image: ["image/png", "image/jpeg", "image/gif", "image/webp"],
  document: ["application/pdf"],
};

/** Returns an image or file, or a text placeholder. */
function mediaBlock(type: "image" | "document", url: string, what: string): Record<string, unknown> {
  const [, media = "", data = ""] = /^data:([\w.+-]+\/[\w.+-]+);base64,([A-Za-z0-9+/]+={0,2})$/.exec(url) ??
    [];
  if (MEDIA[type].includes(media) && data.length % 4 === 0) {
    return { type, source: { type: "base64", media_type: media, data } };
  }
  if (type === "document" && media === "text/plain") {
    const text = textOf(data);
    if (text !== undefined) return { type, source: { type: "text", media_type: media, data: text } };
  }
  if (/^https?:\/\//.test(url)) return { type, source: { type: "url", url } };
  const of = media === "" ? "" : `, ${media}, ${Math.floor(data.length * 3 / 4)} bytes`;
  return { type: "text", text: absentPart(`${what}${of}`) };
}

function textOf(base64: string): string | undefined {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(
      Uint8Array.from(atob(base64), (one) => one.charCodeAt(0)),
    );
    return text.trim() === "" ? undefined : text;
  } catch {
    return undefined;
  }
}

/** Chat completions allow higher ones. */
const MAX_TEMPERATURE = 1;

const EFFORTS: readonly string[] = ["low", "medium", "high", "xhigh", "max"];

/** Thinking's share of the longest reply by effort, and its least tokens. */
const BUDGETS: Readonly<Record<string, number>> = { low: 1 / 8, medium: 1 / 4, high: 1 / 2 };
const LEAST_BUDGET = 1_024;

/** @throws {UnknownShape} if a setting isn't supported. */
function settingsOf(
  {
    temperature,
    top_p,
    reasoning_effort: effort,
    tool_choice: choice,
    parallel_tool_calls: parallel,
    ...rest
  }: ModelSettings,
  { thinking, maxTokens, messages, nameOf }:
    & Pick<MessagesBodyOptions, "thinking" | "maxTokens">
    & {
      readonly messages: readonly Message[];
      readonly nameOf: (name: string) => string;
    },
): JsonRecord {
  const [unknown] = Object.entries(rest).find(([, value]) => value !== undefined) ?? [];
  if (unknown !== undefined) throw refused(unknown, `doesn't support ${unknown}`);
  if (temperature !== undefined && temperature > MAX_TEMPERATURE) {
    throw refused("temperature", `allows a temperature of at most ${MAX_TEMPERATURE}, not ${temperature}`);
  }
  const efforts = thinking === "budget" ? Object.keys(BUDGETS) : EFFORTS;
  if (effort !== undefined && !efforts.includes(effort)) {
    throw refused(
      "reasoning_effort",
      `allows a reasoning_effort of ${efforts.join(", ")}, not ${JSON.stringify(effort)}`,
    );
  }
  const mayThink = temperature === undefined && top_p === undefined && choice === undefined;
  const isBudgeted = thinking === "budget" && effort !== undefined && thinksFromStart(messages);
  const budget = Math.max(LEAST_BUDGET, Math.floor(maxTokens * (BUDGETS[effort ?? ""] ?? 0)));
  return {
    ...(mayThink && thinking === "adaptive" && { thinking: { type: "adaptive", display: "summarized" } }),
    ...(mayThink && isBudgeted && { thinking: { type: "enabled", budget_tokens: budget } }),
    ...(temperature !== undefined && { temperature }),
    ...(top_p !== undefined && { top_p }),
    ...(effort !== undefined && thinking !== "budget" && { output_config: { effort } }),
    ...((choice !== undefined || parallel === false) && {
      tool_choice: {
        ...(choice === undefined
          ? { type: "auto" }
          : choice === "required"
          ? { type: "any" }
          : { type: "tool", name: nameOf(choice.function.name) }),
        ...(parallel === false && { disable_parallel_tool_use: true }),
      },
    }),
  };
}

/** Returns whether the current tool loop began with thinking. */
function thinksFromStart(messages: readonly Message[]): boolean {
  const start = messages.findLastIndex(({ role }) => role !== "assistant" && role !== "tool") + 1;
  const first = messages[start];
  if (first?.role !== "assistant") return true;
  const [block] = first.carried?.items ?? [];
  return block !== undefined && isThinking(block);
}

function refused(param: string, state: string): UnknownShape {
  return new UnknownShape(`the Messages format ${state}`, { param });
}

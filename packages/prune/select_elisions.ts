import {
  checkGiven,
  countMessageTokens,
  type CountTokens,
  type Message,
  type Tool,
  type ToolMessage,
} from "@tare/messages";
import { bytesFromText } from "./archive.ts";
import type { Elision } from "./elide.ts";
import { type PairedResult, pairResults, type ParsedCall, resultText } from "./pair_results.ts";
import { formatPlaceholder, holdsPlaceholder, parsePlaceholder } from "./placeholder.ts";
import { RECALL_TOOL } from "./recall.ts";

/** What pruning wants to know of a tool. */
export type ToolTraits = Pick<Tool, "stance" | "reads" | "writes">;

/** What may be elided, and how its placeholder reads. */
export interface SelectOptions {
  /** Counts tokens; the count of each message object is remembered. */
  readonly countTokens: CountTokens;
  /** The tools by name. A tool that isn't there (any longer) counts as `once`. Default: none. */
  readonly tools?: Readonly<Record<string, ToolTraits>>;
  /** Whether the recall tool is offered to the model, so that placeholders may point to it. Default false. */
  readonly recall?: boolean;
  /** The model's context window, in tokens. At most half of it is protected. Default: unknown, no such limit. */
  readonly windowTokens?: number | undefined;
  /** Tokens at the end of the messages in which nothing is elided. Default 16,384. */
  readonly protectTokens?: number;
  /** Results with fewer UTF-8 bytes stay. Default 1,024. */
  readonly minBytes?: number;
  /** Whether a result reports an error; such results stay. Default {@linkcode looksLikeError}. */
  readonly isError?: (message: ToolMessage, index: number) => boolean;
}

/** A result that may go now; `tokensAfter` is what it is expected to leave, within a few tokens. */
export type ElisionCandidate = Omit<Elision, "ref" | "text">;

/**
 * Chooses the tool results that may leave the prompt now: superseded ones first, then the old ones, each oldest
 * first. A caller that needs only some room takes as many as it wants from the front.
 *
 * A result may go if it stands before the protected tail, holds nothing but text, is long enough, at least
 * halves its tokens by going, and the model has seen it (an assistant message follows). It stays if its tool's
 * stance is `keep`, if it reports an error, and if it shows an original that was recalled twice. It is *superseded*
 * if the same tool was called with the same arguments again later, or what it read was written later, unless
 * that later call failed.
 *
 * Takes time proportional to the number of messages, once their tokens are counted.
 */
export function selectElisions(messages: readonly Message[], options: SelectOptions): ElisionCandidate[] {
  checkGiven("selectElisions()", { messages, options }, {
    messages: "messages",
    options: { countTokens: "function" },
  });
  const { countTokens, minBytes = 1024 } = options;
  const results = pairResults(messages);
  const superseded = findSuperseded(results, options);
  const wanted = recalledTwice(results);
  const end = Math.min(
    protectedFrom(messages, options),
    messages.findLastIndex((message) => message.role === "assistant"),
  );
  const placeholderTokens = new Map<string, number>();
  const first: ElisionCandidate[] = [];
  const rest: ElisionCandidate[] = [];
  for (const { index, message, call } of results) {
    if (index >= end) break;
    const traits = traitsOf(call.tool, options);
    if (traits.stance === "keep") continue;
    const text = resultText(message);
    if (text === undefined || !hasBytes(text, minBytes)) continue;
    if (parsePlaceholder(text)) continue;
    if (isErrorResult(message, index, options)) continue;
    const isSuperseded = superseded.has(index);
    if (!isSuperseded && wanted.some((ref) => recalledRef(call) === ref || holdsPlaceholder(text, ref))) {
      continue;
    }
    const tokensBefore = countMessageTokens(message, countTokens);
    let tokensAfter = placeholderTokens.get(call.tool);
    if (tokensAfter === undefined) {
      const standIn = { of: "result", tool: call.tool, bytes: text.length, ref: "0123456789abcdef" } as const;
      const content = formatPlaceholder(standIn, { ...options, ...traits });
      tokensAfter = countMessageTokens({ ...message, content }, countTokens);
      placeholderTokens.set(call.tool, tokensAfter);
    }
    if (tokensBefore < 2 * tokensAfter) continue;
    const reason = isSuperseded ? "superseded" : "old";
    const toolCallId = message.tool_call_id;
    (isSuperseded ? first : rest).push({
      index,
      toolCallId,
      tool: call.tool,
      tokensBefore,
      tokensAfter,
      reason,
    });
  }
  return [...first, ...rest];
}

/** What the options say of a tool. */
export function traitsOf(tool: string, { tools = {} }: Pick<SelectOptions, "tools">): ToolTraits {
  // A model may call a tool by any name, `constructor` included.
  return (Object.hasOwn(tools, tool) ? tools[tool] : undefined) ?? {};
}

/** Whether a result's text begins like an error message: with the word `Error` or `Cannot`. */
export function looksLikeError(message: ToolMessage): boolean {
  const text = resultText(message);
  return text !== undefined && /^(Error|Cannot)\b/.test(text);
}

function isErrorResult(
  message: ToolMessage,
  index: number,
  { isError = looksLikeError }: SelectOptions,
): boolean {
  return isError(message, index);
}

/** Index of the first message of the protected tail. */
function protectedFrom(messages: readonly Message[], options: SelectOptions): number {
  const { countTokens, windowTokens = Infinity, protectTokens = 16_384 } = options;
  let left = Math.min(protectTokens, windowTokens / 2);
  let from = messages.length;
  for (const message of messages.toReversed()) {
    left -= countMessageTokens(message, countTokens);
    if (left < 0) break;
    from -= 1;
  }
  return from;
}

function findSuperseded(results: readonly PairedResult[], options: SelectOptions): Set<number> {
  const superseded = new Set<number>();
  const keysByTool = new Map<string, Set<string>>();
  const written = new Set<string>();
  for (const { index, message, call } of results.toReversed()) {
    const { reads, writes } = traitsOf(call.tool, options);
    let keys = keysByTool.get(call.tool);
    if (keys === undefined) keysByTool.set(call.tool, keys = new Set());
    const read = resource(call, reads);
    if (keys.has(call.key) || (read !== undefined && written.has(read))) superseded.add(index);
    if (isErrorResult(message, index, options)) continue;
    keys.add(call.key);
    const target = resource(call, writes);
    if (target !== undefined) written.add(target);
  }
  return superseded;
}

function resource(call: ParsedCall, argument: string | undefined): string | undefined {
  return argument === undefined ? undefined : call.args.get(argument)?.replace(/^(\.\/+)+/, "");
}

/** References that the visible calls recalled at least twice. */
function recalledTwice(results: readonly PairedResult[]): string[] {
  const counts = new Map<string, number>();
  for (const { call } of results) {
    const ref = recalledRef(call);
    if (ref !== undefined) counts.set(ref, (counts.get(ref) ?? 0) + 1);
  }
  return [...counts].filter(([, count]) => count >= 2).map(([ref]) => ref);
}

function recalledRef(call: ParsedCall): string | undefined {
  return call.tool === RECALL_TOOL.function.name ? call.args.get("ref") : undefined;
}

function hasBytes(text: string, bytes: number): boolean {
  // A UTF-16 code unit takes one to three bytes, so most texts need not be encoded to know.
  if (text.length >= bytes) return true;
  return text.length * 3 >= bytes && bytesFromText(text).length >= bytes;
}

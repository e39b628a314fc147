import type { CountTokens, Message, ToolDefinition } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { type Profile, type PromptCall, worthDeferring } from "@tare/planner";
import { isBuiltInWord } from "@tare/planner/internal";
import { Catalogue } from "@tare/schemas";
import { CALL_TOOL, FIND_TOOLS } from "@tare/schemas/internal";
import {
  asRecord,
  type deferTools,
  findField,
  isFunction,
  readItems,
  readJsonAt,
  type TurnWriterOptions,
  type WireItem,
  type WireRequest,
} from "@tare/wire/internal";
import { countInstructions, textOf } from "./sessions/history.ts";

/** Fewest tools with a common first word that count as those of an MCP server. */
const FAMILY = 5;

const FIRST_WORD = /^([^_\-.:/]+)[_\-.:/]/;

/** Words of a text, as names of tools are written. */
const WORDS = /[\w-]+/g;

/**
 * Returns the names of the functions that are not deferred in a session that begins with this request; `undefined` if
 * deferring doesn't pay, or the client itself defers tools. Only tools of servers are deferred, recognized by a common
 * first word, and not those that the instructions name: an agent's instructions rely on its own.
 */
export function functionsInFront(
  { tools = [], items, protocol: { toolSearch, forbidsToolPair } }: Pick<
    WireRequest,
    "tools" | "items" | "protocol"
  >,
  { alwaysFull = [], usual = [], countTokens, ...options }: {
    readonly profile: Profile;
    readonly windowTokens: number | undefined;
    readonly countTokens: CountTokens;
    /** Names of tools that are never deferred. Default: none. */
    readonly alwaysFull?: readonly string[] | undefined;
    /** Names of tools that the client's sessions usually call. Default: none. */
    readonly usual?: readonly string[] | undefined;
  },
): readonly string[] | undefined {
  const forbids = toolSearch ? toolSearch.forbids.bind(toolSearch) : forbidsToolPair;
  if (!forbids) return undefined;
  const functions = tools.filter(isFunction).map(({ definition }) => definition);
  const wordOf = ({ function: { name } }: typeof functions[number]) => FIRST_WORD.exec(name)?.[1];
  const families = Map.groupBy(functions, wordOf);
  const instructions = textOf(items.slice(0, countInstructions(items)));
  const named = new Set([...alwaysFull, ...usual, ...instructions.match(WORDS) ?? []]);
  const isDeferred = (one: typeof functions[number]) => {
    const { name, strict } = one.function;
    const word = wordOf(one);
    const isServed = word !== undefined && families.get(word)!.length >= FAMILY && !isBuiltInWord(word) &&
      !named.has(name);
    // A provider guarantees the arguments only of tools that it has.
    return isServed && (toolSearch !== undefined || strict !== true);
  };
  const deferred = functions.filter(isDeferred);
  if (deferred.length === 0) return undefined;
  const { windowTokens, profile } = options;
  const added = toolSearch ? [toolSearch.tool.definition] : pairOf(deferred, countTokens);
  const isWorth = worthDeferring({
    fullTokens: fullTokens(deferred, countTokens),
    shortTokens: fullTokens(added, countTokens),
    count: deferred.length,
    profile,
    ...(windowTokens !== undefined && { windowTokens }),
  });
  if (!isWorth || tools.some(({ bytes }) => forbids(jsonOf(bytes)))) return undefined;
  return functions.filter((one) => !isDeferred(one)).map((one) => one.function.name);
}

const pairs = new WeakMap<
  ToolDefinition,
  { readonly deferred: readonly ToolDefinition[]; readonly pair: readonly ToolDefinition[] }
>();

/**
 * Returns `find_tools`, whose description lists the deferred tools, and `call_tool`. The same objects for the same
 * tools.
 */
export function pairOf(
  deferred: readonly ToolDefinition[],
  countTokens: CountTokens,
): readonly ToolDefinition[] {
  const [first] = deferred;
  const known = first && pairs.get(first);
  if (
    known?.deferred.length === deferred.length && known.deferred.every((tool, at) => tool === deferred[at])
  ) {
    return known.pair;
  }
  const { function: find } = FIND_TOOLS;
  const description = `${find.description}\n${new Catalogue(deferred, { countTokens }).text()}`;
  const pair = [{ ...FIND_TOOLS, function: { ...find, description } }, CALL_TOOL];
  if (first) pairs.set(first, { deferred, pair });
  return pair;
}

/** Returns how calls of the pair are forwarded; these are the tools that may be called. */
export function pairForwarding(tools: readonly ToolDefinition[]): NonNullable<TurnWriterOptions["pair"]> {
  const names = new Set(tools.map((tool) => tool.function.name));
  return {
    find: FIND_TOOLS.function.name,
    call: CALL_TOOL.function.name,
    meant(text) {
      const bytes = new TextEncoder().encode(text.trim());
      const { name, arguments: given } = asRecord(parsed(text)) ?? {};
      if (typeof name !== "string" || !names.has(name)) return undefined;
      // Some models write the arguments as text.
      if (typeof given === "string") return asRecord(parsed(given)) && { name, arguments: given };
      const span = findField(bytes, "arguments");
      if (!span || given === null) return { name, arguments: "{}" };
      // The model's own spelling retains numbers that JavaScript would round.
      return asRecord(given) && { name, arguments: decoder.decode(bytes.subarray(span.start, span.end)) };
    },
  };
}

const decoder = new TextDecoder();

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The call is answered with what is wrong.
    return undefined;
  }
}

/**
 * Returns the tokens that the provider's search removes from a prompt. These hidden items contain the searches and
 * their results, which are subtracted.
 */
export function tokensOmitted(
  { definitions, added }: NonNullable<ReturnType<typeof deferTools>>,
  items: readonly WireItem[],
  { countTokens, ...reading }: Parameters<typeof readItems>[1] & { readonly countTokens: CountTokens },
): Omit<NonNullable<PromptCall["deferred"]>, "tools"> {
  const all = (messages: readonly Message[]) =>
    messages.reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0);
  const searching = items.reduce((sum, item) => {
    const bare = withoutSearches(item, reading);
    return bare === item ? sum : sum + all(messagesOf(item)) - all(messagesOf(bare));
  }, 0);
  const removed = fullTokens(definitions, countTokens) - fullTokens(added, countTokens);
  return { tokens: removed - searching, isDetour: false };
}

export function fullTokens(tools: readonly ToolDefinition[], countTokens: CountTokens): number {
  return tools.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
}

const bareItems = new WeakMap<NonNullable<WireItem["bytes"]>, WireItem | undefined>();

/** Returns an item without its searches and their results: the same object if it has none. */
export function withoutSearches(item: WireItem, reading: Parameters<typeof readItems>[1]): WireItem {
  const { bytes } = item;
  const { protocol } = reading;
  if (!bytes || !protocol.toolSearch) return item;
  if (!bareItems.has(bytes)) {
    const json = jsonOf(bytes);
    const bare = protocol.toolSearch.without(json);
    bareItems.set(bytes, bare === json ? undefined : readItems([JSON.stringify(bare)], reading)[0]);
  }
  return bareItems.get(bytes) ?? item;
}

function jsonOf(bytes: Uint8Array<ArrayBuffer>): unknown {
  return readJsonAt(bytes, { start: 0, end: bytes.length });
}

function messagesOf({ parts }: WireItem): readonly Message[] {
  return parts.map(({ message }) => message);
}

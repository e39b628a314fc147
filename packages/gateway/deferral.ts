import type { CountTokens, Message } from "@tare/messages";
import { countMessageTokens, countToolTokens } from "@tare/messages/internal";
import { type Profile, type PromptCall, worthDeferring } from "@tare/planner";
import {
  type deferTools,
  isFunction,
  readItems,
  readJsonAt,
  type WireItem,
  type WireRequest,
} from "@tare/wire/internal";

/** Fewest tools with a common first word that count as those of an MCP server. */
const FAMILY = 5;

const FIRST_WORD = /^([^_\-.:/]+)[_\-.:/]/;

/**
 * Returns the names of the functions that are not deferred in a session that begins with this request; `undefined` if
 * deferring doesn't pay, or the client itself defers tools. Only tools of servers are deferred, recognized by a common
 * first word: an agent's instructions rely on its own.
 */
export function functionsInFront(
  { tools = [], protocol: { toolSearch } }: Pick<WireRequest, "tools" | "protocol">,
  { alwaysFull = [], countTokens, ...options }: {
    readonly profile: Profile;
    readonly windowTokens: number | undefined;
    readonly countTokens: CountTokens;
    /** Names of tools that are never deferred. Default: none. */
    readonly alwaysFull?: readonly string[] | undefined;
  },
): readonly string[] | undefined {
  if (!toolSearch) return undefined;
  const functions = tools.filter(isFunction).map(({ definition }) => definition);
  const wordOf = ({ function: { name } }: typeof functions[number]) => FIRST_WORD.exec(name)?.[1];
  const families = Map.groupBy(functions, wordOf);
  const isDeferred = (one: typeof functions[number]) => {
    const word = wordOf(one);
    return word !== undefined && families.get(word)!.length >= FAMILY &&
      !alwaysFull.includes(one.function.name);
  };
  const deferred = functions.filter(isDeferred);
  if (deferred.length === 0) return undefined;
  const { windowTokens, profile } = options;
  const fullTokens = deferred.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  const shortTokens = countToolTokens(toolSearch.tool.definition, countTokens);
  const isWorth = worthDeferring({
    fullTokens,
    shortTokens,
    count: deferred.length,
    profile,
    ...(windowTokens !== undefined && { windowTokens }),
  });
  if (!isWorth || tools.some(({ bytes }) => toolSearch.forbids(jsonOf(bytes)))) return undefined;
  return functions.filter((one) => !isDeferred(one)).map((one) => one.function.name);
}

/**
 * Returns the tokens that deferring removes from a prompt. These hidden items contain the searches and their results,
 * which are subtracted.
 */
export function tokensOmitted(
  { definitions, search }: NonNullable<ReturnType<typeof deferTools>>,
  items: readonly WireItem[],
  { countTokens, ...reading }: Parameters<typeof readItems>[1] & { readonly countTokens: CountTokens },
): NonNullable<PromptCall["deferred"]> {
  const all = (messages: readonly Message[]) =>
    messages.reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0);
  const searching = items.reduce((sum, item) => {
    const bare = withoutSearches(item, reading);
    return bare === item ? sum : sum + all(messagesOf(item)) - all(messagesOf(bare));
  }, 0);
  const full = definitions.reduce((sum, tool) => sum + countToolTokens(tool, countTokens), 0);
  return { tokens: full - countToolTokens(search, countTokens) - searching, isDetour: false };
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

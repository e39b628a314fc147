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

/** So many tools whose names begin with one word are taken for those of a server: an agent's own hardly are as many. */
const FAMILY = 5;

/** The word with which a name begins that has others behind it. */
const FIRST_WORD = /^([^_\-.:/]+)[_\-.:/]/;

/**
 * Names of the functions that stand in front of the prompts of a session which begins with this request, if the others had
 * better be deferred. Those of servers may be, whose names begin alike; what an agent brings itself, its instructions
 * take for known. Nothing if all stand in front: if carrying them costs no more, or the client knows of deferring.
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

/** What deferring keeps out of a prompt in which these items, which the client doesn't know, hold searches and what they found. */
export function keptOut(
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

/** Items without the searches in them, by their bytes; nothing of those that have none. */
const bareItems = new WeakMap<NonNullable<WireItem["bytes"]>, WireItem | undefined>();

/** An item without the searches in it, and without what they found: the same object if there is none. */
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

import { CallPairing } from "@tare/messages";
import { isRecord, type JsonRecord } from "./json.ts";
import type { WireItem } from "./protocol.ts";

/** What an item says, however its client spells it. */
export interface Meaning {
  /**
   * What tells it from others. Not in it: ids of calls, which clients shorten; what holds nothing; white space at the ends of
   * texts; and what a model thought beside what it said, which clients may leave away.
   */
  readonly said: unknown;
  /** What of it the provider's cache may go by. Default: each of its bytes. */
  readonly shown?: unknown;
  /** Whether it holds nothing but what a model thought. Default: no. */
  readonly isThought?: boolean;
}

/** How the names of items begin that hold nothing but what a model thought. */
const THOUGHT = "thought ";

/** The name of an item by a hash of what it says. */
export function nameOfItem(hash: string, { isThought = false }: Meaning): string {
  return isThought ? THOUGHT + hash : hash;
}

/** Whether an item of this name holds nothing but what a model thought. */
export function isThought(key: string): boolean {
  return key.startsWith(THOUGHT);
}

/** The fields that hold something, but for these and for a client's notes to itself. */
export function toldFields(record: JsonRecord, without: readonly string[] = []): JsonRecord {
  const isTold = (name: string) => !name.startsWith(NOTE) && !without.includes(name);
  return Object.fromEntries(
    Object.entries(record).filter(([name, value]) => isTold(name) && !isNothing(value)),
  );
}

/** How fields begin that programs keep for themselves: Copilot adds some in one process and leaves them out in the next. */
const NOTE = "_";

/** Whether an optional field says no more with this value than if it weren't there. */
export function isNothing(value: unknown): boolean {
  return value === null || value === undefined || value === "" ||
    (Array.isArray(value) && value.length === 0);
}

/** The parts of a content that say something: a text is one part, without white space at its ends. */
export function saidParts(content: unknown, said: (part: JsonRecord) => unknown = toldFields): unknown[] {
  const parts: readonly unknown[] = Array.isArray(content) ? content : [content];
  return parts.flatMap((part) => {
    if (isNothing(part)) return [];
    if (typeof part === "string") return saidText(part);
    if (!isRecord(part) || part.type !== "text" || typeof part.text !== "string") {
      return [isRecord(part) ? said(part) : part];
    }
    const more = toldFields(part, ["type", "text", ...UNTOLD]);
    return saidText(part.text).map((text) => ({ ...text, ...more }));
  });
}

/** What clients send back as they like, and what says nothing of an item. */
export const UNTOLD: readonly string[] = ["annotations", "logprobs"];

function saidText(text: string): { readonly type: "text"; readonly text: string }[] {
  const said = text.trim();
  return said === "" ? [] : [{ type: "text", text: said }];
}

/** A value as JSON, whatever the order of its fields. */
export function sortedJson(value: unknown): string {
  return JSON.stringify(value, (_, one) => {
    if (!isRecord(one)) return one;
    return Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => a < b ? -1 : 1));
  });
}

/**
 * Items whose names say which calls they answer: each by how many calls back it was made, since its id says nothing. One
 * that answers no call says 0.
 */
export function withAnswered(items: readonly WireItem[]): readonly WireItem[] {
  const pairing = new CallPairing();
  return items.map((item) => {
    const { length } = pairing.pairs;
    const back = item.parts.flatMap(({ message }) => {
      const pair = pairing.add(message);
      if (message.role !== "tool") return [];
      return [pair ? length - pairing.pairs.lastIndexOf(pair) : 0];
    });
    return back.length === 0 ? item : { ...item, key: `${item.key} ${back}` };
  });
}

/** The ids of an item's calls, in order, or of those that it answers. */
export function callIds({ parts }: Pick<WireItem, "parts">): readonly string[] {
  return parts.flatMap(({ message }) => {
    if (message.role === "tool") return [message.tool_call_id];
    return message.role === "assistant" ? message.tool_calls?.map(({ id }) => id) ?? [] : [];
  });
}

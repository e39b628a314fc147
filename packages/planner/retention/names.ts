import { contentText, type CountTokens, describeCall, type Message } from "@tare/messages";
import { hashText } from "../cache/hash_text.ts";

/** What a call may later refer to: paths, symbols, ids, flags. Shorter words are rarely the only way to a thing. */
const NAME = /[A-Za-z0-9_./-]{8,}/g;

/** A text's names and how often each occurs in it. */
function countNames(text: string): Map<string, number> {
  const counts = new Map<string, number>();
  for (const [name] of text.matchAll(NAME)) counts.set(name, (counts.get(name) ?? 0) + 1);
  return counts;
}

/**
 * The names that a message shows, in its text and in the arguments of its calls, as hashes: an eighth of the
 * memory of the names themselves. Remembered for each message object.
 */
export function shownNames(message: Message): Uint32Array {
  let names = known.get(message);
  if (!names) known.set(message, names = hashNames(message));
  return names;
}

const known = new WeakMap<Message, Uint32Array>();

/** All that a message says: its text and the arguments of its calls. */
export function messageText(message: Message): string {
  const text = contentText(message.content);
  if (message.role !== "assistant" || !message.tool_calls) return text;
  const inputs = message.tool_calls.map((call) => describeCall(call).arguments);
  return [text, ...inputs].join("\n");
}

function hashNames(message: Message): Uint32Array {
  const hashes = new Set<number>();
  for (const [name] of messageText(message).matchAll(NAME)) hashes.add(hashName(name));
  return Uint32Array.from(hashes);
}

function hashName(name: string): number {
  return hashText(name) >>> 0;
}

/** Of the names that some messages show, as hashes, those that others don't. */
export function unseenNames(leaving: readonly Message[], staying: readonly Message[]): Set<number> {
  const unseen = new Set<number>();
  for (const message of leaving) for (const name of shownNames(message)) unseen.add(name);
  for (const message of staying) for (const name of shownNames(message)) unseen.delete(name);
  return unseen;
}

/** What {@linkcode namesToKeep} goes by. */
export interface NamesToKeepOptions {
  /** Counts the tokens of a name. */
  readonly countTokens: CountTokens;
  /** Names that the model sees nowhere else, as hashes. Those that are kept leave the set. */
  readonly unseen: Set<number>;
  /** Least worth of a name that is kept. */
  readonly worth: number;
}

/**
 * The names of a text that leaves the prompt which deserve to stay: those that the model would see nowhere else,
 * and whose worth is high enough. The worth of a name is the square root of how often the text says it, for each of
 * its tokens: in recorded sessions names that are said often are referred to again up to three times as often as
 * those that are said once, and short ones as often as long ones. In order of worth, then of their occurrence.
 */
export function namesToKeep(text: string, { countTokens, unseen, worth }: NamesToKeepOptions): string[] {
  const kept: { readonly name: string; readonly worth: number }[] = [];
  for (const [name, count] of countNames(text)) {
    const hash = hashName(name);
    if (!unseen.has(hash)) continue;
    const tokens = countTokens(name);
    if (Math.sqrt(count) < worth * tokens) continue;
    unseen.delete(hash);
    kept.push({ name, worth: Math.sqrt(count) / tokens });
  }
  return kept.sort((a, b) => b.worth - a.worth).map(({ name }) => name);
}

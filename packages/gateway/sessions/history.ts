import type { HistoryItem } from "@tare/planner/internal";
import { contentText } from "@tare/messages";
import { hashText } from "@tare/messages/internal";
import type { WireItem } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";

/** Roles by the letters before the keys of stored items. `m`: results, then text of the user. */
const ROLES = { i: "instruction", u: "user", m: "user", r: "result", a: "reply", t: "thought" } as const;
const LETTERS = { instruction: "i", user: "u", result: "r", reply: "a", thought: "t" } as const;

const items = new WeakMap<WireItem["parts"], HistoryItem>();

/** Returns an item of a request by its meaning. */
export function historyItem({ key, parts }: WireItem): HistoryItem {
  const known = items.get(parts);
  if (known?.exact === key) return known;
  const item = readHistoryItem(`${letterOf(parts)}${key}`);
  items.set(parts, item);
  return item;
}

/** Returns the texts of an item's messages. */
export function itemTexts({ parts }: WireItem): readonly string[] {
  return parts.map(({ message }) => contentText(message.content));
}

/** Returns an item as it is stored. */
export function writeHistoryItem({ exact, shape, role }: HistoryItem): string {
  return `${shape !== undefined && role === "user" ? "m" : LETTERS[role]}${exact}`;
}

/** Returns an item that was stored. */
export function readHistoryItem(text: string): HistoryItem {
  const letter = text[0] as keyof typeof ROLES;
  const exact = text.slice(1);
  // The calls that results answer are behind what names their contents.
  const shape = "mr".includes(letter) ? exact.slice(exact.indexOf(" ") + 1) : undefined;
  return { exact, role: ROLES[letter], ...(shape !== undefined && { shape }) };
}

function letterOf(parts: WireItem["parts"]): keyof typeof ROLES {
  const roles = parts.map(({ message }) => message.role);
  if (roles.includes("assistant")) return parts.every(({ isThought }) => isThought) ? "t" : "a";
  if (roles.includes("tool")) return roles.includes("user") ? "m" : "r";
  return roles.includes("user") ? "u" : "i";
}

/** Instructions that differ in less than this share of their text, by lines, are the same ones. */
const CHANGED_SHARE = 0.25;

/** So many different instructions are remembered. */
const MAX_KNOWN = 128;

/** Instructions as they were last seen. Plain data but for the map. */
export interface Known {
  readonly scope: string;
  /** Names them, however they change. */
  readonly key: string;
  /** How many characters each line takes in them, all its repetitions together, by its hash. */
  readonly lines: ReadonlyMap<number, number>;
}

/**
 * Names instructions by what they mostly say. Programs write into them what changes: the state of a repository, the
 * day, a number for the bill. The conversation stays the same one.
 */
export class InstructionKeys {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  /** Names by those of the items. */
  readonly #keys = new LRUCache<string, string>({ max: 4 * MAX_KNOWN });

  /** What is known of the instructions that are named so. */
  known(key: string): Known | undefined {
    return this.#known.peek(key);
  }

  /** Instructions were seen elsewhere. */
  learn(known: Known): void {
    this.#known.set(known.key, known);
    this.#keys.set(known.key, known.key);
  }

  /** The name of the instructions that an item is. */
  keyOf(scope: string, item: WireItem): string {
    const exact = instructionKey(scope, item.key);
    const named = this.#keys.get(exact);
    if (named !== undefined) return named;
    const lines = linesOf(item);
    const key = this.#alike(scope, lines)?.key ?? exact;
    this.#known.set(key, { scope, key, lines });
    this.#keys.set(exact, key);
    return key;
  }

  /** The same; they don't count as seen. */
  peek(scope: string, item: WireItem): string {
    const exact = instructionKey(scope, item.key);
    return this.#keys.peek(exact) ?? this.#alike(scope, linesOf(item))?.key ?? exact;
  }

  #alike(scope: string, lines: Known["lines"]): Known | undefined {
    const length = lengthOf(lines);
    return [...this.#known.values()].find((known) => {
      const longer = Math.max(length, lengthOf(known.lines));
      const least = (1 - CHANGED_SHARE) * longer;
      return known.scope === scope && longer > 0 && sharedLength(known.lines, lines) >= least;
    });
  }
}

/** The name of instructions that nobody has seen before, by the key of their item. */
export function instructionKey(scope: string, key: string): string {
  return `${scope} ${key}`;
}

function linesOf(item: WireItem): Map<number, number> {
  const lines = new Map<number, number>();
  for (const line of itemTexts(item).join("\n").split("\n")) {
    const hash = hashText(line);
    lines.set(hash, (lines.get(hash) ?? 0) + line.length);
  }
  return lines;
}

function lengthOf(lines: Known["lines"]): number {
  let sum = 0;
  for (const length of lines.values()) sum += length;
  return sum;
}

function sharedLength(one: Known["lines"], other: Known["lines"]): number {
  let sum = 0;
  for (const [line, length] of one) sum += Math.min(length, other.get(line) ?? 0);
  return sum;
}

import type { HistoryItem } from "@tare/planner/internal";
import { contentText } from "@tare/messages";
import type { WireItem } from "@tare/wire/internal";

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

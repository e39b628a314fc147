import type { HistoryItem } from "@tare/planner/internal";
import { contentText } from "@tare/messages";
import type { WireItem } from "@tare/wire/internal";

/** How roles are written in front of the names of stored items; `results` has texts of the user behind them. */
const ROLES = { i: "instruction", u: "user", m: "user", r: "result", a: "reply", t: "thought" } as const;

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
export function textsOf({ parts }: WireItem): readonly string[] {
  return parts.map(({ message }) => contentText(message.content));
}

/** Returns an item as it is stored. */
export function writeHistoryItem({ exact, shape, role }: HistoryItem): string {
  const letter = Object.entries(ROLES).find(([letter, one]) =>
    one === role && (shape !== undefined) === "mr".includes(letter)
  );
  return `${letter?.[0]}${exact}`;
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

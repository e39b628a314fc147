import { anchorOf, type WireItem } from "@tare/wire";

/** What the upstream sees at a place of the client's history that the client doesn't know of: recalls and the like. */
export interface HiddenPlace {
  /** Length of the client's history when they came. */
  readonly after: number;
  /** Names the item of the client before which they stand. */
  readonly anchor: string;
  /** Whether they stand in its place. */
  readonly replaces: boolean;
  readonly items: readonly WireItem[];
}

/** How far behind its place an anchor is looked for: clients may put items of their own in between. */
const REACH = 48;

/**
 * The client's history with what only the upstream knows of. `hidden` comes back without those whose anchor the
 * client has taken out of its history: they would stand nowhere.
 */
export function expandHidden(
  items: readonly WireItem[],
  hidden: readonly HiddenPlace[],
): { readonly items: readonly WireItem[]; readonly hidden: readonly HiddenPlace[] } {
  if (hidden.length === 0) return { items, hidden };
  const at = new Map<number, HiddenPlace>();
  const kept = hidden.filter((one) => {
    if (one.after >= items.length) return true;
    for (let index = one.after; index < Math.min(items.length, one.after + REACH); index++) {
      const message = items[index]?.parts[0]?.message;
      if (!message || at.has(index) || anchorOf(message) !== one.anchor) continue;
      at.set(index, one);
      return true;
    }
    return false;
  });
  const expanded = items.flatMap((item, index) => {
    const found = at.get(index);
    if (!found) return [item];
    return found.replaces ? found.items : [...found.items, item];
  });
  return { items: expanded, hidden: kept };
}

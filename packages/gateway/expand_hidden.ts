import type { Message } from "@tare/messages";
import { anchorOf } from "@tare/wire";
import type { HiddenPieces, Piece } from "./session.ts";

/** How far behind its place an anchor is looked for: clients may put items of their own in between. */
const REACH = 16;

/**
 * The client's history with what only the upstream knows of. `hidden` comes back without those whose anchor the
 * client has taken out of its history: they would stand nowhere.
 */
export function expandHidden(
  items: readonly (Piece & { readonly message: Message })[],
  hidden: readonly HiddenPieces[],
): { readonly pieces: readonly Piece[]; readonly hidden: readonly HiddenPieces[] } {
  if (hidden.length === 0) return { pieces: items, hidden };
  const at = new Map<number, HiddenPieces>();
  const kept = hidden.filter((one) => {
    if (one.after >= items.length) return true;
    for (let index = one.after; index < Math.min(items.length, one.after + REACH); index++) {
      const item = items[index];
      if (!item || at.has(index) || anchorOf(item.message) !== one.anchor) continue;
      at.set(index, one);
      return true;
    }
    return false;
  });
  const pieces = items.flatMap((item, index) => {
    const found = at.get(index);
    if (!found) return [item];
    return found.replaces ? found.pieces : [...found.pieces, item];
  });
  return { pieces, hidden: kept };
}

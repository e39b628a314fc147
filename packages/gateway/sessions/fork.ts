import type { WireItem } from "@tare/wire";
import { expandHidden, type HiddenPlace } from "./hidden_items.ts";
import { type GatewaySession, type Kept, NOTHING_YET } from "./session.ts";

/** A new session with what the other had behind these items. What it archives from then on, the other doesn't see. */
export function fork(
  from: GatewaySession,
  items: readonly WireItem[],
  own: Pick<GatewaySession, "id" | "number" | "tip" | "scope">,
): GatewaySession {
  const { hidden, length } = cutBack(from, items);
  const archive = from.archive.fork();
  const prompts = from.prompts.fork(length, archive);
  const { version, refs, parent = from.id } = from.kept;
  // The texts are with the last of its forebears that was saved.
  const kept: Kept = { version: 0, refs: new Set(refs), parent: version > 0 ? from.id : parent, ends: [] };
  const itsOwn = { kept, name: undefined, archive, prompts, hidden, savedTokenUnits: 0 };
  return { ...from, ...own, ...itsOwn, ...NOTHING_YET };
}

/** The session, whose history went back to these items. */
export function rollBack(session: GatewaySession, items: readonly WireItem[]): GatewaySession {
  const { hidden, length } = cutBack(session, items);
  session.prompts.cutBack(length);
  return Object.assign(session, { hidden });
}

/** What is hidden among these first items of a history, and how many messages the upstream sees of them. */
export function cutBack(
  { hidden }: Pick<GatewaySession, "hidden">,
  items: readonly WireItem[],
): { readonly hidden: readonly HiddenPlace[]; readonly length: number } {
  const kept = hidden.filter(({ after }) => after <= items.length);
  const expanded = expandHidden(items, kept).items;
  return { hidden: kept, length: expanded.reduce((sum, { parts }) => sum + parts.length, 0) };
}

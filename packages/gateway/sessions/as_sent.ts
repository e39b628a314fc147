import { CallPairing } from "@tare/messages";
import {
  anchorOf,
  callIds,
  isThought,
  type Protocol,
  readItem,
  type RequestReaders,
  type WireItem,
  withCallIds,
} from "@tare/wire";
import type { Along } from "./chain_index.ts";

/** What items are read and written with. */
export interface Reading {
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
}

/**
 * A client's history as it was sent first, as far as it is known: each item in the spelling that the provider's cache
 * holds, thoughts at their places that the client has left away since, and what answers calls with the ids that these have
 * there. What is new of it stays as it is.
 */
export function asFirstSent(
  items: readonly WireItem[],
  { from, steps, rest }: Along,
  reading: Reading,
): readonly WireItem[] {
  const known = steps.map(({ node: { item, key }, at }) =>
    // Of what nobody remembers only the place is held.
    at === undefined ? item ?? { key, parts: [] } : firstSpelling(items[at]!, item, reading)
  );
  const sent = [...items.slice(0, from), ...known, ...items.slice(rest)];
  if (sent.length === items.length && sent.every((item, at) => item === items[at])) return items;
  const places = [...items.keys()];
  const sources = [...places.slice(0, from), ...steps.map(({ at }) => at), ...places.slice(rest)];
  return withPairedIds(items, { sent, sources, reading });
}

function firstSpelling(now: WireItem, first: WireItem | undefined, reading: Reading): WireItem {
  if (!first?.bytes || !now.bytes || first.key !== now.key || first.shown === now.shown) return now;
  const mark = now.parts.findLast(({ mark }) => mark !== undefined)?.mark;
  const bytes = reading.protocol.marked?.(first.bytes, mark) ?? first.bytes;
  if (bytes === first.bytes) return first;
  const { key } = first;
  const { parts, shown } = readItem(bytes, { start: 0, end: bytes.length }, reading);
  return { key, shown, parts, bytes };
}

/** What is sent, with what answers calls under the ids that these have there: the client's own ids tell which are meant. */
function withPairedIds(
  items: readonly WireItem[],
  { sent, sources, reading }: {
    readonly sent: readonly WireItem[];
    /** Which of the client's items each is. */
    readonly sources: readonly (number | undefined)[];
    readonly reading: Reading;
  },
): readonly WireItem[] {
  const pairing = new CallPairing();
  const ids: string[] = [];
  return sent.map((item, at) => {
    const source = items[sources[at] ?? -1];
    if (!source) return item;
    const own = callIds(item);
    const before = pairing.pairs.length;
    const answered = source.parts.flatMap(({ message }) => {
      const pair = pairing.add(message);
      return message.role === "tool" ? [pair && pairing.pairs.lastIndexOf(pair)] : [];
    });
    ids.push(...own.slice(0, pairing.pairs.length - before));
    if (answered.length === 0) return item;
    return withCallIds(item, answered.map((number, at) => ids[number ?? -1] ?? own[at]!), reading);
  });
}

/** What the upstream sees at a place of the client's history that the client doesn't know of: recalls and the like. */
export interface HiddenPlace {
  /** Length of the client's history when they came. */
  readonly after: number;
  /** Which it is of those of one reply. */
  readonly part: number;
  /** Names the items of the client in whose place they stand. */
  readonly replaces: readonly string[];
  /** Names those before which they stand: the first that is there. */
  readonly before: readonly string[];
  readonly items: readonly WireItem[];
}

/** How far behind its place an item is looked for: clients may put items of their own in between. */
const REACH = 48;

/**
 * The client's history with what only the upstream knows of. `hidden` comes back without what stands at items that the
 * client has taken out of its history: it would stand nowhere.
 *
 * @param reading Default: calls have the ids that the upstream gave.
 */
export function expandHidden(
  items: readonly WireItem[],
  hidden: readonly HiddenPlace[],
  reading?: Reading,
): { readonly items: readonly WireItem[]; readonly hidden: readonly HiddenPlace[] } {
  if (hidden.length === 0) return { items, hidden };
  const names = new Map<number, string | undefined>();
  const nameAt = (at: number) => {
    const message = items[at]?.parts[0]?.message;
    if (!names.has(at)) names.set(at, message && anchorOf(message));
    return names.get(at) ?? "";
  };
  const gone = new Set<number>();
  const shown = new Map<number, HiddenPlace[]>();
  const kept = hidden.filter((place) => {
    const { after, part, replaces, before } = place;
    if (after >= items.length) return true;
    const isFree = (at: number) => !gone.has(at) && !shown.get(at)?.some((other) => other.part === part);
    for (let at = after; at < Math.min(items.length, after + REACH); at++) {
      const name = nameAt(at);
      if (!isFree(at) || !(replaces.includes(name) || before.includes(name))) continue;
      const first = before.includes(name) && name !== before[0] ? behindThoughts(items, at, after) : at;
      for (let next = at; replaces.includes(nameAt(next)); next++) gone.add(next);
      shown.set(first, [...shown.get(first) ?? [], place]);
      return true;
    }
    return false;
  });
  const expanded = items.flatMap((item, at) => [
    ...shown.get(at)?.flatMap((place) => underIds(place, item, reading)) ?? [],
    ...gone.has(at) ? [] : [item],
  ]);
  return { items: expanded, hidden: kept };
}

/** The place in front of what a model thought before it said the item at this place. */
function behindThoughts(items: readonly WireItem[], at: number, after: number): number {
  let first = at;
  while (first > after && isThought(items[first - 1]!.key)) first--;
  return first;
}

/** What is hidden, with the client's calls under the ids that its own item has: what answers them goes by these. */
function underIds({ items, replaces }: HiddenPlace, known: WireItem, reading?: Reading): readonly WireItem[] {
  const wanted = callIds(known);
  if (!reading || replaces.length === 0 || wanted.length === 0) return items;
  const isAnswer = ({ parts }: WireItem) => parts.some(({ message }) => message.role === "tool");
  const answered = new Set(items.filter(isAnswer).flatMap(callIds));
  const left = items.filter((item) => !isAnswer(item)).flatMap(callIds).filter((id) => !answered.has(id));
  if (left.length !== wanted.length || left.every((id, at) => id === wanted[at])) return items;
  const ids = new Map(left.map((id, at) => [id, wanted[at]!]));
  return items.map((item) => respelled(item, callIds(item).map((id) => ids.get(id) ?? id), reading));
}

/** The same object each time, so that what is known of it stays known. */
function respelled(item: WireItem, ids: readonly string[], reading: Reading): WireItem {
  const known = withIds.get(item);
  if (known && callIds(known).join() === ids.join()) return known;
  const now = withCallIds(item, ids, reading);
  withIds.set(item, now);
  return now;
}

const withIds = new WeakMap<WireItem, WireItem>();

import { CallPairing } from "@tare/messages";
import {
  callIds,
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

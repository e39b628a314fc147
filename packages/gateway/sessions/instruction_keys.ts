import { contentText } from "@tare/messages";
import type { WireItem } from "@tare/wire";
import { LRUCache } from "lru-cache";

/** Instructions that differ in less than this share of their text, by lines, are the same ones. */
const CHANGED_SHARE = 0.25;

/** So many different instructions are remembered. */
const MAX_KNOWN = 128;

/** Instructions as they were last seen. */
interface Known {
  readonly scope: string;
  /** Names them, however they change. */
  readonly key: string;
  /** How often each line stands in them. */
  readonly lines: ReadonlyMap<string, number>;
}

/**
 * Names instructions by what they mostly say. Programs write into them what changes: the state of a repository, the
 * day, a number for the bill. The conversation stays the same one.
 */
export class InstructionKeys {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  /** Names by those of the items. */
  readonly #keys = new LRUCache<string, string>({ max: 4 * MAX_KNOWN });

  /** The name of the instructions that an item is. */
  keyOf(scope: string, item: WireItem): string {
    const exact = `${scope} ${item.key}`;
    const named = this.#keys.get(exact);
    if (named !== undefined) return named;
    const lines = linesOf(item);
    const length = lengthOf(lines);
    let alike: Known | undefined;
    for (const known of this.#known.values()) {
      if (known.scope !== scope) continue;
      const longer = Math.max(length, lengthOf(known.lines));
      if (longer > 0 && sharedLength(known.lines, lines) >= (1 - CHANGED_SHARE) * longer) alike ??= known;
    }
    const key = alike?.key ?? exact;
    this.#known.set(key, { scope, key, lines });
    this.#keys.set(exact, key);
    return key;
  }
}

function linesOf({ parts }: WireItem): Map<string, number> {
  const lines = new Map<string, number>();
  const texts = parts.map(({ message }) => contentText(message.content));
  for (const line of texts.join("\n").split("\n")) lines.set(line, (lines.get(line) ?? 0) + 1);
  return lines;
}

function lengthOf(lines: ReadonlyMap<string, number>): number {
  let length = 0;
  for (const [line, times] of lines) length += line.length * times;
  return length;
}

function sharedLength(one: ReadonlyMap<string, number>, other: ReadonlyMap<string, number>): number {
  let length = 0;
  for (const [line, times] of one) length += line.length * Math.min(times, other.get(line) ?? 0);
  return length;
}

import type { HistoryItem, StoredHistory } from "@tare/planner/internal";
import { contentText } from "@tare/messages";
import { hashText, sameData, userWords } from "@tare/messages/internal";
import { hashPrefixes } from "@tare/session/internal";
import { anchorOf, type Protocol, underClientIds, type WireItem, withoutThoughts } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";
import { createHash } from "node:crypto";

/** Roles by the first letters of stored items. `m`: results, then text of the user. */
const ROLES = { i: "instruction", u: "user", m: "user", r: "result", a: "reply", t: "thought" } as const;
const LETTERS = { instruction: "i", user: "u", result: "r", reply: "a", thought: "t" } as const;

const items = new WeakMap<WireItem["parts"], HistoryItem>();

/** Returns an item as recognition compares it. */
export function historyItem({ key, parts }: WireItem): HistoryItem {
  const known = items.get(parts);
  if (known?.exact === key) return known;
  const item = readHistoryItem(`${letterOf(parts)}${key}`);
  items.set(parts, item);
  return item;
}

export function itemTexts({ parts }: WireItem): readonly string[] {
  return parts.map(({ message }) => contentText(message.content));
}

export function writeHistoryItem({ exact, shape, role }: HistoryItem): string {
  return `${shape !== undefined && role === "user" ? "m" : LETTERS[role]}${exact}`;
}

export function readHistoryItem(text: string): HistoryItem {
  const letter = text[0] as keyof typeof ROLES;
  const exact = text.slice(1);
  // The ids of answered calls precede the hash of the content.
  const shape = "mr".includes(letter) ? exact.slice(exact.indexOf(" ") + 1) : undefined;
  return { exact, role: ROLES[letter], ...(shape !== undefined && { shape }) };
}

function letterOf(parts: WireItem["parts"]): keyof typeof ROLES {
  const roles = parts.map(({ message }) => message.role);
  if (roles.includes("assistant")) return parts.every(({ isThought }) => isThought) ? "t" : "a";
  if (roles.includes("tool")) return roles.includes("user") ? "m" : "r";
  return roles.includes("user") ? "u" : "i";
}

/** Largest share of changed text, by lines, of the same instructions. */
const CHANGED_SHARE = 0.25;

const MAX_KNOWN = 128;

export interface Known {
  readonly scope: string;
  readonly key: string;
  /** Characters of each line with its repetitions, by its hash. */
  readonly lines: ReadonlyMap<number, number>;
}

/**
 * Identifies instructions by most of their text, since agents insert changing content: the state of a repository, the
 * date, a billing number.
 */
export class InstructionKeys {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  readonly #keys = new LRUCache<string, string>({ max: 4 * MAX_KNOWN });

  known(key: string): Known | undefined {
    return this.#known.peek(key);
  }

  learn(known: Known): void {
    this.#known.set(known.key, known);
    this.#keys.set(known.key, known.key);
  }

  /** Returns the name of instructions and stores their newest form. */
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

/** Shortest and longest quote that identifies a conversation, in UTF-16 code units. */
export const QUOTED_CHARS = { least: 24, most: 400 } as const;

export function hasAnswers(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "assistant"));
}

export function textOf(items: readonly WireItem[]): string {
  return items.flatMap(({ parts }) => parts.map(({ message }) => contentText(message.content))).join("\n");
}

/** Returns the number of turns of a history: a turn begins with the user's first message or one after a reply. */
export function countTurns(items: readonly WireItem[]): number {
  let turns = 0;
  let before = "assistant";
  for (const { parts } of items) {
    const role = parts.find(({ message }) => message.role === "tool")?.message.role ?? parts[0]?.message.role;
    if (role === undefined || role === "system" || role === "developer") continue;
    if (role === "user" && before === "assistant") turns++;
    before = role;
  }
  return turns;
}

/** Returns the number of instructions at the beginning. */
export function countInstructions(items: readonly WireItem[]): number {
  const first = items.findIndex(({ parts }) =>
    parts.some(({ message: { role } }) => role !== "system" && role !== "developer")
  );
  return first < 0 ? items.length : first;
}

/** Returns the first text of the user without an agent's preamble, and its item's position. */
export function userSpoke(
  items: readonly WireItem[],
): { readonly at: number; readonly words: string } | undefined {
  for (const [at, { parts }] of items.entries()) {
    for (const { message } of parts) {
      const words = userWords(message);
      if (words !== "") return { at, words };
    }
  }
  return undefined;
}

export function quotes(items: readonly WireItem[], texts: readonly string[]): boolean {
  const content = textOf(items);
  return texts.some((text) => content.includes(text));
}

/** Returns a distinctive line of a user's text. */
export function openingText(words: string): string | undefined {
  return words.split("\n").map((line) => line.trim())
    .find(({ length }) => length >= QUOTED_CHARS.least)?.slice(0, QUOTED_CHARS.most);
}

/** Items that are hidden from the client, such as recalls. */
export interface HiddenPlace {
  /** Length of the client's history before them. */
  readonly after: number;
  readonly part: number;
  readonly replaces: readonly string[];
  /** Names of items before which they are placed; the first that exists counts. */
  readonly before: readonly string[];
  readonly thoughts: readonly string[];
  readonly items: readonly WireItem[];
}

const ANCHOR_REACH = 48;

/**
 * Returns the client's history with its hidden items, and `hidden` without those whose anchors the client has removed.
 * @param protocol Gives calls the client's ids. Default: the upstream's.
 */
export function expandHidden(
  items: readonly WireItem[],
  hidden: readonly HiddenPlace[],
  protocol?: Protocol,
): { readonly items: readonly WireItem[]; readonly hidden: readonly HiddenPlace[] } {
  if (hidden.length === 0) return { items, hidden };
  const names = new Map<number, string | undefined>();
  const nameAt = (at: number) => {
    const message = items[at]?.parts[0]?.message;
    if (!names.has(at)) names.set(at, message && anchorOf(message));
    return names.get(at) ?? "";
  };
  const gone = new Set<number>();
  const placesAt = new Map<number, HiddenPlace[]>();
  const thoughts = new Map<number, string[]>();
  const remaining = hidden.filter((place) => {
    const { after, part, replaces, before } = place;
    if (after >= items.length) return true;
    const isFree = (at: number) => !gone.has(at) && !placesAt.get(at)?.some((other) => other.part === part);
    for (let at = after; at < Math.min(items.length, after + ANCHOR_REACH); at++) {
      if (!isFree(at) || !(replaces.includes(nameAt(at)) || before.includes(nameAt(at)))) continue;
      let next = at;
      while (replaces.includes(nameAt(next))) gone.add(next++);
      placesAt.set(at, [...placesAt.get(at) ?? [], place]);
      thoughts.set(next, [...thoughts.get(next) ?? [], ...place.thoughts]);
      return true;
    }
    return false;
  });
  const expanded = items.flatMap((item, at) => [
    ...placesAt.get(at)?.flatMap(({ items, replaces }) =>
      protocol && replaces.length > 0 ? underClientIds(items, item, protocol) : items
    ) ?? [],
    ...gone.has(at) ? [] : [withoutThoughts(item, thoughts.get(at) ?? [])],
  ]);
  return { items: expanded, hidden: remaining };
}

/** Newest states of a history that are looked up: a turn may add two items for each of many tools. */
const REACH = 64;

const MAX_UNNAMED_ITEMS = 16;

/** Most names of ends of a history: it may be rolled back a few turns. */
const MAX_ENDS = 8;

const NOTHING = "";

interface Owner {
  readonly scope: string;
  readonly client?: string | undefined;
  readonly name?: string | undefined;
}

export interface SoughtHistory extends Owner {
  readonly items: readonly WireItem[];
  readonly isKeyed?: boolean;
  readonly hasTools?: boolean;
  readonly follows: string | undefined;
}

/**
 * Returns the names for looking up a request's session: `own` names are unique, `alike` names may be of several.
 */
export function soughtNames({ client, scope, name, items, isKeyed, hasTools, follows }: SoughtHistory): {
  readonly own: readonly string[];
  readonly alike: readonly string[];
} {
  const heads = countInstructions(items);
  const keys = items.map(({ key }, at) => at < heads ? instructionKey(scope, key) : key);
  const firsts = [keys[heads] ?? NOTHING, NOTHING];
  const replied = items.findIndex((item) => historyItem(item).role === "reply");
  const whole = wholes(keys, { heads, reach: REACH }).map((whole) => nameOf("whole", scope, whole));
  const settled = replied < 0 ? 0 : keys.length - replied;
  const opening = openingText(userSpoke(items)?.words ?? "");
  return {
    own: [
      ...(follows === undefined ? [] : [nameOf("response", client ?? scope, follows)]),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      ...whole.slice(0, settled),
    ],
    alike: [
      ...endsOf(keys, { heads, reach: REACH }).map((end) => nameOf("end", client ?? scope, end)),
      // Several conversations may begin the same until a reply.
      ...whole.slice(settled),
      // A history of instructions only may be any of its client's.
      ...new Set(firsts.map((first) => nameOf("first", scope, first))),
      nameOf("opening", scope, opening ?? NOTHING),
      nameOf("summary", scope),
      // A request for a title quotes the conversation that it is about.
      ...(isKeyed || !hasTools ? [nameOf("scope", scope)] : []),
    ],
  };
}

export interface NamedHistory {
  readonly others: readonly string[];
  /** The items up to the last reply: later ones may be transient. */
  readonly settled: readonly string[];
}

/**
 * Returns the names of a session, the newest first; `undefined` if those of `known` still find it. `ends` are the names
 * of earlier ends.
 */
export function namesOf(
  { client, scope, name, heads, opening = NOTHING, summary, responses }: Owner & {
    readonly heads: number;
    readonly opening?: string | undefined;
    readonly summary?: unknown;
    readonly responses: readonly { readonly id: string }[];
  },
  { items }: StoredHistory,
  { ends, known }: { readonly ends: readonly string[]; readonly known: NamedHistory | undefined },
):
  | { readonly ends: readonly string[]; readonly others: readonly string[]; readonly named: NamedHistory }
  | undefined {
  const keys = items.map(({ exact }) => exact);
  const replied = items.findLastIndex(({ role }) => role === "reply") + 1;
  // Until the first reply, the first message may end in transient text, which may include the opening.
  const openings = replied === 0 ? new Set([opening, NOTHING]) : [];
  const settled = keys.slice(0, replied || keys.length);
  const others = [
    ...responses.map(({ id }) => nameOf("response", client ?? scope, id)),
    ...(name === undefined ? [] : [nameOf("name", scope, name)]),
    nameOf("first", scope, keys[heads] ?? NOTHING),
    ...Array.from(openings, (opening) => nameOf("opening", scope, opening)),
    ...(summary ? [nameOf("summary", scope)] : []),
    nameOf("scope", scope),
  ];
  const isNamed = known && known.settled.length >= settled.length - MAX_UNNAMED_ITEMS &&
    known.settled.length <= settled.length && known.settled.every((key, at) => key === settled[at]) &&
    sameData(known.others, others);
  if (isNamed) return undefined;
  const newest = [
    ...wholes(keys, { heads, reach: 1 }).map((whole) => nameOf("whole", scope, whole)),
    ...endsOf(settled, { heads, reach: 1 }).map((end) => nameOf("end", client ?? scope, end)),
  ];
  const all = [...newest, ...ends.filter((one) => !newest.includes(one))].slice(0, MAX_ENDS);
  return { ends: all, others, named: { others, settled } };
}

interface Reach {
  /** Number of instructions, which identify nothing. */
  readonly heads: number;
  /** Number of newest states. */
  readonly reach: number;
}

function wholes(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  return hashPrefixes(keys, Math.max(heads, keys.length - reach)).reverse();
}

function endsOf(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  const ends: string[] = [];
  for (let length = keys.length; length > heads && ends.length < reach; length--) {
    ends.push(keys.slice(Math.max(heads, length - 2), length).join(" "));
  }
  return ends;
}

/** Returns a hash, so that stored names reveal nothing of a client. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}

import type { HistoryItem, StoredHistory } from "@tare/planner/internal";
import { contentText } from "@tare/messages";
import { hashText, personsWords, sameData } from "@tare/messages/internal";
import { hashPrefixes } from "@tare/session/internal";
import { anchorOf, type Protocol, underClientIds, type WireItem, withoutThoughts } from "@tare/wire/internal";
import { LRUCache } from "lru-cache";
import { createHash } from "node:crypto";

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

/** The shortest and the longest text by which one conversation is found again in another, in UTF-16 code units. */
export const QUOTED_CHARS = { least: 24, most: 400 } as const;

/** Whether a model has answered in a history. */
export function hasAnswers(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "assistant"));
}

/** All that is said in a history. */
export function textOf(items: readonly WireItem[]): string {
  return items.flatMap(({ parts }) => parts.map(({ message }) => contentText(message.content))).join("\n");
}

/** How often a user asks something in a history: first, and behind what a model said. What comes with results is no turn. */
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

/** How many items of instructions a history begins with. */
export function countInstructions(items: readonly WireItem[]): number {
  const first = items.findIndex(({ parts }) =>
    parts.some(({ message: { role } }) => role !== "system" && role !== "developer")
  );
  return first < 0 ? items.length : first;
}

/** What a person said first in a history, behind what agents put in front of it, and the position of its item. */
export function personSpoke(
  items: readonly WireItem[],
): { readonly at: number; readonly words: string } | undefined {
  for (const [at, { parts }] of items.entries()) {
    for (const { message } of parts) {
      const words = personsWords(message);
      if (words !== "") return { at, words };
    }
  }
  return undefined;
}

/** Whether items say one of these texts. */
export function quotes(items: readonly WireItem[], texts: readonly string[]): boolean {
  const said = textOf(items);
  return texts.some((text) => said.includes(text));
}

/** A line of what a person said by which it is found again. */
export function openingText(words: string): string | undefined {
  return words.split("\n").map((line) => line.trim())
    .find(({ length }) => length >= QUOTED_CHARS.least)?.slice(0, QUOTED_CHARS.most);
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
  /** Names what a model thought that stands among these already. */
  readonly thoughts: readonly string[];
  readonly items: readonly WireItem[];
}

/** How far behind its place an anchor is looked for: clients may put items of their own in between. */
const ANCHOR_REACH = 48;

/**
 * The client's history with what only the upstream knows of. `hidden` comes back without what stands at items that the
 * client has taken out of its history: it would stand nowhere.
 *
 * @param protocol How calls are given the ids that the client calls them by. Default: they have those of the upstream.
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
  const shown = new Map<number, HiddenPlace[]>();
  const thoughts = new Map<number, string[]>();
  const kept = hidden.filter((place) => {
    const { after, part, replaces, before } = place;
    if (after >= items.length) return true;
    const isFree = (at: number) => !gone.has(at) && !shown.get(at)?.some((other) => other.part === part);
    for (let at = after; at < Math.min(items.length, after + ANCHOR_REACH); at++) {
      if (!isFree(at) || !(replaces.includes(nameAt(at)) || before.includes(nameAt(at)))) continue;
      let next = at;
      while (replaces.includes(nameAt(next))) gone.add(next++);
      shown.set(at, [...shown.get(at) ?? [], place]);
      thoughts.set(next, [...thoughts.get(next) ?? [], ...place.thoughts]);
      return true;
    }
    return false;
  });
  const expanded = items.flatMap((item, at) => [
    ...shown.get(at)?.flatMap(({ items, replaces }) =>
      protocol && replaces.length > 0 ? underClientIds(items, item, protocol) : items
    ) ?? [],
    ...gone.has(at) ? [] : [withoutThoughts(item, thoughts.get(at) ?? [])],
  ]);
  return { items: expanded, hidden: kept };
}

/** A request is looked up by its history as it was up to so many items ago: a turn may add two for each of many tools. */
const REACH = 64;

/** Items by which a session's history may be longer than when its names were stored. */
const MAX_UNNAMED_ITEMS = 16;

/** Most names of ends of a session's history: it may go back to where it was a few turns ago. */
const MAX_ENDS = 8;

/** Stands for the first item of a history that has none. */
const NOTHING = "";

/** By what a session is told from others. */
interface Owner {
  readonly scope: string;
  readonly client?: string | undefined;
  readonly name?: string | undefined;
}

/** A request whose session is looked for. */
export interface SoughtHistory extends Owner {
  readonly items: readonly WireItem[];
  readonly isKeyed?: boolean;
  readonly hasTools?: boolean;
  /** The response that it continues from. */
  readonly follows: string | undefined;
}

/** Returns the names of a request's session: `own` ones are of no other, sessions with `alike` ones may be meant. */
export function soughtNames({ client, scope, name, items, isKeyed, hasTools, follows }: SoughtHistory): {
  readonly own: readonly string[];
  readonly alike: readonly string[];
} {
  const heads = countInstructions(items);
  const keys = items.map(({ key }, at) => at < heads ? instructionKey(scope, key) : key);
  const firsts = [keys[heads] ?? NOTHING, NOTHING];
  const opening = openingText(personSpoke(items)?.words ?? "");
  return {
    own: [
      ...(follows === undefined ? [] : [nameOf("response", client ?? scope, follows)]),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      ...wholes(keys, { heads, reach: REACH }).map((whole) => nameOf("whole", scope, whole)),
    ],
    alike: [
      ...endsOf(keys, { heads, reach: REACH }).map((end) => nameOf("end", client ?? scope, end)),
      // One that has nothing but instructions yet may go on in any way.
      ...new Set(firsts.map((first) => nameOf("first", scope, first))),
      nameOf("opening", scope, opening ?? NOTHING),
      nameOf("summary", scope),
      // A request for a title or the like quotes the conversation that it is about.
      ...(isKeyed || !hasTools ? [nameOf("scope", scope)] : []),
    ],
  };
}

/** What the names of a session are of. */
export interface NamedHistory {
  /** The names that do not change with each turn. */
  readonly others: readonly string[];
  /** The items up to its last reply: what follows may be transient. */
  readonly settled: readonly string[];
}

/**
 * Returns the names under which a session with this history is found, the newest first; `undefined` if those of `known`
 * still find it. `ends` are those of earlier ends of the history.
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
  // Until the model has replied, the first message may end in transient text, of which a short one's opening may be.
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

/** How a history is told from others: as it is, and as it was when it was shorter. */
interface Reach {
  /** How many instructions it begins with; there is nothing to tell before what follows them. */
  readonly heads: number;
  /** So many of the newest of its states. */
  readonly reach: number;
}

/** By all that was said, instructions too; the newest state first. */
function wholes(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  return hashPrefixes(keys, Math.max(heads, keys.length - reach)).reverse();
}

/** By its last two items, whatever the instructions; the newest state first. */
function endsOf(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  const ends: string[] = [];
  for (let length = keys.length; length > heads && ends.length < reach; length--) {
    ends.push(keys.slice(Math.max(heads, length - 2), length).join(" "));
  }
  return ends;
}

/** Hashed: what is stored contains nothing of a client, and a name cannot be guessed from another. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}

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
  // The calls that results answer follow the hash of their contents.
  const shape = "mr".includes(letter) ? exact.slice(exact.indexOf(" ") + 1) : undefined;
  return { exact, role: ROLES[letter], ...(shape !== undefined && { shape }) };
}

function letterOf(parts: WireItem["parts"]): keyof typeof ROLES {
  const roles = parts.map(({ message }) => message.role);
  if (roles.includes("assistant")) return parts.every(({ isThought }) => isThought) ? "t" : "a";
  if (roles.includes("tool")) return roles.includes("user") ? "m" : "r";
  return roles.includes("user") ? "u" : "i";
}

/** Share of their text, by lines, below which changed instructions remain the same. */
const CHANGED_SHARE = 0.25;

/** Most different instructions in memory. */
const MAX_KNOWN = 128;

/** Instructions as of their newest request. */
export interface Known {
  readonly scope: string;
  /** Their name, which stays when they change. */
  readonly key: string;
  /** Number of characters of each line with its repetitions, by its hash. */
  readonly lines: ReadonlyMap<number, number>;
}

/**
 * Names instructions by most of their text: programs write into them what changes, such as the state of a repository, the
 * date, or a number for the bill.
 */
export class InstructionKeys {
  readonly #known = new LRUCache<string, Known>({ max: MAX_KNOWN });
  /** Names by the names of items. */
  readonly #keys = new LRUCache<string, string>({ max: 4 * MAX_KNOWN });

  /** Returns the instructions of this name. */
  known(key: string): Known | undefined {
    return this.#known.peek(key);
  }

  /** Adds stored instructions. */
  learn(known: Known): void {
    this.#known.set(known.key, known);
    this.#keys.set(known.key, known.key);
  }

  /** Returns the name of an item of instructions, which counts as seen. */
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

  /** Returns the same name; the item doesn't count as seen. */
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

/** Returns the name of new instructions, by the key of their item. */
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

/** The shortest and the longest quote by which a conversation is found in another, in UTF-16 code units. */
export const QUOTED_CHARS = { least: 24, most: 400 } as const;

/** Whether a history contains replies of a model. */
export function hasAnswers(items: readonly WireItem[]): boolean {
  return items.some(({ parts }) => parts.some(({ message: { role } }) => role === "assistant"));
}

/** Returns the text of all items. */
export function textOf(items: readonly WireItem[]): string {
  return items.flatMap(({ parts }) => parts.map(({ message }) => contentText(message.content))).join("\n");
}

/** Returns the number of turns of a history: its first message of the user and those after a reply, without results. */
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

/** Returns the number of instructions at the beginning of a history. */
export function countInstructions(items: readonly WireItem[]): number {
  const first = items.findIndex(({ parts }) =>
    parts.some(({ message: { role } }) => role !== "system" && role !== "developer")
  );
  return first < 0 ? items.length : first;
}

/** Returns the first text of the user without what agents put before it, and the position of its item. */
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

/** Whether items contain one of these texts. */
export function quotes(items: readonly WireItem[], texts: readonly string[]): boolean {
  const said = textOf(items);
  return texts.some((text) => said.includes(text));
}

/** Returns a line of a user's text that is distinctive enough to find it again. */
export function openingText(words: string): string | undefined {
  return words.split("\n").map((line) => line.trim())
    .find(({ length }) => length >= QUOTED_CHARS.least)?.slice(0, QUOTED_CHARS.most);
}

/** Items that the upstream sees in the client's history and the client does not, such as recalls. */
export interface HiddenPlace {
  /** Length of the client's history before them. */
  readonly after: number;
  /** Its number among those of one reply. */
  readonly part: number;
  /** Names of the client's items that they replace. */
  readonly replaces: readonly string[];
  /** Names of items before which they are placed: before the first that exists. */
  readonly before: readonly string[];
  /** Names of the reasoning that they contain. */
  readonly thoughts: readonly string[];
  readonly items: readonly WireItem[];
}

/** Number of items within which an anchor is searched: clients may insert items of their own. */
const ANCHOR_REACH = 48;

/**
 * Returns the client's history with its hidden items, and `hidden` without those at items that the client has removed.
 *
 * @param protocol Gives calls the ids of the client. Default: they have those of the upstream.
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

/** In place of the first item of a history that has none. */
const NOTHING = "";

/** By what the sessions of a client are named. */
interface Owner {
  readonly scope: string;
  readonly client?: string | undefined;
  readonly name?: string | undefined;
}

/** A request whose session is looked up. */
export interface SoughtHistory extends Owner {
  readonly items: readonly WireItem[];
  readonly isKeyed?: boolean;
  readonly hasTools?: boolean;
  /** The response that it continues from. */
  readonly follows: string | undefined;
}

/** Returns possible names of a request's session: `own` names are of no other session, `alike` names may be. */
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
  const opening = openingText(personSpoke(items)?.words ?? "");
  return {
    own: [
      ...(follows === undefined ? [] : [nameOf("response", client ?? scope, follows)]),
      ...(name === undefined ? [] : [nameOf("name", scope, name)]),
      ...whole.slice(0, settled),
    ],
    alike: [
      ...endsOf(keys, { heads, reach: REACH }).map((end) => nameOf("end", client ?? scope, end)),
      // What has no reply yet may be the beginning of several.
      ...whole.slice(settled),
      // A history with nothing but instructions may continue in any way.
      ...new Set(firsts.map((first) => nameOf("first", scope, first))),
      nameOf("opening", scope, opening ?? NOTHING),
      nameOf("summary", scope),
      // A request for a title quotes the conversation that it is about.
      ...(isKeyed || !hasTools ? [nameOf("scope", scope)] : []),
    ],
  };
}

/** The history by which a session is named. */
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

/** The states of a history by which it is named. */
interface Reach {
  /** Number of instructions at its beginning, which alone name nothing. */
  readonly heads: number;
  /** Number of its newest states. */
  readonly reach: number;
}

/** Returns hashes of all items, instructions included; the newest state first. */
function wholes(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  return hashPrefixes(keys, Math.max(heads, keys.length - reach)).reverse();
}

/** Returns the last two items after the instructions; the newest state first. */
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

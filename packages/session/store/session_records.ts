import { hashText } from "@tare/messages/internal";
import { createHash } from "node:crypto";
import { Accounts, type Days, type SessionSums } from "../report/calls.ts";
import type { Sighting, Store, StoreRecord } from "./port.ts";
import { StoreError } from "./store_error.ts";

/** Longest patch of a value, as JSON in UTF-16 code units: what has changed more is stored whole. */
const MAX_PATCH_CHARS = 8_500;

/** A session's state as a store has it. */
export interface StoredState {
  /** Empty before anything was said. */
  readonly title: string;
  /** What lists read of the session. Absent: nothing happened in it. */
  readonly totals?: unknown;
  /** What its prompts continue from. Absent: nothing is stored of them. */
  readonly value?: unknown;
  /** The value that was stored whole last: the newest is stored as a patch of it. Absent: that isn't known. */
  readonly whole?: WholeValue | undefined;
  /** Its days as far as the sums over all sessions include them. Absent: they don't count the session. */
  readonly summed?: Days | undefined;
  /** References of its archived texts that are known to be stored. */
  readonly refs: ReadonlySet<string>;
}

/** A value that was stored whole; with a packed value the state `value` of a session. */
export interface WholeValue {
  /** Distinguishes it from others of its session. */
  readonly id: string;
  readonly value: unknown;
}

/** The state `patch` of a session: it counts only for the whole value of this id. */
interface StoredPatch {
  readonly of: string;
  readonly patch: JsonPatch;
}

/** A session's state as it is to be stored. */
export interface NextState
  extends Pick<StoredState, "title" | "totals" | "value">, Pick<SessionSums, "group" | "agent" | "days"> {
  /** Texts that it archived. Default: they are stored when they are archived. */
  readonly texts?: Iterable<readonly [ref: string, content: string]>;
  /** Whether it is a fork, which isn't counted as a session of its own. Default: no. */
  readonly isFork?: boolean;
}

/** How a stored state is changed. */
export interface StateUpdate {
  readonly records: readonly StoreRecord[];
  /** The stored state once they are committed. */
  readonly after: StoredState;
}

/**
 * The records of one session in its store: its state, of which each commit writes what is new, and who owns it among the
 * servers that share the store.
 */
export class SessionRecords {
  /** The state of a session that isn't stored. */
  static readonly NOTHING: StoredState = { title: "", refs: new Set() };

  readonly #store: Store;
  readonly #id: string;
  readonly #packer = new JsonPacker();
  /** The value that was to be stored whole last, whether that succeeded or not. */
  #whole: WholeValue | undefined;

  /** The session of this id, stored or not. */
  constructor(store: Store, id: string) {
    this.#store = store;
    this.#id = id;
  }

  /** Runs what needs the session. Returns nothing if there is none. @throws {StoreError} */
  async ifThere<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof StoreError || await this.#store.getSession(this.#id)) throw error;
      return undefined;
    }
  }

  /** Returns who holds it, nobody where the store isn't shared; nothing if there is no such session. @throws {StoreError} */
  look(): Promise<Sighting | undefined> {
    const { shared } = this.#store;
    return this.ifThere(async () =>
      shared
        ? await shared.look(this.#id)
        : { fence: 0, holder: "nobody", lastEvent: await this.#store.lastEvent(this.#id) }
    );
  }

  /**
   * Commits records of it, and holds it only for that.
   *
   * @param fence Number of its newest hold, as far as the caller knows; 0 where the store isn't shared, or there was none.
   * @returns The number of this hold. Nothing, and nothing is written, if others have held it since.
   * @throws what a commit throws.
   */
  async commit(fence: number, records: readonly StoreRecord[]): Promise<number | undefined> {
    const { shared } = this.#store;
    if (shared) return await shared.commitBriefly({ sessionId: this.#id, fence, records });
    await this.#store.commit(records);
    return 0;
  }

  /** Takes it from all servers and removes it, if it is stored. @throws {StoreError} `fenced` if another one holds it. */
  async delete(): Promise<void> {
    const { shared } = this.#store;
    if (!await this.#store.getSession(this.#id)) return;
    if (shared && !await shared.hold(this.#id)) {
      throw new StoreError(
        "fenced",
        `Cannot delete session ${this.#id}: another server writes to it. Try again.`,
      );
    }
    await this.#store.deleteSession(this.#id);
  }

  /** Reads its state but for its part of the sums. @throws {StoreError} */
  async read(): Promise<StoredState> {
    const [store, sessionId] = [this.#store, this.#id];
    // The patch first: with a whole value that is newer it doesn't count, which lacks nothing.
    const [patch, stored, title = "", totals] = await Promise.all(
      ["patch", "value", "title", "totals"].map((name) => store.readState(sessionId, name)),
    ) as [StoredPatch | null | undefined, WholeValue | undefined, string | undefined, unknown];
    const { value, refs } = await JsonPacker.unpack(
      stored?.value,
      (refs) => store.readTexts(sessionId, refs),
    );
    return {
      ...{ title, totals, refs },
      value: patch && patch.of === stored?.id ? applyPatch(value, patch.patch) : value,
    };
  }

  /**
   * Returns the records of what differs from the stored state. Totals and value have changed if they are other objects; of a
   * value only what is new is written.
   */
  change(
    before: StoredState,
    { group, agent, days, texts = [], isFork = false, ...next }: NextState,
  ): StateUpdate {
    const sessionId = this.#id;
    const value = this.#delta(before, next.value);
    const all = new Map([...value.texts ?? [], ...texts]);
    // Sorted, so that two that write the same texts don't wait for each other.
    const archived = [...all].filter(([ref]) => !before.refs.has(ref)).sort(([a], [b]) => a < b ? -1 : 1);
    const states = {
      ...value.states,
      ...(next.title !== before.title && { title: next.title }),
      ...(next.totals !== before.totals && { totals: next.totals }),
    };
    const refs = archived.length === 0
      ? before.refs
      : new Set([...before.refs, ...archived.map(([ref]) => ref)]);
    return {
      records: [
        ...archived.map(([ref, content]): StoreRecord => ({ type: "archive", sessionId, ref, content })),
        ...stateRecords(sessionId, states),
        ...Accounts.records(sessionId, {
          ...{ group, agent, days, isBegun: before.summed === undefined && !isFork },
          ...(before.summed && { before: before.summed }),
        }),
      ],
      after: { ...next, whole: value.whole, summed: days, refs },
    };
  }

  /** Returns the states by which a value is stored: a patch of the one that is stored whole, or itself. */
  #delta({ value: before, whole, refs }: StoredState, next: unknown): {
    readonly whole: WholeValue | undefined;
    readonly states?: { readonly value: WholeValue } | { readonly patch: StoredPatch };
    readonly texts?: NonNullable<NextState["texts"]>;
  } {
    if (next === before) return { whole };
    // If the newest didn't succeed, it is unknown which one is stored.
    if (whole && whole === this.#whole) {
      const patch = diffJson(whole.value, next) ?? {};
      const isShort = JSON.stringify(patch).length <= MAX_PATCH_CHARS;
      if (isShort) return { whole, states: { patch: { of: whole.id, patch } } };
    }
    const id = crypto.randomUUID().slice(0, 8);
    const { value, texts } = this.#packer.pack(next, refs);
    return {
      whole: this.#whole = { id, value: next },
      states: { value: { id, value } },
      texts: texts.map(({ ref, content }) => [ref, content] as const),
    };
  }
}

/** Returns the records that store these states of a session, by name. */
export function stateRecords(sessionId: string, states: object): readonly StoreRecord[] {
  return Object.entries(states).map(([name, value]) => ({ type: "state", sessionId, name, value }));
}

/** A list whose JSON is longer than this is cut into pieces of about this length, in UTF-16 code units. */
const PIECE_CHARS = 4_000;

/** Longest piece of short entries: where none of them ends one. */
const MOST_CHARS = 4 * PIECE_CHARS;

/** So many characters at its end tell whether a piece ends there: single entries may be all alike. */
const END_CHARS = 48;

/**
 * So many entries in front are in no piece, and so many characters: with instructions, what stands for them changes more
 * often than the rest.
 */
const FRONT = 16;
const FRONT_CHARS = 500;

/** Names what stands for a long list. */
const PACKED = "\u0001packed";

/** A text that stands for a piece of a value. */
export interface ArchivedText {
  /** Its `archiveRef`. */
  readonly ref: string;
  readonly content: string;
}

/** A value as it was packed. */
export interface PackedJson {
  readonly value: unknown;
  /** The texts that weren't stored before. */
  readonly texts: readonly ArchivedText[];
}

/** A value as it was before it was packed. */
export interface UnpackedJson {
  readonly value: unknown;
  /** References of all texts that it needed. */
  readonly refs: ReadonlySet<string>;
}

/** A long list, or an object of many plain values as its names and values by turns. */
interface Packed {
  /** References of the pieces; of very many, packed themselves. */
  readonly [PACKED]: readonly string[] | Packed;
  /** Entries in front of them. */
  readonly front: readonly unknown[];
  /** Entries behind them. */
  readonly rest: readonly unknown[];
  /** Absent: it is a list. */
  readonly isObject?: boolean;
}

/** A list as it was packed last, and the pieces of it: where each ends, and its reference. */
interface KnownList {
  readonly list: readonly unknown[];
  readonly pieces: readonly { readonly end: number; readonly ref: string }[];
}

/** What a value is packed to. */
interface Packing {
  readonly stored: ReadonlySet<string>;
  readonly texts: ArchivedText[];
}

/**
 * Packs the versions of one value, one after the other, so that a value that grows takes what is new in it: what is as it
 * was is neither worked through nor written again. {@linkcode JsonPacker.unpack} gives it back.
 */
export class JsonPacker {
  /** By the path of names that leads to them. */
  readonly #lists = new Map<string, KnownList>();

  /**
   * A JSON value with texts in place of most of what is long in it; those that aren't `stored` come along. Where a list is
   * cut its entries tell, not their places: a list to which something is added, or in which something changes, has the
   * same pieces but for one or two, so that little of it has to be written again. Objects in lists must never change.
   */
  pack(value: unknown, stored: ReadonlySet<string> = new Set()): PackedJson {
    const texts: ArchivedText[] = [];
    return { value: this.#pack(value, "", { stored, texts }), texts };
  }

  #pack(value: unknown, path: string, to: Packing): unknown {
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return this.#packList(value, path, to) ?? value;
    const entries = Object.entries(value).filter(([, member]) => member !== undefined);
    const isPlain = entries.every(([, member]) => typeof member !== "object" || member === null);
    if (isPlain) {
      const packed = this.#packList(entries.flat(), path, to);
      return packed ? { ...packed, isObject: true } : value;
    }
    return Object.fromEntries(
      entries.map(([name, member]) => [name, this.#pack(member, `${path}/${name}`, to)]),
    );
  }

  #packList(list: readonly unknown[], path: string, to: Packing): Packed | undefined {
    const { stored, texts } = to;
    const known = this.#lists.get(path);
    let same = 0;
    while (known && same < known.list.length && known.list[same] === list[same]) same++;
    const pieces = known?.pieces.filter(({ end, ref }) => end <= same && stored.has(ref)) ?? [];
    // One that isn't stored any more takes those behind it along.
    while (pieces.length > 0 && pieces.at(-1) !== known?.pieces[pieces.length - 1]) pieces.pop();
    const front = frontOf(list);
    let from = pieces.at(-1)?.end ?? front.length;
    const jsons: string[] = [];
    let [length, end] = [0, ""];
    for (let at = from; at < list.length; at++) {
      const json = jsonOf(list[at]);
      jsons.push(json);
      length += json.length;
      end = (end + json).slice(-END_CHARS);
      if (length < MOST_CHARS && !isEnd(end, json.length)) continue;
      const content = `[${jsons.join()}]`;
      const ref = createHash("sha256").update(content).digest("hex").slice(0, 16);
      from = at + 1;
      pieces.push({ end: from, ref });
      texts.push({ ref, content });
      [jsons.length, length, end] = [0, 0, ""];
    }
    this.#lists.set(path, { list, pieces });
    if (pieces.length === 0) return undefined;
    const refs = pieces.map(({ ref }) => ref);
    return {
      [PACKED]: this.#packList(refs, `${path}/${PACKED}`, to) ?? refs,
      front,
      rest: list.slice(from),
    };
  }

  /**
   * The value that was packed, and the references of all texts that it needed, which are read with `readTexts`.
   *
   * @throws {Error} if a text is missing.
   */
  static async unpack(
    packed: unknown,
    readTexts: (refs: readonly string[]) => Promise<ReadonlyMap<string, string>>,
  ): Promise<UnpackedJson> {
    const texts = new Map<string, string>();
    // Those of references come first, and tell which others are needed.
    for (let refs = missingRefs(packed, texts); refs.length > 0; refs = missingRefs(packed, texts)) {
      const read = await readTexts(refs);
      for (const ref of refs) {
        const content = read.get(ref);
        if (content === undefined) throw new Error(`Cannot read a conversation: its text ${ref} is missing`);
        texts.set(ref, content);
      }
    }
    return { value: unpack(packed, texts), refs: new Set(texts.keys()) };
  }
}

/** References of texts that aren't there, as far as those that are there tell of them. */
function missingRefs(value: unknown, texts: ReadonlyMap<string, string>): readonly string[] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [];
  if (!isPacked(value)) return Object.values(value).flatMap((member) => missingRefs(member, texts));
  const missing = missingRefs(value[PACKED], texts);
  return missing.length > 0 ? missing : refsOf(value, texts).filter((ref) => !texts.has(ref));
}

function refsOf({ [PACKED]: refs }: Packed, texts: ReadonlyMap<string, string>): readonly string[] {
  return isList(refs) ? refs : unpackList(refs, texts) as readonly string[];
}

function isList(refs: Packed[typeof PACKED]): refs is readonly string[] {
  return Array.isArray(refs);
}

function unpack(value: unknown, texts: ReadonlyMap<string, string>): unknown {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return value;
  if (!isPacked(value)) {
    return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, unpack(member, texts)]));
  }
  const list = unpackList(value, texts);
  if (!value.isObject) return list;
  return Object.fromEntries(list.flatMap((name, at) => at % 2 === 0 ? [[name, list[at + 1]]] : []));
}

function unpackList(packed: Packed, texts: ReadonlyMap<string, string>): readonly unknown[] {
  const pieces = refsOf(packed, texts).flatMap((ref): readonly unknown[] => JSON.parse(texts.get(ref)!));
  return [...packed.front, ...pieces, ...packed.rest];
}

function isPacked(value: object): value is Packed {
  return PACKED in value;
}

function frontOf(list: readonly unknown[]): readonly unknown[] {
  let chars = 0;
  const end = list.slice(0, FRONT).findIndex((entry) => (chars += jsonOf(entry).length) > FRONT_CHARS);
  return list.slice(0, end < 0 ? FRONT : end);
}

function jsonOf(entry: unknown): string {
  return JSON.stringify(entry) ?? "null";
}

/** Whether a piece that ends with this text ends there: after shorter entries more rarely. */
function isEnd(end: string, entryChars: number): boolean {
  return hashText(end) % Math.max(1, Math.floor(PIECE_CHARS / entryChars)) === 0;
}

/** How a JSON value differs from an earlier version of it. Plain data. */
export type JsonPatch =
  /** It is this value. */
  | readonly ["is", unknown]
  /** It isn't there any more. */
  | readonly ["gone"]
  /** A list that begins with so many entries of the earlier one; then come these. */
  | readonly ["list", number, ...unknown[]]
  /** An object with these changed members. */
  | { readonly [name: string]: JsonPatch };

/**
 * Returns how a JSON value differs from an earlier version: undefined if it doesn't. A member that is `undefined` counts
 * as absent, as in JSON. Lists and objects that are the same ones are not compared.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { applyPatch, diffJson } from "@tare/session/internal";
 *
 * const [before, after] = [{ list: [1, 2, 3], at: 4 }, { list: [1, 2, 5], at: 4 }];
 * const patch = diffJson(before, after)!;
 * assertEquals(patch, { list: ["list", 2, 5] });
 * assertEquals(applyPatch(before, patch), after);
 * ```
 */
export function diffJson(before: unknown, after: unknown): JsonPatch | undefined {
  if (before === after) return undefined;
  if (after === undefined) return ["gone"];
  if (Array.isArray(before) && Array.isArray(after)) {
    let same = 0;
    while (same < before.length && same < after.length && !diffJson(before[same], after[same])) same++;
    if (same === before.length && same === after.length) return undefined;
    return ["list", same, ...after.slice(same)];
  }
  if (!isObject(before) || !isObject(after)) return ["is", after];
  // Nearly all members are the same, and nothing is made for these.
  let changed: [name: string, patch: JsonPatch][] | undefined;
  for (const name in after) {
    const patch = diffJson(memberOf(before, name), memberOf(after, name));
    if (patch) (changed ??= []).push([name, patch]);
  }
  for (const name in before) if (!Object.hasOwn(after, name)) (changed ??= []).push([name, ["gone"]]);
  return changed && Object.fromEntries(changed);
}

/** Returns the later version of a value that {@linkcode diffJson} compared. Changes nothing. */
export function applyPatch(before: unknown, patch: JsonPatch): unknown {
  if (!isTuple(patch)) {
    const members = new Map(Object.entries(before as object));
    for (const [name, changed] of Object.entries(patch)) {
      members.set(name, applyPatch(members.get(name), changed));
    }
    return Object.fromEntries([...members].filter(([, member]) => member !== undefined));
  }
  switch (patch[0]) {
    case "is":
      return patch[1];
    case "gone":
      return undefined;
    case "list": {
      const [, same, ...more] = patch;
      return [...(before as readonly unknown[]).slice(0, same), ...more];
    }
  }
}

function isTuple(patch: JsonPatch): patch is Exclude<JsonPatch, Readonly<Record<string, JsonPatch>>> {
  return Array.isArray(patch);
}

function memberOf(value: object, name: string): unknown {
  return Object.hasOwn(value, name) ? value[name as keyof typeof value] : undefined;
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

import { hashText } from "@tare/messages/internal";
import { createHash } from "node:crypto";
import { Accounts, type Days, type SessionTotalsRecord } from "../report/calls.ts";
import type { SessionSnapshot, Store, StoreRecord } from "./port.ts";
import { StoreError } from "./store_error.ts";

/** Longest patch, as JSON in UTF-16 code units; larger changes store the whole value. */
const MAX_PATCH_CHARS = 8_500;

/** A stored state. */
export interface StoredState {
  readonly title: string;
  /** Totals for lists. Absent: nothing happened in it. */
  readonly totals?: unknown;
  /** State of its prompts. Absent: not stored. */
  readonly value?: unknown;
  /** The last value stored whole, on which patches are based. Absent: unknown. */
  readonly whole?: WholeValue | undefined;
  /** Its days in the store's totals. Absent: the session isn't counted. */
  readonly summed?: Days | undefined;
  readonly refs: ReadonlySet<string>;
}

/** A whole value: with a packed value, the state `value` of a session. */
export interface WholeValue {
  readonly id: string;
  readonly value: unknown;
}

/** Valid only for the whole value of this id. */
interface StoredPatch {
  readonly of: string;
  readonly patch: JsonPatch;
}

/** The next state. */
export interface NextState
  extends
    Pick<StoredState, "title" | "totals" | "value">,
    Pick<SessionTotalsRecord, "group" | "agent" | "days"> {
  readonly texts?: Iterable<readonly [ref: string, content: string]>;
  /** Whether it is a fork, which isn't counted as a session. Default: no. */
  readonly isFork?: boolean;
}

/** A change of state. */
export interface StateUpdate {
  readonly records: readonly StoreRecord[];
  readonly after: StoredState;
}

/** The stored records of a session: its incrementally written state and its holds. */
export class SessionRecords {
  static readonly NOTHING: StoredState = { title: "", refs: new Set() };

  readonly #store: Store;
  readonly #id: string;
  readonly #packer = new JsonPacker();
  /** The last value that was to be stored whole, successfully or not. */
  #whole: WholeValue | undefined;

  constructor(store: Store, id: string) {
    this.#store = store;
    this.#id = id;
  }

  /** Runs work that needs the session; returns `undefined` if it doesn't exist. @throws {StoreError} */
  async ifThere<T>(act: () => Promise<T>): Promise<T | undefined> {
    try {
      return await act();
    } catch (error) {
      if (error instanceof StoreError || await this.#store.getSession(this.#id)) throw error;
      return undefined;
    }
  }

  /**
   * Returns the session's holder, none if the store isn't shared; `undefined` if it doesn't exist.
   *
   * @throws {StoreError}
   */
  inspect(): Promise<SessionSnapshot | undefined> {
    const { shared } = this.#store;
    return this.ifThere(async () =>
      shared
        ? await shared.inspect(this.#id)
        : { fence: 0, holder: "none", lastEvent: await this.#store.lastEvent(this.#id) }
    );
  }

  /**
   * Commits records, holding the session only meanwhile.
   *
   * @param fence Number of its newest known hold, or 0.
   * @returns The number of this hold. `undefined`, without a write, if others have held it since.
   * @throws what a commit throws.
   */
  async commit(fence: number, records: readonly StoreRecord[]): Promise<number | undefined> {
    const { shared } = this.#store;
    if (shared) return await shared.holdAndCommit({ sessionId: this.#id, fence, records });
    await this.#store.commit(records);
    return 0;
  }

  /** @throws {StoreError} `fenced` if another server holds it. */
  async delete(): Promise<void> {
    const { shared } = this.#store;
    if (!await this.#store.getSession(this.#id)) return;
    if (shared && !await shared.hold(this.#id)) {
      throw new StoreError(
        "fenced",
        `Cannot delete session ${this.#id}: another server holds it. Retry.`,
      );
    }
    await this.#store.deleteSession(this.#id);
  }

  /** Reads its state, except its days in the store's totals. @throws {StoreError} */
  async read(): Promise<StoredState> {
    const [store, sessionId] = [this.#store, this.#id];
    // The patch first: a newer whole value invalidates it, and is complete.
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

  change(
    before: StoredState,
    { group, agent, days, texts = [], isFork = false, ...next }: NextState,
  ): StateUpdate {
    const sessionId = this.#id;
    const value = this.#delta(before, next.value);
    const all = new Map([...value.texts ?? [], ...texts]);
    // Sorted, so that concurrent writers of the same texts don't deadlock.
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

  #delta({ value: before, whole, refs }: StoredState, next: unknown): {
    readonly whole: WholeValue | undefined;
    readonly states?: { readonly value: WholeValue } | { readonly patch: StoredPatch };
    readonly texts?: NonNullable<NextState["texts"]>;
  } {
    if (next === before) return { whole };
    // If the newest write failed, the stored one is unknown.
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

/** Returns records of states. */
export function stateRecords(sessionId: string, states: object): readonly StoreRecord[] {
  return Object.entries(states).map(([name, value]) => ({ type: "state", sessionId, name, value }));
}

/** Approximate piece length of lists with longer JSON, in UTF-16 code units. */
const PIECE_CHARS = 4_000;

/** Longest piece without a boundary. */
const MAX_CHARS = 4 * PIECE_CHARS;

/** Characters at an entry's end that decide about a boundary. */
const END_CHARS = 48;

/** Leading entries and characters outside of pieces, as they change most often. */
const FRONT = 16;
const FRONT_CHARS = 500;

const PACKED = "\u0001packed";

/** A text with its `archiveRef`. */
export interface ArchivedText {
  readonly ref: string;
  readonly content: string;
}

/** A packed value. */
export interface PackedJson {
  readonly value: unknown;
  readonly texts: readonly ArchivedText[];
}

/** An unpacked value. */
export interface UnpackedJson {
  readonly value: unknown;
  /** References of all texts that were needed. */
  readonly refs: ReadonlySet<string>;
}

/** A long list, or an object of many plain values as alternating names and values. */
interface Packed {
  /** References of the pieces; packed themselves if there are many. */
  readonly [PACKED]: readonly string[] | Packed;
  readonly front: readonly unknown[];
  readonly rest: readonly unknown[];
  readonly isObject?: boolean;
}

/** The newest packed form of a list, with the end and reference of each piece. */
interface KnownList {
  readonly list: readonly unknown[];
  readonly pieces: readonly { readonly end: number; readonly ref: string }[];
}

interface Packing {
  readonly stored: ReadonlySet<string>;
  readonly texts: ArchivedText[];
}

/**
 * Packs successive versions of one value, at the cost of what changed. {@linkcode JsonPacker.unpack} is the inverse.
 */
export class JsonPacker {
  readonly #lists = new Map<string, KnownList>();

  /**
   * Returns a JSON value with texts in place of long lists, and the texts that aren't `stored`. Boundaries depend on
   * the entries only: a change affects one or two pieces. Entries must be immutable.
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
    // A piece that is no longer stored invalidates those after it.
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
      if (length < MAX_CHARS && !isEnd(end, json.length)) continue;
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
   * Returns the packed value and the references of its texts, which are read with `readTexts`.
   *
   * @throws {Error} if a text is missing.
   */
  static async unpack(
    packed: unknown,
    readTexts: (refs: readonly string[]) => Promise<ReadonlyMap<string, string>>,
  ): Promise<UnpackedJson> {
    const texts = new Map<string, string>();
    // Texts of references come first, and reveal further ones.
    for (let refs = missingRefs(packed, texts); refs.length > 0; refs = missingRefs(packed, texts)) {
      const read = await readTexts(refs);
      for (const ref of refs) {
        const content = read.get(ref);
        if (content === undefined) throw new Error(`Cannot read a conversation: text ${ref} is missing`);
        texts.set(ref, content);
      }
    }
    return { value: unpack(packed, texts), refs: new Set(texts.keys()) };
  }
}

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

/** Returns whether an entry with this end is a boundary, which is rarer for short entries. */
function isEnd(end: string, entryChars: number): boolean {
  return hashText(end) % Math.max(1, Math.floor(PIECE_CHARS / entryChars)) === 0;
}

/** A patch from one version of a JSON value to the next. Plain data. */
export type JsonPatch =
  | readonly ["is", unknown]
  | readonly ["gone"]
  /** A list: number of leading entries of the earlier one, then new entries. */
  | readonly ["list", number, ...unknown[]]
  | { readonly [name: string]: JsonPatch };

/**
 * Returns the patch from an earlier version of a JSON value; `undefined` if they are equal. `undefined` members count
 * as absent. Identical lists and objects aren't compared.
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
  // Allocated on demand: nearly all members are equal.
  let changed: [name: string, patch: JsonPatch][] | undefined;
  for (const name in after) {
    const patch = diffJson(memberOf(before, name), memberOf(after, name));
    if (patch) (changed ??= []).push([name, patch]);
  }
  for (const name in before) if (!Object.hasOwn(after, name)) (changed ??= []).push([name, ["gone"]]);
  return changed && Object.fromEntries(changed);
}

/** Returns a value with a patch of {@linkcode diffJson} applied, without changing the value. */
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

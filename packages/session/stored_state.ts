import { Accounts, type Days, type SessionSums } from "./report/calls.ts";
import { applyPatch, diffJson, type JsonPatch } from "./store/json_patch.ts";
import { type ArchivedText, JsonPacker } from "./store/packed_json.ts";
import type { Store, StoreRecord } from "./store/port.ts";

/** Length of the pieces into which long lists of a value are cut, in UTF-16 code units. */
const PIECE_CHARS = 4_000;

/** Longest patch of a stored value, as JSON in UTF-16 code units. */
const MAX_PATCH_CHARS = 8_500;

/** A value as it was stored whole. */
export interface WholeValue {
  /** Distinguishes it from others of its session. */
  readonly id: string;
  readonly value: unknown;
}

/** The state `patch` of a session: how its value differs from the whole one of this id. Without that one it says nothing. */
interface StoredPatch {
  readonly of: string;
  readonly patch: JsonPatch;
}

/** A session's state as a store has it. */
export interface StoredState {
  /** Empty before anything was said. */
  readonly title: string;
  /** What lists read of a session. Absent: nothing happened in it. */
  readonly totals?: unknown;
  /** What its prompts continue from. Absent: nothing is stored of them. */
  readonly value?: unknown;
  /** The value that was stored whole last. Absent: that isn't known. */
  readonly whole?: WholeValue | undefined;
  /** Its days as far as the sums over all sessions include them. Absent: they don't count the session. */
  readonly summed?: Days | undefined;
  /** References of its archived texts that are known to be stored. */
  readonly refs: ReadonlySet<string>;
}

/** A session's state as it is to be stored. */
export interface NextState extends Pick<StoredState, "title" | "totals" | "value"> {
  /** What its calls came to. */
  readonly days: Days;
  /** Texts that it archived. Default: they are stored when they are archived. */
  readonly texts?: Iterable<readonly [ref: string, content: string]>;
  /** Whether it is a fork, which isn't counted as a session of its own. Default: no. */
  readonly isFork?: boolean;
}

/** What a commit of a state consists of. */
export interface StateUpdate {
  readonly records: readonly StoreRecord[];
  /** The stored state once they are committed. */
  readonly after: StoredState;
}

/** Turns the versions of one session's state into records of what is new in each. */
export class StateWriter {
  readonly #session: { readonly id: string } & Pick<SessionSums, "group" | "agent">;
  readonly #packer: JsonPacker = new JsonPacker({ pieceChars: PIECE_CHARS });
  /** The value that was to be stored whole last, whether that succeeded or not. */
  #whole: WholeValue | undefined;

  /** Writes the state of the session of this id, whose sums are recorded by group and agent. */
  constructor(session: { readonly id: string } & Pick<SessionSums, "group" | "agent">) {
    this.#session = session;
  }

  /** The state of a session that isn't stored yet. */
  static readonly NOTHING: StoredState = { title: "", refs: new Set() };

  /** Reads the state of the session of this id, with nothing of the sums. @throws {StoreError} */
  static async read(store: Store, id: string): Promise<StoredState> {
    // The patch first: what it is of is stored by then, or something newer.
    const [patch, title = "", totals, stored] = await Promise.all(
      ["patch", "title", "totals", "value"].map((name) => store.readState(id, name)),
    );
    // What was stored is what `change` has made.
    const whole = stored as WholeValue | undefined;
    const { value, refs } = await JsonPacker.unpack(whole?.value, (refs) => store.readTexts(id, refs));
    const newest = patch as StoredPatch | undefined;
    return {
      ...{ title: title as string, totals, refs },
      value: whole && newest?.of === whole.id ? applyPatch(value, newest.patch) : value,
    };
  }

  /**
   * Returns the records of what differs from the stored state. Totals and value count as changed if they are other objects.
   * Of the value only a patch of the whole one is written as long as that is short; then the whole, whose long lists are
   * written as far as they are new.
   */
  change(before: StoredState, { days, texts = [], isFork = false, ...next }: NextState): StateUpdate {
    const { id: sessionId, group, agent } = this.#session;
    const isValueNew = next.value !== before.value;
    const patch = isValueNew ? this.#patchOf(before, next.value) : undefined;
    const whole = isValueNew && !patch ? this.#whole = wholeOf(next.value) : before.whole;
    const packed = isValueNew && !patch
      ? this.#packer.pack(next.value, before.refs)
      : { value: undefined, texts: [] };
    const archived = newTexts(packed.texts, texts, before.refs);
    const states = {
      ...(patch && { patch }),
      ...(isValueNew && !patch && { value: { ...whole, value: packed.value } }),
      ...(next.title !== before.title && { title: next.title }),
      ...(next.totals !== before.totals && { totals: next.totals }),
    };
    return {
      records: [
        ...archived.map((text): StoreRecord => ({ type: "archive", sessionId, ...text })),
        ...stateRecords(sessionId, states),
        ...Accounts.records(sessionId, {
          ...{ group, agent, days, isBegun: before.summed === undefined && !isFork },
          ...(before.summed && { before: before.summed }),
        }),
      ],
      after: {
        ...next,
        whole,
        summed: days,
        refs: archived.length === 0
          ? before.refs
          : new Set([...before.refs, ...archived.map(({ ref }) => ref)]),
      },
    };
  }

  /** Returns the patch that makes this value of the whole one that is stored; `undefined` if the value is to be stored whole. */
  #patchOf({ whole }: StoredState, value: unknown): StoredPatch | undefined {
    // Nobody knows which one is stored if the newest didn't succeed.
    if (!whole || whole !== this.#whole) return undefined;
    const patch = diffJson(whole.value, value) ?? {};
    return JSON.stringify(patch).length > MAX_PATCH_CHARS ? undefined : { of: whole.id, patch };
  }
}

function wholeOf(value: unknown): WholeValue {
  return { id: crypto.randomUUID().slice(0, 8), value };
}

/** Returns the records that store these states of a session, by name. */
export function stateRecords(sessionId: string, states: object): readonly StoreRecord[] {
  return Object.entries(states).map(([name, value]) => ({ type: "state", sessionId, name, value }));
}

/** Returns each text that isn't stored once, sorted, so that two that write the same texts don't wait for each other. */
function newTexts(
  packed: readonly ArchivedText[],
  own: NonNullable<NextState["texts"]>,
  stored: ReadonlySet<string>,
): readonly ArchivedText[] {
  const texts = new Map([...packed.map(({ ref, content }) => [ref, content] as const), ...own]);
  return Array.from(texts, ([ref, content]) => ({ ref, content })).filter(({ ref }) => !stored.has(ref))
    .sort((a, b) => a.ref < b.ref ? -1 : 1);
}

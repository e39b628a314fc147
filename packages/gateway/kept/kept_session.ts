import { contentText, hashPiece, type Message } from "@tare/messages";
import { placeholderRefs } from "@tare/prune";
import { type Protocol, readItem, type RequestReaders, type WireItem } from "@tare/wire";
import type { HiddenPlace } from "../sessions/hidden_items.ts";
import type { Known } from "../sessions/instruction_keys.ts";
import { LayeredArchive } from "../sessions/layered_archive.ts";
import type { Recognised } from "../sessions/recognised.ts";
import type { GatewaySession, Kept } from "../sessions/session.ts";

/** Another number whenever what is kept has another form: what has another one isn't read. */
const FORMAT = 1;

/** What is kept of a session as it is. */
const PLAIN = [
  ...["scope", "client", "protocol", "basis", "name", "control", "startedMs", "lastMs", "title", "model"],
  ...["heads", "opening", "hasTools", "isAnswered", "historyBytes", "epoch", "savedTokenUnits", "refusals"],
  ...["isReverted", "pins", "summary", "responses", "rewrites", "unsent", "compactions", "totals", "figures"],
] as readonly PlainField[];

type PlainField = Exclude<
  keyof GatewaySession,
  "id" | "number" | "kept" | "archive" | "prompts" | "hidden" | "shown" | "seen" | "tip" | "calls"
>;

/** All that is kept of a session beside the texts of its archive. Plain data. */
interface KeptValue extends Pick<GatewaySession, PlainField> {
  readonly format: number;
  /** Names of the items of its client's history. */
  readonly keys: readonly string[];
  /** Instructions by their names: hashes and lengths of their lines. */
  readonly instructions: Readonly<Record<string, readonly number[]>>;
  readonly hidden: readonly (Omit<HiddenPlace, "items"> & { readonly items: readonly string[] })[];
  /** Hashes of the messages that the last call showed. */
  readonly shown: readonly number[];
  /** Those of them that stand for something. */
  readonly lines: readonly Message[];
  readonly ends: readonly string[];
  readonly state: unknown;
  readonly lookedAt: unknown;
}

/** What is kept of a session, with the keys of its history, its instructions and the ends that the history had. */
export function keptValue(
  session: GatewaySession,
  { keys, instructions, ends }: Pick<KeptValue, "keys" | "ends"> & {
    readonly instructions: readonly Known[];
  },
): unknown {
  const { hidden, shown, prompts } = session;
  const value: Omit<KeptValue, PlainField> = {
    format: FORMAT,
    keys,
    instructions: Object.fromEntries(instructions.map(({ key, lines }) => [key, [...lines].flat()])),
    hidden: hidden.map(plainPlace),
    shown: shown.map(hashOf),
    lines: shown.flatMap((one) => typeof one !== "number" && standsForSomething(one) ? [one] : []),
    ends,
    state: prompts.state,
    lookedAt: prompts.lookedAt,
  };
  return { ...Object.fromEntries(PLAIN.map((name) => [name, session[name]])), ...value };
}

/** What a session that was kept is made with. */
export interface RestoreOptions {
  readonly id: string;
  readonly version: number;
  /** References of texts that are in the store. */
  readonly refs: Set<string>;
  /** The request that goes on with it, perhaps. */
  readonly recognised: Recognised;
  readonly protocol: Protocol;
  readonly readers: RequestReaders;
  /** Reads an archived text. */
  readonly text: (ref: string) => Promise<string | undefined>;
}

/** A session that was kept, and by what it is recognised. */
export interface RestoredSession {
  readonly session: Omit<GatewaySession, "tip" | "number">;
  readonly keys: readonly string[];
  readonly instructions: readonly Known[];
}

/** Makes a session of what was kept; nothing of what has another form, or is another client's. */
export function restoreSession(
  stored: unknown,
  { id, version, refs, recognised, protocol, readers, text }: RestoreOptions,
): RestoredSession | undefined {
  // It is what `keptValue` gave, perhaps in another version.
  const value = stored as KeptValue;
  if (value.format !== FORMAT || value.client !== recognised.client || value.protocol !== protocol.name) {
    return undefined;
  }
  const { keys, instructions, hidden, shown, lines, ends, state, lookedAt, format: _, ...plain } = value;
  const archive = new LayeredArchive({ elsewhere: text });
  const byHash = new Map(lines.map((line) => [hashPiece(line), line]));
  const itemOf = (json: string): WireItem => {
    const bytes = encoder.encode(json);
    return readItem(bytes, { start: 0, end: bytes.length }, { protocol, readers });
  };
  const kept: Kept = { version, refs, ends };
  const session: RestoredSession["session"] = {
    ...plain,
    id,
    kept,
    archive,
    prompts: recognised.prompts({ archive, control: plain.control, basis: plain.basis }, { state, lookedAt }),
    hidden: hidden.map(({ items, ...place }) => ({ ...place, items: items.map(itemOf) })),
    shown: shown.map((hash) => byHash.get(hash) ?? hash),
    seen: undefined,
    calls: [],
  };
  return {
    session,
    keys,
    instructions: Object.entries(instructions)
      .map(([key, lines]): Known => ({ scope: plain.scope, key, lines: pairsOf(lines) })),
  };
}

function pairsOf(flat: readonly number[]): Map<number, number> {
  const pairs = new Map<number, number>();
  for (let at = 0; at + 1 < flat.length; at += 2) pairs.set(flat[at]!, flat[at + 1]!);
  return pairs;
}

/** A hidden place as it is kept: the same object each time. */
function plainPlace(hidden: HiddenPlace): KeptValue["hidden"][number] {
  const { items, ...place } = hidden;
  const plain = plainPlaces.get(hidden) ??
    { ...place, items: items.map(({ bytes }) => decoder.decode(bytes)) };
  plainPlaces.set(hidden, plain);
  return plain;
}

function hashOf(shown: Message | number): number {
  return typeof shown === "number" ? shown : hashPiece(shown);
}

/** Whether a message holds a line that stands for something: such are looked for in what clients quote. */
function standsForSomething(message: Message): boolean {
  let stands = lineMessages.get(message);
  if (stands === undefined) {
    stands = placeholderRefs(contentText(message.content)).length > 0;
    lineMessages.set(message, stands);
  }
  return stands;
}

const plainPlaces = new WeakMap<HiddenPlace, KeptValue["hidden"][number]>();
const lineMessages = new WeakMap<Message, boolean>();
const encoder = new TextEncoder();
const decoder = new TextDecoder();

import { Conversation, type ConversationState } from "@tare/conversation";
import { contentText, hashPiece, type Message } from "@tare/messages";
import { type Protocol, readItem, type RequestReaders, type WireItem } from "@tare/wire";
import { REFERENCE } from "../sessions/elide_quotes.ts";
import type { Known } from "../sessions/instruction_keys.ts";
import { LayeredArchive } from "../sessions/layered_archive.ts";
import type { GatewaySession, HiddenPlace, Recognised, SessionFacts } from "../sessions/session.ts";
import type { StoredSession } from "../sessions/sessions.ts";

/** Another number whenever what is kept has another form: what has another one isn't read. */
const FORMAT = 1;

/** All that is kept of a session beside the texts of its archive. Plain data. */
interface KeptValue {
  readonly format: number;
  readonly facts: SessionFacts;
  readonly conversation: ConversationState;
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
  const { hidden, shown, facts, conversation } = session;
  const value: KeptValue = {
    format: FORMAT,
    facts,
    conversation: conversation.state,
    keys,
    instructions: Object.fromEntries(instructions.map(({ key, lines }) => [key, [...lines].flat()])),
    hidden: hidden.map(plainPlace),
    shown: shown.map(hashOf),
    lines: shown.flatMap((one) => typeof one !== "number" && standsForSomething(one) ? [one] : []),
    ends,
    state: conversation.prompt.state,
    lookedAt: conversation.prompt.lookedAt,
  };
  return value;
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

/** Makes a session of what was kept; nothing of what has another form, or is another client's. */
export function restoreSession(
  stored: unknown,
  { id, version, refs, recognised, protocol, readers, text }: RestoreOptions,
): StoredSession | undefined {
  // It is what `keptValue` gave, perhaps in another version.
  const value = stored as KeptValue;
  if (value.format !== FORMAT) return undefined;
  const { keys, instructions, hidden, shown, lines, ends, state, lookedAt, facts } = value;
  if (facts.client !== recognised.client || facts.protocol !== protocol.name) return undefined;
  const archive = new LayeredArchive({ elsewhere: text });
  const byHash = new Map(lines.map((line) => [hashPiece(line), line]));
  const itemOf = (json: string): WireItem => {
    const bytes = encoder.encode(json);
    return readItem(bytes, { start: 0, end: bytes.length }, { protocol, readers });
  };
  const prompts = recognised.prompts({ archive, ...facts }, { state, lookedAt });
  const { countTokens } = recognised;
  return {
    parts: {
      conversation: new Conversation({ id, archive, prompts, countTokens, state: value.conversation }),
      archive,
      facts,
      hidden: hidden.map(({ items, ...place }) => ({ ...place, items: items.map(itemOf) })),
      shown: shown.map((hash) => byHash.get(hash) ?? hash),
      kept: { version, refs, ends },
    },
    keys,
    instructions: Object.entries(instructions)
      .map(([key, lines]): Known => ({ scope: facts.scope, key, lines: pairsOf(lines) })),
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
    stands = contentText(message.content).search(REFERENCE) >= 0;
    lineMessages.set(message, stands);
  }
  return stands;
}

const plainPlaces = new WeakMap<HiddenPlace, KeptValue["hidden"][number]>();
const lineMessages = new WeakMap<Message, boolean>();
const encoder = new TextEncoder();
const decoder = new TextDecoder();

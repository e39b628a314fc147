import { Session, type SessionRecord, type SessionState, type StoredState } from "@tare/session/internal";
import { contentText, type Message } from "@tare/messages";
import type { StoredHistory } from "@tare/planner/internal";
import { hashPiece } from "@tare/messages/internal";
import { placeholderRefs } from "@tare/prune/internal";
import { readItems } from "@tare/wire/internal";
import { createHash } from "node:crypto";
import type { StoredPrompt } from "../memory.ts";
import { instructionKey, type Known, readHistoryItem, writeHistoryItem } from "../sessions/history.ts";
import { LayeredArchive } from "../sessions/layered_archive.ts";
import {
  countInstructions,
  GatewaySession,
  type HiddenPlace,
  type Recognised,
  type SessionFacts,
} from "../sessions/session.ts";
import type { StoredSession } from "../sessions/sessions.ts";

/** Another number whenever what is kept has another form: what has another one isn't read. */
const FORMAT = 5;

/** What of a session never changes: the settings of its record. Without what was said nothing tells whose it is. */
export interface KeptSettings
  extends
    Pick<SessionFacts, "protocol" | "agent" | "control">,
    Partial<Pick<SessionFacts, "scope" | "client" | "name">> {
  /** The session that it is a fork of, whether that is kept or not. */
  readonly forkOf?: string;
}

/** What a session came to, and what else lists tell of it: its state `totals`. */
export interface KeptTotals
  extends
    Pick<SessionState, "model" | "epoch" | "savedTokenUnits" | "days">,
    Pick<SessionFacts, "lastMs" | "isReverted"> {
  /** Ids of the newest times that it was written, the newest first: who never heard of one finds out whether it was done. */
  readonly writes: readonly string[];
}

/** What else is kept of its facts, and of its conversation. */
type OtherFacts = Omit<
  SessionFacts,
  Exclude<keyof KeptSettings, "agent"> | "by" | "startedMs" | "lastMs" | "isReverted"
>;
type OtherState = Omit<SessionState, keyof KeptTotals | "title">;

/** All that is kept of a session beside its settings, totals, title and texts, of its state `value`. Plain data. */
interface KeptValue {
  readonly format: number;
  readonly facts: OtherFacts;
  readonly conversation: OtherState;
  /** The items of its client's history, and the stems of its last one. */
  readonly items: readonly string[];
  readonly stems: readonly number[];
  /** Instructions by their names: hashes and lengths of their lines. */
  readonly instructions: Readonly<Record<string, readonly number[]>>;
  readonly hidden: readonly (Omit<HiddenPlace, "items"> & { readonly items: readonly string[] })[];
  /** References of the texts that were archived for it, with the length of its history then. */
  readonly archived: readonly (readonly [ref: string, length: number])[];
  /** Hashes of the messages that the last call showed. */
  readonly shown: readonly number[];
  /** Likewise of the last call from whose prompt nothing had left; absent if that is the same. */
  readonly unevicted?: readonly number[];
  readonly held?: StoredPrompt;
  /** Those of them that stand for something. */
  readonly lines: readonly Message[];
  readonly ends: readonly string[];
  readonly state: unknown;
  readonly lookedAt: unknown;
}

/** The record of a session. Nothing in it tells whose it is if that isn't to be kept. */
export function keptRecord(
  { id, facts, kept: { parent: forkOf } }: GatewaySession,
  { isWhole }: { readonly isWhole: boolean },
): SessionRecord {
  const { startedMs, protocol, agent, control, scope, client, name, by } = facts;
  const whose = { scope, ...(client !== undefined && { client }), ...(name !== undefined && { name }) };
  const fork = forkOf !== undefined && { forkOf };
  const asks = agent !== undefined && { agent };
  const settings: KeptSettings = { protocol, ...asks, control, ...fork, ...(isWhole && whose) };
  return { id, kind: "gateway", createdAtMs: startedMs, settings, ...(by !== undefined && { by }) };
}

/** What a session came to. */
export function totalsOf({ facts, session: conversation }: GatewaySession): Omit<KeptTotals, "writes"> {
  const { lastMs, isReverted } = facts;
  const { model, epoch, savedTokenUnits, days } = conversation.state;
  return { lastMs, isReverted, model, epoch, savedTokenUnits, days };
}

/** What is kept of a session, with its history, its instructions and the ends that the history had. */
export function keptValue(
  session: GatewaySession,
  { history, instructions, ends }: Pick<KeptValue, "ends"> & Pick<StoredSession, "history" | "instructions">,
): unknown {
  const { hidden, shown, facts, session: conversation } = session;
  const { scope: _s, client: _c, by: _b, name: _n, protocol: _p, control: _k, ...changing } = facts;
  const { startedMs: _a, lastMs: _l, isReverted: _r, ...others } = changing;
  const { title: _t, model: _m, epoch: _e, savedTokenUnits: _u, days: _d, ...state } = conversation.state;
  const value: KeptValue = {
    format: FORMAT,
    facts: others,
    conversation: state,
    items: history.items.map(writeHistoryItem),
    stems: history.stems,
    instructions: Object.fromEntries(instructions.map((known) => [known.key, plainLines(known)])),
    hidden: hidden.map(plainPlace),
    archived: [...session.archive.listed],
    shown: shown.map(hashOf),
    ...(session.held && { held: session.held }),
    ...(session.unevicted !== shown && { unevicted: session.unevicted.map(hashOf) }),
    lines: shown.flatMap((one) => typeof one !== "number" && standsForSomething(one) ? [one] : []),
    ends,
    state: conversation.prompt.state,
    lookedAt: conversation.prompt.lookedAt,
  };
  return value;
}

/** All that is kept of a session, as it was read. */
export interface ReadSession extends Omit<StoredState, "totals"> {
  readonly record: SessionRecord;
  /** Fencing number of the newest hold when that was read, or before. */
  readonly fence: number;
  /** Number of its last event, each of which is a call. */
  readonly lastEvent: number;
  readonly totals: KeptTotals;
}

/** What a session that was kept is made with. */
export type Making = Pick<Recognised, "countTokens" | "prompts"> & Parameters<typeof readItems>[1];

/** Returns what a session's record and totals say of it. */
function recordedOf({ record, totals }: Pick<ReadSession, "record" | "totals">) {
  const { id, by, createdAtMs: startedMs } = record;
  const { scope = "", forkOf, ...settings } = record.settings as KeptSettings;
  const { writes: _, lastMs, isReverted, ...sums } = totals;
  return { id, forkOf, sums, facts: { ...settings, scope, by, startedMs, lastMs, isReverted } };
}

/** Makes a session of what was kept; nothing of what has another form. */
export function restoreSession(
  { record, fence, totals, title, value: stored, refs }: ReadSession,
  { countTokens, prompts, protocol, readers, text }: Making & {
    /** Reads an archived text. */
    readonly text: (ref: string) => Promise<string | undefined>;
  },
): StoredSession | undefined {
  // It is what `keptValue` gave, perhaps in another version.
  const value = stored as KeptValue | undefined;
  if (value?.format !== FORMAT) return undefined;
  const { id, forkOf, sums, facts: own } = recordedOf({ record, totals });
  const { items, stems, instructions, hidden, archived, shown, lines, ends, state, lookedAt } = value;
  const facts: SessionFacts = { ...value.facts, ...own };
  const archive = new LayeredArchive({ elsewhere: text, listed: archived });
  const byHash = new Map(lines.map((line) => [hashPiece(line), line]));
  return {
    parts: {
      session: new Session({
        ...{ id, archive, countTokens },
        prompts: prompts({ archive, ...facts }, { state, lookedAt }),
        state: { ...value.conversation, ...sums, title },
      }),
      archive,
      facts,
      hidden: hidden.map(({ items, ...place }) => ({
        ...place,
        items: readItems(items, { protocol, readers }),
      })),
      shown: shown.map((hash) => byHash.get(hash) ?? hash),
      unevicted: value.unevicted,
      held: value.held,
      kept: { fence, refs, ends, ...(forkOf !== undefined && { parent: forkOf }) },
    },
    history: { items: items.map(readHistoryItem), stems },
    instructions: Object.entries(instructions)
      .map(([key, lines]): Known => ({ scope: own.scope, key, lines: pairsOf(lines) })),
  };
}

/** A session of which only figures are kept, to be looked at: no request goes on with it. */
export function figuresOnly(
  { record, totals, title, fence }: ReadSession,
  { countTokens, prompts }: Making,
): GatewaySession {
  const { id, sums, facts: own } = recordedOf({ record, totals });
  const nothing = { historyBytes: 0, heads: 0, hasTools: false, refusals: 0 };
  const isNew = { isAnswered: false, isAmidTurn: false };
  const basis = { model: sums.model };
  const facts: SessionFacts = { ...nothing, ...isNew, basis, responses: [], compactions: [], ...own };
  const archive = new LayeredArchive();
  return new GatewaySession({
    session: new Session({
      ...{ id, archive, countTokens },
      prompts: prompts({ archive, ...facts }),
      state: { ...sums, title },
    }),
    ...{ archive, facts, number: 0 },
    length: 0,
    kept: { fence, refs: new Set(), ends: [] },
  });
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

/** The lines of instructions as they are kept: the same list each time. */
function plainLines(known: Known): readonly number[] {
  const plain = linesOfInstructions.get(known) ?? [...known.lines].flat();
  linesOfInstructions.set(known, plain);
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

const linesOfInstructions = new WeakMap<Known, readonly number[]>();
const plainPlaces = new WeakMap<HiddenPlace, KeptValue["hidden"][number]>();
const lineMessages = new WeakMap<Message, boolean>();
const decoder = new TextDecoder();

/** So far from a history's end is looked for where it stood when it was saved: a turn may add a call and a result for each of many tools. */
const REACH = 64;

/** So many ends of a session's history are among its names: it may go back to where it stood a few turns ago. */
const ENDS = 4;

/** Stands for the first item of a history that has none. */
const NOTHING = "";

/** Names under which the conversation of a request may be found, the surest first. */
interface SoughtNames {
  /** Whatever has one of these is meant. */
  readonly own: readonly string[];
  /** What has one of these may be meant: it ends with the same, or begins with it. */
  readonly alike: readonly string[];
}

/** The names under which the conversation of a request may be found. `follows` is the response that it goes on from. */
export function soughtNames(
  recognised: Pick<Recognised, "client" | "scope" | "name" | "isKeyed" | "items" | "hasTools">,
  { follows }: { readonly follows: string | undefined },
): SoughtNames {
  const { client, scope, name, items, isKeyed, hasTools } = recognised;
  const heads = countInstructions(items);
  const keys = items.map(({ key }, at) => at < heads ? instructionKey(scope, key) : key);
  const firsts = [keys[heads] ?? NOTHING, NOTHING];
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
      nameOf("summary", scope),
      // A request for a title or the like quotes the conversation that it is about.
      ...(isKeyed || !hasTools ? [nameOf("scope", scope)] : []),
    ],
  };
}

/** What a session is found by. */
export interface SessionNames {
  /** The names that do not change with each turn. */
  readonly others: readonly string[];
  /** The items up to its last reply: what follows may be transient. */
  readonly settled: readonly string[];
  /** Returns the names of the ends that its history had, the newest first. */
  readonly ends: () => readonly string[];
}

/** Returns the names of a session with this history. */
export function namesOf(session: GatewaySession, { items }: StoredHistory): SessionNames {
  const { kept, facts: { client, scope, name, heads, summary, responses } } = session;
  const keys = items.map(({ exact }) => exact);
  const first = keys[heads] ?? NOTHING;
  const settled = keys.slice(0, items.findLastIndex(({ role }) => role === "reply") + 1 || keys.length);
  const ends = () => {
    const newest = [
      ...wholes(keys, { heads, reach: 1 }).map((whole) => nameOf("whole", scope, whole)),
      ...endsOf(settled, { heads, reach: 1 }).map((end) => nameOf("end", client ?? scope, end)),
    ];
    return [...newest, ...kept.ends.filter((one) => !newest.includes(one))].slice(0, 2 * ENDS);
  };
  const others = [
    ...responses.map(({ id }) => nameOf("response", client ?? scope, id)),
    ...(name === undefined ? [] : [nameOf("name", scope, name)]),
    nameOf("first", scope, first),
    ...(summary ? [nameOf("summary", scope)] : []),
    nameOf("scope", scope),
  ];
  return { ends, others, settled };
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
  const from = Math.max(heads, keys.length - reach);
  const hash = createHash("sha256").update(keys.slice(0, from).map(line).join(""));
  return keys.slice(from).map((key) => hash.update(line(key)).copy().digest("base64url")).reverse();
}

function line(key: string): string {
  return `${key}\n`;
}

/** By its last two items, whatever the instructions; the newest state first. */
function endsOf(keys: readonly string[], { heads, reach }: Reach): readonly string[] {
  const ends: string[] = [];
  for (let length = keys.length; length > heads && ends.length < reach; length--) {
    ends.push(keys.slice(Math.max(heads, length - 2), length).join(" "));
  }
  return ends;
}

/** What stands in the store says nothing of a client, and nobody who knows it can guess another. */
function nameOf(...parts: readonly string[]): string {
  return createHash("sha256").update(JSON.stringify(parts)).digest("base64url").slice(0, 22);
}

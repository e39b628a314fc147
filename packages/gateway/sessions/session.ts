import { type LoadedSession, Session, type SessionContent, type SessionState } from "@tare/session/internal";
import type { Days, Overview, Sums } from "@tare/session/internal/report";
import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { firstWords, hashBytes, hashPiece } from "@tare/messages/internal";
import type { PromptSession, SessionView } from "@tare/planner";
import type { Continuation, KnownConversation, StoredHistory } from "@tare/planner/internal";
import type { Archive } from "@tare/prune";
import { bytesFromText, placeholderRefs } from "@tare/prune/internal";
import {
  type ItemPart,
  type Protocol,
  readItems,
  steadyTools,
  type WireItem,
  type WireReply,
  type WireRequest,
} from "@tare/wire/internal";
import { createHash } from "node:crypto";
import type { StoredPrompt } from "@tare/planner/internal/parts";
import type { Followed } from "../request_cache.ts";
import {
  countInstructions,
  countTurns,
  expandHidden,
  hasAnswers,
  type HiddenPlace,
  type Known,
  type NamedHistory,
  namesOf,
  openingText,
  personSpoke,
  QUOTED_CHARS,
  quotes,
  readHistoryItem,
  writeHistoryItem,
} from "./history.ts";

/** What a session is recognised by. */
export interface Recognised {
  /** Keeps apart histories that must never meet: clients, protocols. */
  readonly scope: string;
  /** Who asks: its conversations may go on under another scope. Default: they may not. */
  readonly client?: string;
  /** Name of the key with which it comes. Default: the owner's. */
  readonly by?: string | undefined;
  /** Whether the client itself keeps its conversations apart, so that a scope holds one. Default: no. */
  readonly isKeyed?: boolean;
  /** The client's name for the session. Default: it is recognised by content. */
  readonly name?: string | undefined;
  /** Name of the protocol. Default: none. */
  readonly protocol?: string;
  /** Name of the program that asks. Default: it doesn't say. */
  readonly agent?: string | undefined;
  readonly items: readonly WireItem[];
  /** Whether its model may call tools. Default: no. */
  readonly hasTools?: boolean;
  /** Whether a new session is left as it is. Default: only if it is one of those to compare with. */
  readonly isObserved?: boolean;
  /** What the prompts of a new session are planned by. */
  readonly basis: SessionBasis;
  readonly countTokens: CountTokens;
  /** Decides what leaves the prompts of a session: of a new one, or of one that goes on from what was stored. */
  readonly prompts: (
    session: Pick<SessionFacts, "control" | "basis" | "agent"> & { readonly archive: SessionArchive },
    stored?: Pick<PromptSession, "state" | "lookedAt">,
  ) => PromptSession;
}

/** What a session's prompts are planned by, as its first request says it. */
export interface SessionBasis {
  /** The model that was asked. */
  readonly model: string;
  /** How long prompts are to be cached, in milliseconds. Absent: that wasn't asked for. */
  readonly ttlMs?: number;
}

export interface SessionResponse extends Followed {
  /** The id by which the client knows it. */
  readonly id: string;
}

/** A call by which the client had the conversation summed up. */
export interface Compaction
  extends Pick<Sums, "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits"> {
  /** When it was answered, in milliseconds since the epoch. */
  readonly atMs: number;
  /** What it cost; absent where its price isn't known. */
  readonly usd?: number;
}

/** A text from which a client may go on with a new history. */
export interface ClientSummary {
  /** The longest pieces of it. */
  readonly pieces: readonly string[];
  /** The compactions that made it and aren't counted yet, because nobody said that they were some. */
  readonly uncounted: readonly Compaction[];
  /** Whether the client said that it is a summary. */
  readonly isSaid: boolean;
}

/** What is known of whose conversation it is, and where it stands. Plain data, which is kept. */
export interface SessionFacts {
  /** What keeps it apart from histories that it must never meet. */
  readonly scope: string;
  /** Who asks, if its conversations may go on under another scope. */
  readonly client?: string | undefined;
  /** Name of the key with which it was begun; absent: the owner's. */
  readonly by?: string | undefined;
  /** The client's name for it, in its scope. */
  readonly name?: string | undefined;
  /** Name of its protocol. */
  readonly protocol: string;
  /** Name of the program that asks, if it says it. */
  readonly agent?: string | undefined;
  readonly basis: SessionBasis;
  /** Whether it is left as it is, to compare with. */
  readonly control: boolean;
  /** When its first request came, in milliseconds since the epoch. */
  readonly startedMs: number;
  /** When its newest request came, in milliseconds since the epoch. */
  readonly lastMs: number;
  /** Bytes of the client's history: the planner keeps what it was last shown. */
  readonly historyBytes: number;
  /** How many items of instructions its history begins with. */
  readonly heads: number;
  /** A line of what the user said first; nothing of one too short to tell it from others. */
  readonly opening?: string | undefined;
  /**
   * How often its user has asked something, and how often in the history as it is now: a client may begin that anew. Absent
   * until the first turn.
   */
  readonly turns?: { readonly all: number; readonly shown: number } | undefined;
  /** Whether its turns have tools. */
  readonly hasTools: boolean;
  /**
   * Names of the functions in front of its prompts, where others are deferred, or that all are there: decided with its first
   * tools. Absent: it isn't decided.
   */
  readonly functionsInFront?: readonly string[] | "all" | undefined;
  /** Whether its history has answers of a model. */
  readonly isAnswered: boolean;
  /** Whether its newest turn has no final reply yet. */
  readonly isAmidTurn: boolean;
  /** True if a person has named it: no words of its client's name it any more. */
  readonly isNamed?: true | undefined;
  /** What a model said in answer to what was no turn: the client may go on from it with a new history. */
  readonly summary?: ClientSummary | undefined;
  /** Pieces of the summary with which its history began anew, and whether a model has answered since. */
  readonly begunWith?: { readonly pieces: readonly string[]; readonly isAnswered: boolean } | undefined;
  /** How many times in a row the upstream refused what was made of a request, and took the client's own. */
  readonly refusals: number;
  /** Whether it is left as it is from then on. */
  readonly isReverted: boolean;
  /** The newest responses that its client may follow, the oldest first. */
  readonly responses: readonly SessionResponse[];
  /** The newest compactions of its client, the oldest first. */
  readonly compactions: readonly Compaction[];
}

/** What was sent last: messages, or of a session that was stored hashes of those that aren't lines. */
export type Shown = readonly (Message | number)[];

/** What a session is made of. */
export interface SessionParts {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** How many items the client's history has. Default: none. */
  readonly length?: number;
  readonly facts: SessionFacts;
  /** Default: nothing is hidden. */
  readonly hidden?: readonly HiddenPlace[];
  /** Default: nothing was shown. */
  readonly shown?: Shown;
  /** What the last call showed from whose prompt nothing had left. Default: what was shown. */
  readonly unevicted?: Shown | undefined;
  /** What its provider holds of its newest prompt. Default: that isn't known. */
  readonly held?: StoredPrompt | undefined;
  /** Names of the ends that its history had, the newest first. Default: none. */
  readonly ends?: readonly string[];
}

/** What of a session never changes: the settings of its record. */
export interface GatewaySettings
  extends
    Pick<SessionFacts, "protocol" | "agent" | "control">,
    Partial<Pick<SessionFacts, "scope" | "client" | "name">> {
  /** The session that it is a fork of, whether that is stored or not. */
  readonly forkOf?: string;
}

/** The totals of a session, and what else lists report of it. */
export interface GatewayTotals
  extends
    Pick<SessionState, "model" | "epoch" | "savedTokenUnits">,
    Pick<SessionFacts, "lastMs" | "isReverted"> {
  readonly days: Days;
}

/** Facts and state that are stored with a session's value. */
type OtherFacts = Omit<
  SessionFacts,
  Exclude<keyof GatewaySettings, "agent"> | "by" | "startedMs" | "lastMs" | "isReverted"
>;
type OtherState = Omit<SessionState, keyof GatewayTotals | "title">;

/** The form of stored values: values of another one aren't read. */
const FORMAT = 6;

/** What a session continues from, in addition to its settings, totals, title and texts. Plain data. */
interface StoredValue {
  readonly format: number;
  readonly facts: OtherFacts;
  readonly session: OtherState;
  /** The items of its client's history, and the stems of its last one. */
  readonly items: readonly string[];
  readonly stems: readonly number[];
  /** Instructions by their names: hashes and lengths of their lines. */
  readonly instructions: Readonly<Record<string, readonly number[]>>;
  readonly hidden: readonly (Omit<HiddenPlace, "items"> & { readonly items: readonly string[] })[];
  /** References of the texts that were archived for it, with the length of its history at that time. */
  readonly archived: readonly (readonly [ref: string, length: number])[];
  /** Hashes of the messages that the last call showed. */
  readonly shown: readonly number[];
  /** Hashes of those of the last call without evictions; absent if that is the same. */
  readonly unevicted?: readonly number[];
  readonly held?: StoredPrompt;
  /** The messages of `shown` that contain placeholders. */
  readonly lines: readonly Message[];
  readonly ends: readonly string[];
  readonly state: unknown;
  readonly lookedAt: unknown;
}

/** By what a session is recognised. */
export interface SessionHistory {
  readonly history: StoredHistory;
  readonly instructions: readonly Known[];
}

/** What a stored session is made with. */
export type Making = Pick<Recognised, "countTokens" | "prompts"> & Parameters<typeof readItems>[1];

/** So many compactions of a session are remembered. */
const MAX_COMPACTIONS = 100;

/** So many responses of a session may be followed after a restart. */
const MAX_RESPONSES = 8;

/** So many pieces of a summary are remembered. */
const SUMMARY_PIECES = 16;

/** After so many refusals in a row a session is left alone: one may be of a mere token too many. */
const MAX_REFUSALS = 2;

/** What a session takes beside what grows, in bytes. */
const SESSION_BYTES = 4_096;

/** What an item of a history takes: its place in the tree of histories, what was sent of it, what left of it. */
const ITEM_BYTES = 2_048;

/** What a call that is remembered takes. */
const CALL_BYTES = 1_024;

/** A reference to an archived text, wherever it stands. */
const ANY_REF = /\b[0-9a-f]{16}\b/g;

/** Number of sessions made in this process. */
let made = 0;

/** Memory for a text in addition to its characters, in bytes. */
const ENTRY_BYTES = 200;

/** What an archive begins with. */
interface ArchiveInit {
  /** Texts by reference. Default: none. */
  readonly texts?: ReadonlyMap<string, string>;
  /** References of the session's texts. Default: none. */
  readonly listed?: Iterable<readonly [ref: string, length: number]>;
  /** Reads texts that aren't in memory. Default: there are none. */
  readonly stored?: Archive["get"] | undefined;
}

/**
 * The archive of a session, in memory and in its store. A fork has the texts that were archived before it; from then on
 * neither sees what the other archives. A text belongs to the session whose history was complete up to there when it was
 * archived: a fork has all texts, and lists those of the history that it shares.
 */
export class SessionArchive implements Archive {
  readonly #texts: Map<string, string>;
  /** References of the session's texts, each with the length of its history at that time, in messages. */
  readonly #listed: Map<string, number>;
  readonly #stored: Archive["get"] | undefined;
  #length = 0;
  #bytes = 0;

  constructor({ texts = new Map(), listed = [], stored }: ArchiveInit = {}) {
    this.#texts = new Map(texts);
    this.#listed = new Map(listed);
    this.#stored = stored;
    for (const text of texts.values()) this.#bytes += ENTRY_BYTES + text.length;
  }

  /** Bytes of memory that its texts take; what forks share counts for each. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The references of the session's texts, with the length of its history at that time; the oldest first. */
  get listed(): Iterable<readonly [ref: string, length: number]> {
    return this.#listed;
  }

  /** All texts in memory, by reference. */
  get texts(): Iterable<readonly [ref: string, content: string]> {
    return this.#texts;
  }

  /** Returns the references of the session's texts, the oldest first. */
  refs(): readonly string[] {
    return [...this.#listed.keys()];
  }

  /** The history has so many messages: what is archived from now on is of these. */
  grewTo(length: number): void {
    this.#length = length;
  }

  /** The history went back to so many messages: what was evicted stays listed, but not for a fork of an earlier place. */
  cutBack(length: number): void {
    for (const [ref, at] of this.#listed) this.#listed.set(ref, Math.min(at, length + 1));
  }

  /** Lists a text that a fork shares, though it was archived of a longer history. */
  list(ref: string): void {
    if (!this.#listed.has(ref)) this.#listed.set(ref, this.#length);
  }

  /** Returns another archive with all that this one has now. It lists the texts of the first `length` messages. */
  fork(length: number): SessionArchive {
    const listed = [...this.#listed].filter(([, at]) => at <= length);
    return new SessionArchive({ texts: this.#texts, listed, stored: this.#stored });
  }

  /** Stores a text in memory. @throws {Error} if its reference belongs to other content. */
  put(content: string): Promise<string> {
    // `archiveRef`, but at once: handing a text to another thread takes four times as long as hashing it here.
    const ref = createHash("sha256").update(bytesFromText(content)).digest("hex").slice(0, 16);
    const known = this.#texts.get(ref);
    if (known !== undefined && known !== content) {
      return Promise.reject(new Error(`Cannot archive a text under ${ref}: other content stands there`));
    }
    if (known === undefined) this.#bytes += ENTRY_BYTES + content.length;
    this.#texts.set(ref, content);
    this.list(ref);
    return Promise.resolve(ref);
  }

  async get(ref: string): Promise<string | undefined> {
    return this.#texts.get(ref) ?? await this.#stored?.(ref);
  }
}

/** A conversation that passes through the gateway: whose it is, where it stands, and what only the upstream knows. */
export class GatewaySession implements KnownConversation {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** Orders the sessions of a process as they were made. */
  readonly number: number = ++made;
  #length: number;
  #facts: SessionFacts;
  #hidden: readonly HiddenPlace[];
  #shown: Shown;
  /** What the last call showed from whose prompt nothing had left. */
  #unevicted: Shown;
  #held: (() => StoredPrompt) | undefined;
  /** What the upstream could see of its newest turn. */
  #history: readonly Message[] = [];
  #ends: readonly string[];
  /** Its tools as they first came. */
  #tools: readonly ReturnType<typeof steadyTools>["first"][number][] = [];
  /** The newest tools that came as they first did. Their bytes would hold the whole request. */
  #sameTools: readonly ToolDefinition[] | undefined;

  constructor(
    { session, archive, length = 0, facts, hidden = [], shown = [], unevicted = shown, held, ends = [] }:
      SessionParts,
  ) {
    this.session = session;
    this.archive = archive;
    this.#length = length;
    this.#facts = facts;
    this.#hidden = hidden;
    this.#shown = shown;
    this.#unevicted = unevicted;
    this.#held = held && (() => held);
    this.#ends = ends;
  }

  /** Makes a session of what was stored; `undefined` if that has another form. */
  static restore(
    { record, totals, title, value: stored, stored: copy, text }: LoadedSession,
    { countTokens, prompts, protocol, readers }: Making,
  ): SessionHistory & { readonly session: GatewaySession } | undefined {
    // It is what `content()` returned, perhaps in another version.
    const value = stored as StoredValue | undefined;
    if (value?.format !== FORMAT) return undefined;
    const { items, stems, instructions, hidden, archived, shown, lines, state, lookedAt } = value;
    const { forkOf: parent, sums, facts: own } = readRecord({ record, totals });
    const facts: SessionFacts = { ...value.facts, ...own };
    const archive = new SessionArchive({ stored: text, listed: archived });
    const byHash = new Map(lines.map((line) => [hashPiece(line), line]));
    const session = new GatewaySession({
      session: new Session({
        ...{ id: record.id, archive, countTokens, stored: { ...copy, parent } },
        prompts: prompts({ archive, ...facts }, { state, lookedAt }),
        state: { ...value.session, ...sums, title },
      }),
      ...{ archive, facts, length: items.length },
      hidden: hidden.map(({ items, ...place }) => ({
        ...place,
        items: readItems(items, { protocol, readers }),
      })),
      shown: shown.map((hash) => byHash.get(hash) ?? hash),
      unevicted: value.unevicted,
      held: value.held,
      ends: value.ends,
    });
    return {
      session,
      history: { items: items.map(readHistoryItem), stems },
      instructions: Object.entries(instructions)
        .map(([key, lines]): Known => ({ scope: own.scope, key, lines: pairsOf(lines) })),
    };
  }

  /** Makes a session of its totals alone, to be reported: no request continues it. */
  static restoreTotals(
    { record, totals, title, stored }: LoadedSession,
    { countTokens, prompts }: Making,
  ): GatewaySession {
    const { sums, facts: own } = readRecord({ record, totals });
    const facts: SessionFacts = {
      ...{ historyBytes: 0, heads: 0, hasTools: false, refusals: 0, isAnswered: false, isAmidTurn: false },
      ...{ basis: { model: sums.model }, responses: [], compactions: [], ...own },
    };
    const archive = new SessionArchive();
    return new GatewaySession({
      session: new Session({
        ...{ id: record.id, archive, countTokens, stored },
        prompts: prompts({ archive, ...facts }),
        state: { ...sums, title },
      }),
      ...{ archive, facts },
    });
  }

  /** Its totals, and what else lists report of it. */
  get totals(): GatewayTotals {
    const { lastMs, isReverted } = this.#facts;
    const { model, epoch, savedTokenUnits, days } = this.session.state;
    return { lastMs, isReverted, model, epoch, savedTokenUnits, days };
  }

  /** Returns what is stored of it, and its names unless it is found by those of `named`. */
  content({ history, instructions }: SessionHistory, named: unknown): SessionContent {
    const { scope: _s, client: _c, by: _b, name: _n, protocol: _p, control: _k, ...changing } = this.#facts;
    const { startedMs: _a, lastMs: _l, isReverted: _r, ...facts } = changing;
    const { title: _t, model: _m, epoch: _e, savedTokenUnits: _u, days: _d, ...session } = this.session.state;
    const known = named as NamedHistory | undefined;
    const names = namesOf(this.#facts, history, { ends: this.#ends, known });
    if (names) this.#ends = names.ends;
    const { state, lookedAt } = this.session.prompt;
    const value: StoredValue = {
      ...{ format: FORMAT, facts, session, stems: history.stems, ends: this.#ends, state, lookedAt },
      items: history.items.map(writeHistoryItem),
      instructions: Object.fromEntries(instructions.map((known) => [known.key, plainLines(known)])),
      hidden: this.#hidden.map(plainPlace),
      archived: [...this.archive.listed],
      shown: this.#shown.map(hashOf),
      ...(this.held && { held: this.held }),
      ...(this.#unevicted !== this.#shown && { unevicted: this.#unevicted.map(hashOf) }),
      lines: this.#shown.flatMap((one) => typeof one !== "number" && hasPlaceholder(one) ? [one] : []),
    };
    return {
      ...{ value, texts: this.archive.texts },
      ...(names ? { names: [...names.ends, ...names.others], named: names.named } : { named }),
    };
  }

  /** Its id, which is its conversation's. */
  get id(): string {
    return this.session.id;
  }

  /** Name of the key with which it was begun. Absent: the owner's. */
  get by(): string | undefined {
    return this.#facts.by;
  }

  /** Whose it is, and where it stands. */
  get facts(): SessionFacts {
    return this.#facts;
  }

  /** Whether it has had a turn: until then every request of it was for something else, or may have been. */
  get isBegun(): boolean {
    return this.#facts.turns !== undefined;
  }

  /** Its group in the ledger. */
  get group(): keyof Overview["groups"] {
    return this.#facts.control ? "control" : "planned";
  }

  /** What only the upstream knows of. */
  get hidden(): readonly HiddenPlace[] {
    return this.#hidden;
  }

  /** What the last call that succeeded showed. */
  get shown(): Shown {
    return this.#shown;
  }

  /** Bytes of memory that it takes; what it shares with others counts for each of them. */
  get bytes(): number {
    const items = this.#hidden.flatMap(({ items }) => items);
    // As bytes, and as text of the message that was read of them.
    const hiddenBytes = items.reduce((sum, { bytes }) => sum + 3 * (bytes?.length ?? 0), 0);
    const itemBytes = ITEM_BYTES * (this.#length + items.length);
    const { calls } = this.session;
    // As bytes, and as what was read of them.
    const toolBytes = this.#tools.reduce((sum, { bytes }) => sum + 3 * bytes.length, 0);
    return SESSION_BYTES + toolBytes + CALL_BYTES * calls.length + itemBytes + this.#facts.historyBytes +
      hiddenBytes +
      this.archive.bytes;
  }

  /** A request came before its first turn, or is the first of it, whose history ends there. */
  precede({ items }: Pick<Recognised, "items">): void {
    this.#length = items.length;
    this.#know({ heads: countInstructions(items) });
    if (!this.#facts.isNamed) this.session.named(firstWords(personSpoke(items)?.words ?? ""));
  }

  /** Plans its prompts by what this request asks for, the first of its first turn or one before that, whatever came before. */
  begin({ prompts, agent, basis }: Pick<Recognised, "prompts" | "agent" | "basis">): void {
    const { archive, facts: { control } } = this;
    this.#know({ agent, basis });
    [this.#shown, this.#held] = [[], undefined];
    this.session.begin(prompts({ archive, control, agent, basis }));
  }

  /**
   * A request goes on with it, whose history ends there. If that begins anew with a summary, the next one may begin with the
   * same text in another message: some clients put their first calls into it.
   */
  goOn(
    { items, hasTools = false }: Pick<Recognised, "items" | "hasTools">,
    begunWith?: ClientSummary,
  ): void {
    const { summary } = this.#facts;
    // What its client had summed up beside its work it goes on from later.
    const isSaid = summary && quotes(items.slice(this.#length), summary.pieces);
    this.#length = items.length;
    // Once a model has answered, a first message of another text is a summary of the client's.
    if (!this.#facts.isAnswered || this.session.state.title === "") {
      const words = personSpoke(items)?.words ?? "";
      this.#know({ opening: openingText(words) });
      if (!this.#facts.isNamed) this.session.named(firstWords(words));
    }
    this.#know({
      historyBytes: items.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0),
      heads: countInstructions(items),
      turns: turnsAfter({ ...this.#facts, summary: begunWith }, items),
      hasTools: this.#facts.hasTools || hasTools,
      isAnswered: this.#facts.isAnswered || hasAnswers(items),
      isAmidTurn: true,
      summary: begunWith || isSaid ? undefined : summary,
      begunWith: this.#begunWithIn(items, begunWith),
    });
  }

  #begunWithIn(items: readonly WireItem[], newest: ClientSummary | undefined): SessionFacts["begunWith"] {
    // Some clients write the summary as the model's own words: these are no answer yet.
    if (newest) return { pieces: newest.pieces, isAnswered: false };
    const pieces = this.#facts.begunWith?.pieces;
    return pieces && quotes(items, pieces) ? { pieces, isAnswered: hasAnswers(items) } : undefined;
  }

  /** A request has come, at this time in milliseconds since the epoch; its model is that of a turn. */
  asked({ atMs, model }: { readonly atMs: number; readonly model?: string | undefined }): void {
    this.#know({ lastMs: atMs });
    if (model !== undefined) this.session.asked(model);
  }

  /** A reply of a turn has come whole; it is the last one if it calls nothing. */
  replied({ callsClient }: Pick<WireReply, "callsClient">): void {
    this.#know({ isAmidTurn: callsClient });
  }

  /** A request with these items goes on with it, from where its history is the same. */
  continueFrom(
    items: readonly WireItem[],
    { at, how, length }: Pick<Extract<Continuation<unknown>, { type: "continue" }>, "at" | "how" | "length">,
  ): void {
    if (how === "grown") return;
    const same = items.slice(0, at);
    const isBack = how === "back" || how === "anew";
    const { hidden, length: messages } = this.#upTo(same);
    this.#cutBack(messages);
    // What only the upstream knows of stays in its places, of which those behind what was transient are nearer now.
    this.#hidden = isBack
      ? hidden
      : this.#hidden.map((place) => place.after > length ? { ...place, after: length } : place);
  }

  #cutBack(length: number): void {
    this.session.cutBack(length);
    this.archive.cutBack(length);
  }

  /** A new session with what this one has behind these items. What it archives from then on, this one doesn't see. */
  fork(
    items: readonly WireItem[],
    { id, scope }: Pick<SessionFacts, "scope"> & { readonly id: string },
  ): GatewaySession {
    const { hidden, length } = this.#upTo(items);
    const archive = this.archive.fork(length);
    const session = this.session.fork(length, { id, archive });
    // What was evicted later of the history that they share is evicted from the fork, too.
    const state = JSON.stringify(session.prompt.state);
    for (const ref of this.archive.refs()) if (state.includes(ref)) archive.list(ref);
    const fork = new GatewaySession({
      ...{ session, archive },
      length: items.length,
      facts: {
        ...{ ...this.#facts, scope, name: undefined, responses: [], compactions: [] },
        isAnswered: hasAnswers(items),
        isNamed: undefined,
      },
      hidden,
      ...{ shown: this.#shown, unevicted: this.#unevicted },
    });
    fork.#held = this.#held;
    fork.#tools = this.#tools;
    fork.#history = this.#history;
    return fork;
  }

  /**
   * Its archive as its model may read it, which sees these messages. A fork has all that its parent had archived: of that
   * only what was archived of the history that they share, and what its own prompt refers to, itself or by what it archived,
   * is of its own conversation.
   */
  readableWith(shown: () => readonly Message[]): Archive {
    const { archive } = this;
    let reached: Promise<ReadonlySet<string>> | undefined;
    const reach = async () => {
      const refs = new Set(archive.refs());
      // What is listed is its own, and so is what the placeholders in it stand for.
      const waiting = [...refs];
      const read = (text: string) => {
        for (const [ref] of text.matchAll(ANY_REF)) {
          if (!refs.has(ref)) waiting.push(ref);
          refs.add(ref);
        }
      };
      if (this.session.stored.parent === undefined) return refs;
      read(JSON.stringify(this.session.prompt.state));
      read(JSON.stringify(shown()));
      for (let ref = waiting.pop(); ref !== undefined; ref = waiting.pop()) {
        read(await archive.get(ref) ?? "");
      }
      return refs;
    };
    const own = () => reached ??= reach();
    return {
      put: (content) => archive.put(content),
      get: async (ref) => (await own()).has(ref) ? await archive.get(ref) : undefined,
      refs: async () => {
        const all = [...await own()];
        if (this.session.stored.parent === undefined) return all;
        // Other texts than references look like one.
        const texts = await Promise.all(all.map((ref) => archive.get(ref)));
        return all.filter((_, at) => texts[at] !== undefined);
      },
    };
  }

  /** How many messages the upstream sees of these first items of its history. */
  lengthOf(items: readonly WireItem[]): number {
    return this.#upTo(items).length;
  }

  #upTo(items: readonly WireItem[]): { readonly hidden: readonly HiddenPlace[]; readonly length: number } {
    const hidden = this.#hidden.filter(({ after }) => after <= items.length);
    const expanded = expandHidden(items, hidden).items;
    return { hidden, length: expanded.reduce((sum, { parts }) => sum + parts.length, 0) };
  }

  /**
   * The client's history with what only the upstream knows of. What stands before items that the client has taken out of
   * its history stands nowhere; if a turn goes on from there, it is forgotten.
   */
  expand(
    items: readonly WireItem[],
    { isTurn, protocol }: { readonly isTurn: boolean; readonly protocol: Protocol },
  ): readonly WireItem[] {
    const { items: expanded, hidden } = expandHidden(items, this.#hidden, protocol);
    if (isTurn) this.#hidden = hidden;
    return expanded;
  }

  /**
   * Items whose messages are the objects that they were in the newest turn, as far as they say the same: whatever their
   * client has spelled otherwise since is the same to whoever plans. Items of which nothing is known are the same objects.
   */
  recognise(items: readonly WireItem[], { isTurn }: { readonly isTurn: boolean }): {
    readonly items: readonly WireItem[];
    readonly messages: readonly Message[];
    /** Whether the provider is shown something else in the place of what it was shown. */
    readonly isRespelled: boolean;
  } {
    const before = this.#history;
    const messages: Message[] = [];
    const others = new Map<number, WireItem>();
    let isRespelled = false;
    const recognised = (part: ItemPart): ItemPart => {
      const known = before[messages.length];
      const isSame = known && known !== part.message && hashPiece(known) === hashPiece(part.message);
      messages.push(isSame ? known : part.message);
      if (!isSame) return part;
      isRespelled ||= hashBytes(known) !== hashBytes(part.message);
      return { ...part, message: known };
    };
    for (let at = 0; at < items.length; at++) {
      const item = items[at]!;
      // Nearly all are those of the newest turn.
      let same = 0;
      while (same < item.parts.length && item.parts[same]!.message === before[messages.length]) {
        messages.push(item.parts[same++]!.message);
      }
      if (same === item.parts.length) continue;
      const parts = [...item.parts.slice(0, same), ...item.parts.slice(same).map(recognised)];
      if (parts.some((part, more) => part !== item.parts[more])) others.set(at, { ...item, parts });
    }
    if (isTurn) {
      this.#history = messages;
      this.archive.grewTo(messages.length);
    }
    const known = others.size === 0 ? items : items.map((item, at) => others.get(at) ?? item);
    return { items: known, messages, isRespelled };
  }

  /** A request with its tools in the order and spelling in which they first came; only a turn brings new ones. */
  steady(request: WireRequest, { isTurn }: { readonly isTurn: boolean }): WireRequest {
    const { tools = [] } = request;
    const same = this.#sameTools;
    const isKnown = same?.length === tools.length &&
      tools.every(({ definition }, at) => definition === same[at]);
    if (isKnown) return request;
    const { request: steady, first } = steadyTools(request, this.#tools);
    if (isTurn) this.#tools = first;
    if (isTurn && steady === request) this.#sameTools = tools.map(({ definition }) => definition);
    return steady;
  }

  /** Decides which functions stand in front of its prompts, if that isn't decided yet, or too late for it. */
  decideFunctions(decide: () => readonly string[] | undefined): void {
    if (this.#facts.functionsInFront !== undefined) return;
    // What is in the cache of what was answered begins with all of them.
    this.#know({ functionsInFront: (this.#facts.isAnswered ? undefined : decide()) ?? "all" });
  }

  /** The client doesn't know of these. */
  hide(places: readonly HiddenPlace[]): void {
    if (places.length > 0) this.#hidden = [...this.#hidden, ...places];
  }

  /** What its provider holds of its newest prompt; `undefined` if that isn't known. */
  get held(): StoredPrompt | undefined {
    const held = this.#held?.();
    if (held) this.#held = () => held;
    return held;
  }

  /** Whether what its provider holds is known. */
  get isHeldKnown(): boolean {
    return this.#held !== undefined || this.#shown.length === 0;
  }

  /** A call of a turn has succeeded that showed this, of which its provider holds what `held` returns. */
  showed(
    { messages, saved: { context, prune, truncate } }: Pick<SessionView, "messages" | "saved">,
    held: () => StoredPrompt,
  ): void {
    this.#held = held;
    this.#shown = messages;
    if (context + prune + truncate <= 0) this.#unevicted = messages;
  }

  /**
   * How many messages of the last call, from the first, are shown again by these; undefined if all are. Where what left is
   * shown again, those of the last call before it left count as well: the provider may still have them cached.
   */
  keptOf(messages: readonly Message[]): number | undefined {
    const kept = sharedLengthOf(this.#shown, messages);
    if (kept === this.#shown.length) return undefined;
    return Math.max(kept, sharedLengthOf(this.#unevicted, messages));
  }

  /** The upstream has taken what was made of a request. */
  accepted(): void {
    if (this.#facts.refusals > 0) this.#know({ refusals: 0 });
  }

  /** The upstream has refused what was made of a request, and taken the client's own. Whether it is left as it is now. */
  refused(): boolean {
    const refusals = this.#facts.refusals + 1;
    const isReverted = refusals >= MAX_REFUSALS;
    this.#know({ refusals });
    if (isReverted) this.leave();
    return isReverted;
  }

  /** From now on it is left as it is. */
  leave(): void {
    if (this.#facts.isReverted) return;
    this.#know({ isReverted: true });
    this.#hidden = [];
    this.session.revert();
  }

  /** Its client may follow a response. */
  answeredBy(response: SessionResponse): void {
    this.#know({ responses: [...this.#facts.responses, response].slice(-MAX_RESPONSES) });
  }

  /** Its client had it summed up. */
  compacted(made: Compaction): void {
    this.#know({ compactions: [...this.#facts.compactions, made].slice(-MAX_COMPACTIONS) });
  }

  /** Its client has a text now from which it may go on with a new history. */
  sumUp({ text, isSaid, uncounted }: Omit<ClientSummary, "pieces"> & { readonly text: string }): void {
    const { summary: before } = this.#facts;
    // Some clients take it out of the tags that they asked for.
    const pieces = text.split(/[\n"<>]/).map((piece) => piece.trim())
      .filter(({ length }) => length >= QUOTED_CHARS.least)
      .sort((a, b) => b.length - a.length)
      .slice(0, SUMMARY_PIECES).map((piece) => piece.slice(0, QUOTED_CHARS.most));
    this.#know({
      summary: {
        pieces: [...pieces, ...before?.pieces ?? []].slice(0, 2 * SUMMARY_PIECES),
        uncounted: [...uncounted, ...before?.uncounted ?? []].slice(0, 2),
        isSaid: isSaid || (before?.isSaid ?? false),
      },
    });
  }

  /** Gives it a title, which it keeps. */
  rename(title: string): void {
    this.session.named(title);
    this.#know({ isNamed: true });
  }

  #know(facts: Partial<SessionFacts>): void {
    this.#facts = { ...this.#facts, ...facts };
  }
}

/** How many messages, from the first, are the same. */
function sharedLengthOf(shown: Shown, messages: readonly Message[]): number {
  const at = shown.findIndex((one, at) => {
    const other = messages[at];
    if (one === other || other === undefined) return other === undefined;
    return (typeof one === "number" ? one : hashPiece(one)) !== hashPiece(other);
  });
  return at < 0 ? shown.length : at;
}

/** How often the user has asked something, with this history: one that begins anew with a summary goes on with the same turn. */
function turnsAfter(
  { turns: { all, shown } = { all: 0, shown: 0 }, summary }: Pick<SessionFacts, "turns" | "summary">,
  items: readonly WireItem[],
): SessionFacts["turns"] {
  const now = countTurns(items);
  const isSame = now === shown || (summary !== undefined && all > 0);
  return { all: isSame ? all : all + Math.max(1, now - shown), shown: now };
}

/** Returns what a session's record and totals contain of it. */
function readRecord({ record, totals }: Pick<LoadedSession, "record" | "totals">) {
  const { by, createdAtMs: startedMs } = record;
  const { scope = "", forkOf, ...settings } = record.settings as GatewaySettings;
  const { lastMs, isReverted, ...sums } = totals as GatewayTotals;
  return { forkOf, sums, facts: { ...settings, scope, by, startedMs, lastMs, isReverted } };
}

function pairsOf(flat: readonly number[]): Map<number, number> {
  const pairs = new Map<number, number>();
  for (let at = 0; at + 1 < flat.length; at += 2) pairs.set(flat[at]!, flat[at + 1]!);
  return pairs;
}

/** Returns a hidden place as it is stored: the same object each time. */
function plainPlace(hidden: HiddenPlace): StoredValue["hidden"][number] {
  const { items, ...place } = hidden;
  const plain = plainPlaces.get(hidden) ??
    { ...place, items: items.map(({ bytes }) => decoder.decode(bytes)) };
  plainPlaces.set(hidden, plain);
  return plain;
}

/** Returns the lines of instructions as they are stored: the same list each time. */
function plainLines(known: Known): readonly number[] {
  const plain = linesOfInstructions.get(known) ?? [...known.lines].flat();
  linesOfInstructions.set(known, plain);
  return plain;
}

function hashOf(shown: Message | number): number {
  return typeof shown === "number" ? shown : hashPiece(shown);
}

/** Whether a message contains a placeholder: such are looked for in what clients quote. */
function hasPlaceholder(message: Message): boolean {
  let has = withPlaceholders.get(message);
  if (has === undefined) {
    has = placeholderRefs(contentText(message.content)).length > 0;
    withPlaceholders.set(message, has);
  }
  return has;
}

const linesOfInstructions = new WeakMap<Known, readonly number[]>();
const plainPlaces = new WeakMap<HiddenPlace, StoredValue["hidden"][number]>();
const withPlaceholders = new WeakMap<Message, boolean>();
const decoder = new TextDecoder();

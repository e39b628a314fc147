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

/** A request, by which its session is recognised or begun. */
export interface Recognised
  extends
    Pick<SessionFacts, "scope" | "client" | "by" | "name" | "basis">,
    Partial<Pick<SessionFacts, "protocol" | "agent" | "hasTools">> {
  /** Whether its client gives each conversation a key, so that a scope contains one. Default: no. */
  readonly isKeyed?: boolean;
  readonly items: readonly WireItem[];
  /** Whether a new session is forwarded unchanged. Default: only if it is in the holdout. */
  readonly isObserved?: boolean;
  readonly countTokens: CountTokens;
  /** Makes what plans the prompts of a session: of a new one, or of one that continues from what was stored. */
  readonly prompts: (
    session: Pick<SessionFacts, "control" | "basis" | "agent"> & { readonly archive: SessionArchive },
    stored?: Pick<PromptSession, "state" | "lookedAt">,
  ) => PromptSession;
}

/** By what a session's prompts are planned, as of its first request. */
export interface SessionBasis {
  /** The requested model. */
  readonly model: string;
  /** Requested lifetime of cached prompts, in milliseconds. Absent: none is requested. */
  readonly ttlMs?: number;
}

export interface SessionResponse extends Followed {
  /** Its id at the client. */
  readonly id: string;
}

/** A call by which the client had the conversation summarized. */
export interface Compaction
  extends Pick<Sums, "promptTokens" | "cachedTokens" | "outputTokens" | "tokenUnits"> {
  /** When it was answered, in milliseconds since the epoch. */
  readonly atMs: number;
  /** Its cost; absent if the price is unknown. */
  readonly usd?: number;
}

/** A text with which a client may begin a new history of the same conversation. */
export interface ClientSummary {
  /** Its longest pieces. */
  readonly pieces: readonly string[];
  /** Calls that made it, not yet counted as compactions because the client did not mark them as such. */
  readonly uncounted: readonly Compaction[];
  /** Whether the client marked it as a summary. */
  readonly isSaid: boolean;
}

/** The owner of a session and the state of its history. Plain data, which is stored. */
export interface SessionFacts {
  /** Separates histories that must never be joined: clients, protocols. */
  readonly scope: string;
  /** Its client, if conversations of the client may continue under another scope. */
  readonly client?: string | undefined;
  /** Name of the key with which it began. Absent: the owner's. */
  readonly by?: string | undefined;
  /** The client's name for it, in its scope. */
  readonly name?: string | undefined;
  /** Name of its protocol. */
  readonly protocol: string;
  /** Name of the client's program, if its requests report it. */
  readonly agent?: string | undefined;
  readonly basis: SessionBasis;
  /** Whether it is in the holdout: forwarded unchanged. */
  readonly control: boolean;
  /** When its first request came, in milliseconds since the epoch. */
  readonly startedMs: number;
  /** When its newest request came, in milliseconds since the epoch. */
  readonly lastMs: number;
  /** Bytes of the client's history, which the planner holds in memory. */
  readonly historyBytes: number;
  /** Number of instructions at the beginning of its history. */
  readonly heads: number;
  /** A line of the user's first message; absent if it is too short to be distinctive. */
  readonly opening?: string | undefined;
  /** Number of turns in all, and in the current history, which a client may begin again. Absent until the first turn. */
  readonly turns?: { readonly all: number; readonly shown: number } | undefined;
  /** Whether its turns have tools. */
  readonly hasTools: boolean;
  /** Names of the functions that are not deferred, or `"all"`: decided with its first tools. Absent: undecided. */
  readonly functionsInFront?: readonly string[] | "all" | undefined;
  /** Whether its history contains replies of a model. */
  readonly isAnswered: boolean;
  /** Whether its newest turn has no final reply yet. */
  readonly isAmidTurn: boolean;
  /** Whether the user has set its title. */
  readonly isNamed?: true | undefined;
  /** The reply to a request that was no turn, with which the client may begin a new history. */
  readonly summary?: ClientSummary | undefined;
  /** Pieces of the summary with which its history begins, and whether a model has replied since. */
  readonly begunWith?: { readonly pieces: readonly string[]; readonly isAnswered: boolean } | undefined;
  /** Number of successive edited requests that the upstream refused, and accepted unchanged. */
  readonly refusals: number;
  /** Whether it is forwarded unchanged from now on. */
  readonly isReverted: boolean;
  /** The newest responses that its client may continue from, the oldest first. */
  readonly responses: readonly SessionResponse[];
  /** The newest compactions of its client, the oldest first. */
  readonly compactions: readonly Compaction[];
}

/** The facts of a session in which nothing has happened. */
export const NEW_FACTS: Omit<
  SessionFacts,
  "scope" | "protocol" | "basis" | "control" | "startedMs" | "lastMs"
> = {
  ...{ historyBytes: 0, heads: 0, hasTools: false, isAnswered: false, isAmidTurn: false },
  ...{ refusals: 0, isReverted: false, responses: [], compactions: [] },
};

/** The messages of a call; of a loaded session hashes in place of those without placeholders. */
export type Shown = readonly (Message | number)[];

/** Parts of a session. */
export interface SessionParts {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** Number of items of the client's history. Default: 0. */
  readonly length?: number;
  readonly facts: SessionFacts;
  /** Default: nothing is hidden. */
  readonly hidden?: readonly HiddenPlace[];
  /** The messages of the newest call. Default: none. */
  readonly shown?: Shown;
  /** The messages of the newest call without evictions. Default: those of the newest call. */
  readonly unevicted?: Shown | undefined;
  /** What its provider holds of its newest prompt. Default: unknown. */
  readonly held?: StoredPrompt | undefined;
  /** Names of the ends that its history had, the newest first. Default: none. */
  readonly ends?: readonly string[];
}

/** What of a session never changes: the settings of its record. */
export interface GatewaySettings extends Pick<SessionFacts, "protocol" | "agent" | "control" | "client"> {
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

/** The form of stored values: values of another one aren't read. */
const FORMAT = 6;

/** What a session continues from, in addition to its settings, totals, title and texts. Plain data. */
interface StoredValue {
  readonly format: number;
  readonly facts: SessionFacts;
  readonly session: Omit<SessionState, "title" | "days">;
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

/** Most compactions of a session in memory. */
const MAX_COMPACTIONS = 100;

/** Most responses of a session that can be continued from after a restart. */
const MAX_RESPONSES = 8;

/** Most pieces of a summary. */
const SUMMARY_PIECES = 16;

/** Successive refusals after which a session is forwarded unchanged: a single one may be of one token too many. */
const MAX_REFUSALS = 2;

/** Memory for the parts of a session that do not grow, in bytes. */
const SESSION_BYTES = 4_096;

/** Memory for an item of a history: in recognition, as sent and as evicted, in bytes. */
const ITEM_BYTES = 2_048;

/** Memory for a call report, in bytes. */
const CALL_BYTES = 1_024;

/** A reference to an archived text. */
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

/** A conversation of a client: its owner, the state of its history, and what is hidden from the client. */
export class GatewaySession implements KnownConversation {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** Orders the sessions of a process as they were made. */
  readonly number: number = ++made;
  #length: number;
  #facts: SessionFacts;
  #hidden: readonly HiddenPlace[];
  #shown: Shown;
  /** The messages of the newest call without evictions. */
  #unevicted: Shown;
  #held: (() => StoredPrompt) | undefined;
  /** The messages of its newest turn before edits. */
  #history: readonly Message[] = [];
  #ends: readonly string[];
  /** Its tools in their first spelling. */
  #tools: readonly ReturnType<typeof steadyTools>["first"][number][] = [];
  /** The newest tools that were spelled as at first, without their bytes, which would retain the whole request. */
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
    const { forkOf: parent } = record.settings as GatewaySettings;
    const { lastMs, isReverted, ...sums } = totals as GatewayTotals;
    const facts: SessionFacts = { ...value.facts, lastMs, isReverted };
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
        .map(([key, lines]): Known => ({ scope: facts.scope, key, lines: pairsOf(lines) })),
    };
  }

  /** Makes a session of its totals alone, to be reported: no request continues it. */
  static restoreTotals(
    { record, totals, title, stored }: LoadedSession,
    { countTokens, prompts }: Making,
  ): GatewaySession {
    const { by, createdAtMs: startedMs } = record;
    const { forkOf: _, ...settings } = record.settings as GatewaySettings;
    const { lastMs, isReverted, ...sums } = totals as GatewayTotals;
    const basis = { model: sums.model };
    const facts = { ...NEW_FACTS, scope: "", ...settings, basis, by, startedMs, lastMs, isReverted };
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
    const facts = this.#facts;
    const { title: _, days: __, ...session } = this.session.state;
    const known = named as NamedHistory | undefined;
    const names = namesOf(facts, history, { ends: this.#ends, known });
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

  get id(): string {
    return this.session.id;
  }

  /** Name of the key with which it began. Absent: the owner's. */
  get by(): string | undefined {
    return this.#facts.by;
  }

  get facts(): SessionFacts {
    return this.#facts;
  }

  /** Whether it has had a turn: earlier requests were, or may have been, for something else. */
  get isBegun(): boolean {
    return this.#facts.turns !== undefined;
  }

  /** Its group in the ledger. */
  get group(): keyof Overview["groups"] {
    return this.#facts.control ? "control" : "planned";
  }

  /** What the upstream sees and the client does not. */
  get hidden(): readonly HiddenPlace[] {
    return this.#hidden;
  }

  /** The messages of the newest successful call. */
  get shown(): Shown {
    return this.#shown;
  }

  /** Bytes of memory that it takes; what sessions share counts for each. */
  get bytes(): number {
    const items = this.#hidden.flatMap(({ items }) => items);
    // As bytes, and as the text of a message.
    const hiddenBytes = items.reduce((sum, { bytes }) => sum + 3 * (bytes?.length ?? 0), 0);
    const itemBytes = ITEM_BYTES * (this.#length + items.length);
    const { calls } = this.session;
    // As bytes, and as a definition.
    const toolBytes = this.#tools.reduce((sum, { bytes }) => sum + 3 * bytes.length, 0);
    return SESSION_BYTES + toolBytes + CALL_BYTES * calls.length + itemBytes + this.#facts.historyBytes +
      hiddenBytes +
      this.archive.bytes;
  }

  /** Notes a request that precedes its first turn, or may be it. */
  precede({ items }: Pick<Recognised, "items">): void {
    this.#length = items.length;
    this.#know({ heads: countInstructions(items) });
    if (!this.#facts.isNamed) this.session.named(firstWords(personSpoke(items)?.words ?? ""));
  }

  /** Plans its prompts by this request, whatever came before: it is of the first turn, or precedes it. */
  begin({ prompts, agent, basis }: Pick<Recognised, "prompts" | "agent" | "basis">): void {
    const { archive, facts: { control } } = this;
    this.#know({ agent, basis });
    [this.#shown, this.#held] = [[], undefined];
    this.session.begin(prompts({ archive, control, agent, basis }));
  }

  /**
   * Notes a turn's request that continues it. If its history begins with a summary, the next one may begin with the same
   * text in another message: some clients put their first calls into it.
   */
  continueWith(
    { items, hasTools = false }: Pick<Recognised, "items" | "hasTools">,
    begunWith?: ClientSummary,
  ): void {
    const { summary } = this.#facts;
    // A summary that was made during a turn is continued from later.
    const isSaid = summary && quotes(items.slice(this.#length), summary.pieces);
    this.#length = items.length;
    // After the first reply a first message with another text is a summary by the client.
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
    // Some clients write the summary as a message of the model, which is no reply.
    if (newest) return { pieces: newest.pieces, isAnswered: false };
    const pieces = this.#facts.begunWith?.pieces;
    return pieces && quotes(items, pieces) ? { pieces, isAnswered: hasAnswers(items) } : undefined;
  }

  /** Notes a request at this time in milliseconds since the epoch, with its model if it is a turn's. */
  asked({ atMs, model }: { readonly atMs: number; readonly model?: string | undefined }): void {
    this.#know({ lastMs: atMs });
    if (model !== undefined) this.session.asked(model);
  }

  /** Notes a complete reply of a turn, which is the last one if it calls no tools. */
  replied({ callsClient }: Pick<WireReply, "callsClient">): void {
    this.#know({ isAmidTurn: callsClient });
  }

  /** Cuts its history back to the items that it shares with those of a request. */
  continueFrom(
    items: readonly WireItem[],
    { at, how, length }: Pick<Extract<Continuation<unknown>, { type: "continue" }>, "at" | "how" | "length">,
  ): void {
    if (how === "grown") return;
    const same = items.slice(0, at);
    const isBack = how === "back" || how === "anew";
    const { hidden, length: messages } = this.#upTo(same);
    this.#cutBack(messages);
    // Hidden items keep their places; those after transient items have moved forward.
    this.#hidden = isBack
      ? hidden
      : this.#hidden.map((place) => place.after > length ? { ...place, after: length } : place);
  }

  #cutBack(length: number): void {
    this.session.cutBack(length);
    this.archive.cutBack(length);
  }

  /** Returns a new session that continues from these items. From then on neither sees what the other archives. */
  fork(
    items: readonly WireItem[],
    { id, scope }: Pick<SessionFacts, "scope"> & { readonly id: string },
  ): GatewaySession {
    const { hidden, length } = this.#upTo(items);
    const archive = this.archive.fork(length);
    const session = this.session.fork(length, { id, archive });
    // Evictions of the shared history that were made later are in the fork, too.
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
   * Returns its archive as its model may read it, which sees these messages. Of its parent's texts a fork may read those of
   * the history that they share, and those that its own prompt refers to, directly or by its archived texts.
   */
  readableWith(shown: () => readonly Message[]): Archive {
    const { archive } = this;
    let reached: Promise<ReadonlySet<string>> | undefined;
    const reach = async () => {
      const refs = new Set(archive.refs());
      // Listed texts are its own, and so are the originals of placeholders in them.
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
        // Other texts may look like a reference.
        const texts = await Promise.all(all.map((ref) => archive.get(ref)));
        return all.filter((_, at) => texts[at] !== undefined);
      },
    };
  }

  /** Returns the number of messages that the upstream sees of these first items of its history. */
  lengthOf(items: readonly WireItem[]): number {
    return this.#upTo(items).length;
  }

  #upTo(items: readonly WireItem[]): { readonly hidden: readonly HiddenPlace[]; readonly length: number } {
    const hidden = this.#hidden.filter(({ after }) => after <= items.length);
    const expanded = expandHidden(items, hidden).items;
    return { hidden, length: expanded.reduce((sum, { parts }) => sum + parts.length, 0) };
  }

  /**
   * Returns the client's history with its hidden items. Those before items that the client has removed are omitted; if a
   * turn continues from there, for good.
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
   * Returns items with the message objects of the newest turn where they mean the same, so that the planner sees no change
   * where only the client's spelling has changed. Items that are new are returned as they are.
   */
  recognise(items: readonly WireItem[], { isTurn }: { readonly isTurn: boolean }): {
    readonly items: readonly WireItem[];
    readonly messages: readonly Message[];
    /** Whether the provider receives other bytes in place of those that it has seen. */
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
      // Nearly all are of the newest turn.
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

  /** Returns a request with its tools in their first order and spelling; only a turn adds new ones. */
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

  /** Decides which functions are not deferred, unless that is decided, or its prompts are cached with all of them. */
  decideFunctions(decide: () => readonly string[] | undefined): void {
    if (this.#facts.functionsInFront !== undefined) return;
    this.#know({ functionsInFront: (this.#facts.isAnswered ? undefined : decide()) ?? "all" });
  }

  /** Adds items that are hidden from the client. */
  hide(places: readonly HiddenPlace[]): void {
    if (places.length > 0) this.#hidden = [...this.#hidden, ...places];
  }

  /** What its provider holds of its newest prompt; `undefined` if unknown. */
  get held(): StoredPrompt | undefined {
    const held = this.#held?.();
    if (held) this.#held = () => held;
    return held;
  }

  /** Whether what its provider holds is known. */
  get isHeldKnown(): boolean {
    return this.#held !== undefined || this.#shown.length === 0;
  }

  /** Notes the view of a turn's successful call, of which its provider holds what `held` returns. */
  sent(
    { messages, saved: { context, prune, truncate } }: Pick<SessionView, "messages" | "saved">,
    held: () => StoredPrompt,
  ): void {
    this.#held = held;
    this.#shown = messages;
    if (context + prune + truncate <= 0) this.#unevicted = messages;
  }

  /**
   * Returns how many messages these share with the newest call, from the first; `undefined` if they contain all of it. If
   * evictions are undone, the newest call before them counts as well: the provider may still have it cached.
   */
  sharedWith(messages: readonly Message[]): number | undefined {
    const kept = sharedLengthOf(this.#shown, messages);
    if (kept === this.#shown.length) return undefined;
    return Math.max(kept, sharedLengthOf(this.#unevicted, messages));
  }

  /** Notes that the upstream accepted an edited request. */
  accepted(): void {
    if (this.#facts.refusals > 0) this.#know({ refusals: 0 });
  }

  /** Notes that the upstream refused an edited request, and accepted the client's own. Returns whether edits end now. */
  refused(): boolean {
    const refusals = this.#facts.refusals + 1;
    const isReverted = refusals >= MAX_REFUSALS;
    this.#know({ refusals });
    if (isReverted) this.leave();
    return isReverted;
  }

  /** Forwards it unchanged from now on. */
  leave(): void {
    if (this.#facts.isReverted) return;
    this.#know({ isReverted: true });
    this.#hidden = [];
    this.session.revert();
  }

  /** Adds a response that its client may continue from. */
  answeredBy(response: SessionResponse): void {
    this.#know({ responses: [...this.#facts.responses, response].slice(-MAX_RESPONSES) });
  }

  /** Adds a compaction by its client. */
  compacted(made: Compaction): void {
    this.#know({ compactions: [...this.#facts.compactions, made].slice(-MAX_COMPACTIONS) });
  }

  /** Notes a text with which its client may begin a new history. */
  sumUp({ text, isSaid, uncounted }: Omit<ClientSummary, "pieces"> & { readonly text: string }): void {
    const { summary: before } = this.#facts;
    // Some clients remove the tags that they requested.
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

  /** Sets its title, which its client's messages no longer change. */
  rename(title: string): void {
    this.session.named(title);
    this.#know({ isNamed: true });
  }

  #know(facts: Partial<SessionFacts>): void {
    this.#facts = { ...this.#facts, ...facts };
  }
}

/** Returns how many messages are the same, from the first. */
function sharedLengthOf(shown: Shown, messages: readonly Message[]): number {
  const at = shown.findIndex((one, at) => {
    const other = messages[at];
    if (one === other || other === undefined) return other === undefined;
    return (typeof one === "number" ? one : hashPiece(one)) !== hashPiece(other);
  });
  return at < 0 ? shown.length : at;
}

/** Returns the number of turns with this history: one that begins with a summary continues the same turn. */
function turnsAfter(
  { turns: { all, shown } = { all: 0, shown: 0 }, summary }: Pick<SessionFacts, "turns" | "summary">,
  items: readonly WireItem[],
): SessionFacts["turns"] {
  const now = countTurns(items);
  const isSame = now === shown || (summary !== undefined && all > 0);
  return { all: isSame ? all : all + Math.max(1, now - shown), shown: now };
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

import { type LoadedSession, Session, type SessionContent, type SessionState } from "@tare/session/internal";
import type { Days, Overview, UsageTotals } from "@tare/session/internal/report";
import { contentText, type CountTokens, type Message, type ToolDefinition } from "@tare/messages";
import { describeCall, firstWords, hashBytes, hashPiece } from "@tare/messages/internal";
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
  QUOTED_CHARS,
  quotes,
  readHistoryItem,
  userSpoke,
  writeHistoryItem,
} from "./history.ts";

/** A request with the properties that identify its session. */
export interface Recognized
  extends
    Pick<SessionFacts, "scope" | "client" | "by" | "name" | "basis">,
    Partial<Pick<SessionFacts, "protocol" | "agent" | "hasTools">> {
  /** Whether its client gives each conversation a key, so that a scope has one. Default: false. */
  readonly isKeyed?: boolean;
  readonly items: readonly WireItem[];
  /** Whether a new session is forwarded unchanged. Default: only in the holdout. */
  readonly isDryRun?: boolean;
  readonly countTokens: CountTokens;
  /** Returns the planner of a session, new or restored. */
  readonly prompts: (
    session: Pick<SessionFacts, "holdout" | "basis" | "agent"> & { readonly archive: SessionArchive },
    stored?: Pick<PromptSession, "state" | "inspected">,
  ) => PromptSession;
}

export interface SessionBasis {
  readonly model: string;
  /** Requested lifetime of cached prompts, in milliseconds. Absent: none. */
  readonly ttlMs?: number;
}

export interface SessionResponse extends Followed {
  readonly id: string;
}

/** A call with which the client compacted the conversation. */
export interface Compaction
  extends Pick<UsageTotals, "promptTokens" | "cachedTokens" | "outputTokens" | "costUnits"> {
  readonly atMs: number;
  /** Absent: the price is unknown. */
  readonly usd?: number;
}

/** A summary with which a client may begin a new history of the conversation. */
export interface ClientSummary {
  readonly pieces: readonly string[];
  /** Its calls, not yet counted as compactions because the client didn't mark them. */
  readonly uncounted: readonly Compaction[];
  readonly isRequested: boolean;
}

/** The owner of a session and the state of its history, as plain data that is stored. */
export interface SessionFacts {
  /** Separates histories that must never be joined: clients, protocols. */
  readonly scope: string;
  /** The client. Absent: its conversations never continue under another scope. */
  readonly client?: string | undefined;
  /** Name of its key. Absent: the owner's. */
  readonly by?: string | undefined;
  /** The client's name for it, unique in its scope. */
  readonly name?: string | undefined;
  readonly protocol: string;
  readonly agent?: string | undefined;
  readonly basis: SessionBasis;
  readonly holdout: boolean;
  readonly startedMs: number;
  readonly lastMs: number;
  /** Bytes of the client's history, which the planner holds in memory. */
  readonly historyBytes: number;
  readonly heads: number;
  /** A line of the user's first message; absent if it is too short. */
  readonly opening?: string | undefined;
  /** Number of turns in all, and in the client's current history. Absent: none yet. */
  readonly turns?: { readonly all: number; readonly visible: number } | undefined;
  readonly hasTools: boolean;
  /** Names of the functions that are not deferred; all, or all after a failed lookup. Absent: undecided. */
  readonly functionsInFront?: readonly string[] | "all" | "restored" | undefined;
  /** Key of its tools in {@linkcode ToolUses}, and those that it has called. Absent: none is deferred. */
  readonly toolUse?: { readonly key: string; readonly called: readonly string[] } | undefined;
  readonly isAnswered: boolean;
  /** Whether its newest turn has no final reply yet. */
  readonly isAmidTurn: boolean;
  readonly isNamed?: true | undefined;
  readonly summary?: ClientSummary | undefined;
  /** Pieces of the summary at the beginning of its history, and whether a model has replied since. */
  readonly begunWith?: { readonly pieces: readonly string[]; readonly isAnswered: boolean } | undefined;
  /** Successive edited requests that the upstream refused while it accepted the client's own. */
  readonly refusals: number;
  readonly isReverted: boolean;
  readonly responses: readonly SessionResponse[];
  readonly compactions: readonly Compaction[];
}

export const NEW_FACTS: Omit<
  SessionFacts,
  "scope" | "protocol" | "basis" | "holdout" | "startedMs" | "lastMs"
> = {
  ...{ historyBytes: 0, heads: 0, hasTools: false, isAnswered: false, isAmidTurn: false },
  ...{ refusals: 0, isReverted: false, responses: [], compactions: [] },
};

/** The messages of a call; of a loaded session those without placeholders are hashes. */
export type VisibleHistory = readonly (Message | number)[];

export interface SessionParts {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** Items of the client's history. Default: 0. */
  readonly length?: number;
  readonly facts: SessionFacts;
  readonly hidden?: readonly HiddenPlace[];
  /** Messages of the newest call. Default: none. */
  readonly visible?: VisibleHistory;
  /** Messages of the newest call without evictions. Default: those of the newest call. */
  readonly unevicted?: VisibleHistory | undefined;
  /** The prompt that its provider has cached. Default: unknown. */
  readonly held?: StoredPrompt | undefined;
  readonly ends?: readonly string[];
}

export interface GatewaySettings extends Pick<SessionFacts, "protocol" | "agent" | "holdout" | "client"> {
  /** Id of its parent, stored or not. */
  readonly forkOf?: string;
}

export interface GatewayTotals
  extends
    Pick<SessionState, "model" | "epoch" | "savedCostUnits">,
    Pick<SessionFacts, "lastMs" | "isReverted"> {
  readonly days: Days;
}

/** Version of stored values; others aren't read. */
const FORMAT = 6;

/** Stored state, in addition to settings, totals, title and texts. Plain data. */
interface StoredValue {
  readonly format: number;
  readonly facts: SessionFacts;
  readonly session: Omit<SessionState, "title" | "days">;
  /** The items of the client's history, and the stems of the last one. */
  readonly items: readonly string[];
  readonly stems: readonly number[];
  /** Hashes and lengths of lines of instructions, by name. */
  readonly instructions: Readonly<Record<string, readonly number[]>>;
  readonly hidden: readonly (Omit<HiddenPlace, "items"> & { readonly items: readonly string[] })[];
  /** References of its archived texts, each with the length of its history at that time. */
  readonly archived: readonly (readonly [ref: string, length: number])[];
  readonly visible: readonly number[];
  /** Hashes of those of the last call without evictions. Absent: the same. */
  readonly unevicted?: readonly number[];
  readonly held?: StoredPrompt;
  /** The messages of `visible` with placeholders. */
  readonly lines: readonly Message[];
  readonly ends: readonly string[];
  readonly state: unknown;
  readonly inspected: unknown;
}

export interface SessionHistory {
  readonly history: StoredHistory;
  readonly instructions: readonly Known[];
}

export type Making = Pick<Recognized, "countTokens" | "prompts"> & Parameters<typeof readItems>[1];

const MAX_COMPACTIONS = 100;

const MAX_RESPONSES = 8;

const SUMMARY_PIECES = 16;

/** Successive refusals before a session is forwarded unchanged: one may be of a prompt that is barely too long. */
const MAX_REFUSALS = 2;

const SESSION_BYTES = 4_096;

/** Memory of an item: in recognition, as sent and as evicted, in bytes. */
const ITEM_BYTES = 2_048;

const CALL_BYTES = 1_024;

const ANY_REF = /\b[0-9a-f]{16}\b/g;

let made = 0;

const ENTRY_BYTES = 200;

interface ArchiveInit {
  readonly texts?: ReadonlyMap<string, string>;
  /** References of the session's texts. Default: none. */
  readonly listed?: Iterable<readonly [ref: string, length: number]>;
  readonly stored?: Archive["get"] | undefined;
}

/**
 * The archive of a session, in memory and store. A fork gets all earlier texts, and lists those of the shared history;
 * later texts are separate. A text belongs to the history that was complete when it was archived.
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

  get bytes(): number {
    return this.#bytes;
  }

  /** References with the length of the history at that time, the oldest first. */
  get listed(): Iterable<readonly [ref: string, length: number]> {
    return this.#listed;
  }

  get texts(): Iterable<readonly [ref: string, content: string]> {
    return this.#texts;
  }

  refs(): readonly string[] {
    return [...this.#listed.keys()];
  }

  grewTo(length: number): void {
    this.#length = length;
  }

  /** Cuts the history back: evicted texts stay listed, but not for a fork of an earlier state. */
  cutBack(length: number): void {
    for (const [ref, at] of this.#listed) this.#listed.set(ref, Math.min(at, length + 1));
  }

  /** Lists a text, such as one that the parent archived for a longer history. */
  list(ref: string): void {
    if (!this.#listed.has(ref)) this.#listed.set(ref, this.#length);
  }

  /** Returns a copy that lists the texts of the first `length` messages. */
  fork(length: number): SessionArchive {
    const listed = [...this.#listed].filter(([, at]) => at <= length);
    return new SessionArchive({ texts: this.#texts, listed, stored: this.#stored });
  }

  /** @throws {Error} if its reference belongs to other content. */
  put(content: string): Promise<string> {
    // Same as `archiveRef`, but synchronous: another thread takes four times as long.
    const ref = createHash("sha256").update(bytesFromText(content)).digest("hex").slice(0, 16);
    const known = this.#texts.get(ref);
    if (known !== undefined && known !== content) {
      return Promise.reject(new Error(`Cannot archive a text under ${ref}: the reference is taken`));
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

export class GatewaySession implements KnownConversation {
  readonly session: Session;
  readonly archive: SessionArchive;
  /** Order of creation in this process. */
  readonly number: number = ++made;
  #length: number;
  #facts: SessionFacts;
  #hidden: readonly HiddenPlace[];
  #visible: VisibleHistory;
  #unevicted: VisibleHistory;
  #held: (() => StoredPrompt) | undefined;
  #history: readonly Message[] = [];
  #ends: readonly string[];
  #tools: readonly ReturnType<typeof steadyTools>["first"][number][] = [];
  /** Newest unchanged tools, without bytes, which would retain the whole request. */
  #sameTools: readonly ToolDefinition[] | undefined;

  constructor(
    { session, archive, length = 0, facts, hidden = [], visible = [], unevicted = visible, held, ends = [] }:
      SessionParts,
  ) {
    this.session = session;
    this.archive = archive;
    this.#length = length;
    this.#facts = facts;
    this.#hidden = hidden;
    this.#visible = visible;
    this.#unevicted = unevicted;
    this.#held = held && (() => held);
    this.#ends = ends;
  }

  static restore(
    { record, totals, title, value: stored, stored: copy, text }: LoadedSession,
    { countTokens, prompts, protocol, readers }: Making,
  ): SessionHistory & { readonly session: GatewaySession } | undefined {
    // Other versions may have stored other data.
    const value = stored as StoredValue | undefined;
    if (value?.format !== FORMAT) return undefined;
    const { items, stems, instructions, hidden, archived, visible, lines, state, inspected } = value;
    const { forkOf: parent } = record.settings as GatewaySettings;
    const { lastMs, isReverted, ...spent } = totals as GatewayTotals;
    const facts: SessionFacts = { ...value.facts, lastMs, isReverted };
    const archive = new SessionArchive({ stored: text, listed: archived });
    const byHash = new Map(lines.map((line) => [hashPiece(line), line]));
    const session = new GatewaySession({
      session: new Session({
        ...{ id: record.id, archive, countTokens, stored: { ...copy, parent } },
        prompts: prompts({ archive, ...facts }, { state, inspected }),
        state: { ...value.session, ...spent, title },
      }),
      ...{ archive, facts, length: items.length },
      hidden: hidden.map(({ items, ...place }) => ({
        ...place,
        items: readItems(items, { protocol, readers }),
      })),
      visible: visible.map((hash) => byHash.get(hash) ?? hash),
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

  static restoreTotals(
    { record, totals, title, stored }: LoadedSession,
    { countTokens, prompts }: Making,
  ): GatewaySession {
    const { by, createdAtMs: startedMs } = record;
    const { forkOf: _, ...settings } = record.settings as GatewaySettings;
    const { lastMs, isReverted, ...spent } = totals as GatewayTotals;
    const basis = { model: spent.model };
    const facts = { ...NEW_FACTS, scope: "", ...settings, basis, by, startedMs, lastMs, isReverted };
    const archive = new SessionArchive();
    return new GatewaySession({
      session: new Session({
        ...{ id: record.id, archive, countTokens, stored },
        prompts: prompts({ archive, ...facts }),
        state: { ...spent, title },
      }),
      ...{ archive, facts },
    });
  }

  get totals(): GatewayTotals {
    const { lastMs, isReverted } = this.#facts;
    const { model, epoch, savedCostUnits, days } = this.session.state;
    return { lastMs, isReverted, model, epoch, savedCostUnits, days };
  }

  /** Returns the stored content, with names unless those of `named` still find it. */
  content({ history, instructions }: SessionHistory, named: unknown): SessionContent {
    const facts = this.#facts;
    const { title: _, days: __, ...session } = this.session.state;
    const known = named as NamedHistory | undefined;
    const names = namesOf(facts, history, { ends: this.#ends, known });
    if (names) this.#ends = names.ends;
    const { state, inspected } = this.session.prompt;
    const value: StoredValue = {
      ...{ format: FORMAT, facts, session, stems: history.stems, ends: this.#ends, state, inspected },
      items: history.items.map(writeHistoryItem),
      instructions: Object.fromEntries(instructions.map((known) => [known.key, plainLines(known)])),
      hidden: this.#hidden.map(plainPlace),
      archived: [...this.archive.listed],
      visible: this.#visible.map(hashOf),
      ...(this.held && { held: this.held }),
      ...(this.#unevicted !== this.#visible && { unevicted: this.#unevicted.map(hashOf) }),
      lines: this.#visible.flatMap((one) => typeof one !== "number" && hasPlaceholder(one) ? [one] : []),
    };
    return {
      ...{ value, texts: this.archive.texts },
      ...(names ? { names: [...names.ends, ...names.others], named: names.named } : { named }),
    };
  }

  get id(): string {
    return this.session.id;
  }

  get by(): string | undefined {
    return this.#facts.by;
  }

  get facts(): SessionFacts {
    return this.#facts;
  }

  /** Whether it has had a turn: earlier requests may have been for titles and the like. */
  get isBegun(): boolean {
    return this.#facts.turns !== undefined;
  }

  get group(): keyof Overview["groups"] {
    return this.#facts.holdout ? "holdout" : "planned";
  }

  get hidden(): readonly HiddenPlace[] {
    return this.#hidden;
  }

  get visible(): VisibleHistory {
    return this.#visible;
  }

  /** Bytes of memory; shared parts count for each session. */
  get bytes(): number {
    const items = this.#hidden.flatMap(({ items }) => items);
    const hiddenBytes = items.reduce((sum, { bytes }) => sum + 3 * (bytes?.length ?? 0), 0);
    const itemBytes = ITEM_BYTES * (this.#length + items.length);
    const { calls } = this.session;
    const toolBytes = this.#tools.reduce((sum, { bytes }) => sum + 3 * bytes.length, 0);
    return SESSION_BYTES + toolBytes + CALL_BYTES * calls.length + itemBytes + this.#facts.historyBytes +
      hiddenBytes +
      this.archive.bytes;
  }

  /** Notes a request that precedes its first turn, or may be it. */
  precede({ items }: Pick<Recognized, "items">): void {
    this.#length = items.length;
    this.#know({ heads: countInstructions(items) });
    if (!this.#facts.isNamed) this.session.setTitle(firstWords(userSpoke(items)?.words ?? ""));
  }

  /** Begins planning with this request, of the first turn or preceding it. */
  begin({ prompts, agent, basis }: Pick<Recognized, "prompts" | "agent" | "basis">): void {
    const { archive, facts: { holdout } } = this;
    this.#know({ agent, basis });
    [this.#visible, this.#held] = [[], undefined];
    this.session.begin(prompts({ archive, holdout, agent, basis }));
  }

  /**
   * Notes a turn's request. If its history begins with a summary, the next one may begin with the same text in another
   * message: some clients add their first calls to it.
   */
  continueWith(
    { items, hasTools = false }: Pick<Recognized, "items" | "hasTools">,
    begunWith?: ClientSummary,
  ): void {
    const { summary } = this.#facts;
    // A summary that was made during a turn is continued from later.
    const isQuoted = summary && quotes(items.slice(this.#length), summary.pieces);
    this.#length = items.length;
    // After the first reply, a first message with another text is the client's summary.
    if (!this.#facts.isAnswered || this.session.state.title === "") {
      const words = userSpoke(items)?.words ?? "";
      this.#know({ opening: openingText(words) });
      if (!this.#facts.isNamed) this.session.setTitle(firstWords(words));
    }
    this.#know({
      historyBytes: items.reduce((sum, { bytes }) => sum + (bytes?.length ?? 0), 0),
      heads: countInstructions(items),
      turns: turnsAfter({ ...this.#facts, summary: begunWith }, items),
      hasTools: this.#facts.hasTools || hasTools,
      isAnswered: this.#facts.isAnswered || hasAnswers(items),
      isAmidTurn: true,
      summary: begunWith || isQuoted ? undefined : summary,
      begunWith: this.#begunWithIn(items, begunWith),
    });
  }

  #begunWithIn(items: readonly WireItem[], newest: ClientSummary | undefined): SessionFacts["begunWith"] {
    // Some clients write the summary as a message of the model.
    if (newest) return { pieces: newest.pieces, isAnswered: false };
    const pieces = this.#facts.begunWith?.pieces;
    return pieces && quotes(items, pieces) ? { pieces, isAnswered: hasAnswers(items) } : undefined;
  }

  addRequest({ atMs, model }: { readonly atMs: number; readonly model?: string | undefined }): void {
    this.#know({ lastMs: atMs });
    if (model !== undefined) this.session.addRequest(model);
  }

  /** Notes a turn's complete reply, the last one if it calls no tools. */
  replied({ callsClient }: Pick<WireReply, "callsClient">): void {
    this.#know({ isAmidTurn: callsClient });
  }

  /** Cuts its history back to the items that it shares with a request. */
  continueFrom(
    items: readonly WireItem[],
    { at, how, length }: Pick<Extract<Continuation<unknown>, { type: "continue" }>, "at" | "how" | "length">,
  ): void {
    if (how === "grown") return;
    const same = items.slice(0, at);
    const isBack = how === "back" || how === "compacted";
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

  /** Returns a new session that continues from these items, with an archive of its own. */
  fork(
    items: readonly WireItem[],
    { id, scope }: Pick<SessionFacts, "scope"> & { readonly id: string },
  ): GatewaySession {
    const { hidden, length } = this.#upTo(items);
    const archive = this.archive.fork(length);
    const session = this.session.fork(length, { id, archive });
    // The fork contains later evictions of the shared history.
    const state = JSON.stringify(session.prompt.state);
    for (const ref of this.archive.refs()) if (state.includes(ref)) archive.list(ref);
    const fork = new GatewaySession({
      ...{ session, archive },
      length: items.length,
      facts: {
        ...{ ...this.#facts, scope, name: undefined, responses: [], compactions: [], toolUse: undefined },
        isAnswered: hasAnswers(items),
        isNamed: undefined,
      },
      hidden,
      ...{ visible: this.#visible, unevicted: this.#unevicted },
    });
    fork.#held = this.#held;
    fork.#tools = this.#tools;
    fork.#history = this.#history;
    return fork;
  }

  /**
   * Returns the part of its archive that its model may read, which sees these messages. A fork may read its parent's
   * texts of the shared history, and those that its prompt references, directly or through archived texts.
   */
  readableWith(visible: () => readonly Message[]): Archive {
    const { archive } = this;
    let reached: Promise<ReadonlySet<string>> | undefined;
    const reach = async () => {
      const refs = new Set(archive.refs());
      // Texts whose placeholders occur in listed texts are included.
      const waiting = [...refs];
      const read = (text: string) => {
        for (const [ref] of text.matchAll(ANY_REF)) {
          if (!refs.has(ref)) waiting.push(ref);
          refs.add(ref);
        }
      };
      if (this.session.stored.parent === undefined) return refs;
      read(JSON.stringify(this.session.prompt.state));
      read(JSON.stringify(visible()));
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

  /** Returns the number of the upstream's messages for these first items. */
  lengthOf(items: readonly WireItem[]): number {
    return this.#upTo(items).length;
  }

  #upTo(items: readonly WireItem[]): { readonly hidden: readonly HiddenPlace[]; readonly length: number } {
    const hidden = this.#hidden.filter(({ after }) => after <= items.length);
    const expanded = expandHidden(items, hidden).items;
    return { hidden, length: expanded.reduce((sum, { parts }) => sum + parts.length, 0) };
  }

  /**
   * Returns the client's history with its hidden items, without those whose anchors the client has removed. A turn
   * removes those permanently.
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
   * Returns items with the newest turn's message objects where they are equivalent, so that the planner sees no change
   * if only the client's spelling has changed.
   */
  recognize(items: readonly WireItem[], { isTurn }: { readonly isTurn: boolean }): {
    readonly items: readonly WireItem[];
    readonly messages: readonly Message[];
    /** Whether the provider receives other bytes for known messages. */
    readonly isRespelled: boolean;
  } {
    const before = this.#history;
    const messages: Message[] = [];
    const others = new Map<number, WireItem>();
    let isRespelled = false;
    const recognized = (part: ItemPart): ItemPart => {
      const known = before[messages.length];
      const isSame = known && known !== part.message && hashPiece(known) === hashPiece(part.message);
      messages.push(isSame ? known : part.message);
      if (!isSame) return part;
      isRespelled ||= hashBytes(known) !== hashBytes(part.message);
      return { ...part, message: known };
    };
    for (let at = 0; at < items.length; at++) {
      const item = items[at]!;
      let same = 0;
      while (same < item.parts.length && item.parts[same]!.message === before[messages.length]) {
        messages.push(item.parts[same++]!.message);
      }
      if (same === item.parts.length) continue;
      const parts = [...item.parts.slice(0, same), ...item.parts.slice(same).map(recognized)];
      if (parts.some((part, more) => part !== item.parts[more])) others.set(at, { ...item, parts });
    }
    if (isTurn) {
      this.#history = messages;
      this.archive.grewTo(messages.length);
    }
    const known = others.size === 0 ? items : items.map((item, at) => others.get(at) ?? item);
    return { items: known, messages, isRespelled };
  }

  /** Returns a request with its tools in their first order and spelling; only turns add new ones. */
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

  /** Notes which functions are not deferred, by the key of its tools in {@linkcode ToolUses}. */
  decideFunctions(functionsInFront: NonNullable<SessionFacts["functionsInFront"]>, key: string): void {
    const isDeferring = functionsInFront !== "all";
    this.#know({ functionsInFront, ...(isDeferring && { toolUse: { key, called: [] } }) });
  }

  /** Notes the calls of a request's tools. Returns the names of those that are called for the first time. */
  noteCalls({ items, tools = [] }: Pick<WireRequest, "items" | "tools">): readonly string[] {
    const { toolUse } = this.#facts;
    if (!toolUse) return [];
    const names = new Set(tools.map(({ definition }) => definition.function.name));
    for (const name of toolUse.called) names.delete(name);
    const calls = items.flatMap(({ parts }) =>
      parts.flatMap(({ message }) => message.role === "assistant" ? message.tool_calls ?? [] : [])
    );
    const first = new Set(calls.map((call) => describeCall(call).name).filter((name) => names.has(name)));
    if (first.size > 0) this.#know({ toolUse: { ...toolUse, called: [...toolUse.called, ...first] } });
    return [...first];
  }

  /** Ends the deferral of tools. */
  restoreTools(): void {
    if (Array.isArray(this.#facts.functionsInFront)) this.#know({ functionsInFront: "restored" });
  }

  hide(places: readonly HiddenPlace[]): void {
    if (places.length > 0) this.#hidden = [...this.#hidden, ...places];
  }

  get held(): StoredPrompt | undefined {
    const held = this.#held?.();
    if (held) this.#held = () => held;
    return held;
  }

  get isHeldKnown(): boolean {
    return this.#held !== undefined || this.#visible.length === 0;
  }

  /** Notes the view of a turn's successful call; `held` returns the prompt that the provider has cached. */
  sent(
    { messages, saved: { context, prune, truncate } }: Pick<SessionView, "messages" | "saved">,
    held: () => StoredPrompt,
  ): void {
    this.#held = held;
    this.#visible = messages;
    if (context + prune + truncate <= 0) this.#unevicted = messages;
  }

  /**
   * Returns the number of first messages shared with the newest call; `undefined` if they contain all of it. If
   * evictions are undone, the newest call without them counts too: it may still be cached.
   */
  sharedWith(messages: readonly Message[]): number | undefined {
    const shared = sharedLengthOf(this.#visible, messages);
    if (shared === this.#visible.length) return undefined;
    return Math.max(shared, sharedLengthOf(this.#unevicted, messages));
  }

  accepted(): void {
    if (this.#facts.refusals > 0) this.#know({ refusals: 0 });
  }

  /** Notes that the upstream refused an edited request and accepted the client's own. Returns whether edits end now. */
  refused(): boolean {
    const refusals = this.#facts.refusals + 1;
    const isReverted = refusals >= MAX_REFUSALS;
    this.#know({ refusals });
    this.restoreTools();
    if (isReverted) this.revert();
    return isReverted;
  }

  revert(): void {
    if (this.#facts.isReverted) return;
    this.#know({ isReverted: true });
    this.#hidden = [];
    this.session.revert();
  }

  answeredBy(response: SessionResponse): void {
    this.#know({ responses: [...this.#facts.responses, response].slice(-MAX_RESPONSES) });
  }

  compacted(made: Compaction): void {
    this.#know({ compactions: [...this.#facts.compactions, made].slice(-MAX_COMPACTIONS) });
  }

  /** Notes a summary with which its client may begin a new history. */
  addSummary(
    { text, isRequested, uncounted }: Omit<ClientSummary, "pieces"> & { readonly text: string },
  ): void {
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
        isRequested: isRequested || (before?.isRequested ?? false),
      },
    });
  }

  rename(title: string): void {
    this.session.setTitle(title);
    this.#know({ isNamed: true });
  }

  #know(facts: Partial<SessionFacts>): void {
    this.#facts = { ...this.#facts, ...facts };
  }
}

function sharedLengthOf(visible: VisibleHistory, messages: readonly Message[]): number {
  const at = visible.findIndex((one, at) => {
    const other = messages[at];
    if (one === other || other === undefined) return other === undefined;
    return (typeof one === "number" ? one : hashPiece(one)) !== hashPiece(other);
  });
  return at < 0 ? visible.length : at;
}

/** Returns the number of turns; a history that begins with a summary continues the same turn. */
function turnsAfter(
  { turns: { all, visible } = { all: 0, visible: 0 }, summary }: Pick<SessionFacts, "turns" | "summary">,
  items: readonly WireItem[],
): SessionFacts["turns"] {
  const now = countTurns(items);
  const isSame = now === visible || (summary !== undefined && all > 0);
  return { all: isSame ? all : all + Math.max(1, now - visible), visible: now };
}

function pairsOf(flat: readonly number[]): Map<number, number> {
  const pairs = new Map<number, number>();
  for (let at = 0; at + 1 < flat.length; at += 2) pairs.set(flat[at]!, flat[at + 1]!);
  return pairs;
}

function plainPlace(hidden: HiddenPlace): StoredValue["hidden"][number] {
  const { items, ...place } = hidden;
  const plain = plainPlaces.get(hidden) ??
    { ...place, items: items.map(({ bytes }) => decoder.decode(bytes)) };
  plainPlaces.set(hidden, plain);
  return plain;
}

function plainLines(known: Known): readonly number[] {
  const plain = linesOfInstructions.get(known) ?? [...known.lines].flat();
  linesOfInstructions.set(known, plain);
  return plain;
}

function hashOf(message: Message | number): number {
  return typeof message === "number" ? message : hashPiece(message);
}

/** Whether a message contains a placeholder, which quotes may be replaced with. */
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

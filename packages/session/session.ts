import { contentText, type CountTokens, type Message, type Rewrite, type Usage } from "@tare/messages";
import {
  type History,
  type Idle,
  type LedgerEntry,
  type Pin,
  type Ping,
  type PingEntry,
  type PingSent,
  type Profile,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type Quote,
  readTooLong,
  type SessionView,
} from "@tare/planner";
import { makePin, type NewPin, pinsAfter } from "@tare/planner/internal";
import { findClientChange, withClientChange } from "@tare/planner/internal/parts";
import type { Archive } from "@tare/prune";
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import { addDays, addToDay, type CallReport, type Days, type Sums } from "./report/calls.ts";
import type { SeenSession } from "./report/prompt_report.ts";
import type { StoredState } from "./store/session_records.ts";

/** State of a conversation without its messages and that of its prompt session. Plain data, which is stored. */
export interface SessionState {
  /** First line of the user's first message; empty before it. */
  readonly title: string;
  /** The model that was requested last. */
  readonly model: string;
  /** Messages that users retain or evict. */
  readonly pins: readonly Pin[];
  /** Number of rewrites of its prompt. */
  readonly epoch: number;
  /** Cost units that it has saved so far; 0 if its policy has no ledger. */
  readonly savedTokenUnits: number;
  /** The newest rewrites of its prompt, the oldest first. */
  readonly rewrites: readonly DatedRewrite[];
  /** Those of them for a call that has not succeeded yet. */
  readonly unsent: readonly Rewrite[];
  /** Totals of its calls. */
  readonly days: Days;
  /** Metrics of its newest view; absent before the first. */
  readonly figures?: Pick<SessionView, "promptTokens" | "saved"> | undefined;
  /** Name of its prompts for caches that are selected by a name; absent before the first request. */
  readonly cacheKey?: string | undefined;
}

/** A rewrite and its time in milliseconds since the epoch. */
export interface DatedRewrite extends Rewrite {
  readonly atMs: number;
}

/** A session that is written after the fact as its store has it, as far as that is known. */
export interface StoredCopy extends Pick<StoredState, "title" | "whole" | "summed" | "refs"> {
  /** Fencing number of its newest hold when it was last read or written; 0 where the store isn't shared. Absent: it isn't stored. */
  readonly fence?: number | undefined;
  /** The session that it is a fork of: the nearest of its ancestors that was stored. Absent: it is none. */
  readonly parent?: string | undefined;
  /** The days of its stored totals. */
  readonly days: Days;
  /** Its totals as JSON. */
  readonly totals?: string;
  /** Number of its last event, each of which is a call. */
  readonly lastEvent: number;
  /** The newest stored call that was made in this process. */
  readonly lastCall?: CallReport | undefined;
  /** Ids of its newest commits, the newest first. */
  readonly writes: readonly string[];
  /** What its stored names are of. Absent: unknown. */
  readonly named?: unknown;
  /** How it is stored if a commit succeeded that failed or wasn't answered; the newest first. */
  readonly attempts?: readonly StoredCopy[];
}

/** A session of which nothing is stored. */
export const NOT_STORED: StoredCopy = { title: "", refs: new Set(), days: {}, lastEvent: 0, writes: [] };

/** Parts of a session. */
export interface SessionInit {
  readonly id: string;
  /** Originals of what was evicted from its prompt. */
  readonly archive: Archive;
  /** Plans what its model sees. */
  readonly prompts: PromptSession;
  readonly countTokens: CountTokens;
  /** Tools whose results a recall returns with images. Default: none. */
  readonly tools?: PromptSessionOptions["tools"];
  /** Its stored state. Default: it is new. */
  readonly state?: Partial<SessionState> | undefined;
  /** What is stored of it, if it is written after the fact. Default: nothing. */
  readonly stored?: StoredCopy;
}

/** A call for which a prompt is planned. */
export interface SessionCall extends Omit<PromptCall, "pins"> {
  /** The messages in their client's current spelling. Default: those of the history. */
  readonly spelled?: readonly Message[];
}

/** Plans calls of a conversation. */
export type CallPlanner = Pick<Session, "view" | "sent" | "rejected">;

/** Options of {@linkcode Session.cacheKey}. */
export interface CacheKeyOptions {
  /** Whether the request is a turn: only a turn's key is stored. Default: yes. */
  readonly isTurn?: boolean;
}

/** Options of {@linkcode Session.glimpse}. */
export interface GlimpseOptions {
  /** Whether evictions are undone: see `PromptCall.restores`. Default: no. */
  readonly restores?: boolean;
}

/** A history at a time in milliseconds since the epoch. */
export interface HistoryNow extends History {
  readonly nowMs: number;
}

/** Options of {@linkcode Session.book}. */
export interface BookOptions {
  /** Default: the model that was requested last. */
  readonly model?: string | undefined;
}

/** A change of the pins of a conversation. */
export type PinChange = { readonly set: Pin } | { readonly remove: number };

/** A fork's id and archive. */
export interface ForkPlace {
  readonly id: string;
  /** An archive with all texts of the parent's. */
  readonly archive: Archive;
}

/** The state of a new conversation. */
const NEW: SessionState = {
  title: "",
  model: "",
  pins: [],
  epoch: 0,
  savedTokenUnits: 0,
  rewrites: [],
  unsent: [],
  days: {},
};

/** Most rewrites in a session's state. */
const MAX_REWRITES = 100;

/** Most calls of a session in memory. */
const MAX_CALLS = 2_000;

/** Longest slice of work while others wait, in milliseconds. */
const SLICE_MS = 3;

/** Shortest slice of work, in milliseconds: most requests need no more. */
const SHORT_MS = 1;

/** Time since which the event loop has been blocked, by one or several slices. Absent: it has run since. */
let waitingSinceMs: number | undefined;

/** Notes that the event loop is blocked from now on, unless it is already. Returns the time. */
function holdUp(): number {
  const nowMs = performance.now();
  if (waitingSinceMs === undefined) {
    waitingSinceMs = nowMs;
    setImmediate(() => waitingSinceMs = undefined);
  }
  return nowMs;
}

/** Resolves once all slices that wait have begun. */
let lastSlice = Promise.resolve();

/**
 * A conversation of the agent or of a gateway's client: what its model sees, the originals of evictions, pins, and the
 * totals of its calls. Its messages are passed in by the owner of its loop.
 */
export class Session {
  /**
   * Runs work in slices, between which other requests are served. Of several works one continues at a time, so that a small
   * request waits for a single slice, however many there are.
   */
  static async inSlices<T>(steps: Iterator<void, T>): Promise<T> {
    for (let startedMs = holdUp();;) {
      const { done, value } = steps.next();
      if (done) return value;
      const nowMs = performance.now();
      if (nowMs - startedMs < SHORT_MS || nowMs - (waitingSinceMs ?? nowMs) < SLICE_MS) continue;
      // A timer: the runtime handles pending input and output before it.
      await (lastSlice = lastSlice.then(() => new Promise((resolve) => setTimeout(resolve))));
      startedMs = holdUp();
    }
  }

  readonly id: string;
  /** Originals of what was evicted from its prompt. */
  readonly archive: Archive;
  #prompts: PromptSession;
  readonly #countTokens: CountTokens;
  readonly #tools: SessionInit["tools"];
  #state: SessionState;
  #stored: StoredCopy;
  #calls: readonly CallReport[] = [];
  #seen: Pick<SeenSession, "history" | "view"> | undefined;
  /** The newest request in its client's spelling. */
  #asked: History | undefined;
  /** The client's change before the call that has not succeeded yet. */
  #changed: NonNullable<LedgerEntry["changed"]> | undefined;

  /** Makes a session of its stored state, or a new one. */
  constructor({ id, archive, prompts, countTokens, tools, state, stored = NOT_STORED }: SessionInit) {
    this.id = id;
    this.archive = archive;
    this.#prompts = prompts;
    this.#countTokens = countTokens;
    this.#tools = tools;
    this.#state = { ...NEW, ...state };
    this.#stored = stored;
  }

  /** Its state: the same object as long as nothing has changed. */
  get state(): SessionState {
    return this.#state;
  }

  /** What is stored of it, if it is written after the fact. */
  get stored(): StoredCopy {
    return this.#stored;
  }

  /** Notes what is stored of it after a commit or an attempt. */
  wrote(stored: StoredCopy): void {
    this.#stored = stored;
  }

  /** The state of its prompt session, to be stored: see `PromptSession.state` and `lookedAt`. */
  get prompt(): Pick<PromptSession, "state" | "lookedAt"> {
    return this.#prompts;
  }

  /** The cache rules and prices of its provider. */
  get profile(): Profile {
    return this.#prompts.profile;
  }

  /** Whether its policy reports costs and savings. */
  get knowsCosts(): boolean {
    return this.#prompts.quote !== undefined;
  }

  /** The newest successful calls, the oldest first. */
  get calls(): readonly CallReport[] {
    return this.#calls;
  }

  /** The history and view of its newest turn; `undefined` before the first. */
  get newest(): Pick<SeenSession, "history" | "view"> | undefined {
    return this.#seen;
  }

  /** Notes a request to this model. */
  asked(model: string): void {
    if (model !== this.#state.model) this.#change({ model });
  }

  /** Sets its title. */
  named(title: string): void {
    if (title !== this.#state.title) this.#change({ title });
  }

  /**
   * Returns its name for caches that are selected by a name: a hash of everything before the first reply, as of its first
   * request. Conversations that begin alike share it, forks and subagents among them; it stays the same when a client begins
   * a new history, and after a restart.
   */
  cacheKey(messages: readonly Message[], { isTurn = true }: CacheKeyOptions = {}): string {
    const known = this.#state.cacheKey;
    if (known !== undefined) return known;
    const cacheKey = nameOf(opening(messages));
    if (isTurn) this.#change({ cacheKey });
    return cacheKey;
  }

  /** Begins again with `prompts`; of what came before only the totals stay. */
  begin(prompts: PromptSession): void {
    this.#prompts = prompts;
    this.#seen = this.#asked = this.#changed = undefined;
    const { epoch, savedTokenUnits, rewrites, unsent } = NEW;
    this.#change({ epoch, savedTokenUnits, rewrites, unsent, figures: undefined, cacheKey: undefined });
  }

  /**
   * Returns what the next call sends of a history. A call that is no turn sees the newest view and what was added since, and
   * changes nothing.
   */
  async view(
    history: History,
    { spelled = history.messages, ...call }: SessionCall,
  ): Promise<SessionView> {
    const prompts = this.#prompts;
    const view = await prompts.view(history, { ...call, pins: this.#state.pins });
    if (call.oneShot || prompts !== this.#prompts) return view;
    const { rewrites, promptTokens, saved, endedPins = [] } = view;
    const asked = { messages: spelled, tools: history.tools };
    this.#changed ??= findClientChange(this.#asked, asked, this.#countTokens);
    this.#asked = asked;
    this.#seen = { history, view };
    const { pins, epoch, rewrites: before, unsent } = this.#state;
    const dated = rewrites.map((rewrite): SessionState["rewrites"][number] => ({
      atMs: call.nowMs,
      ...rewrite,
    }));
    this.#change({
      figures: { promptTokens, saved },
      ...(endedPins.length > 0 &&
        { pins: endedPins.reduce((left, { place }) => pinsAfter(left, { remove: place }), pins) }),
      ...(rewrites.length > 0 && {
        epoch: epoch + 1,
        rewrites: [...before, ...dated].slice(-MAX_REWRITES),
        unsent: [...unsent, ...rewrites].slice(-MAX_REWRITES),
      }),
    });
    return view;
  }

  /** Records a successful call, of whose prompt the provider's cache held `heldTokens`, if known. Returns its ledger entry. */
  sent(usage: Usage | undefined, view: SessionView, heldTokens?: number): LedgerEntry | undefined {
    const entry = this.#prompts.sent(usage, view, heldTokens);
    if (entry) this.#change({ savedTokenUnits: entry.savedTokenUnits });
    const changed = this.#changed;
    this.#changed = undefined;
    return entry && changed ? withClientChange(entry, changed) : entry;
  }

  /**
   * Notes a call that the provider refused with this message. Returns whether its prompt is too long: then the next view is
   * shorter.
   */
  rejected(words: string, view: SessionView): boolean {
    return reject(this.#prompts, { words, view });
  }

  /** Plans a request that is no turn and continues from the first `length` messages. Changes nothing. */
  glimpse(length: number, { restores = false }: GlimpseOptions = {}): CallPlanner {
    return this.#glimpseBy(this.#prompts.fork(length, this.archive, { aside: true }), restores);
  }

  #glimpseBy(prompts: PromptSession, restores = false): CallPlanner {
    return {
      view: (history, { spelled: _, ...call }) =>
        prompts.view(history, { ...call, restores, pins: this.#state.pins }),
      sent: (usage, view, heldTokens) => prompts.sent(usage, view, heldTokens),
      rejected: (words, view) => reject(prompts, { words, view }),
    };
  }

  /** Returns what users see of the model's newest prompt: the newest turn's view, or a view of this history. */
  async see(history?: HistoryNow): Promise<SeenSession> {
    const told = { pins: this.#state.pins, countTokens: this.#countTokens };
    if (!history) return { ...(this.#seen ?? NOTHING_SEEN), ...told };
    const { nowMs, ...messages } = history;
    const call = { nowMs, model: this.#state.model, oneShot: true, pins: told.pins };
    return { history: messages, view: await this.#prompts.view(messages, call), ...told };
  }

  /**
   * Plans a request that may be its first turn, or no turn: as a turn, which is forgotten if the conversation begins with
   * another request.
   */
  draft(): CallPlanner {
    const prompts = this.#prompts;
    const planner = () => prompts === this.#prompts ? this : this.#glimpseBy(prompts);
    return {
      view: (history, call) => planner().view(history, call),
      sent: (usage, view, heldTokens) => planner().sent(usage, view, heldTokens),
      rejected: (words, view) => planner().rejected(words, view),
    };
  }

  /** Returns the cost of the next request; `undefined` if the policy reports no costs. */
  quote(history: History, nowMs: number): Quote | undefined {
    const { model, pins } = this.#state;
    return this.#prompts.quote?.(history, { nowMs, model, pins });
  }

  /** Returns the next keep-alive request while it is idle; `undefined` if none pays, or the policy reports no costs. */
  nextPing(idle: Idle): Ping | undefined {
    return this.#prompts.nextPing?.(idle);
  }

  /** Records an answered keep-alive request and returns its cost. @throws {Error} if nothing was sent yet. */
  pinged(sent: PingSent): PingEntry {
    const entry = this.#prompts.pinged?.(sent);
    if (!entry) throw new Error("Cannot book a ping: this conversation's policy knows nothing of costs");
    this.#change({ savedTokenUnits: entry.savedTokenUnits });
    return entry;
  }

  /** Why messages cannot be pinned, as text after "Cannot pin"; `undefined` if they can. */
  get noPins(): string | undefined {
    return this.#prompts.noPins;
  }

  /** Returns a pin for a message. @throws {RangeError} if it cannot be pinned so. */
  makePin(messages: readonly Message[], wanted: NewPin): Pin {
    return makePin(messages, wanted, { countTokens: this.#countTokens, tools: this.#tools });
  }

  /** Sets the pin of a message in place of an earlier one, or removes it. */
  pin(change: PinChange): void {
    this.#change({ pins: pinsAfter(this.#state.pins, change) });
  }

  /**
   * Adds totals at a time in milliseconds since the epoch. Default: of the model that was requested last.
   */
  book(more: Partial<Sums>, atMs: number, { model = this.#state.model }: BookOptions = {}): void {
    this.#change({ days: addToDay(this.#state.days, more, { atMs, model }) });
  }

  /** Adds totals of other servers. */
  bookDays(more: Days): void {
    this.#change({ days: addDays(this.#state.days, more) });
  }

  /** Adds a call; one of a turn has reported its rewrites. */
  note(call: CallReport): void {
    this.#calls = [...this.#calls, call].slice(-MAX_CALLS);
    if (call.purpose === "turn" && this.#state.unsent.length > 0) this.#change({ unsent: [] });
  }

  /** Returns a session that continues from the first `length` messages. */
  fork(length: number, { id, archive }: ForkPlace): Session {
    const { title, model, epoch, pins } = this.#state;
    const { fence, refs, parent = this.id } = this.#stored;
    return new Session({
      id,
      archive,
      prompts: this.#prompts.fork(length, archive),
      countTokens: this.#countTokens,
      state: { title, model, epoch, pins: pins.filter(({ place }) => place < length) },
      stored: { ...NOT_STORED, refs, parent: fence === undefined ? parent : this.id },
    });
  }

  /** Goes back to the first `length` messages. */
  cutBack(length: number): void {
    this.#prompts.cutBack(length);
  }

  /** Sends everything unchanged from now on. */
  revert(): void {
    this.#prompts.revert();
  }

  #change(change: Partial<SessionState>): void {
    this.#state = { ...this.#state, ...change };
  }
}

/** Returns the beginning of a conversation: everything before the first reply. */
function opening(messages: readonly Message[]): readonly (readonly [role: string, text: string])[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return messages.slice(0, first < 0 ? undefined : first)
    .map(({ role, content }) => [role, contentText(content)]);
}

/** Returns a UUID of a value's hash (version 8 of RFC 9562): some providers accept no other names. */
function nameOf(value: unknown): string {
  const hash = createHash("sha256").update(JSON.stringify(value)).digest("hex");
  return [
    hash.slice(0, 8),
    hash.slice(8, 12),
    `8${hash.slice(13, 16)}`,
    `8${hash.slice(17, 20)}`,
    hash.slice(20, 32),
  ]
    .join("-");
}

function reject(
  prompts: PromptSession,
  { words, view }: { readonly words: string; readonly view: SessionView },
): boolean {
  const told = readTooLong(words);
  if (!told) return false;
  prompts.rejected(told.windowTokens, { promptTokens: told.promptTokens, view });
  return true;
}

const NOTHING_SEEN: Pick<SeenSession, "history" | "view"> = {
  history: { messages: [], tools: [] },
  view: { messages: [], tools: [], places: [] },
};

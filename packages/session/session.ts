import { contentText, type CountTokens, type Message, type Rewrite, type Usage } from "@tare/messages";
import {
  type History,
  type Idle,
  type KeepAliveEntry,
  type KeepAliveRequest,
  type LedgerEntry,
  type Pin,
  type Profile,
  type PromptCall,
  type PromptSession,
  type PromptSessionOptions,
  type Quote,
  readTooLong,
  type SentKeepAlive,
  type SessionView,
} from "@tare/planner";
import { makePin, type NewPin, pinRefusals, pinsAfter } from "@tare/planner/internal";
import { findClientChange, withClientChange } from "@tare/planner/internal/parts";
import type { Archive } from "@tare/prune";
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import { addDays, addToDay, type CallReport, type Days, type UsageTotals } from "./report/calls.ts";
import type { PromptSnapshot } from "./report/prompt_report.ts";
import type { StoredState } from "./store/session_records.ts";

/** State of a conversation without its messages and its prompt session's state. Plain data. */
export interface SessionState {
  readonly title: string;
  readonly model: string;
  /** Messages that users retain or evict. */
  readonly pins: readonly Pin[];
  readonly epoch: number;
  /** Estimated saving in cost units; 0 without a ledger. */
  readonly savedCostUnits: number;
  /** Oldest first. */
  readonly rewrites: readonly DatedRewrite[];
  /** Rewrites whose call has not succeeded yet. */
  readonly unsent: readonly Rewrite[];
  readonly days: Days;
  readonly metrics?: Pick<SessionView, "promptTokens" | "saved"> | undefined;
  /** Prompt cache key; absent before the first request. */
  readonly cacheKey?: string | undefined;
}

/** A rewrite and its time. */
export interface DatedRewrite extends Rewrite {
  readonly atMs: number;
}

/** The known stored copy of a session that is written behind. */
export interface StoredCopy extends Pick<StoredState, "title" | "whole" | "summed" | "refs"> {
  /** Fencing number of its newest known hold; 0 if the store isn't shared. Absent: it isn't stored. */
  readonly fence?: number | undefined;
  /** Nearest stored ancestor of a fork. Absent: it is no fork. */
  readonly parent?: string | undefined;
  readonly days: Days;
  readonly totals?: string;
  /** Number of its last event; each event is a call. */
  readonly lastEvent: number;
  readonly lastCall?: CallReport | undefined;
  readonly writes: readonly string[];
  /** Source of its stored names. Absent: unknown. */
  readonly named?: unknown;
  /** Its state if a failed or unanswered commit succeeded; the newest first. */
  readonly attempts?: readonly StoredCopy[];
}

export const NOT_STORED: StoredCopy = { title: "", refs: new Set(), days: {}, lastEvent: 0, writes: [] };

/** Parts of a session. */
export interface SessionInit {
  readonly id: string;
  /** Originals of what was evicted from its prompt. */
  readonly archive: Archive;
  readonly prompts: PromptSession;
  readonly countTokens: CountTokens;
  /** Tools whose results a recall returns with images. Default: none. */
  readonly tools?: PromptSessionOptions["tools"];
  /** Default: it is new. */
  readonly state?: Partial<SessionState> | undefined;
  /** Its stored copy, if it is written behind. Default: not stored. */
  readonly stored?: StoredCopy;
}

/** A call for which a prompt is planned. */
export interface SessionCall extends Omit<PromptCall, "pins"> {
  /** The messages in their client's current spelling. Default: those of the history. */
  readonly spelled?: readonly Message[];
}

/** Plans calls. */
export type CallPlanner = Pick<Session, "view" | "sent" | "rejected">;

/** Options of a cache key. */
export interface CacheKeyOptions {
  /** Whether the request is a turn; only a turn's key is stored. Default: yes. */
  readonly isTurn?: boolean;
}

/** Options of a one-shot plan. */
export interface GlimpseOptions {
  /** Whether evictions are undone: see `PromptCall.restores`. Default: no. */
  readonly restores?: boolean;
}

/** A history and the current time. */
export interface HistoryNow extends History {
  readonly nowMs: number;
}

/** Options of added totals. */
export interface RecordOptions {
  /** Default: the model that was requested last. */
  readonly model?: string | undefined;
}

/** A change of pins. */
export type PinChange = { readonly set: Pin } | { readonly remove: number };

/** A fork's id and archive. */
export interface ForkPlace {
  readonly id: string;
  readonly archive: Archive;
}

const NEW: SessionState = {
  title: "",
  model: "",
  pins: [],
  epoch: 0,
  savedCostUnits: 0,
  rewrites: [],
  unsent: [],
  days: {},
};

const MAX_REWRITES = 100;

const MAX_CALLS = 2_000;

/** Longest slice of work while others wait, in milliseconds. */
const SLICE_MS = 3;

/** Shortest slice of work, in milliseconds; most requests need no more. */
const SHORT_MS = 1;

/** Time since which the event loop has been blocked. Absent: it has run since. */
let waitingSinceMs: number | undefined;

function holdUp(): number {
  const nowMs = performance.now();
  if (waitingSinceMs === undefined) {
    waitingSinceMs = nowMs;
    setImmediate(() => waitingSinceMs = undefined);
  }
  return nowMs;
}

let lastSlice = Promise.resolve();

/** A conversation of the agent or of a gateway's client: prompts, originals of evictions, pins and totals. */
export class Session {
  /**
   * Runs work in slices, between which other requests are served. Concurrent works take turns, so that a small request
   * waits for one slice.
   */
  static async inSlices<T>(steps: Iterator<void, T>): Promise<T> {
    for (let startedMs = holdUp();;) {
      const { done, value } = steps.next();
      if (done) return value;
      const nowMs = performance.now();
      if (nowMs - startedMs < SHORT_MS || nowMs - (waitingSinceMs ?? nowMs) < SLICE_MS) continue;
      // A timer: the runtime handles pending input and output first.
      await (lastSlice = lastSlice.then(() => new Promise((resolve) => setTimeout(resolve))));
      startedMs = holdUp();
    }
  }

  readonly id: string;
  readonly archive: Archive;
  #prompts: PromptSession;
  readonly #countTokens: CountTokens;
  readonly #tools: SessionInit["tools"];
  #state: SessionState;
  #stored: StoredCopy;
  #calls: readonly CallReport[] = [];
  #seen: Pick<PromptSnapshot, "history" | "view"> | undefined;
  #requested: History | undefined;
  #changed: NonNullable<LedgerEntry["changed"]> | undefined;

  constructor({ id, archive, prompts, countTokens, tools, state, stored = NOT_STORED }: SessionInit) {
    this.id = id;
    this.archive = archive;
    this.#prompts = prompts;
    this.#countTokens = countTokens;
    this.#tools = tools;
    this.#state = { ...NEW, ...state };
    this.#stored = stored;
  }

  /** Its state; the same object while nothing changes. */
  get state(): SessionState {
    return this.#state;
  }

  get stored(): StoredCopy {
    return this.#stored;
  }

  setStored(stored: StoredCopy): void {
    this.#stored = stored;
  }

  get prompt(): Pick<PromptSession, "state" | "inspected"> {
    return this.#prompts;
  }

  get profile(): Profile {
    return this.#prompts.profile;
  }

  get hasLedger(): boolean {
    return this.#prompts.quote !== undefined;
  }

  get calls(): readonly CallReport[] {
    return this.#calls;
  }

  get newest(): Pick<PromptSnapshot, "history" | "view"> | undefined {
    return this.#seen;
  }

  addRequest(model: string): void {
    if (model !== this.#state.model) this.#change({ model });
  }

  setTitle(title: string): void {
    if (title !== this.#state.title) this.#change({ title });
  }

  /**
   * Returns its prompt cache key: a hash of everything before the first reply, as of its first request. Forks and
   * subagents share it; new histories and restarts keep it.
   */
  cacheKey(messages: readonly Message[], { isTurn = true }: CacheKeyOptions = {}): string {
    const known = this.#state.cacheKey;
    if (known !== undefined) return known;
    const cacheKey = uuidOf(opening(messages));
    if (isTurn) this.#change({ cacheKey });
    return cacheKey;
  }

  /** Only the totals remain. */
  begin(prompts: PromptSession): void {
    this.#prompts = prompts;
    this.#seen = this.#requested = this.#changed = undefined;
    const { epoch, savedCostUnits, rewrites, unsent } = NEW;
    this.#change({ epoch, savedCostUnits, rewrites, unsent, metrics: undefined, cacheKey: undefined });
  }

  /**
   * Returns the view that the next call sends of a history. A call that is no turn sees the newest view and later
   * messages, and changes nothing.
   */
  async view(
    history: History,
    { spelled = history.messages, ...call }: SessionCall,
  ): Promise<SessionView> {
    const prompts = this.#prompts;
    const view = await prompts.view(history, { ...call, pins: this.#state.pins });
    if (call.oneShot || prompts !== this.#prompts) return view;
    const { rewrites, promptTokens, saved, endedPins = [] } = view;
    const dialogue = { messages: spelled, tools: history.tools };
    this.#changed ??= findClientChange(this.#requested, dialogue, this.#countTokens);
    this.#requested = dialogue;
    this.#seen = { history, view };
    const { pins, epoch, rewrites: before, unsent } = this.#state;
    const dated = rewrites.map((rewrite): SessionState["rewrites"][number] => ({
      atMs: call.nowMs,
      ...rewrite,
    }));
    this.#change({
      metrics: { promptTokens, saved },
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

  /**
   * Records a successful call. Returns its ledger entry. `heldTokens`: prompt tokens in the provider's cache, if known.
   */
  sent(usage: Usage | undefined, view: SessionView, heldTokens?: number): LedgerEntry | undefined {
    const entry = this.#prompts.sent(usage, view, heldTokens);
    if (entry) this.#change({ savedCostUnits: entry.savedCostUnits });
    const changed = this.#changed;
    this.#changed = undefined;
    return entry && changed ? withClientChange(entry, changed) : entry;
  }

  /** Returns whether the provider refused the prompt as too long, which shortens the next view. */
  rejected(words: string, view: SessionView): boolean {
    return reject(this.#prompts, { words, view });
  }

  /** Plans a request that is no turn. Changes nothing. */
  planOneShot(length: number, { restores = false }: GlimpseOptions = {}): CallPlanner {
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

  async see(history?: HistoryNow): Promise<PromptSnapshot> {
    const { pins } = this.#state;
    const { noPins } = this;
    const snapshot = (seen: Pick<PromptSnapshot, "history" | "view">): PromptSnapshot => {
      const refusal = pinRefusals(seen.history.messages, this.#pinOptions);
      return { ...seen, pins, countTokens: this.#countTokens, mayPin: (pin) => !noPins && !refusal(pin) };
    };
    if (!history) return snapshot(this.#seen ?? NOTHING_SEEN);
    const { nowMs, ...messages } = history;
    const call = { nowMs, model: this.#state.model, oneShot: true, pins };
    return snapshot({ history: messages, view: await this.#prompts.view(messages, call) });
  }

  draft(): CallPlanner {
    const prompts = this.#prompts;
    const planner = () => prompts === this.#prompts ? this : this.#glimpseBy(prompts);
    return {
      view: (history, call) => planner().view(history, call),
      sent: (usage, view, heldTokens) => planner().sent(usage, view, heldTokens),
      rejected: (words, view) => planner().rejected(words, view),
    };
  }

  quote(history: History, nowMs: number): Quote | undefined {
    const { model, pins } = this.#state;
    return this.#prompts.quote?.(history, { nowMs, model, pins });
  }

  nextKeepAlive(idle: Idle): KeepAliveRequest | undefined {
    return this.#prompts.nextKeepAlive?.(idle);
  }

  /** Records an answered keep-alive request and returns its cost. @throws {Error} before the first request. */
  recordKeepAlive(sent: SentKeepAlive): KeepAliveEntry {
    const entry = this.#prompts.recordKeepAlive?.(sent);
    if (!entry) throw new Error("Cannot record a keep-alive request: the policy has no ledger");
    this.#change({ savedCostUnits: entry.savedCostUnits });
    return entry;
  }

  /** Reason, as text after "Cannot pin". */
  get noPins(): string | undefined {
    return this.#prompts.noPins;
  }

  /** Returns a pin for a message. @throws {RangeError} if it can't be pinned so. */
  makePin(messages: readonly Message[], wanted: NewPin): Pin {
    return makePin(messages, wanted, this.#pinOptions);
  }

  get #pinOptions() {
    return { countTokens: this.#countTokens, tools: this.#tools };
  }

  pin(change: PinChange): void {
    this.#change({ pins: pinsAfter(this.#state.pins, change) });
  }

  /** Default: totals of the last requested model. */
  recordTotals(
    more: Partial<UsageTotals>,
    atMs: number,
    { model = this.#state.model }: RecordOptions = {},
  ): void {
    this.#change({ days: addToDay(this.#state.days, more, { atMs, model }) });
  }

  recordDays(more: Days): void {
    this.#change({ days: addDays(this.#state.days, more) });
  }

  /** Adds a call. Calls of a turn clear the pending rewrites. */
  note(call: CallReport): void {
    this.#calls = [...this.#calls, call].slice(-MAX_CALLS);
    if (call.purpose === "turn" && this.#state.unsent.length > 0) this.#change({ unsent: [] });
  }

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

function opening(messages: readonly Message[]): readonly (readonly [role: string, text: string])[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return messages.slice(0, first < 0 ? undefined : first)
    .map(({ role, content }) => [role, contentText(content)]);
}

/** Returns a UUID (version 8 of RFC 9562) of a value's hash: some providers accept no other keys. */
function uuidOf(value: unknown): string {
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
  const tooLong = readTooLong(words);
  if (!tooLong) return false;
  prompts.rejected(tooLong.windowTokens, { promptTokens: tooLong.promptTokens, view });
  return true;
}

const NOTHING_SEEN: Pick<PromptSnapshot, "history" | "view"> = {
  history: { messages: [], tools: [] },
  view: { messages: [], tools: [], places: [] },
};

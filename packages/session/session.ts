import {
  contentText,
  type CountTokens,
  type Message,
  type Rewrite,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { countMessageTokens, countToolTokens, hashBytes } from "@tare/messages/internal";
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
import type { Archive } from "@tare/prune";
import { createHash } from "node:crypto";
import { setImmediate } from "node:timers";
import { addDays, addToDay, type CallReport, type Days, type Sums } from "./report/calls.ts";
import type { SeenSession } from "./report/prompt_report.ts";
import type { StoredState } from "./store/session_records.ts";

/** What is known of a conversation beside its messages and what its prompts are made by. Plain data, which is kept. */
export interface SessionState {
  /** What the user said first, in one line; empty before. */
  readonly title: string;
  /** The model that was asked last. */
  readonly model: string;
  /** What was asked for of single messages. */
  readonly pins: readonly Pin[];
  /** How many times its prompt was rewritten. */
  readonly epoch: number;
  /** Token units that it has saved so far; zero where the policy keeps no ledger. */
  readonly savedTokenUnits: number;
  /** The newest changes of what its model sees, the oldest first, with when they were made in milliseconds since the epoch. */
  readonly rewrites: readonly DatedRewrite[];
  /** Of these, those for a call that hasn't succeeded yet. */
  readonly unsent: readonly Rewrite[];
  /** What its calls came to. */
  readonly days: Days;
  /** The newest view, as far as its figures go; absent before the first. */
  readonly figures?: Pick<SessionView, "promptTokens" | "saved"> | undefined;
  /** What its requests are named by where caches are found by a name; absent before the first. */
  readonly cacheKey?: string | undefined;
}

/** A rewrite, and when it was made, in milliseconds since the epoch. */
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

/** What a conversation is made of. */
export interface SessionInit {
  readonly id: string;
  /** Originals of what was evicted from its prompt. */
  readonly archive: Archive;
  /** Decides what its model sees. */
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
  /** The messages of its history as their client spells them now, where that differs. Default: as the history has them. */
  readonly spelled?: readonly Message[];
}

/** What decides for calls of a conversation. */
export type CallPlanner = Pick<Session, "view" | "sent" | "rejected">;

/** What a request for a cache key is. */
export interface CacheKeyOptions {
  /** Whether it is a turn: only a turn's key is stored. Default: yes. */
  readonly isTurn?: boolean;
}

/** How a request that is no turn is planned. */
export interface GlimpseOptions {
  /** Whether it shows what was evicted from the prompt again: see `PromptCall.restores`. Default: no. */
  readonly restores?: boolean;
}

/** A history at a moment, in milliseconds since the epoch. */
export interface HistoryNow extends History {
  readonly nowMs: number;
}

/** What calls are recorded under. */
export interface BookOptions {
  /** Default: the model that was asked last. */
  readonly model?: string | undefined;
}

/** A change of the pins of a conversation. */
export type PinChange = { readonly set: Pin } | { readonly remove: number };

/** Where a fork is. */
export interface ForkPlace {
  readonly id: string;
  /** An archive that holds what that of the conversation does. */
  readonly archive: Archive;
}

/** A conversation in which nothing has happened. */
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

/** So many changes of a prompt are remembered. */
const MAX_REWRITES = 100;

/** So many calls are remembered. */
const MAX_CALLS = 2_000;

/** Longest time for which others wait, in milliseconds. */
const SLICE_MS = 3;

/** Who has worked for less, in milliseconds, doesn't stop for others: most requests need no more. */
const SHORT_MS = 1;

/** Since when others wait while somebody works, one work or several behind each other. Absent: they were seen to since. */
let waitingSinceMs: number | undefined;

/** Notes that others wait from now on, unless they do already. Gives the time. */
function holdUp(): number {
  const nowMs = performance.now();
  if (waitingSinceMs === undefined) {
    waitingSinceMs = nowMs;
    setImmediate(() => waitingSinceMs = undefined);
  }
  return nowMs;
}

/** Resolves once all that wait to go on have begun to. */
let lastSlice = Promise.resolve();

/**
 * A conversation, whoever's loop leads it: what its model sees, the originals of what left, what was asked for of single
 * messages, and what its calls came to. Its messages are with whoever leads it, and handed in.
 */
export class Session {
  /**
   * Works step by step, and lets other requests in between where that takes long. Of several only one goes on at a time,
   * so that a request that asks for little waits for one slice, however many are at work.
   */
  static async inSlices<T>(steps: Iterator<void, T>): Promise<T> {
    for (let startedMs = holdUp();;) {
      const { done, value } = steps.next();
      if (done) return value;
      const nowMs = performance.now();
      if (nowMs - startedMs < SHORT_MS || nowMs - (waitingSinceMs ?? nowMs) < SLICE_MS) continue;
      // A timer, because before it the runtime sees to what has come.
      await (lastSlice = lastSlice.then(() => new Promise((resolve) => setTimeout(resolve))));
      startedMs = holdUp();
    }
  }

  readonly id: string;
  /** Originals of what left the prompt. */
  readonly archive: Archive;
  #prompts: PromptSession;
  readonly #countTokens: CountTokens;
  readonly #tools: SessionInit["tools"];
  #state: SessionState;
  #stored: StoredCopy;
  #calls: readonly CallReport[] = [];
  #seen: Pick<SeenSession, "history" | "view"> | undefined;
  /** What its client asked with then, as that spelled it. */
  #asked: History | undefined;
  /** What its client had changed for the call that hasn't succeeded yet. */
  #changed: NonNullable<LedgerEntry["changed"]> | undefined;

  /** A conversation as it was kept, or a new one. */
  constructor({ id, archive, prompts, countTokens, tools, state, stored = NOT_STORED }: SessionInit) {
    this.id = id;
    this.archive = archive;
    this.#prompts = prompts;
    this.#countTokens = countTokens;
    this.#tools = tools;
    this.#state = { ...NEW, ...state };
    this.#stored = stored;
  }

  /** What is known of it: the same object as long as nothing has changed. */
  get state(): SessionState {
    return this.#state;
  }

  /** What is stored of it, if it is written after the fact. */
  get stored(): StoredCopy {
    return this.#stored;
  }

  /** It was written to its store, or that was tried. */
  wrote(stored: StoredCopy): void {
    this.#stored = stored;
  }

  /** What its prompts are made by, to be kept: see `PromptSession.state` and `lookedAt`. */
  get prompt(): Pick<PromptSession, "state" | "lookedAt"> {
    return this.#prompts;
  }

  /** The cache rules and prices that it goes by. */
  get profile(): Profile {
    return this.#prompts.profile;
  }

  /** Whether it is known what its calls save. */
  get knowsCosts(): boolean {
    return this.#prompts.quote !== undefined;
  }

  /** The newest calls that succeeded, the oldest first. */
  get calls(): readonly CallReport[] {
    return this.#calls;
  }

  /** What its newest turn saw; nothing before the first. */
  get newest(): Pick<SeenSession, "history" | "view"> | undefined {
    return this.#seen;
  }

  /** A model was asked. */
  asked(model: string): void {
    if (model !== this.#state.model) this.#change({ model });
  }

  /** What it is about has become known. */
  named(title: string): void {
    if (title !== this.#state.title) this.#change({ title });
  }

  /**
   * Names the conversation for caches that are found by a name: by a hash of what stands in front of its model's first
   * answer, as its first request had it. So conversations that begin alike share one, forks and helpers among them; a client that begins its
   * history anew keeps it; and it is the same after a restart. Only a turn's key is stored.
   */
  cacheKey(messages: readonly Message[], { isTurn = true }: CacheKeyOptions = {}): string {
    const known = this.#state.cacheKey;
    if (known !== undefined) return known;
    const cacheKey = nameOf(opening(messages));
    if (isTurn) this.#change({ cacheKey });
    return cacheKey;
  }

  /** Begins anew, its prompts planned by `prompts`: of what came before only what it cost stays. */
  begin(prompts: PromptSession): void {
    this.#prompts = prompts;
    this.#seen = this.#asked = this.#changed = undefined;
    const { epoch, savedTokenUnits, rewrites, unsent } = NEW;
    this.#change({ epoch, savedTokenUnits, rewrites, unsent, figures: undefined, cacheKey: undefined });
  }

  /**
   * What the next call sends of a history. Of a call that is no turn nothing is noted: it sees what the model had last, and
   * what is new.
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
    this.#changed ??= findPrefixChange(this.#asked, asked, this.#countTokens);
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

  /** Takes note of a call that succeeded; of its prompt the provider's cache held `heldTokens`, if that is known. */
  sent(usage: Usage | undefined, view: SessionView, heldTokens?: number): LedgerEntry | undefined {
    const entry = this.#prompts.sent(usage, view, heldTokens);
    if (entry) this.#change({ savedTokenUnits: entry.savedTokenUnits });
    const changed = this.#changed;
    this.#changed = undefined;
    return entry && changed ? withPrefixChange(entry, changed) : entry;
  }

  /**
   * Takes note of a call whose prompt the provider refused in these words. Whether it did so because that is too long: the
   * next view is shorter then.
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

  /** What people are shown of the model's newest prompt: what its newest turn saw, or else what these messages are. */
  async see(history?: HistoryNow): Promise<SeenSession> {
    const told = { pins: this.#state.pins, countTokens: this.#countTokens };
    if (!history) return { ...(this.#seen ?? NOTHING_SEEN), ...told };
    const { nowMs, ...messages } = history;
    const call = { nowMs, model: this.#state.model, oneShot: true, pins: told.pins };
    return { history: messages, view: await this.#prompts.view(messages, call), ...told };
  }

  /**
   * What a request sees that may be its first turn, or none of its turns: everything is planned as for a turn, and nothing of
   * that stays once the conversation begins with another request.
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

  /** What the next request would cost. Nothing where the policy knows nothing of costs. */
  quote(history: History, nowMs: number): Quote | undefined {
    const { model, pins } = this.#state;
    return this.#prompts.quote?.(history, { nowMs, model, pins });
  }

  /** The next ping that keeps its newest prompt warm while it is idle; nothing if that is to lapse, or nobody knows costs. */
  nextPing(idle: Idle): Ping | undefined {
    return this.#prompts.nextPing?.(idle);
  }

  /** Takes note of a ping that was answered, and gives what it cost. @throws {Error} if nothing was sent yet. */
  pinged(sent: PingSent): PingEntry {
    const entry = this.#prompts.pinged?.(sent);
    if (!entry) throw new Error("Cannot book a ping: this conversation's policy knows nothing of costs");
    this.#change({ savedTokenUnits: entry.savedTokenUnits });
    return entry;
  }

  /** Why nothing can be asked of single messages, in words that follow "Cannot pin"; nothing if it can. */
  get noPins(): string | undefined {
    return this.#prompts.noPins;
  }

  /** Returns a pin for a message. @throws {RangeError} if that can't be asked of it. */
  makePin(messages: readonly Message[], wanted: NewPin): Pin {
    return makePin(messages, wanted, { countTokens: this.#countTokens, tools: this.#tools });
  }

  /** Asks for something of a message, in place of what was asked for it before, or for nothing more. */
  pin(change: PinChange): void {
    this.#change({ pins: pinsAfter(this.#state.pins, change) });
  }

  /**
   * Takes note of what calls came to at a moment in milliseconds since the epoch. Default: of the model asked last.
   */
  book(more: Partial<Sums>, atMs: number, { model = this.#state.model }: BookOptions = {}): void {
    this.#change({ days: addToDay(this.#state.days, more, { atMs, model }) });
  }

  /** Takes note of what calls came to elsewhere. */
  bookDays(more: Days): void {
    this.#change({ days: addDays(this.#state.days, more) });
  }

  /** Remembers a call. With one of a turn what was rewritten for it is told. */
  note(call: CallReport): void {
    this.#calls = [...this.#calls, call].slice(-MAX_CALLS);
    if (call.purpose === "turn" && this.#state.unsent.length > 0) this.#change({ unsent: [] });
  }

  /** A conversation that goes on from the first `length` messages, with an archive that holds what this one's does. */
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

  /** The history went back to its first `length` messages. */
  cutBack(length: number): void {
    this.#prompts.cutBack(length);
  }

  /** From now on everything is sent as it is. */
  revert(): void {
    this.#prompts.revert();
  }

  #change(change: Partial<SessionState>): void {
    this.#state = { ...this.#state, ...change };
  }
}

/** What a conversation begins with: all in front of its model's first answer. */
function opening(messages: readonly Message[]): readonly (readonly [role: string, text: string])[] {
  const first = messages.findIndex(({ role }) => role === "assistant");
  return messages.slice(0, first < 0 ? undefined : first)
    .map(({ role, content }) => [role, contentText(content)]);
}

/** A UUID of a value's hash (version 8 of RFC 9562, which is for such): some providers take nothing else for a name. */
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

/** What a client has changed of what it had sent before, so that whatever stands behind it is read again. */
type PrefixChange = NonNullable<LedgerEntry["changed"]>;

/** Characters that are quoted, and of these those in front of the first that differs. */
const QUOTED_CHARS = 120;
const CHARS_BEFORE = 40;

/** So many lines above may say what a line belongs to. */
const LINES_ABOVE = 40;

/**
 * What stands first among what a client has changed of the request before; nothing if it only went on, or took back what it
 * had said last: then nothing is read again that was read before.
 */
function findPrefixChange(
  before: History | undefined,
  now: History,
  countTokens: CountTokens,
): LedgerEntry["changed"] {
  if (!before) return undefined;
  const again = (messages: readonly Message[]) => {
    const stood = new Set(before.messages.map(hashBytes));
    return messages.filter((message) => stood.has(hashBytes(message)));
  };
  const tokensOf = (messages: readonly Message[]) =>
    again(messages).reduce((sum, message) => sum + countMessageTokens(message, countTokens), 0);
  const [least, most] = [before.tools.length, now.tools.length].sort((a, b) => a - b);
  // Messages only go on; of tools each that comes or goes breaks what stands behind.
  const tool = firstOther(before.tools, now.tools) ?? (least === most ? undefined : least);
  if (tool !== undefined) {
    const behind = now.tools.slice(tool).reduce((sum, one) => sum + countToolTokens(one, countTokens), 0);
    return { ...changeOfTools(before.tools, now.tools, tool), tokens: behind + tokensOf(now.messages) };
  }
  const place = firstOther(before.messages, now.messages);
  const [one, other] = [before.messages[place ?? -1], now.messages[place ?? -1]];
  if (place === undefined || !one || !other || again(now.messages.slice(place + 1)).length === 0) {
    return undefined;
  }
  const isInstructions = other.role === "system" || other.role === "developer";
  return {
    where: isInstructions ? "instructions" : "message",
    place,
    ...changeOfText(contentText(one.content), contentText(other.content)),
    tokens: countMessageTokens(other, countTokens) + tokensOf(now.messages.slice(place + 1)),
  };
}

/** The first place where two lists differ that is in both. */
function firstOther<T extends Message | ToolDefinition>(
  before: readonly T[],
  now: readonly T[],
): number | undefined {
  const at = before.findIndex((one, at) => {
    const other = now[at];
    return one !== other && other !== undefined && hashBytes(one) !== hashBytes(other);
  });
  return at < 0 ? undefined : at;
}

function changeOfTools(
  before: readonly ToolDefinition[],
  now: readonly ToolDefinition[],
  place: number,
): Omit<PrefixChange, "tokens"> {
  const namesOf = (tools: readonly ToolDefinition[]) => tools.map((tool) => tool.function.name);
  const [names, others] = [namesOf(before), namesOf(now)];
  const told = { where: "tools", place } as const;
  const [gone, come] = [
    names.filter((name) => !others.includes(name)),
    others.filter((name) => !names.includes(name)),
  ];
  if (gone.length + come.length > 0) {
    return {
      ...told,
      kind: "list",
      line: null,
      before: quoted(gone.join(", ")),
      after: quoted(come.join(", ")),
    };
  }
  if (names[place] !== others[place]) {
    const order = (list: readonly string[]) => quoted(list.slice(place).join(", "));
    return { ...told, kind: "order", line: null, before: order(names), after: order(others) };
  }
  const text = (tool: ToolDefinition | undefined) => JSON.stringify(tool?.function, null, 1) ?? "";
  return { ...told, ...changeOfText(text(before[place]), text(now[place])), line: null };
}

function changeOfText(before: string, now: string): Pick<PrefixChange, "kind" | "line" | "before" | "after"> {
  const [lines, others] = [before.split("\n"), now.split("\n")];
  const at = lines.findIndex((line, at) => line !== others[at]);
  const place = at < 0 ? lines.length : at;
  const [one = "", other = ""] = [lines[place], others[place]];
  const differs = Array.from(one).findIndex((character, at) => character !== other[at]);
  const from = Math.max(0, (differs < 0 ? one.length : differs) - CHARS_BEFORE);
  return {
    kind: kindOf(one, other, others.slice(Math.max(0, place - LINES_ABOVE), place)),
    line: place + 1,
    before: quoted(one.slice(from)),
    after: quoted(other.slice(from)),
  };
}

const DATE =
  /\d{4}-\d{1,2}-\d{1,2}|\d{1,2}[/.]\d{1,2}[/.]\d{2,4}|\d{1,2}:\d{2}|\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\b(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\.? \d/i;
const GIT =
  /git ?status|recent commits|current branch|^\s*(?:[MADRCU?!]{1,2})\s+\S+[./]\S*$|^[0-9a-f]{7,40} /im;
const VARYING = /[0-9a-f]{8}-[0-9a-f-]{20,}|[0-9a-f]{6,}|\d+/gi;

function kindOf(before: string, now: string, above: readonly string[]): PrefixChange["kind"] {
  if (/\bcch=/.test(before) && /\bcch=/.test(now)) return "bill";
  if (GIT.test(before) || GIT.test(now) || above.some((line) => /git ?status/i.test(line))) {
    return "git_status";
  }
  if (DATE.test(before) && DATE.test(now)) return "date";
  const still = (line: string) => line.replaceAll(VARYING, "#");
  return still(before) === still(now) ? "number" : "text";
}

function quoted(text: string): string {
  return text.length <= QUOTED_CHARS ? text : `${text.slice(0, QUOTED_CHARS - 1)}…`;
}

/** Causes that a client's change may have hidden behind: what stands behind it was new to the cache. */
const HIDDEN_BEHIND: readonly LedgerEntry["uncached"][number]["cause"][] = [
  "own_rewrite",
  "not_marked",
  "provider_lost",
  "new",
];

/** What the ledger says of a call whose client had changed something in front of what is read again. */
function withPrefixChange(
  entry: LedgerEntry,
  changed: NonNullable<LedgerEntry["changed"]>,
): LedgerEntry {
  if (changed.where === "tools") return { ...entry, changed };
  let left = changed.tokens;
  const uncached = entry.uncached.map(({ cause, tokens }) => {
    const its = HIDDEN_BEHIND.includes(cause) ? Math.min(left, tokens) : 0;
    left -= its;
    return { cause, tokens: tokens - its };
  }).filter(({ tokens }) => tokens > 0);
  const tokens = changed.tokens - left;
  return {
    ...entry,
    changed,
    uncached: tokens > 0 ? [{ cause: "client_changed", tokens }, ...uncached] : uncached,
  };
}

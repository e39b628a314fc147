import {
  contentText,
  type Message,
  type ToolCall,
  type ToolDefinition,
  type ToolMessage,
} from "@tare/messages";
import { CallPairing, countToolTokens, hashPiece, meantCall, userWords } from "@tare/messages/internal";
import { RECALL_TOOL, type ToolTraits } from "@tare/prune";
import {
  parsePlaceholder,
  placeholderRefs,
  reportsError,
  resultOriginal,
  traitsOf,
} from "@tare/prune/internal";
import { compactTool, compactTools } from "@tare/schemas";
import { scaled, type TokenScale } from "../cache/prompt_size.ts";
import { candidateOf, EXPECTED_LINE_TOKENS, type Way } from "../edits/edit.ts";
import type { PinnedPlaces } from "../edits/pin.ts";
import type { Layout } from "../edits/view.ts";
import type { FlatSessionOptions, Retention } from "../prompt_session.ts";
import type { Profile } from "../providers.ts";
import { readCall } from "../tools_of_agents.ts";

// A rule returns how often a message is needed, and what a refetch costs; `Standings` tracks the rule's inputs
// per message; `findRemovals()` finds the evictable parts. Parts worth carrying are skipped until an event
// wakes them.

/** Assumed prompt tokens of a refetch. The actual prompt would feed back: a large one would retain more. */
const REFETCH_PROMPT_TOKENS = 20_000;
const REFETCH_OUTPUT_TOKENS = 60;
const OUTPUT_PRICE = 5;
const REFETCH_ORIGINAL_TOKENS = 7_000;

/** Weight of a refetch's cost, which also delays and repeats work. */
const REFETCH_WEIGHT = 2.2;

/** Weight of a message's text over its names: an edit with a forgotten text fails before it is read again. */
const TEXT_WEIGHT = 1.75;

/**
 * Default rule (docs/mechanisms.md, Retention). The hazard falls with the calls since the last reference.
 * Recorded sessions use a message's names at about 0.12 / age; the factor is lower because many of them are
 * visible elsewhere, at least by their parts. This is GreedyDual-Size (Cao, Irani 1997), or Landlord (Young
 * 2002), with a measured hazard in place of a credit.
 */
export const KEEP_WANTED: Retention = {
  hazard({ tokens, fileText, isWorkedOn, names, age, wantedAge }) {
    const size = Math.sqrt(tokens / 1000);
    const text = isWorkedOn
      ? 0.3 * size / wantedAge ** 1.25
      : fileText
      ? 0.3 * size / wantedAge ** 1.5
      : 0.024 * size / wantedAge;
    const named = names > 0 ? 0.06 * names ** 0.15 / age : 0;
    return TEXT_WEIGHT * text + named;
  },
  refetchCost: ({ tokens, unseenTokens }, { read, write }) =>
    REFETCH_WEIGHT *
    ((REFETCH_PROMPT_TOKENS + unseenTokens) * read + REFETCH_OUTPUT_TOKENS * OUTPUT_PRICE +
      Math.min(tokens, REFETCH_ORIGINAL_TOKENS) * write),
  resultTailTokens: 0,
  stepTailTokens: 8_000,
  compactTools: true,
  horizonCalls: 5,
  namedWeight: 2,
  errorWeight: 3,
};

const EAGER_SHARE = 1 / 4;

/** Most named files that weigh more: reading a long list is a scan, whose files are hardly needed again. */
const MOST_NAMED = 8;

/** Rule for work that hardly returns to what it read. */
export const EAGER: Retention = {
  ...KEEP_WANTED,
  refetchCost: (standing, profile) => EAGER_SHARE * KEEP_WANTED.refetchCost(standing, profile),
};

/** Rule by age alone: results before the protected tail are evicted; steps and tools stay. */
export const BY_AGE: Retention = {
  hazard: () => 0,
  refetchCost: () => 0,
  resultTailTokens: 16_384,
  stepTailTokens: Infinity,
  compactTools: false,
  horizonCalls: 0,
  namedWeight: 1,
  errorWeight: Infinity,
};

/**
 * The call until which each numbered part is worth carrying. A flat array, because each call scans thousands.
 */
class Quiet {
  #untilCall = new Float64Array(64);

  nextAwake(from: number, call: number): number {
    const untilCall = this.#untilCall;
    let number = from;
    while (number < untilCall.length && untilCall[number]! > call) number++;
    return number;
  }

  until(number: number, call: number): void {
    if (number >= this.#untilCall.length) {
      const longer = new Float64Array(2 * number);
      longer.set(this.#untilCall);
      this.#untilCall = longer;
    }
    this.#untilCall[number] = call;
  }

  wake(number: number): void {
    if (number < this.#untilCall.length) this.#untilCall[number] = 0;
  }

  wakeAll(): void {
    this.#untilCall.fill(0);
  }
}

interface Bearer {
  readonly fileText: boolean;
  readonly files: readonly string[];
  /** Whether it edits, or is a read of the batch that is being edited. */
  isWorkedOn: boolean;
  arrivedAt: number;
  /** The call before which it entered, or that last used one of its names. */
  wanted: number;
  names: number;
  /** Unanswered error, or one whose call has succeeded since. */
  error?: "open" | "over";
  result?: number;
  step?: number;
}

interface Result {
  readonly at: number;
  readonly message: ToolMessage;
  readonly tool: string;
  readonly recalled: string | undefined;
}

/**
 * Calls of one message and their results, without a gap; none with a tool whose results stay. A preceding
 * message with reasoning only is part of it: providers refuse it without its call.
 */
export interface Step {
  readonly from: number;
  readonly to: number;
}

export type StandingsOptions = Pick<FlatSessionOptions, "tools" | "isError">;

/**
 * Inputs of a retention rule, derived from a growing history. A new message takes time only for its own
 * length.
 */
export class Standings {
  readonly bearers: Bearer[] = [];
  readonly steps: Step[] = [];
  readonly called: Set<string> = new Set();
  /** Starts of turns except the first. An interrupted turn includes those after it up to the next answer. */
  readonly turnStarts: number[] = [];
  call = 1;
  readonly results: Result[] = [];
  /** Results and steps worth carrying; a newer bearer of one of their names wakes them. */
  readonly quietResults: Quiet = new Quiet();
  readonly quietSteps: Quiet = new Quiet();
  #results: Result[] = [];
  #visibleBy: number | undefined;
  readonly #options: StandingsOptions;
  readonly #pairing = new CallPairing();
  readonly #names = new Map<string, Bearer>();
  readonly #edited = new Map<string, number>();
  readonly #named = new Set<string>();
  /** Named files that were read. */
  readonly #namedRead = new Set<string>();
  readonly #showing = new Map<string, Bearer[]>();
  /** Reads up to the first read after an edit, which starts the next batch. */
  #batch: Bearer[] = [];
  readonly #recalls = new Map<string, number>();
  readonly #errors = new Map<string, Bearer[]>();
  #open:
    | { readonly from: number; readonly at: number; readonly calls: number; readonly stays: boolean }
    | undefined;
  #thoughtsFrom: number | undefined;
  #answered = false;

  constructor(options: StandingsOptions) {
    this.#options = options;
  }

  add(message: Message, visible: Message = message): void {
    const at = this.bearers.length;
    this.#addTurn(message, at);
    const pair = this.#pairing.add(message);
    this.#addBearer(visible, pair?.call);
    this.#addStep(message, at, pair?.at);
    if (message.role === "assistant") this.call++;
    if (message.role === "tool" && pair) this.#addResult(message, at, pair.call);
  }

  wake(at: number): void {
    this.#wake(this.bearers[at]!);
  }

  resultsOf(layout: Pick<Layout, "version" | "changed" | "shows">): readonly Result[] {
    if (this.#visibleBy !== layout.version) this.#results = [...this.results];
    this.#visibleBy = layout.version;
    if (layout.changed.length > 0) this.#results = this.#results.filter(({ at }) => layout.shows(at));
    return this.#results;
  }

  wakeAll(): void {
    this.quietResults.wakeAll();
    this.quietSteps.wakeAll();
  }

  renew(at: number): void {
    const bearer = this.bearers[at]!;
    bearer.wanted = this.call;
    bearer.arrivedAt = this.call;
  }

  get activeStart(): number {
    return this.turnStarts.at(-1) ?? 0;
  }

  /** Position after the last complete turn but one; steps before it are evictable. */
  get stepsEnd(): number {
    return this.turnStarts.at(-2) ?? 0;
  }

  /** Position of the model's newest answer; the model hasn't seen messages after it. */
  newestAnswer = -1;

  /** Returns whether a message shows a file that the user named and that hasn't been edited since. */
  isNamed({ fileText, files, arrivedAt }: Bearer): boolean {
    if (!fileText || this.#namedRead.size > MOST_NAMED) return false;
    if (files.some((file) => (this.#edited.get(file) ?? -1) > arrivedAt)) return false;
    return files.some((file) => file.length >= 5 && this.#named.has(file));
  }

  isRecalledOften(ref: string): boolean {
    return (this.#recalls.get(ref) ?? 0) >= 2;
  }

  showsRecalled(text: string): boolean {
    return this.#recalls.size > 0 && placeholderRefs(text).some((ref) => this.isRecalledOften(ref));
  }

  #addTurn({ role, ...message }: Message, at: number): void {
    if (role === "system" || role === "developer") return;
    if (role === "user") {
      if (this.#answered) {
        this.#namedRead.clear();
        // Named files have more weight in the active turn only.
        for (const bearer of this.bearers.slice(this.activeStart)) {
          if (bearer.fileText) this.#wake(bearer);
        }
        this.turnStarts.push(at);
        this.quietSteps.wakeAll();
      }
      for (const name of fileNamesIn(userWords({ role, ...message }))) this.#named.add(name);
    }
    if (role === "assistant") this.newestAnswer = at;
    this.#answered = role === "assistant" && contentText(message.content) !== "" &&
      ("tool_calls" in message ? message.tool_calls ?? [] : []).length === 0;
  }

  #addBearer(message: Message, answered: Parameters<typeof findFacts>[1]["answered"]): void {
    const { call } = this;
    const facts = findFacts(message, { answered, tools: this.#options.tools });
    for (const name of facts.wants) {
      const bearer = this.#names.get(name);
      if (bearer) bearer.wanted = call;
    }
    const { fileText, edits, files } = facts;
    this.#countNamed(files);
    const bearer: Bearer = {
      fileText,
      files,
      isWorkedOn: edits,
      arrivedAt: call,
      wanted: call,
      names: facts.names.size,
    };
    if (edits) { for (const read of this.#batch) read.isWorkedOn = true; }
    else if (fileText) this.#addToBatch(bearer);
    for (const name of facts.names) {
      const before = this.#names.get(name);
      this.#names.set(name, bearer);
      if (!before) continue;
      before.names--;
      this.#wake(before);
    }
    for (const file of files) {
      const showing = this.#showing.get(file);
      if (edits) {
        this.#edited.set(file, call);
        showing?.forEach((one) => this.#wake(one));
      }
      if (showing) showing.push(bearer);
      else this.#showing.set(file, [bearer]);
    }
    this.bearers.push(bearer);
  }

  #addToBatch(read: Bearer): void {
    if (this.#batch[0]?.isWorkedOn) {
      for (const bearer of this.#batch) {
        bearer.isWorkedOn = false;
        this.#wake(bearer);
      }
      this.#batch = [];
    }
    this.#batch.push(read);
  }

  #countNamed(files: readonly string[]): void {
    const before = this.#namedRead.size;
    for (const file of files) if (this.#named.has(file)) this.#namedRead.add(file);
    if (before <= MOST_NAMED && this.#namedRead.size > MOST_NAMED) this.wakeAll();
  }

  #addStep(message: Message, at: number, answeredAt: number | undefined): void {
    if (message.role === "assistant") {
      const names = (message.tool_calls ?? []).map((call) => meantCall(call).name);
      const stays = message.keep || names.some((name) => this.#stays(name));
      const { content, reasoning_content: thoughts } = message;
      const from = this.#thoughtsFrom ?? at;
      const isThought = names.length === 0 && thoughts !== undefined && contentText(content) === "";
      this.#thoughtsFrom = isThought ? from : undefined;
      this.#open = names.length > 0 ? { from, at, calls: names.length, stays } : undefined;
      for (const name of names) this.called.add(name);
      return;
    }
    this.#thoughtsFrom = undefined;
    if (message.role !== "tool" || !this.#open || answeredAt !== this.#open.at) {
      this.#open = undefined;
      return;
    }
    if (message.keep) this.#open = { ...this.#open, stays: true };
    const { from, calls, stays } = this.#open;
    if (stays || at - this.#open.at !== calls) return;
    const step = this.steps.push({ from, to: at + 1 }) - 1;
    for (const bearer of this.bearers.slice(from)) bearer.step = step;
  }

  #addResult(message: ToolMessage, at: number, call: ToolCall): void {
    const { name: tool, arguments: input } = meantCall(call);
    const recalled = tool === RECALL_TOOL.function.name ? /[0-9a-f]{16}/.exec(input)?.[0] : undefined;
    if (recalled) this.#recalls.set(recalled, (this.#recalls.get(recalled) ?? 0) + 1);
    const { tools } = this.#options;
    if (this.#stays(tool)) return;
    const text = resultOriginal(message, tools?.[tool] !== undefined);
    if (text === undefined || parsePlaceholder(text.split("\n", 1)[0] ?? "")) return;
    const result = { at, message, tool, recalled };
    const bearer = this.bearers[at]!;
    bearer.result = this.results.push(result) - 1;
    this.#results.push(result);
    const sameCall = `${tool} ${input}`;
    const errors = this.#errors.get(sameCall) ?? [];
    if (reportsError(message, at, this.#options)) {
      bearer.error = "open";
      this.#errors.set(sameCall, [...errors, bearer]);
      return;
    }
    // Parallel calls don't answer one another.
    for (const error of errors.filter(({ arrivedAt }) => arrivedAt < this.call)) {
      error.error = "over";
      this.#wake(error);
    }
    if (errors.length > 0) this.#errors.set(sameCall, errors.filter(({ error }) => error === "open"));
  }

  #wake({ result, step }: Bearer): void {
    if (result !== undefined) this.quietResults.wake(result);
    if (step !== undefined) this.quietSteps.wake(step);
  }

  #stays(tool: string): boolean {
    const { tools } = this.#options;
    return traitsOf(tool, tools).stance === "keep";
  }
}

export interface Removal {
  readonly start: number;
  readonly tokens: number;
  /** Its messages or tools, each with its tokens, under stable names. */
  readonly parts: readonly { readonly name: string; readonly tokens: number }[];
  /**
   * Whether carrying it costs more than its absence. Only then it accrues carrying cost, and a cut may start
   * there.
   */
  readonly idle: boolean;
  /** Whether it isn't worth writing again, so that a cut before it evicts it. */
  readonly evicts: boolean;
  /** Expected refetch cost until the window is full again, if requested; otherwise 0. */
  readonly loss: number;
  readonly how: Way;
}

interface Seen {
  readonly layout: Layout;
  readonly standings: Standings;
  readonly tools: readonly ToolDefinition[];
  readonly visibleTools: readonly ToolDefinition[];
  readonly toolTokens: number;
}

export interface RemovalOptions extends Pick<FlatSessionOptions, "countTokens" | "alwaysFull"> {
  readonly retention: Retention;
  readonly profile: Profile;
  readonly scale: TokenScale;
  readonly windowTokens?: number;
  readonly seenMessages: number;
  readonly seenTools: ReadonlySet<number>;
  /** Tokens that references to a message would add if it were evicted, counted locally. */
  readonly referredTokens: (at: number) => number;
  readonly pinned: PinnedPlaces;
  readonly all: boolean;
  readonly weighsLoss: boolean;
}

/** Expected calls until an emptied window is full again. */
const ROOM_CALLS = 20;

const MAX_QUIET_CALLS = 4_096;

/**
 * Calls for which a result stays that was recalled often. Retaining it forever costs more in the benchmark
 * and misses as much.
 */
const OFTEN_RECALLED_CALLS = 8;

/** Newest steps that stay in an unfinished and in the last complete turn. */
const RECENT_STEPS = 200;

const MIN_TOKENS = 60;

const LINE_TOKENS = 28;

/**
 * Returns the evictable parts in prompt order: whole steps of old turns, and results. Unless `all` is set,
 * only those from the first idle one on, because no cut starts before it.
 */
export function findRemovals(seen: Seen, options: RemovalOptions): Removal[] {
  const { standings } = seen;
  const removals = options.retention.compactTools ? findCompactions(seen, options) : [];
  const ends = findEnds(seen, options);
  const ofSteps = forSteps(options);
  const first = options.all || removals.some(({ idle }) => idle) ? 0 : firstIdle(ends, seen, options);
  if (first === Infinity) return removals;
  const results = standings.resultsOf(seen.layout);
  let next = firstFrom(results, ({ at }) => at >= first);
  const takeResults = (end: number) => {
    for (; next < results.length; next++) {
      const result = results[next]!;
      if (result.at >= end) return;
      const removal = elision(result, seen, options);
      if (removal) removals.push(removal);
    }
  };
  let lineAt = -1;
  const { steps, quietSteps } = standings;
  const nextStep = (from: number) => quietSteps.nextAwake(from, Number.MAX_VALUE);
  for (
    let at = nextStep(firstFrom(steps, ({ to }) => to > first));
    at < steps.length;
    at = nextStep(at + 1)
  ) {
    const step = steps[at]!;
    if (step.from >= ends.spentSteps) break;
    if (!canLeave(step, ends, seen, options)) {
      quietSteps.until(at, Infinity);
      continue;
    }
    const removal = drop(step, seen, { ...ofSteps, line: lineAt !== step.from });
    if (!removal.idle && !removal.evicts) continue;
    takeResults(Math.min(step.from, ends.results));
    removals.push(removal);
    lineAt = step.to;
    while ((results[next]?.at ?? Infinity) < step.to) next++;
  }
  takeResults(ends.results);
  return removals;
}

interface Ends {
  readonly steps: number;
  /** Position before which later turns' steps are evictable if only calls are left of them. */
  readonly spentSteps: number;
  readonly results: number;
}

function findEnds(
  { layout, standings }: Seen,
  { retention, scale, windowTokens = Infinity, seenMessages }: RemovalOptions,
): Ends {
  const tail = (tokens: number, most: number) =>
    tokens === Infinity ? 0 : layout.tailStart(Math.min(tokens, most) / scale.perToken);
  const stepsTail = tail(retention.stepTailTokens, windowTokens / 4);
  const steps = Math.min(standings.stepsEnd, stepsTail);
  return {
    steps,
    spentSteps: Math.max(steps, Math.min(stepsTail, standings.steps.at(-RECENT_STEPS)?.from ?? 0)),
    results: Math.min(
      standings.newestAnswer,
      seenMessages,
      tail(retention.resultTailTokens, windowTokens / 2),
    ),
  };
}

function firstFrom<T>(sorted: readonly T[], holds: (one: T) => boolean): number {
  let [low, high] = [0, sorted.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(sorted[middle]!)) high = middle;
    else low = middle + 1;
  }
  return low;
}

/**
 * Returns the position of the first idle result or step. Others become quiet until they could be idle: their
 * cost only falls unless they are referred to, and events that speed up the fall wake them.
 */
function firstIdle(ends: Ends, seen: Seen, options: RemovalOptions): number {
  const { standings: { call, steps, results, bearers, quietSteps, quietResults }, layout } = seen;
  const ofSteps = forSteps(options);
  let first = Infinity;
  for (let at = quietSteps.nextAwake(0, call); at < steps.length; at = quietSteps.nextAwake(at + 1, call)) {
    const step = steps[at]!;
    if (step.from >= ends.spentSteps) break;
    if (!canLeave(step, ends, seen, options)) {
      quietSteps.until(at, Infinity);
      continue;
    }
    // Its line may be shared, so a difference of one line is evaluated in full.
    const visible = visibleIn(step, layout);
    const tokens = options.scale.perToken * visible.reduce((sum, at) => sum + freedBy(at, seen, options), 0) +
      LINE_TOKENS + EXPECTED_LINE_TOKENS * (step.to - step.from);
    const ahead = callsUntilIdle(tokens, visible, seen, ofSteps);
    if (ahead === 0) {
      first = step.from;
      break;
    }
    quietSteps.until(at, call + ahead);
  }
  const end = Math.min(first, ends.results);
  for (
    let at = quietResults.nextAwake(0, call);
    at < results.length;
    at = quietResults.nextAwake(at + 1, call)
  ) {
    const result = results[at]!;
    if (result.at >= end) break;
    if (!layout.find(result.at)) {
      quietResults.until(at, Infinity);
      continue;
    }
    const tokens = options.scale.perToken * freedBy(result.at, seen, options);
    const ahead = callsUntilIdle(tokens - EXPECTED_LINE_TOKENS, [result.at], seen, options);
    if (ahead > 0) quietResults.until(at, call + ahead);
    else if (mayLeave(result, seen, options)) {
      const { step } = bearers[result.at]!;
      return Math.min(result.at, step === undefined ? Infinity : steps[step]!.from);
    }
  }
  return first;
}

/** Returns whether a step is evictable. If not, that holds until it is woken. */
function canLeave(step: Step, ends: Ends, seen: Seen, { pinned }: RemovalOptions): boolean {
  if (!seen.layout.shows(step.from) || pinned.steps.has(step.to - 1)) return false;
  return step.from < ends.steps || isSpent(step, seen);
}

function forSteps(options: RemovalOptions): RemovalOptions {
  return { ...options, retention: { ...options.retention, errorWeight: 1 } };
}

function isSpent({ from, to }: Step, { layout }: Seen): boolean {
  for (let at = from; at < to; at++) {
    const message = layout.history[at]!;
    if (message.role === "tool" ? layout.shows(at) : contentText(message.content) !== "") return false;
  }
  return true;
}

function callsUntilIdle(
  tokens: number,
  places: readonly number[],
  seen: Seen,
  options: RemovalOptions,
): number {
  const isIdle = (ahead: number) =>
    tokens > 0 && lossOf(places, ahead, seen, options) <= tokens * options.profile.read;
  if (isIdle(0)) return 0;
  let high = 1;
  while (!isIdle(high)) {
    high *= 2;
    if (high > MAX_QUIET_CALLS) return high;
  }
  let low = high >> 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (isIdle(middle)) high = middle;
    else low = middle;
  }
  return high;
}

function freedBy(at: number, { layout }: Seen, { referredTokens }: RemovalOptions): number {
  return layout.tokensAt(at) - referredTokens(at);
}

function visibleIn({ from, to }: Step, layout: Layout): number[] {
  const visible: number[] = [];
  for (let at = from; at < to; at++) if (layout.shows(at)) visible.push(at);
  return visible;
}

function mayLeave(
  { at, message, recalled }: Result,
  { layout, standings }: Seen,
  { scale, pinned, retention: { errorWeight } }: RemovalOptions,
): boolean {
  const found = layout.find(at);
  if (!found || pinned.retained.has(at) || scale.perToken * found.tokens < MIN_TOKENS) return false;
  const bearer = standings.bearers[at]!;
  if (bearer.error === "open" && (errorWeight === Infinity || at < standings.activeStart)) return false;
  const isFresh = standings.call - bearer.arrivedAt < OFTEN_RECALLED_CALLS;
  if (recalled !== undefined && isFresh && standings.isRecalledOften(recalled)) return false;
  return found.message === message || !standings.showsRecalled(String(found.message.content));
}

function elision(result: Result, seen: Seen, options: RemovalOptions): Removal | undefined {
  if (!mayLeave(result, seen, options)) return undefined;
  const { at, tool, message } = result;
  const found = seen.layout.find(at)!;
  const tokens = options.scale.perToken * freedBy(at, seen, options) - EXPECTED_LINE_TOKENS;
  return {
    start: scaled(options.scale, seen.toolTokens + found.start),
    tokens,
    parts: [{ name: String(at), tokens }],
    ...worth(tokens, [at], seen, options),
    how: { type: "elide", candidate: candidateOf(message, { index: at, tool, tokensBefore: found.tokens }) },
  };
}

function drop(
  step: Step,
  seen: Seen,
  { line, ...options }: RemovalOptions & { readonly line: boolean },
): Removal {
  const { layout } = seen;
  const { from, to } = step;
  const parts: { name: string; tokens: number }[] = [];
  let tokens = line ? -LINE_TOKENS : 0;
  for (let at = from; at < to; at++) {
    const its = options.scale.perToken * freedBy(at, seen, options);
    parts.push({ name: String(at), tokens: its });
    tokens += its;
  }
  return {
    start: scaled(options.scale, seen.toolTokens + layout.find(from)!.start),
    tokens,
    parts,
    ...worth(tokens, visibleIn(step, layout), seen, options),
    how: { type: "drop", from, to },
  };
}

function lossOf(places: readonly number[], ahead: number, seen: Seen, options: RemovalOptions): number {
  let loss = 0;
  for (const at of places) {
    const { hazard, refetchCost } = riskAt(at, ahead, seen, options);
    loss += hazard * refetchCost;
  }
  return loss;
}

interface Risk {
  /** Expected uses at the next call. */
  readonly hazard: number;
  readonly refetchCost: number;
}

const NO_RISK: Risk = { hazard: 0, refetchCost: 0 };

function riskAt(
  at: number,
  ahead: number,
  { layout, standings }: Seen,
  { retention, profile, scale }: RemovalOptions,
): Risk {
  const bearer = standings.bearers[at]!;
  if (bearer.error === "over") return NO_RISK;
  const { fileText, isWorkedOn, names, arrivedAt, wanted } = bearer;
  const named = at >= standings.activeStart && standings.isNamed(bearer) ? retention.namedWeight : 1;
  const failed = bearer.error === "open" ? retention.errorWeight : 1;
  const weight = named * (failed < Infinity ? failed : 1);
  const standing = {
    tokens: scale.perToken * layout.tokensAt(at),
    fileText,
    isWorkedOn,
    names,
    age: 1 + standings.call + ahead - arrivedAt,
    wantedAge: 1 + standings.call + ahead - wanted,
    // In steps, so that decisions stay stable.
    unseenTokens: 1_000 * Math.max(0, Math.round(scale.unseen / 1_000)),
  };
  return {
    hazard: weight * retention.hazard(standing),
    refetchCost: retention.refetchCost(standing, profile),
  };
}

/**
 * Compares the refetch cost of messages with its saving. A hazard that falls with the age `a` totals `h · a ·
 * ln(1 + H/a)` over H calls. Until the window is full again, a message is fetched at most once.
 */
function worth(
  tokens: number,
  places: readonly number[],
  seen: Seen,
  options: RemovalOptions,
): Pick<Removal, "idle" | "evicts" | "loss"> {
  const { retention: { horizonCalls }, profile: { read, write } } = options;
  let loss = 0;
  let ahead = 0;
  let untilFull = 0;
  for (const at of places) {
    const { hazard, refetchCost } = riskAt(at, 0, seen, options);
    const age = 1 + seen.standings.call - seen.standings.bearers[at]!.wanted;
    const usesWithin = (calls: number) => hazard * age * Math.log(1 + calls / age);
    loss += hazard * refetchCost;
    ahead += usesWithin(horizonCalls) * refetchCost;
    if (options.weighsLoss) untilFull += (1 - Math.exp(-usesWithin(ROOM_CALLS))) * refetchCost;
  }
  const idle = tokens > 0 && loss <= tokens * read;
  const evicts = horizonCalls > 0 ? tokens > 0 && ahead <= tokens * (write + horizonCalls * read) : idle;
  return { idle, evicts, loss: untilFull };
}

/**
 * Returns the tools that were sent in full and called. Tools that weren't called need their prose, and so
 * does `recall`.
 */
function findCompactions(
  { tools, visibleTools: now, standings }: Seen,
  { countTokens, scale, profile, seenTools, alwaysFull = [] }: RemovalOptions,
): Removal[] {
  const removals: Removal[] = [];
  const compact = compactTools(tools, {
    exposed: seenTools,
    called: standings.called,
    countTokens,
    alwaysFull: [RECALL_TOOL.function.name, ...alwaysFull],
  }).tools;
  let start = 0;
  for (const [at, tool] of compact.entries()) {
    const full = tools[at];
    const visible = now[at];
    if (!full || !visible) break;
    const tokens = scale.perToken *
      (countToolTokens(visible, countTokens) - countToolTokens(tool, countTokens));
    if (tokens > 0 && tool === compactTool(full)) {
      const { name } = full.function;
      removals.push({
        start: scaled(scale, start),
        tokens,
        parts: [{ name: `tool ${name}`, tokens }],
        idle: profile.read > 0,
        evicts: true,
        loss: 0,
        how: { type: "compact", tool: name, definition: hashPiece(full) },
      });
    }
    start += countToolTokens(visible, countTokens);
  }
  return removals;
}

interface Facts {
  readonly fileText: boolean;
  readonly edits: boolean;
  readonly files: readonly string[];
  readonly names: ReadonlySet<string>;
  readonly wants: ReadonlySet<string>;
}

const MAX_CHARS = 200_000;

function findFacts(
  message: Message,
  { answered, tools }: {
    readonly answered: ToolCall | undefined;
    readonly tools: ToolTraits | undefined;
  },
): Facts {
  const calls = message.role === "assistant"
    ? (message.tool_calls ?? []).map((call) => readCall(call, tools))
    : [];
  const about = answered && readCall(answered, tools);
  const reads = about?.reads === true;
  const edits = calls.some((call) => call.edits);
  const wants = new Set<string>();
  for (const { texts } of calls) for (const text of texts) addNames(wants, text);
  const names = new Set(wants);
  addNames(names, contentText(message.content));
  // Names that only repeat the call don't count.
  const repeated = new Set<string>();
  for (const text of about?.texts ?? []) addNames(repeated, text);
  for (const name of repeated) names.delete(name);
  return {
    fileText: reads || edits,
    edits,
    files: [...new Set([...calls.flatMap(({ files }) => files), ...(reads ? about.files : [])])],
    names,
    wants,
  };
}

function fileNamesIn(text: string): string[] {
  return (headAndTail(text).match(/[\w@.-]+/g) ?? []).map((word) => word.replace(/\.+$/, ""));
}

const [SIGN, LOWER, UPPER, OTHER] = [1, 2, 3, 4];

const KINDS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  if (/[./-]/.test(character)) return SIGN;
  if (/[a-z]/.test(character)) return LOWER;
  if (/[A-Z]/.test(character)) return UPPER;
  return /[0-9_]/.test(character) ? OTHER : 0;
});

const SHORTEST_NAME = 8;

/**
 * Adds the names in a text: words with a digit, a sign or an inner capital. By character, because that takes
 * half the time of a pattern and every text passes through it.
 */
function addNames(names: Set<string>, text: string): void {
  const seen = headAndTail(text);
  const kindAt = (at: number) => KINDS[seen.charCodeAt(at)] ?? 0;
  for (let at = 0; at < seen.length; at++) {
    if (kindAt(at) <= SIGN) continue;
    const start = at;
    let end = at;
    let isName = false;
    let hasSign = false;
    for (let kind = 0, before = 0; at < seen.length && (kind = kindAt(at)) > 0; at++, before = kind) {
      if (kind === SIGN) hasSign = true;
      else {
        end = at + 1;
        isName ||= hasSign || kind === OTHER || kind === UPPER && before === LOWER;
      }
    }
    if (isName && end - start >= SHORTEST_NAME) names.add(seen.slice(start, end));
  }
}

function headAndTail(text: string): string {
  if (text.length <= MAX_CHARS) return text;
  return `${text.slice(0, MAX_CHARS / 2)}\n${text.slice(-MAX_CHARS / 2)}`;
}

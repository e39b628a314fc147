import type { Message, Rewrite, Usage } from "@tare/messages";
import { addUsage, countMessageTokens } from "@tare/messages/internal";
import type { Decision } from "../ledger/entry.ts";
import { type Archive, elide } from "@tare/prune";
import {
  archiveMessages,
  type ElideOptions,
  type ElisionCandidate,
  formatPlaceholder,
  resultOriginal,
} from "@tare/prune/internal";
import type { FlatSessionOptions } from "../prompt_session.ts";
import type { Removal } from "../retention/retention.ts";
import { decide, type Decided, type FullWindow, howMany, WINDOW_SHARE } from "../rule/decide.ts";
import {
  type Done,
  type InspectionRequest,
  type InspectionResult,
  type Plan,
  planOf,
  type RewriteRequest,
} from "../rule/inspect.ts";
import { cutNewest, relieveWindow } from "./full_window.ts";
import { type Layout, placedView } from "./view.ts";
import {
  describeEvictedPin,
  describeNoRoom,
  type Pin,
  type PinnedPlaces,
  pinnedPlaces,
  removalsOf,
} from "./pin.ts";
import {
  candidateOf,
  type DropEdit,
  type Edit,
  EXPECTED_LINE_TOKENS,
  type KeepEdit,
  resultTools,
} from "./edit.ts";

export interface RewriteOptions
  extends Pick<FlatSessionOptions, "archive" | "countTokens" | "tools" | "summarize"> {
  readonly windowTokens: number;
  readonly inspect: (request: InspectionRequest) => InspectionResult;
  readonly relievesWindow: boolean;
  /** Returns the edits with references to evicted sources expanded. */
  readonly writeOut: (edits: readonly Edit[]) => readonly Edit[];
}

export function rewrite(
  first: InspectionResult & Decided,
  request: RewriteRequest,
  options: RewriteOptions,
): Promise<Plan> {
  return new Rewriting(first, request, options).finish();
}

/**
 * Builds the plan of one call. The effect of a step is known only after it, so the prompt is inspected again
 * each time.
 */
class Rewriting {
  readonly #request: RewriteRequest;
  readonly #options: RewriteOptions;
  readonly #first: InspectionResult & Decided;
  #prompt: InspectionResult & Decided;
  #edits: readonly Edit[];
  #pins: readonly Pin[];
  readonly #made: Edit[] = [];
  readonly #requested: Pin[] = [];
  readonly #ended: Pin[] = [];
  readonly #warnings: string[] = [];
  #isBought = false;
  #refetches = 0;
  #decision: Decision | undefined;
  #summary: Usage | undefined;
  #fullWindow: FullWindow;
  #emptiedTokens: number | undefined;
  #failed = false;

  constructor(first: InspectionResult & Decided, request: RewriteRequest, options: RewriteOptions) {
    this.#request = request;
    this.#options = options;
    this.#edits = request.edits;
    this.#pins = request.pins ?? [];
    this.#fullWindow = request.fullWindow;
    this.#emptiedTokens = request.fullWindow.emptiedTokens;
    this.#first = this.#prompt = first;
    this.#decision = this.#first.decision;
  }

  async finish(): Promise<Plan> {
    const wasFull = this.#isFull();
    if (wasFull && this.#emptiedTokens !== undefined) {
      this.#emptiedTokens = undefined;
      this.#inspectAgain();
    }
    let made: number;
    let promptTokens: number;
    do {
      made = this.#made.length;
      ({ promptTokens } = this.#prompt);
      await this.#settle();
      const held = this.#pins.filter(({ wish }) => wish === "retain");
      if (held.length > 0 && this.#isFull()) await this.#evictRetained(held);
      if (this.#isOver()) await this.#cutResults();
      if (this.#isOver()) await this.#makeSpace(true);
      if (this.#overflows()) await this.#dropSteps();
    } while (this.#made.length > made && (this.#prompt.promptTokens < promptTokens || this.#isOver()));
    const { size, situation: { windowUse, windowTokens } } = this.#prompt;
    const staysFull = this.#options.relievesWindow && size.tokens > WINDOW_SHARE * windowTokens;
    this.#reportFull(staysFull && !this.#failed);
    if (wasFull && this.#made.length > 0) {
      this.#fullWindow = { ...this.#fullWindow, emptiedTokens: Math.round(windowUse) };
    }
    return this.#plan();
  }

  async #settle(): Promise<void> {
    let before: number;
    do {
      before = this.#ended.length;
      await this.#rewrite();
      await this.#makeSpace();
      await this.#bringBack();
    } while (this.#ended.length > before);
  }

  /** Evicts retained messages last, and ends the pins of evicted ones. */
  async #evictRetained(held: readonly Pin[]): Promise<void> {
    const { messages: history } = this.#request;
    this.#pins = this.#pins.filter((pin) => !held.includes(pin));
    this.#inspectAgain();
    await this.#settle();
    const { layout } = this.#prompt;
    const over = held.filter(({ place }) => layout.find(place)?.message !== history[place]);
    this.#ended.push(...over);
    this.#warnings.push(...over.map(describeEvictedPin));
    this.#pins = [...this.#pins, ...held.filter((pin) => !over.includes(pin))];
    this.#inspectAgain();
    await this.#settle();
  }

  /** Evicts what pays, and pinned results with it, until nothing more does. */
  async #rewrite(): Promise<void> {
    for (;;) {
      const { evicted, wishes, isFree, decision, promptTokens } = this.#prompt;
      const rides = this.#isBought || isFree || evicted.length > 0;
      const gone = rides ? wishes.gone.filter(({ pin }) => !this.#requested.includes(pin)) : [];
      if (evicted.length + gone.length === 0) return;
      if (!await this.#evict(gone.length > 0 ? [...evicted, ...removalsOf(gone, evicted)] : evicted)) return;
      this.#requested.push(...gone.map(({ pin }) => pin));
      if (evicted.length > 0) {
        this.#isBought = true;
        this.#decision = decision;
        this.#refetches += evicted.reduce((sum, { loss }) => sum + loss, 0);
      }
      this.#inspectAgain();
      if (this.#prompt.promptTokens >= promptTokens) return;
    }
  }

  /** Evicts more from a window that is still full. */
  async #makeSpace(mustFit = false): Promise<void> {
    const { countTokens, archive, windowTokens, summarize } = this.#options;
    const { messages: history, edits, recall, signal, progress } = this.#request;
    while (this.#overflows()) {
      const { promptTokens, situation } = this.#prompt;
      const stays = pinnedPlaces(this.#pins, history).steps;
      const relief = await relieveWindow(this.#request, this.#edits, {
        countTokens,
        archive,
        retained: stays,
        recall,
        windowTokens: Math.round(windowTokens * promptTokens / situation.windowUse),
        mustFit,
        summarize,
        signal,
        progress,
        fullWindow: this.#fullWindow,
        warm: {
          view: placedView(this.#request, edits),
          sharedTokens: this.#first.predicted.sharedTokens,
        },
      });
      this.#made.push(...relief.edits);
      this.#warnings.push(...relief.warnings);
      this.#fullWindow = relief.fullWindow;
      this.#failed = relief.failed ?? false;
      if (relief.usage) this.#summary = this.#summary ? addUsage(this.#summary, relief.usage) : relief.usage;
      if (relief.edits.length === 0) return;
      this.#isBought = true;
      const { layout } = this.#prompt;
      const visible = [...stays].filter((at) => !layout.hasLeft(at));
      this.#edits = withRelief(this.#edits, relief.edits, new Set(visible));
      this.#inspectAgain();
      await this.#rewrite();
      if (this.#prompt.promptTokens >= promptTokens) return;
    }
  }

  /** Evicts results, whatever they contain, the oldest first; then truncates new ones. */
  async #cutResults(): Promise<void> {
    const { countTokens, archive, tools } = this.#options;
    const { messages: history, recall } = this.#request;
    for (let round = 0; round < MAX_CUTS && this.#isOver(); round++) {
      const { layout, size, situation: { windowTokens }, promptTokens } = this.#prompt;
      const tooMany = (share: number) => Math.ceil((1 - share * windowTokens / size.atMost) * promptTokens);
      const find = (retained: ReadonlySet<number>) =>
        oldestResults(layout, history, { neededTokens: tooMany(ROOMY_SHARE), countTokens, retained, tools });
      const unpinned = find(pinnedPlaces(this.#pins, history).retained);
      const old = unpinned.length > 0 ? unpinned : find(new Set());
      if (old.length > 0) {
        if (!await this.#evict(old.map((candidate) => ({ how: { type: "elide", candidate } })))) return;
        this.#endPins(new Set(old.map(({ index }) => index)));
      } else {
        try {
          const cut = { neededTokens: tooMany(FITTING_SHARE), countTokens, archive, recall };
          const made = await cutNewest(history, layout.placed, cut);
          if (made.length === 0) return;
          this.#made.push(...made);
          this.#edits = withEdits(this.#edits, made);
          this.#endPins(new Set(made.map(({ index }) => index)));
        } catch (error) {
          this.#warnings.push(`${(error as Error).message}. Nothing more was evicted.`);
          return;
        }
      }
      this.#isBought = true;
      this.#inspectAgain();
      if (old.length === 0 && this.#prompt.promptTokens >= promptTokens) return;
    }
  }

  async #dropSteps(): Promise<void> {
    const { messages: history } = this.#request;
    const { layout, steps, size, promptTokens, situation: { windowTokens } } = this.#prompt;
    const retained = pinnedPlaces(this.#pins, history).steps;
    let needed = (1 - ROOMY_SHARE * windowTokens / size.atMost) * promptTokens;
    const evicted = steps.slice(0, -LAST_STEPS).filter(({ from, to }) => {
      if (needed <= 0 || !layout.shows(from) || retained.has(to - 1)) return false;
      for (let at = from; at < to; at++) needed -= layout.tokensAt(at);
      return true;
    });
    if (evicted.length === 0) return;
    if (!await this.#evict(evicted.map(({ from, to }) => ({ how: { type: "drop", from, to } })))) return;
    this.#isBought = true;
    this.#warnings.push(
      `The window is full: the oldest ${evicted.length} steps of the active turn were evicted.`,
    );
    this.#inspectAgain();
  }

  #endPins(gone: ReadonlySet<number>): void {
    const over = this.#pins.filter(({ wish, place }) => wish === "retain" && gone.has(place));
    this.#ended.push(...over);
    this.#warnings.push(...over.map(describeEvictedPin));
    this.#pins = this.#pins.filter((pin) => !over.includes(pin));
  }

  async #bringBack(): Promise<void> {
    const { wishes, isFree, situation, scale: { perToken } } = this.#prompt;
    const back = wishes.back.filter(({ pin }) => !this.#requested.includes(pin));
    if (back.length === 0 || !this.#isBought && !isFree) return;
    const { windowTokens } = this.#options;
    let room = WINDOW_SHARE * windowTokens - situation.windowUse;
    const fitting = back.filter(({ pin, tokens }) => {
      const fits = -perToken * tokens <= room;
      if (fits) room += perToken * tokens;
      else {
        this.#ended.push(pin);
        this.#warnings.push(describeNoRoom(pin));
      }
      return fits;
    });
    this.#pins = this.#pins.filter((pin) => !this.#ended.includes(pin));
    if (fitting.length > 0 && await this.#evict(removalsOf(fitting, []))) {
      const pins = fitting.map(({ pin }) => pin);
      const before = this.#edits;
      this.#edits = withRetained(before, pinnedPlaces(pins, this.#request.messages));
      this.#made.push(...this.#edits.filter((edit) => edit.type === "keep" && !before.includes(edit)));
      this.#requested.push(...pins);
    }
    this.#inspectAgain();
    await this.#rewrite();
  }

  async #evict(evicted: readonly Pick<Removal, "how">[]): Promise<boolean> {
    const { messages: history, recall } = this.#request;
    try {
      const more = await makeEdits({ history, edits: this.#edits }, evicted, { ...this.#options, recall });
      this.#made.push(...more);
      const evictsAt = (at: number) =>
        evicted.some(({ how }) => how.type === "drop" && how.from <= at && at < how.to);
      this.#edits = withEdits(withoutRetained(this.#edits, evictsAt), more);
      return true;
    } catch (error) {
      const { message } = error as Error;
      this.#warnings.push(`${message}. Nothing${this.#made.length > 0 ? " more" : ""} was evicted.`);
      return false;
    }
  }

  #inspect(): InspectionResult & Decided {
    const inspect = this.#options.inspect({
      ...this.#request,
      pins: this.#pins,
      edits: this.#edits,
      emptiedTokens: this.#emptiedTokens,
    });
    return { ...inspect, ...decide(inspect.situation) };
  }

  #inspectAgain(): void {
    const edits = this.#options.writeOut(this.#edits);
    this.#made.push(...edits.slice(this.#edits.length));
    this.#edits = edits;
    this.#prompt = this.#inspect();
  }

  #reportFull(isFull: boolean): void {
    if (this.#fullWindow.isFullReported === isFull) return;
    this.#fullWindow = { ...this.#fullWindow, isFullReported: isFull };
    if (!isFull) return;
    this.#warnings.push(
      "The window is full, and no further eviction would free a tenth of the prompt.",
    );
  }

  #isFull(): boolean {
    const { windowUse, fullFrom } = this.#prompt.situation;
    return windowUse > fullFrom;
  }

  #isOver(): boolean {
    const { size, situation: { windowTokens } } = this.#prompt;
    return this.#options.relievesWindow && size.atMost > windowTokens;
  }

  #overflows(): boolean {
    return this.#options.relievesWindow && this.#isFull();
  }

  #plan(): Plan {
    const done: Done = {
      edits: this.#made,
      allEdits: this.#edits,
      requested: this.#requested,
      ended: this.#ended,
      tokensBefore: this.#first.promptTokens,
      ...(this.#decision && { decision: this.#decision }),
      warnings: this.#warnings,
      ...(this.#summary && { summary: this.#summary }),
      fullWindow: this.#fullWindow,
      refetches: this.#refetches,
    };
    const { promptTokens } = this.#prompt;
    const reported = (done.edits.length > 0 || done.requested.length > 0) && {
      rewrite: describeRewrite(done, { isBought: this.#isBought, promptTokens }),
    };
    return planOf(this.#prompt, { ...done, ...reported }, {
      countTokens: this.#options.countTokens,
      request: this.#request,
    });
  }
}

function describeRewrite(
  { edits, requested, decision, tokensBefore }: Done,
  { isBought, promptTokens }: { readonly isBought: boolean; readonly promptTokens: number },
): Rewrite {
  const of = (type: Edit["type"]) => edits.filter((edit) => edit.type === type).length;
  const wished = (wish: Pin["wish"]) => requested.filter((pin) => pin.wish === wish);
  const [gone, back] = [wished("evict"), wished("retain")];
  const isGone = (index: number) => gone.some(({ place }) => place === index);
  const old = edits.filter((edit) => edit.type === "elide" && !isGone(edit.index)).length;
  const removed = [
    ...(old > 0 ? [howMany(old, "old result")] : []),
    ...(of("drop") > 0 ? ["old turns"] : []),
    ...(of("summarize") > 0 ? ["old turns, summarized"] : []),
    ...(of("shorten") > 0 ? [`the middle of ${howMany(of("shorten"), "text")} of the user`] : []),
    ...(of("compact") > 0 ? [`the descriptions of ${howMany(of("compact"), "tool")}`] : []),
    ...(gone.length > 0 ? [`${placesOf(gone)} as requested`] : []),
    ...(back.length > 0 ? [`${placesOf(back)} restored as requested`] : []),
  ].join("; ");
  return {
    mechanism: isBought ? "planner" : "pins",
    reason: isBought ? reasonOf(decision) : "requested, and breaks no cached content",
    removed,
    tokensBefore,
    tokensAfter: promptTokens,
    ...(requested.length > 0 && { pins: requested.map(({ place, wish, by }) => ({ place, wish, by })) }),
  };
}

function placesOf(pins: readonly Pin[]): string {
  return `message${pins.length === 1 ? "" : "s"} ${pins.map(({ place }) => place).join(", ")}`;
}

function reasonOf(decision: Decision | undefined): string {
  if (decision?.cause === "requested") return "requested";
  if (decision?.cause !== "price") return "the window is nearly full";
  const { tokens, carryingCost, rewriteCost, cacheHitProbability, brokenTokens } = decision;
  const numbers = `${Math.round(tokens)} tokens evicted, ${
    Math.round(brokenTokens)
  } cached tokens read again`;
  return rewriteCost <= 0
    ? `free now: ${numbers}, cache hit probability ${cacheHitProbability.toFixed(2)}`
    : `the carrying cost of ${Math.round(carryingCost)} has paid the rewrite cost of ${
      Math.round(rewriteCost)
    }: ${numbers}`;
}

/**
 * Rounds of cuts from a prompt that may still be too long, and target shares of the window for seen and new
 * results.
 */
const MAX_CUTS = 12;
const ROOMY_SHARE = 0.8;
const FITTING_SHARE = 0.98;

const LAST_STEPS = 8;

const LINE_TOKENS = 60;

/** Returns the oldest visible results that the model has seen, until they free these tokens. */
function oldestResults(
  layout: Layout,
  history: readonly Message[],
  { neededTokens, countTokens, retained, tools }: Pick<RewriteOptions, "countTokens" | "tools"> & {
    readonly neededTokens: number;
    readonly retained: ReadonlySet<number>;
  },
): ElisionCandidate[] {
  const newest = history.findLastIndex(({ role }) => role === "assistant");
  const names = resultTools(history);
  const found: ElisionCandidate[] = [];
  let won = 0;
  for (let index = 0; index < newest && won < neededTokens; index++) {
    const message = history[index]!;
    if (message.role !== "tool" || message.keep || retained.has(index) || !layout.shows(index)) continue;
    const tokensBefore = countMessageTokens(message, countTokens);
    const tool = names.get(index);
    const original = resultOriginal(message, tool !== undefined && tools?.[tool] !== undefined);
    if (original === undefined || layout.tokensAt(index) < LINE_TOKENS) continue;
    won += layout.tokensAt(index) - EXPECTED_LINE_TOKENS;
    found.push(candidateOf(message, { index, tool: tool ?? "tool", tokensBefore }));
  }
  return found;
}

/**
 * Archives evicted content and returns the edits. Adjacent steps share a line, also with earlier ones, unless
 * that line is before the first eviction: it would move everything after it.
 * @throws {Error} if something can't be archived; nothing may be evicted then.
 */
export async function makeEdits(
  { history, edits }: { readonly history: readonly Message[]; readonly edits: readonly Edit[] },
  removals: readonly Pick<Removal, "how">[],
  options: ElideOptions,
): Promise<Edit[]> {
  const { countTokens, archive, tools, recall = false } = options;
  const candidates: ElisionCandidate[] = [];
  const made: Edit[] = [];
  const stretches: Stretch[] = [];
  let first = Infinity;
  for (const { how } of removals) {
    if (how.type === "elide") candidates.push(how.candidate);
    else if (how.type === "compact") made.push(how);
    if (how.type === "drop") stretches.push(how);
    first = Math.min(
      first,
      how.type === "compact" ? -1 : how.type === "elide" ? how.candidate.index : how.from,
    );
  }
  const before = edits.filter((edit): edit is DropEdit => edit.type === "drop");
  for (const stretch of joined(stretches, before.filter(({ to }) => to > first))) {
    made.push(await drop(history, stretch, { archive, recall }));
  }
  const elisions = await elide(history, candidates, { countTokens, archive, recall, tools });
  for (const { index, toolCallId, ref, text } of elisions) {
    made.push({ type: "elide", index, toolCallId, ref, text });
  }
  return made;
}

type Stretch = Pick<DropEdit, "from" | "to">;

/** Merges adjacent ranges; omits merged ranges that are only from `before`. */
function joined(stretches: readonly Stretch[], before: readonly Stretch[]): Stretch[] {
  const all: { from: number; to: number; isNew: boolean }[] = [];
  const sorted = [
    ...stretches.map(({ from, to }) => ({ from, to, isNew: true })),
    ...before.map(({ from, to }) => ({ from, to, isNew: false })),
  ].sort((a, b) => a.from - b.from);
  for (const stretch of sorted) {
    const last = all.at(-1);
    if (!last || stretch.from > last.to) {
      all.push({ ...stretch });
      continue;
    }
    last.to = Math.max(last.to, stretch.to);
    last.isNew ||= stretch.isNew;
  }
  return all.filter(({ isNew }) => isNew);
}

async function drop(
  history: readonly Message[],
  { from, to }: Stretch,
  { archive, recall }: { readonly archive: Archive; readonly recall: boolean },
): Promise<DropEdit> {
  const messages = history.slice(from, to);
  const { ref } = await archiveMessages(messages, { archive, purpose: "drop" });
  const text = formatPlaceholder({ of: "messages", messages: messages.length, ref }, { recall });
  return { type: "drop", from, to, ref, text };
}

export function withEdits(edits: readonly Edit[], made: readonly Edit[]): readonly Edit[] {
  if (made.length === 0) return edits;
  const stretches = made.filter((edit) => edit.type === "drop");
  const left = (from: number, to: number) =>
    stretches.some((stretch) => stretch.from <= from && to <= stretch.to);
  const elided = new Set(made.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
  const stays = new Set(edits.flatMap((edit) => edit.type === "keep" ? [edit.index] : []));
  const retained = edits.filter((edit) => {
    if (edit.type === "compact" || edit.type === "summarize" || edit.type === "keep") return true;
    // References of hidden results still record when their sources were used.
    if (edit.type === "ingest") return true;
    if (edit.type === "drop") return !left(edit.from, edit.to);
    return !elided.has(edit.index) && (stays.has(edit.index) || !left(edit.index, edit.index + 1));
  });
  return [...retained, ...made];
}

/** Returns the edits after retained messages are restored, before the placeholders of their ranges. */
function withRetained(edits: readonly Edit[], { retained, steps }: PinnedPlaces): readonly Edit[] {
  const known = new Set(edits.flatMap((edit) => edit.type === "keep" ? [edit.index] : []));
  const added = [...steps].filter((at) => !known.has(at) && edits.some(covers(at))).sort((a, b) => a - b);
  const hides = (edit: Edit) =>
    (edit.type === "elide" || edit.type === "shorten" || edit.type === "ingest") && retained.has(edit.index);
  if (added.length === 0 && !edits.some(hides)) return edits;
  const all = new Set([...known, ...added]);
  const isEmpty = (edit: Edit) =>
    edit.type === "drop" &&
    Array.from({ length: edit.to - edit.from }).every((_, at) => all.has(edit.from + at));
  const left = edits.filter((edit) => !hides(edit) && !isEmpty(edit));
  const isOver = (edit: Edit) => edit.type === "keep" && !left.some(covers(edit.index));
  return [...left, ...added.map((index): KeepEdit => ({ type: "keep", index }))].filter((edit) =>
    !isOver(edit)
  );
}

const covers = (at: number) => (edit: Edit) =>
  (edit.type === "drop" || edit.type === "summarize") && edit.from <= at && at < edit.to;

function withRelief(
  edits: readonly Edit[],
  made: readonly Edit[],
  visible: ReadonlySet<number>,
): readonly Edit[] {
  const end = Math.max(0, ...made.flatMap((edit) => edit.type === "summarize" ? [edit.to] : []));
  const after = withoutRetained([...edits, ...made], (at) => at < end && !visible.has(at));
  return withRetained(after, { retained: new Set(), steps: visible });
}

function withoutRetained(edits: readonly Edit[], evictsAt: (at: number) => boolean): readonly Edit[] {
  const evictsEdit = (edit: Edit) => edit.type === "keep" && evictsAt(edit.index);
  return edits.some(evictsEdit) ? edits.filter((edit) => !evictsEdit(edit)) : edits;
}

import { addUsage, countRequestTokens, type Usage } from "@tare/messages";
import { unscaled } from "../cache/provider_tokens.ts";
import type { Edit } from "../edits/edit.ts";
import { type FullWindow, NEVER_FULL, relieveWindow, tellFull } from "../edits/full_window.ts";
import { makeEdits, withEdits } from "../edits/make_edits.ts";
import type { Pin } from "../edits/pin.ts";
import {
  pinnedPlaces,
  removalsOf,
  tellNoRoom,
  tellOver,
  withKept,
  withoutKept,
  withRelief,
} from "../edits/pinned.ts";
import { placedView } from "../edits/view.ts";
import { savedTokens, sharePrompt } from "../ledger/ledger.ts";
import type { Removal } from "../retention/find_removals.ts";
import type { Draft } from "./draft.ts";
import { WINDOW_SHARE } from "./make_room.ts";
import type { Decision, Plan, PlannerOptions, PlanRequest } from "./plan.ts";

/** What a {@linkcode Rewriting} goes by. */
export interface RewritingOptions extends PlannerOptions {
  /** The prompt of a request after these edits. */
  readonly draft: (request: PlanRequest, edits: readonly Edit[]) => Draft;
}

/**
 * The prompt of one call on its way to its plan. What pays to leave leaves, a full window is relieved, and what was
 * asked for is done with it. What a step has left is known only once it is made, so that after each the prompt is
 * drafted anew, and may ask for more.
 */
export class Rewriting {
  readonly #request: PlanRequest;
  readonly #options: RewritingOptions;
  readonly #first: Draft;
  #draft: Draft;
  #edits: readonly Edit[];
  /** Those that hold still. */
  #pins: readonly Pin[];
  readonly #made: Edit[] = [];
  readonly #asked: Pin[] = [];
  readonly #ended: Pin[] = [];
  readonly #warnings: string[] = [];
  #isBought = false;
  #decision: Decision | undefined;
  #summary: Usage | undefined;
  #fullWindow: FullWindow;
  /** Whether nothing could be archived that would have relieved the window. */
  #failed = false;

  /** Begins with the prompt as it stands. */
  constructor(request: PlanRequest, options: RewritingOptions) {
    this.#request = request;
    this.#options = options;
    this.#edits = request.edits;
    this.#pins = request.pins ?? [];
    this.#fullWindow = request.fullWindow ?? NEVER_FULL;
    this.#first = this.#draft = options.draft(request, this.#edits);
    this.#decision = this.#first.decision;
  }

  /** Does all that there is to do, once. */
  async finish(): Promise<Plan> {
    await this.#settle();
    const held = this.#pins.filter(({ wish }) => wish === "keep");
    if (held.length > 0 && this.#isFull()) await this.#letGo(held);
    const told = tellFull(this.#fullWindow, !this.#failed && this.#overflows());
    this.#fullWindow = told.fullWindow;
    this.#warnings.push(...told.warnings);
    return this.#plan();
  }

  async #settle(): Promise<void> {
    await this.#rewrite();
    await this.#makeSpace();
    await this.#bringBack();
  }

  /** What is kept leaves a full window last, and what had to leave is kept no longer. */
  async #letGo(held: readonly Pin[]): Promise<void> {
    const { messages: history } = this.#request;
    this.#pins = this.#pins.filter((pin) => !held.includes(pin));
    this.#redraft();
    await this.#settle();
    const { layout } = this.#draft.seen;
    const over = held.filter(({ place }) => layout.find(place)?.message !== history[place]);
    this.#ended.push(...over);
    this.#warnings.push(...over.map(tellOver));
    this.#pins = [...this.#pins, ...held.filter((pin) => !over.includes(pin))];
    this.#redraft();
    await this.#settle();
  }

  /** Lets leave what pays, and with it results that were asked to, until nothing more does. */
  async #rewrite(): Promise<void> {
    for (;;) {
      const { leaving, wishes, isFree, decision, promptTokens } = this.#draft;
      const rides = this.#isBought || isFree || leaving.length > 0;
      const gone = rides ? wishes.gone.filter(({ pin }) => !this.#asked.includes(pin)) : [];
      if (leaving.length + gone.length === 0) return;
      if (!await this.#leave([...leaving, ...removalsOf(gone, leaving)])) return;
      this.#asked.push(...gone.map(({ pin }) => pin));
      if (leaving.length > 0) {
        this.#isBought = true;
        this.#decision = decision;
      }
      this.#redraft();
      // What was brought back as asked may stay whatever leaves: then nothing more is won.
      if (this.#draft.promptTokens >= promptTokens) return;
    }
  }

  /** Makes room in a window that price alone left full. */
  async #makeSpace(): Promise<void> {
    const { countTokens, archive, windowTokens = Infinity, summarise } = this.#options;
    const { messages: history, edits, recall = false, signal, progress } = this.#request;
    while (this.#overflows()) {
      const { promptTokens, scale } = this.#draft;
      const stays = pinnedPlaces(this.#pins, history).steps;
      const relief = await relieveWindow(this.#request, this.#edits, {
        countTokens,
        archive,
        kept: stays,
        recall,
        windowTokens: unscaled(scale, WINDOW_SHARE * windowTokens) / WINDOW_SHARE,
        summarise,
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
      const { layout } = this.#draft.seen;
      const shown = [...stays].filter((at) => !layout.hasLeft(at));
      this.#edits = withRelief(this.#edits, relief.edits, new Set(shown));
      this.#redraft();
      // What waited for a rewrite rides along.
      await this.#rewrite();
      if (this.#draft.promptTokens >= promptTokens) return;
    }
  }

  /** Brings back what is kept, as far as the window has room for it. */
  async #bringBack(): Promise<void> {
    const { wishes, isFree, prompt, scale: { perToken } } = this.#draft;
    const back = wishes.back.filter(({ pin }) => !this.#asked.includes(pin));
    if (back.length === 0 || !this.#isBought && !isFree) return;
    const { windowTokens = Infinity } = this.#options;
    let room = WINDOW_SHARE * windowTokens - prompt.promptTokens;
    const fitting = back.filter(({ pin, tokens }) => {
      const fits = -perToken * tokens <= room;
      if (fits) room += perToken * tokens;
      else {
        this.#ended.push(pin);
        this.#warnings.push(tellNoRoom(pin));
      }
      return fits;
    });
    this.#pins = this.#pins.filter((pin) => !this.#ended.includes(pin));
    if (fitting.length > 0 && await this.#leave(removalsOf(fitting, []))) {
      const pins = fitting.map(({ pin }) => pin);
      const before = this.#edits;
      this.#edits = withKept(before, pinnedPlaces(pins, this.#request.messages));
      this.#made.push(...this.#edits.filter((edit) => edit.type === "keep" && !before.includes(edit)));
      this.#asked.push(...pins);
    }
    this.#redraft();
    await this.#rewrite();
  }

  /** Archives what leaves, then edits; false if it can't be archived. */
  async #leave(leaving: readonly Pick<Removal, "how">[]): Promise<boolean> {
    const { messages: history, recall = false } = this.#request;
    try {
      const { elided } = this.#draft.seen.layout.placed;
      const seen = { history, elided, edits: this.#edits };
      const more = await makeEdits(seen, leaving, { ...this.#options, recall });
      this.#made.push(...more);
      const goes = (at: number) =>
        leaving.some(({ how }) => how.type === "drop" && how.from <= at && at < how.to);
      this.#edits = withEdits(withoutKept(this.#edits, goes), more);
      return true;
    } catch (error) {
      const { message } = error as Error;
      this.#warnings.push(`${message}. Nothing${this.#made.length > 0 ? " more" : ""} left the prompt.`);
      return false;
    }
  }

  #redraft(): void {
    this.#draft = this.#options.draft({ ...this.#request, pins: this.#pins }, this.#edits);
  }

  /** Whether the prompt leaves no room for the answer. */
  #isFull(): boolean {
    return this.#draft.prompt.promptTokens > WINDOW_SHARE * (this.#options.windowTokens ?? Infinity);
  }

  /** Whether more may leave for that than price lets go. */
  #overflows(): boolean {
    return (this.#options.relievesWindow ?? true) && this.#isFull();
  }

  #plan(): Plan {
    const request = this.#request;
    const { predicted, promptTokens, removals, seen } = this.#draft;
    const { layout, standings: { activeStart }, shownTools, toolTokens } = seen;
    const { messages, places, elided } = layout.placed;
    const { countTokens } = this.#options;
    const toolsBefore = countRequestTokens({ messages: [], tools: request.tools }, countTokens);
    const fullTokens = toolsBefore + layout.fullTokens;
    const elidedNow = new Set(this.#made.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    return {
      edits: this.#made,
      allEdits: this.#edits,
      asked: this.#asked,
      ended: this.#ended,
      isBought: this.#isBought,
      view: { messages: [...messages], places: [...places], elided, tools: shownTools },
      promptTokens,
      tokensBefore: this.#first.promptTokens,
      ...(this.#decision && { decision: this.#decision }),
      warnings: this.#warnings,
      ...(this.#summary && { summary: this.#summary }),
      fullWindow: this.#fullWindow,
      request,
      pending: removals.filter(({ idle }) => idle),
      shares: sharePrompt(layout, { activeStart, toolTokens }),
      saved: savedTokens(layout, {
        truncated: (request.truncated ?? []).filter((at) => !elidedNow.has(at)),
        all: fullTokens - promptTokens,
        schemas: toolsBefore - toolTokens,
      }),
      fullTokens: fullTokens + (request.deferred?.tokens ?? 0),
      predicted,
      stable: layout.stableWithin(predicted.sharedTokens - toolTokens, request.truncated),
    };
  }
}

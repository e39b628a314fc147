import { addUsage, countRequestTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import { servedTokens } from "../cache/prefix_cache.ts";
import { scaled, tokenScale, unscaled } from "../cache/provider_tokens.ts";
import type { Edit } from "../edits/edit.ts";
import { NEVER_FULL, relieveWindow, tellFull } from "../edits/full_window.ts";
import { makeEdits, withEdits } from "../edits/make_edits.ts";
import {
  findWishes,
  pinnedPlaces,
  removalsOf,
  rideOf,
  tellNoRoom,
  tellOver,
  withKept,
  withoutKept,
  withRelief,
} from "../edits/pinned.ts";
import { compactedTools, placedView } from "../edits/view.ts";
import { type LedgerEntry, savedTokens, sharePrompt } from "../ledger/ledger.ts";
import { promptCost } from "../ledger/price.ts";
import type { PromptSessionOptions } from "../prompt_session.ts";
import { currentProfile, type Profile, profileNamed } from "../providers.ts";
import { findRemovals, type Removal } from "../retention/find_removals.ts";
import { KEEP_WANTED } from "../retention/retention.ts";
import { bookCall } from "./book_call.ts";
import { decide, isSurelyCold, reckonedAlive, withRents } from "./decide.ts";
import { KnownHistory } from "./known_history.ts";
import { lookOnce, type OneShot } from "./look_once.ts";
import { forced, makeRoom, WINDOW_SHARE } from "./make_room.ts";
import type { Pin } from "../report/pin.ts";
import type { Draft, Plan, PlanRequest } from "./plan.ts";
import { cutBack, NEW_SESSION, type PlannerState } from "./planner_state.ts";
import { predict, type Prediction, resendOf, servedOf } from "./predict.ts";
import { type Quote, quotePrompt } from "./quote.ts";

/** What a planner goes by. */
export interface PlannerOptions extends Omit<PromptSessionOptions, "mechanisms" | "state"> {
  /** Whether a full window may go further than price does. Default true. */
  readonly relievesWindow?: boolean;
}

/**
 * Decides for one session, call by call, when what could leave the prompt does leave it: as soon as the rent paid
 * for carrying it equals the price of reading again what stands behind it, within the limits of its options.
 *
 * For each call: {@linkcode Planner.plan}, store {@linkcode Planner.state} and the new edits, make the request,
 * {@linkcode Planner.sent}, store the state again. A crash between two of these loses nothing: a stored edit counts
 * wherever it comes from. What it works out of the history stays in memory and is worked out again after a restart.
 */
export class Planner {
  readonly #options: PlannerOptions & Required<Pick<PlannerOptions, "retention" | "lossLimit">>;
  #state: PlannerState;
  readonly #known: KnownHistory;
  /** How often the prompt had been rewritten when each plan was made: it may be sent after others were made. */
  readonly #rewrites = new WeakMap<Plan, number>();

  /**
   * A planner for a new session, or for one that goes on from a stored state.
   *
   * @param from The planner whose session goes on here: what it has worked out needn't be again.
   */
  constructor(options: PlannerOptions, state: PlannerState = NEW_SESSION, from?: Planner) {
    this.#options = { retention: KEEP_WANTED, lossLimit: 0.05, ...options };
    this.#state = state;
    this.#known = new KnownHistory(options, from && from.#known);
  }

  /** What it knows of the session, to be stored after each plan and after each successful request. */
  get state(): PlannerState {
    return this.#state;
  }

  /** The cache rules that it goes by. */
  get profile(): Profile {
    const told = currentProfile(this.#options.profile);
    const { recognised } = this.#state;
    return recognised !== undefined && (told.name === "none" || told.writes)
      ? profileNamed(recognised)
      : told;
  }

  /** Whether a history goes on from the one that was planned last. */
  isKnown(history: readonly Message[]): boolean {
    return this.#known.isStartOf(history);
  }

  /** Plans a call. Planning again gives the same plan. */
  async plan(request: PlanRequest): Promise<Plan> {
    const { countTokens, archive, windowTokens = Infinity, summarise } = this.#options;
    const { messages: history, signal, progress, recall = false } = request;
    let { edits, pins = [] } = request;
    const made: Edit[] = [];
    const warnings: string[] = [];
    const asked: Pin[] = [];
    const ended: Pin[] = [];
    let isBought = false;
    const makeDraft = () => this.#draft({ ...request, pins }, edits);
    await this.#options.inSlices?.(this.#known.take(history));
    let draft = makeDraft();
    let { decision } = draft;
    const { promptTokens: tokensBefore, predicted: { sharedTokens: sharedBefore } } = draft;
    /** Archives what leaves, then edits; false if it can't be archived. */
    const leave = async (leaving: readonly Pick<Removal, "how">[]): Promise<boolean> => {
      try {
        const seen = { history, elided: this.#known.layout.placed.elided, edits };
        const more = await makeEdits(seen, leaving, { ...this.#options, recall });
        made.push(...more);
        const goes = (at: number) =>
          leaving.some(({ how }) => how.type === "drop" && how.from <= at && at < how.to);
        edits = withEdits(withoutKept(edits, goes), more);
        return true;
      } catch (error) {
        const { message } = error as Error;
        warnings.push(`${message}. Nothing${made.length > 0 ? " more" : ""} left the prompt.`);
        return false;
      }
    };
    // What a rewrite leaves is known only once it is made: a full window may ask for more.
    const rewrite = async () => {
      for (;;) {
        const { leaving, wishes, isFree } = draft;
        const rides = isBought || isFree || leaving.length > 0;
        const gone = rides ? wishes.gone.filter(({ pin }) => !asked.includes(pin)) : [];
        if (leaving.length + gone.length === 0) return;
        if (!await leave([...leaving, ...removalsOf(gone, leaving)])) return;
        asked.push(...gone.map(({ pin }) => pin));
        if (leaving.length > 0) {
          isBought = true;
          ({ decision } = draft);
        }
        const { promptTokens } = draft;
        draft = makeDraft();
        // What was brought back as asked may stay whatever leaves: then nothing more is won.
        if (draft.promptTokens >= promptTokens) return;
      }
    };
    /** Brings back what is kept, as far as the window has room for it. */
    const bringBack = async () => {
      const { wishes, isFree, prompt } = draft;
      const back = wishes.back.filter(({ pin }) => !asked.includes(pin));
      if (back.length === 0 || !isBought && !isFree) return;
      const { perToken } = tokenScale(this.#state.counted);
      let room = WINDOW_SHARE * windowTokens - prompt.promptTokens;
      const fitting = back.filter(({ pin, tokens }) => {
        const fits = -perToken * tokens <= room;
        if (fits) room += perToken * tokens;
        else ended.push(pin);
        return fits;
      });
      for (const { pin } of back) if (ended.includes(pin)) warnings.push(tellNoRoom(pin));
      pins = pins.filter((pin) => !ended.includes(pin));
      if (fitting.length > 0 && await leave(removalsOf(fitting, []))) {
        const before = edits;
        edits = withKept(edits, pinnedPlaces(fitting.map(({ pin }) => pin), history));
        made.push(...edits.filter((edit) => edit.type === "keep" && !before.includes(edit)));
        asked.push(...fitting.map(({ pin }) => pin));
      }
      draft = makeDraft();
      await rewrite();
    };
    let summary: Usage | undefined;
    let { fullWindow = NEVER_FULL } = request;
    let failed = false;
    const makeSpace = async () => {
      while (windowTokens !== undefined && this.#overflows(draft.prompt.promptTokens)) {
        const stays = pinnedPlaces(pins, history).steps;
        const relief = await relieveWindow(request, edits, {
          countTokens,
          archive,
          kept: stays,
          recall,
          windowTokens: unscaled(tokenScale(this.#state.counted), WINDOW_SHARE * windowTokens) / WINDOW_SHARE,
          summarise,
          signal,
          progress,
          fullWindow,
          warm: { view: placedView(request, request.edits), sharedTokens: sharedBefore },
        });
        made.push(...relief.edits);
        warnings.push(...relief.warnings);
        fullWindow = relief.fullWindow;
        failed = relief.failed ?? false;
        if (relief.usage) summary = summary ? addUsage(summary, relief.usage) : relief.usage;
        if (relief.edits.length === 0) break;
        isBought = true;
        const { promptTokens } = draft;
        const shown = [...stays].filter((at) => !this.#known.layout.hasLeft(at));
        edits = withRelief(edits, relief.edits, new Set(shown));
        draft = makeDraft();
        // What waited for a rewrite rides along.
        await rewrite();
        if (draft.promptTokens >= promptTokens) break;
      }
    };
    const settle = async () => {
      await rewrite();
      await makeSpace();
      await bringBack();
    };
    await settle();
    const held = pins.filter(({ wish }) => wish === "keep");
    if (held.length > 0 && draft.prompt.promptTokens > WINDOW_SHARE * windowTokens) {
      // What is kept leaves a full window last.
      pins = pins.filter(({ wish }) => wish !== "keep");
      draft = makeDraft();
      await settle();
      const { layout } = this.#known;
      const over = held.filter(({ place }) => layout.find(place)?.message !== history[place]);
      ended.push(...over);
      warnings.push(...over.map(tellOver));
      pins = [...pins, ...held.filter((pin) => !over.includes(pin))];
      draft = makeDraft();
      await settle();
    }
    const told = tellFull(fullWindow, !failed && this.#overflows(draft.prompt.promptTokens));
    fullWindow = told.fullWindow;
    warnings.push(...told.warnings);
    const { messages, places, elided } = this.#known.layout.placed;
    const toolsBefore = countRequestTokens({ messages: [], tools: request.tools }, countTokens);
    const saidTokens = toolsBefore + this.#known.layout.fullTokens;
    const { predicted, promptTokens, removals, seen: { shownTools, toolTokens } } = draft;
    const elidedNow = new Set(made.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    const plan: Plan = {
      edits: made,
      allEdits: edits,
      asked,
      ended,
      isBought,
      view: { messages: [...messages], places: [...places], elided, tools: shownTools },
      promptTokens,
      tokensBefore,
      ...(decision && { decision }),
      warnings,
      ...(summary && { summary }),
      fullWindow,
      request,
      pending: removals.filter(({ idle }) => idle),
      shares: sharePrompt(this.#known.layout, { activeStart: this.#known.standings.activeStart, toolTokens }),
      saved: savedTokens(this.#known.layout, {
        truncated: (request.truncated ?? []).filter((at) => !elidedNow.has(at)),
        all: saidTokens - promptTokens,
        schemas: toolsBefore - toolTokens,
      }),
      fullTokens: saidTokens + (request.deferred?.tokens ?? 0),
      predicted,
      stable: this.#known.layout.stableWithin(predicted.sharedTokens - toolTokens, request.truncated),
    };
    this.#rewrites.set(plan, this.#known.rewrites);
    return plan;
  }

  /** What a request that isn't a turn sends. Changes nothing. */
  look(request: PlanRequest): OneShot {
    return lookOnce(request, {
      layout: this.#known.layout,
      profile: this.profile,
      countTokens: this.#options.countTokens,
      sharedWith: (tools) => this.#predict(request, tools).sharedTokens,
    });
  }

  /** What a call would cost, as it stands and without everything that could leave now. Changes nothing at all. */
  quote(request: PlanRequest): Quote {
    // A history that went back would be forgotten by being looked at.
    if (!this.isKnown(request.messages)) return new Planner(this.#options, this.#state).#quote(request);
    return this.#quote(request);
  }

  #quote(request: PlanRequest): Quote {
    const { removals, prompt } = this.#draft(request, request.edits, true);
    return quotePrompt(removals.filter(({ goes }) => goes), { profile: this.profile, ...prompt });
  }

  /** Tokens of a planned prompt that the provider's cache serves if it is still warm, counted here. */
  predictCached({ promptTokens, predicted: { sharedTokens } }: Plan): number {
    return servedTokens(this.profile, { promptTokens, sharedTokens });
  }

  /**
   * Takes note of a request that succeeded.
   *
   * @param usage What the provider reported of this very request; absent or `estimated` if it reported nothing.
   * @param summary What was paid for summaries since the last request. Default: what this plan paid.
   */
  sent(plan: Plan, usage?: Usage, summary: Usage | undefined = plan.summary): LedgerEntry {
    const { countTokens } = this.#options;
    const toolTokens = countRequestTokens({ messages: [], tools: plan.view.tools }, countTokens);
    const kept = Math.min(
      plan.promptTokens - toolTokens,
      this.#known.keptSince(this.#rewrites.get(plan) ?? 0),
    );
    const { profile } = this;
    const { state, entry } = bookCall(this.#state, {
      ...this.#options,
      profile,
      plan,
      usage,
      summary,
      messageTokens: kept,
    });
    this.#state = state;
    return entry;
  }

  /** The prompt after these edits, what could leave it, and whether to let it. */
  #draft(request: PlanRequest, edits: readonly Edit[], all = false): Draft {
    const { countTokens, windowTokens = Infinity, lossLimit } = this.#options;
    this.#lookAt(request.messages, edits);
    const { profile } = this;
    const { paid, resend, stopped, counted } = this.#state;
    const scale = tokenScale(counted);
    const shownTools = compactedTools(request.tools, edits);
    const toolTokens = countRequestTokens({ messages: [], tools: shownTools }, countTokens);
    const promptTokens = toolTokens + this.#known.layout.tokens;
    const { layout, standings } = this.#known;
    const seen = { layout, standings, tools: request.tools, shownTools, toolTokens };
    const predicted = this.#predict(request, shownTools);
    const theirs = scaled(scale, promptTokens);
    const cachedTokens = servedOf(profile, scale, { promptTokens: theirs, ...predicted });
    const { alive } = predicted;
    const prompt = { promptTokens: theirs, cachedTokens, alive };
    const full = theirs > WINDOW_SHARE * windowTokens;
    const pinnedAs = (request.pins ?? []).map(({ place, wish }) => `${place} ${wish}`).join();
    this.#known.judgeBy(
      `${profile.name} ${scale.perToken} ${Math.round(scale.unseen / 1_000)} ${pinnedAs}`,
    );
    const { pins = [], messages: history } = request;
    const seenMessages = this.#state.seen || Infinity;
    const pinned = pinnedPlaces(pins, history);
    const wishes = findWishes(pins, { history, layout, seenMessages, countTokens });
    const ride = rideOf(wishes, (tokens) => scaled(scale, toolTokens + tokens), scale.perToken);
    const removals = findRemovals(seen, {
      ...this.#options,
      pinned,
      profile,
      scale,
      all: all || full,
      // In a full window something must leave: rather what can be recalled than what was said.
      seenMessages: full ? Infinity : seenMessages,
      seenTools: new Set(this.#state.sent.flatMap(({ tools }) => tools)),
    });
    const removable = removals.filter(({ goes }) => goes);
    const reckoned = reckonedAlive(alive);
    const cost = promptCost(profile, { promptTokens: theirs, cachedTokens: reckoned * cachedTokens });
    const resendTokens = theirs + scale.perToken *
        (countRequestTokens({ messages: [], tools: request.tools }, countTokens) - toolTokens +
          this.#known.layout.fullTokens -
          this.#known.layout.tokens + (request.deferred?.tokens ?? 0));
    const resendNow = promptCost(
      profile,
      resendOf(this.#state.sent, request, { profile, scale, promptTokens: resendTokens, alive: reckoned }),
    );
    const priced = withRents(removable, this.#state);
    const situation = { profile, ...prompt };
    const { cut, decision } = decide(priced, {
      ...situation,
      ride,
      allowedPrice: (1 + lossLimit) * (resend + resendNow) - paid - cost,
      stopped,
    });
    const isFree = ride !== undefined && (isSurelyCold(alive) || cachedTokens <= ride.start);
    const draft = { seen, promptTokens, removals, predicted, prompt, wishes, isFree };
    if (cut) return { ...draft, leaving: removable.slice(cut.first), ...(decision && { decision }) };
    const room = makeRoom(removals, { ...situation, windowTokens });
    if (room.length === 0) return { ...draft, leaving: [], ...(decision && { decision }) };
    return { ...draft, leaving: room, decision: forced(room, situation) };
  }

  /** Takes in what is new of a history. */
  #lookAt(history: readonly Message[], edits: readonly Edit[]): void {
    const shared = this.#known.sharedLength(history);
    const gone = this.#known.layout.fullTokens - this.#known.layout.fullTokensOf(shared);
    const kept = this.#known.lookAt(history, edits);
    if (kept === Infinity) return;
    this.#state = cutBack(this.#state, { shared, kept, gone });
  }

  #predict({ nowMs, model }: PlanRequest, tools: readonly ToolDefinition[]): Prediction {
    const { profile } = this;
    const { sent, warmth } = this.#state;
    return predict(sent, { profile, warmth, nowMs, model, tools, countTokens: this.#options.countTokens });
  }

  /** Whether a prompt leaves no room for the answer, and more may leave for it than price lets go. */
  #overflows(promptTokens: number): boolean {
    const { windowTokens = Infinity, relievesWindow = true } = this.#options;
    return relievesWindow && promptTokens > WINDOW_SHARE * windowTokens;
  }
}

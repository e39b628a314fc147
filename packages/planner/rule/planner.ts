import { addUsage, countRequestTokens, type Message, type ToolDefinition, type Usage } from "@tare/messages";
import { servedTokens } from "../cache/prefix_cache.ts";
import { observeTokens, scaled, tokenScale, unscaled } from "../cache/provider_tokens.ts";
import { observeWarmth } from "../cache/warmth.ts";
import type { Edit } from "../edits/edit.ts";
import { NEVER_FULL, relieveWindow, tellFull } from "../edits/full_window.ts";
import { makeEdits, withEdits } from "../edits/make_edits.ts";
import { compactedTools, placedView } from "../edits/view.ts";
import { explainUncached, type LedgerEntry, savedTokens, sharePrompt } from "../ledger/ledger.ts";
import { promptCost } from "../ledger/price.ts";
import type { PromptSessionOptions } from "../prompt_session.ts";
import { type Profile, profileNamed, recogniseProfile } from "../providers.ts";
import { findRemovals, type Removal, type Seen } from "../retention/find_removals.ts";
import { KEEP_WANTED } from "../retention/retention.ts";
import { decide, reckonedAlive } from "./decide.ts";
import { KnownHistory } from "./known_history.ts";
import { lookOnce, type OneShot } from "./look_once.ts";
import { forced, makeRoom, WINDOW_SHARE } from "./make_room.ts";
import type { Decision, Plan, PlanRequest } from "./plan.ts";
import { cutBack, NEW_SESSION, type PlannerState, type SentRequest } from "./planner_state.ts";
import {
  findChange,
  hashEach,
  hashTools,
  predict,
  type Prediction,
  resendCostOf,
  servedOf,
  sharedTokens,
} from "./predict.ts";
import { type Quote, quotePrompt } from "./quote.ts";

/** Share of the cached tokens that were expected which must be served for the prefix to count as still there. */
const WARM_SHARE = 0.8;

/** So many models and sets of tools of a session are remembered with what they were sent last. */
const REMEMBERED_REQUESTS = 4;

/** A prompt as it would be sent, and whether to change it. */
interface Draft {
  readonly seen: Seen;
  /** Counted here. */
  readonly promptTokens: number;
  readonly removals: readonly Removal[];
  readonly leaving: readonly Removal[];
  readonly predicted: Prediction;
  /** Counted by the provider. */
  readonly prompt: { readonly promptTokens: number; readonly cachedTokens: number; readonly alive: number };
  readonly decision?: Decision;
}

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
    return this.#state.recognised ? profileNamed(this.#state.recognised) : this.#options.profile;
  }

  /** Whether a history goes on from the one that was planned last. */
  isKnown(history: readonly Message[]): boolean {
    return this.#known.isStartOf(history);
  }

  /** Plans a call. Planning again gives the same plan. */
  async plan(request: PlanRequest): Promise<Plan> {
    const { countTokens, archive, windowTokens = Infinity, summarise } = this.#options;
    const { messages: history, signal, progress, recall = false } = request;
    let { edits } = request;
    const made: Edit[] = [];
    const warnings: string[] = [];
    await this.#options.inSlices?.(this.#known.take(history));
    let draft = this.#draft(request, edits);
    let { decision } = draft;
    const { promptTokens: tokensBefore, predicted: { sharedTokens: sharedBefore } } = draft;
    // What a rewrite leaves is known only once it is made: a full window may ask for more.
    const rewrite = async () => {
      while (draft.leaving.length > 0) {
        const { elided } = this.#known.layout.placed;
        try {
          const seen = { history, elided, edits };
          const more = await makeEdits(seen, draft.leaving, { ...this.#options, recall });
          made.push(...more);
          edits = withEdits(edits, more);
        } catch (error) {
          const { message } = error as Error;
          warnings.push(`${message}. Nothing${made.length > 0 ? " more" : ""} left the prompt.`);
          break;
        }
        decision = draft.decision;
        draft = this.#draft(request, edits);
      }
    };
    await rewrite();
    let summary: Usage | undefined;
    let { fullWindow = NEVER_FULL } = request;
    let failed = false;
    while (windowTokens !== undefined && this.#overflows(draft.prompt.promptTokens)) {
      const relief = await relieveWindow(request, edits, {
        countTokens,
        archive,
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
      const { promptTokens } = draft;
      edits = [...edits, ...relief.edits];
      draft = this.#draft(request, edits);
      // What waited for a rewrite rides along.
      await rewrite();
      if (draft.promptTokens >= promptTokens) break;
    }
    const told = tellFull(fullWindow, !failed && this.#overflows(draft.prompt.promptTokens));
    fullWindow = told.fullWindow;
    warnings.push(...told.warnings);
    const { messages, places, elided } = this.#known.layout.placed;
    const toolsBefore = countRequestTokens({ messages: [], tools: request.tools }, countTokens);
    const fullTokens = toolsBefore + this.#known.layout.fullTokens;
    const { predicted, promptTokens, removals, seen: { shownTools, toolTokens } } = draft;
    const elidedNow = new Set(made.flatMap((edit) => edit.type === "elide" ? [edit.index] : []));
    const plan: Plan = {
      edits: made,
      allEdits: edits,
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
        all: fullTokens - promptTokens,
        schemas: toolsBefore - toolTokens,
      }),
      fullTokens,
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
    const { lossLimit, countTokens } = this.#options;
    const { request, predicted, promptTokens, fullTokens } = plan;
    const { nowMs, model, tools } = request;
    const before = this.#state;
    const last = before.sent[0];
    const late = last && nowMs - last.atMs > this.profile.ttlMs;
    const reported = usage && !usage.estimated ? usage : undefined;
    const counted = reported
      ? observeTokens({ ours: promptTokens, theirs: reported.promptTokens }, before.counted)
      : before.counted;
    const scale = tokenScale(counted);
    const prompt = reported?.promptTokens ?? Math.round(scaled(scale, promptTokens));
    const { profile } = this;
    const expected = Math.round(servedOf(profile, scale, { promptTokens: prompt, ...predicted }));
    const actual: Usage = reported ?? {
      promptTokens: prompt,
      cachedTokens: predicted.alive < 0.5 ? 0 : expected,
      outputTokens: usage?.outputTokens ?? 0,
      estimated: true,
    };
    // A rewrite at the very front leaves nothing to go by but the estimate.
    const served = expected > 0 ? actual.cachedTokens / expected : predicted.alive;
    const cost = promptCost(profile, actual) + (summary ? promptCost(profile, summary) : 0);
    const resendTokens = prompt + scale.perToken * (fullTokens - promptTokens);
    const resendCost = resendCostOf(this.#state.sent, request, {
      profile,
      scale,
      promptTokens: resendTokens,
      alive: served >= WARM_SHARE ? 1 : served,
    });
    const paid = before.paid + cost;
    const resend = before.resend + resendCost;
    const recognised = recogniseProfile(actual, profile) ?? before.recognised;
    const idleSince: Record<string, number> = {};
    for (const { parts } of plan.pending) {
      for (const { name } of parts) idleSince[name] = before.idleSince[name] ?? before.carried;
    }
    const shown = plan.view.tools;
    const toolTokens = countRequestTokens({ messages: [], tools: shown }, countTokens);
    const kept = Math.min(promptTokens - toolTokens, this.#known.keptSince(this.#rewrites.get(plan) ?? 0));
    const toolsHash = hashTools(tools);
    const now: SentRequest = {
      tools: hashEach(shown),
      messageTokens: kept,
      promptTokens,
      fullTokens,
      toolsHash,
      atMs: nowMs,
      model,
    };
    this.#state = {
      seen: request.messages.length,
      sent: [now, ...before.sent.filter((other) => other.model !== model || other.toolsHash !== toolsHash)]
        .slice(0, REMEMBERED_REQUESTS),
      // What waits stands in front of what breaks, so that it is served if anything is.
      carried: before.carried + (actual.cachedTokens > 0 ? profile.read : profile.write),
      idleSince,
      warmth: reported && expected > 0
        ? observeWarmth(profile, { idleMs: predicted.idleMs, warm: served >= WARM_SHARE }, before.warmth)
        : before.warmth,
      counted,
      paid,
      resend,
      stopped: before.stopped || paid > (1 + 2 * lossLimit) * resend,
      ...(recognised && { recognised }),
    };
    const lastShared = last ? sharedTokens(last, { tools: shown, countTokens }) : 0;
    return {
      usage: actual,
      predictedCachedTokens: expected,
      shares: plan.shares,
      uncached: explainUncached({
        uncachedTokens: actual.promptTokens - actual.cachedTokens,
        change: findChange(last, request),
        brokenTokens: last ? scale.perToken * (last.promptTokens - lastShared) : 0,
        // What a rewrite moved in a cold cache was gone before.
        missingTokens: late && actual.cachedTokens === 0
          ? scaled(scale, last.promptTokens)
          : expected - actual.cachedTokens,
        late: late ?? false,
      }),
      ...(summary && { summary }),
      cost,
      resendCost,
      saved: resend - paid,
      stopped: this.#state.stopped,
      ...(plan.decision && { decision: plan.decision }),
    };
  }

  /** The prompt after these edits, what could leave it, and whether to let it. */
  #draft(request: PlanRequest, edits: readonly Edit[], all = false): Draft {
    const { countTokens, windowTokens = Infinity, lossLimit } = this.#options;
    this.#lookAt(request.messages, edits);
    const { profile } = this;
    const { carried, idleSince, paid, resend, stopped, counted } = this.#state;
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
    this.#known.judgeBy(`${profile.name} ${scale.perToken} ${Math.round(scale.unseen / 1_000)}`);
    const removals = findRemovals(seen, {
      ...this.#options,
      profile,
      scale,
      all: all || full,
      // In a full window something must leave: rather what can be recalled than what was said.
      seenMessages: full ? Infinity : this.#state.seen || Infinity,
      seenTools: new Set(this.#state.sent.flatMap(({ tools }) => tools)),
    });
    const removable = removals.filter(({ goes }) => goes);
    const reckoned = reckonedAlive(alive);
    const cost = promptCost(profile, { promptTokens: theirs, cachedTokens: reckoned * cachedTokens });
    const resendTokens = theirs + scale.perToken *
        (countRequestTokens({ messages: [], tools: request.tools }, countTokens) - toolTokens +
          this.#known.layout.fullTokens -
          this.#known.layout.tokens);
    const resendNow = resendCostOf(this.#state.sent, request, {
      profile,
      scale,
      promptTokens: resendTokens,
      alive: reckoned,
    });
    const priced = removable.map(({ start, tokens, idle, parts }) => ({
      start,
      tokens,
      idle,
      rent: idle
        ? parts.reduce((sum, { name, tokens }) => sum + tokens * (carried - (idleSince[name] ?? carried)), 0)
        : 0,
    }));
    const situation = { profile, ...prompt };
    const { cut, decision } = decide(priced, {
      ...situation,
      allowedPrice: (1 + lossLimit) * (resend + resendNow) - paid - cost,
      stopped,
    });
    const draft = { seen, promptTokens, removals, predicted, prompt };
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

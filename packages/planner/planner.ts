import type { CountTokens, Message, ToolDefinition, ToolMessage, Usage } from "@tare/messages";
import type { Archive, ToolTraits } from "@tare/prune";
import type { Edit } from "./edit.ts";
import { findRemovals, type Removal, type Seen } from "./find_removals.ts";
import { makeEdits } from "./make_edits.ts";
import { type PromptUnit, servedTokens } from "./prefix_cache.ts";
import { promptCost } from "./price.ts";
import type { Profile } from "./profile.ts";
import { promptUnits, sharedTokens, sumTokens } from "./prompt_units.ts";
import { KEEP_WANTED, type Retention } from "./retention.ts";
import { type Conversation, placeMessages, shownTools } from "./view.ts";
import { estimateWarmth, type WarmthObservation } from "./warmth.ts";
import { type Cut, weighCuts } from "./weigh_cuts.ts";

/** Share of the window from which on price no longer decides. The rest is room for the answer. */
export const WINDOW_SHARE = 0.9;

/** What a planner goes by. */
export interface PlannerOptions {
  readonly profile: Profile;
  readonly countTokens: CountTokens;
  readonly archive: Archive;
  readonly toolTraits?: Readonly<Record<string, ToolTraits>>;
  readonly recall?: boolean;
  readonly windowTokens?: number;
  readonly retention?: Retention;
  /** Default 0.05; infinite: none. */
  readonly lossLimit?: number;
  readonly isError?: (message: ToolMessage, index: number) => boolean;
}

export interface PlanRequest extends Conversation {
  readonly edits: readonly Edit[];
  readonly nowMs: number;
  readonly model?: string;
}

export type DecisionCause = "price" | "window" | "none";

export interface Decision extends Omit<Cut, "first"> {
  readonly cause: DecisionCause;
  readonly alive: number;
}

export interface Plan {
  readonly edits: readonly Edit[];
  readonly view: Conversation;
  readonly promptTokens: number;
  readonly decision?: Decision;
  readonly warnings: readonly string[];
  readonly request: PlanRequest;
  readonly pending: readonly Removal[];
}

export interface PlannerState {
  readonly sent?: { readonly units: readonly PromptUnit[]; readonly atMs: number; readonly model?: string };
  readonly rent: Readonly<Record<string, number>>;
  readonly exposed: readonly string[];
  readonly warmth: readonly WarmthObservation[];
  readonly paid: number;
  readonly resend: number;
  readonly fullTokens: number;
}

const FRESH: PlannerState = { rent: {}, exposed: [], warmth: [], paid: 0, resend: 0, fullTokens: 0 };

export class Planner {
  readonly #options: PlannerOptions & { readonly retention: Retention };
  #state: PlannerState;

  constructor(options: PlannerOptions, state: PlannerState = FRESH) {
    this.#options = { retention: KEEP_WANTED, ...options };
    this.#state = state;
  }

  get state(): PlannerState {
    return this.#state;
  }

  async plan(request: PlanRequest): Promise<Plan> {
    const { profile, countTokens, windowTokens = Infinity, lossLimit = 0.05 } = this.#options;
    const { messages, tools, edits, nowMs } = request;
    const placed = placeMessages(messages, edits);
    const view = { messages: placed.messages, tools: shownTools(tools, edits) };
    const seen: Seen = { history: request, edits, placed, exposed: new Set(this.#state.exposed) };
    const units = promptUnits(view, countTokens);
    const promptTokens = sumTokens(units);
    const { cachedTokens, alive } = this.#predict(units, request);
    const removals = findRemovals(seen, this.#options);
    const priced = removals.map(({ start, parts }) => {
      let tokens = 0;
      let rent = 0;
      for (const part of parts) {
        tokens += part.tokens;
        rent += this.#state.rent[part.name] ?? 0;
      }
      return { start, tokens, rent };
    });
    const cuts = weighCuts(priced, { profile, cachedTokens, alive });
    const limit = windowTokens * WINDOW_SHARE;
    const now = promptCost(profile, { promptTokens, cachedTokens: cachedTokens * alive });
    const allowed = (1 + lossLimit) * (this.#state.resend + this.#resendCost(request, alive)) -
      this.#state.paid - now;
    const all = cuts.at(-1);
    const forced = all && promptTokens > limit && promptTokens - all.tokens <= limit;
    let best: Cut | undefined;
    if (forced) best = all;
    else {
      for (const cut of cuts) {
        if (cut.rent < cut.price || (cut.price > 0 && cut.price > allowed)) continue;
        if (!best || cut.rent - cut.price >= best.rent - best.price) best = cut;
      }
    }
    const kept = { edits: [], view, promptTokens, warnings: [], request, pending: removals };
    if (!best) return kept;
    const { first, ...figures } = best;
    const made = await makeEdits(seen, removals.slice(first), this.#options);
    const next = {
      messages: placeMessages(messages, [...edits, ...made]).messages,
      tools: shownTools(tools, [...edits, ...made]),
    };
    return {
      ...kept,
      edits: made,
      view: next,
      promptTokens: sumTokens(promptUnits(next, countTokens)),
      decision: { ...figures, cause: forced ? "window" : "price", alive },
      pending: removals.slice(0, first),
    };
  }

  sent(plan: Plan, usage: Pick<Usage, "promptTokens" | "cachedTokens">): void {
    const { profile, countTokens } = this.#options;
    const { request: { nowMs, model } } = plan;
    const before = this.#state;
    const units = promptUnits(plan.view, countTokens);
    const rent: Record<string, number> = {};
    for (const { parts, start } of plan.pending) {
      const price = start < usage.cachedTokens ? profile.read : profile.write;
      for (const { name, tokens } of parts) rent[name] = (before.rent[name] ?? 0) + tokens * price;
    }
    this.#state = {
      sent: { units, atMs: nowMs, ...(model !== undefined && { model }) },
      rent,
      exposed: [...new Set([...before.exposed, ...plan.request.tools.map((tool) => tool.function.name)])],
      warmth: before.warmth,
      paid: before.paid + promptCost(profile, usage),
      resend: before.resend + this.#resendCost(plan.request, usage.cachedTokens > 0 ? 1 : 0),
      fullTokens: sumTokens(promptUnits(plan.request, countTokens)),
    };
  }

  /** What the cache serves of these units if it is warm, and how likely it is. */
  #predict(
    units: readonly PromptUnit[],
    { nowMs, model }: PlanRequest,
  ): { cachedTokens: number; alive: number } {
    const { profile } = this.#options;
    const { sent, warmth } = this.#state;
    if (!sent || sent.model !== model) return { cachedTokens: 0, alive: 0 };
    const cachedTokens = servedTokens(profile, {
      promptTokens: sumTokens(units),
      sharedTokens: sharedTokens(units, sent.units),
    });
    return { cachedTokens, alive: estimateWarmth(profile, nowMs - sent.atMs, warmth) };
  }

  #resendCost(request: Conversation, alive: number): number {
    const { profile, countTokens } = this.#options;
    const promptTokens = sumTokens(promptUnits(request, countTokens));
    const cachedTokens = servedTokens(profile, { promptTokens, sharedTokens: this.#state.fullTokens });
    return promptCost(profile, { promptTokens, cachedTokens: cachedTokens * alive });
  }
}

import { addUsage, type CountTokens, type Usage } from "@tare/messages";
import { decide, reckonedAlive, WINDOW_SHARE } from "./decide.ts";
import type { Edit } from "../edits/edit.ts";
import { findRemovals, type Removal, type Seen } from "../retention/find_removals.ts";
import { hashText } from "../cache/hash_text.ts";
import { type CacheStory, explainUncached, type LedgerEntry, sharePrompt } from "../ledger/ledger.ts";
import { makeEdits } from "../edits/make_edits.ts";
import { NEVER_FULL, relieveWindow, tellFull } from "../edits/full_window.ts";
import type { Decision, Plan, PlanRequest } from "./plan.ts";
import { NEW_SESSION, type PlannerState, type SentRequest } from "./planner_state.ts";
import { type PromptUnit, servedTokens } from "../cache/prefix_cache.ts";
import { promptCost } from "../ledger/price.ts";
import type { PromptSessionOptions } from "../prompt_session.ts";
import { type Profile, profileNamed, recogniseProfile } from "../providers.ts";
import { hashPiece, promptUnits, sharedTokens, sumTokens } from "../cache/prompt_units.ts";
import { type Quote, quotePrompt } from "./quote.ts";
import { KEEP_WANTED } from "../retention/retention.ts";
import { compactedTools, type Conversation, placedView, placeMessages } from "../edits/view.ts";
import { estimateWarmth, observeWarmth } from "../cache/warmth.ts";
import type { Cut } from "./weigh_cuts.ts";

/** Share of the cached tokens that were expected which must be served for the prefix to count as still there. */
const WARM_SHARE = 0.8;

/** So many models and sets of tools of a session are remembered with what they were sent last. */
const REMEMBERED_REQUESTS = 4;

/** What the cache is expected to do for a request. */
interface Prediction {
  readonly cachedTokens: number;
  readonly alive: number;
  readonly idleMs: number;
}

/** A prompt as it would be sent, and whether to change it. */
interface Draft {
  readonly seen: Seen;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly alive: number;
  readonly removals: readonly Removal[];
  readonly cut?: Cut;
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
 * For each call: {@linkcode Planner.plan}, store the new edits, make the request, {@linkcode Planner.sent}, store
 * {@linkcode Planner.state}. A crash between two of these loses nothing: planning changes nothing by itself, and a
 * stored edit counts wherever it comes from.
 */
export class Planner {
  readonly #options: PlannerOptions & Required<Pick<PlannerOptions, "retention" | "lossLimit">>;
  #state: PlannerState;

  /** A planner for a new session, or for one that goes on from a stored state. */
  constructor(options: PlannerOptions, state: PlannerState = NEW_SESSION) {
    this.#options = { retention: KEEP_WANTED, lossLimit: 0.05, ...options };
    this.#state = state;
  }

  /** What it knows of the session, to be stored after each successful request. */
  get state(): PlannerState {
    return this.#state;
  }

  /** The cache rules that it goes by. */
  get profile(): Profile {
    return this.#state.recognised ? profileNamed(this.#state.recognised) : this.#options.profile;
  }

  /** Plans a call. Changes nothing but the archive: planning again gives the same plan. */
  async plan(request: PlanRequest): Promise<Plan> {
    const { countTokens, archive, windowTokens, summarise } = this.#options;
    const { signal, recall = false } = request;
    const made: Edit[] = [];
    const warnings: string[] = [];
    let draft = this.#draft(request, made);
    let { decision } = draft;
    const tokensBefore = draft.promptTokens;
    // What a rewrite leaves is known only once it is made: a full window may ask for more.
    const rewrite = async () => {
      while (draft.cut) {
        try {
          made.push(
            ...await makeEdits(draft.seen, draft.removals.slice(draft.cut.first), {
              ...this.#options,
              recall,
            }),
          );
        } catch (error) {
          warnings.push(
            `${(error as Error).message}. Nothing${made.length > 0 ? " more" : ""} left the prompt.`,
          );
          break;
        }
        decision = draft.decision;
        draft = this.#draft(request, made);
      }
    };
    await rewrite();
    let summary: Usage | undefined;
    let { fullWindow = NEVER_FULL } = request;
    let failed = false;
    while (windowTokens !== undefined && this.#overflows(draft.promptTokens)) {
      const before = placedView(request, request.edits);
      const warm = { view: before, sharedTokens: this.#sharedTokens(before, request) };
      const options = { countTokens, archive, recall, windowTokens, summarise, signal, fullWindow, warm };
      const relief = await relieveWindow(request, [...request.edits, ...made], options);
      made.push(...relief.edits);
      warnings.push(...relief.warnings);
      fullWindow = relief.fullWindow;
      failed = relief.failed ?? false;
      if (relief.usage) summary = summary ? addUsage(summary, relief.usage) : relief.usage;
      if (relief.edits.length === 0) break;
      const { promptTokens } = draft;
      draft = this.#draft(request, made);
      // What waited for a rewrite rides along.
      await rewrite();
      if (draft.promptTokens >= promptTokens) break;
    }
    const told = tellFull(fullWindow, !failed && this.#overflows(draft.promptTokens));
    fullWindow = told.fullWindow;
    warnings.push(...told.warnings);
    const after = placedView(request, [...request.edits, ...made]);
    return {
      edits: made,
      view: after,
      promptTokens: countUnits(after, countTokens),
      tokensBefore,
      ...(decision && { decision }),
      warnings,
      ...(summary && { summary }),
      fullWindow,
      request,
      pending: draft.removals,
    };
  }

  /** What a call would cost, as it stands and without everything that could leave now. Changes nothing at all. */
  quote(request: PlanRequest): Quote {
    const { removals, promptTokens, cachedTokens, alive } = this.#draft(request, []);
    return quotePrompt(removals, { profile: this.profile, promptTokens, cachedTokens, alive });
  }

  /** Tokens of a planned prompt that the provider's cache serves if it is still warm. */
  predictCached({ view, promptTokens, request }: Plan): number {
    return servedTokens(this.profile, { promptTokens, sharedTokens: this.#sharedTokens(view, request) });
  }

  /**
   * Takes note of a request that succeeded.
   *
   * @param usage What the provider reported of this very request; absent or `estimated` if it reported nothing.
   * @param summary What was paid for summaries since the last request. Default: what this plan paid.
   */
  sent(plan: Plan, usage?: Usage, summary: Usage | undefined = plan.summary): LedgerEntry {
    const { countTokens, lossLimit } = this.#options;
    const { request } = plan;
    const { nowMs, model } = request;
    const toolsHash = hashTools(request);
    const before = this.#state;
    const last = before.sent[0];
    const late = last && nowMs - last.atMs > this.profile.ttlMs;
    const units = promptUnits(plan.view, countTokens);
    const predicted = this.#predict(units, request);
    const reported = usage && !usage.estimated ? usage : undefined;
    // Another tokenizer than ours counts more or less.
    const scale = reported ? reported.promptTokens / plan.promptTokens : 1;
    const expected = Math.round(predicted.cachedTokens * scale);
    const actual: Usage = reported ?? {
      promptTokens: plan.promptTokens,
      cachedTokens: predicted.alive < 0.5 ? 0 : expected,
      outputTokens: usage?.outputTokens ?? 0,
      estimated: true,
    };
    // A rewrite at the very front leaves nothing to go by but the estimate.
    const served = expected > 0 ? actual.cachedTokens / expected : predicted.alive;
    const { profile } = this;
    const cost = promptCost(profile, actual) + (summary ? promptCost(profile, summary) : 0);
    const resendCost = scale * this.#resendCost(request, served >= WARM_SHARE ? 1 : served);
    const rent: Record<string, number> = {};
    for (const { parts, start } of plan.pending) {
      const price = start * scale < actual.cachedTokens ? profile.read : profile.write;
      for (const { name, tokens } of parts) rent[name] = (before.rent[name] ?? 0) + tokens * price;
    }
    const paid = before.paid + cost;
    const resend = before.resend + resendCost;
    const recognised = before.recognised ?? (profile.name === "none" ? recogniseProfile(actual) : undefined);

    this.#state = {
      sent: [
        { units, fullTokens: countUnits(request, countTokens), toolsHash, atMs: nowMs, model },
        ...before.sent.filter((other) => other.model !== model || other.toolsHash !== toolsHash),
      ].slice(0, REMEMBERED_REQUESTS),
      rent,
      exposed: [...new Set([...before.exposed, ...request.tools.map((tool) => tool.function.name)])],
      warmth: reported && expected > 0
        ? observeWarmth(profile, { idleMs: predicted.idleMs, warm: served >= WARM_SHARE }, before.warmth)
        : before.warmth,
      paid,
      resend,
      stopped: before.stopped || paid > (1 + 2 * lossLimit) * resend,
      ...(recognised && { recognised }),
    };
    return {
      usage: actual,
      predictedCachedTokens: expected,
      shares: sharePrompt(plan, countTokens),
      uncached: explainUncached({
        uncachedTokens: actual.promptTokens - actual.cachedTokens,
        change: findChange(last, request),
        brokenTokens: last ? scale * (sumTokens(last.units) - sharedTokens(units, last.units)) : 0,
        // What a rewrite moved in a cold cache was gone before.
        missingTokens: late && actual.cachedTokens === 0
          ? scale * sumTokens(last.units)
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

  /** The prompt after the edits made so far, what could leave it, and whether to let it. */
  #draft(request: PlanRequest, made: readonly Edit[]): Draft {
    const { countTokens, windowTokens = Infinity, lossLimit } = this.#options;
    const { profile } = this;
    const { rent, paid, resend, stopped, exposed } = this.#state;
    const edits = [...request.edits, ...made];
    const placed = placeMessages(request.messages, edits);
    const tools = compactedTools(request.tools, edits);
    const units = promptUnits({ messages: placed.messages, tools }, countTokens);
    const promptTokens = sumTokens(units);
    const seen: Seen = { history: request, edits, placed, exposed: new Set(exposed) };
    const { recall = false } = request;
    const removals = findRemovals(seen, { ...this.#options, recall });
    const removables = removals.map(({ start, parts }) => {
      const removable = { start, tokens: 0, rent: 0 };
      for (const { name, tokens } of parts) {
        removable.tokens += tokens;
        removable.rent += rent[name] ?? 0;
      }
      return removable;
    });
    const { cachedTokens, alive } = this.#predict(units, request);
    const reckoned = reckonedAlive(alive);
    const cost = promptCost(profile, { promptTokens, cachedTokens: reckoned * cachedTokens });
    const decided = decide(removables, {
      profile,
      promptTokens,
      cachedTokens,
      alive,
      windowTokens,
      allowedPrice: (1 + lossLimit) * (resend + this.#resendCost(request, reckoned)) - paid - cost,
      toolsFirst: removals.filter(({ how }) => how.type === "compact").length,
      stopped,
    });
    return { seen, promptTokens, cachedTokens, alive, removals, ...decided };
  }

  /** What the cache serves of these units if it is warm, how likely that is, and how long ago it was used. */
  #predict(units: readonly PromptUnit[], { nowMs, model }: PlanRequest): Prediction {
    let best: Prediction = { cachedTokens: 0, alive: 0, idleMs: 0 };
    const promptTokens = sumTokens(units);
    for (const sent of this.#state.sent) {
      if (sent.model !== model) continue;
      const shared = sharedTokens(units, sent.units);
      const cachedTokens = servedTokens(this.profile, { promptTokens, sharedTokens: shared });
      const idleMs = nowMs - sent.atMs;
      const alive = estimateWarmth(this.profile, idleMs, this.#state.warmth);
      const better = alive * cachedTokens > best.alive * best.cachedTokens;
      if (better || best.cachedTokens === 0) best = { cachedTokens, alive, idleMs };
    }
    return best;
  }

  /** Tokens with which a view starts like a request that was sent. */
  #sharedTokens(view: Conversation, { model }: PlanRequest): number {
    const units = promptUnits(view, this.#options.countTokens);
    const shared = this.#state.sent.filter((sent) => sent.model === model)
      .map((sent) => sharedTokens(units, sent.units));
    return Math.max(0, ...shared);
  }

  /** What it would cost now to send everything, had everything been sent so far. */
  #resendCost(request: PlanRequest, alive: number): number {
    const sent = this.#state.sent.find((sent) => findChange(sent, request) === "none");
    const promptTokens = countUnits(request, this.#options.countTokens);
    const cachedTokens = servedTokens(this.profile, { promptTokens, sharedTokens: sent?.fullTokens ?? 0 });
    return promptCost(this.profile, { promptTokens, cachedTokens: alive * cachedTokens });
  }

  /** Whether a prompt leaves no room for the answer, and more may leave for it than price lets go. */
  #overflows(promptTokens: number): boolean {
    const { windowTokens = Infinity, relievesWindow = true } = this.#options;
    return relievesWindow && promptTokens > WINDOW_SHARE * windowTokens;
  }
}

function countUnits(conversation: Conversation, countTokens: CountTokens): number {
  return sumTokens(promptUnits(conversation, countTokens));
}

function findChange(sent: SentRequest | undefined, request: PlanRequest): CacheStory["change"] {
  if (!sent) return "first_call";
  if (sent.model !== request.model) return "model_changed";
  return sent.toolsHash === hashTools(request) ? "none" : "tools_changed";
}

function hashTools({ tools }: Conversation): number {
  return hashText(tools.map(hashPiece).join());
}

import { countRequestTokens, type Message, type Usage } from "@tare/messages";
import { servedTokens } from "../cache/prefix_cache.ts";
import type { Edit } from "../edits/edit.ts";
import type { LedgerEntry } from "../ledger/ledger.ts";
import { currentProfile, type Profile, profileNamed } from "../providers.ts";
import { KEEP_WANTED } from "../retention/retention.ts";
import { bookCall } from "./book_call.ts";
import { type Draft, draftPrompt } from "./draft.ts";
import { KnownHistory, type LookedAt } from "./known_history.ts";
import { lookOnce, type OneShot } from "./look_once.ts";
import type { Plan, PlannerOptions, PlanRequest } from "./plan.ts";
import { cutBack, NEW_SESSION, type PlannerState } from "./planner_state.ts";
import { predict } from "./predict.ts";
import { type Quote, quotePrompt } from "./quote.ts";
import { Rewriting } from "./rewriting.ts";

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
   * @param before What it looked at last before a restart.
   */
  constructor(
    options: PlannerOptions,
    state: PlannerState = NEW_SESSION,
    { from, before }: { readonly from?: Planner | undefined; readonly before?: LookedAt | undefined } = {},
  ) {
    this.#options = { retention: KEEP_WANTED, lossLimit: 0.05, ...options };
    this.#state = state;
    this.#known = new KnownHistory(options, { from: from && from.#known, before });
  }

  /** What it looked at last; nothing if it looked at nothing. */
  get lookedAt(): LookedAt | undefined {
    return this.#known.lookedAt;
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
    await this.#options.inSlices?.(this.#known.take(request.messages));
    const rewriting = new Rewriting(request, {
      ...this.#options,
      draft: (request, edits) => this.#draft(request, edits),
    });
    const plan = await rewriting.finish();
    this.#rewrites.set(plan, this.#known.rewrites);
    return plan;
  }

  /** What a request that isn't a turn sends. Changes nothing. */
  look(request: PlanRequest): OneShot {
    const { countTokens } = this.#options;
    const { nowMs, model } = request;
    const { sent, warmth } = this.#state;
    const { profile } = this;
    return lookOnce(request, {
      layout: this.#known.layout,
      profile,
      countTokens,
      sharedWith: (tools) =>
        predict(sent, { profile, warmth, nowMs, model, tools, countTokens }).sharedTokens,
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
    this.#lookAt(request.messages, edits);
    return draftPrompt(request, edits, {
      ...this.#options,
      all,
      known: this.#known,
      state: this.#state,
      profile: this.profile,
    });
  }

  /** Takes in what is new of a history. */
  #lookAt(history: readonly Message[], edits: readonly Edit[]): void {
    const known = this.#known;
    const shared = known.sharedLength(history);
    const before = known.lookedTokens;
    const kept = known.lookAt(history, edits);
    if (kept === Infinity) return;
    // Of what is shared the count is the same.
    const gone = shared === Infinity ? 0 : before - known.layout.fullTokensOf(shared);
    this.#state = cutBack(this.#state, { shared, kept, gone });
  }
}

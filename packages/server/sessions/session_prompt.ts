import { CacheKeepAlive } from "@tare/session";
import { type KeepAliveTarget, Session } from "@tare/session/internal";
import {
  type CallReport,
  type PromptSnapshot,
  reportCall,
  UNFINISHED,
  usageTotals,
} from "@tare/session/internal/report";
import { ModelError, type TurnEnd, type TurnLedger } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type {
  AssistantMessage,
  KeepablePrompt,
  Message,
  Model,
  ModelSettings,
  Rewrite,
  Tool,
  ToolCall,
  ToolDefinition,
  Usage,
} from "@tare/messages";
import { describeCall, pairCalls, PLAN_TOOL_NAME, planAfter, sameData } from "@tare/messages/internal";
import type {
  History,
  KeepAliveRequest,
  LedgerEntry,
  Pin,
  PromptCall,
  PromptSession,
  SessionView,
} from "@tare/planner";
import { budgetUsd, callCost, type Rates } from "@tare/planner/internal/parts";
import { policySession } from "@tare/planner/policies";
import { DELEGATE_TOOL } from "../subagents/subagents.ts";
import { type OfferState, offerTools, type ToolOffer } from "../turns/session_tools.ts";
import { modelFacts, tracedModel } from "../turns/traced_turn.ts";
import type { SessionSettings } from "./session_settings.ts";
import type { SessionEvent, SessionNeeds, SessionTotals, TurnPrompt } from "./session_types.ts";
import { summarizeWith } from "./summarize.ts";

/** The stored state that a session's prompts continue from. */
export interface PromptState {
  readonly context?: unknown;
  readonly pins: readonly Pin[];
  readonly tools?: OfferState | undefined;
}

interface SessionPromptOptions extends SessionNeeds {
  readonly stored: PromptState & Pick<SessionTotals, "days"> & { readonly title: string };
  readonly isStored: (state: PromptState) => boolean;
  readonly before?: SessionPrompt | undefined;
  readonly exclusively: (work: () => Promise<void>) => Promise<void>;
  readonly paid: (cost: TurnLedger) => void;
}

interface Waits
  extends Pick<KeepAliveTarget["idle"], "pending" | "hasCommitted">, Pick<KeepAliveTarget, "consent"> {}

const BYTES_A_TOKEN = 4;

/** Ends of a turn after which the cache isn't kept alive. */
const GIVEN_UP: readonly TurnEnd["reason"][] = ["cancelled", "stalled", "model_error", "internal_error"];

export function modelSettings(
  { effort }: Pick<SessionSettings, "effort">,
  turn?: ModelSettings,
): ModelSettings | undefined {
  return effort === undefined ? turn : { reasoning_effort: effort, ...turn };
}

/** Returns the model that summarizes. @throws errors of the model's port for a model that is not available. */
function summaryModel({ id: conversation, environment, settings: own }: SessionNeeds): Model {
  const { telemetry } = environment;
  const { model } = own;
  const settings = modelSettings(own);
  const ask = environment.models.model(model);
  // Summaries have the settings of turns: another effort is a cache miss at some providers.
  const port: Model = settings ? (request) => ask({ ...request, settings }) : ask;
  if (!telemetry?.isOn) return port;
  return tracedModel(port, { telemetry, conversation, ...modelFacts(environment, model) });
}

const BY_PLAN = "plan";

function namesSteps(call: ToolCall): boolean {
  const made = describeCall(call);
  return made.name === PLAN_TOOL_NAME && planAfter(undefined, made) !== undefined;
}

function placesOfPlan(messages: readonly Message[]): readonly number[] {
  const from = messages.findLastIndex((message) =>
    message.role === "assistant" &&
    message.tool_calls?.some(namesSteps)
  );
  if (from < 0) return [];
  const places = pairCalls(messages.slice(from)).flatMap(({ call, answer }) =>
    answer && describeCall(call).name === PLAN_TOOL_NAME ? [from + answer.at] : []
  );
  return [...new Set([...places.slice(0, 1), ...places.slice(-1)])];
}

/** A session's conversation, its offered tools, and the cache keep-alive of its newest prompt. */
export class SessionPrompt implements TurnPrompt {
  readonly #options: SessionPromptOptions;
  readonly #prompts: PromptSession;
  readonly conversation: Session;
  #announced: OfferState | undefined;
  #state: PromptState | undefined;
  #plannedAt = -1;
  #offer: ToolOffer | undefined;
  /** Every tool that was ever offered, by name: results of removed tools may remain. */
  readonly #known: Record<string, Tool>;
  /** The newest request's prompt, if it can be sent again while the session waits. */
  #keepable: KeepablePrompt | undefined;

  constructor(options: SessionPromptOptions) {
    const { id, environment, settings, archive, countTokens, stored } = options;
    const { context, title, pins, days } = stored;
    const { before, ...rest } = options;
    this.#options = rest;
    this.#known = before ? before.#known : {};
    const resumed = before && before.#resume(context);
    this.#prompts = resumed ?? policySession({
      ...environment.prompt,
      windowTokens: () => environment.windowOf(settings.model),
      ...{ archive, countTokens, state: context },
      profile: () => this.#rates.profile,
      tools: this.#known,
      advanced: {
        inSlices: Session.inSlices,
        assumesWindow: () => environment.models.assumesWindow?.(settings.model) ?? false,
      },
      summarize: async (request) => {
        const unfinished = (usage: Usage) => this.#bookUnfinished(usage);
        return await summarizeWith(summaryModel(rest), { countTokens, unfinished })(request);
      },
    });
    this.conversation = new Session({
      ...{ id, archive, prompts: this.#prompts, countTokens, tools: this.#known },
      state: { title, model: settings.model, pins, days },
    });
    this.#announced = stored.tools;
  }

  get pins(): readonly Pin[] {
    return this.conversation.state.pins;
  }

  get state(): PromptState {
    const { pins, conversation: { prompt: { state: context } } } = this;
    const known = this.#state;
    const isSame = known && context === known.context && pins === known.pins &&
      this.#announced === known.tools;
    return isSame ? known : this.#state = { context, pins, tools: this.#announced };
  }

  get archived(): readonly string[] {
    const refs = JSON.stringify(this.state.context).matchAll(/"ref":"([0-9a-f]{16})"/g);
    return [...new Set(Array.from(refs, ([, ref]) => ref!))];
  }

  get isStored(): boolean {
    return this.#options.isStored(this.state);
  }

  offerTools(tools: readonly Tool[], mayTell: boolean): ToolOffer {
    this.#offer = this.#offerOf(tools, mayTell);
    this.#announced = this.#offer.state;
    return this.#offer;
  }

  async view(history: History, call: PromptCall): Promise<SessionView> {
    if (this.conversation.noPins === undefined) this.#keepPlan(history.messages);
    const view = await this.conversation.view(history, call);
    const { id, environment } = this.#options;
    for (const warning of view.warnings) environment.warned?.(id, warning);
    return view;
  }

  sent(usage: Usage | undefined, view: SessionView): LedgerEntry | undefined {
    return this.conversation.sent(usage, view);
  }

  cacheKey(messages: readonly Message[]): string {
    return this.conversation.cacheKey(messages);
  }

  rejected(words: string, view: SessionView): void {
    this.conversation.rejected(words, view);
  }

  made(prompt: KeepablePrompt): void {
    this.#keepable = prompt;
  }

  learns({ keepAlive }: Pick<LedgerEntry, "keepAlive">): void {
    if (keepAlive?.upgrade) this.#options.environment.keepAlive?.observe(this.#key, keepAlive.upgrade);
  }

  waitsForCalls(calls: NonNullable<AssistantMessage["tool_calls"]>): void {
    const isHelped = calls.some((call) =>
      call.type === "function" && call.function.name === DELEGATE_TOOL.function.name
    );
    this.#wait({ pending: isHelped ? "subagent" : "tool", consent: "turn" });
  }

  /** Subagents, and probably stopped or failed turns, aren't used again. */
  turnEnded({ reason }: Pick<TurnEnd, "reason">, messages: readonly Message[], isSubagent: boolean): void {
    const hasCommitted = CacheKeepAlive.hasCommitted(messages);
    if (reason === "approval") return this.#wait({ pending: "user", consent: "turn", hasCommitted });
    if (reason === "tool_calls") return this.#wait({ pending: "tool", consent: "turn" });
    if (isSubagent || GIVEN_UP.includes(reason)) return this.stopKeepAlive();
    this.#wait({ pending: "user", consent: "budget", hasCommitted });
  }

  stopKeepAlive(): void {
    this.#keepable = undefined;
    this.#options.environment.keepAlive?.cancelNext(this.#options.id);
  }

  forget(): void {
    this.stopKeepAlive();
    this.#options.environment.keepAlive?.forget(this.#options.id);
  }

  #wait({ consent, ...idle }: Waits): void {
    const { paid, environment: { keepAlive } } = this.#options;
    const keepable = this.#keepable;
    if (!keepable || !keepAlive) return;
    const rates = this.#rates;
    keepAlive.waits({
      ...{ session: this.conversation, consent, key: this.#key },
      idle: { ...idle, answerBlocks: keepable.answerBlocks },
      bytes: BYTES_A_TOKEN * (this.conversation.state.metrics?.promptTokens ?? 0),
      price: () => rates.price,
      send: (type, signal) => this.#sendKeepAlive(keepable, type, signal),
      onRecorded: (entry) => {
        const { usage, atMs } = entry;
        const { promptTokens, cachedTokens, outputTokens } = usage;
        this.#book(usageTotals.keepAlive(entry, this.#rates), atMs);
        paid({ ...EMPTY_LEDGER, promptTokens, cachedTokens, outputTokens, ...callCost(usage, rates) });
      },
    });
  }

  async #sendKeepAlive(
    { keepAliveBytes }: KeepablePrompt,
    type: KeepAliveRequest["type"],
    signal: AbortSignal,
  ): Promise<Usage | "refused" | undefined> {
    const { exclusively, environment: { store } } = this.#options;
    if (store.shared) await exclusively(() => Promise.resolve());
    signal.throwIfAborted();
    try {
      return await keepAliveBytes(type, signal);
    } catch (error) {
      if (error instanceof ModelError && error.code === "bad_request") return "refused";
      throw error;
    }
  }

  get #rates() {
    const { environment, settings: { model } } = this.#options;
    return environment.ratesOf(model);
  }

  /** Key of its requests' address and model: the server has one key for each address. */
  get #key(): string {
    const { environment: { models: { address } }, settings: { model } } = this.#options;
    return `${address?.(model) ?? this.#rates.profile.name} ${model}`;
  }

  #keepPlan(messages: readonly Message[]): void {
    const places = placesOfPlan(messages);
    for (const { place, by } of this.pins) {
      if (by === BY_PLAN && !places.includes(place)) this.conversation.pin({ remove: place });
    }
    for (const place of places) {
      // A plan that a full window evicted isn't pinned again.
      if (place <= this.#plannedAt || this.pins.some((pin) => pin.place === place)) continue;
      const set = this.conversation.makePin(messages, { place, wish: "retain", by: BY_PLAN });
      this.conversation.pin({ set });
    }
    this.#plannedAt = Math.max(this.#plannedAt, ...places);
  }

  book(events: readonly SessionEvent[]): void {
    const recordTotals: Session["recordTotals"] = (...costs) => this.#book(...costs);
    bookCalls({ recordTotals }, events, { rates: this.#rates, nowMs: this.#now() });
  }

  #bookUnfinished(usage: Usage): void {
    const { environment: { keys }, by } = this.#options;
    const reported = { number: 0, at: null, turn: null, purpose: UNFINISHED, rates: this.#rates };
    const call = reportCall(usage, reported);
    this.#book(usageTotals.call(call), this.#now());
    keys?.paid(by, budgetUsd(usage, this.#rates));
  }

  #book(...booked: Parameters<Session["recordTotals"]>): void {
    const { environment: { telemetry }, settings: { model } } = this.#options;
    this.conversation.recordTotals(...booked);
    telemetry?.recordCosts(booked[0], model);
  }

  fork(length: number): PromptState {
    const { id, archive } = this.#options;
    const { prompt, state } = this.conversation.fork(length, { id, archive });
    return { context: prompt.state, pins: state.pins, tools: this.#announced };
  }

  quote(messages: readonly Message[]): ReturnType<Session["quote"]> {
    return this.conversation.quote({ messages, tools: this.#tools() }, this.#now());
  }

  /** Returns the model's last prompt, and newer messages unless a turn runs. */
  async seen(
    { history: messages, isRunning }: {
      readonly history: readonly Message[];
      readonly isRunning: boolean;
    },
  ): Promise<PromptSnapshot> {
    if (isRunning && this.conversation.newest) return await this.conversation.see();
    return await this.conversation.see({ messages, tools: this.#tools(), nowMs: this.#now() });
  }

  #now(): number {
    return this.#options.environment.store.now();
  }

  /** Returns the stored prompt session; `undefined` if a new one is needed. */
  #resume(context: unknown): PromptSession | undefined {
    const { resume } = this.#prompts;
    if (!resume || context === undefined) return undefined;
    resume(context);
    return this.#prompts;
  }

  #tools(): readonly ToolDefinition[] {
    const { listed } = this.#offer ?? this.#offerOf(this.#options.tools(), true);
    return listed.map(({ definition }) => definition);
  }

  /** Returns tools in the order and spelling of their first offer: their servers may change both later. */
  #steady(tools: readonly Tool[]): readonly Tool[] {
    const names = Object.keys(this.#known);
    const placeOf = ({ definition }: Tool) => {
      const place = names.indexOf(definition.function.name);
      return place < 0 ? names.length : place;
    };
    return tools.toSorted((a, b) => placeOf(a) - placeOf(b)).map((tool) => {
      const { definition } = this.#known[tool.definition.function.name] ?? tool;
      const isSpelledOtherwise = definition !== tool.definition && sameData(definition, tool.definition);
      return isSpelledOtherwise ? { ...tool, definition } : tool;
    });
  }

  #offerOf(tools: readonly Tool[], mayTell: boolean): ToolOffer {
    const { environment, settings: { model }, countTokens } = this.#options;
    const { alwaysFull, mechanisms } = environment.prompt ?? {};
    const steady = this.#steady(tools);
    for (const tool of steady) this.#known[tool.definition.function.name] = tool;
    return offerTools(steady, this.#announced, {
      ...{ alwaysFull, countTokens, mayTell },
      windowTokens: environment.windowOf(model),
      mayDefer: mechanisms?.schemas,
      profile: this.#rates.profile,
    });
  }
}

export const CALL_EVENTS: readonly SessionEvent["type"][] = [
  "turn_start",
  "context_rewritten",
  "step_end",
  "reply_unfinished",
  "approval_requested",
];

/**
 * Returns the model calls of a session's events. Rewrites for a failed call are reported with the next. A turn that
 * continues has the same number.
 */
export function callsOf(events: Iterable<SessionEvent>, rates: Rates): CallReport[] {
  const calls: CallReport[] = [];
  let turn = 0;
  let rewrites: Rewrite[] = [];
  let afterQuestion = false;
  for (const event of events) {
    if (event.type === "approval_requested") afterQuestion = true;
    if (event.type === "turn_start" && (event.input !== undefined || turn === 0)) turn++;
    if (event.type === "context_rewritten") {
      const { type: _type, step: _step, ...rewrite } = event;
      rewrites.push(rewrite);
    }
    if (event.type !== "step_end" && event.type !== "reply_unfinished") continue;
    const { usage, cost, atMs } = event;
    const at = atMs === undefined ? null : new Date(atMs).toISOString();
    const number = calls.length + 1;
    if (event.type === "reply_unfinished") {
      const about = { number, at, turn, purpose: UNFINISHED, afterQuestion };
      calls.push(reportCall(usage, { ...about, rates, cost }));
      continue;
    }
    const ledger = event.ledger as LedgerEntry | undefined;
    const about = { number, at, turn, purpose: "turn", afterQuestion };
    calls.push(reportCall(usage, { ...about, ledger, rates, cost, rewrites }));
    rewrites = [];
    afterQuestion = false;
  }
  return calls;
}

function bookCalls(
  conversation: Pick<Session, "recordTotals">,
  events: readonly SessionEvent[],
  { rates, nowMs }: { readonly rates: Rates; readonly nowMs: number },
): void {
  for (const call of callsOf(events, rates)) {
    conversation.recordTotals(usageTotals.call(call), call.at === null ? nowMs : Date.parse(call.at));
  }
  for (const event of events) {
    if (event.type === "step_end") {
      const { keepAlive } = event.ledger as LedgerEntry | undefined ?? {};
      const atMs = event.atMs ?? nowMs;
      if (keepAlive) conversation.recordTotals({ keepAliveCreditCostUnits: keepAlive.creditCostUnits }, atMs);
    }
    if (event.type === "tool_result" && event.made) {
      const { calls, failed, omittedTokens } = event.made;
      const made = { programCalls: calls, failedProgramCalls: failed, programOmittedTokens: omittedTokens };
      conversation.recordTotals({ programs: 1, ...made }, nowMs);
    }
    if (event.type !== "turn_end") continue;
    const savedTokens = Object.values(event.ledger.saved).reduce((sum, tokens) => sum + tokens, 0);
    conversation.recordTotals({ savedTokens }, nowMs);
  }
}

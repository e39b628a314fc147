import { Warmth } from "@tare/session";
import { type Pingable, Session } from "@tare/session/internal";
import {
  type CallReport,
  reportCall,
  type SeenSession,
  sumsOf,
  UNFINISHED,
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
import type { History, LedgerEntry, Pin, Ping, PromptCall, PromptSession, SessionView } from "@tare/planner";
import { callCost, type Rates } from "@tare/planner/internal/parts";
import { policySession } from "@tare/planner/policies";
import { DELEGATE_TOOL } from "../helpers/helpers.ts";
import { type OfferState, offerTools, type ToolOffer } from "../turns/session_tools.ts";
import { askedModel, tracedModel } from "../turns/traced_turn.ts";
import type { SessionSettings } from "./session_settings.ts";
import type { SessionEvent, SessionNeeds, SessionTotals, TurnPrompt } from "./session_types.ts";
import { summariseWith } from "./summarise.ts";

/** The stored state that a session's prompts continue from. */
export interface PromptState {
  /** State of the planner. */
  readonly context?: unknown;
  readonly pins: readonly Pin[];
  /** How tools were offered to the model. Absent: all in full. */
  readonly tools?: OfferState | undefined;
}

interface SessionPromptOptions extends SessionNeeds {
  readonly stored: PromptState & Pick<SessionTotals, "days"> & { readonly title: string };
  readonly isStored: (state: PromptState) => boolean;
  /** The session's prompt until now, which isn't used any more. Default: there was none. */
  readonly before?: SessionPrompt | undefined;
  /** Does work while nothing else changes the session. Throws if another server owns it. */
  readonly exclusively: (work: () => Promise<void>) => Promise<void>;
  /** Called with what a keep-alive request cost. Never throws. */
  readonly paid: (cost: TurnLedger) => void;
}

/** What a session waits for, and which consent pays for keep-alive requests meanwhile. */
interface Waits extends Pick<Pingable["idle"], "pending" | "hasCommitted">, Pick<Pingable, "consent"> {}

/** Bytes of a request for each token of its prompt, estimated. */
const BYTES_A_TOKEN = 4;

/** Ends of a turn after which the cache isn't kept alive. */
const GIVEN_UP: readonly TurnEnd["reason"][] = ["cancelled", "stalled", "model_error", "internal_error"];

/** Returns the settings of a session's model: a turn's override the session's. `undefined` if there are none. */
export function modelSettings(
  { effort }: Pick<SessionSettings, "effort">,
  turn?: ModelSettings,
): ModelSettings | undefined {
  return effort === undefined ? turn : { reasoning_effort: effort, ...turn };
}

/** Returns the model that summarizes. @throws what the model's port throws for a model that is not available. */
function summaryModel({ id: conversation, environment, settings: own }: SessionNeeds): Model {
  const { telemetry } = environment;
  const { model } = own;
  const settings = modelSettings(own);
  const ask = environment.models.model(model);
  // As turns are sent: with another effort the cache of some providers holds nothing of the prompt.
  const port: Model = settings ? (request) => ask({ ...request, settings }) : ask;
  if (!telemetry?.isOn) return port;
  return tracedModel(port, { telemetry, conversation, ...askedModel(environment, model) });
}

/** Name under which the plan is pinned. */
const BY_PLAN = "plan";

function namesSteps(call: ToolCall): boolean {
  const made = describeCall(call);
  return made.name === PLAN_TOOL_NAME && planAfter(undefined, made) !== undefined;
}

/** Returns the positions of the plan's results: of the newest call that names its steps, and of the newest after it. */
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

/** A session's conversation, which tools its model is offered, and what keeps its newest prompt in the provider's cache. */
export class SessionPrompt implements TurnPrompt {
  readonly #options: SessionPromptOptions;
  readonly #prompts: PromptSession;
  readonly conversation: Session;
  #told: OfferState | undefined;
  #state: PromptState | undefined;
  /** Position of the newest result of the plan that was processed. */
  #plannedAt = -1;
  /** How the last turn offered its tools. */
  #offer: ToolOffer | undefined;
  /** Every tool that was ever offered, by name: its results may remain after it is gone. */
  readonly #known: Record<string, Tool>;
  /** The newest request's prompt, if it can be sent again; in memory alone, and only while the session waits. */
  #kept: KeepablePrompt | undefined;

  constructor(options: SessionPromptOptions) {
    const { id, environment, settings, archive, countTokens, stored } = options;
    const { context, title, pins, days } = stored;
    const { before, ...kept } = options;
    this.#options = kept;
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
      // The session can be used without the model.
      summarise: async (request) => {
        const unfinished = (usage: Usage) => this.#bookUnfinished(usage);
        return await summariseWith(summaryModel(kept), { countTokens, unfinished })(request);
      },
    });
    this.conversation = new Session({
      ...{ id, archive, prompts: this.#prompts, countTokens, tools: this.#known },
      state: { title, model: settings.model, pins, days },
    });
    this.#told = stored.tools;
  }

  get pins(): readonly Pin[] {
    return this.conversation.state.pins;
  }

  /** The state that a restart continues from: the same object as long as nothing has changed. */
  get state(): PromptState {
    const { pins, conversation: { prompt: { state: context } } } = this;
    const known = this.#state;
    const isSame = known && context === known.context && pins === known.pins && this.#told === known.tools;
    return isSame ? known : this.#state = { context, pins, tools: this.#told };
  }

  /** References of what was evicted from the prompt, the oldest first. */
  get archived(): readonly string[] {
    const refs = JSON.stringify(this.state.context).matchAll(/"ref":"([0-9a-f]{16})"/g);
    return [...new Set(Array.from(refs, ([, ref]) => ref!))];
  }

  get isStored(): boolean {
    return this.#options.isStored(this.state);
  }

  /** Offers the model these tools from now on. Returns also the message about them, if one may be added now. */
  offerTools(tools: readonly Tool[], mayTell: boolean): ToolOffer {
    this.#offer = this.#offerOf(tools, mayTell);
    this.#told = this.#offer.state;
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

  /** A request of a turn is sent, whose prompt can be sent again. */
  made(prompt: KeepablePrompt): void {
    this.#kept = prompt;
  }

  /** What a request has shown of extended keep-alive counts for all sessions. */
  learns({ warmth }: Pick<LedgerEntry, "warmth">): void {
    if (warmth?.upgrade) this.#options.environment.warmth?.observe(this.#key, warmth.upgrade);
  }

  waitsForCalls(calls: NonNullable<AssistantMessage["tool_calls"]>): void {
    const isHelped = calls.some((call) =>
      call.type === "function" && call.function.name === DELEGATE_TOOL.function.name
    );
    this.#wait({ pending: isHelped ? "helper" : "tool", consent: "turn" });
  }

  /** A turn with these messages has ended. A subagent isn't used again, nor surely what was stopped or failed. */
  rests({ reason }: Pick<TurnEnd, "reason">, messages: readonly Message[], isHelper: boolean): void {
    const hasCommitted = Warmth.hasCommitted(messages);
    if (reason === "approval") return this.#wait({ pending: "person", consent: "turn", hasCommitted });
    // Its client runs them.
    if (reason === "tool_calls") return this.#wait({ pending: "tool", consent: "turn" });
    if (isHelper || GIVEN_UP.includes(reason)) return this.goesOn();
    this.#wait({ pending: "person", consent: "budget", hasCommitted });
  }

  /** A request begins, or nothing more comes of the last one. */
  goesOn(): void {
    this.#kept = undefined;
    this.#options.environment.warmth?.goesOn(this.#options.id);
  }

  /** The session is deleted. */
  forget(): void {
    this.goesOn();
    this.#options.environment.warmth?.forget(this.#options.id);
  }

  #wait({ consent, ...idle }: Waits): void {
    const { paid, environment: { warmth } } = this.#options;
    const kept = this.#kept;
    if (!kept || !warmth) return;
    const rates = this.#rates;
    warmth.waits({
      ...{ session: this.conversation, consent, key: this.#key },
      idle: { ...idle, answerBlocks: kept.answerBlocks },
      bytes: BYTES_A_TOKEN * (this.conversation.state.figures?.promptTokens ?? 0),
      price: () => rates.price,
      ping: (type, signal) => this.#ping(kept, type, signal),
      booked: (entry) => {
        const { usage, atMs } = entry;
        const { promptTokens, cachedTokens, outputTokens } = usage;
        this.#book(sumsOf.ping(entry, this.#rates), atMs);
        paid({ ...EMPTY_LEDGER, promptTokens, cachedTokens, outputTokens, ...callCost(usage, rates) });
      },
    });
  }

  async #ping(
    { ping }: KeepablePrompt,
    type: Ping["type"],
    signal: AbortSignal,
  ): Promise<Usage | "refused" | undefined> {
    const { exclusively, environment: { store } } = this.#options;
    // What another server has done meanwhile ends this.
    if (store.shared) await exclusively(() => Promise.resolve());
    signal.throwIfAborted();
    try {
      return await ping(type, signal);
    } catch (error) {
      if (error instanceof ModelError && error.code === "bad_request") return "refused";
      throw error;
    }
  }

  get #rates() {
    const { environment, settings: { model } } = this.#options;
    return environment.ratesOf(model);
  }

  /** Where its requests go, and to which model: the server has one key for each address. */
  get #key(): string {
    const { environment: { models: { address } }, settings: { model } } = this.#options;
    return `${address?.(model) ?? this.#rates.profile.name} ${model}`;
  }

  /** Retains the plan as the model last wrote it: the result of a call retains the call. Earlier versions may be evicted. */
  #keepPlan(messages: readonly Message[]): void {
    const places = placesOfPlan(messages);
    for (const { place, by } of this.pins) {
      if (by === BY_PLAN && !places.includes(place)) this.conversation.pin({ remove: place });
    }
    for (const place of places) {
      // One that a full window evicted isn't pinned again.
      if (place <= this.#plannedAt || this.pins.some((pin) => pin.place === place)) continue;
      const set = this.conversation.makePin(messages, { place, wish: "keep", by: BY_PLAN });
      this.conversation.pin({ set });
    }
    this.#plannedAt = Math.max(this.#plannedAt, ...places);
  }

  book(events: readonly SessionEvent[]): void {
    const book: Session["book"] = (...booked) => this.#book(...booked);
    bookCalls({ book }, events, { rates: this.#rates, nowMs: this.#now() });
  }

  /** Records the usage of a request for a summary whose reply is incomplete: no turn's ledger has it. */
  #bookUnfinished(usage: Usage): void {
    const { environment: { keys }, by } = this.#options;
    const told = { number: 0, at: null, turn: null, purpose: UNFINISHED, rates: this.#rates };
    const call = reportCall(usage, told);
    this.#book(sumsOf.call(call), this.#now());
    keys?.paid(by, call.usd ?? 0);
  }

  #book(...booked: Parameters<Session["book"]>): void {
    const { environment: { telemetry }, settings: { model } } = this.#options;
    this.conversation.book(...booked);
    telemetry?.booked(booked[0], model);
  }

  /** Returns the state of a fork after the first `length` messages, whose archive holds what this one's does. */
  fork(length: number): PromptState {
    const { id, archive } = this.#options;
    const { prompt, state } = this.conversation.fork(length, { id, archive });
    return { context: prompt.state, pins: state.pins, tools: this.#told };
  }

  /** Returns what the next request would cost; `undefined` where the policy has no costs. */
  quote(messages: readonly Message[]): ReturnType<Session["quote"]> {
    return this.conversation.quote({ messages, tools: this.#tools() }, this.#now());
  }

  /** Returns what the model saw last, and what is new since; while a turn runs, what it saw last. */
  async seen(
    { history: messages, isRunning }: {
      /** Messages of the turns that have ended. */
      readonly history: readonly Message[];
      readonly isRunning: boolean;
    },
  ): Promise<SeenSession> {
    if (isRunning && this.conversation.newest) return await this.conversation.see();
    return await this.conversation.see({ messages, tools: this.#tools(), nowMs: this.#now() });
  }

  #now(): number {
    return this.#options.environment.store.now();
  }

  /** Returns the prompt session as it continues from the stored state; `undefined` if a new one is needed. */
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

  /** Returns tools in the order and spelling in which they first came: their servers may list them otherwise later. */
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
    return offerTools(steady, this.#told, {
      ...{ alwaysFull, countTokens, mayTell },
      windowTokens: environment.windowOf(model),
      mayDefer: mechanisms?.schemas,
      profile: this.#rates.profile,
    });
  }
}

/** The events that report model calls. */
export const CALL_EVENTS: readonly SessionEvent["type"][] = [
  "turn_start",
  "context_rewritten",
  "step_end",
  "reply_unfinished",
  "approval_asked",
];

/**
 * Returns the model calls of a session, the oldest first, by its events. Rewrites for a call that failed are reported with
 * the next. A turn that continues, with an answer or after a stop, keeps its number.
 */
export function callsOf(events: Iterable<SessionEvent>, rates: Rates): CallReport[] {
  const calls: CallReport[] = [];
  let turn = 0;
  let rewrites: Rewrite[] = [];
  let afterQuestion = false;
  for (const event of events) {
    if (event.type === "approval_asked") afterQuestion = true;
    if (event.type === "turn_start" && (event.input !== undefined || turn === 0)) turn++;
    if (event.type === "context_rewritten") {
      const { type: _type, step: _step, ...rewrite } = event;
      rewrites.push(rewrite);
    }
    if (event.type !== "step_end" && event.type !== "reply_unfinished") continue;
    const { usage, cost, atMs } = event;
    // The loop by itself doesn't report the time.
    const at = atMs === undefined ? null : new Date(atMs).toISOString();
    const number = calls.length + 1;
    if (event.type === "reply_unfinished") {
      const told = { number, at, turn, purpose: UNFINISHED, afterQuestion };
      calls.push(reportCall(usage, { ...told, rates, cost }));
      continue;
    }
    const ledger = event.ledger as LedgerEntry | undefined;
    const told = { number, at, turn, purpose: "turn", afterQuestion };
    calls.push(reportCall(usage, { ...told, ledger, rates, cost, rewrites }));
    rewrites = [];
    afterQuestion = false;
  }
  return calls;
}

/** Records the totals of calls by these events, the last of which happens now. */
function bookCalls(
  conversation: Pick<Session, "book">,
  events: readonly SessionEvent[],
  { rates, nowMs }: { readonly rates: Rates; readonly nowMs: number },
): void {
  for (const call of callsOf(events, rates)) {
    conversation.book(sumsOf.call(call), call.at === null ? nowMs : Date.parse(call.at));
  }
  for (const event of events) {
    if (event.type === "step_end") {
      const { warmth } = event.ledger as LedgerEntry | undefined ?? {};
      const atMs = event.atMs ?? nowMs;
      if (warmth) conversation.book({ pingCreditTokenUnits: warmth.creditTokenUnits }, atMs);
    }
    if (event.type === "tool_result" && event.made) {
      const { calls, failed, keptTokens } = event.made;
      const made = { programCalls: calls, failedProgramCalls: failed, programKeptTokens: keptTokens };
      conversation.book({ programs: 1, ...made }, nowMs);
    }
    if (event.type !== "turn_end") continue;
    const savedTokens = Object.values(event.ledger.saved).reduce((sum, tokens) => sum + tokens, 0);
    conversation.book({ savedTokens }, nowMs);
  }
}

import { Session } from "@tare/session/internal";
import {
  type CallReport,
  reportCall,
  type SeenSession,
  sumsOf,
  UNFINISHED,
} from "@tare/session/internal/report";
import {
  contentText,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Model,
  type ModelRequest,
  type ModelSettings,
  type Rewrite,
  type Tool,
  type ToolCall,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import {
  addUsage,
  countMessageTokens,
  describeCall,
  pairCalls,
  PLAN_TOOL_NAME,
  planAfter,
  sameData,
  transcribe,
} from "@tare/messages/internal";
import { SentRequests } from "@tare/loop/internal";
import type {
  History,
  LedgerEntry,
  Pin,
  PingEntry,
  PromptCall,
  PromptSession,
  SessionView,
  Summarise,
} from "@tare/planner";
import type { Rates } from "@tare/planner/internal/parts";
import { policySession } from "@tare/planner/policies";
import { type OfferState, offerTools, type ToolOffer } from "../turns/session_tools.ts";
import { askedModel, tracedModel } from "../turns/traced_turn.ts";
import type { SessionSettings } from "./session_settings.ts";
import type { SessionEvent, SessionNeeds, SessionTotals, TurnPrompt } from "./session_types.ts";

/** What a session's prompts continue from, as it is stored. */
export interface PromptState {
  /** State of the planner. */
  readonly context?: unknown;
  readonly pins: readonly Pin[];
  /** What the model was told of its tools. Absent: there was nothing to tell. */
  readonly tools?: OfferState | undefined;
}

interface SessionPromptOptions extends SessionNeeds {
  readonly stored: PromptState & Pick<SessionTotals, "days"> & { readonly title: string };
  readonly isStored: (state: PromptState) => boolean;
  /** The session's prompt as it was known until now, which isn't used any more. Default: nothing was known. */
  readonly before?: SessionPrompt | undefined;
}

/** How a session's model shall write: as the session says, and a turn outranks it. Nothing if neither says anything. */
export function modelSettings(
  { effort }: Pick<SessionSettings, "effort">,
  turn?: ModelSettings,
): ModelSettings | undefined {
  return effort === undefined ? turn : { reasoning_effort: effort, ...turn };
}

/** The model that summarises. @throws what the model's port throws for a model that can't be had. */
function summaryModel({ id: conversation, environment, settings: own }: SessionNeeds): Model {
  const { telemetry } = environment;
  const { model } = own;
  const settings = modelSettings(own);
  const ask = environment.models.model(model);
  // As turns ask: with another effort the cache of some providers holds nothing of the prompt.
  const port: Model = settings ? (request) => ask({ ...request, settings }) : ask;
  if (!telemetry?.isOn) return port;
  return tracedModel(port, { telemetry, conversation, ...askedModel(environment, model) });
}

/** Who asks that the plan is kept. */
const BY_PLAN = "plan";

function namesSteps(call: ToolCall): boolean {
  const made = describeCall(call);
  return made.name === PLAN_TOOL_NAME && planAfter(undefined, made) !== undefined;
}

/** Positions of the results that go with the plan: of the newest call that names its steps, and of the newest behind it. */
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

/** A session's conversation, and which tools its model is offered. */
export class SessionPrompt implements TurnPrompt {
  readonly #options: SessionPromptOptions;
  readonly #prompts: PromptSession;
  readonly conversation: Session;
  #told: OfferState | undefined;
  #state: PromptState | undefined;
  /** Position of the newest result of the plan that was looked at. */
  #plannedAt = -1;
  /** How the last turn offered its tools. */
  #offer: ToolOffer | undefined;
  /** Every tool that was offered once, by name: its results may still be there when it has gone. */
  readonly #known: Record<string, Tool>;

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
      profile: () => environment.ratesOf(settings.model).profile,
      tools: this.#known,
      advanced: {
        inSlices: Session.inSlices,
        assumesWindow: () => environment.models.assumesWindow?.(settings.model) ?? false,
      },
      // A model that can't be had must not keep anybody from the session.
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

  /** What a restart continues from: the same object as long as nothing has changed. */
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

  /** Offers the model these tools from now on; what it is to be told of them, if it may be told now, stands with it. */
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

  bookPing(entry: PingEntry): void {
    const { environment, settings: { model } } = this.#options;
    this.#book(sumsOf.ping(entry, environment.ratesOf(model)), entry.atMs);
  }

  /** Keeps the plan as the model last wrote it: the result of a call brings the call along. What it was before may leave. */
  #keepPlan(messages: readonly Message[]): void {
    const places = placesOfPlan(messages);
    for (const { place, by } of this.pins) {
      if (by === BY_PLAN && !places.includes(place)) this.conversation.pin({ remove: place });
    }
    for (const place of places) {
      // Of one that a full window took nothing is asked again.
      if (place <= this.#plannedAt || this.pins.some((pin) => pin.place === place)) continue;
      const set = this.conversation.makePin(messages, { place, wish: "keep", by: BY_PLAN });
      this.conversation.pin({ set });
    }
    this.#plannedAt = Math.max(this.#plannedAt, ...places);
  }

  book(events: readonly SessionEvent[]): void {
    const { environment, settings: { model } } = this.#options;
    const book: Session["book"] = (...booked) => this.#book(...booked);
    bookCalls({ book }, events, { rates: environment.ratesOf(model), nowMs: this.#now() });
  }

  /** Takes note of what a request for a summary took whose reply did not reach its end: no turn's ledger holds it. */
  #bookUnfinished(usage: Usage): void {
    const { environment: { ratesOf, keys }, settings: { model }, by } = this.#options;
    const told = { number: 0, at: null, turn: null, purpose: UNFINISHED, rates: ratesOf(model) };
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

  /** What the next request would cost. Nothing where the policy knows nothing of costs. */
  quote(messages: readonly Message[]): ReturnType<Session["quote"]> {
    return this.conversation.quote({ messages, tools: this.#tools() }, this.#now());
  }

  /** What the model saw last of a session, and what is new of that; of a running turn what it saw last. */
  async seen(
    { history: messages, isRunning }: {
      /** What was said in the turns that have ended. */
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

  /** What decides what the model sees, as it goes on from what is stored; nothing if it has to be made anew. */
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

  /** Tools in the order and spelling in which they first came: servers of tools may list them otherwise when asked again. */
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
    // What is said of them is known from now on.
    for (const tool of steady) this.#known[tool.definition.function.name] = tool;
    return offerTools(steady, this.#told, {
      ...{ alwaysFull, countTokens, mayTell },
      windowTokens: environment.windowOf(model),
      mayDefer: mechanisms?.schemas,
      profile: environment.ratesOf(model).profile,
    });
  }
}

/** The events that say what was called. */
export const CALL_EVENTS: readonly SessionEvent["type"][] = [
  "turn_start",
  "context_rewritten",
  "step_end",
  "reply_unfinished",
  "approval_asked",
];

/**
 * The model calls of a session, the oldest first, by its events. What was rewritten for a call that failed stands at the
 * next. A turn that goes on, with an answer or after a stop, is the turn that it was.
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
    // The loop alone doesn't tell.
    const at = atMs === undefined ? null : new Date(atMs).toISOString();
    const number = calls.length + 1;
    // What the context hook says of a call is what its prompt session keeps.
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

/** Takes note of what calls came to by these events, the last of which happens now. */
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

/** Longest time that a summary may take, in milliseconds. */
const SUMMARY_TIMEOUT_MS = 120_000;

/** Room for the answer, as a share of the window, and at most, in tokens. */
const ANSWER_SHARE = 1 / 16;
const ANSWER_TOKENS = 4_096;

/** Characters of a message by which the model is told where a stretch ends. */
const QUOTED_CHARS = 120;

const WHAT =
  "Write it for the agent, who will go on without seeing that part: what was found and decided and why, what was changed " +
  "and where (paths, names, identifiers as they are), what is still open. Leave out what no longer matters. Answer " +
  "with the summary alone, as plain text of at most 800 words.";

/**
 * Lets a model summarise the older part of a conversation. The conversation is sent as it was sent last, with the same
 * tools, and the instruction behind it, so that all but the instruction is read from the provider's cache. Only if that
 * doesn't fit the window a transcript is sent in one user message, in parts if it has to be, each with the summary of
 * those before. A summary that takes longer than two minutes fails; a reply without a text has none.
 */
export function summariseWith(
  model: Model,
  options: {
    readonly countTokens: CountTokens;
    /** Told what a request took whose reply did not reach its end, estimated. */
    readonly unfinished: (usage: Usage) => void;
  },
): Summarise {
  const { countTokens } = options;
  return async (request) => {
    const { sent, signal, progress, windowTokens = Infinity } = request;
    const timeout = AbortSignal.timeout(SUMMARY_TIMEOUT_MS);
    const ask = (messages: readonly Message[], tools: ModelRequest["tools"]) =>
      askModel(model, {
        messages,
        tools,
        signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
        ...(progress && { progress }),
      }, options);
    const promptTokens = windowTokens - Math.min(ANSWER_TOKENS, ANSWER_SHARE * windowTokens);
    const warm: readonly Message[] = [...sent.messages, said(instruct(request))];
    if (countRequestTokens({ messages: warm, tools: sent.tools }, countTokens) <= promptTokens) {
      return await ask(warm, sent.tools);
    }
    let summary: Awaited<ReturnType<Summarise>> | undefined;
    for (const part of transcriptParts(request, { promptTokens, countTokens })) {
      const next = await ask([said(instructPart(request, part, summary?.text))], []);
      summary = { text: next.text, usage: summary ? addUsage(summary.usage, next.usage) : next.usage };
      if (next.text === "") break;
    }
    return summary ?? { text: "", usage: NOTHING };
  };
}

const NOTHING: Usage = { promptTokens: 0, cachedTokens: 0, outputTokens: 0, estimated: true };

async function askModel(
  model: Model,
  request: ModelRequest,
  { countTokens, unfinished }: Parameters<typeof summariseWith>[1],
): ReturnType<Summarise> {
  const sent = new SentRequests(request, countTokens);
  try {
    for await (const event of model(sent.watched(request))) {
      request.progress?.();
      sent.received(event);
      if (event.type !== "completed") continue;
      const { message } = event;
      // A reply that calls tools is no summary, whatever it says besides.
      const text = message.tool_calls?.length ? "" : contentText(message.content).trim();
      const usage = event.usage ?? {
        promptTokens: countRequestTokens(request, countTokens),
        cachedTokens: 0,
        outputTokens: countMessageTokens(message, countTokens),
        estimated: true,
      };
      return { text, usage };
    }
    throw new Error("the model's reply ended without an end");
  } finally {
    sent.end({ isStopped: request.signal.aborted });
    sent.take().forEach(unfinished);
  }
}

function said(content: string): Message {
  return { role: "user", content };
}

function instruct({ next, users }: Parameters<Summarise>[0]): string {
  const where = next
    ? `all that stands in front of the message that begins with ${quote(next)}`
    : "all that stands above";
  return `The context window is nearly full. Don't go on with the task and don't call any tool: summarise the older part ` +
    `of this conversation, ${where}. ${WHAT} ${aboutUsers(users)}`;
}

function aboutUsers(users: readonly Message[]): string {
  const [first] = users;
  const last = users.at(-1);
  if (!first || !last) return "What the user said there stays as it is; don't repeat it.";
  const which = first === last
    ? `the user's message that begins with ${quote(first)} leaves`
    : `the user's messages from the one that begins with ${quote(first)} to the one that begins with ${
      quote(last)
    } leave`;
  return `With it ${which} as well: keep every wish, rule and fact in it. What else the user said stays as it is.`;
}

function quote(message: Message): string {
  return JSON.stringify(contentText(message.content).slice(0, QUOTED_CHARS).toWellFormed());
}

function instructPart(
  request: Parameters<Summarise>[0],
  transcript: string,
  before: string | undefined,
): string {
  const sofar = before === undefined
    ? ""
    : `\n\nSummary of what came before, to be kept in yours:\n${before}`;
  return `Below is the older part of a conversation between a user and an agent with tools. Summarise it. ${WHAT} ${
    aboutUsers(request.users)
  }${sofar}\n\n${transcript}`;
}

/** The transcript, cut so that each part fits with the instruction and the summary of those before. */
function transcriptParts(
  request: Parameters<Summarise>[0],
  { promptTokens, countTokens }: { readonly promptTokens: number; readonly countTokens: CountTokens },
): string[] {
  const frame = countMessageTokens(said(instructPart(request, "", "")), countTokens);
  const whole = request.messages.map(transcribe).join("\n\n");
  if (frame + countTokens(whole) <= promptTokens) return [whole];
  // A quarter is left for the summary of the parts before.
  const most = Math.max(1, (promptTokens - frame) * 0.75);
  const parts: string[][] = [[]];
  let tokens = 0;
  for (const message of request.messages) {
    for (const piece of cut(transcribe(message), { most, countTokens })) {
      if (tokens > 0 && tokens + piece.tokens > most) {
        parts.push([]);
        tokens = 0;
      }
      parts.at(-1)!.push(piece.text);
      tokens += piece.tokens + BETWEEN_TOKENS;
    }
  }
  return parts.map((pieces) => pieces.join("\n\n"));
}

/** Tokens of what stands between two messages of a transcript. */
const BETWEEN_TOKENS = 1;

/** A text in pieces of at most so many tokens, each with its own. */
function cut(
  text: string,
  { most, countTokens }: { readonly most: number; readonly countTokens: CountTokens },
): { readonly text: string; readonly tokens: number }[] {
  const tokens = countTokens(text);
  if (text.length <= 1 || tokens <= most) return [{ text, tokens }];
  const middle = Math.ceil(text.length / 2);
  const lineEnd = text.lastIndexOf("\n", middle);
  const at = lineEnd > middle / 2 ? lineEnd + 1 : middle;
  return [text.slice(0, at), text.slice(at)].flatMap((half) => cut(half, { most, countTokens }));
}

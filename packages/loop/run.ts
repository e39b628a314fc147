import {
  type AssistantMessage,
  type Content,
  contentText,
  type ContextView,
  type Cost,
  countRequestTokens,
  type CountTokens,
  type FinishReason,
  type Message,
  type ModelEvent,
  type ModelRequest,
  type ToolCall,
  type Usage,
} from "@tare/messages";
import {
  callIds,
  countMessageTokens,
  describeCall,
  freeCallId,
  MESSAGE_OVERHEAD_TOKENS,
  pairCalls,
} from "@tare/messages/internal";
import { CUT_OFF, refuseCalls, RepeatedCalls, runTools, type ToolAnswers } from "./calls.ts";
import {
  addLedgers,
  BudgetSpent,
  EMPTY_LEDGER,
  type Judge,
  type LoopEvent,
  ModelError,
  type TurnEnd,
  type TurnLedger,
} from "./event.ts";
import {
  type Clock,
  type ResolvedOptions,
  resolveOptions,
  type RunOptions,
  Watchdog,
} from "./run_options.ts";

/** The result of a turn. */
export interface TurnResult extends TurnEnd {
  /**
   * Messages that the turn adds to the history: the user message, and each complete reply with the answers to its
   * calls, except open ones.
   */
  readonly messages: readonly Message[];
  /** The thrown error; for a log, not for clients. */
  readonly error?: unknown;
}

interface StepOptions extends ResolvedOptions {
  readonly step: number;
  readonly watchdog: Watchdog;
  /** Records an incomplete reply and returns its cost. */
  readonly unfinished: (usage: Usage) => Cost | undefined;
}

interface Turn {
  messages: readonly Message[];
  ledger: TurnLedger;
  text: string;
  /** Some models think for long before each reply: one warning per turn. */
  isSilenceReported: boolean;
}

/**
 * Runs one turn: calls the model, runs the tools that it calls, and continues until the model answers without a call,
 * calls a tool that the caller runs, or makes a call that needs an approval.
 *
 * A turn starts with `turn_start` and ends with exactly one `turn_end`, even if the model, a tool or the context hook
 * fails. The events of a step are `step_start`, `context_rewritten` and `warning`, deltas, `assistant_message`,
 * `tool_call` (in the order of the calls), `tool_result` (as each ends), `step_end`, `approval_requested` (in the order of
 * the calls). A step whose reply failed has no `step_end`; each incomplete reply has a `reply_unfinished`. The results
 * of `answered` calls precede the first step.
 *
 * If the signal stops the turn, calls without an answer are answered with an error, so that the history stays valid;
 * only calls of `clientTools` and pending approvals that ended the turn stay open. Breaking out of the loop over the
 * events stops everything too, without a result.
 *
 * @throws {TypeError} if an option is unknown, two tools have one name, or a tool's parameters are no JSON Schema.
 * @throws {RangeError} if a limit is out of its range.
 *
 * @example A turn with a scripted model
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { run } from "@tare/loop";
 * import type { Model } from "@tare/messages";
 *
 * const model: Model = async function* () {
 *   yield { type: "completed", message: { role: "assistant", content: "Hello!" }, finishReason: "stop" };
 * };
 * const types: string[] = [];
 * for await (const event of run({ model, history: [], input: "Hi", limits: { maxSteps: 5 } })) {
 *   types.push(event.type);
 * }
 * assertEquals(types, ["turn_start", "step_start", "assistant_message", "step_end", "turn_end"]);
 * ```
 */
export function run(options: RunOptions): AsyncGenerator<LoopEvent, TurnResult> {
  const resolved = resolveOptions(options);
  const watchdog = new Watchdog(resolved);
  const turn = playTurn(resolved, watchdog);
  const finish = turn.return.bind(turn);
  // return() alone would wait for the pending promise.
  turn.return = (value) => {
    watchdog.stop();
    return finish(value);
  };
  return turn;
}

async function* playTurn(
  options: ResolvedOptions,
  watchdog: Watchdog,
): AsyncGenerator<LoopEvent, TurnResult> {
  const { input, resumed } = options;
  const opening: readonly Message[] = input === undefined ? [] : [{ role: "user", content: input }];
  const { messages = opening, ledger = EMPTY_LEDGER } = resumed ?? {};
  const text = messages.map(answerIn).findLast((ownText) => ownText !== "") ?? "";
  const turn: Turn = { messages, ledger, text, isSilenceReported: false };
  if (!resumed) yield { type: "turn_start", ...(input !== undefined && { input }) };
  let ending: Ending;
  try {
    ending = yield* playSteps(options, watchdog, turn);
  } catch (error) {
    ending = endingByError(error, { ...options, watchdog });
  } finally {
    await watchdog.close();
  }
  const { error, ...rest } = ending;
  const end: TurnEnd = { ...rest, text: turn.text, ledger: options.totalOf(turn.ledger) };
  yield { type: "turn_end", ...end };
  return { ...end, messages: turn.messages, ...(error !== undefined && { error }) };
}

async function* playSteps(
  options: ResolvedOptions,
  watchdog: Watchdog,
  turn: Turn,
): AsyncGenerator<LoopEvent, Ending> {
  const repeated = new RepeatedCalls();
  const { costOf } = options;
  const book = (more: TurnLedger) => {
    turn.ledger = addLedgers(turn.ledger, more);
    options.totalOf(turn.ledger);
  };
  const unfinished = (usage: Usage) => {
    const cost = costOf?.(usage);
    book({ ...EMPTY_LEDGER, calls: 1, ...spentOn(usage), ...cost });
    return cost;
  };
  if (options.answered.length > 0) {
    const done = yield* runAnswered(repeated, { ...options, step: 1, watchdog, unfinished });
    turn.messages = [...done.answers, ...turn.messages];
    watchdog.signal.throwIfAborted();
    for (const one of done.pending) yield { type: "approval_requested", step: 1, ...one };
    if (done.pending.length > 0) return { reason: "approval" };
  }
  const { calls: again = [], step: first = 1, judge = options.judge, answered = [] } = options.resumed ?? {};
  if (again.length > 0) {
    const usual = options.judge;
    const about = { judge, usual, answered, repeated, step: first, watchdog, unfinished };
    const pending = yield* runAgain(again, turn, { ...options, ...about });
    watchdog.signal.throwIfAborted();
    if (pending.length > 0) return { reason: "approval" };
  }
  // Only a resumed turn can be at its limits here; a budget can be exhausted in any.
  const reached = endingByLimit(options.totalOf(turn.ledger), { ...options, step: first - 1 });
  if (reached) return reached;
  for (let step = first;; step++) {
    yield { type: "step_start", step };
    yield* steer(options.steering(), turn, step);
    const stepOptions: StepOptions = { ...options, step, watchdog, unfinished };
    const viewed = async function* () {
      const view = yield* makeView(turn.messages, stepOptions);
      if (view.usage) {
        book({ ...EMPTY_LEDGER, ...spentOn(view.usage), ...costOf?.(view.usage) });
      }
      return view;
    };
    let view = yield* viewed();
    let reply: Reply;
    try {
      reply = yield* callModel(view, turn, stepOptions);
    } catch (error) {
      if (!(error instanceof ModelError) || error.code !== "prompt_too_long" || !view.rejected) throw error;
      view.rejected(error.message);
      view = yield* viewed();
      reply = yield* callAgain(view, turn, stepOptions);
    }
    let hasOpenCalls = false;
    let pending: ToolAnswers["pending"] = [];
    const { message, finishReason, usage } = reply;
    const ledger = view.succeeded?.(usage);
    const cost = costOf?.(usage);
    book({ calls: 1, ...spentOn(usage), saved: view.saved ?? {}, ...cost });
    if (isEmptyReply(message)) {
      yield { type: "warning", message: EMPTY_REPLY };
    } else {
      yield { type: "assistant_message", step, message };
      turn.text = answerIn(message) || turn.text;
      const calls = message.tool_calls ?? [];
      for (const call of calls) yield { type: "tool_call", step, id: call.id, ...describeCall(call) };
      const isWhole = finishReason === "stop" || finishReason === "tool_calls";
      const done: ToolAnswers = isWhole
        ? yield* runTools(calls, { ...newCalls(stepOptions), repeated, visible: view.messages })
        : { answers: yield* refuseCalls(calls, step, CUT_OFF), pending: [] };
      turn.messages = [...turn.messages, message, ...done.answers];
      hasOpenCalls = done.answers.length < calls.length;
      pending = done.pending;
    }
    yield { type: "step_end", step, usage, ...(cost && { cost }), finishReason, ...(ledger && { ledger }) };
    for (const one of pending) yield { type: "approval_requested", step, ...one };
    const ending = hasOpenCalls
      ? { reason: pending.length > 0 ? "approval" : "tool_calls" } as const
      : endingByReply(reply);
    const steering = ending?.reason === "completed" ? options.steering() : [];
    if (ending && steering.length === 0) return ending;
    // Queued messages belong to the turn, even if it is aborted.
    yield* steer(steering, turn, step);
    watchdog.signal.throwIfAborted();
    const limit = endingByLimit(options.totalOf(turn.ledger), { ...options, step });
    if (limit) return limit;
  }
}

function newCalls({ journal: _, ...options }: StepOptions): Omit<StepOptions, "journal"> {
  return { ...options, answered: [] };
}

async function* runAnswered(
  repeated: RepeatedCalls,
  options: StepOptions,
): AsyncGenerator<LoopEvent, ToolAnswers> {
  const { answered, history } = options;
  const calls = [...new Set(answered.map(({ call }) => call))];
  return yield* runTools(calls, { ...options, clientTools: [], repeated, visible: history });
}

/** Runs calls of a resumed turn; returns those that need an approval. */
async function* runAgain(
  calls: readonly ToolCall[],
  turn: Turn,
  { step, ...options }: StepOptions & { readonly repeated: RepeatedCalls; readonly usual: Judge },
): AsyncGenerator<LoopEvent, ToolAnswers["pending"]> {
  const all = [...options.history, ...turn.messages];
  const of = Math.max(1, step - 1);
  const done = yield* runTools(calls, { ...options, step: of, visible: all });
  const at = turn.messages.findLastIndex(({ role }) => role === "assistant") + 1;
  const reply = all.slice(all.findLastIndex(({ role }) => role === "assistant"));
  const inOrder = pairCalls([...reply, ...done.answers]).flatMap(({ answer }) => answer?.message ?? []);
  turn.messages = [...turn.messages.slice(0, at), ...inOrder];
  for (const one of done.pending) yield { type: "approval_requested", step: of, ...one };
  return done.pending;
}

function answerIn(message: Message): string {
  return message.role === "assistant" ? contentText(message.content) || message.refusal || "" : "";
}

function spentOn({ promptTokens, cachedTokens, outputTokens, estimated = false }: Usage) {
  return { promptTokens, cachedTokens, outputTokens, estimated };
}

function* steer(inputs: readonly Content[], turn: Turn, step: number): Generator<LoopEvent> {
  for (const input of inputs) {
    turn.messages = [...turn.messages, { role: "user", content: input }];
    yield { type: "user_message", step, input };
  }
}

async function* makeView(
  messages: readonly Message[],
  { history, input, resumed, tools, clientTools, context, step, watchdog }: StepOptions,
): AsyncGenerator<LoopEvent, ContextView> {
  const { signal, progress } = watchdog;
  const view = await watchdog.wait(() =>
    context({
      messages: [...history, ...messages],
      turnStart: resumed
        ? activeTurnStart([...history, ...upToOpening(resumed.messages)], false)
        : activeTurnStart(history, input !== undefined),
      tools: [
        ...[...tools.values()].flatMap(({ tool, isListed }) => isListed ? [tool.definition] : []),
        ...clientTools,
      ],
      step,
      signal,
      progress,
    })
  );
  for (const rewrite of view.rewrites ?? []) yield { type: "context_rewritten", step, ...rewrite };
  for (const message of view.warnings ?? []) yield { type: "warning", message };
  return view;
}

/** Returns the index of the first of the consecutive user messages that opened the active turn. */
function activeTurnStart(history: readonly Message[], startsNow: boolean): number {
  let start = startsNow ? history.length : history.findLastIndex(({ role }) => role === "user") + 1;
  while (history[start - 1]?.role === "user") start--;
  return start;
}

/** Returns a turn's messages up to its opening; a system message about tools may precede that. */
function upToOpening(messages: readonly Message[]): readonly Message[] {
  return messages.slice(0, messages.findIndex(({ role }) => role !== "system") + 1);
}

/** @throws {ModelError} if it fails or has no reply. */
async function* callModel(
  view: ContextView,
  turn: Turn,
  { model, settings, countTokens, step, watchdog, clock, unfinished }: StepOptions,
): AsyncGenerator<LoopEvent, Reply> {
  const { messages, tools, stable, cacheKey } = view;
  const { signal, progress } = watchdog;
  let refusal: string | undefined;
  let brokeOff: string | undefined;
  const sent = new SentRequests(view, countTokens);
  const takeUnfinished = function* (): Generator<LoopEvent> {
    for (const usage of sent.take()) {
      const cost = unfinished(usage);
      yield { type: "reply_unfinished", step, usage, ...(cost && { cost }) };
    }
  };
  const events = model(sent.watched({
    messages,
    tools,
    ...(settings && { settings }),
    ...(stable && { stable }),
    ...(cacheKey !== undefined && { cacheKey }),
    signal,
    progress,
    refused: (why) => refusal = why,
    restarted: (why) => brokeOff = why,
  }))
    [Symbol.asyncIterator]();
  try {
    for (let isFirst = true;; isFirst = false) {
      const next = watchdog.wait(() => events.next());
      if (isFirst && !turn.isSilenceReported && await isSilent(next, clock)) {
        turn.isSilenceReported = true;
        yield { type: "warning", message: refusal === undefined ? SILENT : `${refusal}. ${ASKED_AGAIN}` };
      }
      const { done, value: event } = await next;
      yield* takeUnfinished();
      if (brokeOff !== undefined) {
        yield { type: "step_start", step };
        yield { type: "warning", message: `${brokeOff} ${RESTARTED}` };
        brokeOff = undefined;
      }
      if (done) throw new ModelError("bad_response", "The model's stream ended without a reply.");
      sent.received(event);
      if (event.type === "completed") {
        const { finishReason, usage = countUsage(view, event.message, countTokens) } = event;
        return { message: withDistinctIds(event.message, messages), finishReason, usage };
      }
      if (event.type !== "tool_call_delta") yield { ...event, step };
    }
  } catch (error) {
    sent.end({ isStopped: signal.aborted });
    yield* takeUnfinished();
    throw error;
  } finally {
    // Not awaited: a generator that hangs in next() would never return.
    if (events.return) watchdog.track(events.return());
  }
}

/** Makes call ids distinct. `carried` contains the provider's ids and is then omitted. */
function withDistinctIds(message: AssistantMessage, before: readonly Message[]): AssistantMessage {
  const { tool_calls: calls = [], carried: _, ...entry } = message;
  const used = new Set<string>();
  const distinct = calls.map((call) => {
    const isFree = freeCallId(call.id, used) === call.id;
    const id = isFree ? call.id : freeCallId("", new Set([...callIds([...before, message]), ...used]));
    used.add(id);
    return isFree ? call : { ...call, id };
  });
  return distinct.every((call, at) => call === calls[at]) ? message : { ...entry, tool_calls: distinct };
}

const SILENT_MS = 10_000;

const SILENT = `The model has not responded for ${
  SILENT_MS / 1000
} seconds: it is thinking, or its provider hangs. The turn waits.`;

const ASKED_AGAIN = "The request is retried. The turn waits.";

const RESTARTED = "The reply is retried; its output so far is discarded.";

async function isSilent(next: Promise<unknown>, clock: Clock): Promise<boolean> {
  const late = Promise.withResolvers<boolean>();
  const disarm = clock.after(SILENT_MS, () => late.resolve(true));
  try {
    return await Promise.race([next.then(() => false, () => false), late.promise]);
  } finally {
    disarm();
  }
}

/** Calls the model after a prompt that was too long; a second refusal isn't retried. */
async function* callAgain(
  view: ContextView,
  turn: Turn,
  options: StepOptions,
): AsyncGenerator<LoopEvent, Reply> {
  try {
    return yield* callModel(view, turn, options);
  } catch (error) {
    if (error instanceof ModelError && error.code === "prompt_too_long") view.rejected?.(error.message);
    throw error;
  }
}

function countUsage(view: ContextView, message: AssistantMessage, countTokens: CountTokens): Usage {
  return {
    promptTokens: countRequestTokens(view, countTokens),
    cachedTokens: 0,
    outputTokens: countMessageTokens(message, countTokens) - MESSAGE_OVERHEAD_TOKENS,
    estimated: true,
  };
}

interface Reply {
  readonly message: AssistantMessage;
  readonly finishReason: FinishReason;
  readonly usage: Usage;
}

interface Ending extends Pick<TurnEnd, "reason" | "message" | "code"> {
  readonly error?: unknown;
}

const EMPTY_REPLY = "The model's reply was empty.";

/** Providers refuse a history with an empty reply. */
function isEmptyReply({ content, refusal, tool_calls: calls }: AssistantMessage): boolean {
  const ownText = typeof content === "string" ? content.trim() : content ?? "";
  return ownText.length === 0 && !refusal && !calls?.length;
}

/** Returns `undefined` if the turn continues. */
function endingByReply({ message, finishReason }: Reply): Ending | undefined {
  if (finishReason === "length") {
    return {
      reason: "output_limit",
      message: "The reply was cut off: it reached the provider's limit on output tokens.",
    };
  }
  if (finishReason === "content_filter") {
    return { reason: "model_error", message: "The provider's content filter stopped the reply." };
  }
  if (isEmptyReply(message)) return { reason: "completed", message: EMPTY_REPLY };
  return message.tool_calls?.length ? undefined : { reason: "completed" };
}

/** Returns `undefined` if no limit is reached. */
function endingByLimit(
  ledger: TurnLedger,
  { step, maxSteps, maxOutputTokens, overBudget }:
    & Pick<ResolvedOptions, "maxSteps" | "maxOutputTokens" | "overBudget">
    & { readonly step: number },
): Ending | undefined {
  const { outputTokens } = ledger;
  const spent = overBudget(ledger);
  if (spent !== undefined) return { reason: "budget", message: spent };
  if (outputTokens >= maxOutputTokens) {
    return {
      reason: "output_limit",
      message: `The turn reached its limit of ${maxOutputTokens} output tokens (it has ${outputTokens}).`,
    };
  }
  if (step >= maxSteps) {
    const message = `The turn reached its limit of ${maxSteps} model ${
      maxSteps === 1 ? "call" : "calls"
    }. The next message continues from here.`;
    return { reason: "step_limit", message };
  }
  return undefined;
}

function endingByError(
  error: unknown,
  { watchdog, idleTimeoutMs }: { readonly watchdog: Watchdog; readonly idleTimeoutMs: number },
): Ending {
  if (watchdog.stalled) {
    return { reason: "stalled", message: `No progress for ${idleTimeoutMs / 1000} s.` };
  }
  if (watchdog.signal.aborted) return { reason: "cancelled", message: "The turn was cancelled." };
  if (error instanceof BudgetSpent) return { reason: "budget", message: error.message };
  if (error instanceof ModelError) {
    return { reason: "model_error", code: error.code, message: error.message, error };
  }
  return { reason: "internal_error", message: error instanceof Error ? error.message : String(error), error };
}

interface OpenRequest {
  /** Whether a successful response has begun. */
  begun: boolean;
  readonly pieces: string[];
}

/** The requests of one model call. Those whose response began are billed, so incomplete ones are estimated. */
export class SentRequests {
  readonly #view: Pick<ContextView, "messages" | "tools" | "cachedTokens">;
  readonly #countTokens: CountTokens;
  #open: OpenRequest | undefined;
  #unfinished: Usage[] = [];

  constructor(view: Pick<ContextView, "messages" | "tools" | "cachedTokens">, countTokens: CountTokens) {
    this.#view = view;
    this.#countTokens = countTokens;
  }

  watched(request: ModelRequest): ModelRequest {
    const { confirm, refused, restarted } = request;
    return {
      ...request,
      confirm: () => {
        confirm?.();
        this.#next();
      },
      refused: (why) => {
        if (why === undefined) this.#now().begun = true;
        else this.#open = undefined;
        refused?.(why);
      },
      ...(restarted && {
        restarted: (why: string) => {
          this.#next();
          restarted(why);
        },
      }),
    };
  }

  received(event: ModelEvent): void {
    if (event.type === "completed") {
      this.#open = undefined;
      return;
    }
    const open = this.#now();
    open.begun = true;
    if (event.type === "tool_call_delta") open.pieces.push(event.name ?? "", event.arguments ?? "");
    else open.pieces.push(event.text);
  }

  /** Ends the call. A stopped request counts as sent. */
  end({ isStopped }: { readonly isStopped: boolean }): void {
    if (this.#open && isStopped) this.#open.begun = true;
    this.#close();
  }

  take(): readonly Usage[] {
    if (this.#unfinished.length === 0) return this.#unfinished;
    return this.#unfinished.splice(0);
  }

  #now(): OpenRequest {
    return this.#open ??= { begun: false, pieces: [] };
  }

  #next(): void {
    this.#close();
    this.#now();
  }

  #close(): void {
    const { begun = false, pieces = [] } = this.#open ?? {};
    this.#open = undefined;
    if (!begun) return;
    const promptTokens = countRequestTokens(this.#view, this.#countTokens);
    this.#unfinished.push({
      promptTokens,
      cachedTokens: Math.min(promptTokens, this.#view.cachedTokens ?? 0),
      outputTokens: this.#countTokens(pieces.join("")),
      estimated: true,
    });
  }
}

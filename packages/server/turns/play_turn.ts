import { Keys } from "@tare/session";
import {
  type Clock,
  type Judge,
  type LoopEvent,
  ModelError,
  run,
  type RunOptions,
  type TurnApprovals,
  type TurnCosts,
  type TurnLedger,
  type TurnResult,
} from "@tare/loop";
import { addLedgers, BudgetSpent, EMPTY_LEDGER, systemClock, type TurnTime } from "@tare/loop/internal";
import { programTool } from "@tare/tools/programs";
import {
  type AssistantMessage,
  contentText,
  countRequestTokens,
  type CountTokens,
  type Message,
  type Model,
  type ModelRequest,
  type Tool,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
} from "@tare/messages";
import { BackgroundCommands } from "@tare/tools/shell";
import { PromptTooLong } from "@tare/planner";
import { callCost, type Rates } from "@tare/planner/internal/parts";
import { mostOfCall } from "@tare/planner/internal";
import { type ApprovalEvent, CANNOT_ASK, openCalls, type Opening } from "../approvals/approvals.ts";
import { allowingRequested, judgeBy } from "../approvals/rules.ts";
import { DELEGATE_TOOL, type Subagents, type TurnAccount } from "../subagents/subagents.ts";
import { invalidRequest, refusedBy } from "../http/http_error.ts";
import { modelSettings, type SessionPrompt } from "../sessions/session_prompt.ts";
import type { Budget, SessionSettings, SubagentParent } from "../sessions/session_settings.ts";
import type { ApprovalOptions, EnvironmentDescription } from "../sessions/session_options.ts";
import type {
  OpenTurn,
  SessionEnvironment,
  SessionEvent,
  TurnPrompt,
  TurnRequest,
} from "../sessions/session_types.ts";
import type { TakenTools } from "./session_tools.ts";
import { modelFacts, tracedTurn } from "./traced_turn.ts";

export interface PlayedTurn {
  readonly step: number;
  readonly result: TurnResult;
  /** Approvals to be requested, committed with the turn's end so that no crash comes between. */
  readonly pending: readonly ApprovalEvent[];
  readonly last: readonly SessionEvent[];
}

type StoppedTurn =
  & Omit<TurnRequest, "results" | "budget" | "keep" | "giveBack" | "decisions">
  & Pick<RunOptions, "signal">
  & { readonly resumed?: OpenTurn["resumed"] | undefined };

interface Stage extends
  Required<
    & Pick<RunTurnOptions, "takeTools" | "steering" | "commit" | "isLeft">
    & Pick<TurnApprovals, "journal">
    & Pick<TurnCosts, "countTokens">
  > {
  readonly environment: SessionEnvironment;
  readonly session: Required<Pick<RunTurnOptions, "history">> & {
    readonly id: string;
    readonly parent: SubagentParent | undefined;
    readonly by: string | undefined;
    readonly settings: SessionSettings;
    readonly ledger: TurnLedger;
    readonly subagents: Pick<Subagents, "begin">;
    readonly prompt: TurnPrompt & TurnKeepAlive;
  };
  readonly account: TurnAccount;
  readonly opening: Opening;
  /** Number of the last event before the turn that file changes are attributed to: this turn may continue it. */
  readonly turn: number;
  /** Called before each model call and each tool: throws if another server may own the turn. Default: none can. */
  readonly assertOwn?: (() => void) | undefined;
}

/**
 * Returns the function that plays a turn: see {@linkcode runTurn}. @throws errors of the model's port for a model
 * that is not available.
 */
export function turnPlayer(
  {
    input,
    resumed,
    signal,
    unattended,
    payer,
    tools,
    clientTools,
    settings,
    evictNow = false,
    ...pending
  }: StoppedTurn,
  {
    session,
    environment,
    opening,
    account,
    turn: number,
    assertOwn,
    takeTools,
    countTokens,
    journal,
    ...more
  }: Stage,
): () => Promise<PlayedTurn> {
  const {
    limits: { turn: limits = {} } = {},
    models: { model: portOf, notice, supportsImages },
    workspace: { place, checkpoints, background } = {},
    store: { now },
    advanced: { clock } = {},
    approvals = {},
    telemetry,
    keys,
  } = environment;
  const { settings: own, by, parent } = session;
  const { model: modelName } = own;
  const { answered, always, budget: turn = {}, spent } = opening;
  const { rules = [], workspace = "/" } = approvals;
  const usual = judgeBy({ lists: [rules, own.approvalRules], always, workspace, harmless: HARMLESS });
  const mayAll = unattended === "by_setting" && approvals.unattended === "allow";
  const judge = payer?.judge ?? (mayAll ? allowingRequested(usual) : usual);
  const rates = environment.ratesOf(modelName);
  const measure = { before: session.ledger, spent, model: modelName, rates };
  const unpriced = rates.price ? undefined : keys?.budgetRefusal(by, false);
  if (unpriced) throw refusedBy(unpriced);
  const overOwn = overBudget({ turn, session: own.budget }, measure);
  const most = Math.min(pending.maxOutputTokens ?? Infinity, limits.maxOutputTokens ?? Infinity);
  const { prompt: keepAlive } = session;
  const turnSettings = modelSettings(own, settings);
  const observed = reportingKeepable(portOf(modelName), keepAlive);
  // The client of an agent as a model can't discard streamed text.
  const turnModel = clientTools ? withoutRestarts(observed) : observed;
  const watch = payer?.watch ??
    ((tool) => checkpoints?.watch(tool, { session: session.id, turn: number }) ?? tool);
  const about = { session: session.id, supportsImages: supportsImages?.(modelName) ?? false };
  const reserved = new ReservedCall({
    ...{ rates, countTokens, keys, by },
    reserve: (most, request) =>
      payer?.reserve(most, request) ?? account.reserve(most, { ...request, overBudget: overOwn }),
  });
  let taken: readonly Tool[] = [];
  // Earlier cost was paid where it occurred.
  let paidUsd = resumed?.ledger.usd ?? 0;
  const overBudgets = (ledger: TurnLedger) =>
    overOwn(ledger) ?? payer?.overBudget() ?? keys?.budgetRefusal(by)?.message;
  const options = {
    ...more,
    limits: { ...limits, ...(most < Infinity && { maxOutputTokens: most }) },
    ...(input !== undefined && { input }),
    ...(resumed && { resumed: { ...resumed, judge: askingAgain(judge, approvals.unknownOutcome) } }),
    ...(signal && { signal }),
    ...(turnSettings && { settings: turnSettings }),
    approvals: { judge, answered, journal, ...(unattended && { cannotAsk: CANNOT_ASK }) },
    time: { now, ...(clock && { clock }) },
    clientTools: clientTools ?? [],
    ...{ modelName, notice, place, keepAlive, evictNow },
    news(messages) {
      const running = background ? runningIn(messages) : [];
      return running.length === 0 ? undefined : background?.news(session.id, running);
    },
    model: reserved.model(assertOwn ? ownModel(turnModel, assertOwn) : turnModel),
    async takeTools(signal) {
      const found = tools ? { tools, warnings: [] } : await takeTools(signal);
      const watched = found.tools.map((tool) =>
        inSession(tool, { about, watch: isHarmless(tool) || isReader(tool) ? undefined : watch })
      );
      taken = assertOwn ? watched.map((tool) => ownTool(tool, assertOwn)) : watched;
      return { ...found, tools: taken };
    },
    costs: {
      countTokens,
      costOf: (usage) => callCost(usage, rates),
      overBudget: overBudgets,
      totalOf(own) {
        const sum = account.spent(own);
        payer?.note(sum);
        // A call without a price counts at least with its tokens' list price.
        const usd = own.usd ?? callCost(own, rates).usd ?? 0;
        // Subagents pay for themselves while the turn waits for them.
        if (usd > paidUsd) keys?.paid(by, usd - paidUsd);
        paidUsd = usd;
        reserved.paid();
        return sum;
      },
    },
  } satisfies Omit<RunTurnOptions, "prompt" | "history">;
  session.subagents.begin({ ...options, judge, overBudget: overBudgets, account, watch, tools: () => taken });
  return () => {
    const { id: conversation, prompt, history } = session;
    const all = { ...options, prompt, history };
    const play = () => {
      if (!telemetry?.isOn) return runTurn(all);
      const agent = parent ? "subagent" : "tare";
      const about = { telemetry, agent, conversation, ...modelFacts(environment, modelName) };
      return tracedTurn(all, runTurn, about);
    };
    return play().finally(() => reserved.giveBack());
  };
}

/** Calls of subagents and programs are judged one by one. */
const HARMLESS = [DELEGATE_TOOL.function.name, programTool().definition.function.name];

function isHarmless({ definition }: Tool): boolean {
  return HARMLESS.includes(definition.function.name);
}

function isReader({ stance, resolve }: Tool): boolean {
  return stance === "rederivable" && !resolve;
}

/**
 * Returns a judge that also requires approval to repeat calls that may have run: see `unknownOutcome`. Read-only
 * calls need none.
 */
function askingAgain(judge: Judge, unknownOutcome: ApprovalOptions["unknownOutcome"]): Judge {
  return async (call) => {
    const judged = await judge(call);
    if (unknownOutcome !== "ask" || judged.decision === "deny" || call.tool.replays) return judged;
    return { ...judged, decision: "ask", begun: true, why: MAY_HAVE_RUN };
  };
}

const MAY_HAVE_RUN =
  "The server stopped while it ran: it may have taken effect. If you allow it, it runs again.";

export class TurnLeft extends Error {
  override readonly name = "TurnLeft";
}

type TurnKeepAlive = Pick<SessionPrompt, "made" | "learns" | "waitsForCalls" | "stopKeepAlive">;

function reportingKeepable(model: Model, keepAlive: TurnKeepAlive): Model {
  return (request) => model({ ...request, keepable: (prompt) => keepAlive.made(prompt) });
}

function withoutRestarts(model: Model): Model {
  return ({ restarted: _, ...request }) => model(request);
}

interface ReservedCallOptions {
  readonly rates: Rates;
  readonly countTokens: CountTokens;
  readonly keys: SessionEnvironment["keys"];
  readonly by: string | undefined;
  readonly reserve: (
    most: TurnLedger,
    request: Pick<ModelRequest, "signal" | "progress">,
  ) => Promise<() => void>;
}

/** The highest cost of a turn's newest model call, reserved in all budgets until the call has ended and is paid. */
class ReservedCall {
  readonly #options: ReservedCallOptions;
  #isOver = false;
  #giveBack: (() => void)[] = [];

  constructor(options: ReservedCallOptions) {
    this.#options = options;
  }

  model(model: Model): Model {
    // deno-lint-ignore no-this-alias
    const reserved = this;
    return async function* (request) {
      reserved.giveBack();
      await reserved.#setAside(request);
      try {
        for await (const event of model(request)) {
          // The receiver of this event pays for the call next.
          reserved.#isOver ||= event.type === "completed";
          yield event;
        }
      } finally {
        reserved.#isOver = true;
      }
    };
  }

  paid(): void {
    if (this.#isOver) this.giveBack();
  }

  giveBack(): void {
    this.#isOver = false;
    for (const giveBack of this.#giveBack.splice(0)) giveBack();
  }

  async #setAside(request: ModelRequest): Promise<void> {
    const { rates, countTokens, keys, by, reserve } = this.#options;
    const { signal, progress } = request;
    const promptTokens = countRequestTokens(request, countTokens);
    const outputTokens = Keys.MAX_OUTPUT_TOKENS;
    const cost = mostOfCall({ promptTokens, outputTokens }, rates);
    this.#giveBack.push(
      await reserve({ ...EMPTY_LEDGER, calls: 1, promptTokens, outputTokens, ...cost }, request),
    );
    const reserved = await keys?.reserve(by, cost.usd ?? 0, { signal, progress });
    if (!reserved) return;
    if (!("release" in reserved)) throw new BudgetSpent(reserved.message);
    this.#giveBack.push(reserved.release);
  }
}

function ownModel(model: Model, assertOwn: () => void): Model {
  return (request) => {
    assertOwn();
    return model({ ...request, confirm: assertOwn });
  };
}

function runningIn(messages: readonly Message[]): readonly string[] {
  const running = new Set<string>();
  for (const { role, content } of messages) {
    if (role !== "tool" && role !== "system") continue;
    const text = contentText(content);
    if (!text.includes("bg_")) continue;
    for (const [, name = "", verb] of text.matchAll(BackgroundCommands.STATE)) {
      if (verb === "runs" && role === "tool") running.add(name);
      else running.delete(name);
    }
  }
  return [...running];
}

function inSession(
  tool: Tool,
  { about, watch = (tool) => tool }: {
    readonly about: Pick<ToolContext, "session" | "supportsImages">;
    readonly watch: ((tool: Tool) => Tool) | undefined;
  },
): Tool {
  return {
    ...tool,
    ...(tool.resolve && { resolve: (args) => watch(tool).resolve!(args) }),
    run: (args, context) => watch(tool).run(args, { ...context, ...about }),
  };
}

function ownTool(tool: Tool, assertOwn: () => void): Tool {
  return {
    ...tool,
    run(args, context) {
      assertOwn();
      return tool.run(args, { ...context, confirm: assertOwn });
    },
  };
}

interface RunTurnOptions extends Omit<RunOptions, "context" | "tools" | "unlisted"> {
  readonly takeTools: (signal?: AbortSignal) => Promise<TakenTools>;
  readonly prompt: TurnPrompt;
  readonly modelName: string;
  readonly notice?: string | undefined;
  readonly place?: Pick<EnvironmentDescription, "changes"> | undefined;
  readonly news: (messages: readonly Message[]) => string | undefined;
  readonly time: TurnTime & Required<Pick<TurnTime, "now">>;
  readonly keepAlive: TurnKeepAlive;
  readonly evictNow: boolean;
  readonly isLeft: () => boolean;
  readonly commit: CommitEvents;
}

/**
 * Plays a turn, and commits its events in batches: see {@linkcode EventBatch}. The turn waits for the commit of
 *
 * - content that a view archives, before its edits;
 * - edits and all earlier events, before the request that relies on them;
 * - a reply, before its calls run; if all its calls are read-only, before the next view;
 * - steering inputs, which then no longer wait.
 *
 * @throws errors of `commit`, and internal errors.
 */
async function runTurn(
  {
    prompt,
    modelName,
    notice,
    time,
    keepAlive,
    commit,
    takeTools,
    evictNow,
    isLeft,
    place,
    news: newsOf,
    ...options
  }: RunTurnOptions,
): Promise<PlayedTurn> {
  const { now, clock = systemClock } = time;
  const { answered = [] } = options.approvals ?? {};
  const { tools, warnings: missing } = await takeTools(options.signal);
  const { history, resumed } = options;
  // No message may come between calls and their results.
  const isBegun = resumed?.messages.some(({ role }) => role === "assistant" || role === "tool") ?? false;
  const mayTell = !isBegun && openCalls(history).length === 0;
  const { listed, unlisted, notice: announced, deferred } = prompt.offerTools(tools, mayTell);
  const before = [...history, ...resumed?.messages ?? []];
  const system = before.filter(({ role }) => role === "system");
  const changes = mayTell && await place?.changes(system.map(({ content }) => contentText(content)));
  const moved = [changes, mayTell && newsOf(before)].flatMap((content): readonly Message[] =>
    content ? [{ role: "system", content }] : []
  );
  const news = [...announced ? [announced] : [], ...moved];
  const failed = new AbortController();
  const batch = new EventBatch({ commit, clock, failed: () => failed.abort() });
  for (const message of news) batch.add({ type: "message_added", message });
  // Its message is stored with it, so that no crash repeats it.
  if (announced) await batch.settle();
  const warnings = notice === undefined ? missing : [notice, ...missing];
  const waitsForCalls = (calls: AssistantMessage["tool_calls"]) => {
    if (calls?.length) keepAlive.waitsForCalls(calls);
  };
  // Approved calls run before the model is called.
  waitsForCalls(options.resumed?.calls ?? answered.map(({ call }) => call));
  let step = 1;
  let answeredAtMs = now();
  const pending: ApprovalEvent[] = [];
  let result: TurnResult | undefined;
  let reply: Promise<void> | undefined;
  const played = (async function* () {
    result = yield* run({
      ...options,
      time,
      signal: AbortSignal.any([...options.signal ? [options.signal] : [], failed.signal]),
      ...(resumed ? { resumed: { ...resumed, messages: withNews(resumed.messages, news) } } : {
        history: [...history, ...news],
      }),
      tools: listed,
      unlisted,
      async context({ messages, tools, turnStart, step, signal, progress }) {
        if (isLeft()) throw new TurnLeft();
        keepAlive.stopKeepAlive();
        // The view's changes are stored with the event that reports them, not before.
        await reply;
        const out = deferred(messages);
        const about = { nowMs: now(), model: modelName, turnStart, step, signal, progress };
        const call = {
          ...about,
          ...(out && { deferred: out }),
          ...(evictNow && step === 1 && { evictNow }),
        };
        const view = await prompt.view({ messages, tools }, call).catch((error) => {
          if (!(error instanceof PromptTooLong)) throw error;
          throw new ModelError("prompt_too_long", error.message, { cause: error });
        });
        // In one commit, so that no crash leaves an unreported rewrite.
        for (const rewrite of view.rewrites) batch.add({ type: "context_rewritten", step, ...rewrite });
        if (!prompt.isStored || step > 1 || answered.length > 0 || options.resumed) await batch.settle();
        return {
          messages: view.messages,
          tools: view.tools,
          ...(view.stable && { stable: view.stable }),
          cachedTokens: view.predictedCachedTokens,
          cacheKey: prompt.cacheKey(messages),
          ...(view.summary && { usage: view.summary }),
          saved: view.saved,
          warnings: step === 1 ? [...warnings, ...view.warnings] : view.warnings,
          succeeded(usage) {
            answeredAtMs = now();
            const entry = prompt.sent(usage, view);
            if (entry) keepAlive.learns(entry);
            return entry;
          },
          rejected: (words) => prompt.rejected(words, view),
        };
      },
    });
  })();
  const readers = [...listed, ...unlisted].filter(isReader);
  const needed = replies({ clientTools: options.clientTools, readers });
  const mayLeave = betweenCalls(options.resumed?.calls ?? answered.map(({ call }) => call));
  try {
    for await (const event of played) {
      if (event.type === "turn_start" || event.type === "turn_end") continue;
      if ("step" in event) step = event.step;
      if (event.type === "approval_requested") {
        pending.push(event);
        continue;
      }
      if (event.type === "assistant_message") waitsForCalls(event.message.tool_calls);
      if (mayLeave(event) && isLeft()) {
        await batch.settle();
        throw new TurnLeft();
      }
      if (event.type === "step_end") batch.add({ ...event, atMs: answeredAtMs });
      else if (event.type === "reply_unfinished") batch.add({ ...event, atMs: now() });
      else batch.add(event);
      const need = event.type === "user_message" ? "now" : needed(event);
      if (need === "now") await batch.settle();
      // A crash leaves no unknown outcome: the calls are read-only.
      if (need === "soon") (reply = batch.settle()).catch(() => failed.abort());
    }
    if (!result) throw new Error("Cannot end the turn: the loop returned no result.");
    if (result.reason === "internal_error") {
      await batch.settle();
      throw result.error;
    }
    const last = batch.take();
    await batch.committed;
    return {
      step,
      result: { ...result, messages: [...resumed ? [] : news, ...result.messages] },
      pending,
      last,
    };
  } finally {
    batch.take();
  }
}

function withNews(messages: readonly Message[], news: readonly Message[]): readonly Message[] {
  const opener = messages.findIndex(({ role }) => role !== "system");
  return messages.toSpliced(opener < 0 ? messages.length : opener, 0, ...news);
}

/**
 * Returns a function that reports when an event completes a reply with calls that run now, and when to store it: now,
 * or soon if all these calls are read-only.
 */
function replies(
  { clientTools = [], readers }: {
    readonly clientTools?: readonly ToolDefinition[] | undefined;
    readonly readers: readonly Tool[];
  },
): (event: LoopEvent) => "now" | "soon" | undefined {
  const clients = new Set(clientTools.map(({ function: { name } }) => name));
  const reading = new Set(readers.map(({ definition }) => definition.function.name));
  let expected = 0;
  let need: "now" | "soon" | undefined;
  return (event) => {
    if (event.type === "assistant_message") {
      expected = event.message.tool_calls?.length ?? 0;
      need = undefined;
    }
    if (event.type !== "tool_call") return undefined;
    // A program's calls come one by one, and it waits for the commit.
    if (event.parent !== undefined) return reading.has(event.name) ? undefined : "now";
    if (!clients.has(event.name) && need !== "now") need = reading.has(event.name) ? "soon" : "now";
    return --expected === 0 ? need : undefined;
  };
}

/**
 * Returns a function that reports whether a program is about to make a call while nothing else runs: the turn can be
 * left there, as between steps. `calls` run already.
 */
function betweenCalls(calls: readonly ToolCall[]): (event: LoopEvent) => boolean {
  const running = new Set(calls.map(({ id }) => id));
  const programs = new Set<string>();
  return (event) => {
    if (event.type === "tool_result") running.delete(event.id);
    if (event.type !== "tool_call") return false;
    if (event.parent !== undefined) programs.add(event.parent);
    const isBetween = event.parent !== undefined && [...running].every((id) => programs.has(id));
    running.add(event.id);
    return isBetween;
  };
}

const GATHER_MS = 100;

/**
 * Commits events. If `settled`, the turn waits, and all changed state is committed too. Otherwise the turn continues,
 * and changed state belongs to later events.
 */
type CommitEvents = (
  events: readonly SessionEvent[],
  options: { readonly settled: boolean },
) => Promise<void>;

interface EventBatchOptions {
  readonly commit: CommitEvents;
  readonly clock: Clock;
  readonly failed: () => void;
}

/**
 * Batches the events of a turn, so that a step takes few commits. The first delta of a step is committed immediately,
 * later ones at most every 100 ms and merged; other events wait as long, unless the caller waits for the commit. The
 * order is kept.
 */
export class EventBatch {
  readonly #options: EventBatchOptions;
  #gathered: SessionEvent[] = [];
  #committed: Promise<void> = Promise.resolve();
  #failure: { readonly error: unknown } | undefined;
  #deltasFromMs = -Infinity;
  #taken = 0;
  #disarm: (() => void) | undefined;

  constructor(options: EventBatchOptions) {
    this.#options = options;
  }

  add(event: SessionEvent): void {
    if (this.#failure) throw this.#failure.error;
    this.#gather(event);
    if (event.type === "step_start") this.#deltasFromMs = -Infinity;
    const waitMs = isDelta(event) ? this.#deltasFromMs - this.#options.clock.now() : GATHER_MS;
    if (waitMs <= 0) this.#commitSoon();
    else this.#disarm ??= this.#options.clock.after(waitMs, () => this.#commitSoon());
  }

  /** @throws the error of a failed commit. */
  settle(): Promise<void> {
    // Taken now: a commit in progress must not take an event without its state.
    const events = this.take();
    return this.#next(() => this.#options.commit(events, { settled: true }));
  }

  /** Takes the events that aren't being committed, for the caller to commit. */
  take(): readonly SessionEvent[] {
    this.#rest();
    this.#taken++;
    return this.#gathered.splice(0);
  }

  /** Takes events before a complete reply: its commit includes the changed state of the prompt. */
  #takeUnsettled(): readonly SessionEvent[] {
    this.#rest();
    const reply = this.#gathered.findIndex(({ type }) => type === "assistant_message");
    return this.#gathered.splice(0, reply < 0 ? this.#gathered.length : reply);
  }

  get committed(): Promise<void> {
    return this.#committed;
  }

  #gather(event: SessionEvent): void {
    const last = this.#gathered.at(-1);
    if (last && isDelta(event) && last.type === event.type && last.step === event.step) {
      this.#gathered[this.#gathered.length - 1] = { ...last, text: last.text + event.text };
    } else this.#gathered.push(event);
  }

  #commitSoon(): void {
    this.#rest();
    if (this.#gathered.some(isDelta)) this.#deltasFromMs = this.#options.clock.now() + GATHER_MS;
    const taken = this.#taken;
    // While the store is slow, this commits all events gathered meanwhile, but none that follow taken ones.
    const commit = async () => {
      const events = taken === this.#taken ? this.#takeUnsettled() : [];
      if (events.length > 0) await this.#options.commit(events, { settled: false });
    };
    this.#next(commit).catch(() => this.#options.failed());
  }

  #next(commit: () => Promise<void>): Promise<void> {
    this.#committed = this.#committed.then(commit);
    this.#committed.catch((error) => this.#failure ??= { error });
    return this.#committed;
  }

  #rest(): void {
    this.#disarm?.();
    this.#disarm = undefined;
  }
}

function isDelta(event: SessionEvent): event is Extract<SessionEvent, { readonly type: `${string}_delta` }> {
  return event.type === "text_delta" || event.type === "reasoning_delta";
}

interface Budgets {
  readonly turn?: Budget;
  readonly session?: Budget;
}

interface Measure {
  readonly rates: Rates;
  readonly model: string;
}

/** @throws {HttpError} 400 for a budget in dollars if the model's price is unknown. */
export function checkBudgets({ turn, session }: Budgets, { rates, model }: Measure): void {
  if (rates.price || (turn?.maxUsd ?? session?.maxUsd) === undefined) return;
  throw invalidRequest(
    `Cannot enforce the budget maxUsd: the price of model ${JSON.stringify(model)} is unknown. Start ` +
      "the server with TARE_PRICE=input=3,output=15 (US dollars for a million tokens) or a price in the " +
      "file of TARE_PROFILE, or use maxTokens or maxCostUnits.",
  );
}

/**
 * Returns a function that reports which budget a turn's cost exhausts; `undefined` if none. `before` is the cost of
 * the session's earlier turns, `spent` this one's before it continued. Default: nothing.
 *
 * @throws {HttpError} as {@linkcode checkBudgets} does.
 */
export function overBudget(
  budgets: Budgets,
  { before, spent = EMPTY_LEDGER, ...measure }: Measure & {
    readonly before: TurnLedger;
    readonly spent?: TurnLedger | undefined;
  },
): (ledger: TurnLedger) => string | undefined {
  checkBudgets(budgets, measure);
  const { turn = {}, session = {} } = budgets;
  const { rates } = measure;
  return (ledger) =>
    (hasLimit(turn) ? usedUp("turn", turn, addLedgers(spent, ledger), rates) : undefined) ??
      (hasLimit(session) ? usedUp("session", session, addLedgers(before, ledger), rates) : undefined);
}

function hasLimit(budget: Budget): boolean {
  return LIMITS.some((name) => budget[name] !== undefined);
}

const LIMITS = ["maxSteps", "maxTokens", "maxUsd", "maxCostUnits"] as const;

function usedUp(what: string, budget: Budget, ledger: TurnLedger, rates: Rates): string | undefined {
  // Older turns don't contain the cost of their calls.
  const all = callCost(ledger, rates);
  const spent = {
    maxSteps: ledger.calls,
    maxTokens: ledger.promptTokens + ledger.outputTokens,
    maxUsd: ledger.usd ?? all.usd ?? 0,
    maxCostUnits: ledger.costUnits ?? all.costUnits,
  };
  for (const name of LIMITS) {
    const limit = budget[name];
    if (limit === undefined || spent[name] < limit) continue;
    const used = name === "maxUsd" ? Number(spent.maxUsd.toPrecision(4)) : Math.round(spent[name]);
    return `The ${what}'s budget is exhausted: ${name} is ${limit}, used: ${used}.`;
  }
  return undefined;
}

import type { RunOptions, TurnApprovals, TurnCosts, TurnLedger } from "@tare/loop";
import { addLedgers, BudgetSpent, EMPTY_LEDGER } from "@tare/loop/internal";
import {
  contentText,
  type Message,
  type ModelRequest,
  type Tool,
  type ToolCall,
  type ToolContext,
  type ToolDefinition,
  type ToolOutput,
} from "@tare/messages";
import { describeCall, firstWords, sliceText } from "@tare/messages/internal";
import { RECALL_TOOL } from "@tare/prune";
import {
  creationRecords,
  readTranscript,
  type RebuiltSession,
  resultOfSubagent,
} from "../sessions/history.ts";
import type { EventLog } from "../sessions/event_log.ts";
import type { SessionSettings, StoredSettings } from "../sessions/session_settings.ts";
import type { SessionEnvironment, SessionEvent, SubagentLink } from "../sessions/session_types.ts";
import { withoutUse } from "../turns/session_tools.ts";

/** Cost of a turn so far, its running subagents included. */
export class TurnAccount {
  #own: TurnLedger = EMPTY_LEDGER;
  readonly #subagents = new Map<string, TurnLedger>();
  #keepAliveLedger: TurnLedger = EMPTY_LEDGER;
  /** Maximum cost of model calls in progress, subagents' included. */
  readonly #underWay = new Set<TurnLedger>();
  readonly #waiting = new Set<() => void>();

  readonly spent = (own: TurnLedger): TurnLedger => {
    this.#own = own;
    return this.sum;
  };

  /** Its own session reports its savings. */
  note(subagent: string, ledger: TurnLedger): void {
    this.#subagents.set(subagent, { ...ledger, saved: {} });
  }

  keepAliveLedger(cost: TurnLedger): void {
    this.#keepAliveLedger = addLedgers(this.#keepAliveLedger, cost);
  }

  /**
   * Reserves a model call's maximum cost. Waits while calls in progress could use up a budget, so that parallel
   * subagents exceed it by at most one call.
   * @returns the release, for after the call's cost is recorded.
   * @throws {BudgetSpent} if a budget is used up, and the signal's reason.
   */
  async reserve(
    most: TurnLedger,
    { overBudget, signal, progress }: Pick<ModelRequest, "signal" | "progress"> & {
      readonly overBudget: (ledger: TurnLedger) => string | undefined;
    },
  ): Promise<() => void> {
    for (;;) {
      signal.throwIfAborted();
      const usedUp = overBudget(this.sum);
      if (usedUp !== undefined) throw new BudgetSpent(usedUp);
      const underWay = [...this.#underWay];
      if (underWay.length === 0 || overBudget(underWay.reduce(addLedgers, this.sum)) === undefined) break;
      await waitAmong(this.#waiting, signal);
      progress?.();
    }
    // Distinct: several calls may have equal costs.
    const its = { ...most };
    this.#underWay.add(its);
    return () => {
      if (!this.#underWay.delete(its)) return;
      for (const go of [...this.#waiting]) go();
    };
  }

  get subagents(): TurnLedger {
    return [...this.#subagents.values()].reduce(addLedgers, EMPTY_LEDGER);
  }

  get sum(): TurnLedger {
    const more = [
      ...this.#subagents.size > 0 ? [this.subagents] : [],
      ...this.#keepAliveLedger === EMPTY_LEDGER ? [] : [this.#keepAliveLedger],
    ];
    return more.reduce(addLedgers, this.#own);
  }
}

/** @throws the signal's reason. */
async function waitAmong(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = () => {
    // Immediately: a stale callback would waste the call.
    waiting.delete(resolve);
    reject(signal.reason);
  };
  waiting.add(resolve);
  signal.addEventListener("abort", stop);
  await promise.finally(() => {
    waiting.delete(resolve);
    signal.removeEventListener("abort", stop);
  });
}

/** Default limit of model calls. */
const STEPS = 20;

const MAX_STEPS = 50;

/** Maximum parallel subagents of a session. */
const MAX_AT_ONCE = 16;

const MAX_IN_A_TURN = 100;

/** Interval at which a waiting turn's watchdog is reset; subagents have their own. */
const ALIVE_MS = 1_000;

/** A timer's longest delay: only the turn limits a subagent's time. */
const NO_LIMIT_MS = 2 ** 31 - 1;

export const DELEGATE_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: "delegate",
    description:
      "Gives a task to a subagent: a copy of you that knows this conversation up to here, works with " +
      "the same tools in steps that you don't see, and returns one answer. Subagents called in one " +
      "reply run in parallel. Use it for tasks of many steps whose details you won't need, such as " +
      "searching widely or trying something out.",
    parameters: {
      type: "object",
      properties: {
        task: { type: "string", minLength: 1, description: "The task, and what the answer must contain." },
        tools: {
          type: "array",
          items: { type: "string" },
          description: "Names of the only tools that it may use. Default: all of yours.",
        },
        max_steps: {
          type: "integer",
          minimum: 1,
          maximum: MAX_STEPS,
          description: `Maximum model calls. Default: ${STEPS}.`,
        },
      },
      required: ["task"],
      additionalProperties: false,
    },
  },
};

type Arguments = {
  readonly task: string;
  readonly tools?: readonly string[];
  readonly max_steps?: number;
};

interface DelegatingTurn
  extends
    Required<Pick<RunOptions, "clientTools">>,
    Required<Pick<TurnCosts, "overBudget">>,
    Pick<RunOptions, "settings">,
    Pick<TurnApprovals, "judge"> {
  /** Returns the model's tools, once they are fixed. */
  readonly tools: () => readonly Tool[];
  readonly account: TurnAccount;
  readonly watch: (tool: Tool) => Tool;
}

interface DelegatingSession extends RebuiltSession {
  readonly by: string | undefined;
  readonly settings: SessionSettings;
  readonly events: Pick<EventLog, "append">;
  /** Returns the state of a session that continues from the first `length` messages. */
  readonly prompt: { readonly fork: (length: number) => unknown };
}

/** Subagents of a session: forks with a task and a session of their own. */
export class Subagents {
  readonly tool: Tool;
  readonly #session: DelegatingSession;
  readonly #environment: SessionEnvironment;
  readonly #alone: <T>(work: () => Promise<T>) => Promise<T>;
  #links: readonly SubagentLink[] = [];
  #turn: DelegatingTurn | undefined;
  #had = 0;
  #working = 0;
  readonly #waiting = new Set<() => void>();

  /** `alone` runs work while nothing else changes the session. */
  constructor(
    session: DelegatingSession,
    { environment, alone }: {
      readonly environment: SessionEnvironment;
      readonly alone: <T>(work: () => Promise<T>) => Promise<T>;
    },
  ) {
    this.#session = session;
    this.#environment = environment;
    this.#alone = alone;
    this.tool = {
      definition: DELEGATE_TOOL,
      timeoutMs: NO_LIMIT_MS,
      // The caller has validated the arguments.
      run: (args, context) => this.#delegate(args as Arguments, context),
    };
  }

  /** Oldest first. */
  get links(): readonly SubagentLink[] {
    return this.#links;
  }

  get ledger(): TurnAccount["subagents"] {
    return (this.#turn?.account ?? new TurnAccount()).subagents;
  }

  adopt(links: readonly SubagentLink[]): void {
    this.#links = links;
  }

  begin(turn: DelegatingTurn): void {
    this.#turn = turn;
    this.#had = 0;
  }

  async #delegate(
    { task, tools, max_steps: maxSteps = STEPS }: Arguments,
    context: ToolContext,
  ): Promise<ToolOutput> {
    const turn = this.#turn;
    if (!turn) throw new Error("Cannot delegate: no turn is running.");
    const names = turn.tools().map(nameOf);
    const unknown = tools?.find((name) => !names.includes(name));
    if (unknown !== undefined) {
      const content = `Cannot delegate: there is no tool ${JSON.stringify(unknown)}. The tools are: ${
        names.join(", ")
      }.`;
      return { content, error: true };
    }
    const refuse = (why: string) => ({ content: `Cannot delegate: ${why}`, error: true });
    if (++this.#had > MAX_IN_A_TURN) {
      return refuse(`this turn has had ${MAX_IN_A_TURN} subagents, the maximum. Do the rest yourself.`);
    }
    await this.#begins(context.signal);
    let giveBack = () => {};
    try {
      // The cost of earlier ones is known by now.
      const usedUp = turn.overBudget(turn.account.sum);
      if (usedUp !== undefined) return refuse(usedUp);
      giveBack = this.#environment.takeSlot();
      const mayUse = names.filter((name) =>
        name !== DELEGATE_TOOL.function.name &&
          (tools?.includes(name) ?? true) || name === RECALL_TOOL.function.name
      );
      const id = await this.#fork({ task, mayUse }, context);
      const isNarrow = tools !== undefined;
      return await this.#play(id, { task, mayUse, isNarrow, maxSteps, turn, giveBack }, context);
    } finally {
      giveBack();
      this.#ends();
    }
  }

  /** Waits for a slot. @throws the signal's reason. */
  async #begins(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#working < MAX_AT_ONCE) {
      this.#working++;
      return;
    }
    await waitAmong(this.#waiting, signal);
  }

  #ends(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#working--;
      return;
    }
    this.#waiting.delete(next);
    next();
  }

  /** Creates a subagent's session with its parent's messages, edits and archive, so that prompts share a prefix. */
  async #fork(
    { task, mayUse }: { readonly task: string; readonly mayUse: readonly string[] },
    { signal, callId = "" }: ToolContext,
  ): Promise<string> {
    const id = crypto.randomUUID();
    const session = this.#session;
    const { admit, store } = this.#environment;
    const fork = async () => {
      signal.throwIfAborted();
      const { messages } = await readTranscript(session, store);
      const forked = messagesOfFork(messages);
      const [first] = forked;
      // The parent's instructions include its environment.
      const isSystem = first?.role === "system" && typeof first.content === "string";
      const settings: StoredSettings = {
        ...session.settings,
        instructions: isSystem ? contentText(first.content) : "",
        budget: {},
        subagent: { call: callId, tools: mayUse },
      };
      const records = creationRecords(
        { id, by: session.by, createdAtMs: store.now(), settings, parent: session.id },
        {
          store,
          title: firstWords(task),
          value: session.prompt.fork(messages.length),
          messages: forked.slice(isSystem ? 1 : 0),
        },
      );
      await session.events.append([{ type: "subagent_started", id: callId, session: id }], { records });
    };
    await admit(1, () => this.#alone(fork));
    this.#links = [...this.#links, { id: callId, session: id }];
    return id;
  }

  async #play(
    id: string,
    { task, mayUse, isNarrow, maxSteps, turn, giveBack }: Omit<Arguments, "tools" | "max_steps"> & {
      readonly mayUse: readonly string[];
      readonly isNarrow: boolean;
      readonly maxSteps: number;
      readonly turn: DelegatingTurn;
      readonly giveBack: () => void;
    },
    { signal, progress, output }: ToolContext,
  ): Promise<ToolOutput> {
    const { account, settings, judge, overBudget, watch } = turn;
    const subagent = await this.#environment.open(id);
    const running = await subagent.start({
      input: taskFor(task, isNarrow ? mayUse : undefined),
      budget: { maxSteps },
      tools: toolsOfSubagent(turn, { own: subagent.tools, mayUse }),
      settings,
      unattended: "deny",
      giveBack,
      payer: {
        note: (ledger) => account.note(id, ledger),
        overBudget: () => overBudget(account.sum),
        reserve: (most, request) => account.reserve(most, { ...request, overBudget }),
        watch,
        ...(judge && { judge }),
      },
    });
    const alive = setInterval(progress, ALIVE_MS);
    signal.addEventListener("abort", running.cancel);
    if (signal.aborted) running.cancel();
    try {
      for await (const { event } of subagent.events.read(running.before)) {
        const line = lineOf(event);
        if (line !== undefined) output?.(line);
        if (event.type === "turn_end") return resultOfSubagent(event, id);
      }
      throw new Error(`Cannot read the result of the subagent in session ${id}: its turn has no end.`);
    } finally {
      await running.done;
      clearInterval(alive);
      signal.removeEventListener("abort", running.cancel);
    }
  }
}

/** All tools remain, so that the prompt is equal. */
function toolsOfSubagent(
  { tools, clientTools }: Pick<DelegatingTurn, "tools" | "clientTools">,
  { own, mayUse }: { readonly own: readonly Tool[]; readonly mayUse: readonly string[] },
): readonly Tool[] {
  const inSubagent = tools().map((tool) => own.find((one) => nameOf(one) === nameOf(tool)) ?? tool);
  const clients = clientTools.map((definition): Tool => ({ definition, run: () => "" }));
  return withoutUse([...inSubagent, ...clients], mayUse);
}

function nameOf({ definition }: Tool): string {
  return definition.function.name;
}

/** Returns the messages up to the newest reply, with a result per call. */
function messagesOfFork(messages: readonly Message[]): readonly Message[] {
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const reply = messages[at];
  const calls = reply?.role === "assistant" ? reply.tool_calls ?? [] : [];
  return [...messages.slice(0, at + 1), ...calls.map(answerInFork)];
}

/** Equal in every fork, so that forks share their prefix. */
function answerInFork(call: ToolCall): Message {
  const { name } = describeCall(call);
  const content = name === "delegate"
    ? "A subagent works on this task, with this conversation up to here."
    : `The result of ${name} isn't known here: the call is made once, elsewhere. Make another one if you ` +
      "need it.";
  return { role: "tool", tool_call_id: call.id, content };
}

function taskFor(task: string, mayUse: readonly string[] | undefined): string {
  return [
    "You are a subagent now: a copy of the agent above, made for one task, while the agent waits for " +
    "your result.",
    ...(mayUse ? [`You may use only these tools: ${mayUse.join(", ")}.`] : []),
    `The user can't be asked, and you have no subagents. Do only this:\n\n${task}\n\nThe agent gets ` +
    "only your last message: put all that it needs there, and no more.",
  ].join(" ");
}

const VISIBLE_CHARS = 200;

/** Returns a progress line; `undefined` for most events. */
export function lineOf(event: SessionEvent): string | undefined {
  switch (event.type) {
    case "tool_call":
      return `${event.name} ${sliceText(event.arguments, 0, VISIBLE_CHARS)}\n`;
    case "assistant_message": {
      const { content } = event.message;
      return typeof content === "string" && content.trim() !== ""
        ? `${sliceText(content.trim(), 0, VISIBLE_CHARS).replaceAll(/\s+/g, " ")}\n`
        : undefined;
    }
    case "tool_result":
      return event.error
        ? `${event.name} failed: ${sliceText(event.content, 0, VISIBLE_CHARS).split("\n")[0]}\n`
        : undefined;
    default:
      return undefined;
  }
}

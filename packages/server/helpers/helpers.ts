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
import { creationRecords, readTranscript, resultOfHelper, type ToldSession } from "../sessions/history.ts";
import type { EventLog } from "../sessions/event_log.ts";
import type { SessionSettings, StoredSettings } from "../sessions/session_settings.ts";
import type { HelperLink, SessionEnvironment, SessionEvent } from "../sessions/session_types.ts";
import { withoutUse } from "../turns/session_tools.ts";

/** What a turn has cost so far: its own calls, and those of its helpers while they run. */
export class TurnAccount {
  #own: TurnLedger = EMPTY_LEDGER;
  readonly #helpers = new Map<string, TurnLedger>();
  #pings: TurnLedger = EMPTY_LEDGER;
  /** What model calls under way cost at most, its helpers' too. */
  readonly #underWay = new Set<TurnLedger>();
  /** Called when one of them is over. */
  readonly #waiting = new Set<() => void>();

  /** Takes note of what the turn's own calls cost so far, and gives the sum. */
  readonly spent = (own: TurnLedger): TurnLedger => {
    this.#own = own;
    return this.sum;
  };

  /** Takes note of what a helper cost so far. What it kept out of prompts is told by its own session alone. */
  note(helper: string, ledger: TurnLedger): void {
    this.#helpers.set(helper, { ...ledger, saved: {} });
  }

  /** A ping that kept the turn's prompt warm cost this. */
  pinged(cost: TurnLedger): void {
    this.#pings = addLedgers(this.#pings, cost);
  }

  /**
   * Sets aside what a model call costs at most. As long as calls under way could use up the rest of a budget, it waits: so
   * that is passed by one call's maximum at most, however many helpers work at once.
   *
   * @returns What gives it back, once the call is over and what it cost is noted.
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
    // Several may cost the same.
    const its = { ...most };
    this.#underWay.add(its);
    return () => {
      if (!this.#underWay.delete(its)) return;
      for (const go of [...this.#waiting]) go();
    };
  }

  get helpers(): TurnLedger {
    return [...this.#helpers.values()].reduce(addLedgers, EMPTY_LEDGER);
  }

  get sum(): TurnLedger {
    const more = [
      ...this.#helpers.size > 0 ? [this.helpers] : [],
      ...this.#pings === EMPTY_LEDGER ? [] : [this.#pings],
    ];
    return more.reduce(addLedgers, this.#own);
  }
}

/** Waits until the function is called that is put among these. @throws the signal's reason. */
async function waitAmong(waiting: Set<() => void>, signal: AbortSignal): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stop = () => {
    // At once: a function that is called in vain would wake nobody.
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

/** Most model calls of a helper, unless the call says otherwise. */
const STEPS = 20;

/** Most that a call may ask for. */
const MOST_STEPS = 50;

/** Most helpers of a session that work at once; more wait until one is done. */
const MOST_AT_ONCE = 16;

const MOST_IN_A_TURN = 100;

/** How often the turn that waits for a helper is told that it is alive, in milliseconds: the helper has a watchdog of its own. */
const ALIVE_MS = 1_000;

/** A helper has no time limit but those of its turn: longest delay of a timer, in milliseconds. */
const NO_LIMIT_MS = 2 ** 31 - 1;

/** How helpers are described to the model. */
export const DELEGATE_TOOL: ToolDefinition = {
  type: "function",
  function: {
    name: "delegate",
    description:
      "Gives a task to a helper: a copy of you that knows this conversation up to here and works with the same tools, in " +
      "steps that you don't see, until it brings back one answer. Helpers called in one reply work at the same time. Use " +
      "it for what takes many steps whose details you won't need, such as searching widely or trying something out.",
    parameters: {
      type: "object",
      properties: {
        task: { type: "string", minLength: 1, description: "What to do, and what the answer must hold." },
        tools: {
          type: "array",
          items: { type: "string" },
          description: "Names of the only tools that it may use. Default: all of yours.",
        },
        max_steps: {
          type: "integer",
          minimum: 1,
          maximum: MOST_STEPS,
          description: `Most model calls. Default: ${STEPS}.`,
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
  /** Those that its model has, once they are taken. */
  readonly tools: () => readonly Tool[];
  readonly account: TurnAccount;
  /** The same tool, whose changes of files count as the turn's. */
  readonly watch: (tool: Tool) => Tool;
}

interface DelegatingSession extends ToldSession {
  /** Name of the key with which it was made. */
  readonly by: string | undefined;
  readonly settings: SessionSettings;
  readonly events: Pick<EventLog, "append">;
  /** Gives the states of a session that goes on from the first `length` messages, by name. */
  readonly prompt: { readonly fork: (length: number) => unknown };
}

/** The helpers of a session: copies of it, each for one task, with sessions of their own. */
export class Helpers {
  readonly tool: Tool;
  readonly #session: DelegatingSession;
  readonly #environment: SessionEnvironment;
  readonly #alone: <T>(work: () => Promise<T>) => Promise<T>;
  #links: readonly HelperLink[] = [];
  #turn: DelegatingTurn | undefined;
  #had = 0;
  #working = 0;
  readonly #waiting = new Set<() => void>();

  /** The helpers of this session; `alone` does some work while nothing else changes it. */
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
      // Whoever runs a tool has validated the arguments.
      run: (args, context) => this.#delegate(args as Arguments, context),
    };
  }

  /** All that the session ever had, the oldest first. */
  get links(): readonly HelperLink[] {
    return this.#links;
  }

  /** What those of the newest turn cost so far. */
  get ledger(): TurnAccount["helpers"] {
    return (this.#turn?.account ?? new TurnAccount()).helpers;
  }

  /** Takes these for the session's helpers: so it is stored. */
  adopt(links: readonly HelperLink[]): void {
    this.#links = links;
  }

  /** A turn begins: what its helpers cost counts as its own. */
  begin(turn: DelegatingTurn): void {
    this.#turn = turn;
    this.#had = 0;
  }

  async #delegate(
    { task, tools, max_steps: maxSteps = STEPS }: Arguments,
    context: ToolContext,
  ): Promise<ToolOutput> {
    const turn = this.#turn;
    if (!turn) throw new Error("Cannot delegate: no turn runs.");
    const names = turn.tools().map(nameOf);
    const unknown = tools?.find((name) => !names.includes(name));
    if (unknown !== undefined) {
      const content = `Cannot delegate: there is no tool ${JSON.stringify(unknown)}. The tools are: ${
        names.join(", ")
      }.`;
      return { content, error: true };
    }
    const refuse = (why: string) => ({ content: `Cannot delegate: ${why}`, error: true });
    if (++this.#had > MOST_IN_A_TURN) {
      return refuse(`this turn has had ${MOST_IN_A_TURN} helpers, and no more may be. Do the rest yourself.`);
    }
    await this.#begins(context.signal);
    let giveBack = () => {};
    try {
      // What those before it have cost is known by now.
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

  /** Resolves once one more may work. @throws the signal's reason. */
  async #begins(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    if (this.#working < MOST_AT_ONCE) {
      this.#working++;
      return;
    }
    await waitAmong(this.#waiting, signal);
  }

  /** The next that waits takes the place of one that is done. */
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
      const said = messagesOfFork(messages);
      const [first] = said;
      // What its parent was told of the place is among its own instructions.
      const isSystem = first?.role === "system" && typeof first.content === "string";
      const settings: StoredSettings = {
        ...session.settings,
        instructions: isSystem ? contentText(first.content) : "",
        budget: {},
        helper: { call: callId, tools: mayUse },
      };
      const records = creationRecords(
        { id, by: session.by, createdAtMs: store.now(), settings, parent: session.id },
        {
          store,
          title: firstWords(task),
          value: session.prompt.fork(messages.length),
          messages: said.slice(isSystem ? 1 : 0),
        },
      );
      await session.events.append([{ type: "helper_started", id: callId, session: id }], { records });
    };
    await admit(1, () => this.#alone(fork));
    this.#links = [...this.#links, { id: callId, session: id }];
    return id;
  }

  async #play(
    id: string,
    { task, mayUse, isNarrow, maxSteps, turn, giveBack }: Omit<Arguments, "tools" | "max_steps"> & {
      readonly mayUse: readonly string[];
      /** Whether the call names them. */
      readonly isNarrow: boolean;
      readonly maxSteps: number;
      readonly turn: DelegatingTurn;
      readonly giveBack: () => void;
    },
    { signal, progress, output }: ToolContext,
  ): Promise<ToolOutput> {
    const { account, settings, judge, overBudget, watch } = turn;
    const helper = await this.#environment.open(id);
    const running = await helper.start({
      input: taskFor(task, isNarrow ? mayUse : undefined),
      budget: { maxSteps },
      tools: toolsOfHelper(turn, { own: helper.tools, mayUse }),
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
      for await (const { event } of helper.events.read(running.before)) {
        const line = lineOf(event);
        if (line !== undefined) output?.(line);
        if (event.type === "turn_end") return resultOfHelper(event, id);
      }
      throw new Error(`Cannot tell what the helper in session ${id} found: its turn has no end.`);
    } finally {
      await running.done;
      clearInterval(alive);
      signal.removeEventListener("abort", running.cancel);
    }
  }
}

/** Returns a subagent's tools: its session's own, others its parent's; all stay, so that the prompt is equal. */
function toolsOfHelper(
  { tools, clientTools }: Pick<DelegatingTurn, "tools" | "clientTools">,
  { own, mayUse }: { readonly own: readonly Tool[]; readonly mayUse: readonly string[] },
): readonly Tool[] {
  const inHelper = tools().map((tool) => own.find((one) => nameOf(one) === nameOf(tool)) ?? tool);
  const clients = clientTools.map((definition): Tool => ({ definition, run: () => "" }));
  return withoutUse([...inHelper, ...clients], mayUse);
}

function nameOf({ definition }: Tool): string {
  return definition.function.name;
}

/** What was said up to the newest reply, and an answer to each of its calls, for none may stay open. */
function messagesOfFork(messages: readonly Message[]): readonly Message[] {
  const at = messages.findLastIndex(({ role }) => role === "assistant");
  const reply = messages[at];
  const calls = reply?.role === "assistant" ? reply.tool_calls ?? [] : [];
  return [...messages.slice(0, at + 1), ...calls.map(answerInFork)];
}

/** The same for every fork of a reply, so that forks share their beginning with one another too. */
function answerInFork(call: ToolCall): Message {
  const { name } = describeCall(call);
  const content = name === "delegate"
    ? "A helper works on this task, with this conversation up to here."
    : `The result of ${name} isn't known here: the call is made once, elsewhere. Make another one if you need it.`;
  return { role: "tool", tool_call_id: call.id, content };
}

function taskFor(task: string, mayUse: readonly string[] | undefined): string {
  return [
    "You are a helper now: a copy of the agent above, made for one task, while the agent waits for what you find.",
    ...(mayUse ? [`You may use these tools alone: ${mayUse.join(", ")}.`] : []),
    `Nobody can be asked, and you have no helpers. Do this and no more:\n\n${task}\n\n` +
    "The agent gets your last message and nothing else: say all that it needs there, and no more.",
  ].join(" ");
}

const SHOWN_CHARS = 200;

/** What those who watch a helper are shown of what happens there, a line each; of most events nothing. */
export function lineOf(event: SessionEvent): string | undefined {
  switch (event.type) {
    case "tool_call":
      return `${event.name} ${sliceText(event.arguments, 0, SHOWN_CHARS)}\n`;
    case "assistant_message": {
      const { content } = event.message;
      return typeof content === "string" && content.trim() !== ""
        ? `${sliceText(content.trim(), 0, SHOWN_CHARS).replaceAll(/\s+/g, " ")}\n`
        : undefined;
    }
    case "tool_result":
      return event.error
        ? `${event.name} failed: ${sliceText(event.content, 0, SHOWN_CHARS).split("\n")[0]}\n`
        : undefined;
    default:
      return undefined;
  }
}

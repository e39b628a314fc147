import type { RunOptions } from "@tare/loop";
import type { Tool, ToolContext, ToolDefinition, ToolOutput } from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import type { Queue } from "../sessions/queue.ts";
import { readTranscript } from "../sessions/recover_history.ts";
import type { Session } from "../sessions/session.ts";
import type { SessionEnvironment } from "../sessions/session_options.ts";
import { restrictTools } from "../turns/session_tools.ts";
import { forkRecords, messagesOfFork, taskFor } from "./fork_session.ts";
import { type HelperLink, lineOf, resultOfHelper } from "./helper_turn.ts";
import { TurnAccount } from "./turn_account.ts";

/** Most model calls of a helper, unless the call says otherwise. */
const STEPS = 20;

/** Most that a call may ask for. */
const MOST_STEPS = 50;

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

/** The turn that may have helpers now. */
export interface DelegatingTurn
  extends
    Required<Pick<RunOptions, "tools" | "clientTools" | "overBudget">>,
    Pick<RunOptions, "settings" | "judge"> {
  readonly account: TurnAccount;
}

/** The helpers of a session: copies of it, each for one task, with sessions of their own. */
export class Helpers {
  /** The tool by which the model gets helpers. */
  readonly tool: Tool;
  readonly #session: Session;
  readonly #queue: Queue;
  readonly #environment: SessionEnvironment;
  #links: readonly HelperLink[] = [];
  #turn: DelegatingTurn | undefined;

  /** The helpers of this session, all of whose changes wait in this queue. */
  constructor(session: Session, environment: SessionEnvironment, queue: Queue) {
    this.#session = session;
    this.#queue = queue;
    this.#environment = environment;
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
  }

  async #delegate(
    { task, tools, max_steps: maxSteps = STEPS }: Arguments,
    context: ToolContext,
  ): Promise<ToolOutput> {
    const turn = this.#turn;
    if (!turn) throw new Error("Cannot delegate: no turn runs.");
    const names = turn.tools.map(nameOf);
    const unknown = tools?.find((name) => !names.includes(name));
    if (unknown !== undefined) {
      const content = `Cannot delegate: there is no tool ${JSON.stringify(unknown)}. The tools are: ${
        names.join(", ")
      }.`;
      return { content, error: true };
    }
    const { slots } = this.#environment;
    const giveBack = slots.take();
    try {
      const mayUse = names.filter((name) =>
        name !== DELEGATE_TOOL.function.name &&
          (tools?.includes(name) ?? true) || name === RECALL_TOOL.function.name
      );
      const id = await this.#fork({ task, mayUse }, context);
      return await this.#play(id, { task, mayUse, told: tools && mayUse, maxSteps, turn, giveBack }, context);
    } finally {
      giveBack();
    }
  }

  /** Makes the helper's session, and tells of it in this one, in one commit. */
  async #fork(
    { task, mayUse }: { readonly task: string; readonly mayUse: readonly string[] },
    { signal, callId = "" }: ToolContext,
  ): Promise<string> {
    const id = crypto.randomUUID();
    const session = this.#session;
    const { admit, store, now = Date.now } = this.#environment;
    const fork = async () => {
      signal.throwIfAborted();
      const { messages } = await readTranscript(session, store);
      const records = forkRecords({
        ...{ id, parent: session.id, createdAtMs: now(), task },
        settings: session.settings,
        helper: { call: callId, tools: mayUse },
        messages: messagesOfFork(messages),
        prompt: session.prompt.fork(messages.length),
      });
      await session.events.append([{ type: "helper_started", id: callId, session: id }], { records });
    };
    await admit(1, () => this.#queue.run(fork));
    this.#links = [...this.#links, { id: callId, session: id }];
    return id;
  }

  /** Plays the helper's turn. */
  async #play(
    id: string,
    { task, mayUse, told, maxSteps, turn, giveBack }: Omit<Arguments, "tools" | "max_steps"> & {
      readonly mayUse: readonly string[];
      /** Those that it is told of; nothing if they are as many as ever. */
      readonly told: readonly string[] | undefined;
      readonly maxSteps: number;
      readonly turn: DelegatingTurn;
      readonly giveBack: () => void;
    },
    { signal, progress, output }: ToolContext,
  ): Promise<ToolOutput> {
    const { account, settings, judge, overBudget } = turn;
    const helper = await this.#environment.open(id);
    const running = await helper.start({
      input: taskFor(task, told),
      budget: { maxSteps },
      tools: sameTools(turn, { own: helper.tools, mayUse }),
      settings,
      unattended: "deny",
      giveBack,
      payer: {
        note: (ledger) => account.note(id, ledger),
        overBudget: () => overBudget(account.sum),
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

/**
 * The tools of the turn that a helper works for, as the helper has them: of those that belong to a session, its own, and
 * those of the client refuse.
 */
function sameTools(
  { tools, clientTools }: DelegatingTurn,
  { own, mayUse }: { readonly own: readonly Tool[]; readonly mayUse: readonly string[] },
): readonly Tool[] {
  const theirs = clientTools.map((definition) => ({ definition, run: () => "" }));
  const all = [...tools, ...theirs].map((tool) => own.find((one) => nameOf(one) === nameOf(tool)) ?? tool);
  return restrictTools(all, mayUse);
}

function nameOf({ definition }: Tool): string {
  return definition.function.name;
}

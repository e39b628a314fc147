import { type LoopEvent, run, type RunOptions, systemClock, type TurnResult } from "@tare/loop";
import type { Message, Tool, ToolDefinition } from "@tare/messages";
import type { DeferredTools, PromptSession } from "@tare/planner";
import type { SessionEvent } from "../sessions/event_log.ts";
import { type CommitEvents, EventBatch } from "./event_batch.ts";
import type { TakenTools } from "./session_tools.ts";
import type { ToolOffer } from "./tool_offer.ts";

/** What a turn is played with. */
export interface RunTurnOptions extends Omit<RunOptions, "context" | "tools" | "unlisted"> {
  /** Gives the turn's tools. */
  readonly takeTools: (signal?: AbortSignal) => Promise<TakenTools>;
  /** Decides what the model sees. */
  readonly prompt: Pick<PromptSession, "view" | "sent"> & {
    /** Says how the turn offers its tools. */
    readonly offerTools: (tools: readonly Tool[], history: readonly Message[]) => ToolOffer;
    /** Whether all that a restart needs to know of it is stored. */
    readonly isStored: boolean;
  };
  /** Name of the model. */
  readonly modelName: string;
  /** A sentence with which the turn starts, as a warning. */
  readonly notice?: string | undefined;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Commits what has happened; with what is settled also what has changed of the prompt session's state. */
  readonly commit: CommitEvents;
}

/** A question, before it is put. */
export type AskedEvent = Extract<LoopEvent, { readonly type: "approval_asked" }>;

/** How a turn ended, and in which step. */
export interface PlayedTurn {
  readonly step: number;
  readonly result: TurnResult;
  /** What somebody has to be asked before the turn goes on: told with its end, so that no crash comes between. */
  readonly asked: readonly AskedEvent[];
  /** What has happened last and isn't committed: it is with the turn's end. */
  readonly last: readonly SessionEvent[];
}

/**
 * Plays a turn, and commits all that happens between its start and its end. Events are gathered: see
 * {@linkcode EventBatch}. The turn waits for the commit of
 *
 * - what a view archives, before its edits;
 * - edits and all before them, results of calls too, before the request that relies on them;
 * - a reply, before its calls run; of calls that only read, before the next view;
 * - what the user said in its middle, which ceases to wait then.
 *
 * @throws what `commit` throws, and bugs.
 */
export async function runTurn(
  { prompt, modelName, notice, now, commit, takeTools, clock = systemClock, ...options }: RunTurnOptions,
): Promise<PlayedTurn> {
  const { tools, warnings: missing } = await takeTools(options.signal);
  const { listed, unlisted, notice: told, deferred } = prompt.offerTools(tools, options.history);
  const news = told ? [told] : [];
  const failed = new AbortController();
  const batch = new EventBatch({ commit, clock, failed: () => failed.abort() });
  if (told) batch.add({ type: "message_added", message: told });
  // With it is stored what it tells, so that no crash tells it twice.
  if (told) await batch.settle();
  const warnings = notice === undefined ? missing : [notice, ...missing];
  let step = 1;
  let answeredAtMs = now();
  const asked: AskedEvent[] = [];
  let result: TurnResult | undefined;
  /** The reply whose calls run while it is being committed. */
  let reply: Promise<void> | undefined;
  // Leaving the loop over these events, by an error too, stops the turn.
  const played = (async function* () {
    result = yield* run({
      ...options,
      clock,
      signal: AbortSignal.any([...options.signal ? [options.signal] : [], failed.signal]),
      history: [...options.history, ...news],
      tools: listed,
      unlisted,
      async context({ messages, tools, turnStart, step, signal, progress }) {
        // What the view changes is to be stored with what tells of it, and not before.
        await reply;
        const out = deferred(messages);
        const call = {
          nowMs: now(),
          model: modelName,
          turnStart,
          step,
          signal,
          progress,
          ...(out && { deferred: out }),
        };
        const view = await prompt.view({ messages, tools }, call);
        // In one commit, so that no crash leaves a rewrite that nobody was told of.
        for (const rewrite of view.rewrites) batch.add({ type: "context_rewritten", step, ...rewrite });
        if (!prompt.isStored || step > 1 || options.answered?.length) await batch.settle();
        return {
          messages: view.messages,
          tools: view.tools,
          ...(view.stable && { stable: view.stable }),
          ...(view.summary && { usage: view.summary }),
          saved: { ...view.saved, ...(out && { deferred: keptOut(out, view.promptTokens) }) },
          warnings: step === 1 ? [...warnings, ...view.warnings] : view.warnings,
          succeeded(usage) {
            answeredAtMs = now();
            return prompt.sent(usage, view);
          },
        };
      },
    });
  })();
  const readers = [...listed, ...unlisted].filter(({ stance, resolve }) =>
    stance === "rederivable" && !resolve
  );
  const needed = replies({ clientTools: options.clientTools, readers });
  try {
    for await (const event of played) {
      if (event.type === "turn_start" || event.type === "turn_end") continue;
      if ("step" in event) step = event.step;
      if (event.type === "approval_asked") {
        asked.push(event);
        continue;
      }
      batch.add(event.type === "step_end" ? { ...event, atMs: answeredAtMs } : event);
      const need = event.type === "user_message" ? "now" : needed(event);
      if (need === "now") await batch.settle();
      // Nothing that a crash could make unsure is done by them.
      if (need === "soon") (reply = batch.settle()).catch(() => failed.abort());
    }
    if (!result) throw new Error("Cannot end the turn: the loop gave no result.");
    if (result.reason === "internal_error") {
      await batch.settle();
      throw result.error;
    }
    const last = batch.take();
    await batch.committed;
    return { step, result: { ...result, messages: [...news, ...result.messages] }, asked, last };
  } finally {
    batch.take();
  }
}

/**
 * Tells of each event whether a reply is complete with it that has calls which run now, and when it is to be stored: now,
 * or soon, if all of these are of tools that only read.
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
    if (!clients.has(event.name) && need !== "now") need = reading.has(event.name) ? "soon" : "now";
    return --expected === 0 ? need : undefined;
  };
}

/** Tokens that a request goes without because tools are deferred; one that wouldn't have been made costs all of its own. */
function keptOut({ tokens, isDetour }: DeferredTools, promptTokens: number): number {
  return isDetour ? -promptTokens : tokens;
}

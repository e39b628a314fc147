import { type LoopEvent, run, type RunOptions, type TurnResult } from "@tare/loop";
import type { Message, Tool } from "@tare/messages";
import type { DeferredTools, PromptSession } from "@tare/planner";
import type { SessionEvent } from "../sessions/event_log.ts";
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
  };
  /** Name of the model. */
  readonly modelName: string;
  /** A sentence with which the turn starts, as a warning. */
  readonly notice?: string | undefined;
  /** The time in milliseconds since the epoch. */
  readonly now: () => number;
  /** Commits what has happened, and with it what has changed of the prompt session's state. */
  readonly commit: (events: readonly SessionEvent[]) => Promise<void>;
}

/** A question, before it is put. */
export type AskedEvent = Extract<LoopEvent, { readonly type: "approval_asked" }>;

/** How a turn ended, and in which step. */
export interface PlayedTurn {
  readonly step: number;
  readonly result: TurnResult;
  /** What somebody has to be asked before the turn goes on: told with its end, so that no crash comes between. */
  readonly asked: readonly AskedEvent[];
}

/**
 * Plays a turn; all that happens after its start and before its end is committed before the loop goes on. What a view
 * archives is stored before its edits, and these before the request that relies on them.
 *
 * @throws what `commit` throws, and bugs.
 */
export async function runTurn(
  { prompt, modelName, notice, now, commit, takeTools, ...options }: RunTurnOptions,
): Promise<PlayedTurn> {
  const { tools, warnings: missing } = await takeTools(options.signal);
  const { listed, unlisted, notice: told, deferred } = prompt.offerTools(tools, options.history);
  const news = told ? [told] : [];
  // With it is stored what it tells, so that no crash tells it twice.
  if (told) await commit([{ type: "message_added", message: told }]);
  const warnings = notice === undefined ? missing : [notice, ...missing];
  let step = 1;
  let answeredAtMs = now();
  const asked: AskedEvent[] = [];
  let result: TurnResult | undefined;
  // Leaving the loop over these events, by an error too, stops the turn.
  const played = (async function* () {
    result = yield* run({
      ...options,
      history: [...options.history, ...news],
      tools: listed,
      unlisted,
      async context({ messages, tools, turnStart, step, signal, progress }) {
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
        await commit(view.rewrites.map((rewrite) => ({ type: "context_rewritten", step, ...rewrite })));
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
  for await (const event of played) {
    if (event.type === "turn_start" || event.type === "turn_end") continue;
    if ("step" in event) step = event.step;
    if (event.type === "approval_asked") {
      asked.push(event);
      continue;
    }
    await commit([event.type === "step_end" ? { ...event, atMs: answeredAtMs } : event]);
  }
  if (!result) throw new Error("Cannot end the turn: the loop gave no result.");
  if (result.reason === "internal_error") throw result.error;
  return { step, result: { ...result, messages: [...news, ...result.messages] }, asked };
}

/** Tokens that a request goes without because tools are deferred; one that wouldn't have been made costs all of its own. */
function keptOut({ tokens, isDetour }: DeferredTools, promptTokens: number): number {
  return isDetour ? -promptTokens : tokens;
}

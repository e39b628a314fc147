import type { Message } from "@tare/messages";
import type { ContextView } from "@tare/messages";
import type { LoopEvent } from "./event.ts";
import type { Settings } from "./run_options.ts";
import type { Watchdog } from "./watchdog.ts";

/** What a view is made of beside the settings. */
export interface MakeViewOptions {
  /** Messages of the turn so far. */
  readonly messages: readonly Message[];
  /** Number of the step. */
  readonly step: number;
  /** Watches over the hook. */
  readonly watchdog: Watchdog;
}

/** Asks the context hook what the next model call sends, and tells what the hook changed. */
export async function* makeView(
  { history, input, tools, context }: Settings,
  { messages, step, watchdog }: MakeViewOptions,
): AsyncGenerator<LoopEvent, ContextView> {
  const { signal, progress } = watchdog;
  const view = await watchdog.wait(() =>
    context({
      messages: [...history, ...messages],
      turnStart: activeTurnStart(history, input !== undefined),
      tools: Array.from(tools.values(), ({ tool }) => tool.definition),
      step,
      signal,
      progress,
    })
  );
  for (const rewrite of view.rewrites ?? []) yield { type: "context_rewritten", step, ...rewrite };
  for (const message of view.warnings ?? []) yield { type: "warning", message };
  return view;
}

/**
 * Several user messages in a row open one turn: an unanswered one at the end of the history belongs to a turn that
 * starts now. A turn that goes on started with the last user message.
 */
function activeTurnStart(history: readonly Message[], startsNow: boolean): number {
  let start = startsNow ? history.length : history.findLastIndex(({ role }) => role === "user") + 1;
  while (history[start - 1]?.role === "user") start--;
  return start;
}

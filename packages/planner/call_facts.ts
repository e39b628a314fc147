import type { ToolCall } from "@tare/messages";
import type { PruneOptions } from "@tare/prune";
import type { CallFacts, readCall } from "./tools_of_agents.ts";

/** What is known of a call before the table of tools is loaded, which is when the first call comes. */
const UNREAD: CallFacts = { reads: false, edits: false, files: [], texts: [], namesFile: false, numbers: [] };

let reader: typeof readCall | undefined;

/** Sets what reads calls, once it is loaded. */
export function readCallsBy(read: typeof readCall): void {
  reader = read;
}

/** Whether calls are read. What was judged before has to be judged again. */
export function readsCalls(): boolean {
  return reader !== undefined;
}

/** Returns what a call is about. */
export function factsOf(call: ToolCall, tools: PruneOptions["tools"]): CallFacts {
  return reader?.(call, tools) ?? UNREAD;
}

import type { CountTokens, ToolDefinition } from "@tare/messages";
import type { Profile } from "@tare/planner";
import { RECALL_TOOL } from "@tare/prune";
import { plannerPolicy, play, type Played, type Recording } from "@tare/simulator/economy";
import type { SimulatedCall } from "@tare/simulator";

export const WINDOW_TOKENS = 272_000;

/**
 * Returns a client's session as a recording for `bench savings`, from the requests that reached the provider
 * directly.
 */
export function recordingOf(requests: readonly SimulatedCall[]): Recording {
  const last = requests.at(-1);
  if (!last) throw new Error("no request reached the provider");
  return {
    id: "client",
    group: "client",
    tools: last.tools,
    messages: last.messages,
    calls: requests.map(({ messages, atMs }) => ({ messages: messages.length, timeMs: atMs })),
    times: [],
    usage: new Map(),
    compacted: [],
  };
}

export interface PredictedCall {
  readonly promptTokens: number;
  readonly cachedTokens: number;
}

/**
 * Returns the result of `bench savings` for a session under the default planner, by call, with the gateway's
 * tools.
 */
export async function predict(
  recording: Recording,
  { profile, countTokens }: { readonly profile: Profile; readonly countTokens: CountTokens },
): Promise<Played & { readonly each: readonly PredictedCall[] }> {
  const tools: readonly ToolDefinition[] = [...recording.tools, RECALL_TOOL];
  const asSent: Recording = { ...recording, tools };
  const each: PredictedCall[] = [];
  const totals = await play(asSent, (options) => {
    const policy = plannerPolicy(options);
    return {
      view: policy.view,
      sent(usage) {
        each.push({ promptTokens: usage.promptTokens, cachedTokens: usage.cachedTokens });
        policy.sent?.(usage);
      },
    };
  }, { profile, windowTokens: WINDOW_TOKENS, countTokens, recall: true, refetches: false, bare: true });
  return { ...totals, each };
}

import { assert } from "@std/assert";
import { contentText, estimateTokens, type Message } from "@tare/messages";
import { type History, plannerSession, type Profile, type SessionView } from "@tare/planner";
import { PrefixCache } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";

export async function play(
  histories: readonly (readonly Message[])[],
  { profile, windowTokens, idleMs, check }: {
    readonly profile: Profile;
    readonly windowTokens: number;
    readonly idleMs: (call: number) => number;
    readonly check: (history: History, view: SessionView) => void;
  },
): Promise<void> {
  const archive = memoryArchive();
  const options = { profile, windowTokens, countTokens: estimateTokens, archive };
  const session = plannerSession({ ...options, advanced: { retention: { stepTailTokens: 300 } } });
  const cache = new PrefixCache(profile);
  let nowMs = 0;
  for (const [call, messages] of histories.entries()) {
    nowMs += idleMs(call);
    const history = { messages, tools: [] };
    const view = await session.view(history, { nowMs, recall: true });
    check(history, view);
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    session.sent({ promptTokens: view.promptTokens, cachedTokens, outputTokens: 1 });
  }
}

/**
 * Returns the messages of a history that must stay unchanged: user texts; the last answer of each complete
 * turn; elsewhere everything but the text of results. Independent of the planner on purpose.
 */
function mustBeVisible(messages: readonly Message[]): readonly Message[] {
  const groups: Message[][] = [[]];
  let answered = false;
  for (const message of messages) {
    if (message.role === "user" && answered) groups.push([]);
    groups.at(-1)?.push(message);
    if (message.role === "system" || message.role === "developer") continue;
    answered = message.role === "assistant" && !message.tool_calls?.length &&
      contentText(message.content) !== "";
  }
  return groups.flatMap((group, at) =>
    group.filter((message) =>
      message.role !== "tool" &&
      (at >= groups.length - 2 || message.role !== "assistant" || !message.tool_calls?.length)
    )
  );
}

/** Checks that a view contains everything that must be visible (invariant 8). */
export function checkAllIsVisible({ messages }: History, view: SessionView): void {
  const visible = new Set(view.messages);
  for (const message of mustBeVisible(messages)) {
    assert(visible.has(message), JSON.stringify(message).slice(0, 200));
  }
  // Each result of a remaining step is there, if only as a line.
  const places = new Set(view.places);
  for (const [at, message] of messages.entries()) {
    if (message.role === "tool" && places.has(at - 1)) assert(places.has(at), `result ${at} is gone`);
  }
}

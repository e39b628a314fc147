import { assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { type PlannerSession, plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

const DAY_MS = 24 * 60 * 60_000;
const QUESTION: Message = { role: "user", content: "And now?" };
const ANSWER: Message = { role: "assistant", content: "ok" };

/** A turn that reads so much that it pays at once to let it leave. */
function turn(id: string): Message[] {
  return [
    { role: "user", content: `Read ${id}.` },
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: id, content: `${id} word `.repeat(16_000) },
    ANSWER,
  ];
}

const history = [...["a", "b", "c"].flatMap(turn), QUESTION, ANSWER, QUESTION];

/** How often the prompt was rewritten for a call. */
async function rewrites(
  session: PlannerSession,
  messages: readonly Message[],
  nowMs: number,
): Promise<number> {
  const view = await session.view({ messages, tools: [] }, { nowMs, recall: true });
  const { promptTokens, predictedCachedTokens: cachedTokens } = view;
  session.sent({ promptTokens, cachedTokens, outputTokens: 1 }, view);
  return view.rewrites.length;
}

Deno.test("PlannerSession.fork() begins its first request as its parent's last, unless the cache is gone", async () => {
  const archive = memoryArchive();
  const profile = profileNamed("anthropic-5m");
  const session = plannerSession({ profile, windowTokens: 1_000_000, archive, countTokens: estimateTokens });
  assertEquals(await rewrites(session, history, 0), 0);
  const [fork, late] = [session.fork(history.length, archive), session.fork(history.length, archive)];
  const next = [...history, ANSWER, QUESTION];
  assertEquals(await rewrites(fork, next, 1_000), 0);
  assertEquals(await rewrites(fork, [...next, ANSWER, QUESTION], 2_000), 1);
  assertEquals(await rewrites(late, next, DAY_MS), 1);
  assertEquals(await rewrites(session, next, 1_000), 1);
});

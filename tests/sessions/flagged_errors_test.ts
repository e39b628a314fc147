import { assertEquals } from "@std/assert";
import { contentText, type Message } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { profileNamed } from "@tare/planner";
import { loadData } from "../../scripts/savings/load_data.ts";
import { plannerPolicy, play } from "@tare/simulator/economy";
import { RECORDED } from "../recorded_sessions.ts";
import { needs, RECORDINGS } from "../needs.ts";

/** Returns the start of the turn before the current one; from there on no step is evicted. */
function lastTurnButOne(messages: readonly Message[]): number {
  const starts = messages.flatMap(({ role }, at) => {
    const before = messages[at - 1];
    const isAnswer = before?.role === "assistant" && (before.tool_calls ?? []).length === 0;
    return role === "user" && isAnswer ? [at] : [];
  });
  return starts.at(-2) ?? 0;
}

Deno.test({
  ...needs(
    RECORDINGS,
    "flagged errors: the planner retains those of recorded Claude Code sessions in ../shared/trajectories until their turns are over",
  ),
  async fn() {
    const { count: countTokens } = await loadTokenizer();
    const data = loadData(RECORDED!, { warn() {} }).find(({ name }) => name === "claude-code-entire");
    const totals = { flagged: 0, elided: 0, gone: 0, others: 0 };
    for (const recording of data!.recordings) {
      totals.flagged += recording.messages.filter((message) =>
        message.role === "tool" && message.failed
      ).length;
      const left = { elided: new Set<string>(), gone: new Set<string>(), others: new Set<string>() };
      await play(recording, (options) => {
        const policy = plannerPolicy(options);
        return {
          ...policy,
          async view(call) {
            const view = await policy.view(call);
            const visible = new Map(
              view.messages.flatMap((message) =>
                message.role === "tool" ? [[message.tool_call_id, contentText(message.content)]] : []
              ),
            );
            const from = lastTurnButOne(call.messages);
            for (const [at, message] of call.messages.entries()) {
              if (message.role !== "tool") continue;
              const { tool_call_id: id, failed = false, content } = message;
              const text = visible.get(id);
              if (text === contentText(content)) continue;
              if (!failed) left.others.add(id);
              else if (text !== undefined) left.elided.add(id);
              else if (at >= from) left.gone.add(id);
            }
            return view;
          },
        };
      }, {
        profile: profileNamed("anthropic-5m"),
        windowTokens: Infinity,
        countTokens,
        recall: true,
        refetches: false,
      });
      totals.elided += left.elided.size;
      totals.gone += left.gone.size;
      totals.others += left.others.size;
    }
    const { others, ...flagged } = totals;
    assertEquals(flagged, { flagged: 45, elided: 0, gone: 0 });
    // Much unflagged content is evicted.
    assertEquals(others > 500, true, `${others} others left`);
  },
});

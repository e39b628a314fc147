import { PROFILES } from "@tare/planner/internal";
import { checkAllIsVisible, play } from "./played_session.ts";
import { recordedSessions } from "./recorded_sessions.ts";
import { needs, RECORDINGS } from "./needs.ts";

Deno.test({
  ...needs(RECORDINGS, "invariant 8: recorded sessions in ../shared/trajectories meet it"),
  async fn() {
    for (const { messages, calls } of recordedSessions({ limit: 6 })) {
      const histories = calls.map((call) => messages.slice(0, call.messages));
      const times = calls.map(({ timeMs }, at) => timeMs - (calls[at - 1]?.timeMs ?? timeMs));
      for (const name of ["anthropic-5m", "deepseek", "none"]) {
        await play(histories, {
          profile: PROFILES[name]!,
          windowTokens: 1_000_000,
          idleMs: (call) => times[call] ?? 0,
          check: checkAllIsVisible,
        });
      }
    }
  },
});

import { assertAlmostEquals, assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { type LoggedHistory, readLogs, readWhole } from "../../packages/cli/history/read_logs.ts";
import { recordingOf } from "../../packages/cli/history/replay_history.ts";
import { CLAUDE_CODE } from "./drivers/claude_code.ts";
import { CLINE } from "./drivers/cline.ts";
import { CODEX } from "./drivers/codex.ts";
import { copilot } from "./drivers/copilot.ts";
import { OPENCODE } from "./drivers/opencode.ts";
import { PI } from "./drivers/pi.ts";
import { QWEN_CODE } from "./drivers/qwen_code.ts";
import { play, type Played } from "./play.ts";
import { SCENARIOS, STANDARD } from "./scenarios.ts";

/** Plays a scenario; returns the content of the agent's own logs, and the provider's calls. */
async function playAndRead(
  agent: typeof PI,
  name: string,
  look: (history: LoggedHistory) => void,
): Promise<Played["calls"]> {
  const scenario = SCENARIOS.find((scenario) => scenario.name === name)!;
  const { calls } = await play(agent, scenario, {
    through: false,
    inspect(home) {
      const history = readLogs({ places: { home, env: () => undefined } });
      assertEquals([history.unknownLines.size, history.unreadable], [0, []]);
      look(history);
    },
  });
  return calls;
}

const LOGGING = [PI, OPENCODE, CODEX, CLAUDE_CODE, QWEN_CODE, copilot("chat"), copilot("messages"), CLINE];

for (const agent of LOGGING) {
  Deno.test(`agent logs: ${agent.name}'s own log contains the usage of its calls`, async () => {
    let [prompt, cached] = [0, 0];
    const scenario = agent.lacks.resume === undefined ? "a second prompt in a new process" : STANDARD.name;
    const calls = await playAndRead(agent, scenario, ({ all, sessions }) => {
      [prompt, cached] = [all.promptTokens, all.cachedTokens];
      assertEquals(sessions.length, 1);
    });
    const sum = (of: "prompt" | "cached") => calls.reduce((all, { usage }) => all + usage[of], 0);
    // Not every log contains title calls.
    assertAlmostEquals(prompt, sum("prompt"), 0.01 * sum("prompt"));
    assertAlmostEquals(cached, sum("cached"), 0.01 * sum("prompt"));
  });

  const ignore = agent.lacks.compact !== undefined;
  Deno.test(
    `agent logs: ${agent.name}'s own log can be played and contains its compactions`,
    // deno-lint-ignore tare/stated-needs -- Agents that can't compact aren't asked to.
    { ignore },
    async () => {
      await playAndRead(agent, "compacted by command", ({ sessions: [session] }) => {
        const recording = recordingOf(session!.agent, readWhole(session!)!, estimateTokens)!;
        assertEquals([recording.compacted.length, recording.calls.length], [1, 41]);
      });
    },
  );
}

import { assert } from "@std/assert";
import { cpuUsage } from "node:process";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

const TURN: readonly Message[] = [
  { role: "user", content: "Why is the build red, and since when? ".repeat(10) },
  { role: "assistant", content: "A test waits for a port that another one holds.\n".repeat(10) },
];

/** Returns the least of three CPU times of a full window with this many turns, in milliseconds. */
async function planMs(turns: number): Promise<number> {
  const messages = Array.from(
    { length: turns },
    (_, turn) => TURN.map((call) => ({ ...call, name: `${turn}` })),
  )
    .flat().concat({ role: "user", content: "Go on.", name: "user" });
  let least = Infinity;
  for (let times = 0; times < 3; times++) {
    const session = plannerSession({
      profile: profileNamed("openai"),
      archive: memoryArchive(),
      countTokens: estimateTokens,
      windowTokens: 50 * turns,
      summarize: () => Promise.reject(new Error("unavailable")),
    });
    const before = cpuUsage();
    const { rewrites } = await session.view({ messages, tools: [] }, { nowMs: 0 });
    const { user, system } = cpuUsage(before);
    least = Math.min(least, (user + system) / 1000);
    assert(rewrites.length > 0);
  }
  return least;
}

Deno.test("long history: a full window takes time in proportion to its turns, also for thousands of them", async () => {
  await planMs(500);
  const [few, many] = [await planMs(500), await planMs(8_000)];
  // Sixteen times as many turns: quadratic work would take 256 times as long.
  assert(many < 64 * few, `${few} ms, then ${many} ms`);
});

import { assertGreater, assertLess } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";

const WINDOW_TOKENS = 128_000;

function file(number: number, tokens: number): string {
  const lines: string[] = [];
  for (let at = 0; 10 * lines.length < tokens; at++) {
    lines.push(`export const value${number}_${at} = ${(number * 7_919 + at * 104_729) % 99_991};`);
  }
  return lines.join("\n");
}

/** Returns the cost and the longest prompt of a task that reads files, some of them named. */
async function play(
  files: number,
  named: number,
  wrap: (names: string) => string = (names) => `Review ${names || "all of src"}.`,
): Promise<{ readonly cost: number; readonly longest: number }> {
  const profile = profileNamed("openai");
  const session = plannerSession({
    profile,
    archive: memoryArchive(),
    countTokens: estimateTokens,
    windowTokens: WINDOW_TOKENS,
  });
  const cache = new PrefixCache(profile);
  const names = Array.from({ length: named }, (_, at) => `src/module_number_${at}.ts`);
  let messages: Message[] = [{ role: "user", content: wrap(names.join(", ")) }];
  let [cost, longest] = [0, 0];
  for (let at = 0; at <= files; at++) {
    const nowMs = at * 20_000;
    const view = await session.view({ messages, tools: [] }, { nowMs, recall: true });
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const usage = {
      promptTokens: view.promptTokens,
      cachedTokens: cache.lookup(units, nowMs),
      outputTokens: 20,
    };
    cache.store(units, nowMs);
    session.sent(usage);
    cost += promptCost(profile, usage);
    longest = Math.max(longest, view.promptTokens);
    const call = {
      id: `${at}`,
      type: "function",
      function: { name: "read_file", arguments: `{"path":"src/module_number_${at}.ts"}` },
    } as const;
    messages = [
      ...messages,
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: call.id, content: file(at, 6_000) },
    ];
  }
  return { cost, longest };
}

for (const [files, named, most] of [[41, 8, 1.3], [41, 20, 1.05], [60, 60, 1.05]] as const) {
  Deno.test(`retention: a task of ${files} files costs at most ${most} times as much if the user names ${named}, within the window`, async () => {
    const [plain, requested] = [await play(files, 0), await play(files, named)];
    assertLess(requested.cost, most * plain.cost);
    assertLess(requested.longest, WINDOW_TOKENS);
  });
}

Deno.test("plannerSession() ignores file names that an agent adds to the user's words", async () => {
  const listed = await play(
    41,
    8,
    (names) => `<system-reminder>\n${names}\n</system-reminder>\nReview all of src.`,
  );
  const [none, named] = [await play(41, 0), await play(41, 8)];
  assertLess(listed.cost, 1.01 * none.cost);
  assertLess(listed.longest - none.longest, 200);
  assertGreater(named.longest - listed.longest, 3_000);
});

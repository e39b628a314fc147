import { assertEquals, assertLess } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";

const STEPS = 50;

/** Returns the cost of reading fifty files, and the calls before which the prompt was rewritten. */
async function read(header: (file: string) => string) {
  const profile = profileNamed("openai");
  const options = { archive: memoryArchive(), countTokens: estimateTokens, windowTokens: 400_000 };
  const session = plannerSession({ profile, ...options });
  const cache = new PrefixCache(profile);
  const messages: Message[] = [{ role: "user", content: `Read all parts. ${"Take care. ".repeat(1_000)}` }];
  const rewritten: number[] = [];
  let cost = 0;
  for (let step = 0; step < STEPS; step++) {
    const nowMs = step * 5_000;
    const view = await session.view({ messages: [...messages], tools: [] }, { nowMs, recall: true });
    const units = PrefixCache.unitsOf(view, estimateTokens);
    const promptTokens = units.reduce((sum, { tokens }) => sum + tokens, 0);
    const usage = { promptTokens, cachedTokens: cache.lookup(units, nowMs), outputTokens: 30 };
    cache.store(units, nowMs);
    session.sent(usage, view);
    cost += promptCost(profile, usage);
    if (view.rewrites.length > 0) rewritten.push(step);
    const file = `part${step}.txt`;
    const id = `call_${step}`;
    const args = JSON.stringify({ command: `cat ${file}` });
    const lines = Array.from(
      { length: 220 },
      (_, at) => `${at}: word ${(at * 7_919 + step) % 10_007} of a part`,
    );
    messages.push(
      {
        role: "assistant",
        tool_calls: [{ id, type: "function", function: { name: "shell", arguments: args } }],
      },
      { role: "tool", tool_call_id: id, content: header(file) + lines.join("\n") },
    );
  }
  return { cost, rewritten };
}

Deno.test("plannerSession() carries a result no longer because it repeats its call", async () => {
  const plain = await read(() => "");
  const repeating = await read((file) => `Command: cat ${file}\nDirectory: (root)\nOutput: `);
  assertEquals(
    repeating.rewritten.length,
    plain.rewritten.length,
    `${repeating.rewritten}, ${plain.rewritten}`,
  );
  assertLess(repeating.cost, 1.03 * plain.cost);
});

import { assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { Planner, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { predictCached } from "./predict_cached.ts";

Deno.test("predictCached() expects what the last request of the model shares, in whole blocks", async () => {
  const planner = new Planner({
    profile: profileNamed("openai"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
  });
  const messages: Message[] = [{ role: "user", content: "a".repeat(8_000) }];
  const first = await planner.plan({ messages, tools: [], edits: [], nowMs: 0, model: "m" });
  assertEquals(predictCached(planner, first, estimateTokens), 0);
  planner.sent(first);
  const more: Message[] = [...messages, { role: "assistant", content: "b" }];
  const second = await planner.plan({ messages: more, tools: [], edits: [], nowMs: 1, model: "m" });
  const shared = Math.floor(first.promptTokens / 128) * 128;
  assertEquals(predictCached(planner, second, estimateTokens), shared);
  const other = await planner.plan({ messages: more, tools: [], edits: [], nowMs: 1, model: "n" });
  assertEquals(predictCached(planner, other, estimateTokens), 0);
});

import { assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { POLICIES } from "@tare/server";
import { makeContext } from "./make_context.ts";

Deno.test("makeContext() makes a context for each policy, and the planner's keeps a ledger", async () => {
  const ledgers: [string, boolean][] = [];
  for (const policy of POLICIES) {
    const context = makeContext({
      policy,
      model: "m",
      mechanisms: { context: true, prune: true, schemas: true, bound: true },
      profile: profileNamed("none"),
      windowTokens: 1_000,
      tools: [],
      archive: memoryArchive(),
      countTokens: estimateTokens,
      now: () => 0,
    });
    const { signal } = new AbortController();
    const request = {
      messages: [{ role: "user", content: "Hi." }],
      tools: [],
      turnStart: 0,
      step: 1,
    } as const;
    const view = await context.view({ ...request, signal, progress() {} });
    const ledger = view.succeeded?.({ promptTokens: 10, cachedTokens: 0, outputTokens: 1 });
    ledgers.push([policy, ledger !== undefined]);
  }
  assertEquals(ledgers, [["planner", true], ["classic", false]]);
});

import { assertEquals } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { POLICIES } from "@tare/server";
import { makeContext } from "./make_context.ts";

Deno.test("makeContext() makes the context of each policy, the planner's first", async () => {
  assertEquals(POLICIES, ["planner", "classic"]);
  for (const policy of POLICIES) {
    const context = makeContext({
      policy,
      model: "m",
      mechanisms: { context: true, prune: true, schemas: true, bound: true },
      profile: profileNamed("none"),
      windowTokens: 1000,
      tools: [],
      archive: memoryArchive(),
      countTokens: estimateTokens,
    });
    const messages = [{ role: "user", content: "q" } as const];
    const { signal } = new AbortController();
    const view = await context.view({ messages, tools: [], turnStart: 0, step: 1, signal, progress() {} });
    assertEquals([view.messages, "stopSaid" in (context.state as object)], [messages, policy === "planner"]);
  }
});

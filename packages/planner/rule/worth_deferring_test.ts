import { assertEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, PROFILES, worthDeferring } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

/** Tools of 200 tokens each, of which a line takes 16. */
const tools = (count: number) => ({ count, fullTokens: 200 * count, shortTokens: 250 + 16 * count });

Deno.test("worthDeferring() keeps few tools in full and defers many, whatever the provider", () => {
  for (const profile of Object.values(PROFILES)) {
    const deferred = [1, 5, 10, 25, 50, 117].map((count) => worthDeferring(tools(count), { profile }));
    assertEquals(deferred, [false, false, false, true, true, true], profile.name);
  }
});

Deno.test("worthDeferring() defers the fewer, the less looking up costs", () => {
  const fewest = (name: string) => {
    let count = 1;
    while (!worthDeferring(tools(count), { profile: PROFILES[name]! })) count++;
    return count;
  };
  assertEquals(
    ["local", "deepseek", "anthropic-1h", "anthropic-5m", "openai", "none"].map(fewest),
    [12, 14, 16, 16, 16, 18],
  );
});

Deno.test("worthDeferring() lets no definitions take over a tenth of the window, unless nothing is won", () => {
  const { openai: profile } = PROFILES;
  const at = (windowTokens: number) => worthDeferring(tools(10), { profile: profile!, windowTokens });
  assertEquals([at(20_000), at(19_999)], [false, true]);
  const useless = { count: 1, fullTokens: 200, shortTokens: 266 };
  assertEquals(worthDeferring(useless, { profile: profile!, windowTokens: 100 }), false);
});

Deno.test("sent() reckons what deferred tools would have taken, and calls that only looked for them as not made", async () => {
  const session = plannerSession({
    profile: PROFILES.openai!,
    archive: memoryArchive(),
    countTokens: estimateTokens,
  });
  const messages: Message[] = [];
  const resent: unknown[] = [];
  for (const deferred of [{ tokens: 5_000, isDetour: false }, { tokens: 4_000, isDetour: true }, undefined]) {
    messages.push({ role: "user", content: "x".repeat(4 * 96) });
    const call = { nowMs: 0, ...(deferred && { deferred }) };
    const { promptTokens } = await session.view({ messages, tools: [] }, call);
    const { resend, savedTokenUnits } = session.sent({ promptTokens, cachedTokens: 0, outputTokens: 1 })!;
    resent.push([resend, savedTokenUnits]);
  }
  assertEquals(resent, [
    [{ promptTokens: 5_100, cachedTokens: 0 }, 5_000],
    [{ promptTokens: 0, cachedTokens: 0 }, 4_800],
    [{ promptTokens: 300, cachedTokens: 0 }, 4_800],
  ]);
});

import { assertEquals, assertLess } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { callToStore, reportCall, storedCall } from "@tare/session/internal/report";

Deno.test("storedCall() is the inverse of callToStore(), which is shorter", () => {
  const usage = { promptTokens: 1_000, cachedTokens: 800, outputTokens: 20 };
  const call = { number: 3, at: "2026-11-28T20:37:20.994Z", turn: null, purpose: "turn" };
  const profile = profileNamed("openai");
  const price = { input: 1.25, cachedInput: 0.125, output: 10 };
  const priced = reportCall(usage, { ...call, rates: { profile, price } });
  const unpriced = reportCall({ ...usage, estimated: true }, {
    ...call,
    afterQuestion: true,
    rates: { profile, price: undefined },
  });
  for (const call of [priced, unpriced]) {
    const { number, ...others } = call;
    const stored = JSON.stringify(callToStore(others));
    assertEquals(storedCall(JSON.parse(stored), number), call);
    assertLess(stored.length, 0.7 * JSON.stringify(others).length);
  }
});

import { assertEquals } from "@std/assert";
import { explainUncached } from "./explain_uncached.ts";

const story = {
  uncachedTokens: 1_000,
  change: "none",
  brokenTokens: 0,
  missingTokens: 0,
  late: false,
} as const;

Deno.test("explainUncached() blames each uncached token on one cause", () => {
  assertEquals(explainUncached({ ...story, change: "first_call" }), [{ cause: "first_call", tokens: 1_000 }]);
  assertEquals(explainUncached({ ...story, change: "model_changed", brokenTokens: 500 }), [
    { cause: "model_changed", tokens: 1_000 },
  ]);
  assertEquals(explainUncached(story), [{ cause: "new", tokens: 1_000 }]);
  assertEquals(explainUncached({ ...story, brokenTokens: 600 }), [
    { cause: "own_rewrite", tokens: 600 },
    { cause: "new", tokens: 400 },
  ]);
  assertEquals(explainUncached({ ...story, change: "tools_changed", brokenTokens: 2_000 }), [
    { cause: "tools_changed", tokens: 1_000 },
  ]);
  assertEquals(explainUncached({ ...story, missingTokens: 900, brokenTokens: 50, late: true }), [
    { cause: "expired", tokens: 900 },
    { cause: "own_rewrite", tokens: 50 },
    { cause: "new", tokens: 50 },
  ]);
  assertEquals(explainUncached({ ...story, missingTokens: 300, uncachedTokens: 200 }), [
    { cause: "provider_lost", tokens: 200 },
  ]);
});

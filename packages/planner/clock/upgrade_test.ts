import { assertEquals } from "@std/assert";
import { mayUpgrade, observeUpgrade, UNTRIED, type UpgradeOutcome } from "./upgrade.ts";

const after = (...evidence: readonly `${"bill" | "return"} ${"good" | "bad"}`[]) =>
  evidence.reduce((trial, one) => {
    const [of, word] = one.split(" ") as [UpgradeOutcome["of"], string];
    return observeUpgrade(trial, { of, isGood: word === "good" });
  }, UNTRIED);

Deno.test("mayUpgrade() starts with a probe of 20,000 tokens, and follows its evidence", () => {
  const verdicts = (trial = UNTRIED) => [19_999, 20_000].map((tokens) => mayUpgrade(trial, tokens));
  assertEquals(verdicts(), [false, true]);
  assertEquals(verdicts(after("bill bad")), [false, false]);
  assertEquals(verdicts(after("bill good")), [true, true]);
  assertEquals(verdicts(after("bill good", "return bad")), [true, true]);
  assertEquals(verdicts(after("bill good", "return bad", "return good", "return bad")), [false, false]);
  // A provider that stopped granting it isn't tried again, whatever a later bill contains.
  assertEquals(verdicts(after("bill good", "return good", "bill bad", "bill good")), [false, false]);
});

Deno.test("observeUpgrade() counts only the first three returns", () => {
  const proven = after("bill good", "return good", "return bad", "return good");
  assertEquals(proven, { isBilled: true, returns: 3, misses: 1 });
  assertEquals(observeUpgrade(proven, { of: "return", isGood: false }), proven);
});

import { assert, assertEquals, assertRejects } from "@std/assert";
import type { TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";
import { TurnAccount } from "./subagents.ts";

const MOST: TurnLedger = { ...EMPTY_LEDGER, calls: 1, outputTokens: 100 };

Deno.test("TurnAccount.reserve() lets parallel subagents exceed a budget by at most one call's maximum", async () => {
  for (const [limit, output] of [[50, 100], [250, 100], [250, 10]] as const) {
    const account = new TurnAccount();
    const overBudget = ({ outputTokens }: TurnLedger) =>
      outputTokens >= limit ? `${limit} are used` : undefined;
    const { signal } = new AbortController();
    let underWay = 0;
    let mostUnderWay = 0;
    const outcomes = await Promise.allSettled(Array.from({ length: 16 }, async (_, subagent) => {
      const giveBack = await account.reserve(MOST, { overBudget, signal });
      mostUnderWay = Math.max(mostUnderWay, ++underWay);
      await new Promise((resolve) => setTimeout(resolve));
      underWay--;
      account.note(`${subagent}`, addLedgers(EMPTY_LEDGER, { ...MOST, outputTokens: output }));
      giveBack();
    }));
    const refused = outcomes.filter(({ status }) => status === "rejected").length;
    const { outputTokens } = account.sum;
    assert(outputTokens < limit + 100, `${outputTokens} of ${limit}`);
    assertEquals(mostUnderWay, Math.ceil(limit / 100));
    assertEquals(outputTokens, (16 - refused) * output);
    assertEquals(refused === 0, 16 * output < limit);
  }
});

Deno.test("TurnAccount.reserve() stops waiting when its turn is cancelled", async () => {
  const account = new TurnAccount();
  const overBudget = ({ calls }: TurnLedger) => calls >= 1 ? "used" : undefined;
  const turn = new AbortController();
  const giveBack = await account.reserve(MOST, { overBudget, signal: turn.signal });
  const waiting = assertRejects(
    () => account.reserve(MOST, { overBudget, signal: turn.signal }),
    Error,
    "cancelled",
  );
  turn.abort(new Error("cancelled"));
  await waiting;
  giveBack();
});

import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop";
import { profileNamed } from "@tare/planner";
import { overBudget } from "./over_budget.ts";

const profile = profileNamed("deepseek");
const ledger = { ...EMPTY_LEDGER, calls: 2, promptTokens: 1000, cachedTokens: 800, outputTokens: 50 };

Deno.test("overBudget() names the budget that is used up, the turn's before the session's", () => {
  const spent = (turn: object, session: object = {}) =>
    overBudget({ turn, session, before: ledger, profile })(ledger);
  assertEquals([spent({}), spent({ max_steps: 3, max_tokens: 1051, max_cost: 221 })], [undefined, undefined]);
  assertEquals(
    spent({ max_steps: 2 }),
    "The turn has used up its budget: max_steps is 2, and it has used 2.",
  );
  assertEquals(
    spent({ max_tokens: 1050 }),
    "The turn has used up its budget: max_tokens is 1050, and it has used 1050.",
  );
  assertEquals(
    spent({ max_cost: 220 }),
    "The turn has used up its budget: max_cost is 220, and it has used 220.",
  );
  assertEquals(
    spent({ max_steps: 3 }, { max_steps: 4 }),
    "The session has used up its budget: max_steps is 4, and it has used 4.",
  );
});

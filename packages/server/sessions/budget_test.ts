import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop";
import { profileNamed } from "@tare/planner";
import { overBudget } from "./budget.ts";

const profile = profileNamed("deepseek");
const ledger = { ...EMPTY_LEDGER, calls: 2, promptTokens: 1000, cachedTokens: 800, outputTokens: 50 };

Deno.test("overBudget() names the budget that is used up, the turn's before the session's", () => {
  const spent = (turn: object, session: object = {}) =>
    overBudget({ turn, session, before: ledger, profile })(ledger);
  assertEquals([spent({}), spent({ maxSteps: 3, maxTokens: 1051, maxCost: 221 })], [undefined, undefined]);
  assertEquals(
    spent({ maxSteps: 2 }),
    "The turn has used up its budget: maxSteps is 2, and it has used 2.",
  );
  assertEquals(
    spent({ maxTokens: 1050 }),
    "The turn has used up its budget: maxTokens is 1050, and it has used 1050.",
  );
  assertEquals(
    spent({ maxCost: 220 }),
    "The turn has used up its budget: maxCost is 220, and it has used 220.",
  );
  assertEquals(
    spent({ maxSteps: 3 }, { maxSteps: 4 }),
    "The session has used up its budget: maxSteps is 4, and it has used 4.",
  );
});

import { assertEquals, assertThrows } from "@std/assert";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { profileNamed } from "@tare/planner";
import { HttpError } from "../http/http_error.ts";
import { overBudget } from "./play_turn.ts";

const rates = { profile: profileNamed("deepseek"), price: { input: 1000, output: 5000 } };
const model = "m";
const ledger = {
  ...EMPTY_LEDGER,
  ...{ calls: 2, promptTokens: 1000, cachedTokens: 800, outputTokens: 50, costUnits: 220, usd: 0.25 },
};

Deno.test("overBudget() returns the exhausted budget, the turn's before the session's", () => {
  const spent = (turn: object, session: object = {}) =>
    overBudget({ turn, session }, { before: ledger, rates, model })(ledger);
  const room = { maxSteps: 3, maxTokens: 1051, maxUsd: 0.251, maxCostUnits: 221 };
  assertEquals([spent({}), spent(room)], [undefined, undefined]);
  const used = (what: string, name: string, limit: number, spent = limit) =>
    `The ${what}'s budget is exhausted: ${name} is ${limit}, used: ${spent}.`;
  assertEquals(spent({ maxSteps: 2 }), used("turn", "maxSteps", 2));
  assertEquals(spent({ maxTokens: 1050 }), used("turn", "maxTokens", 1050));
  assertEquals(spent({ maxUsd: 0.2 }), used("turn", "maxUsd", 0.2, 0.25));
  assertEquals(spent({ maxCostUnits: 220 }), used("turn", "maxCostUnits", 220));
  assertEquals(spent({ maxSteps: 3 }, { maxSteps: 4 }), used("session", "maxSteps", 4));
  assertEquals(spent({}, { maxUsd: 0.5 }), used("session", "maxUsd", 0.5));
});

Deno.test("overBudget() calculates the cost from tokens if turns don't contain it", () => {
  const { costUnits: _units, usd: _usd, ...tokens } = ledger;
  const spent = (session: object) => overBudget({ session }, { before: tokens, rates, model })(ledger);
  const used = "The session's budget is exhausted: ";
  assertEquals(spent({ maxUsd: 2 }), `${used}maxUsd is 2, used: 2.5.`);
  assertEquals(spent({ maxCostUnits: 440 }), `${used}maxCostUnits is 440, used: 440.`);
});

Deno.test("overBudget() refuses dollars if the model's price is unknown, and reports what to do", () => {
  const unknown = { before: EMPTY_LEDGER, rates: { profile: rates.profile }, model: "qwen" };
  for (const budgets of [{ turn: { maxUsd: 1 } }, { session: { maxUsd: 1 } }]) {
    assertThrows(
      () => overBudget(budgets, unknown),
      HttpError,
      'Cannot enforce the budget maxUsd: the price of model "qwen" is unknown. Start the server with TARE_PRICE=input=3,output=15 ',
    );
  }
  assertEquals(overBudget({ turn: { maxCostUnits: 1 } }, unknown)(EMPTY_LEDGER), undefined);
});

import { assertEquals } from "@std/assert";
import type { TurnLedger } from "@tare/loop";
import { addLedgers, EMPTY_LEDGER } from "@tare/loop/internal";

const ledger: TurnLedger = {
  calls: 1,
  promptTokens: 10,
  cachedTokens: 5,
  outputTokens: 2,
  saved: { prune: 3 },
  estimated: false,
};

Deno.test("addLedgers() adds every metric, and each mechanism separately", () => {
  assertEquals(addLedgers(ledger, { ...ledger, saved: { prune: 1, schemas: 2 }, estimated: true }), {
    calls: 2,
    promptTokens: 20,
    cachedTokens: 10,
    outputTokens: 4,
    saved: { prune: 4, schemas: 2 },
    estimated: true,
  });
});

Deno.test("addLedgers() changes nothing with the empty ledger", () => {
  assertEquals(addLedgers(EMPTY_LEDGER, ledger), ledger);
  assertEquals(addLedgers(ledger, EMPTY_LEDGER), ledger);
});

import { assertEquals } from "@std/assert";
import { ModelError } from "@tare/loop";

Deno.test("ModelError carries its code, and wait and cause where there are any", () => {
  const plain = new ModelError("bad_key", "No.");
  assertEquals([plain.name, plain.code, plain.message], ["ModelError", "bad_key", "No."]);
  assertEquals(["cause" in plain, plain.retryAfterMs], [false, undefined]);
  const full = new ModelError("rate_limited", "Wait.", { retryAfterMs: 0, cause: "x" });
  assertEquals([full.retryAfterMs, full.cause], [0, "x"]);
});

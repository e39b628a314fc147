import { assertEquals } from "@std/assert";
import { EMPTY_LEDGER, type TurnEnd } from "@tare/loop";
import { turnError } from "./turn_error.ts";

const end = (reason: TurnEnd["reason"], code?: TurnEnd["code"]): TurnEnd => ({
  reason,
  text: "",
  message: "Why.",
  ledger: EMPTY_LEDGER,
  ...(code && { code }),
});

Deno.test("turnError() gives each end its status and code", () => {
  const told = (of: TurnEnd) => {
    const { status, message, details } = turnError(of);
    assertEquals([message, details.headers], ["Why.", undefined]);
    return [status, details.code];
  };
  assertEquals(told(end("cancelled")), [499, "cancelled"]);
  assertEquals(told(end("stalled")), [504, "stalled"]);
  assertEquals(told(end("internal_error")), [500, "internal_error"]);
  assertEquals(told(end("model_error", "rate_limited")), [429, "rate_limit_exceeded"]);
  assertEquals(told(end("model_error", "prompt_too_long")), [400, "context_length_exceeded"]);
  assertEquals(told(end("model_error", "bad_key")), [502, "bad_key"]);
  assertEquals(told(end("model_error")), [502, "provider_error"]);
});

Deno.test("turnError() says when to try again", () => {
  const { details } = turnError(end("model_error", "rate_limited"), 1200);
  assertEquals(details.headers, { "retry-after": "2" });
  assertEquals(turnError(end("model_error", "bad_key"), 1200).details.headers, undefined);
});

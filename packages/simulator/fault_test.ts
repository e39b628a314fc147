import { assertEquals } from "@std/assert";
import { type Fault, faultError } from "./fault.ts";

async function seen(fault: Fault) {
  const response = faultError(fault)?.toResponse();
  if (!response) return undefined;
  const { error } = await response.json();
  return [response.status, error.code, error.message, response.headers.get("retry-after")];
}

Deno.test("faultError() answers the faults that refuse a request, and no other", async () => {
  assertEquals(
    await Promise.all(([
      { type: "rate_limit", retryAfterMs: 1500 },
      { type: "error" },
      { type: "error", status: 401, message: "No such key." },
      { type: "prompt_too_long" },
      { type: "no_usage" },
      { type: "cut" },
    ] as const).map(seen)),
    [
      [429, "rate_limit_exceeded", "Rate limit reached: try again in 1500 ms.", "2"],
      [500, null, "The simulated provider fails on demand with status 500.", null],
      [401, "invalid_api_key", "No such key.", null],
      [
        400,
        "context_length_exceeded",
        "The prompt is too long for this model. Please reduce the length of the messages.",
        null,
      ],
      undefined,
      undefined,
    ],
  );
});

import { assertEquals, assertThrows } from "@std/assert";
import { OpenaiError } from "./openai_error.ts";
import { isForcedChoice, modelNotFound, type Refusal, refuseUnsupported } from "./openai_request.ts";

const REFUSALS: readonly Refusal[] = [{ parameter: "n", refuses: (n) => n !== 1, because: "there is one" }];

Deno.test("refuseUnsupported() names the parameter that can't be ignored", () => {
  const error = assertThrows(() => refuseUnsupported({ n: 2 }, REFUSALS), OpenaiError);
  assertEquals([error.status, error.message, error.details], [
    400,
    "Cannot answer: n is not supported: there is one.",
    { code: "unsupported_value", param: "n" },
  ]);
});

Deno.test("refuseUnsupported() lets pass what is absent, null or harmless", () => {
  for (const body of [{}, { n: null }, { n: 1, other: 2 }]) refuseUnsupported(body, REFUSALS);
});

Deno.test("modelNotFound() is OpenAI's error for an unknown model", () => {
  const { status, message, details } = modelNotFound("gpt");
  assertEquals([status, message, details], [
    404,
    'Cannot use model "gpt": there is only "agent".',
    { code: "model_not_found", param: "model" },
  ]);
});

Deno.test("isForcedChoice() is true of all but none and auto", () => {
  const choices = ["none", "auto", "required", { type: "function", function: { name: "f" } }];
  assertEquals(choices.map(isForcedChoice), [false, false, true, true]);
});

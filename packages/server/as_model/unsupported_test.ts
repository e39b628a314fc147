import { assertEquals, assertThrows } from "@std/assert";
import { ApiError } from "@tare/wire/internal";
import { refuseUnsupported, type UnsupportedParameter } from "./errors.ts";

const UNSUPPORTED: readonly UnsupportedParameter[] = [{
  parameter: "n",
  refuses: (n) => n !== 1,
  because: "there is one",
}];

const BODY = { model: "agent" };

Deno.test("refuseUnsupported() names a parameter that can't be ignored", () => {
  const error = assertThrows(() => refuseUnsupported({ ...BODY, n: 2 }, UNSUPPORTED), ApiError);
  assertEquals([error.status, error.message, error.details], [
    400,
    "Cannot answer: n is not supported: there is one.",
    { code: "unsupported_value", param: "n" },
  ]);
});

Deno.test("refuseUnsupported() accepts absent, null and harmless values", () => {
  for (const body of [{}, { n: null }, { n: 1, other: 2 }]) {
    refuseUnsupported({ ...BODY, ...body }, UNSUPPORTED);
  }
});

Deno.test("refuseUnsupported() throws OpenAI's error for an unknown model", () => {
  const refuse = () => refuseUnsupported({ model: "gpt" }, UNSUPPORTED);
  const { status, message, details } = assertThrows(refuse, ApiError);
  assertEquals([status, message, details], [
    404,
    'Cannot use model "gpt": the only model is "agent".',
    { code: "model_not_found", param: "model" },
  ]);
});

import { assertEquals } from "@std/assert";
import { checker } from "../http/schema.ts";
import { HttpError } from "../http/http_error.ts";
import { ModelError, type TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { ApiError } from "@tare/wire/internal";
import { API_ERROR, API_ERRORS, toApiError, turnError } from "./errors.ts";

async function errorOf(error: unknown): Promise<{ status: number; error: unknown }> {
  const response = API_ERRORS.respond(error);
  const body = await response.json();
  assertEquals(checker(API_ERROR)(body), undefined);
  return { status: response.status, ...body };
}

Deno.test("toApiError() converts every error to OpenAI's shape and hides unexpected ones", async () => {
  assertEquals(await errorOf(new ApiError(400, "No.", { code: "c", param: "n" })), {
    status: 400,
    error: { message: "No.", type: "invalid_request_error", param: "n", code: "c" },
  });
  assertEquals(await errorOf(new HttpError(413, "body_too_large", "Large.")), {
    status: 413,
    error: { message: "Large.", type: "invalid_request_error", param: null, code: "body_too_large" },
  });
  assertEquals(await errorOf(new ApiError(429, "Slow.", { code: "rate_limit_exceeded" })), {
    status: 429,
    error: { message: "Slow.", type: "requests", param: null, code: "rate_limit_exceeded" },
  });
  assertEquals(await errorOf(new Error("secret")), {
    status: 500,
    error: {
      message: "Internal server error: the server's log has the details.",
      type: "server_error",
      param: null,
      code: "internal_error",
    },
  });
});

Deno.test("toApiError() names the parameter of an invalid body", async () => {
  const paramOf = async (faults: string) => {
    const { error } = await errorOf(new HttpError(400, "invalid_request", `Cannot use the body: ${faults}.`));
    return (error as { param: unknown }).param;
  };
  assertEquals(await paramOf("the body must have required property 'model'"), "model");
  assertEquals(await paramOf("messages.0.content must be string; n must be integer"), "messages[0].content");
  assertEquals(await paramOf("messages.0 must have required property 'content'"), "messages[0]");
  assertEquals(await paramOf("the body must be object"), null);
});

Deno.test("toApiError() retains the headers of an error", () => {
  const headers = { "retry-after": "3" };
  const error = new ApiError(429, "Slow.", { code: "c", headers });
  assertEquals(toApiError(error).toResponse().headers.get("retry-after"), "3");
});

const end = (reason: TurnEnd["reason"], code?: TurnEnd["code"]): TurnEnd => ({
  reason,
  text: "",
  message: "Why.",
  ledger: EMPTY_LEDGER,
  ...(code && { code }),
});

Deno.test("turnError() maps each end to its status and code", () => {
  const errorOf = (of: TurnEnd) => {
    const { status, message, details } = turnError(of);
    assertEquals([message, details.headers], ["Why.", undefined]);
    return [status, details.code];
  };
  assertEquals(errorOf(end("cancelled")), [499, "cancelled"]);
  assertEquals(errorOf(end("stalled")), [504, "stalled"]);
  assertEquals(errorOf(end("internal_error")), [500, "internal_error"]);
  assertEquals(errorOf(end("model_error", "rate_limited")), [429, "rate_limit_exceeded"]);
  assertEquals(errorOf(end("model_error", "prompt_too_long")), [400, "context_length_exceeded"]);
  assertEquals(errorOf(end("model_error", "bad_key")), [502, "bad_key"]);
  assertEquals(errorOf(end("model_error")), [502, "provider_error"]);
});

Deno.test("turnError() contains the retry delay", () => {
  const waiting = (code: ModelError["code"]) => new ModelError(code, "Why.", { retryAfterMs: 1200 });
  const { details } = turnError(end("model_error", "rate_limited"), waiting("rate_limited"));
  assertEquals(details.headers, { "retry-after": "2" });
  assertEquals(turnError(end("model_error", "bad_key"), waiting("bad_key")).details.headers, undefined);
});

Deno.test("turnError() reports a setting that the provider refuses as the client's fault", () => {
  const error = new ModelError("bad_request", "Why.", { param: "seed" });
  const { status, details } = turnError(end("model_error", "bad_request"), error);
  assertEquals([status, details], [400, { code: "unsupported_value", param: "seed" }]);
});

import { assertEquals } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import { HttpError } from "../http/http_error.ts";
import { OPENAI_ERROR, OpenaiError, openaiErrorResponse, openaiErrorResponses } from "./openai_error.ts";

async function told(error: unknown): Promise<{ status: number; error: unknown }> {
  const response = openaiErrorResponse(error);
  const body = await response.json();
  assertEquals(schemaChecker(OPENAI_ERROR)(body), undefined);
  return { status: response.status, ...body };
}

Deno.test("openaiErrorResponse() tells every error in OpenAI's shape and hides unexpected ones", async () => {
  assertEquals(await told(new OpenaiError(400, "No.", { code: "c", param: "n" })), {
    status: 400,
    error: { message: "No.", type: "invalid_request_error", param: "n", code: "c" },
  });
  assertEquals(await told(new HttpError(413, "body_too_large", "Large.")), {
    status: 413,
    error: { message: "Large.", type: "invalid_request_error", param: null, code: "body_too_large" },
  });
  assertEquals(await told(new OpenaiError(429, "Slow.", { code: "rate_limit_exceeded" })), {
    status: 429,
    error: { message: "Slow.", type: "requests", param: null, code: "rate_limit_exceeded" },
  });
  assertEquals(await told(new Error("secret")), {
    status: 500,
    error: {
      message: "The server met an unexpected error; its log says more.",
      type: "server_error",
      param: null,
      code: "internal_error",
    },
  });
});

Deno.test("openaiErrorResponse() names the parameter that an invalid body is blamed for", async () => {
  const paramOf = async (faults: string) => {
    const { error } = await told(new HttpError(400, "invalid_request", `Cannot use the body: ${faults}.`));
    return (error as { param: unknown }).param;
  };
  assertEquals(await paramOf("the body must have required property 'model'"), "model");
  assertEquals(await paramOf("messages.0.content must be string; n must be integer"), "messages[0].content");
  assertEquals(await paramOf("messages.0 must have required property 'content'"), "messages[0]");
  assertEquals(await paramOf("the body must be object"), null);
});

Deno.test("openaiErrorResponse() keeps the headers of an error", () => {
  const headers = { "retry-after": "3" };
  const error = new OpenaiError(429, "Slow.", { code: "c", headers });
  assertEquals(openaiErrorResponse(error).headers.get("retry-after"), "3");
});

Deno.test("openaiErrorResponses() documents errors by status", () => {
  const content = { "application/json": OPENAI_ERROR };
  assertEquals(openaiErrorResponses({ 404: "Gone." }), { "404": { description: "Gone.", content } });
});

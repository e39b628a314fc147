import { assertEquals } from "@std/assert";
import { ApiError } from "@tare/wire/internal";

Deno.test("ApiError.toResponse() returns OpenAI's format, status and headers", async () => {
  const response = new ApiError(405, "No.", { code: "c", param: "p", headers: { allow: "GET" } })
    .toResponse();
  assertEquals([response.status, await response.json(), response.headers.get("allow")], [
    405,
    { error: { message: "No.", type: "invalid_request_error", param: "p", code: "c" } },
    "GET",
  ]);
});

Deno.test("ApiError.body() returns the error type of its status, without code or parameter by default", () => {
  assertEquals(
    [400, 401, 429, 500].map((status) => new ApiError(status, "No.").body().error),
    ["invalid_request_error", "invalid_request_error", "requests", "server_error"].map((type) => ({
      message: "No.",
      type,
      param: null,
      code: null,
    })) as ReturnType<ApiError["body"]>["error"][],
  );
});

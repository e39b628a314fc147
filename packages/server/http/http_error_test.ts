import { assertEquals } from "@std/assert";
import { errorResponse, HttpError } from "./http_error.ts";
import { StoreError } from "@tare/session";

Deno.test("errorResponse() returns status, code and message in one JSON shape", async () => {
  const response = errorResponse(
    new HttpError(405, "method_not_allowed", "No.", { allow: "GET" }),
  );
  assertEquals([response.status, response.statusText, response.headers.get("allow")], [
    405,
    "Method Not Allowed",
    "GET",
  ]);
  assertEquals(await response.json(), {
    error: { status: 405, code: "method_not_allowed", message: "No." },
  });
});

Deno.test("errorResponse() hides the message of an unexpected error", async () => {
  const response = errorResponse(new Error("secret"));
  assertEquals(await response.json(), {
    error: {
      status: 500,
      code: "internal_error",
      message: "Internal server error: the server's log has the details.",
    },
  });
});

Deno.test("errorResponse() returns the message of a failed store, as 507 if it is full", async () => {
  for (const [code, expected] of [["full", 507], ["io", 500], ["corrupt", 500]] as const) {
    const response = errorResponse(new StoreError(code, "Cannot write."));
    const error = { status: expected, code: "store_failed", message: "Cannot write." };
    assertEquals([response.status, await response.json()], [expected, { error }]);
  }
});

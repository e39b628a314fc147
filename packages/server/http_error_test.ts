import { assertEquals } from "@std/assert";
import { errorResponse, HttpError } from "@tare/server";

Deno.test("errorResponse() gives status, code and sentence in one JSON shape", async () => {
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
      message: "The server met an unexpected error; its log says more.",
    },
  });
});

import { assertEquals } from "@std/assert";
import { WireError } from "./wire_error.ts";

async function seen(error: WireError) {
  const response = error.toResponse();
  return [response.status, await response.json(), response.headers.get("allow")];
}

Deno.test("WireError.toResponse() writes OpenAI's shape of an error", async () => {
  assertEquals(await seen(new WireError(500, "It broke.")), [
    500,
    { error: { message: "It broke.", type: "server_error", param: null, code: null } },
    null,
  ]);
  assertEquals(await seen(new WireError(405, "No.", { code: "c", param: "p", headers: { allow: "GET" } })), [
    405,
    { error: { message: "No.", type: "invalid_request_error", param: "p", code: "c" } },
    "GET",
  ]);
});

Deno.test("WireError.toResponse() names the kind of error by its status", async () => {
  const types = await Promise.all(
    [400, 401, 403, 429, 503].map(async (status) =>
      (await new WireError(status, "").toResponse().json()).error.type
    ),
  );
  assertEquals(types, [
    "invalid_request_error",
    "authentication_error",
    "permission_error",
    "rate_limit_error",
    "server_error",
  ]);
});

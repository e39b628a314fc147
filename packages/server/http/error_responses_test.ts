import { assertEquals } from "@std/assert";
import { errorResponses } from "./error_responses.ts";
import { ERROR } from "../api/response_schemas.ts";

Deno.test("errorResponses() documents errors of the common shape", () => {
  assertEquals(errorResponses({ 404: "There is none." }), {
    404: { description: "There is none.", content: { "application/json": ERROR } },
  });
});

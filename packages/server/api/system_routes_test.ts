import { assertEquals } from "@std/assert";
import { agent, call, scriptedModel } from "../fixture_test.ts";

Deno.test("systemRoutes() say that the server is up and describe every route, themselves included", async () => {
  const handler = agent(scriptedModel([]));
  assertEquals((await call(handler, "GET", "/health")).body, { status: "ok" });
  const { paths } = (await call(handler, "GET", "/openapi.json")).body as { paths: Record<string, unknown> };
  for (const path of ["/health", "/openapi.json", "/v1/sessions", "/v1/sessions/{id}/turns"]) {
    assertEquals(path in paths, true, path);
  }
});

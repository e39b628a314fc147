import { assertEquals } from "@std/assert";
import { openaiOptions, scriptedModel } from "./openai_fixture_test.ts";
import { openaiRoutes } from "./openai_routes.ts";

Deno.test("openaiRoutes() are those that OpenAI clients call", () => {
  const routes = openaiRoutes(openaiOptions(scriptedModel([]).model));
  assertEquals(routes.map(({ method, path }) => `${method} ${path}`), [
    "GET /v1/models",
    "POST /v1/chat/completions",
    "POST /v1/responses",
    "GET /v1/responses/{id}",
  ]);
});

import { assertEquals } from "@std/assert";
import { openaiOptions, scriptedModel, serve } from "./openai_fixture_test.ts";

Deno.test("modelsRoute() lists the agent", async () => {
  const handler = serve(openaiOptions(scriptedModel([]).model));
  const response = await handler(new Request("http://localhost/v1/models"));
  assertEquals([response.status, await response.json()], [200, {
    object: "list",
    data: [{ id: "agent", object: "model", created: 5, owned_by: "tare" }],
  }]);
});

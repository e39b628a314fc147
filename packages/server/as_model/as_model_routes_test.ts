import { assertEquals } from "@std/assert";
import { routeOptions, scriptedModel, serve } from "./fixture_test.ts";

Deno.test("asModelRoutes() lists the agent", async () => {
  const handler = serve(routeOptions(scriptedModel([]).model));
  const response = await handler(new Request("http://localhost/v1/models"));
  assertEquals([response.status, await response.json()], [200, {
    object: "list",
    data: [{ id: "agent", object: "model", created: 5, owned_by: "tare" }],
  }]);
});

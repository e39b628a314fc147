import { assertEquals } from "@std/assert";
import { routeOptions, scriptedModel, serve } from "./fixture_test.ts";

Deno.test("asModelRoutes() lists and returns only the agent", async () => {
  const handler = serve(routeOptions(scriptedModel([]).model));
  const get = async (path: string) => {
    const response = await handler(new Request(`http://localhost/v1/models${path}`));
    return [response.status, await response.json()];
  };
  const agent = { id: "agent", object: "model", created: 5, owned_by: "tare" };
  assertEquals(await get(""), [200, { object: "list", data: [agent] }]);
  assertEquals(await get("/agent"), [200, agent]);
  assertEquals(await get("/gpt"), [404, {
    error: {
      message: 'Cannot use model "gpt": the only model is "agent".',
      type: "invalid_request_error",
      param: "model",
      code: "model_not_found",
    },
  }]);
});

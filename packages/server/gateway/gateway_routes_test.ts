import { assertEquals } from "@std/assert";
import { gatewayed, post } from "./gateway_fixture_test.ts";

Deno.test("GET /v1/models lists the agent, then the upstream's models", async () => {
  const { handler } = gatewayed((_, index) =>
    index === 0
      ? Response.json({ data: [{ id: "gpt-5", object: "model" }] })
      : new Response("no", { status: 500 })
  );
  const ids = async () => {
    const { data } = await (await handler.fetch(new Request("http://localhost/v1/models"))).json();
    return data.map(({ id }: { id: string }) => id);
  };
  assertEquals([await ids(), await ids()], [["agent", "gpt-5"], ["agent"]]);
});

Deno.test("gatewayed() leaves the agent and broken bodies to the routes themselves", async () => {
  const { handler, seen } = gatewayed(() => new Response("never"));
  const statuses = await Promise.all(
    ['{"model":"agent","messages":[]}', "{", '{"model":1,"messages":[]}'].map(async (body) =>
      (await handler.fetch(post(body))).status
    ),
  );
  assertEquals([statuses, seen.length], [[400, 400, 400], 0]);
});

Deno.test("GET /v1/responses/{id} asks the upstream for what isn't the agent's", async () => {
  const { handler, seen } = gatewayed(() => Response.json({ id: "resp_x" }));
  const response = await handler.fetch(new Request("http://localhost/v1/responses/resp_x"));
  assertEquals([await response.json(), seen[0]?.url], [
    { id: "resp_x" },
    "http://upstream.example/v1/responses/resp_x",
  ]);
});

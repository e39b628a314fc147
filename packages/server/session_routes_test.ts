import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/store";
import { agent, call, error, newSession, refused, request, scriptedModel } from "./fixture_test.ts";

Deno.test("sessionRoutes() refuses a session over the limit until one is deleted", async () => {
  const handler = agent(scriptedModel([]), { maxSessions: 2 });
  const session = await newSession(handler);
  await newSession(handler);
  assertEquals(
    await refused(handler, "POST", "/v1/sessions"),
    error(
      507,
      "too_many_sessions",
      "Cannot make a session: there are 2, and no more may be kept. Delete some first.",
    ),
  );
  await call(handler, "DELETE", session);
  assertEquals((await call(handler, "POST", "/v1/sessions")).status, 201);
});

Deno.test("sessionRoutes() gives archived text as plain text", async () => {
  const store = memoryStore();
  const handler = agent(scriptedModel([]), { store });
  const session = await newSession(handler);
  const ref = await store.archive(session.split("/").at(-1)!).put("<b>original</b>");
  const response = await handler.fetch(
    request("GET", `${session}/archive/${ref}`),
  );
  assertEquals([response.headers.get("content-type"), await response.text()], [
    "text/plain; charset=utf-8",
    "<b>original</b>",
  ]);
});

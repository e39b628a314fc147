import { assertEquals } from "@std/assert";
import { memoryArchive } from "@tare/prune";
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
  const archive = memoryArchive();
  const ref = await archive.put("<b>original</b>");
  const handler = agent(scriptedModel([]), { archives: { open: () => archive, remove() {} } });
  const session = await newSession(handler);
  const response = await handler.fetch(
    request("GET", `${session}/archive/${ref}`),
  );
  assertEquals([response.headers.get("content-type"), await response.text()], [
    "text/plain; charset=utf-8",
    "<b>original</b>",
  ]);
});

import { assertEquals } from "@std/assert";
import type { Tool } from "@tare/messages";
import { profileNamed, promptCost, type Quote } from "@tare/planner";
import { memoryStore } from "@tare/store";
import {
  agent,
  call,
  echo,
  error,
  newSession,
  refused,
  request,
  scriptedModel,
  turn,
} from "../fixture_test.ts";

Deno.test("sessionRoutes() refuses a session over the limit until one is deleted", async () => {
  const handler = agent(scriptedModel([]), { maxSessions: 2 });
  const session = await newSession(handler);
  await newSession(handler);
  assertEquals(
    await refused(handler, "POST", "/v1/sessions"),
    error(
      507,
      "too_many_sessions",
      "Cannot make a session: there are 2, and at most 2 may be kept. Delete some first.",
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

Deno.test("sessionRoutes() quotes the next request, before anything is sent and after", async () => {
  const big: Tool = { ...echo, stance: "rederivable", run: () => "a line of text\n".repeat(2_000) };
  const reading = (id: string) => ({
    tool_calls: [{ id, type: "function", function: { name: "echo", arguments: `{"text":"${id}"}` } }],
  } as const);
  const profile = profileNamed("anthropic-5m");
  const model = scriptedModel([...["a", "b", "c", "d"].map(reading), { content: "ok" }]);
  const handler = agent(model, { profile, tools: [big] });
  const session = await newSession(handler);
  const quote = async () => (await call(handler, "GET", `${session}/quote`)).body as Quote;
  const first = await quote();
  assertEquals([first.asIs, first.alive], [first.rewritten, 0]);
  assertEquals(first.asIs.coldCost, first.asIs.promptTokens * profile.write);
  await turn(handler, session, "q");
  const { asIs, rewritten, alive } = await quote();
  assertEquals(alive > 0.9 && asIs.cachedTokens > 0, true);
  assertEquals(asIs.warmCost, promptCost(profile, asIs));
  assertEquals(rewritten.warmCost, promptCost(profile, rewritten));
  assertEquals(rewritten.promptTokens < asIs.promptTokens, true);
  assertEquals(await quote(), { asIs, rewritten, alive });
});

Deno.test("sessionRoutes() quotes nothing where the policy knows nothing of costs", async () => {
  const handler = agent(scriptedModel([]), { policy: "classic" });
  const session = await newSession(handler);
  assertEquals(
    await refused(handler, "GET", `${session}/quote`),
    error(
      501,
      "not_supported",
      `Cannot quote session ${
        session.split("/").at(-1)
      }: the server's policy knows nothing of costs. The planner does.`,
    ),
  );
});

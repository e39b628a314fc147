import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { usageTotals } from "@tare/session/internal/report";
import {
  agent,
  call,
  error,
  events,
  newSession,
  refused,
  request,
  scriptedModel,
  silentModel,
  turn,
} from "./fixture_test.ts";
import { watchedStore } from "./sessions/store_fixture_test.ts";

Deno.test("agentHandler() runs a turn with a tool and streams its events, each with its number", async () => {
  const toolCall = {
    id: "c1",
    type: "function",
    function: { name: "echo", arguments: '{"text":"hi"}' },
  } as const;
  const handler = agent(scriptedModel([{ tool_calls: [toolCall] }, { content: "It said hi." }]));
  const session = await newSession(handler, { metadata: { of: "a test" } });
  const seen = await turn(handler, session, "Say hi.");
  assertEquals(seen.map(({ id }) => id), seen.map((_, index) => index + 1));
  assertEquals(seen.map(({ event }) => event.type), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call",
    "tool_result",
    "step_end",
    "step_start",
    "text_delta",
    "assistant_message",
    "step_end",
    "turn_end",
  ]);
  const end = seen.at(-1)!.event;
  assertEquals(end, {
    type: "turn_end",
    reason: "completed",
    text: "It said hi.",
    ledger: {
      calls: 2,
      promptTokens: 20,
      cachedTokens: 10,
      outputTokens: 4,
      saved: { context: 0, schemas: 0, prune: 0, truncate: 0, references: 0, normalization: 0 },
      estimated: false,
      costUnits: 20,
    },
  });
  const { body } = await call(handler, "GET", session);
  const id = session.split("/").at(-1);
  assertEquals(body, {
    kind: "agent",
    id,
    createdAt: "1970-01-01T00:00:00.000Z",
    status: "idle",
    title: "Say hi.",
    instructions: "Be brief.",
    model: "scripted",
    tools: ["echo", "recall"],
    metadata: { of: "a test" },
    budget: {},
    approvalRules: [],
    subagents: [],
    approvals: [],
    turns: 1,
    lastEvent: 11,
    ledger: (end as { ledger: unknown }).ledger,
    totals: {
      ...usageTotals.nothing,
      ...{ calls: 2, promptTokens: 20, cachedTokens: 10, outputTokens: 4, costUnits: 20, unpricedCalls: 2 },
      ...{ baselineCostUnits: 15.5, fittingCalls: 2, fittingCostUnits: 20, resendCostUnits: 15.5 },
      ...{ cacheReadCostUnits: 10, newCostUnits: 10, projectedCostUnits: 20 },
    },
    prompt: { tokens: 10, windowTokens: 100_000 },
    messages: [
      { role: "system", content: "Be brief." },
      { role: "user", content: "Say hi." },
      { role: "assistant", content: "", tool_calls: [toolCall] },
      { role: "tool", tool_call_id: "c1", content: "hi" },
      { role: "assistant", content: "It said hi." },
    ],
  });
});

Deno.test("agentHandler() returns the events after a number, by query or header, and the same ones each time", async () => {
  const handler = agent(scriptedModel([{ content: "a" }, { content: "b" }]));
  const session = await newSession(handler);
  const first = await turn(handler, session, "1");
  const second = await turn(handler, session, [{ type: "text", text: "2" }]);
  const read = async (query: string, headers = {}) =>
    await events(await handler.fetch(new Request(`http://localhost${session}/events${query}`, { headers })));
  assertEquals(await read(""), [...first, ...second]);
  assertEquals(await read(`?after=${first.length}`), second);
  assertEquals(await read("", { "last-event-id": String(first.length + 1) }), second.slice(1));
  assertEquals(await read("?after=999"), []);
  assertEquals(
    await refused(handler, "GET", `${session}/events?after=-1`),
    error(400, "invalid_request", "Cannot use the query: after must be >= 0."),
  );
});

Deno.test("agentHandler() creates sessions with their own instructions, model and tools, lists and deletes them", async () => {
  const models: string[] = [];
  const model = scriptedModel([{ content: "a" }]);
  const handler = agent(model, { model: (name) => (models.push(name), model) });
  const created = await call(handler, "POST", "/tare/v1/sessions", {
    instructions: "",
    model: "m",
    tools: [],
  });
  const { id } = created.body as { id: string };
  assertEquals([created.status, created.headers.get("location")], [201, `/tare/v1/sessions/${id}`]);
  const session = `/tare/v1/sessions/${id}`;
  const other = await newSession(handler);
  await turn(handler, session, "q");
  assertEquals(models, ["m"]);
  const list = (await call(handler, "GET", "/tare/v1/sessions")).body as {
    sessions: { id: string; tools: string[] }[];
  };
  assertEquals(list.sessions.map((one) => [one.id, one.tools]), [
    [other.split("/").at(-1)!, ["echo", "recall"]],
    [id, []],
  ]);
  assertEquals((await call(handler, "DELETE", session)).status, 204);
  assertEquals(
    await refused(handler, "GET", session),
    error(404, "not_found", `Cannot find session ${id}: there is no such session.`),
  );
  assertEquals(
    await refused(handler, "POST", "/tare/v1/sessions", { tools: ["echo", "fly"] }),
    error(400, "invalid_request", 'Cannot use tool "fly": the tools are echo, recall, delegate.'),
  );
});

Deno.test("agentHandler() refuses a second turn while one runs, and cancels the running one", async () => {
  const { model, requested } = silentModel();
  const handler = agent(model);
  const session = await newSession(handler);
  const running = turn(handler, session, "q");
  await requested;
  const id = session.split("/").at(-1);
  assertEquals(
    await refused(handler, "POST", `${session}/turns`, { input: "again" }),
    error(
      409,
      "turn_running",
      `Cannot start a turn in session ${id}: one is running. Wait for its turn_end, cancel it, or send ` +
        "the input with steer.",
    ),
  );
  const cancelled = await call(handler, "POST", `${session}/cancel`);
  const body = cancelled.body as { cancelled: boolean; session: { status: string } };
  assertEquals([cancelled.status, body.cancelled, body.session.status], [200, true, "idle"]);
  const end = (await running).at(-1)!.event;
  assertEquals(end.type === "turn_end" && end.reason, "cancelled");
  assertEquals(((await call(handler, "POST", `${session}/cancel`)).body as typeof body).cancelled, false);
});

Deno.test("agentHandler() continues a turn whose client disconnects; its events can be read later", async () => {
  const gate = Promise.withResolvers<void>();
  const handler = agent(async function* (incoming) {
    yield { type: "text_delta", text: "first " };
    await gate.promise;
    yield* scriptedModel([{ content: "last" }])(incoming);
  });
  const session = await newSession(handler);
  const response = await handler.fetch(request("POST", `${session}/turns`, { input: "q" }));
  const reader = response.body!.getReader();
  await reader.read();
  await reader.cancel();
  gate.resolve();
  const seen = await events(await handler.fetch(request("GET", `${session}/events`)));
  assertEquals(seen.map(({ event }) => event.type), [
    "turn_start",
    "step_start",
    "text_delta",
    "text_delta",
    "assistant_message",
    "step_end",
    "turn_end",
  ]);
});

Deno.test("agentHandler() deletes a session whose turn runs, and close() ends all turns", async () => {
  const first = silentModel();
  const second = silentModel();
  const handler = agent(first.model, { model: (name) => name === "2" ? second.model : first.model });
  const [one, two] = [await newSession(handler), await newSession(handler, { model: "2" })];
  const turns = [turn(handler, one, "q"), turn(handler, two, "q")];
  await first.requested;
  await second.requested;
  assertEquals((await call(handler, "DELETE", one)).status, 204);
  await handler.close();
  const ends = (await Promise.all(turns)).map((seen) => seen.at(-1)!.event);
  assertEquals(ends.map((end) => end.type === "turn_end" && end.reason), ["cancelled", "interrupted"]);
});

Deno.test("agentHandler() answers bad input with one JSON shape", async () => {
  const handler = agent(scriptedModel([]), { maxBodyBytes: 100 });
  const session = await newSession(handler);
  const turns = `${session}/turns`;
  assertEquals(
    await refused(handler, "POST", turns, { input: 3 }),
    error(400, "invalid_request", "Cannot use the body: input must be string or array."),
  );
  assertEquals(
    await refused(handler, "POST", turns, {}),
    error(
      400,
      "invalid_request",
      "Cannot use the body: the body must have 'input' or 'continue'.",
    ),
  );
  assertEquals(
    await refused(handler, "POST", turns, { input: "x".repeat(100) }),
    error(413, "body_too_large", "Cannot read the body: it has more than 100 bytes."),
  );
  const broken = await refused(handler, "POST", turns, "{");
  assertMatch(JSON.stringify(broken), /^{"status":400,.*"invalid_json"/);
  assertEquals(
    await refused(handler, "POST", "/tare/v1/sessions/none/turns", { input: "q" }),
    error(404, "not_found", "Cannot find session none: there is no such session."),
  );
  assertEquals(
    await refused(handler, "GET", "/v2"),
    error(404, "not_found", "Not found: there is no route /v2."),
  );
  const wrongMethod = await call(handler, "PUT", "/tare/v1/sessions");
  assertEquals([wrongMethod.status, wrongMethod.headers.get("allow")], [405, "POST, GET, HEAD"]);
  assertEquals(
    await refused(handler, "GET", `${session}/archive/0123456789abcdef`),
    error(
      404,
      "not_found",
      `Cannot find 0123456789abcdef: the archive of session ${
        session.split("/").at(-1)
      } has no such reference.`,
    ),
  );
  assertEquals(await refused(handler, "GET", "/health"), { status: 200, body: { status: "ok" } });
});

Deno.test("agentHandler() hides internal errors from clients and passes them to onError", async () => {
  const reported: unknown[] = [];
  const bug = new Error("secret");
  const store = watchedStore((records) => {
    const events = records.flatMap((record) => record.type === "events" ? record.events : []);
    if (events.some(({ type }) => type === "assistant_message")) throw bug;
  });
  const broken = agent(scriptedModel([{ content: "a" }]), {
    store,
    onError: (error) => reported.push(error),
  });
  const seen = await turn(broken, await newSession(broken), "q");
  const end = seen.at(-1)!.event;
  assertEquals(end.type === "turn_end" && [end.reason, end.message], [
    "internal_error",
    "Internal server error: the server's log has the details.",
  ]);
  assertEquals(reported, [bug]);
  assertEquals(JSON.stringify(seen).includes("secret"), false);
});

Deno.test("agentHandler() refuses an unknown option with the nearest known name, in groups too", () => {
  const refuse = (options: object, unknown: string, nearest: string) =>
    assertThrows(
      () => agent(scriptedModel([]), options),
      TypeError,
      `options.${unknown} is unknown; the nearest known name is ${nearest}`,
    );
  refuse({ tool: [] }, "tool", "tools");
  refuse({ turn: { maxStep: 3 } }, "limits.turn.maxStep", "maxSteps");
  refuse({ webhooks: { hosts: [], host: "a" } }, "webhooks.host", "hosts");
});

Deno.test("agentHandler() reports that the server is up and describes every route, including the description's", async () => {
  const handler = agent(scriptedModel([]));
  assertEquals((await call(handler, "GET", "/health")).body, { status: "ok" });
  const { paths } = (await call(handler, "GET", "/openapi.json")).body as { paths: Record<string, unknown> };
  for (const path of ["/health", "/openapi.json", "/tare/v1/sessions", "/tare/v1/sessions/{id}/turns"]) {
    assertEquals(path in paths, true, path);
  }
});

Deno.test("agentHandler() reports its workspace, if configured, its approvals and limits", async () => {
  const ask = async (workspace: object) =>
    (await call(agent(scriptedModel([]), workspace), "GET", "/tare/v1/agent")).body;
  const approvalRules = [{ tool: "*", decision: "allow" }];
  const usual = { approvalRules, model: "scripted", windowTokens: 100_000 };
  assertEquals(await ask({}), usual);
  assertEquals(await ask({ folder: "/w" }), { workspace: "/w", ...usual });
  const supportsImages = (model: string) => model === "scripted";
  assertEquals(await ask({ supportsImages }), { ...usual, supportsImages: true });
  const handler = agent(scriptedModel([]), { supportsImages });
  const sees = async (settings: object) => {
    const { body } = await call(handler, "GET", await newSession(handler, settings));
    return (body as { supportsImages?: boolean }).supportsImages;
  };
  assertEquals([await sees({}), await sees({ model: "other" })], [true, false]);
});

Deno.test("agentHandler() reports a missing route or method in the format of the path's clients", async () => {
  const handler = agent(scriptedModel([]));
  const reported = async (method: string, path: string) => {
    const { status, body, headers } = await call(handler, method, path);
    return [status, (body as { error: unknown }).error, headers.get("allow")];
  };
  const openai = (message: string, code: string) => ({
    message,
    type: "invalid_request_error",
    param: null,
    code,
  });
  const missing = (path: string) => `Not found: there is no route ${path}.`;
  assertEquals(await reported("GET", "/v1/embeddings"), [
    404,
    openai(missing("/v1/embeddings"), "not_found"),
    null,
  ]);
  assertEquals(await reported("PUT", "/v1/responses/x"), [
    405,
    openai("Method not allowed: /v1/responses/x accepts GET, HEAD, DELETE, not PUT.", "method_not_allowed"),
    "GET, HEAD, DELETE",
  ]);
  assertEquals(await reported("GET", "/v1/messages"), [
    404,
    { type: "not_found_error", message: missing("/v1/messages") },
    null,
  ]);
  for (const path of ["/tare/v1/sessions/x/y", "/nowhere"]) {
    assertEquals(await reported("GET", path), [
      404,
      { status: 404, code: "not_found", message: missing(path) },
      null,
    ]);
  }
});

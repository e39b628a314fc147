import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { gateway } from "@tare/gateway";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agent, scriptedModel } from "./fixture_test.ts";

const MIB = 2 ** 20;

function both(
  answer: (url: string) => Response = () => Response.json({ id: "upstream" }),
  { isAlone = false, hasModel = true, apiKey, forward = [] }: {
    readonly isAlone?: boolean;
    readonly hasModel?: boolean;
    readonly apiKey?: string;
    readonly forward?: readonly string[];
  } = {},
) {
  const seen: string[] = [];
  const countTokens = () => Promise.resolve(estimateTokens);
  const rules = { profile: profileNamed("none"), windowTokens: 100_000 };
  const provider = {
    ...rules,
    baseURL: "http://upstream.example/v1",
    ...(apiKey !== undefined && { apiKey }),
  };
  const model = scriptedModel(Array(9).fill({ content: "Hello." }));
  const store = memoryStore();
  const options = { maxBodyBytes: 10 * MIB, store };
  const upstream = gateway({
    upstreams: isAlone ? {} : { chat: provider, responses: provider, messages: provider },
    countTokens,
    store,
    forward,
    limits: { bodyBytes: 20 * MIB },
    fetch: (url) => {
      seen.push(String(url));
      return Promise.resolve(answer(String(url)));
    },
  });
  const { fetch: ask } = agent(model, { ...options, hasModel, gateway: upstream });
  return { alone: agent(model, options), seen, ask };
}

function get(path: string): Request {
  return new Request(`http://localhost${path}`);
}

function post(body: BodyInit, path = "/v1/chat/completions"): Request {
  return new Request(`http://localhost${path}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body,
  });
}

const call = (model: string) => JSON.stringify({ model, messages: [{ role: "user", content: "Hello?" }] });

Deno.test("agentHandler() with a gateway routes the model agent to the agent and others to the gateway", async () => {
  const { ask, seen } = both();
  const own = await (await ask(post(call("agent")))).json();
  assertEquals([own.choices[0].message.content, seen], ["Hello.", []]);
  const other = await (await ask(post(call("gpt-5")))).json();
  assertEquals([other, seen], [{ id: "upstream" }, ["http://upstream.example/v1/chat/completions"]]);
  await (await ask(post('{"model":"gpt-5","input":"Hello?"}', "/v1/responses"))).body?.cancel();
  assertEquals(seen[1], "http://upstream.example/v1/responses");
  const session = await ask(post("{}", "/tare/v1/sessions"));
  assertEquals([session.status, await session.body?.cancel()], [201, undefined]);
});

Deno.test("agentHandler() with a gateway lets the agent refuse a body without a model", async () => {
  const { ask, seen } = both();
  const bodies = ['{"model":"agent","messages":[]}', "{", '{"model":1,"messages":[]}', "", "[]"];
  const statuses = await Promise.all(bodies.map(async (body) => {
    const response = await ask(post(body));
    assertEquals(typeof (await response.json()).error.message, "string");
    return response.status;
  }));
  assertEquals([statuses, seen], [[400, 400, 400, 400, 400], []]);
});

Deno.test("agentHandler() with a gateway enforces the agent's limit, wherever the body names its model", async () => {
  const { ask, alone, seen } = both();
  const pad = (bytes: number) => `"pad":"${"x".repeat(bytes)}"`;
  const status = async (body: BodyInit, answer = ask) => {
    const response = await answer(post(body));
    await response.body?.cancel();
    return response.status;
  };
  const first = (model: string, bytes: number) => `{"model":"${model}",${pad(bytes)}}`;
  const last = (model: string, bytes: number) => `{${pad(bytes)},"model":"${model}"}`;
  assertEquals(await status(first("agent", 11 * MIB), alone.fetch), 413);
  assertEquals(await status(first("agent", 11 * MIB)), 413);
  assertEquals(await status(last("agent", 11 * MIB)), 413);
  assertEquals(seen, []);
  assertEquals(await status(first("gpt-5", 11 * MIB)), 200);
  assertEquals(await status(last("gpt-5", 11 * MIB)), 200);
  assertEquals(seen.length, 2);
  assertEquals(await status(first("gpt-5", 21 * MIB)), 413);
  assertEquals(await status(last("gpt-5", 21 * MIB)), 413);
  assertEquals(seen.length, 2);
});

Deno.test("agentHandler() with a gateway reads no more of a body for the agent than the agent's limit", async () => {
  const { ask } = both();
  const start = new TextEncoder().encode('{"model":"agent","messages":[{"role":"user","content":"');
  let read = 0;
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    pull(controller) {
      const chunk = read === 0 ? start : new Uint8Array(MIB).fill(0x20);
      read += chunk.length;
      controller.enqueue(chunk);
    },
  }, { highWaterMark: 0 });
  const response = await ask(post(body));
  assertEquals([response.status, (await response.json()).error.code], [413, "body_too_large"]);
  assert(read < 13 * MIB, `${read} bytes were read`);
});

Deno.test("agentHandler() with a gateway responds to a client that left while it sent its body", async () => {
  const { ask } = both();
  const body = new ReadableStream({ pull: (controller) => controller.error(new TypeError("gone")) });
  const response = await ask(post(body));
  assertEquals([response.status, await response.body?.cancel()], [500, undefined]);
});

Deno.test("agentHandler() with a gateway lists the models of both, if the provider lists its own", async () => {
  const endless = new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(MIB)) });
  for (
    const [method, expected] of [
      [Response.json({ data: [{ id: "gpt-5", object: "model" }] }), ["agent", "gpt-5"]],
      [Response.json({ data: [{ id: "gpt-5" }] }, { status: 500 }), ["agent"]],
      [new Response("no"), ["agent"]],
      [new Response(endless), ["agent"]],
    ] as const
  ) {
    const { data } = await (await both(() => method).ask(get("/v1/models"))).json();
    assertEquals(data.map(({ id }: { id: string }) => id), expected);
  }
});

Deno.test("agentHandler() without a model of its own lists only the gateway's", async () => {
  const { ask, seen } = both(() => Response.json({ data: [{ id: "gpt-5" }] }), { hasModel: false });
  const { data } = await (await ask(get("/v1/models"))).json();
  assertEquals(data, [{ id: "gpt-5" }]);
  await (await ask(get("/v1/models/agent"))).body?.cancel();
  assertEquals(seen, ["http://upstream.example/v1/models", "http://upstream.example/v1/models/agent"]);
});

Deno.test("agentHandler() with a gateway forwards requests for responses unknown to the agent", async () => {
  const { ask, seen } = both();
  const made = await (await ask(post('{"model":"agent","input":"Hello?"}', "/v1/responses"))).json();
  assertEquals((await (await ask(get(`/v1/responses/${made.id}`))).json()).id, made.id);
  assertEquals(seen, []);
  assertEquals(await (await ask(get("/v1/responses/resp_x"))).json(), { id: "upstream" });
  assertEquals((await ask(get("/v1/responses/resp_x?stream=true"))).status, 200);
  assertEquals(seen, [
    "http://upstream.example/v1/responses/resp_x",
    "http://upstream.example/v1/responses/resp_x?stream=true",
  ]);
});

Deno.test("agentHandler() with a gateway describes both in one document", async () => {
  const { ask, alone: single } = both();
  const { paths, components } = await (await ask(get("/openapi.json"))).json();
  const alone = await (await single.fetch(get("/openapi.json"))).json();
  assertEquals(
    Object.keys(paths).sort(),
    [
      ...Object.keys(alone.paths),
      "/tare/v1/ledger",
    ].sort(),
  );
  assertStringIncludes(paths["/v1/responses"].post.summary, "provider");
  assert("default" in paths["/v1/models"].get.responses);
  assertEquals(paths["/tare/v1/sessions"], alone.paths["/tare/v1/sessions"]);
  const ledger = await (await ask(get("/tare/v1/ledger"))).json();
  assertEquals(Object.keys(ledger), components.schemas.GatewayLedger.required);
  assertEquals(Object.keys(ledger.planned), components.schemas.GatewayLedgerGroup.required);
  await (await ask(post(call("unpriced")))).text();
  const { sessions: [session] } = await (await ask(get("/tare/v1/sessions"))).json();
  const details = await (await ask(get(`/tare/v1/sessions/${session.id}`))).json();
  assertEquals(Object.keys(details).sort(), components.schemas.GatewaySessionDetails.required.toSorted());
  assertEquals((await ask(get("/tare/v1/sessions/nobody"))).status, 404);
});

Deno.test("agentHandler() with a gateway forwards other paths under /v1, and serves the agent's own", async () => {
  const { ask, seen } = both();
  const answerOf = async (method: string, path: string, headers: Record<string, string> = {}) => {
    const response = await ask(new Request(`http://localhost${path}`, { method, headers }));
    await response.body?.cancel();
    return response.status;
  };
  const passed = [
    ["POST", "/v1/embeddings"],
    ["DELETE", "/v1/responses/resp_1"],
    ["POST", "/v1/responses/resp_1/cancel"],
    ["GET", "/v1/models/gpt-5"],
  ] as const;
  for (const [method, path] of passed) assertEquals(await answerOf(method, path), 200);
  assertEquals(seen, passed.map(([, path]) => `http://upstream.example${path}`));
  assertEquals(await answerOf("PATCH", "/tare/v1/sessions/x"), 405);
  assertEquals([await answerOf("GET", "/tare/v1/sessions/x"), await answerOf("GET", "/nowhere")], [404, 404]);
  assertEquals(await answerOf("HEAD", "/"), 200);
  assertEquals(await answerOf("GET", "/v1/responses", { upgrade: "websocket" }), 426);
  assertEquals(seen.length, passed.length);
});

Deno.test("agentHandler() with a gateway reads compressed bodies to route them", async () => {
  const { ask, seen } = both();
  const send = (model: string, encoding = "gzip") => {
    const headers = { "content-type": "application/json", "content-encoding": encoding };
    const body = new Uint8Array(gzipSync(call(model)));
    return ask(new Request("http://localhost/v1/chat/completions", { method: "POST", headers, body }));
  };
  assertEquals((await (await send("agent")).json()).choices[0].message.content, "Hello.");
  assertEquals(seen, []);
  assertEquals(await (await send("gpt-5")).json(), { id: "upstream" });
  assertEquals(await (await send("agent", "snappy")).json(), { id: "upstream" });
  const wrong = await send("gpt-5", "br");
  assertEquals([wrong.status, (await wrong.json()).error.code], [400, "invalid_body"]);
  assertEquals(seen.length, 2);
});

Deno.test("agentHandler() with a gateway serves the agent's paths and models without an upstream", async () => {
  const { ask } = both(undefined, { isAlone: true });
  const answerOf = async (method: string, path: string) => {
    const response = await ask(new Request(`http://localhost${path}`, { method }));
    const { error: { code, param }, ...rest } = await response.json();
    assertEquals(rest, {});
    return [response.status, code, param];
  };
  assertEquals(await answerOf("GET", "/v1/chat/completions"), [405, "method_not_allowed", null]);
  assertEquals(await answerOf("PATCH", "/v1/responses/resp_1"), [405, "method_not_allowed", null]);
  assertEquals(await answerOf("GET", "/v1/models/gpt-5"), [404, "model_not_found", "model"]);
  assertEquals(await answerOf("DELETE", "/v1/responses/resp_1"), [404, "response_not_found", "id"]);
  assertEquals(await answerOf("GET", "/v1/responses/resp_1/input_items"), [404, "response_not_found", "id"]);
  assertEquals(await answerOf("POST", "/v1/embeddings"), [404, "no_upstream", null]);
});

Deno.test(
  "agentHandler() with a gateway lists the agent among the provider's models, and deletes its own responses",
  async () => {
    const { ask, seen } = both();
    assertEquals((await (await ask(get("/v1/models/agent"))).json()).id, "agent");
    const { id } = await (await ask(post('{"model":"agent","input":"Hello?"}', "/v1/responses"))).json();
    assertEquals((await (await ask(get(`/v1/responses/${id}/input_items`))).json()).data.length, 1);
    const path = `http://localhost/v1/responses/${id}`;
    assertEquals((await (await ask(new Request(path, { method: "DELETE" }))).json()).deleted, true);
    assertEquals(seen, []);
    await (await ask(get(`/v1/responses/${id}/input_items`))).body?.cancel();
    assertEquals(seen, [`http://upstream.example/v1/responses/${id}/input_items`]);
  },
);

Deno.test("agentHandler() with a gateway reads compressed bodies of the agent's own routes, and no bombs", async () => {
  const { ask, seen } = both();
  const send = (body: Uint8Array<ArrayBuffer>, encoding: string) => {
    const headers = { "content-type": "application/json", "content-encoding": encoding };
    return ask(new Request("http://localhost/tare/v1/sessions", { method: "POST", headers, body }));
  };
  const plain = JSON.stringify({ metadata: { a: "b" } });
  for (
    const [encoding, compress] of [["gzip", gzipSync], ["deflate", deflateSync], [
      "br",
      brotliCompressSync,
    ]] as const
  ) {
    const made = await send(new Uint8Array(compress(plain)), encoding);
    assertEquals([made.status, (await made.json()).metadata], [201, { a: "b" }]);
  }
  const errorOf = async (response: Response) => [response.status, (await response.json()).error];
  const bomb = new Uint8Array(gzipSync(new Uint8Array(12 * 2 ** 20)));
  const message = "Cannot read the body: it has more than 10485760 bytes.";
  assertEquals(await errorOf(await send(bomb, "gzip")), [413, {
    status: 413,
    code: "body_too_large",
    message,
  }]);
  assertEquals((await errorOf(await send(bomb, "snappy")))[0], 415);
  assertEquals(seen, []);
});

async function answered(
  { ask, seen }: Pick<ReturnType<typeof both>, "ask" | "seen">,
  [method, path]: readonly [string, string],
  headers: Record<string, string> = {},
) {
  const before = seen.length;
  const response = await ask(new Request(`http://localhost${path}`, { method, headers }));
  const text = await response.text();
  return {
    status: response.status,
    allow: response.headers.get("allow"),
    message: text.startsWith("{") ? String(JSON.parse(text).error?.message) : "",
    passed: seen.slice(before).map((url) => url.replace("http://upstream.example", "")),
  };
}

const KEY = { apiKey: "sk-server" };

Deno.test("agentHandler() with a gateway forwards only paths of models with the server's key", async () => {
  const server = both(undefined, KEY);
  for (
    const request of [
      ["GET", "/v1/chat/completions"],
      ["POST", "/v1/completions"],
      ["POST", "/v1/responses/resp_1/cancel"],
      ["GET", "/v1/responses/resp_1/input_items?order=asc"],
      ["POST", "/v1/responses/compact"],
      ["GET", "/v1/models/org%2Fgpt-5"],
      ["HEAD", "/v1/models/gpt-5"],
      ["POST", "/v1/embeddings"],
      ["POST", "/v1/files"],
      ["GET", "/v1/files/file-1/content"],
      ["POST", "/v1/images/generations"],
      ["POST", "/v1/audio/speech"],
      ["POST", "/v1/moderations"],
      ["POST", "/v1/batches"],
      ["POST", "/v1/batches/batch_1/cancel"],
      ["POST", "/v1/sessions"],
      ["POST", "/v1/sessions/sesn_1/events?beta=true"],
      ["GET", "/v1/agents/agent_1"],
      ["POST", "/v1/environments"],
    ] as const
  ) {
    const { status, passed } = await answered(server, request);
    assertEquals([request[1], status, passed], [request[1], 200, [request[1]]]);
  }
  for (
    const [method, path] of [
      ["GET", "/v1/organization/admin_api_keys"],
      ["POST", "/v1/organization/projects"],
      ["GET", "/v1/gateway/session"],
      ["GET", "/v1/gateway/sessions"],
      ["POST", "/v1/fine_tuning/jobs"],
      ["POST", "/v1/realtime/sessions"],
      ["GET", "/v1/assistants"],
      ["GET", "/v1/Models"],
      ["GET", "/v1/chat/completions/chatcmpl-1"],
      ["POST", "/v1/embeddings/x"],
      ["GET", "/v1/spend"],
      ["GET", "/v1/vaults/vlt_1/credentials"],
    ] as const
  ) {
    const { status, passed, message } = await answered(server, [method, path]);
    assertEquals([path, status, passed], [path, 404, []]);
    assertStringIncludes(message, `Allow it with --forward ${path} (TARE_FORWARD)`);
  }
  assertEquals(await answered(server, ["DELETE", "/v1/models/ft:gpt-5"]), {
    status: 405,
    allow: "GET, HEAD",
    message: "Method not allowed: /v1/models/ft:gpt-5 accepts GET, HEAD, not DELETE.",
    passed: [],
  });
  const upgrade = await answered(server, ["GET", "/v1/realtime"], { upgrade: "websocket" });
  assertEquals([upgrade.status, upgrade.passed], [426, []]);
});

Deno.test("agentHandler() with a gateway forwards named paths, and others with the client's own key", async () => {
  const named = both(undefined, { ...KEY, forward: ["/v1/vector_stores", "/v1/fine_tuning/jobs"] });
  for (const path of ["/v1/vector_stores", "/v1/vector_stores/vs_1/files", "/v1/fine_tuning/jobs/ftjob-1"]) {
    assertEquals((await answered(named, ["POST", path])).passed, [path]);
  }
  for (const path of ["/v1/vector_storesx", "/v1/fine_tuning", "/tare/v1/sessions/x"]) {
    assertEquals((await answered(named, ["GET", path])).status, 404);
  }
  const open = both();
  for (
    const path of ["/v1/organization/usage", "/v1/keys", "/v1/sessions/x/turns", "/v1/assistants/asst_1"]
  ) {
    assertEquals((await answered(open, ["POST", path])).passed, [path]);
  }
  assertEquals((await answered(open, ["DELETE", "/v1/models/ft:gpt-5"])).passed, ["/v1/models/ft:gpt-5"]);
});

Deno.test("agentHandler() with a gateway forwards none of its own requests to a provider, with any key", async () => {
  for (const server of [both(), both(undefined, KEY)]) {
    for (
      const [method, path, allow] of [
        ["POST", "/tare/v1/ledger", "GET, HEAD"],
        ["PUT", "/tare/v1/overview", "GET, HEAD"],
        ["PUT", "/tare/v1/sessions", "POST, GET, HEAD"],
        ["DELETE", "/tare/v1/sessions", "POST, GET, HEAD"],
        ["PATCH", "/tare/v1/sessions/x", "GET, HEAD, DELETE"],
        ["POST", "/tare/v1/backup", "GET, HEAD"],
        ["POST", "/tare/v1/agent", "GET, HEAD"],
        ["DELETE", "/health", "GET, HEAD"],
      ] as const
    ) {
      const { status, allow: allowed, passed } = await answered(server, [method, path]);
      assertEquals([path, status, allowed, passed], [path, 405, allow, []]);
    }
    for (
      const path of [
        "/tare/v1/ledger/",
        "/tare/v1//ledger",
        "//tare/v1/ledger",
        "/tare/v1/ledger/x",
        "/tare/v1/sessions/x/y",
        "/tare/v1/sessions%2Fx",
        "/tare%2Fv1/ledger",
        "/tare/v1/models",
        "/tare/v1",
        "/tare",
        "/v1/..%2fadmin",
        "/v1/%2e%2e%2fadmin",
        "/v1/%2e%2e/admin",
        "/v1/../admin",
        "/v1/models/..%2f..%2forganization",
        "/v1/models/%252e%252e%252forganization",
        "/v1/models/..%5corganization",
        "/v1//models",
        "/v1/files//x",
        "/v1/files/",
        "/v1/",
      ]
    ) {
      const { status, passed } = await answered(server, ["GET", path]);
      assertEquals([path, status, passed], [path, 404, []]);
    }
    const { status, passed } = await answered(server, ["GET", "/v1/models/%E0%A4"]);
    assertEquals([status, passed], [400, []]);
  }
});

Deno.test("agentHandler() with a gateway answers HEAD like GET, and normalizes paths", async () => {
  const server = both(undefined, KEY);
  for (
    const path of [
      "/tare/v1/sessions",
      "/tare/v1/ledger",
      "/tare/v1/overview",
      "/tare/v1/agent",
      "/health",
      "/v1/%6dodels",
    ]
  ) {
    assertEquals((await answered(server, ["HEAD", path])).status, 200);
    assertEquals((await answered(server, ["GET", path])).status, 200);
  }
});

Deno.test("agentHandler() with a gateway reports its own errors in one format", async () => {
  const { ask } = both(undefined, KEY);
  for (
    const [method, path, status, code] of [
      ["GET", "/tare/v1/sessions/nobody", 404, "not_found"],
      ["GET", "/tare/v1/ledger/x", 404, "not_found"],
      ["POST", "/tare/v1/ledger", 405, "method_not_allowed"],
      ["POST", "/tare/v1/overview", 405, "method_not_allowed"],
      ["GET", "/tare/v1/overview?kind=other", 400, "invalid_request"],
      ["GET", "/tare/v1/sessions?limit=0", 400, "invalid_request"],
      ["GET", "/tare/v1/sessions?limit=ten", 400, "invalid_request"],
      ["GET", "/tare/v1/sessions?subagents=maybe", 400, "invalid_request"],
      ["GET", "/tare/v1/sessions?after=nobody", 404, "not_found"],
    ] as const
  ) {
    const response = await ask(new Request(`http://localhost${path}`, { method }));
    const { error: { message, ...error }, ...rest } = await response.json();
    assertEquals([path, response.status, error, rest], [path, status, { status, code }, {}]);
    assertEquals(typeof message, "string");
  }
});

Deno.test("agentHandler() has no routes of its own at the root but those that monitor or describe the server", async () => {
  const reportsOf = async ({ ask }: Pick<ReturnType<typeof both>, "ask">) => {
    const { paths } = await (await ask(get("/openapi.json"))).json();
    return Object.keys(paths).filter((path) => !path.startsWith("/tare/v1/"));
  };
  const { alone, ask } = both();
  const atRoot = [
    "/v1/models",
    "/v1/models/{id}",
    "/v1/chat/completions",
    "/v1/responses",
    "/v1/responses/{id}",
    "/v1/responses/{id}/input_items",
    "/health",
    "/health/ready",
    "/openapi.json",
  ];
  assertEquals(await reportsOf({ ask }), atRoot);
  assertEquals(await reportsOf({ ask: alone.fetch }), atRoot);
});

Deno.test("agentHandler() with a gateway forwards Anthropic's sessions, which aren't its own", async () => {
  const headers = { "anthropic-version": "2023-06-01", "content-type": "application/json" };
  for (const server of [both(), both(undefined, KEY)]) {
    const { id } = await (await server.ask(post("{}", "/tare/v1/sessions"))).json();
    const paths = ["/v1/sessions", `/v1/sessions/${id}`, `/v1/sessions/${id}/events?after=0`];
    for (const path of paths) {
      assertEquals((await answered(server, ["GET", path], headers)).passed, [path]);
      assertEquals((await answered(server, ["POST", path], headers)).passed, [path]);
    }
    assertEquals((await answered(server, ["DELETE", `/v1/sessions/${id}`], headers)).passed, [paths[1]!]);
    assertEquals((await (await server.ask(get(`/tare/v1/sessions/${id}`))).json()).id, id);
  }
  const refused = await both(undefined, { isAlone: true }).ask(
    new Request("http://localhost/v1/sessions", { headers }),
  );
  assertEquals([refused.status, (await refused.json()).error.message], [
    404,
    "Cannot forward /v1/sessions: no upstream is configured for its protocol.",
  ]);
});

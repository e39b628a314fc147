import { assertEquals } from "@std/assert";
import type { AgentHandler } from "@tare/server";
import type { Message } from "@tare/messages";
import { memoryStore, StoreError } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import {
  agent,
  call,
  error,
  events,
  newSession,
  refused,
  request,
  scriptedModel,
  turn,
} from "../fixture_test.ts";
import { watchedStore } from "../sessions/store_fixture_test.ts";

const echoing = {
  tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: '{"text":"hi"}' } }],
} as const;

function post(handler: AgentHandler, body: BodyInit, headers = {}): Promise<Response> {
  return handler.fetch(
    new Request("http://localhost/v1/sessions/import", {
      method: "POST",
      body,
      headers: { "content-type": "application/x-ndjson", ...headers },
    }),
  );
}

async function exported(handler: AgentHandler, session: string): Promise<string> {
  const response = await handler.fetch(request("GET", `${session}/export`));
  assertEquals([response.status, response.headers.get("content-type")], [200, "application/x-ndjson"]);
  return await response.text();
}

Deno.test("transferRoutes() give back as a session what they exported, which goes on", async () => {
  const store = memoryStore();
  const handler = agent(scriptedModel([echoing, { content: "It said hi." }, { content: "Again." }]), {
    store,
  });
  const session = await newSession(handler);
  await turn(handler, session, "Say hi.");
  const text = await exported(handler, session);
  assertEquals(text.split("\n").slice(0, -1).map((line) => JSON.parse(line).role), [
    "system",
    "user",
    "assistant",
    "tool",
    "assistant",
  ]);
  const response = await post(handler, text);
  assertEquals(response.status, 201);
  const { sessions: [{ id, instructions, turns, lastEvent }] } = await response.json();
  assertEquals([instructions, turns, lastEvent], ["Be brief.", 0, 4]);
  const copy = `/v1/sessions/${id}`;
  assertEquals(await exported(handler, copy), text);
  assertEquals((await turn(handler, copy, "Again?")).at(-1)?.event.type, "turn_end");
  const restarted = agent(scriptedModel([]), { store });
  assertEquals(await exported(restarted, copy), await exported(handler, copy));
  assertEquals((await exported(handler, copy)).startsWith(text), true);
});

Deno.test("transferRoutes() import several recorded sessions, all or none", async () => {
  const handler = agent(scriptedModel([]), { maxSessions: 3 });
  const recorded = (content: string) =>
    JSON.stringify({ id: "r", messages: [{ role: "user", content, ts: 1 }] });
  const told = async (body: string) => {
    const response = await post(handler, body);
    return { status: response.status, body: await response.json() };
  };
  const count = async () =>
    ((await call(handler, "GET", "/v1/sessions")).body as { sessions: unknown[] }).sessions.length;
  assertEquals(
    await told(`${recorded("a")}\n{"messages":[{"role":"tool"}]}`),
    error(
      400,
      "invalid_request",
      "Cannot import: line 2, message 1: the message must have required property 'tool_call_id'; the message must have " +
        "required property 'content'. Nothing was imported.",
    ),
  );
  assertEquals(
    await told([..."abcd"].map(recorded).join("\n")),
    error(
      507,
      "too_many_sessions",
      "Cannot make 4 sessions: there are 0, and at most 3 may be kept. Delete some first, or let idle ones expire.",
    ),
  );
  assertEquals(await count(), 0);
  const made = await told([..."ab"].map(recorded).join("\n"));
  assertEquals([made.status, await count()], [201, 2]);
  const { sessions } = made.body as { sessions: { id: string }[] };
  assertEquals(await Promise.all(sessions.map(({ id }) => exported(handler, `/v1/sessions/${id}`))), [
    '{"role":"user","content":"a"}\n',
    '{"role":"user","content":"b"}\n',
  ]);
});

Deno.test("transferRoutes() import once for one Idempotency-Key, and only lines", async () => {
  const handler = agent(scriptedModel([]));
  const key = { "idempotency-key": "k" };
  const one = '{"role":"user","content":"a"}';
  const first = await (await post(handler, one, key)).json();
  assertEquals(await (await post(handler, one, key)).json(), first);
  assertEquals((await post(handler, `${one}\n${one}`, key)).status, 422);
  assertEquals((await post(handler, one, { "content-type": "application/json" })).status, 415);
  assertEquals((await call(handler, "GET", "/v1/sessions/none/export")).status, 404);
});

const asking: readonly Message[] = [
  { role: "user", content: "q", name: "n" },
  {
    role: "assistant",
    content: "",
    tool_calls: [{ id: "c", type: "function", function: { name: "gone", arguments: "{}" } }, {
      id: "d",
      type: "function",
      function: { name: "gone", arguments: "{}" },
    }],
    reasoning_content: "Hm.",
  },
  { role: "tool", tool_call_id: "c", content: [{ type: "text", text: "r" }] },
  { role: "tool", tool_call_id: "d", content: "ü" },
];

Deno.test("transferRoutes() import histories that are exactly the messages, also after a restart", async () => {
  const histories: readonly (readonly Message[])[] = [
    asking,
    [{ role: "system", content: "i" }, ...asking, { role: "system", content: "also" }, {
      role: "user",
      content: "two\nlines",
    }],
    [{ role: "system", content: "i", name: "n" }, { role: "assistant", content: "a" }],
    [{ role: "developer", content: "d" }, { role: "function", name: "f", content: null }],
    [{ role: "system", content: "" }],
  ];
  const store = memoryStore();
  const handler = agent(scriptedModel([]), { store });
  const response = await post(handler, histories.map((messages) => JSON.stringify({ messages })).join("\n"));
  const { sessions } = await response.json() as { sessions: { id: string; instructions: string }[] };
  assertEquals(sessions.map(({ instructions }) => instructions), ["", "i", "", "", ""]);
  for (const server of [handler, agent(scriptedModel([]), { store })]) {
    for (const [index, { id }] of sessions.entries()) {
      const lines = (await exported(server, `/v1/sessions/${id}`)).split("\n").slice(0, -1);
      assertEquals(lines.map((line): unknown => JSON.parse(line)), [...histories[index]!]);
    }
  }
});

Deno.test("transferRoutes() import sessions that can be continued where they stop", async () => {
  const handler = agent(scriptedModel([{ content: "a" }]));
  const response = await post(handler, asking.map((message) => JSON.stringify(message)).join("\n"));
  const { sessions: [{ id }] } = await response.json();
  const path = `/v1/sessions/${id}`;
  const played = await events(await handler.fetch(request("POST", `${path}/turns`, { continue: true })));
  assertEquals(played.at(-1)?.event.type, "turn_end");
  const last = (await exported(handler, path)).trim().split("\n").at(-1)!;
  assertEquals(JSON.parse(last), { role: "assistant", content: "a" });
});

Deno.test("transferRoutes() import nothing if the store fails", async () => {
  const store = watchedStore(() => {
    throw new StoreError("full", "It is full.");
  });
  const response = await post(agent(scriptedModel([]), { store }), '{"role":"user","content":"a"}');
  assertEquals([response.status, await response.json()], [
    507,
    { error: { status: 507, code: "store_failed", message: "It is full." } },
  ]);
  assertEquals(await store.countSessions(), 0);
});

Deno.test("transferRoutes() give all that the server keeps as a file, from which another goes on with the same bytes", async () => {
  const folder = await Deno.makeTempDir();
  const [one, two] = [`${folder}/one.db`, `${folder}/two.db`];
  const store = await openStore(one);
  const handler = agent(scriptedModel([echoing, { content: "It said hi." }]), { store });
  const session = await newSession(handler);
  await turn(handler, session, "Say hi.");
  const response = await handler.fetch(request("GET", "/v1/backup"));
  const length = Number(response.headers.get("content-length"));
  assertEquals([response.status, response.headers.get("content-type")], [200, "application/vnd.sqlite3"]);
  assertEquals(
    await refused(handler, "GET", "/v1/backup"),
    error(
      409,
      "backup_running",
      `Cannot copy the store ${one}: it is being copied already. Wait for its end.`,
    ),
  );
  await Deno.writeFile(two, response.body!);
  assertEquals((await Deno.stat(two)).size, length);
  const copy = await openStore(two);
  const other = agent(scriptedModel([{ content: "Again." }]), { store: copy });
  for (const path of [session, `${session}/prompt`, `${session}/calls`]) {
    assertEquals(await refused(other, "GET", path), await refused(handler, "GET", path));
  }
  assertEquals((await turn(other, session, "Again?")).at(-1)?.event.type, "turn_end");
  await Promise.all([handler.close(), other.close()]);
  await Promise.all([store.close(), copy.close()]);
  await Deno.remove(folder, { recursive: true });
});

Deno.test("transferRoutes() say where a server's sessions are backed up that aren't in a file", async () => {
  assertEquals(
    await refused(agent(scriptedModel([])), "GET", "/v1/backup"),
    error(
      404,
      "not_found",
      "Cannot back up here: the sessions aren't in a file of this server, but in a database, which has programs of " +
        "its own for that, such as pg_dump.",
    ),
  );
});

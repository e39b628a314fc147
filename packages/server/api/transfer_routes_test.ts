import { assertEquals, assertThrows } from "@std/assert";
import fc, { cases } from "../../../tests/cases.ts";
import type { HttpAgent } from "@tare/server";
import type { Message } from "@tare/messages";
import { StoreError } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { openStore } from "@tare/session/sqlite";
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
import { HttpError } from "../http/http_error.ts";
import { parseSessions } from "./transfer_routes.ts";

const echoing = {
  tool_calls: [{ id: "c", type: "function", function: { name: "echo", arguments: '{"text":"hi"}' } }],
} as const;

function post(handler: HttpAgent, body: BodyInit, headers = {}): Promise<Response> {
  return handler.fetch(
    new Request("http://localhost/tare/v1/sessions/import", {
      method: "POST",
      body,
      headers: { "content-type": "application/x-ndjson", ...headers },
    }),
  );
}

async function exported(handler: HttpAgent, session: string): Promise<string> {
  const response = await handler.fetch(request("GET", `${session}/export`));
  assertEquals([response.status, response.headers.get("content-type")], [200, "application/x-ndjson"]);
  return await response.text();
}

Deno.test("transferRoutes() import their own export as a session, which continues", async () => {
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
  const copy = `/tare/v1/sessions/${id}`;
  assertEquals(await exported(handler, copy), text);
  assertEquals((await turn(handler, copy, "Again?")).at(-1)?.event.type, "turn_end");
  const restarted = agent(scriptedModel([]), { store });
  assertEquals(await exported(restarted, copy), await exported(handler, copy));
  assertEquals((await exported(handler, copy)).startsWith(text), true);
});

Deno.test("transferRoutes() import every session that they export", async () => {
  const handler = agent(scriptedModel([]));
  const roundTrip = async (messages: readonly Message[]) => {
    const made = await post(handler, messages.map((message) => JSON.stringify(message)).join("\n"));
    const { sessions: [{ id }] } = await made.json();
    const text = await exported(handler, `/tare/v1/sessions/${id}`);
    const again = await post(handler, text);
    assertEquals(again.status, 201);
    const { sessions: [copy] } = await again.json();
    assertEquals(await exported(handler, `/tare/v1/sessions/${copy.id}`) === text, true);
    for (const session of [id, copy.id]) {
      await handler.fetch(request("DELETE", `/tare/v1/sessions/${session}`));
    }
    return text;
  };
  const value = fc.jsonValue({ maxDepth: 8 });
  const step = fc.record({
    text: fc.option(fc.string({ unit: "binary" }), { nil: null }),
    calls: fc.array(fc.record({ args: value, result: fc.string({ unit: "binary" }) }), { maxLength: 4 }),
    question: fc.option(fc.string({ minLength: 1 })),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 8 }), async (steps) => {
      await roundTrip(steps.flatMap(({ text, calls, question }, at): Message[] => {
        const made = calls.map(({ args }, index) => ({
          id: `${at}.${index}`,
          type: "function" as const,
          function: { name: "echo", arguments: JSON.stringify(args) },
        }));
        return [
          ...question === null ? [] : [{ role: "user" as const, content: question }],
          { role: "assistant", content: text, ...(made.length > 0 && { tool_calls: made }) },
          ...calls.map(({ result }, index) => ({
            role: "tool" as const,
            tool_call_id: `${at}.${index}`,
            content: result,
          })),
        ];
      }));
    }),
    { numRuns: cases(8) },
  );
  // More values together than one JSON text may contain.
  const long = Array.from({ length: 9_000 }, (_, at): Message[] => [
    {
      role: "assistant",
      content: null,
      tool_calls: [{ id: `${at}`, type: "function", function: { name: "echo", arguments: '{"text":"x"}' } }],
    },
    { role: "tool", tool_call_id: `${at}`, content: "x" },
  ]).flat();
  assertEquals((await roundTrip([{ role: "user", content: "Go" }, ...long])).split("\n").length, 18_002);
});

Deno.test("transferRoutes() limit each line by itself, and name the line that exceeds it", async () => {
  const handler = agent(scriptedModel([]));
  const good = '{"role":"user","content":"a"}';
  const wide = `{"role":"user","content":"a","more":[${"1,".repeat(100_000)}1]}`;
  const response = await post(handler, `${good}\n\n${wide}\n${good}`);
  assertEquals([response.status, (await response.json()).error.message], [
    400,
    "Cannot use the body: in line 3, it holds more than 100000 values.",
  ]);
});

Deno.test("transferRoutes() import several recorded sessions, all or none", async () => {
  const handler = agent(scriptedModel([]), { maxSessions: 3 });
  const recorded = (content: string) =>
    JSON.stringify({ id: "r", messages: [{ role: "user", content, ts: 1 }] });
  const errorOf = async (body: string) => {
    const response = await post(handler, body);
    return { status: response.status, body: await response.json() };
  };
  const count = async () =>
    ((await call(handler, "GET", "/tare/v1/sessions")).body as { sessions: unknown[] }).sessions.length;
  assertEquals(
    await errorOf(`${recorded("a")}\n{"messages":[{"role":"tool"}]}`),
    error(
      400,
      "invalid_request",
      "Cannot import: line 2, message 1: the message must have required property 'tool_call_id'; the message must have " +
        "required property 'content'. Nothing was imported.",
    ),
  );
  assertEquals(
    await errorOf([..."abcd"].map(recorded).join("\n")),
    error(
      507,
      "too_many_sessions",
      "Cannot create 4 sessions: 0 of at most 3 are stored. Delete some, or let idle ones expire.",
    ),
  );
  assertEquals(await count(), 0);
  const made = await errorOf([..."ab"].map(recorded).join("\n"));
  assertEquals([made.status, await count()], [201, 2]);
  const { sessions } = made.body as { sessions: { id: string }[] };
  assertEquals(await Promise.all(sessions.map(({ id }) => exported(handler, `/tare/v1/sessions/${id}`))), [
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
  assertEquals((await call(handler, "GET", "/tare/v1/sessions/none/export")).status, 404);
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

Deno.test("transferRoutes() import histories that equal the messages, also after a restart", async () => {
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
      const lines = (await exported(server, `/tare/v1/sessions/${id}`)).split("\n").slice(0, -1);
      assertEquals(lines.map((line): unknown => JSON.parse(line)), [...histories[index]!]);
    }
  }
});

Deno.test("transferRoutes() import sessions that can be continued at their end", async () => {
  const handler = agent(scriptedModel([{ content: "a" }]));
  const response = await post(handler, asking.map((message) => JSON.stringify(message)).join("\n"));
  const { sessions: [{ id }] } = await response.json();
  const path = `/tare/v1/sessions/${id}`;
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

Deno.test("transferRoutes() return a backup file, from which another server continues with the same bytes", async () => {
  const folder = await Deno.makeTempDir();
  const [one, two] = [`${folder}/one.db`, `${folder}/two.db`];
  const store = await openStore(one);
  const handler = agent(scriptedModel([echoing, { content: "It said hi." }]), { store });
  const session = await newSession(handler);
  await turn(handler, session, "Say hi.");
  const response = await handler.fetch(request("GET", "/tare/v1/backup"));
  const length = Number(response.headers.get("content-length"));
  assertEquals([response.status, response.headers.get("content-type")], [200, "application/vnd.sqlite3"]);
  const message = `Cannot copy the store ${one}: another copy is in progress. Retry after it.`;
  const copied = agent(scriptedModel([]), {
    store: { ...store, copy: () => Promise.reject(new StoreError("locked", message)) },
  });
  assertEquals(await refused(copied, "GET", "/tare/v1/backup"), error(409, "backup_running", message));
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

Deno.test("transferRoutes() refuse a backup of a database with advice", async () => {
  assertEquals(
    await refused(agent(scriptedModel([])), "GET", "/tare/v1/backup"),
    error(
      404,
      "not_found",
      "Cannot back up here: the store is a database, not a file of this server. Use the database's own " +
        "tools, such as pg_dump.",
    ),
  );
});

const callOf = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } }) as const;
const messages: readonly (Message & { readonly signature?: string })[] = [
  { role: "system", content: "i" },
  { role: "user", content: [{ type: "text", text: "q" }], name: "n" },
  { role: "assistant", content: null, tool_calls: [callOf("a"), callOf("b")], signature: "s" },
  { role: "tool", tool_call_id: "b", content: "x" },
  { role: "tool", tool_call_id: "a", content: [{ type: "text", text: "y" }] },
  { role: "assistant", content: "done" },
];
const lines = (values: readonly unknown[]) => values.map((value) => `${JSON.stringify(value)}\n`).join("");

function faults(text: string): string {
  const error = assertThrows(() => parseSessions(text), HttpError);
  assertEquals([error.status, error.code], [400, "invalid_request"]);
  return error.message;
}

Deno.test("parseSessions() reads a session of one message per line, exactly", () => {
  assertEquals(parseSessions(lines(messages)), [messages]);
  assertEquals(parseSessions(`\ufeff${lines(messages).replaceAll("\n", "\r\n\r\n")}`), [messages]);
});

Deno.test("parseSessions() reads one recorded session per line, without the fields of recordings", () => {
  const noted = messages.map((message) => ({
    ...message,
    ts: 1,
    usage: { input: 1 },
    meta: true,
    error: true,
  }));
  const text = lines([{ id: "1", tools: [], messages: noted }, {
    messages: [{ role: "user", content: "q", ts: 2 }],
  }]);
  assertEquals(parseSessions(text), [messages, [{ role: "user", content: "q" }]]);
});

Deno.test("parseSessions() names each invalid line and its fault", () => {
  const roles = "system, developer, user, assistant, tool, function";
  const { message } = assertThrows(() => JSON.parse('{"role":'), SyntaxError);
  assertEquals(
    faults(
      '{"role":"user","content":"q"}\n\n{"role":\n3\n{"role":"robot"}\n{}\n{"role":"user"}\n{"messages":[]}',
    ),
    `Cannot import: line 3: it isn't JSON (${message}); line 4: it isn't a JSON object; line 5: role is "robot" and ` +
      `must be one of ${roles}; line 6: role is missing and must be one of ${roles}; line 7: the message must have ` +
      "required property 'content'; line 8: it is a session, but the lines before are messages. Nothing was imported.",
  );
  assertEquals(
    faults(
      lines([{ messages: [messages[1]] }, { messages: [messages[1], null, { role: "tool", content: 3 }] }]),
    ),
    `Cannot import: line 2, message 2: role is missing and must be one of ${roles}; line 2, message 3: the message ` +
      "must have required property 'tool_call_id'; content must be string or array. Nothing was imported.",
  );
  const unnamed = { role: "assistant", tool_calls: [{ id: "a", type: "function" }] };
  assertEquals(
    faults(lines([unnamed])),
    "Cannot import: line 1: tool_calls.0 must have required property 'function'. Nothing was imported.",
  );
});

Deno.test("parseSessions() accepts a session whose last calls have no result, as it was exported", () => {
  const open = messages.slice(1, 4);
  assertEquals(parseSessions(lines(open)), [open]);
});

Deno.test("parseSessions() refuses calls without an answer and answers without a call", () => {
  const [, user, reply, b, a, done] = messages;
  const open = (line: number, id: string) =>
    `line ${line}: its call "${id}" isn't answered immediately after it`;
  const orphan = (line: number, id: string) =>
    `line ${line}: it answers call "${id}", which the reply before it didn't make`;
  for (
    const [wrong, ...expected] of [
      [[user, reply, b, done], open(2, "a")],
      [[user, reply, b, user, a], open(2, "a"), orphan(5, "a")],
      [[user, reply, b, b, a], orphan(4, "b")],
      [[b, user], orphan(1, "b")],
    ] as const
  ) {
    assertEquals(faults(lines(wrong)), `Cannot import: ${expected.join("; ")}. Nothing was imported.`);
  }
});

Deno.test("parseSessions() refuses a file without messages, and limits the reported faults", () => {
  assertEquals(faults("\n \n"), "Cannot import: it holds no messages. Nothing was imported.");
  assertEquals(
    faults("3\n".repeat(25)).endsWith("line 20: it isn't a JSON object; and 5 more. Nothing was imported."),
    true,
  );
});

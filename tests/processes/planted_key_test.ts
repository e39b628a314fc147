import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";

const API_KEY = "sk-planted-provider-key";
const MESSAGES_KEY = "sk-ant-planted-messages-key";
const TOKEN = "planted-server-token";

/** Messages, and how the provider answers them. */
const CALLS = [
  { name: "shell", arguments: { command: "env; export -p; cat /proc/self/environ" } },
  { name: "read_file", arguments: { path: "/proc/self/environ" } },
  { name: "read_file", arguments: { path: "environ" } },
  { name: "search_files", arguments: { pattern: "planted" } },
  { name: "list_files", arguments: { path: "/proc/self" } },
  { name: "write_file", arguments: { path: "../outside.txt", content: "a" } },
];

const completion = (delta: unknown, finish: string) =>
  `data: ${JSON.stringify({ choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`;

/** Every error of this provider contains the received key. */
function answer(question: string, authorization: string, hasResults: boolean): Response {
  const error = {
    error: { message: `Wrong: ${authorization}`, code: API_KEY, param: API_KEY, type: authorization },
  };
  const stream = (...events: string[]) =>
    new Response(events.join(""), { headers: { "content-type": "text/event-stream" } });
  if (/^\d+$/.test(question)) {
    const headers = { "x-should-retry": "false", "retry-after-ms": "1", "x-echo": authorization };
    return Response.json(error, { status: Number(question), headers });
  }
  switch (question) {
    case "page":
      return new Response(`Bad gateway for ${authorization}`, { status: 400 });
    case "long":
      // A quote is cut after 500 characters.
      return Response.json({ error: { message: "x".repeat(480) + authorization } }, { status: 400 });
    case "error in stream":
      return stream(completion({ content: "a" }, ""), `data: ${JSON.stringify(error)}\n\n`);
    case "no JSON":
      return stream(completion({ content: "a" }, ""), `data: ${API_KEY}\n\n`);
    case "tools":
      return stream(
        hasResults ? completion({ content: "Done." }, "stop") : completion({
          tool_calls: CALLS.map((call, index) => ({
            index,
            id: `c${index}`,
            type: "function",
            function: { name: call.name, arguments: JSON.stringify(call.arguments) },
          })),
        }, "tool_calls"),
      );
    default:
      return stream(completion({ content: "Hello." }, "stop"));
  }
}

const QUESTIONS = [
  "hello",
  "tools",
  "400",
  "401",
  "403",
  "404",
  "413",
  "422",
  "429",
  "500",
  "page",
  "long",
  "error in stream",
  "no JSON",
];

Deno.test("the provider's key and the server's token appear nowhere: answers, events, logs, files, tools' environment", async () => {
  const top = await Deno.makeTempDir();
  const workspace = join(top, "workspace");
  const data = join(top, "data");
  await Deno.mkdir(workspace);
  await Deno.symlink("/proc/self/environ", join(workspace, "environ"));
  const sent: { authorization: string; rest: string }[] = [];
  const messagesKeys: string[] = [];
  const agentKeys: string[] = [];
  const seen: string[] = [];
  const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    // The server also lists models.
    if (request.method === "GET") return new Response(null, { status: 404 });
    const body = await request.text();
    const { authorization = "", "x-api-key": messagesKey, ...headers } = Object.fromEntries(request.headers);
    const isMessages = new URL(request.url).pathname === "/v1/messages";
    if (isMessages && authorization !== "") {
      agentKeys.push(authorization);
      seen.push(JSON.stringify(headers) + body);
      const error = { type: authorization, message: `Wrong: ${authorization}, ${MESSAGES_KEY}` };
      return Response.json({ type: "error", error }, { status: 400 });
    }
    if (messagesKey !== undefined) {
      messagesKeys.push(messagesKey + authorization);
      return Response.json({ type: "message", content: [], usage: { input_tokens: 1 } });
    }
    sent.push({ authorization, rest: JSON.stringify(headers) + body });
    const { messages } = JSON.parse(body) as { messages: { role: string; content: string }[] };
    const question = messages.findLast(({ role }) => role === "user")!.content;
    return answer(question, authorization, messages.at(-1)!.role === "tool");
  });
  const events: SessionEvent[] = [];
  const server = await startProcess([
    ...["--port", "0", "--workspace", workspace, "--data", data, "--model", "m", "--approvals", "allow"],
    ...["--base-url", `http://127.0.0.1:${provider.addr.port}/v1`],
  ], {
    OPENAI_API_KEY: API_KEY,
    ANTHROPIC_API_KEY: MESSAGES_KEY,
    ANTHROPIC_BASE_URL: `http://127.0.0.1:${provider.addr.port}`,
    TARE_TOKEN: TOKEN,
  });
  const look = async (path: string, init: RequestInit = {}) => {
    const response = await fetch(server.url + path, {
      headers: { authorization: `Bearer ${TOKEN}` },
      ...init,
    });
    const body = await response.text();
    seen.push(JSON.stringify([...response.headers]) + body);
    return { status: response.status, body };
  };
  const client = agentClient(server.url, TOKEN);
  for (const question of QUESTIONS) {
    // One session each, so that one error can't hide the next.
    const session = await client.createSession();
    for await (const { event } of await client.startTurn(session, question)) events.push(event);
    await look(`/tare/v1/sessions/${session}`);
    await look(`/tare/v1/sessions/${session}/events`);
  }
  for (const headers of [{}, { authorization: `Bearer ${TOKEN}x` }, { authorization: `Basic ${TOKEN}` }]) {
    assertEquals((await look("/tare/v1/sessions", { headers })).status, 401);
  }
  const authorization = `Bearer ${TOKEN}`;
  const json = { authorization, "content-type": "application/json" };
  assertEquals(
    (await look("/tare/v1/sessions", { headers: { authorization, origin: "http://evil.example" } })).status,
    403,
  );
  assertEquals((await look("/tare/v1/sessions", { method: "POST", headers: json, body: "{" })).status, 400);
  const message = JSON.stringify({ model: "claude", messages: [{ role: "user", content: "Hi." }] });
  assertEquals((await look("/v1/messages", { method: "POST", headers: json, body: message })).status, 200);
  const request = { method: "POST", headers: json, body: JSON.stringify({ model: "claude-sonnet-5" }) };
  const { id } = JSON.parse((await look("/tare/v1/sessions", request)).body);
  for await (const { event } of await client.startTurn(id, "hello")) events.push(event);
  await look(`/tare/v1/sessions/${id}/events`);
  assertEquals((await look("/tare/v1/sessions?kind=gateway")).status, 200);
  assertEquals((await look("/tare/v1/sessions/none")).status, 404);
  assertEquals((await look("/none")).status, 404);
  assertEquals((await look("/tare/v1/sessions")).status, 200);
  assertEquals((await look("/openapi.json")).status, 200);
  const ended = await server.end("SIGTERM");
  assertEquals(ended.code, 0);
  seen.push(ended.stdout, ended.stderr);
  await provider.shutdown();
  const files: string[] = [];
  await readAll(top, files);

  const ends = events.flatMap((event) => event.type === "turn_end" ? [event.reason] : []);
  assertEquals(ends, ["completed", "completed", ...QUESTIONS.slice(1).map(() => "model_error" as const)]);
  const results = events.flatMap((event) => event.type === "tool_result" ? [event] : []);
  assertEquals(results.length, CALLS.length);
  assertStringIncludes(results.find(({ name }) => name === "shell")!.content, "HOME=");
  // Only the provider received the key.
  assertEquals(new Set(sent.map(({ authorization }) => authorization)), new Set([`Bearer ${API_KEY}`]));
  assertEquals(messagesKeys, [MESSAGES_KEY]);
  assertEquals(agentKeys, [`Bearer ${MESSAGES_KEY}`]);
  // Parts of the keys must not appear either.
  const secrets = [API_KEY, MESSAGES_KEY, TOKEN].map((secret) => secret.slice(0, 12));
  const everything = { events, seen, files, sent: sent.map(({ rest }) => rest) };
  for (const [where, what] of Object.entries(everything)) {
    for (const secret of secrets) assertEquals(JSON.stringify(what).includes(secret), false, where);
  }
  await Deno.remove(top, { recursive: true });
});

/** Names and contents of all files under a folder. */
async function readAll(folder: string, into: string[]): Promise<void> {
  for await (const entry of Deno.readDir(folder)) {
    const path = join(folder, entry.name);
    into.push(path);
    if (entry.isDirectory) await readAll(path, into);
    if (entry.isFile) into.push(new TextDecoder("latin1").decode(await Deno.readFile(path)));
  }
}

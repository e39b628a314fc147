import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { estimateTokens, type Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { type SimulatedReply, type SimulatedRequest, simulator, toolCall } from "@tare/simulator";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { faultsOfPoints, faultsOfSpans } from "./conventions.ts";
import { otlpReceiver, type Span } from "./otlp_receiver.ts";

/** Marker in every text that only the conversation's parties may see. */
const CANARY = "canary-5b1f";

/** Text of different lines, too long to enter a prompt whole. */
const NOTES = Array.from({ length: 6_000 }, (_, at) => `Note ${at} of ${CANARY}.\n`).join("");

/** Follows the script that the user's last message names, step by step. */
function scriptedModel({ messages }: SimulatedRequest): SimulatedReply {
  const at = messages.findLastIndex(({ role }) => role === "user");
  const script = /\[(\w+)\]/.exec(textOf(messages[at]))?.[1];
  const step = messages.slice(at).filter(({ role }) => role === "assistant").length;
  const ref = /ref ([0-9a-f]{16})/.exec(messages.slice(at).map(textOf).join("\n"))?.[1];
  const answer = { content: `Here it is: ${CANARY}.` };
  const calls = (...args: Parameters<typeof toolCall>) =>
    step === 0 ? { tool_calls: [toolCall(...args)] } : answer;
  switch (script) {
    case "read":
      if (step === 1 && ref) return { tool_calls: [toolCall("recall", { ref, find: CANARY })] };
      return calls("read_file", { path: "notes.txt" });
    case "miss":
      return calls("read_file", { path: `${CANARY}.txt` });
    case "help":
      return calls("delegate", { task: `[say] ${CANARY}` });
    case "refuse":
      return { fault: { type: "error", status: 401, message: `No ${CANARY} for you.` } };
    case "reject":
      return ref ? { fault: { type: "error", status: 400, message: `I want ${CANARY}.` } } : answer;
    case "hang":
      return { fault: { type: "stall", afterChunks: 3 }, ...answer };
    default:
      return answer;
  }
}

function textOf(message: Message | undefined): string {
  return JSON.stringify(message?.content ?? "");
}

function provider() {
  const encode = (text: string) => Array.from({ length: estimateTokens(text) }, (_, at) => at);
  const simulated = simulator({
    model: scriptedModel,
    tokenizer: { encode },
    profile: profileNamed("openai"),
  });
  const headers: Headers[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, (request) => {
    if (request.method === "POST") headers.push(request.headers);
    return simulated.fetch(request);
  });
  return { url: `http://127.0.0.1:${server.addr.port}`, headers, close: () => server.shutdown() };
}

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;

/** Plays a session with all features: turns of the agent, then gateway calls; returns the telemetry. */
async function played(env: Readonly<Record<string, string>>) {
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "work");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, "notes.txt"), NOTES);
  const upstream = provider();
  const receiver = otlpReceiver();
  const server = await startProcess(
    ["--port", "0", "--workspace", workspace, "--data", join(folder, "data"), "--truncate-at", "4000"],
    {
      ...receiver.env,
      OPENAI_BASE_URL: `${upstream.url}/v1`,
      OPENAI_API_KEY: `key-${CANARY}`,
      ANTHROPIC_BASE_URL: upstream.url,
      TARE_MODEL: "scripted-1",
      TARE_APPROVALS: "allow",
      TARE_PROFILE: "openai",
      ...env,
    },
  );
  const post = (path: string, body: unknown, headers: HeadersInit = {}) =>
    fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": "application/json", traceparent: TRACEPARENT, ...headers },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(120_000),
    });
  const texts: string[] = [];
  const made = await post("/tare/v1/sessions", {
    // Enough tools that compacting them pays.
    tools: ["read_file", "search_files", "list_files", "recall", "delegate"],
  });
  const { id } = await made.json();
  for (const script of ["read", "miss", "help", "refuse", "hang"]) {
    const turn = await post(`/tare/v1/sessions/${id}/turns`, { input: `[${script}] ${CANARY}` });
    let text = "";
    for await (const piece of turn.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (script !== "hang" || !piece.includes('"text_delta"')) continue;
      await (await post(`/tare/v1/sessions/${id}/cancel`, {})).body?.cancel();
    }
    texts.push(text);
  }
  const other = await (await post("/tare/v1/sessions", { model: "claude-scripted", tools: [] })).json();
  texts.push(await (await post(`/tare/v1/sessions/${other.id}/turns`, { input: `[say] ${CANARY}` })).text());
  const statuses: number[] = [];
  const call = async (path: string, script: string, more: object = {}, headers: HeadersInit = {}) => {
    const messages = [{ role: "user", content: `[${script}] ${CANARY}` }];
    const answer = await post(path, { model: "scripted-2", messages, ...more }, headers);
    statuses.push(answer.status);
    texts.push(await answer.text());
  };
  const chat = "/v1/chat/completions";
  await call(chat, "say", { stream: true, stream_options: { include_usage: true } });
  await call(chat, "say");
  await call("/v1/messages", "say", { max_tokens: 100 }, { "anthropic-version": "2023-06-01" });
  await call(chat, "refuse");
  await call(chat, "say", {}, { "x-tare": "off" });
  await call(chat, "say", { messages: 5 });
  // A long result, whose middle is removed from the prompt.
  const calls = [{ id: "c", type: "function", function: { name: "look", arguments: `{"at":"${CANARY}"}` } }];
  const long = (script: string) => ({
    messages: [
      { role: "user", content: `[${script}] ${CANARY}` },
      { role: "assistant", content: null, tool_calls: calls },
      { role: "tool", tool_call_id: "c", content: NOTES },
    ],
    tools: [{
      type: "function",
      function: { name: "look", description: CANARY, parameters: { type: "object", properties: {} } },
    }],
  });
  await call(chat, "read", { ...long("read"), stream: true });
  await call(chat, "reject", long("reject"));
  const messages = [{ role: "user", content: `[hang] ${CANARY}` }];
  const left = await post(chat, { model: "scripted-2", messages, stream: true });
  const reader = left.body!.getReader();
  await reader.read();
  await reader.cancel();
  const { code } = await server.end("SIGTERM");
  await upstream.close();
  await receiver.close();
  await Deno.remove(folder, { recursive: true });
  assertEquals([code, statuses], [0, [200, 200, 200, 401, 200, 400, 200, 200]]);
  return { receiver, sent: upstream.headers, texts, id };
}

const ON = { OTEL_DENO: "true" };

function tree(spans: readonly Span[], parent: string, depth = 0): string[] {
  return spans.filter(({ parentSpanId, scope }) => parentSpanId === parent && scope !== "deno")
    .flatMap((span) => {
      const error = span.attributes["error.type"]?.[1];
      const line = "  ".repeat(depth) + span.name + (error === undefined ? "" : ` !${error}`);
      return [line, ...tree(spans, span.spanId, depth + 1)];
    });
}

Deno.test("telemetry: a server reports turns, model calls and tools as the conventions define, without content", async () => {
  const { receiver, sent, texts, id } = await played(ON);
  assert(texts.every((text) => text.includes(CANARY) || text.includes("it must be array")));
  assertEquals(receiver.text().includes(CANARY), false);
  const spans = receiver.spans();
  assertEquals(faultsOfSpans(spans), []);
  assertEquals(faultsOfPoints(receiver.points()), []);
  const own = spans.filter(({ scope }) => scope !== "deno");
  assertEquals(new Set(own.map(({ traceId }) => traceId)), new Set([TRACE]));
  assertEquals(tree(own.filter(({ scope }) => scope === "@tare/server"), PARENT), [
    "invoke_agent tare",
    "  chat scripted-1",
    "  execute_tool read_file",
    "  chat scripted-1",
    "  execute_tool recall",
    "  chat scripted-1",
    "invoke_agent tare",
    "  chat scripted-1",
    "  execute_tool read_file !tool_error",
    "  chat scripted-1",
    "invoke_agent tare",
    "  chat scripted-1",
    "  execute_tool delegate",
    "    invoke_agent subagent",
    "      chat scripted-1",
    "  chat scripted-1",
    "invoke_agent tare !bad_key",
    "  chat scripted-1 !bad_key",
    "invoke_agent tare !cancelled",
    "  chat scripted-1 !cancelled",
    "invoke_agent tare",
    "  chat claude-scripted",
  ]);
  assertEquals(tree(own.filter(({ scope }) => scope === "@tare/gateway"), PARENT), [
    "chat scripted-2",
    "chat scripted-2",
    "chat scripted-2",
    "chat scripted-2 !401",
    "chat",
    "chat !400",
    "chat scripted-2",
    "chat scripted-2",
    // It was refused because of an eviction, and sent again unchanged.
    "chat scripted-2 !400",
    "chat scripted-2",
    "chat scripted-2 !cancelled",
  ]);
  // Every request to the provider is part of its call, and reports that once.
  const chats = own.filter(({ name }) => name.startsWith("chat"));
  const requests = spans.filter(({ scope, kind, name }) => scope === "deno" && kind === 3 && name === "POST");
  assertEquals(
    requests.map(({ parentSpanId }) => parentSpanId).sort(),
    chats.map(({ spanId }) => spanId).sort(),
  );
  assertEquals(
    sent.map((headers) => headers.get("traceparent")).sort(),
    requests.map(({ spanId }) => `00-${TRACE}-${spanId}-01`).sort(),
  );
  const ids = new Set(own.map(({ attributes }) => attributes["gen_ai.conversation.id"]?.[1]));
  assert(ids.has(id));
  const metrics = Map.groupBy(receiver.points(), ({ name }) => name);
  const counted = (name: string, key: string) =>
    metrics.get(name)?.map(({ attributes, value }) => [attributes[key]?.[1], value]).sort();
  assertEquals(counted("tare.rewrites", "tare.rewrite.cause"), [
    // A recall of a huge result is huge as well.
    ...[["ingestion", 2], ["ingestion", 2]],
    ["price", 1],
  ]);
  assertEquals(counted("tare.recalls", ""), [[undefined, 1], [undefined, 1]]);
  assertEquals(counted("tare.fail_opens", "tare.fail_open.cause"), [["request", 2]]);
});

Deno.test("telemetry: content is reported with the conventions' variable, in their format", async () => {
  const { receiver } = await played({ ...ON, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" });
  const spans = receiver.spans();
  assertEquals(faultsOfSpans(spans), []);
  const attributesOf = (scope: string, name: string) =>
    spans.filter((span) => span.scope === scope).flatMap(({ attributes }) =>
      name in attributes ? [JSON.parse(String(attributes[name]![1]))] : []
    );
  const [server, gateway] = ["@tare/server", "@tare/gateway"] as const;
  assertEquals(attributesOf(server, "gen_ai.tool.call.arguments")[0], { path: "notes.txt" });
  assert(attributesOf(server, "gen_ai.tool.call.result")[0].includes(CANARY));
  assertEquals(attributesOf(server, "gen_ai.tool.definitions")[0], [
    ...["list_files", "read_file", "search_files", "recall", "delegate"].map((name) => ({
      type: "function",
      name,
    })),
  ]);
  const message = { role: "assistant", parts: [{ type: "text", content: `Here it is: ${CANARY}.` }] };
  const [first, second] = attributesOf(server, "gen_ai.output.messages").map(([message]) => message);
  const { id } = first.parts[0];
  const called = { type: "tool_call", id, name: "read_file", arguments: { path: "notes.txt" } };
  assertEquals(first, { role: "assistant", parts: [called], finish_reason: "tool_call" });
  assertEquals(second.parts[0].name, "recall");
  const messages = attributesOf(server, "gen_ai.input.messages")[1];
  assertEquals(messages.map(({ role }: { role: string }) => role), ["system", "user", "assistant", "tool"]);
  assertEquals(messages[3].parts.map(({ type, id }: Record<string, string>) => [type, id]), [
    ["tool_call_response", id],
  ]);
  const answers = attributesOf(gateway, "gen_ai.output.messages");
  assertEquals(answers[0], [{ ...message, finish_reason: "stop" }]);
  assertEquals(answers[2], [{ ...message, finish_reason: "end_turn" }]);
  assertEquals(attributesOf(gateway, "gen_ai.input.messages")[0], [
    { role: "user", parts: [{ type: "text", content: `[say] ${CANARY}` }] },
  ]);
});

Deno.test("telemetry: without configuration nothing is sent, and clients' trace headers are forwarded", async () => {
  const { receiver, sent } = await played({});
  assertEquals([...receiver.paths], []);
  const headers = sent.map((headers) => headers.get("traceparent"));
  // The agent's own calls have no trace.
  assertEquals(headers, [...Array(11).fill(null), ...Array(11).fill(TRACEPARENT)]);
});

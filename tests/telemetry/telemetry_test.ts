import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { estimateTokens, type Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { type SimulatedReply, type SimulatedRequest, simulator, toolCall } from "@tare/simulator";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { CONTENT, faultsOfPoints, faultsOfSpans } from "./conventions.ts";
import { otlpReceiver, type Span } from "./otlp_receiver.ts";

/** Stands in every text that only the conversation's parties may see. */
const CANARY = "canary-5b1f";

/** A model that follows the script that the last thing the user said names, step by step. */
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
      if (step === 1 && ref) return { tool_calls: [toolCall("recall", { ref, pattern: CANARY })] };
      return calls("read_file", { path: "notes.txt" });
    case "miss":
      return calls("read_file", { path: `${CANARY}.txt` });
    case "help":
      return calls("delegate", { task: `[say] ${CANARY}` });
    case "refuse":
      return { fault: { type: "error", status: 401, message: `No ${CANARY} for you.` } };
    case "hang":
      return { fault: { type: "stall", afterChunks: 3 }, ...answer };
    default:
      return answer;
  }
}

function textOf(message: Message | undefined): string {
  return JSON.stringify(message?.content ?? "");
}

/** A provider on loopback that keeps the headers it gets. */
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

/** Where the client's own span stands. */
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";
const TRACEPARENT = `00-${TRACE}-${PARENT}-01`;

/** What comes of a session with everything in it: turns of the agent, then calls that pass through. */
async function played(env: Readonly<Record<string, string>>) {
  const folder = await Deno.makeTempDir();
  const workspace = join(folder, "work");
  await Deno.mkdir(workspace);
  await Deno.writeTextFile(join(workspace, "notes.txt"), `Notes of ${CANARY}.\n`.repeat(3_000));
  const upstream = provider();
  const receiver = otlpReceiver();
  const server = await startProcess(
    ["--port", "0", "--workspace", workspace, "--data", join(folder, "data")],
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/json",
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
    });
  const texts: string[] = [];
  const made = await post("/v1/sessions", { tools: ["read_file", "recall", "delegate"] });
  const { id } = await made.json();
  for (const script of ["read", "miss", "help", "refuse", "hang"]) {
    const turn = await post(`/v1/sessions/${id}/turns`, { input: `[${script}] ${CANARY}` });
    let text = "";
    for await (const piece of turn.body!.pipeThrough(new TextDecoderStream())) {
      text += piece;
      if (script !== "hang" || !piece.includes('"text_delta"')) continue;
      await (await post(`/v1/sessions/${id}/cancel`, {})).body?.cancel();
    }
    texts.push(text);
  }
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
  const { code } = await server.end("SIGTERM");
  await upstream.close();
  await receiver.close();
  await Deno.remove(folder, { recursive: true });
  assertEquals([code, statuses], [0, [200, 200, 200, 401, 200, 400]]);
  return { receiver, sent: upstream.headers, texts, id };
}

const ON = { OTEL_DENO: "true" };

/** The spans in a span, and those in them, a line each: name and class of error. */
function tree(spans: readonly Span[], parent: string, depth = 0): string[] {
  return spans.filter(({ parentSpanId, scope }) => parentSpanId === parent && scope !== "deno")
    .flatMap((span) => {
      const error = span.attributes["error.type"]?.[1];
      const line = "  ".repeat(depth) + span.name + (error === undefined ? "" : ` !${error}`);
      return [line, ...tree(spans, span.spanId, depth + 1)];
    });
}

Deno.test("a server tells of turns, model calls and tools as the conventions say, and nothing of what was said", async () => {
  const { receiver, sent, texts, id } = await played(ON);
  assert(texts.every((text) => text.includes(CANARY) || text.includes("must be array")));
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
    "    invoke_agent helper",
    "      chat scripted-1",
    "  chat scripted-1",
    "invoke_agent tare !bad_key",
    "  chat scripted-1 !bad_key",
    "invoke_agent tare !cancelled",
    "  chat scripted-1 !cancelled",
  ]);
  assertEquals(tree(own.filter(({ scope }) => scope === "@tare/gateway"), PARENT), [
    "chat scripted-2",
    "chat scripted-2",
    "chat scripted-2",
    "chat scripted-2 !401",
    "chat",
    "chat !400",
  ]);
  // Every request to the provider is part of the call that made it, and says so once.
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
  const sums = Map.groupBy(receiver.points(), ({ name }) => name);
  const counted = (name: string, key: string) =>
    sums.get(name)?.map(({ attributes, value }) => [attributes[key]?.[1], value]).sort();
  assertEquals(counted("tare.rewrites", "tare.rewrite.cause"), [["arrival", 1], ["price", 3]]);
  assertEquals(counted("tare.recalls", ""), [[undefined, 1]]);
  assertEquals(counted("tare.fail_opens", "tare.fail_open.cause"), [["request", 1]]);
});

Deno.test("what was said is told by the variable that the conventions have for it, in their form", async () => {
  const { receiver } = await played({ ...ON, OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT: "true" });
  const spans = receiver.spans();
  assertEquals(faultsOfSpans(spans), []);
  const told = (name: string) =>
    spans.flatMap(({ attributes }) => name in attributes ? [JSON.parse(String(attributes[name]![1]))] : []);
  for (const name of CONTENT) assert(told(name).length > 0, name);
});

Deno.test("without configuration nothing is sent, and what clients say of their trace passes through", async () => {
  const { receiver, sent } = await played({});
  assertEquals([...receiver.paths], []);
  const told = sent.map((headers) => headers.get("traceparent"));
  // The agent's own calls belong to nobody's trace.
  assertEquals(told, [...Array(10).fill(null), ...Array(6).fill(TRACEPARENT)]);
});

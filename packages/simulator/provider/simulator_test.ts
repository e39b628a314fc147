import { assert, assertEquals } from "@std/assert";
import { countRequestTokens, type Message, type ToolDefinition } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import {
  type Fault,
  scripted,
  type SimulatedReply,
  type Simulator,
  simulator,
  type SimulatorOptions,
  toolCall,
} from "@tare/simulator";

const characters = { encode: (text: string) => Array.from(text, (character) => character.charCodeAt(0)) };
const count = (text: string) => characters.encode(text).length;
const tool: ToolDefinition = { type: "function", function: { name: "f", description: "d".repeat(2000) } };
const hello: Message = { role: "user", content: "hello" };

const echo = ({ messages }: { readonly messages: readonly Message[] }): SimulatedReply => ({
  content: `${messages.length} messages`,
});

function provider(options: Partial<SimulatorOptions> = {}): Simulator {
  return simulator({ model: echo, tokenizer: characters, ...options });
}

interface Post {
  readonly model?: string;
  readonly messages?: readonly Message[];
  readonly tools?: readonly ToolDefinition[];
  readonly prompt_cache_key?: string;
  readonly stream?: boolean;
  readonly stream_options?: { readonly include_usage: boolean };
}

function post(to: Simulator, body: Post = {}, headers: Record<string, string> = {}): Promise<Response> {
  const text = JSON.stringify({ model: "m", messages: [hello], ...body });
  return to.fetch(
    new Request("http://provider/v1/chat/completions", { method: "POST", body: text, headers }),
  );
}

async function usages(to: Simulator, bodies: readonly Post[]): Promise<[number, number][]> {
  const seen: [number, number][] = [];
  for (const body of bodies) {
    const { usage } = await (await post(to, body)).json();
    seen.push([usage.prompt_tokens, usage.prompt_tokens_details.cached_tokens]);
  }
  return seen;
}

async function events(response: Response) {
  const text = await response.text();
  return text.split("\n\n").filter((line) => line !== "").map((line) => {
    assert(line.startsWith("data: "));
    return line === "data: [DONE]" ? "[DONE]" : JSON.parse(line.slice("data: ".length));
  });
}

async function refusal(response: Response) {
  const { error } = await response.json();
  return [response.status, error.code, error.message];
}

Deno.test("simulator() returns a chat completion", async () => {
  const to = provider({
    model: scripted([{ content: "Hm.", reasoning_content: "Why?", tool_calls: [toolCall("f", { a: 1 })] }]),
    now: () => 7_000,
  });
  const body = await (await post(to, { tools: [tool] })).json();
  const id = body.choices[0].message.tool_calls[0].id;
  assert(/^call_\w+_0$/.test(id), id);
  const promptTokens = countRequestTokens({ messages: [hello], tools: [tool] }, count);
  assertEquals(body, {
    id: "chatcmpl-0",
    object: "chat.completion",
    created: 7,
    model: "m",
    choices: [{
      index: 0,
      message: {
        role: "assistant",
        content: "Hm.",
        reasoning_content: "Why?",
        tool_calls: [{ id, type: "function", function: { name: "f", arguments: '{"a":1}' } }],
      },
      finish_reason: "tool_calls",
      logprobs: null,
    }],
    usage: {
      prompt_tokens: promptTokens,
      completion_tokens: 3 + 4 + 1 + 7,
      total_tokens: promptTokens + 15,
      prompt_tokens_details: { cached_tokens: 0 },
      completion_tokens_details: { reasoning_tokens: 4 },
    },
  });
  assertEquals(to.requests, [{
    model: "m",
    messages: [hello],
    tools: [tool],
    atMs: 7_000,
    promptTokens,
    status: 200,
    cachedTokens: 0,
    outputTokens: 15,
  }]);
});

Deno.test("simulator() streams usage only if requested", async () => {
  const to = provider();
  const streamed = await events(await post(to, { stream: true }));
  assertEquals(streamed.map((event) => event.choices?.[0].delta ?? event), [
    { role: "assistant", content: "" },
    { content: "1 messages" },
    {},
    "[DONE]",
  ]);
  assertEquals(streamed.some((event) => "usage" in Object(event)), false);
  const received = await events(await post(to, { stream: true, stream_options: { include_usage: true } }));
  assertEquals(received.map((event) => event.usage?.prompt_tokens ?? event.usage), [
    null,
    null,
    null,
    9,
    undefined,
  ]);
});

Deno.test("simulator() lists its models and rejects others", async () => {
  const list = async (to: Simulator) => {
    const body = await (await to.fetch(new Request("http://provider/v1/models"))).json();
    return body.data.map((model: { id: string }) => model.id);
  };
  const two = provider({ model: { a: echo, b: () => ({ content: "I am b" }) } });
  assertEquals([await list(provider()), await list(two)], [["simulated"], ["a", "b"]]);
  assertEquals((await (await post(two, { model: "b" })).json()).choices[0].message.content, "I am b");
  for (const model of ["c", "toString"]) {
    assertEquals(await refusal(await post(two, { model })), [
      404,
      "model_not_found",
      `The model "${model}" does not exist; there is a, b.`,
    ]);
  }
});

Deno.test("simulator() rejects unknown routes", async () => {
  const ask = (method: string, path: string) =>
    provider().fetch(new Request(`http://provider${path}`, { method }));
  assertEquals(await refusal(await ask("GET", "/v1/embeddings")), [
    404,
    "unknown_url",
    "Cannot GET /v1/embeddings: there is POST /v1/chat/completions, /v1/responses and /v1/messages, and GET /v1/models.",
  ]);
  const wrongMethod = await ask("GET", "/v1/chat/completions");
  assertEquals(wrongMethod.headers.get("allow"), "POST");
  assertEquals(await refusal(wrongMethod), [
    405,
    null,
    "Cannot GET /v1/chat/completions: only POST is allowed.",
  ]);
  const broken = await ask("POST", "/v1/chat/completions");
  assertEquals((await refusal(broken)).slice(0, 2), [400, null]);
});

Deno.test("simulator() checks a configured key", async () => {
  const to = provider({ apiKey: "right" });
  const status = async (headers: Record<string, string>) => (await post(to, {}, headers)).status;
  assertEquals(
    [
      await status({}),
      await status({ authorization: "Bearer wrong" }),
      await status({ authorization: "Bearer right" }),
    ],
    [401, 401, 200],
  );
});

Deno.test("simulator() serves a growing prompt from its cache, in the profile's blocks", async () => {
  const system: Message = { role: "system", content: "s".repeat(2000) };
  const bodies = [[system, hello], [system, hello, hello], [hello], [system]].map((messages) => ({
    messages,
  }));
  assertEquals(await usages(provider(), bodies), [
    [2013, 0],
    [2022, 1920],
    [9, 0],
    [2004, 1920],
  ]);
  assertEquals(await usages(provider({ profile: profileNamed("none") }), bodies.slice(0, 2)), [[2013, 0], [
    2022,
    0,
  ]]);
});

Deno.test("simulator() misses the cache after a changed tool and separates keys and models", async () => {
  const system: Message = { role: "system", content: "s".repeat(5000) };
  const other: ToolDefinition = { type: "function", function: { name: "g", description: "d".repeat(2000) } };
  const messages = [system];
  const cached = async (to: Simulator, body: Post, headers?: Record<string, string>) =>
    (await (await post(to, { messages, ...body }, headers)).json()).usage.prompt_tokens_details.cached_tokens;
  const to = provider({ profile: profileNamed("anthropic-5m") });
  assertEquals(await cached(to, { tools: [tool] }), 0);
  const all = countRequestTokens({ messages, tools: [tool] }, count);
  assertEquals(await cached(to, { tools: [tool] }), all - 1);
  assertEquals(await cached(to, { tools: [other] }), 0);
  assertEquals(await cached(to, { tools: [tool, other] }), JSON.stringify(tool).length);
  assertEquals(await cached(to, { tools: [tool], model: "n" }), 0);
  assertEquals(await cached(to, { tools: [tool] }, { authorization: "Bearer other" }), 0);
});

Deno.test("simulator() stores the caches of 16 keys and models and evicts the least recently used", async () => {
  const to = provider({ profile: profileNamed("local") });
  const messages: Message[] = [{ role: "user", content: "x".repeat(100) }];
  const cached = async (key: number) =>
    (await (await post(to, { messages }, { authorization: `Bearer ${key}` })).json()).usage
      .prompt_tokens_details.cached_tokens > 0;
  const seen = [];
  for (const key of [...Array(16).keys(), 0, 16, 0, 2, 1]) seen.push(await cached(key));
  assertEquals(seen.slice(16), [true, false, true, true, false]);
});

Deno.test("simulator() preserves empty call ids and unknown fields", async () => {
  const call = { type: "function", function: { name: "f", arguments: "{}" } } as const;
  const reply = {
    content: "Looking.",
    tool_calls: [{ ...call, id: "" }, { ...call, id: "mine" }],
    signature: "s",
  };
  const to = provider({ model: () => reply });
  assertEquals((await (await post(to)).json()).choices[0].message, { role: "assistant", ...reply });
  const silent = provider({ model: () => ({ tool_calls: [] }) });
  assertEquals((await (await post(silent)).json()).choices[0].message, { role: "assistant", content: null });
});

Deno.test("simulator() evicts a prefix after its time to live", async () => {
  let nowMs = 0;
  const to = provider({ profile: profileNamed("anthropic-5m"), now: () => nowMs });
  const body = { messages: [{ role: "user", content: "x".repeat(2000) } as const] };
  const seen: [number, number][] = [];
  for (const minutes of [0, 4, 9, 14.1]) {
    nowMs = minutes * 60_000;
    seen.push(...await usages(to, [body]));
  }
  assertEquals(seen, [[2004, 0], [2004, 2003], [2004, 2003], [2004, 0]]);
});

Deno.test("simulator() reports cache usage in the profile's format", async () => {
  const body = { messages: [{ role: "user", content: "x".repeat(2000) } as const] };
  const cacheFields = async (options: Partial<SimulatorOptions>) => {
    const to = provider(options);
    await post(to, body);
    const { usage } = await (await post(to, body)).json();
    return [usage.prompt_cache_hit_tokens, usage.prompt_cache_miss_tokens, usage.cache_read_input_tokens];
  };
  assertEquals(await cacheFields({ profile: profileNamed("deepseek") }), [1984, 20, undefined]);
  assertEquals(await cacheFields({ profile: profileNamed("anthropic-5m") }), [undefined, undefined, 2003]);
  assertEquals(await cacheFields({}), [undefined, undefined, undefined]);
  assertEquals(await cacheFields({ dialect: "deepseek" }), [1920, 84, undefined]);
});

Deno.test("simulator() fails as configured, and a rejected request caches nothing", async () => {
  const faults: (Fault | null)[] = [
    { type: "rate_limit", retryAfterMs: 20 },
    { type: "error", status: 503 },
    { type: "prompt_too_long" },
    null,
    { type: "cut" },
  ];
  const to = provider({ faults });
  const body = { messages: [{ role: "user", content: "x".repeat(2000) } as const] };
  const codes = [];
  for (let request = 0; request < 3; request++) codes.push((await refusal(await post(to, body))).slice(0, 2));
  assertEquals(codes, [[429, "rate_limit_exceeded"], [503, null], [400, "context_length_exceeded"]]);
  assertEquals(await usages(to, [body]), [[2004, 0]]);
  await post(to, { messages: [{ role: "user", content: "y".repeat(2000) }] }); // ends early but is cached
  assertEquals(await usages(to, [{ messages: [{ role: "user", content: "y".repeat(2000) }] }]), [[
    2004,
    1920,
  ]]);
  assertEquals(to.requests.map(({ status, cachedTokens }) => [status, cachedTokens]), [
    [429, 0],
    [503, 0],
    [400, 0],
    [200, 0],
    [200, 0],
    [200, 1920],
  ]);
});

Deno.test("simulator() accepts faults from a function and from the model's replies", async () => {
  const to = provider({
    model: scripted([
      { fault: { type: "error", message: "Overloaded." } },
      { tool_calls: [toolCall("f", { a: 1 })], fault: { type: "malformed_arguments" } },
      { content: "Silent.", fault: { type: "no_usage" } },
    ]),
    faults: ({ index, promptTokens }) => index === 3 ? { type: "error", message: `${promptTokens}` } : null,
  });
  assertEquals(await refusal(await post(to)), [500, null, "Overloaded."]);
  const mangled = await (await post(to)).json();
  assertEquals(mangled.choices[0].message.tool_calls[0].function.arguments, '{"a":1');
  assertEquals((await (await post(to)).json()).usage, undefined);
  assertEquals(await refusal(await post(to)), [500, null, "9"]);
  assertEquals(await refusal(await post(to)), [
    400,
    "script_exhausted",
    "Cannot reply: all 3 replies of the script have been given.",
  ]);
});

Deno.test("simulator() rejects a prompt that exceeds its context window", async () => {
  const to = provider({ windowTokens: 10 });
  assertEquals((await post(to)).status, 200);
  assertEquals(await refusal(await post(to, { messages: [{ role: "user", content: "hello there" }] })), [
    400,
    "context_length_exceeded",
    "The prompt is too long: the model reads 10 tokens at most, and it has 15. Please reduce the length of the messages.",
  ]);
});

Deno.test("simulator() reports a failure of its model", async () => {
  const to = provider({
    model: () => {
      throw new Error("out of ideas");
    },
  });
  assertEquals(await refusal(await post(to)), [
    500,
    null,
    "Cannot reply: the simulated model failed (Error: out of ideas).",
  ]);
});

Deno.test("simulator() generates call ids that depend only on the prompt", async () => {
  const to = provider({ model: () => ({ tool_calls: [toolCall("f"), toolCall("f")] }) });
  const ids = async (messages: readonly Message[]) => {
    const body = await (await post(to, { messages })).json();
    return body.choices[0].message.tool_calls.map((call: { id: string }) => call.id);
  };
  const first = await ids([hello]);
  assertEquals(await ids([hello]), first);
  assertEquals(new Set([...first, ...await ids([hello, hello])]).size, 4);
});

Deno.test("simulator() retains the newest requests only", async () => {
  const to = provider();
  for (let request = 0; request < 1001; request++) await post(to, { model: `${request}` });
  assertEquals([to.requests.length, to.requests[0]?.model, to.requests.at(-1)?.model], [1000, "1", "1000"]);
});

Deno.test("simulator() handles concurrent requests", async () => {
  const waiting: (() => void)[] = [];
  const to = provider({
    profile: profileNamed("anthropic-5m"),
    model: ({ messages }) =>
      new Promise((resolve) => waiting.push(() => resolve({ content: `${messages.length}` }))),
  });
  const long: Message = { role: "user", content: "x".repeat(2000) };
  const pending = [[long], [long, hello]].map((messages) => post(to, { messages }));
  while (waiting.length < 2) await Promise.resolve();
  for (const answer of waiting.reverse()) answer();
  const bodies = await Promise.all(pending.map(async (response) => (await response).json()));
  assertEquals(bodies.map((body) => body.choices[0].message.content), ["1", "2"]);
  assertEquals(to.requests.map((request) => request.cachedTokens), [0, 0]); // neither reply began before the other request arrived
});

Deno.test("simulator() with shards routes equal prefixes with one key to one shard and overflow to others", async () => {
  let nowMs = 0;
  const to = provider({ shards: 8, now: () => nowMs });
  const served = async (key: string, times: number) =>
    (await usages(to, Array(times).fill({ tools: [tool], prompt_cache_key: key })))
      .map(([, cached]) => cached > 0);
  assertEquals(await served("a", 15), [false, ...Array(14).fill(true)]);
  assertEquals(await served("a", 1), [false]);
  nowMs += 60_000;
  assertEquals(await served("a", 15), Array(15).fill(true));
});

Deno.test("simulator() rejects invalid chat completions and reports the first violation", async () => {
  const user = { role: "user", content: "Hi" };
  const call = (id: string) => ({ id, type: "function", function: { name: "f", arguments: "{}" } });
  const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "ok" });
  const calling = { role: "assistant", tool_calls: [call("a"), call("b")] };
  const stray = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'";
  const lacking = (ids: string) => `tool_call_ids did not have response messages: ${ids}`;
  const faults: readonly (readonly [object | string, string])[] = [
    ["{", "Cannot read the request: "],
    [[], "the body must be an object"],
    [{}, "Invalid type for 'messages'"],
    [{ messages: [] }, "[] is too short - 'messages'"],
    [{ messages: [user], model: "" }, "You must provide a model parameter."],
    [{ messages: [user], n: 2 }, "Only one choice (n) is simulated."],
    [{ messages: [{ role: "user" }] }, "messages[0].content is missing"],
    [{ messages: [{ ...user, content: 5 }] }, "Invalid type for 'messages[0].content'"],
    [{ messages: [{ ...user, role: "model" }] }, "Invalid value: 'model'"],
    [{ messages: [{ role: "tool", content: "" }] }, "messages[0].tool_call_id must be a string"],
    [
      { messages: [{ role: "assistant", tool_calls: [{ id: "a", type: "function" }] }] },
      "messages[0].tool_calls[0].function must be an object",
    ],
    [
      { messages: [{ role: "user", content: [{ type: "image_url", image_url: {} }] }] },
      "messages[0].content.image_url.url must be a string",
    ],
    [{ messages: [user], tools: [{ type: "function" }] }, "tools[0].function must be an object"],
    [{ messages: [user, result("a")] }, stray],
    [{ messages: [user, calling] }, lacking("a,b")],
    [{ messages: [user, calling, result("a"), user, result("b")] }, lacking("b")],
    [{ messages: [user, calling, result("a"), result("a"), result("b")] }, stray],
    [{ messages: [user, calling, result("a"), result("b"), result("b")] }, stray],
    [{ messages: [user, calling, result("c")] }, stray],
  ];
  for (const [body, message] of faults) {
    const text = typeof body === "string" || Array.isArray(body)
      ? JSON.stringify(body)
      : JSON.stringify({ model: "m", ...body });
    const request = new Request("http://provider/v1/chat/completions", {
      method: "POST",
      body: body === "{" ? body : text,
    });
    const response = await provider().fetch(request);
    const { error } = await response.json();
    assertEquals(
      [response.status, error.message.replace("openai: ", "").startsWith(message)],
      [400, true],
      error.message,
    );
  }
});

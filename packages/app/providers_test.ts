import { assertEquals, assertRejects } from "@std/assert";
import { listPrice, profileNamed } from "@tare/planner";
import { configuredModels, isDemo, priceOf, type ProviderSettings, serverProfile } from "./providers.ts";
import { readSettings } from "./settings/settings.ts";

const OPENAI = "https://api.openai.com/v1";
const ANTHROPIC = "https://api.anthropic.com";

const settings = (environment: Record<string, string>): ProviderSettings => readSettings([], environment);

function routes(environment: Record<string, string>, models: readonly string[]): string[][] {
  const { address, profile } = configuredModels(settings({ TARE_MODEL: "m", ...environment }));
  return models.map((model) => [model, address(model), profile(model).name]);
}

Deno.test("configuredModels() sends every model to the only provider", () => {
  assertEquals(routes({ ANTHROPIC_API_KEY: "k" }, ["", "claude-sonnet-5", "other"]), [
    ["", ANTHROPIC, "anthropic-5m"],
    ["claude-sonnet-5", ANTHROPIC, "anthropic-5m"],
    ["other", ANTHROPIC, "anthropic-5m"],
  ]);
  assertEquals(routes({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1" }, ["other"]), [
    ["other", "http://127.0.0.1:1", "anthropic-5m"],
  ]);
  assertEquals(routes({ OPENAI_API_KEY: "k" }, ["", "gpt-5.5", "claude-sonnet-5"]), [
    ["", OPENAI, "openai"],
    ["gpt-5.5", OPENAI, "openai-24h"],
    ["claude-sonnet-5", OPENAI, "anthropic-5m"],
  ]);
});

Deno.test("configuredModels() with two providers sends each model to its own", () => {
  const both = { OPENAI_API_KEY: "a", ANTHROPIC_API_KEY: "b" };
  assertEquals(routes(both, ["Claude-opus-5", "gpt-5.5", "anthropic/claude-opus-5", "deepseek-chat"]), [
    ["Claude-opus-5", ANTHROPIC, "anthropic-5m"],
    ["gpt-5.5", OPENAI, "openai-24h"],
    // A vendor prefix is that of a gateway.
    ["anthropic/claude-opus-5", OPENAI, "anthropic-5m"],
    ["deepseek-chat", OPENAI, "deepseek"],
  ]);
  assertEquals(routes({ ...both, TARE_PROFILE: "anthropic-1h" }, ["claude-opus-5"]), [
    ["claude-opus-5", ANTHROPIC, "anthropic-1h"],
  ]);
});

Deno.test("priceOf() returns the configured price, else the list price, and none for local models", () => {
  const price = (environment: Record<string, string>, profile: string, model: string) =>
    priceOf(settings(environment), () => profileNamed(profile))(model);
  assertEquals(price({}, "openai", "gpt-5"), listPrice("gpt-5"));
  assertEquals([price({}, "none", "other"), price({}, "local", "gpt-5")], [undefined, undefined]);
  const own = { input: 1, output: 2 };
  assertEquals(price({ TARE_PRICE: "input=1,output=2" }, "local", "gpt-5"), own);
  const file = { profile: { path: "p", profile: { ...profileNamed("openai"), price: own } } };
  const ofFile = priceOf(file, () => profileNamed("openai"));
  assertEquals(ofFile("other"), own);
  // Factors and tools are the model's unless the file has its own.
  const { tiers = {}, tools = {} } = listPrice("gpt-5")!;
  assertEquals(ofFile("gpt-5"), { tiers, tools, ...own });
  const prices = { "openai/gpt-5": { input: 3, output: 4, tiers: {} }, other: { input: 5, output: 6 } };
  const byModel = priceOf({ profile: { prices }, price: own }, () => profileNamed("openai"));
  assertEquals(byModel("gpt-5-2025-08-07"), { tools, ...prices["openai/gpt-5"] });
  assertEquals([byModel("other"), byModel("another")], [prices.other, own]);
});

Deno.test("configuredModels() returns the configured window, else the reported, else the published one", () => {
  const server = {
    name: () => undefined,
    windowTokens: (model: string) => model === "here" ? 9_000 : undefined,
  };
  const windows = (environment: Record<string, string>) => {
    const { windowTokens } = configuredModels(settings({ TARE_MODEL: "m", ...environment }), server);
    return ["here", "gpt-5", "claude-sonnet-5", "other"].map(windowTokens);
  };
  const chat = { OPENAI_API_KEY: "a" };
  assertEquals(windows(chat), [9_000, 272_000, 1_000_000, 128_000]);
  assertEquals(windows({ ...chat, TARE_WINDOW: "5000" }), [5_000, 5_000, 5_000, 5_000]);
  assertEquals(windows({ ANTHROPIC_API_KEY: "b" }), [128_000, 272_000, 1_000_000, 128_000]);
});

Deno.test("configuredModels() reads a window from an error", async () => {
  const message = "This model's maximum context length is 40960 tokens. However, you requested 50000 tokens.";
  const refusing = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => Response.json({ error: { message, code: "context_length_exceeded" } }, { status: 400 }),
  );
  const models = configuredModels(settings({
    TARE_MODEL: "gpt-5",
    OPENAI_API_KEY: "sk-secret",
    OPENAI_BASE_URL: `http://127.0.0.1:${refusing.addr.port}/v1`,
  }));
  const asking = async () => {
    const { signal } = new AbortController();
    for await (const _ of models.ask("gpt-5")({ messages: [], tools: [], signal }));
  };
  const before = models.windowTokens("gpt-5");
  await assertRejects(asking, Error, "maximum context length is 40960 tokens");
  assertEquals([before, models.windowTokens("gpt-5"), models.windowTokens("gpt-5.5")], [
    272_000,
    40_960,
    922_000,
  ]);
  await refusing.shutdown();
});

Deno.test("configuredModels() retries an overloaded provider longer than an SDK does", async () => {
  let requests = 0;
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, () => {
    if (requests++ < 6) return new Response(null, { status: 429, headers: { "retry-after-ms": "1" } });
    return Response.json({ error: { message: "Enough." } }, { status: 400 });
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const { ask } = configuredModels(settings({
    ...{ TARE_MODEL: "m", OPENAI_BASE_URL: `${url}/v1` },
    ...{ ANTHROPIC_API_KEY: "k", ANTHROPIC_BASE_URL: url },
  }));
  for (const model of ["gpt-5.5", "claude-sonnet-5"]) {
    requests = 0;
    const { signal } = new AbortController();
    const asking = async () => {
      for await (const _ of ask(model)({ messages: [], tools: [], signal }));
    };
    await assertRejects(asking, Error, "Enough");
    assertEquals(requests, 7);
  }
  await server.shutdown();
});

Deno.test("configuredModels() uses the configured protocol, else that of address and model", async () => {
  const requests: unknown[] = [];
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, async (request) => {
    const { model, reasoning, include, thinking, messages } = await request.json();
    const { pathname } = new URL(request.url);
    const more = pathname.endsWith("/messages") ? { thinking } : { reasoning, include };
    requests.push([model, pathname, JSON.stringify(more), messages?.at(-1)?.reasoning_content ?? null]);
    return Response.json({ error: { message: "Enough." } }, { status: 400 });
  });
  const url = `http://127.0.0.1:${server.addr.port}`;
  const asking = async (model: string, more: Record<string, string> = {}) => {
    const models = configuredModels(settings({
      ...{ TARE_MODEL: "m", OPENAI_BASE_URL: `${url}/v1`, ANTHROPIC_BASE_URL: url },
      ...more,
    }));
    const { signal } = new AbortController();
    const messages = [{ role: "user", content: "Hi" }, { role: "assistant", content: "Yes." }] as const;
    await assertRejects(async () => {
      for await (const _ of models.ask(model)({ messages, tools: [], signal }));
    });
  };
  await asking("gpt-5.5");
  await asking("gpt-5.5", { TARE_PROTOCOL: "responses" });
  await asking("gpt-4.1", { TARE_PROTOCOL: "responses" });
  await asking("deepseek-v4-pro");
  await asking("claude-sonnet-5");
  await asking("claude-opus-4-1");
  await asking("claude-sonnet-5", { TARE_PROTOCOL: "chat", ANTHROPIC_BASE_URL: "" });
  await asking("glm-5.3", { TARE_PROTOCOL: "messages" });
  await server.shutdown();
  const sealed = { reasoning: { summary: "auto" }, include: ["reasoning.encrypted_content"] };
  const adaptive = { thinking: { type: "adaptive", display: "summarized" } };
  assertEquals(requests, [
    ["gpt-5.5", "/v1/chat/completions", "{}", null],
    ["gpt-5.5", "/v1/responses", JSON.stringify(sealed), null],
    ["gpt-4.1", "/v1/responses", "{}", null],
    ["deepseek-v4-pro", "/v1/chat/completions", "{}", " "],
    ["claude-sonnet-5", "/v1/messages", JSON.stringify(adaptive), null],
    ["claude-opus-4-1", "/v1/messages", "{}", null],
    ["claude-sonnet-5", "/v1/chat/completions", "{}", null],
    ["glm-5.3", "/v1/messages", "{}", null],
  ]);
});

Deno.test("isDemo() returns true only if no provider is configured", () => {
  assertEquals(isDemo(settings({})), true);
  // The gateway's address alone doesn't configure an agent.
  assertEquals(isDemo(settings({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1" })), true);
  assertEquals(isDemo(settings({ ANTHROPIC_API_KEY: "k" })), false);
  assertEquals(isDemo(settings({ OPENAI_BASE_URL: "http://127.0.0.1:1/v1" })), false);
  assertEquals(isDemo(settings({ ANTHROPIC_BASE_URL: "http://127.0.0.1:1", TARE_MODEL: "m" })), false);
});

const HERE = "http://127.0.0.1:8080/v1/";
const list = (...owners: unknown[]) =>
  Response.json({ object: "list", data: owners.map((owned_by) => ({ id: "m", object: "model", owned_by })) });

function asking(...answers: readonly (Response | Error)[]) {
  const waiting = [...answers];
  const requests: [string, string | null][] = [];
  let nowMs = 0;
  const server = serverProfile({
    baseURL: HERE,
    apiKey: "k",
    now: () => nowMs,
    fetch: (input, init) => {
      requests.push([String(input), new Headers(init?.headers).get("authorization")]);
      const answer = waiting.shift() ?? new Error("no more");
      return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer);
    },
  });
  return { server, requests, pass: (ms: number) => nowMs += ms };
}

Deno.test("serverProfile() detects a local server by its models", async () => {
  for (
    const [owners, name] of [
      [["llamacpp"], "local"],
      [["vllm", "vllm"], "local"],
      [["sglang"], "local"],
      [["library"], "local"],
      [["organization_owner"], "local"],
      [["vllm", "openai"], undefined],
      [[undefined], undefined],
    ] as const
  ) {
    const { server, requests } = asking(list(...owners));
    await server.probed();
    assertEquals([server.name(), requests], [name, [[`${HERE}models`, "Bearer k"]]]);
    await server.close();
  }
});

Deno.test("serverProfile() returns the windows of models, and for a local server that of the only one", async () => {
  const data = [{ id: "m", owned_by: "vllm", max_model_len: 40_960 }];
  const { server: own } = asking(Response.json({ data }));
  const { server: others } = asking(Response.json({ data: [...data, { id: "n", owned_by: "openai" }] }));
  const windows = [];
  for (const server of [own, others]) {
    await server.probed();
    windows.push(["m", "n"].map(server.windowTokens));
    await server.close();
  }
  assertEquals(windows, [[40_960, 40_960], [40_960, undefined]]);
});

Deno.test("serverProfile() retries after a while, without waiting, until there is a list", async () => {
  const { server, requests, pass } = asking(
    new TypeError("refused"),
    Response.json({}),
    new Response("<html>"),
    list("vllm"),
  );
  const names: unknown[] = [];
  for (let time = 0; time < 6; time++) {
    names.push(server.name());
    names.push(server.name());
    await server.probed();
    pass(30_000);
  }
  assertEquals([names.slice(0, 8), names.slice(8), requests.length], [
    Array(8).fill(undefined),
    Array(4).fill("local"),
    4,
  ]);
  await server.close();
});

Deno.test("serverProfile() sends no request to a provider with a known address", async () => {
  const fetch = () => Promise.reject(new Error("was asked"));
  for (const baseURL of ["https://api.openai.com/v1", "https://api.deepseek.com"]) {
    const server = serverProfile({ baseURL, fetch });
    await server.probed();
    assertEquals(server.name(), undefined);
  }
});

Deno.test("serverProfile() stops waiting after its timeout", async () => {
  const server = serverProfile({
    baseURL: HERE,
    fetch: (_, init) =>
      new Promise((_, reject) => init?.signal?.addEventListener("abort", () => reject(init.signal?.reason))),
  });
  assertEquals(server.name(), undefined);
  await server.close();
  assertEquals(server.name(), undefined);
});

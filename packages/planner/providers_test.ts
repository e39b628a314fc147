import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { chooseProfile, listPrice, listWindow, profileNamed, readTooLong } from "@tare/planner";
import {
  EXAMPLE_MODELS,
  modelProtocolOf,
  MODELS_DATE,
  profileForTtl,
  PROFILES,
  readModelList,
  searchesTools,
} from "@tare/planner/internal";
import { MODELS, recognizeProfile } from "./providers.ts";
import { FILES, needs } from "../../tests/needs.ts";

Deno.test("profileNamed() returns each profile by its name", () => {
  assertEquals(Object.keys(PROFILES).map((name) => profileNamed(name).name), Object.keys(PROFILES));
});

Deno.test("profileNamed() throws for an unknown name, listing the known ones", () => {
  for (const name of ["antropic", "toString", ""]) {
    assertThrows(
      () => profileNamed(name),
      RangeError,
      `Cannot use profile ${
        JSON.stringify(name)
      }: unknown name. Use one of anthropic-5m, anthropic-1h, openai, openai-24h, openai-5.6, deepseek, gemini, grok, glm, kimi, qwen, mistral, minimax, local, none`,
    );
  }
});

Deno.test("PROFILES have priors that fall with idle time", () => {
  for (const { cacheLifetime } of Object.values(PROFILES)) {
    assertEquals(
      cacheLifetime.toSorted((a, b) => a.idleMs - b.idleMs || b.probability - a.probability),
      cacheLifetime,
    );
    assertEquals(
      cacheLifetime.map(({ probability }) => probability).toSorted((a, b) => b - a),
      cacheLifetime.map((w) => w.probability),
    );
  }
});

Deno.test("chooseProfile() goes by name, then by the server's list, model and address, otherwise none", () => {
  const cases: [Parameters<typeof chooseProfile>[0], string][] = [
    [{ name: "deepseek", model: "claude-opus-4", baseUrl: "https://api.openai.com/v1" }, "deepseek"],
    [{ model: "claude-opus-4", baseUrl: "https://openrouter.ai/api/v1" }, "anthropic-5m"],
    [{ model: "anthropic/claude-sonnet-4" }, "anthropic-5m"],
    [{ model: "gpt-4o" }, "openai"],
    [{ model: "openai/gpt-5.5" }, "openai"],
    [{ model: "gpt-5.6-mini" }, "openai-5.6"],
    [{ model: "gpt-6" }, "openai-5.6"],
    [{ model: "gpt-3.5-turbo" }, "none"],
    [{ model: "o3" }, "openai"],
    [{ model: "deepseek-chat" }, "deepseek"],
    [{ model: "gemini-3-pro" }, "gemini"],
    [{ model: "qwen.gguf" }, "local"],
    [{ model: "qwen3", baseUrl: "http://localhost:11434/v1" }, "local"],
    [{ model: "qwen3", baseUrl: "http://127.0.0.1:8000/v1" }, "none"],
    [{ model: "gpt-5", baseUrl: "http://127.0.0.1:8000/v1" }, "openai"],
    [{ model: "deepseek-r1", baseUrl: "http://localhost:1234/v1" }, "local"],
    [{ model: "us.anthropic.claude-sonnet-4-5-20250929-v1:0" }, "anthropic-5m"],
    [{ model: "claude-opus-4-1@20250805" }, "anthropic-5m"],
    [{ model: "openai/gpt-6-sol", baseUrl: "https://openrouter.ai/api/v1" }, "openai-5.6"],
    [{ model: "x-ai/grok-4.7" }, "grok"],
    [{ model: "grok-code-fast-1" }, "grok"],
    [{ model: "z-ai/glm-5.3" }, "glm"],
    [{ model: "zai-org/GLM-4.6" }, "glm"],
    [{ model: "moonshotai/kimi-k2.6" }, "kimi"],
    [{ model: "moonshot-v1-128k" }, "kimi"],
    [{ model: "qwen/qwen3-coder" }, "qwen"],
    [{ model: "qwen3.7-max-2026-05-20" }, "qwen"],
    [{ model: "mistralai/mistral-large-2512" }, "mistral"],
    [{ model: "devstral-medium-latest" }, "mistral"],
    [{ model: "MiniMax-M3" }, "minimax"],
    [{ model: "deepseek-r1-distill-qwen-32b" }, "deepseek"],
    [{ model: "our-deployment", baseUrl: "https://us.openai.azure.com/openai/v1" }, "openai"],
    [{ model: "our-deployment", baseUrl: "https://openrouter.ai/api/v1" }, "none"],
    [{ baseUrl: "https://api.x.ai/v1" }, "grok"],
    [{ baseUrl: "https://open.bigmodel.cn/api/paas/v4" }, "glm"],
    [{ baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1" }, "qwen"],
    [{ baseUrl: "https://max.ai/v1" }, "none"],
    [{ model: "gpt-oss:20b", baseUrl: "http://localhost:11434/v1" }, "local"],
    [{ model: "test", baseUrl: "http://127.0.0.1:8080/v1" }, "none"],
    [{ baseUrl: "https://api.openai.com/v1" }, "openai"],
    [{ baseUrl: "https://api.openai.com/v1/", model: "gpt-5.1" }, "openai-24h"],
    [{ baseUrl: "https://api.openai.com/v1", model: "gpt-4o" }, "openai"],
    [{ baseUrl: "http://127.0.0.1:8080/v1", model: "gpt-5.1" }, "openai"],
    [{ baseUrl: "https://api.anthropic.com/v1/" }, "anthropic-5m"],
    [{ baseUrl: "https://api.deepseek.com" }, "deepseek"],
    [{ baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai/" }, "gemini"],
    [{ baseUrl: "https://notopenai.com" }, "none"],
    [{ server: "local", model: "deepseek-r1", baseUrl: "http://localhost:8000/v1" }, "local"],
    [{ name: "none", server: "local" }, "none"],
    [{ server: undefined, model: "gpt-4o" }, "openai"],
    [{ baseUrl: "no url" }, "none"],
    [{}, "none"],
  ];
  assertEquals(cases.map(([hints]) => chooseProfile(hints).name), cases.map(([, name]) => name));
});

Deno.test("recognizeProfile() goes by reported writes, then by blocks, and returns nothing without cached tokens", () => {
  const usage = (cachedTokens: number) => ({ promptTokens: 5_000, cachedTokens, outputTokens: 1 });
  assertEquals(recognizeProfile(usage(0)), undefined);
  assertEquals(recognizeProfile({ ...usage(1_280), cacheWriteTokens: 0 }), "anthropic-5m");
  assertEquals([1_280, 1_344, 1_360, 1_361].map((tokens) => recognizeProfile(usage(tokens))), [
    "openai",
    "deepseek",
    "local",
    "gemini",
  ]);
});

Deno.test("recognizeProfile() goes by the reported lifetime of writes", () => {
  const wrote = (cacheWriteTokens: number, hourWriteTokens: number) => ({
    promptTokens: 2_000,
    cachedTokens: 0,
    outputTokens: 1,
    cacheWriteTokens,
    hourWriteTokens,
  });
  const known = [undefined, "anthropic-5m", "anthropic-1h", "openai"] as const;
  const recognized = known.map((name) =>
    [wrote(500, 0), wrote(500, 300), wrote(500, 500), wrote(0, 0)].map((usage) =>
      recognizeProfile(usage, name && profileNamed(name))
    )
  );
  const expected = ["anthropic-5m", "anthropic-5m", "anthropic-1h", undefined];
  assertEquals(recognized, [expected, expected, expected, [undefined, undefined, undefined, undefined]]);
});

Deno.test("profileForTtl() returns the same provider's profile for a lifetime", () => {
  const named = (name: string, ttlMs: number) => profileForTtl(profileNamed(name), ttlMs).name;
  assertEquals([0, 300_000, 3_600_000, 5].map((ttlMs) => named("anthropic-5m", ttlMs)), [
    "none",
    "anthropic-5m",
    "anthropic-1h",
    "anthropic-5m",
  ]);
  assertEquals(named("openai", 0), "openai");
});

Deno.test("readModelList() recognizes lists of local servers only", () => {
  const list = (...owners: readonly unknown[]) => ({
    object: "list",
    data: owners.map((owned_by) => ({ id: "m", owned_by })),
  });
  const local = ["llamacpp", "vllm", "sglang", "library", "organization_owner"];
  assertEquals(local.map((owner) => readModelList(list(owner, owner)).profile), local.map(() => "local"));
  const others = [
    list(),
    list("openai"),
    list("vllm", "openai"),
    list(undefined),
    { data: [null] },
    { data: "vllm" },
    {},
    null,
    3,
  ];
  assertEquals(others.map((list) => readModelList(list).profile), others.map(() => undefined));
});

Deno.test("listWindow() goes by the model's name and the window in its suffix", () => {
  const names = [
    "claude-sonnet-4-5",
    "anthropic/claude-sonnet-4-5[1m]",
    "gpt-5-2025-08-07",
    "gpt-oss:20b",
    "x[1m]",
  ];
  assertEquals(names.map(listWindow), [200_000, 1_000_000, 272_000, undefined, undefined]);
});

Deno.test("readModelList() reads the fields of each kind of server", () => {
  const data = [
    { id: "openrouter", context_length: 163_840, top_provider: { context_length: 9 } },
    { id: "groq", context_window: 131_072 },
    { id: "mistral", max_context_length: 32_768 },
    { id: "vllm", max_model_len: 40_960 },
    { id: "lm-studio", max_context_length: 131_072, loaded_context_length: 4_096 },
    { id: "llama.cpp", meta: { n_ctx_train: 131_072, n_params: 8 } },
    { id: "llama.cpp, newer", meta: { n_ctx_train: 131_072, n_ctx: 8_192 } },
    { id: "text", context_length: "65536" },
  ];
  const windows = [163_840, 131_072, 32_768, 40_960, 4_096, 131_072, 8_192, 65_536];
  assertEquals([...readModelList({ data }).windows], data.map(({ id }, at) => [id, windows[at]!]));
  const nothing = [{ id: "a" }, { context_length: 4_096 }, { id: "b", context_length: 0 }, {
    id: "c",
    meta: null,
  }];
  for (const list of [{ data: nothing }, { data: [null, 3] }, { data: "m" }, {}, null]) {
    assertEquals(readModelList(list).windows.size, 0);
  }
});

Deno.test("readTooLong() parses providers' errors about too long prompts, and no others", () => {
  const errors: [string, ReturnType<typeof readTooLong>][] = [
    ["prompt is too long: 210000 tokens > 200000 maximum", { windowTokens: 200_000, promptTokens: 210_000 }],
    // Room for the reply is no room for the prompt.
    ["input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000, decrease one", {
      windowTokens: 168_000,
      promptTokens: 190_000,
    }],
    ["This model's maximum context length is 131072 tokens. However, you requested 140000 tokens", {
      windowTokens: 131_072,
    }],
    [
      "This model's maximum context length is 131072 tokens. However, you requested 140000 tokens (132000 in the " +
      "messages, 8000 in the completion). Please reduce the length of the messages or completion.",
      { windowTokens: 123_072, promptTokens: 132_000 },
    ],
    [
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130000 tokens.",
      {
        windowTokens: 128_000,
        promptTokens: 130_000,
      },
    ],
    ["This model's maximum context length is 4096 tokens. However, your request has 5000 input tokens.", {
      windowTokens: 4_096,
      promptTokens: 5_000,
    }],
    [
      "This endpoint's maximum context length is 200000 tokens. However, you requested about 215000 tokens (205000 of " +
      "text input, 10000 in the output).",
      { windowTokens: 190_000, promptTokens: 205_000 },
    ],
    ["This model's maximum prompt length is 131072 but the request contains 537812 tokens.", {
      windowTokens: 131_072,
      promptTokens: 537_812,
    }],
    ["Input tokens exceed the configured limit of 272,000 tokens. Your messages resulted in 300000 tokens.", {
      windowTokens: 272_000,
      promptTokens: 300_000,
    }],
    ["The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", {
      windowTokens: 1_048_576,
      promptTokens: 1_200_000,
    }],
    ["Prompt contains 40000 tokens, too large for model with 32768 maximum context length", {
      windowTokens: 32_768,
      promptTokens: 40_000,
    }],
    ["The decoder prompt (length 5000) is longer than the maximum model length of 4096.", {
      windowTokens: 4_096,
      promptTokens: 5_000,
    }],
    ["request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it", {
      windowTokens: 4_096,
      promptTokens: 5_000,
    }],
    ["The prompt is too long: the model reads 8000 tokens at most, and it has 9000", {
      windowTokens: 8_000,
      promptTokens: 9_000,
    }],
    ["prompt token count of 70000 exceeds the limit of 64000", {
      windowTokens: 64_000,
      promptTokens: 70_000,
    }],
    ["Your request exceeded model token limit: 8192", { windowTokens: 8_192 }],
    ["Your input exceeds the context window of this model. Please adjust your input and try again.", {}],
    [
      '{"error":{"code":"context_length_exceeded","message":"Please reduce the length of the messages."}}',
      {},
    ],
    ["the input length exceeds the context length", {}],
    ["Input is too long for requested model.", {}],
    ["max_tokens: 70000 > 64000, which is the maximum allowed number of output tokens", undefined],
    ["max_tokens is too large: 200000. This model supports at most 16384 completion tokens", undefined],
    ["Rate limit reached: Limit 30000 tokens per min, Used 29000, Requested 2000", undefined],
    ["prompt is too long: 3 tokens > 2 maximum", { promptTokens: 3 }],
    ["", undefined],
  ];
  assertEquals(errors.map(([message]) => [message, readTooLong(message)]), errors);
});

Deno.test("listPrice() recognizes a model's name with a vendor before it and a date after it", () => {
  const names = [
    "claude-sonnet-4-5",
    "claude-sonnet-4-5-20250929",
    "anthropic/claude-sonnet-4-5-latest",
    "Claude-Sonnet-4-5@20250929",
    "claude-sonnet-4-5[1m]",
    "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "us-gov.anthropic.claude-sonnet-4-5",
    "global.anthropic.claude-sonnet-4-5-v1",
    "bedrock/eu.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "claude-sonnet-4-5@default",
    "anthropic/claude-sonnet-4.5",
    "anthropic/claude-4.5-sonnet-20250929",
    "~anthropic/claude-sonnet-4.5:nitro",
    "anthropic/claude-sonnet-4.5:thinking",
    "vertex_ai/claude-sonnet-4-5@20250929",
  ];
  for (const name of names) assertEquals(listPrice(name), MODELS["claude-sonnet-4-5"]?.price, name);
  assertEquals(listPrice("gpt-5.4-mini-2026-03-17"), MODELS["gpt-5.4-mini"]?.price);
  assertEquals(listPrice("anthropic/claude-opus-4.6"), MODELS["claude-opus-4-6"]?.price);
  assertEquals(listPrice("anthropic/claude-3.5-haiku-20241022"), MODELS["claude-3-5-haiku"]?.price);
  assertEquals(listPrice("google/gemini-3-pro-preview"), MODELS["gemini-3-pro"]?.price);
  assertEquals(listPrice("x-ai/grok-4.7"), MODELS["grok-4.7"]?.price);
  assertEquals(listPrice("MiniMax-M3"), MODELS["minimax-m3"]?.price);
  assertEquals([listPrice("kimi-k2.6"), listPrice("glm-5.3")], [
    MODELS["kimi-k2.6"]?.price,
    MODELS["glm-5.3"]?.price,
  ]);
});

Deno.test("listPrice() returns nothing for a name that is only similar", () => {
  const names = [
    "",
    "gpt-5-turbo",
    "deepseek-r1:8b",
    "claude",
    "toString",
    "gpt-oss:20b",
    "gpt-5\u0000",
    "glm-5.3:free",
    "claude-sonnet-4.5-fast",
    "claude-sonnet-4.50",
  ];
  for (const name of [...names, "-latest".repeat(200_000)]) assertEquals(listPrice(name), undefined);
});

Deno.test("listPrice() returns the price of fast mode for a name that requests it", () => {
  const { input, output, cacheRead, cacheWrite, cacheWriteHour } = listPrice(
    "anthropic/claude-opus-4.6-fast",
  )!;
  assertEquals([input, output, cacheRead, cacheWrite, cacheWriteHour], [30, 150, 3, 37.5, 60]);
  assertEquals(listPrice("anthropic/claude-4.6-opus-fast-20260407")?.input, 30);
  assertEquals(listWindow("anthropic/claude-opus-5-fast"), 1_000_000);
});

Deno.test({
  ...needs(FILES, "docs/providers.md states the date of MODELS"),
  async fn() {
    const docs = await Deno.readTextFile(new URL("../../docs/providers.md", import.meta.url));
    assertStringIncludes(docs.replaceAll("\n", " "), `list price of ${MODELS_DATE}`);
  },
});

Deno.test("MODELS are dated, and ordered by provider", () => {
  assert(Date.parse(MODELS_DATE) > 0);
  for (
    const [name, { windowTokens, price }] of Object.entries(MODELS)
  ) {
    const { input, output, cacheRead = input, cacheWrite = input, cacheWriteHour = cacheWrite } = price;
    assert(
      0 < cacheRead && cacheRead <= input && input <= cacheWrite && cacheWrite <= cacheWriteHour &&
        input < output,
      name,
    );
    assertEquals([listPrice(name), listWindow(name)], [price, windowTokens]);
    assert(windowTokens > (price.long?.aboveTokens ?? 100_000), name);
  }
});

Deno.test("EXAMPLE_MODELS have a price and are models of their profile's provider", () => {
  for (const [name, model] of Object.entries(EXAMPLE_MODELS)) {
    assert(listPrice(model), model);
    assertEquals(chooseProfile({ model }).dialect, profileNamed(name).dialect, model);
    assertEquals(chooseProfile({ model }).name.split("-")[0], name.split("-")[0]);
  }
});

Deno.test("PROFILES read their models at a published price or less", () => {
  const ratios = new Map<string, number[]>();
  for (const [model, { price: { input, cacheRead = input } }] of Object.entries(MODELS)) {
    const { name } = chooseProfile({ model });
    ratios.set(name, [...ratios.get(name) ?? [], cacheRead / input]);
  }
  for (const name of ["grok", "glm", "kimi", "minimax"]) {
    const { read } = profileNamed(name);
    const least = Math.min(...ratios.get(name)!);
    assert(read > 0.9 * least && read <= least + 1e-9, `${name} reads at ${read}, and the least is ${least}`);
  }
});

Deno.test("searchesTools() recognizes Anthropic's address, and the models with tool search", () => {
  const at = (model: string, baseURL?: string) =>
    searchesTools({ model, ...(baseURL !== undefined && { baseURL }) });
  const searching = [
    "claude-sonnet-4-20250514",
    "claude-opus-4-8",
    "claude-haiku-4-5",
    "claude-fable-5-1",
    "anthropic/claude-opus-5-5",
  ];
  const others = ["claude-3-7-sonnet-latest", "claude-3-5-haiku", "claude-haiku-4", "gpt-5.5", "claude", ""];
  assertEquals(searching.map((model) => at(model)), searching.map(() => true));
  assertEquals(others.map((model) => at(model)), others.map(() => false));
  const addresses = [
    "https://api.anthropic.com/v1",
    "https://api.anthropic.com/v1/",
    "https://bedrock-runtime.us-east-1.amazonaws.com/v1",
    "http://localhost:1/v1",
  ];
  assertEquals(addresses.map((address) => at("claude-opus-5", address)), [true, true, false, false]);
});

Deno.test("modelProtocolOf() returns each model's reasoning options, and the addresses with Responses", () => {
  const baseURL = "https://api.openai.com/v1/";
  const of = (model: string, at = baseURL) => {
    const { protocol, efforts, reasoning, thinking } = modelProtocolOf({ model, baseURL: at });
    return [protocol, efforts?.join(" "), reasoning ?? thinking];
  };
  assertEquals(
    ["gpt-6-sol", "gpt-5.6-luna", "gpt-5.5", "gpt-5.5-pro", "gpt-5.3-codex", "gpt-5-mini-2025-08-07", "o3"]
      .map((
        model,
      ) => of(model).slice(1)),
    [
      ["none low medium high xhigh max", "sealed"],
      ["none low medium high xhigh max", "sealed"],
      ["none low medium high xhigh", "sealed"],
      ["medium high xhigh", "sealed"],
      ["low medium high xhigh", "sealed"],
      ["minimal low medium high", "sealed"],
      ["low medium high", "sealed"],
    ],
  );
  assertEquals([of("gpt-4o-mini"), of("gpt-5-chat-latest")], [
    ["responses", "", undefined],
    ["responses", "", undefined],
  ]);
  assertEquals(of("openai/gpt-5.1", "https://openrouter.ai/api/v1"), [
    "chat",
    "none low medium high",
    "sealed",
  ]);
  assertEquals(
    [
      "us.anthropic.claude-opus-4-8-v1:0",
      "claude-haiku-5-5",
      "claude-sonnet-4-6",
      "claude-opus-4-5-20251101",
      "claude-3-5-haiku",
    ]
      .map((model) => of(model).slice(1)),
    [
      ["low medium high xhigh max", "adaptive"],
      ["low medium high xhigh max", "adaptive"],
      ["low medium high max", "adaptive"],
      ["low medium high", "budget"],
      ["", undefined],
    ],
  );
  const deepseek = "https://api.deepseek.com/v1";
  assertEquals([
    of("deepseek-v4-pro", deepseek),
    of("deepseek-chat", deepseek),
    of("moonshotai/kimi-k3", deepseek),
  ], [
    ["chat", "high max", "some"],
    ["chat", undefined, undefined],
    ["chat", undefined, "some"],
  ]);
  // The reasoning of every model of these vendors is known.
  const unknown = Object.keys(MODELS).filter((model) =>
    /^(claude|gpt|o\d)/.test(model) && modelProtocolOf({ model, baseURL }).efforts === undefined
  );
  assertEquals(unknown, []);
});

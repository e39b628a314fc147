import { assert, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";
import { type CallParams, tare } from "./ai_sdk.ts";
import type { PromptMessage } from "./types.ts";
import { optionsWith } from "./fixture_test.ts";
import { tare as langchain } from "./langchain.ts";
import { tare as mastra } from "./mastra.ts";

const MARK = {
  anthropic: { cacheControl: { type: "ephemeral" } },
  bedrock: { cachePoint: { type: "default" } },
};
const OWN = { anthropic: { cacheControl: { type: "ephemeral", ttl: "1h" } } };
const CLAUDE = { ...optionsWith(), profile: profileNamed("anthropic-5m") };

const system: PromptMessage = { role: "system", content: "You review builds." };
const user: PromptMessage = {
  role: "user",
  content: [{ type: "text" }].map((part) => ({ ...part, text: "Why?" })),
};

function step(id: string): PromptMessage[] {
  const call = { toolCallId: id, toolName: "read" };
  return [
    { role: "assistant", content: [{ type: "tool-call", ...call, input: {} }].map((part) => part) },
    {
      role: "tool",
      content: [{ type: "tool-result", ...call, output: { type: "text", value: `Line ${id}.` } }].map((
        part,
      ) => part),
    },
  ];
}

async function requestsBy(
  calls: readonly CallParams[],
  { modelId = "claude-sonnet-5", profile = CLAUDE.profile } = {},
): Promise<readonly CallParams[]> {
  const requests: CallParams[] = [];
  const model = {
    specificationVersion: "v4",
    modelId,
    doGenerate(params: CallParams) {
      requests.push(params);
      return Promise.resolve({ content: [], usage: {} });
    },
    doStream: () => Promise.reject(new Error("nobody streams")),
  };
  const adapter = tare({ ...CLAUDE, profile, model });
  for (const call of calls) await adapter.model.doGenerate(call);
  return requests;
}

function markedIn({ prompt }: CallParams): number[] {
  return prompt.flatMap(({ providerOptions }, at) =>
    Object(providerOptions).anthropic?.cacheControl ? [at] : []
  );
}

Deno.test("tare() sets breakpoints at the end, at the end of the earlier request and after the instructions, in each step", async () => {
  const history = [system, user, ...step("a"), ...step("b"), ...step("c")];
  const requests = await requestsBy([2, 4, 6, 8].map((length) => ({ prompt: history.slice(0, length) })));
  assertEquals(requests.map(markedIn), [[0, 1], [0, 1, 3], [0, 3, 5], [0, 5, 7]]);
  assertEquals(requests[1]?.prompt[3], { ...history[3]!, providerOptions: MARK });
  assertEquals(requests[1]?.prompt[2], history[2]);
  const [hour] = await requestsBy([{ prompt: history }], { profile: profileNamed("anthropic-1h") });
  assertEquals(hour?.prompt.at(-1)?.providerOptions, { ...MARK, ...OWN });
});

Deno.test("tare() sets no breakpoints if the provider caches automatically or the client requests automatic ones", async () => {
  const prompt = [system, user, ...step("a")];
  const others = await requestsBy([{ prompt }], { modelId: "gpt-5.5", profile: profileNamed("openai") });
  const automatic = await requestsBy([{ prompt, providerOptions: OWN }]);
  for (const [call] of [others, automatic]) assertEquals(call?.prompt, prompt);
});

Deno.test("tare() sets at most four breakpoints including the client's, which it preserves", async () => {
  const marked = (message: PromptMessage): PromptMessage => ({ ...message, providerOptions: OWN });
  const [call, result] = step("a");
  const part = { type: "text", text: "Why?", providerOptions: OWN };
  for (let own = 0; own <= 6; own++) {
    const places = [
      marked(system),
      { role: "user", content: [part, part].slice(0, Math.max(1, own - 1)) },
      call!,
      result!,
      ...step("b"),
      ...step("c"),
    ];
    const prompt = own === 0
      ? [system, user, ...places.slice(2)]
      : [...places.slice(0, 2), ...places.slice(2)];
    const tools = own > 3 ? [{ type: "function", name: "f", inputSchema: {}, providerOptions: OWN }] : [];
    const [request] = await requestsBy([{ prompt, tools }]);
    const count = JSON.stringify([request?.prompt, request?.tools]).split('"cacheControl"').length - 1;
    assert(count <= 4 && count >= 3, `${count} for ${own}`);
    for (const [at, message] of prompt.entries()) {
      if (JSON.stringify(message).includes("cacheControl")) assertEquals(request?.prompt[at], message);
    }
  }
});

Deno.test("tare() for Mastra sets breakpoints in Claude's prompts", async () => {
  const { processor } = mastra({ ...CLAUDE, model: "claude-sonnet-5" });
  const prompt = [system, user, ...step("a")];
  const made = await processor.processLLMRequest({
    prompt,
    model: { modelId: "claude-sonnet-5" },
    state: {},
  });
  assertEquals(markedIn(made), [0, 1, 3]);
});

Deno.test("tare() for LangChain requests a breakpoint from Claude's class unless the client did", async () => {
  const settingsFor = async (model: object, given: object = {}, block: object = {}) => {
    const adapter = langchain({ ...CLAUDE, model: "claude-sonnet-5" });
    let settings: unknown;
    const call = {
      model,
      messages: [{ type: "human", content: [{ type: "text", text: "Why?", ...block }] }],
      systemMessage: { type: "system", content: "" },
      tools: [],
      runtime: {},
      ...given,
    };
    await adapter.wrapModelCall(call, (call) => {
      settings = (call as { readonly modelSettings?: unknown }).modelSettings;
      return { type: "ai", content: "Because." };
    });
    return settings;
  };
  const claude = { getName: () => "ChatAnthropic" };
  const mark = { type: "ephemeral" };
  assertEquals(await settingsFor(claude), { cache_control: mark });
  assertEquals(await settingsFor(claude, { modelSettings: { top_k: 1 } }), { top_k: 1, cache_control: mark });
  assertEquals(await settingsFor({ _defaultConfig: { modelProvider: "anthropic" } }), {
    cache_control: mark,
  });
  assertEquals(await settingsFor({ getName: () => "ChatOpenAI" }), undefined);
  assertEquals(await settingsFor(claude, {}, { cache_control: mark }), undefined);
  const hour = { cache_control: { ...mark, ttl: "1h" } };
  assertEquals(await settingsFor(claude, { modelSettings: hour }), hour);
});

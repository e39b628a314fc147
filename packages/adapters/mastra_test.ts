import { assert, assertEquals, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { LONG, type Options, optionsWith } from "./fixture_test.ts";
import { tare } from "./mastra.ts";

function adapterWith(options: Options = {}) {
  return tare({ model: MODEL, ...optionsWith(options) });
}

const MODEL = { modelId: "m" };

function promptWith(value: string) {
  const output = { type: "text", value };
  return [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [
        { type: "text", text: "Look." },
        { type: "file", mediaType: "image/png", data: new Uint8Array(3) },
        { type: "file", mediaType: "image/png", data: new URL("https://a.b/c.png") },
        { type: "file", mediaType: "application/pdf", data: "base64" },
      ],
    },
    { role: "assistant", content: [{ type: "tool-call", toolCallId: "1", toolName: "read", input: {} }] },
    { role: "tool", content: [{ type: "tool-result", toolCallId: "1", toolName: "read", output }] },
  ];
}

Deno.test("tare() passes unchanged messages as the same objects", async () => {
  const { processor } = adapterWith();
  const prompt = promptWith("short");
  const { prompt: seen } = await processor.processLLMRequest({ prompt, model: MODEL, state: {} });
  assertEquals(seen.length, prompt.length);
  seen.forEach((message, at) => assertStrictEquals(message, prompt[at]));
});

Deno.test("tare() truncates a huge result, with a recall hint if the tool is available", async () => {
  const prompt = promptWith(LONG);
  for (const isThere of [false, true]) {
    const { processor, tools: { recall } } = adapterWith();
    const state = {};
    const read = { description: "Reads.", inputSchema: recall.inputSchema };
    processor.processInputStep({ state, tools: { read, bare: {}, ...(isThere && { recall }) } });
    const { prompt: seen } = await processor.processLLMRequest({ prompt, model: MODEL, state });
    const [part] = seen[3]?.content as readonly { readonly output: { readonly value: string } }[];
    const text = part?.output.value ?? "";
    assert(text.length < LONG.length / 2);
    assertStringIncludes(text, "[elided: middle of read result");
    assertEquals(text.includes("recall with ref"), isThere, text.match(/\[[^\]]*ref[^\]]*\]/)?.[0]);
  }
  assertEquals(prompt, promptWith(LONG));
});

Deno.test("tare() records reported usage, and nothing without a model call", async () => {
  const adapter = adapterWith();
  const { processor } = adapter;
  const state = {};
  processor.processInputStep({ state });
  await processor.processLLMRequest({ prompt: promptWith("short"), model: MODEL, state });
  const respond = (
    chunks: readonly { readonly type: string; readonly payload: unknown }[],
    fromCache = false,
  ) => processor.processLLMResponse({ chunks, state, fromCache });
  const usage = { inputTokens: 20, cachedInputTokens: 5, outputTokens: 2 };
  const finish = { type: "finish", payload: { output: { usage } } };
  await respond([finish], true);
  await processor.processLLMResponse({ chunks: [finish], state: {}, fromCache: false });
  assertEquals(adapter.ledger, []);
  await respond([{ type: "text-delta", payload: {} }, finish]);
  await respond([{ type: "finish", payload: { output: { usage: { inputTokens: 20 } } } }]);
  await respond([]);
  const [first, second, third] = adapter.ledger.map(({ usage }) => usage);
  assertEquals(first, { promptTokens: 20, cachedTokens: 5, outputTokens: 2 });
  assertEquals(second, { promptTokens: 20, cachedTokens: 0, outputTokens: 0 });
  assertEquals(third?.estimated, true);
});

Deno.test("tare() retries a step whose prompt is rejected as too long, in the thread's conversation", async () => {
  const names: string[] = [];
  const store = { load: (key: string) => void names.push(key), save: () => {} };
  const { processor } = adapterWith({ store });
  const requestContext = new Map([["MastraMemory", { thread: { id: "thread 1" } }]]);
  const state = {};
  await processor.processLLMRequest({ prompt: promptWith("short"), model: MODEL, state, requestContext });
  assertEquals(names, ["thread 1"]);
  const tooLong = { error: new Error("prompt is too long: 15000 tokens > 10000 maximum"), state };
  assertEquals(await processor.processAPIError({ ...tooLong, retryCount: 0 }), { retry: true });
  assertEquals(await processor.processAPIError({ ...tooLong, retryCount: 1 }), { retry: false });
  const other = { error: new Error("Overloaded"), state, retryCount: 0 };
  assertEquals(await processor.processAPIError(other), { retry: false });
});

import { assert, assertEquals, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { memoryArchive } from "@tare/prune";
import { LONG, optionsWith } from "./fixture_test.ts";
import { type AdapterOptions, mastraAdapter } from "./mastra.ts";

function adapterWith(options: Partial<AdapterOptions> = {}) {
  return mastraAdapter(optionsWith(options));
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

Deno.test("mastraAdapter() hands on the very messages that the plan leaves as they are", async () => {
  const { processor } = adapterWith();
  const prompt = promptWith("short");
  const { prompt: seen } = await processor.processLLMRequest({ prompt, model: MODEL, state: {} });
  assertEquals(seen.length, prompt.length);
  seen.forEach((message, at) => assertStrictEquals(message, prompt[at]));
});

Deno.test("mastraAdapter() shows a huge result as head and tail, and says how to recall where the tool is there", async () => {
  const prompt = promptWith(LONG);
  for (const isThere of [false, true]) {
    const { processor, recall } = adapterWith();
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

Deno.test("mastraAdapter() books what is reported, and nothing where nobody was asked", async () => {
  const { processor, ledger } = adapterWith();
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
  assertEquals(ledger, []);
  await respond([{ type: "text-delta", payload: {} }, finish]);
  await respond([{ type: "finish", payload: { output: { usage: { inputTokens: 20 } } } }]);
  await respond([]);
  const [first, second, third] = ledger.map(({ usage }) => usage);
  assertEquals(first, { promptTokens: 20, cachedTokens: 5, outputTokens: 2 });
  assertEquals(second, { promptTokens: 20, cachedTokens: 0, outputTokens: 0 });
  assertEquals(third?.estimated, true);
});

Deno.test("mastraAdapter() goes on where it was with what was stored", async () => {
  const archive = memoryArchive();
  let stored: unknown;
  const store = (state: unknown) => void (stored = structuredClone(state));
  const request = { prompt: promptWith(LONG), model: MODEL };
  const before = await adapterWith({ archive, store }).processor.processLLMRequest({ ...request, state: {} });
  assert(stored !== undefined);
  assertStringIncludes(JSON.stringify(before), "[elided: middle of read result");
  const after = adapterWith({ archive, state: stored, truncateTokens: 1_000_000 });
  assertEquals(await after.processor.processLLMRequest({ ...request, state: {} }), before);
});

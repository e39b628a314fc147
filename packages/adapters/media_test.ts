import { assert, assertEquals, assertLess } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import { type CallParams, tare } from "./ai_sdk.ts";
import type { PromptMessage } from "./types.ts";
import { optionsWith } from "./fixture_test.ts";
import { type LangChainMessage, tare as langchain } from "./langchain.ts";
import { tare as mastra } from "./mastra.ts";
import { tare as agents } from "./openai_agents.ts";

interface Payload {
  readonly data: string;
  readonly bytes: Uint8Array;
}

const payloads: fc.Arbitrary<Payload> = fc.record({
  length: fc.integer({ min: 1_000, max: 400_000 }),
  seed: fc.nat(250),
  of: fc.constantFrom("noise", "zeros"),
}).map(({ length, seed, of }) => {
  const bytes = Uint8Array.from(
    { length },
    (_, at) => of === "zeros" ? 0 : (at * at + seed * (at >> 3)) % 251,
  );
  return { data: base64Of(bytes), bytes };
});

function base64Of(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (one) => String.fromCharCode(one)).join(""));
}

function isWhole(got: unknown, { data }: Payload): boolean {
  const text = JSON.stringify(got, (_, value) => value instanceof Uint8Array ? base64Of(value) : value);
  const rest = text.replaceAll(data, "");
  const half = data.length / 2;
  for (const piece of [data.slice(0, 200), data.slice(half, half + 200), data.slice(-200)]) {
    assert(!rest.includes(piece), `${rest.slice(0, 300)} … ${rest.slice(-300)}`);
  }
  return rest.length < text.length;
}

type Build = (payload: Payload) => object;

const PNG = "image/png";

/** Result parts in AI SDK 5, 6 and 7. */
const AI_SDK_PARTS: Readonly<Record<string, Build>> = {
  "5: media": ({ data }) => ({ type: "media", data, mediaType: PNG }),
  "6: image-data": ({ data }) => ({ type: "image-data", data, mediaType: PNG }),
  "6: file-data": ({ data }) => ({ type: "file-data", data, mediaType: "application/pdf" }),
  "6: image-url": ({ data }) => ({ type: "image-url", url: `data:${PNG};base64,${data}` }),
  "6: file-url": ({ data }) => ({ type: "file-url", url: `data:audio/mp3;base64,${data}` }),
  "6: custom": ({ data }) => ({ type: "custom", providerOptions: { any: { data } } }),
  "7: file": ({ data }) => ({ type: "file", data: { type: "data", data }, mediaType: "video/mp4" }),
  "7: file of bytes": ({ bytes }) => ({ type: "file", data: { type: "data", data: bytes }, mediaType: PNG }),
  "later: hologram": ({ data }) => ({ type: "hologram", inner: [data] }),
};

/** Result outputs in AI SDK 5, 6 and 7. */
const AI_SDK_OUTPUTS: Readonly<Record<string, Build>> = {
  ...Object.fromEntries(
    Object.entries(AI_SDK_PARTS).map(([name, part]): [string, Build] => [
      name,
      (payload) => ({ type: "content", value: [{ type: "text", text: "Look." }, part(payload)] }),
    ]),
  ),
  "later output": ({ data }) => ({ type: "hologram", value: data }),
};

/** Outputs that providers read as text. */
const AI_SDK_TEXTS: Readonly<Record<string, Build>> = {
  "text": ({ data }) => ({ type: "text", value: `data:${PNG};base64,${data}` }),
  "error-text": ({ data }) => ({ type: "error-text", value: `Cannot read data:${PNG};base64,${data}.` }),
  "json": ({ data }) => ({
    type: "json",
    value: { path: "a.png", image: data, note: "A picture. ".repeat(50) },
  }),
  "error-json": ({ data }) => ({ type: "error-json", value: { image: `data:${PNG};base64,${data}` } }),
  "execution-denied": ({ data }) => ({ type: "execution-denied", reason: `data:${PNG};base64,${data}` }),
};

const CALL = { toolCallId: "1", toolName: "look" };

function promptOf(
  { user, output, answer }: { readonly user?: object; readonly output: object; readonly answer?: object },
) {
  const parts = (...all: readonly object[]) => all as readonly { readonly type: string }[];
  const prompt: PromptMessage[] = [
    { role: "user", content: parts({ type: "text", text: "Look." }, ...(user ? [user] : [])) },
    {
      role: "assistant",
      content: parts(...(answer ? [answer] : []), { type: "tool-call", ...CALL, input: {} }),
    },
    { role: "tool", content: parts({ type: "tool-result", ...CALL, output }) },
  ];
  return prompt;
}

async function askAiSdk(prompt: readonly PromptMessage[], version: string) {
  const requests: CallParams[] = [];
  const model = {
    specificationVersion: version,
    modelId: "m",
    doGenerate(params: CallParams) {
      requests.push(params);
      return Promise.resolve({ content: [], usage: {} });
    },
    doStream: () => Promise.reject(new Error("nobody streams")),
  };
  const adapter = tare({ ...optionsWith(), model });
  await adapter.model.doGenerate({ prompt });
  return { got: requests[0]!.prompt, tokens: adapter.ledger[0]!.usage.promptTokens };
}

const few = { numRuns: cases(2) };

Deno.test("tare() for the AI SDK: media in a result is complete and counted as media", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      for (const [name, output] of Object.entries(AI_SDK_OUTPUTS)) {
        for (const version of ["v2", "v3", "v4"]) {
          const { got, tokens } = await askAiSdk(promptOf({ output: output(payload) }), version);
          assertEquals(isWhole(got, payload), true, name);
          assertLess(tokens, 1_200 + payload.data.length / 25, name);
        }
      }
    }),
    few,
  );
});

Deno.test("tare() for the AI SDK: data in a text is complete, or omitted if the text is too long", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      for (const [name, output] of Object.entries(AI_SDK_TEXTS)) {
        const { got, tokens } = await askAiSdk(promptOf({ output: output(payload) }), "v3");
        isWhole(got, payload);
        assertLess(tokens, 16_200, name);
      }
    }),
    few,
  );
});

Deno.test("tare() for the AI SDK: attachments and generated images are complete and counted as media", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      const { data, bytes } = payload;
      for (
        const file of [
          { type: "file", data, mediaType: PNG },
          { type: "file", data: bytes, mediaType: "audio/wav" },
          { type: "file", data: { type: "data", data: bytes }, mediaType: "application/pdf" },
          { type: "file", data: new URL(`data:video/mp4;base64,${data}`), mediaType: "video/mp4" },
          { type: "reasoning-file", data: { type: "data", data }, mediaType: PNG },
        ]
      ) {
        const output = { type: "text", value: "Done." };
        const { got, tokens } = await askAiSdk(promptOf({ user: file, answer: file, output }), "v4");
        assertEquals(isWhole(got, payload), true);
        assertLess(tokens, 1_700 + payload.data.length / 12);
      }
    }),
    few,
  );
});

Deno.test("tare() for Mastra: media in a result is complete", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      for (const [name, output] of Object.entries(AI_SDK_OUTPUTS)) {
        const { processor } = mastra({ ...optionsWith(), model: "m" });
        const prompt = promptOf({ output: output(payload) });
        const made = await processor.processLLMRequest({ prompt, model: { modelId: "m" }, state: {} });
        assertEquals(isWhole(made.prompt, payload), true, name);
      }
    }),
    few,
  );
});

/** LangChain blocks: provider-specific, and standard ones of versions 0 and 1. */
const LANGCHAIN_BLOCKS: Readonly<Record<string, Build>> = {
  "image_url": ({ data }) => ({ type: "image_url", image_url: { url: `data:${PNG};base64,${data}` } }),
  "image_url as a string": ({ data }) => ({ type: "image_url", image_url: `data:${PNG};base64,${data}` }),
  "image": ({ data }) => ({ type: "image", mimeType: PNG, data }),
  "image of bytes": ({ bytes }) => ({ type: "image", mimeType: PNG, data: bytes }),
  "image of version 0": ({ data }) => ({ type: "image", source_type: "base64", mime_type: PNG, data }),
  "image of Anthropic": ({ data }) => ({ type: "image", source: { type: "base64", media_type: PNG, data } }),
  "document of Anthropic": ({ data }) => ({
    type: "document",
    source: { type: "base64", media_type: "application/pdf", data },
  }),
  "file": ({ data }) => ({ type: "file", mimeType: "application/pdf", data }),
  "file of OpenAI": ({ data }) => ({
    type: "file",
    file: { file_data: `data:application/pdf;base64,${data}` },
  }),
  "media of Google": ({ data }) => ({ type: "media", mimeType: "audio/wav", data }),
  "audio": ({ data }) => ({ type: "audio", mimeType: "audio/wav", data }),
  "video": ({ data }) => ({ type: "video", mimeType: "video/mp4", data }),
  "input_audio": ({ data }) => ({ type: "input_audio", input_audio: { data, format: "wav" } }),
  "non_standard": ({ data }) => ({ type: "non_standard", value: { data } }),
  "later": ({ data }) => ({ type: "hologram", inner: [data] }),
};

Deno.test("tare() for LangChain: media of users, results and replies is complete and counted as media", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      for (const [name, block] of Object.entries(LANGCHAIN_BLOCKS)) {
        const content = [{ type: "text", text: "Look." }, block(payload)];
        const messages: LangChainMessage[] = [
          { type: "human", content },
          Object.assign({ type: "ai", content }, { tool_calls: [{ id: "1", name: "look", args: {} }] }),
          Object.assign({ type: "tool", content }, { tool_call_id: "1" }),
        ];
        const adapter = langchain({ ...optionsWith(), model: "m" });
        let got: unknown;
        const systemMessage = { type: "system", content: "" };
        await adapter.wrapModelCall(
          { model: "m", messages, systemMessage, tools: [], runtime: {} },
          (call) => {
            got = call.messages;
            return { type: "ai", content: "" };
          },
        );
        assertEquals(isWhole(got, payload), true, name);
        assertLess(adapter.ledger[0]!.usage.promptTokens, 3_000 + payload.data.length / 8, name);
      }
    }),
    few,
  );
});

const AGENTS_BLOCKS: Readonly<Record<string, Build>> = {
  "image": ({ data }) => ({ type: "image", image: `data:${PNG};base64,${data}` }),
  "image of data": ({ data }) => ({ type: "image", image: { data, mediaType: PNG } }),
  "image of bytes": ({ bytes }) => ({ type: "image", image: { data: bytes, mediaType: PNG } }),
  "file": ({ data }) => ({ type: "file", file: { data, mediaType: "application/pdf", filename: "a.pdf" } }),
  "file of bytes": ({ bytes }) => ({
    type: "file",
    file: { data: bytes, mediaType: "application/pdf", filename: "a" },
  }),
  "input_image": ({ data }) => ({ type: "input_image", image: `data:${PNG};base64,${data}` }),
  "input_file": ({ data }) => ({ type: "input_file", file: `data:application/pdf;base64,${data}` }),
  "audio": ({ data }) => ({ type: "audio", audio: data, format: "wav" }),
  "later": ({ data }) => ({ type: "hologram", inner: [data] }),
};

Deno.test("tare() for the OpenAI Agents SDK: media is complete and counted as media", async () => {
  await fc.assert(
    fc.asyncProperty(payloads, async (payload) => {
      const { data } = payload;
      for (const [name, block] of Object.entries(AGENTS_BLOCKS)) {
        for (const output of [block(payload), [{ type: "input_text", text: "Look." }, block(payload)]]) {
          const input = [
            { role: "user", content: [{ type: "input_text", text: "Look." }, block(payload)] },
            { type: "function_call", callId: "1", name: "look", arguments: "{}" },
            { type: "function_call_result", callId: "1", output },
            { type: "computer_call_result", callId: "2", output: { type: "computer_screenshot", data } },
            { type: "hosted_tool_call", name: "image_generation_call", output: data },
          ];
          const requests: { readonly input: unknown }[] = [];
          const model = {
            model: "m",
            getResponse(request: { readonly input: unknown }) {
              requests.push(request);
              return Promise.resolve({ output: [], usage: { inputTokens: 0, outputTokens: 0 } });
            },
            getStreamedResponse: () => {
              throw new Error("nobody streams");
            },
          };
          const adapter = agents({ ...optionsWith(), model });
          await (adapter.model as unknown as { getResponse(request: object): Promise<unknown> })
            .getResponse({ input, tools: [] });
          assertEquals(isWhole(requests[0]?.input, payload), true, name);
          assertLess(adapter.ledger[0]!.usage.promptTokens, 5_000 + payload.data.length / 6, name);
        }
      }
    }),
    few,
  );
});

Deno.test("tare() for the AI SDK: media of old turns stays complete while texts next to it are evicted", async () => {
  const requests: CallParams[] = [];
  const model = {
    specificationVersion: "v3",
    modelId: "m",
    doGenerate(params: CallParams) {
      requests.push(params);
      return Promise.resolve({ content: [], usage: {} });
    },
    doStream: () => Promise.reject(new Error("nobody streams")),
  };
  let nowMs = 0;
  const tools = { look: { stance: "rederivable" } } as const;
  const adapter = tare({ ...optionsWith(), planning: { tools }, now: () => nowMs, model });
  const recall = [{ type: "function", name: "recall", inputSchema: { type: "object" } }];
  const prompt: PromptMessage[] = [];
  const payloads: Payload[] = [];
  for (let turn = 0; turn < 12; turn++) {
    const bytes = Uint8Array.from({ length: 3_000 }, (_, at) => (at * at + turn * at) % 251);
    const payload = { data: base64Of(bytes), bytes };
    payloads.push(payload);
    const image = { type: "content", value: [{ type: "image-data", data: payload.data, mediaType: PNG }] };
    const text = { type: "text", value: `Line of turn ${turn}.\n`.repeat(1_000) };
    prompt.push(...promptOf({ output: image }), ...promptOf({ output: text }));
    prompt.push({
      role: "assistant",
      content: [{ type: "text" }].map((part) => ({ ...part, text: "Seen." })),
    });
    nowMs += 24 * 3_600_000;
    await adapter.model.doGenerate({
      prompt: [...prompt, ...promptOf({ output: text }).slice(0, 1)],
      tools: recall,
    });
    for (const one of payloads) assertEquals(isWhole(requests.at(-1)?.prompt, one), true);
  }
  const sent = JSON.stringify(requests.at(-1)?.prompt);
  assert(sent.includes("[elided") && !sent.includes("Line of turn 0."));
});

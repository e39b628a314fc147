import { assert, assertEquals, assertRejects, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { memoryArchive } from "@tare/prune";
import { LONG, type Options, optionsWith } from "./fixture_test.ts";
import fc from "../../tests/cases.ts";
import { type CallParams, fromAiSdk, tare, toAiSdk } from "./ai_sdk.ts";
import type { PromptMessage } from "./types.ts";

type PromptPart = Exclude<PromptMessage["content"], string>[number];

interface CallRequest extends CallParams {
  readonly usage?: object;
}

class Noting {
  readonly specificationVersion = "v4";
  readonly modelId = "m";
  readonly requests: CallRequest[] = [];
  refuse: ((params: CallRequest) => Error | undefined) | undefined;

  doGenerate(params: CallRequest): Promise<{ readonly content: readonly object[]; readonly usage: object }> {
    this.requests.push(params);
    const error = this.refuse?.(params);
    return error
      ? Promise.reject(error)
      : Promise.resolve({ content: [], usage: params.usage ?? usage(undefined) });
  }

  async doStream(params: CallRequest): Promise<{ readonly stream: ReadableStream<object> }> {
    const { usage } = await this.doGenerate(params);
    return { stream: ReadableStream.from([{ type: "finish", usage }]) };
  }
}

function adapterWith(options: Options = {}) {
  const warnings: string[] = [];
  const noting = new Noting();
  const adapter = tare({
    model: noting,
    ...optionsWith({ warn: (sentence) => warnings.push(sentence), ...options }),
  });
  const sentPrompt = async (
    prompt: readonly PromptMessage[],
    rest: Omit<Partial<CallRequest>, "prompt"> = {},
  ) => {
    await adapter.model.doGenerate({ ...rest, prompt });
    return noting.requests.at(-1)!;
  };
  return { adapter, noting, warnings, sentPrompt };
}

const USER: PromptMessage = { role: "user", content: [text("Look.")] };

const ANSWER: PromptMessage = { role: "assistant", content: [text("Ok.")] };

function text(text: string) {
  return { type: "text", text };
}

function part(part: Readonly<Record<string, unknown>> & { readonly type: string }) {
  return part;
}

function calls(...ids: readonly string[]): PromptMessage {
  const content = ids.map((id) => ({ type: "tool-call", toolCallId: id, toolName: "read", input: { id } }));
  return { role: "assistant", content };
}

function result(id: string, output: unknown) {
  return { type: "tool-result", toolCallId: id, toolName: "read", output };
}

const usage = (total: number | undefined) => ({
  inputTokens: { total, cacheRead: undefined, cacheWrite: 7 },
  outputTokens: { total: undefined },
});

Deno.test("tare() passes unchanged messages as the same objects", async () => {
  const prompt: PromptMessage[] = [
    { role: "system", content: "Be brief." },
    {
      role: "user",
      content: [
        text("Look."),
        { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array(3) } },
        {
          type: "file",
          mediaType: "application/pdf",
          data: { type: "url", url: new URL("https://a.b/c.pdf") },
        },
        { type: "file", mediaType: "text/plain", data: { type: "reference", reference: { a: "b" } } },
      ] as PromptMessage["content"],
    },
    {
      role: "assistant",
      content: [
        { type: "reasoning", text: "Hm." },
        text("I see."),
        { type: "custom", kind: "a.b" },
        ...calls("1", "2", "3", "4").content,
      ] as PromptMessage["content"],
    },
    {
      role: "tool",
      content: [
        result("1", { type: "json", value: { a: 1 } }),
        result("2", { type: "content", value: [text("a"), { type: "image-url", url: "x" }] }),
        result("3", { type: "execution-denied" }),
        result("4", { type: "error-text", value: "No such file." }),
        part({ type: "tool-approval-response", approvalId: "5", approved: true }),
      ],
    },
    {
      role: "tool",
      content: [part({ type: "tool-approval-response", approvalId: "6" })],
    },
  ];
  const { sentPrompt, warnings } = adapterWith();
  const { prompt: seen } = await sentPrompt(prompt);
  assertEquals(seen.length, prompt.length);
  seen.forEach((message, at) => assertStrictEquals(message, prompt[at]));
  assertEquals(warnings, []);
});

Deno.test("tare() truncates a huge result and leaves the SDK's own unchanged", async () => {
  const prompt = [USER, calls("1", "2"), {
    role: "tool",
    content: [result("1", { type: "text", value: LONG }), result("2", { type: "text", value: "short" })],
  }];
  const before = structuredClone(prompt);
  const { adapter, sentPrompt } = adapterWith();
  assertEquals(
    await adapter.tools.recall.execute({ find: "e" }),
    "Nothing was evicted from this conversation.",
  );
  const { prompt: seen } = await sentPrompt(prompt);
  assertEquals(prompt, before);
  assertStringIncludes(
    await adapter.tools.recall.execute({ find: LONG.slice(0, 9).toUpperCase() }),
    'read {"id":"1"}: ',
  );
  assertStrictEquals(seen[1], prompt[1]);
  const [first, second] = seen[2]?.content as readonly {
    type: string;
    output: { type: string; value: string };
  }[];
  assert(first && first.output.type === "text" && first.output.value.length < LONG.length / 2);
  assertStringIncludes(first.output.value, "[elided: middle of read result");
  assertStrictEquals(second, prompt[2]?.content[1]);
});

Deno.test("tare() warns and evicts nothing if the archive can't be written", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("disk full")) };
  const { sentPrompt, warnings } = adapterWith({ archive });
  const prompt = [USER, calls("1"), { role: "tool", content: [result("1", { type: "text", value: LONG })] }];
  assertEquals((await sentPrompt(prompt)).prompt, prompt);
  assert(warnings[0]?.includes("disk full"), warnings.join());
});

Deno.test("tare() replaces old turns by a placeholder when the window is full", async () => {
  const { sentPrompt } = adapterWith({ windowTokens: 8_000 });
  const turn = (id: string): PromptMessage[] => [
    { role: "user", content: [text(`Task ${id}. ${"word ".repeat(200)}`)] },
    calls(id),
    { role: "tool", content: [result(id, { type: "text", value: "x y ".repeat(500) })] },
    { role: "assistant", content: [text(`Done ${id}. ${"said ".repeat(700)}`)] },
  ];
  const prompt = [USER, ANSWER, ...["1", "2", "3", "4", "5", "6", "7", "8"].flatMap(turn), USER];
  const before = structuredClone(prompt);
  let seen: readonly PromptMessage[] = [];
  for (let length = 1; length <= prompt.length; length++) {
    if (prompt[length - 1]?.role === "user") ({ prompt: seen } = await sentPrompt(prompt.slice(0, length)));
  }
  assertEquals(prompt, before);
  assert(seen.length < prompt.length, `${seen.length} of ${prompt.length} messages are visible`);
  const [line, ...others] = seen.filter((message) => !prompt.includes(message) && message.role !== "tool");
  assertEquals([line?.role, others], ["user", []]);
  assert(JSON.stringify(line?.content).startsWith('[{"type":"text","text":"[elided'), JSON.stringify(line));
});

Deno.test("tare() shortens long user texts in a full window, part by part", async () => {
  const summarize = () => Promise.reject(new Error("unexpected summary request"));
  const { sentPrompt, warnings } = adapterWith({ windowTokens: 15000, planning: { summarize } });
  const long = (seed: string) => text(Array.from({ length: 2_000 }, (_, at) => `${seed}${at}`).join(" "));
  const paste: PromptMessage = { role: "user", content: [text("Look at this."), long("paste")] };
  const second: PromptMessage = { role: "user", content: [long("second")] };
  const prompt = [USER, ANSWER, paste, ANSWER, second, ANSWER, { role: "user", content: [long("active")] }];
  const before = structuredClone(prompt);
  let seen: readonly PromptMessage[] = [];
  for (let length = 1; length <= prompt.length; length += 2) {
    ({ prompt: seen } = await sentPrompt(prompt.slice(0, length)));
  }
  assertEquals(prompt, before);
  assertEquals(seen.filter((message) => !prompt.includes(message)), [seen[2], seen[4]]);
  const [opening, body] = seen[2]?.content as readonly { type: string; text: string }[];
  assertStrictEquals(opening?.text, "Look at this.");
  assert(body?.text.includes("[elided: middle of this message"), body?.text);
  assertEquals(warnings, [
    "The window is full: only head and tail of 2 long messages of the user are visible.",
  ]);
});

Deno.test("tare() compacts a tool's schema once it was called, and leaves provider tools unchanged", async () => {
  const inputSchema = {
    type: "object",
    properties: { id: { type: "string", description: "Which one. ".repeat(40) } },
    description: "The path to read. ".repeat(200),
  };
  const read = { type: "function", name: "read", description: "Reads. ".repeat(300), inputSchema };
  const others = [
    { type: "provider", name: "search", id: "a.search", args: {} },
    { type: "function", name: "none", inputSchema: { type: "object" } },
  ];
  const { adapter, sentPrompt } = adapterWith();
  let prompt: PromptMessage[] = [USER];
  let tools: CallParams["tools"];
  for (let step = 1; step < 40; step++) {
    ({ tools } = await sentPrompt(prompt, {
      tools: [read, ...others],
      abortSignal: new AbortController().signal,
      usage: usage(1_000 * step),
    }));
    const output = { type: "text", value: `${step} `.repeat(400) };
    prompt = [...prompt, calls(`${step}`), { role: "tool", content: [result(`${step}`, output)] }];
  }
  const [short, ...rest] = tools ?? [];
  assert(JSON.stringify(short).length < JSON.stringify(read).length / 2, JSON.stringify(short));
  assertEquals(rest, others);
  assertEquals(adapter.ledger.at(-1)?.usage, {
    promptTokens: 39_000,
    cachedTokens: 0,
    cacheWriteTokens: 7,
    outputTokens: 0,
  });
});

Deno.test("tare() records complete and streamed calls of each SDK version, with and without usage", async () => {
  const { adapter, sentPrompt } = adapterWith();
  await sentPrompt([USER]);
  await sentPrompt([USER], { usage: { inputTokens: 20, cachedInputTokens: 5, outputTokens: 2 } });
  const params = { prompt: [USER], usage: { ...usage(30), outputTokens: { total: 3 } } };
  const { stream } = await adapter.model.doStream(params);
  assertEquals(await Array.fromAsync(stream), [{ type: "finish", usage: params.usage }]);
  const [first, ...others] = adapter.ledger.map(({ usage }) => usage);
  assertEquals(first?.estimated, true);
  assertEquals(others, [
    { promptTokens: 20, cachedTokens: 5, outputTokens: 2 },
    { promptTokens: 30, cachedTokens: 0, cacheWriteTokens: 7, outputTokens: 3 },
  ]);
});

Deno.test("tare() throws for an unreadable message with its position", async () => {
  const { sentPrompt } = adapterWith();
  await assertRejects(
    () => sentPrompt([USER, { role: "data", content: "x" }]),
    TypeError,
    "Cannot read message 1 of the prompt: its role is data",
  );
});

Deno.test("recall: returns content, or reports an invalid call", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("apple\nbanana\ncherry");
  const { recall } = adapterWith({ archive }).adapter.tools;
  const standard = recall.inputSchema["~standard"];
  assertEquals(Object.keys(Object(standard.jsonSchema.input().properties)), [
    "ref",
    "lines",
    "find",
    "offset",
  ]);
  assertEquals(standard.validate({ ref }), { value: { ref } });
  assertEquals(await recall.execute({ ref, find: "AN", lines: null }), "1-apple\n2:banana\n3-cherry");
  assertEquals(await recall.execute({ ref, lines: 2 }), "banana");
  assertEquals(await recall.execute({ ref, offset: "13" }), "cherry");
  assertEquals(
    await recall.execute({}),
    "Cannot recall: the ref is missing. Copy the 16 hex digits after 'ref' from an [elided: …] line of this " +
      "conversation, or pass only find to search everything evicted from it.",
  );
  assertEquals(
    await recall.execute({ ref, pattern: "an+" }),
    "Cannot recall by pattern: unknown argument. Use ref, lines, find, offset.",
  );
  assertEquals(
    await recall.execute({ ref: 3 }),
    "Cannot recall: ref is 3. Use the 16 hex digits of a placeholder.",
  );
});

Deno.test("tare() retries once with a shorter prompt if it is rejected as too long", async () => {
  const { adapter, noting, sentPrompt } = adapterWith();
  const prompt: PromptMessage[] = [USER];
  for (let step = 1; step < 12; step++) {
    const output = { type: "text", value: `${step} `.repeat(9_000) };
    prompt.push(calls(`${step}`), { role: "tool", content: [result(`${step}`, output)] });
  }
  noting.refuse = ({ prompt }) => {
    const tokens = JSON.stringify(prompt).length / 4;
    if (tokens <= 10_000) return undefined;
    const message = `prompt is too long: ${Math.ceil(tokens)} tokens > 10000 maximum`;
    const responseBody = JSON.stringify({ error: { message } });
    return Object.assign(new Error("Bad Request"), { responseBody });
  };
  await sentPrompt(prompt, { usage: usage(8_000) });
  assertEquals(noting.requests.map(({ prompt }) => JSON.stringify(prompt).length <= 40_000), [false, true]);
  assertEquals(adapter.ledger.map(({ usage }) => usage.promptTokens), [8_000]);
  noting.refuse = () => new Error("Overloaded");
  await assertRejects(() => sentPrompt(prompt), Error, "Overloaded");
  assertEquals(noting.requests.length, 3);
});

const words = fc.string({ minLength: 1 });
const texts = words.map((text) => ({ type: "text", text }));
const image = fc.base64String({ minLength: 4 }).map((data) => ({
  type: "file",
  mediaType: "image/png",
  data,
}));

/** A conversation as stored by the SDK: signed reasoning, calls, results of every kind, images. */
const conversations = fc.array(
  fc.record({
    thought: fc.option(words),
    calls: fc.array(
      fc.record({
        input: fc.dictionary(words, fc.jsonValue()),
        output: fc.oneof(
          words.map((value) => ({ type: "text", value })),
          fc.jsonValue().map((value) => ({ type: "json", value })),
          words.map((value) => ({ type: "error-text", value })),
          fc.array(fc.oneof(texts, image), { minLength: 1 }).map((value) => ({ type: "content", value })),
        ),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    asks: fc.array(fc.oneof(texts, image), { minLength: 1, maxLength: 2 }),
  }),
  { minLength: 1, maxLength: 5 },
).map((steps) =>
  steps.flatMap(({ thought, calls, asks }, step): PromptMessage[] => {
    const call = (at: number) => ({ toolCallId: `${step}.${at}`, toolName: "read" });
    const thoughts = thought === null
      ? []
      : [{ type: "reasoning", text: thought, providerOptions: { anthropic: { signature: thought } } }];
    return [
      { role: "user", content: asks },
      {
        role: "assistant",
        content: [...thoughts, ...calls.map(({ input }, at) => ({ type: "tool-call", ...call(at), input }))],
      },
      {
        role: "tool",
        content: calls.map(({ output }, at) => ({ type: "tool-result", ...call(at), output })),
      },
    ];
  })
);

Deno.test("toAiSdk() returns unchanged messages as the same objects and changes only evicted content", () => {
  fc.assert(fc.property(conversations, fc.infiniteStream(fc.boolean()), (given, choose) => {
    const messages = fromAiSdk(given);
    const places = messages.map((_, at) => at);
    toAiSdk(given, { messages, places }).forEach((message, at) => assertStrictEquals(message, given[at]));
    const left = new Set<string>();
    const sent = messages.map((message) => {
      if (message.role !== "tool" || !choose.next().value) return message;
      left.add(message.tool_call_id);
      return { ...message, content: "[elided]" };
    });
    const isLeft = (part: PromptPart) =>
      part.type === "tool-result" && "toolCallId" in part && left.has(String(part.toolCallId));
    assertEquals(
      toAiSdk(given, { messages: sent, places }),
      given.map(({ role, content }) => ({
        role,
        content: typeof content === "string"
          ? content
          : content.map((part) =>
            isLeft(part) ? { ...part, output: { type: "text", value: "[elided]" } } : part
          ),
      })),
    );
  }));
});

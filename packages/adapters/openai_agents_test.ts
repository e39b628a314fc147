import { assert, assertEquals, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { memoryArchive } from "@tare/prune";
import { LONG, type Options, optionsWith, SUMMARISING } from "./fixture_test.ts";
import { tare } from "./openai_agents.ts";

interface Item extends Readonly<Record<string, unknown>> {
  readonly content?: unknown;
  readonly output?: unknown;
}

interface Request extends Readonly<Record<string, unknown>> {
  readonly input: string | readonly Item[];
  readonly tools: readonly Readonly<Record<string, unknown>>[];
}

class Noting {
  readonly #requests: Request[] = [];
  readonly usage: object;

  constructor(usage: object) {
    this.usage = usage;
  }

  get name() {
    return "noting";
  }

  requests(): readonly Request[] {
    return this.#requests;
  }

  getResponse(request: Request) {
    this.#requests.push(request);
    return Promise.resolve({ usage: this.usage, output: [] });
  }

  async *getStreamedResponse(request: Request) {
    yield { type: "response_started" };
    const response = await this.getResponse(request);
    yield { type: "response_done", response };
  }
}

const NOTHING = { inputTokens: 0, outputTokens: 0 };
const USAGE = { inputTokens: 20, outputTokens: 2, inputTokensDetails: [{ cached_tokens: 5 }] };

function adapterWith(options: Options = {}, usage: object = NOTHING) {
  const adapter = tare({ model: new Noting(usage), ...optionsWith(options) });
  const { model } = adapter;
  const sentPrompt = async (input: Request["input"], rest: Partial<Request> = {}) => {
    await model.getResponse({ tools: [], input, ...rest });
    return model.requests().at(-1)!;
  };
  return { adapter, model, sentPrompt };
}

const USER = { role: "user", content: "Look." };
const ANSWER = { type: "message", role: "assistant", content: [{ type: "output_text", text: "Ok." }] };

function call(id: string) {
  return { type: "function_call", callId: id, name: "read", arguments: `{"id":"${id}"}` };
}

function result(id: string, output: unknown) {
  return { type: "function_call_result", callId: id, name: "read", status: "completed", output };
}

Deno.test("tare() passes unchanged items as the same objects", async () => {
  const input = [
    { type: "message", role: "system", content: "Be brief." },
    { role: "user", content: [{ type: "input_text", text: "Look." }, { type: "input_image", image: "x" }] },
    { type: "reasoning", content: [{ type: "input_text", text: "Hm." }] },
    ANSWER,
    { type: "hosted_tool_call", name: "web_search_call" },
    call("1"),
    call("2"),
    result("1", { type: "text", text: "short" }),
    result("2", [{ type: "input_text", text: "short" }, { type: "input_file", file: "x" }]),
  ];
  const { input: seen } = await adapterWith().sentPrompt(input, { systemInstructions: "Be kind." });
  assert(typeof seen !== "string");
  assertEquals(seen.length, input.length);
  seen.forEach((item, at) => assertStrictEquals(item, input[at]));
  assertEquals((await adapterWith().sentPrompt("Look.")).input, [USER]);
});

Deno.test("tare() truncates huge results and leaves the run's own unchanged", async () => {
  const other = { type: "text", text: LONG.replaceAll("log", "book") };
  const input = [USER, call("1"), call("2"), result("1", LONG), result("2", other)];
  const before = structuredClone(input);
  const { input: seen } = await adapterWith().sentPrompt(input);
  assertEquals(input, before);
  const [text, block] = (seen as readonly Item[]).slice(3).map(({ output }) => output);
  assert(typeof text === "string" && text.length < LONG.length / 2);
  assertEquals({ ...block as object, text: "" }, { type: "text", text: "" });
  assert((block as { text: string }).text.length < LONG.length / 2);
  for (const sentText of [text, (block as { text: string }).text]) {
    assertStringIncludes(sentText, "[elided: middle of read result");
  }
});

Deno.test("tare() shortens long user texts in a full window, block by block", async () => {
  const { sentPrompt } = adapterWith({ windowTokens: 12_000 });
  const long = (seed: string) => Array.from({ length: 2_000 }, (_, at) => `${seed}${at}`).join(" ");
  const image = { type: "input_image", image: "x" };
  const paste = { role: "user", content: [{ type: "input_text", text: long("paste") }, image] };
  const input = [USER, ANSWER, paste, ANSWER, { role: "user", content: long("second") }, ANSWER, {
    role: "user",
    content: long("active"),
  }];
  let seen: readonly Item[] = [];
  for (let length = 1; length <= input.length; length += 2) {
    seen = (await sentPrompt(input.slice(0, length))).input as readonly Item[];
  }
  const [body, last] = seen[2]?.content as readonly { readonly text: string }[];
  assert(body?.text.includes("[elided: middle of this message"), body?.text);
  assertStrictEquals(last as unknown, image);
  assert(String(seen[4]?.content).includes("[elided: middle of this message"));
});

for (
  const [name, role, options] of [
    ["a line", "user", {}],
    ["a summary", "assistant", SUMMARISING],
  ] as const
) {
  Deno.test(`tare() replaces old turns by ${name} when the window is full`, async () => {
    const { sentPrompt } = adapterWith({ windowTokens: 8_000, ...options });
    const turn = (id: string) => [
      { role: "user", content: `Task ${id}. ${"word ".repeat(100)}` },
      call(id),
      result(id, "x y ".repeat(500)),
      { ...ANSWER, content: [{ type: "output_text", text: `Done ${id}. ${"said ".repeat(1_200)}` }] },
    ];
    const input: readonly Item[] = [...["1", "2", "3", "4", "5", "6", "7", "8"].flatMap(turn), USER];
    let seen: readonly Item[] = [];
    for (let length = 1; length <= input.length; length++) {
      if (input[length - 1]?.role === "user") {
        seen = (await sentPrompt(input.slice(0, length))).input as readonly Item[];
      }
    }
    assert(seen.length < input.length, `${seen.length} of ${input.length} items are visible`);
    const line = seen.find((item) => !input.includes(item) && item.type !== "function_call_result");
    assertEquals(line?.role, role);
  });
}

Deno.test("tare() compacts a tool's schema once it was called, and leaves hosted tools unchanged", async () => {
  const parameters = {
    type: "object",
    properties: { id: { type: "string", description: "Which one. ".repeat(40) } },
    description: "The path to read. ".repeat(200),
  };
  const read = { type: "function", name: "read", description: "Reads. ".repeat(300), parameters };
  const other = { type: "hosted_tool", name: "web_search" };
  const usage = { inputTokens: 0, outputTokens: 2 };
  const { sentPrompt } = adapterWith({}, usage);
  let input: Item[] = [USER];
  let tools: Request["tools"] = [];
  for (let step = 1; step < 40; step++) {
    // No token is cached, so that compaction costs nothing.
    usage.inputTokens = 1_000 * step;
    ({ tools } = await sentPrompt(input, { tools: [read, other] }));
    input = [...input, call(`${step}`), result(`${step}`, `${step} `.repeat(400))];
  }
  assert(JSON.stringify(tools[0]).length < JSON.stringify(read).length / 2, JSON.stringify(tools[0]));
  assertStrictEquals(tools[1], other);
});

Deno.test("tare() records complete and streamed calls, with and without usage", async () => {
  const { adapter, model, sentPrompt } = adapterWith({}, USAGE);
  await sentPrompt("Look.");
  const types: string[] = [];
  for await (const { type } of model.getStreamedResponse({ input: "Look.", tools: [] })) types.push(type);
  assertEquals(types, ["response_started", "response_done"]);
  const usage = { promptTokens: 20, cachedTokens: 5, outputTokens: 2 };
  assertEquals(adapter.ledger.map(({ usage }) => usage), [usage, usage]);
  const plain = adapterWith({}, { ...USAGE, inputTokensDetails: { cached_tokens: 5 } });
  await plain.sentPrompt("Look.");
  assertEquals(plain.adapter.ledger.map(({ usage }) => usage), [usage]);
  const silent = adapterWith();
  await silent.sentPrompt("Look.");
  assertEquals(silent.adapter.ledger.map(({ usage }) => usage.estimated), [true]);
});

Deno.test("tare() forwards requests whose history the provider stores", async () => {
  const { adapter, sentPrompt } = adapterWith();
  for (const option of [{ previousResponseId: "a" }, { conversationId: "b" }]) {
    const input = [result("1", LONG)];
    assertStrictEquals((await sentPrompt(input, option)).input, input);
  }
  assertEquals(adapter.ledger, []);
});

Deno.test("tare() leaves the rest of a model unchanged and adds the recall tool", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("a long result");
  const { adapter: { tools: [recall] }, model } = adapterWith({ archive });
  assertEquals([model.name, model.usage, model instanceof Noting], ["noting", NOTHING, true]);
  assertEquals([recall.name, recall.parameters.required, recall.strict], ["recall", [], false]);
  assertEquals(await recall.invoke({}, JSON.stringify({ ref })), "a long result");
  assertStringIncludes(await recall.invoke({}, "{ref:"), "the ref is missing");
});

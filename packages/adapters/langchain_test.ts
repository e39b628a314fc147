import { assert, assertEquals, assertRejects, assertStrictEquals, assertStringIncludes } from "@std/assert";
import { memoryArchive, RECALL_TOOL } from "@tare/prune";
import { LONG, type Options, optionsWith, SUMMARISING } from "./fixture_test.ts";
import { type LangChainMessage, tare } from "./langchain.ts";

class TestMessage implements LangChainMessage {
  readonly content: LangChainMessage["content"];
  readonly type: string = "";
  readonly lc_kwargs: object;
  constructor(fields: { readonly content: LangChainMessage["content"] }) {
    this.content = fields.content;
    this.lc_kwargs = fields;
    Object.assign(this, fields);
  }
}

class System extends TestMessage {
  override readonly type = "system";
}

class Human extends TestMessage {
  override readonly type = "human";
}

class Ai extends TestMessage {
  override readonly type = "ai";
}

class Tool extends TestMessage {
  override readonly type = "tool";
}

class Removed extends TestMessage {
  override readonly type = "remove";
}

const USER = new Human({ content: "Look." });

function made<Fields extends { readonly content: LangChainMessage["content"] }>(
  Kind: new (fields: Fields) => LangChainMessage,
  fields: Fields,
) {
  return new Kind(fields);
}

function calls(...ids: readonly string[]) {
  return made(
    Ai,
    { content: "", tool_calls: ids.map((id) => ({ id, name: "read", args: { id } })) } as never,
  );
}

function result(id: string, content: LangChainMessage["content"], status = "success") {
  return made(Tool, { content, tool_call_id: id, status } as never);
}

function adapterWith(options: Options = {}) {
  const adapter = tare({ model: "m", ...optionsWith(options) });
  const sentPrompt = async (
    messages: readonly LangChainMessage[],
    { system = "", reply = {}, tools = [] }: {
      readonly system?: string;
      readonly reply?: object;
      readonly tools?: readonly unknown[];
    } = {},
  ) => {
    const seen: (readonly LangChainMessage[])[] = [];
    const call = {
      model: { model: "m" },
      messages: [...messages],
      systemMessage: new System({ content: system }),
      tools,
      runtime: { signal: new AbortController().signal },
    };
    const given = await adapter.wrapModelCall(call, (call) => {
      seen.push(call.messages);
      return reply;
    });
    assertStrictEquals(given, reply);
    assertEquals(call.messages, [...messages]);
    return seen[0] ?? [];
  };
  return { adapter, sentPrompt };
}

Deno.test("tare() passes unchanged messages as the same objects", async () => {
  const messages = [
    new Human({
      content: [{ type: "text", text: "Look." }, { type: "image_url", image_url: "x" }, { type: "text" }],
    }),
    made(Ai, {
      content: [{ type: "reasoning", reasoning: "Hm." }],
      additional_kwargs: { reasoning_content: "Hm." },
      tool_calls: [{ name: "read", args: {} }],
    } as never),
    result("", "No such file.", "error"),
  ];
  const { sentPrompt } = adapterWith();
  for (const system of ["", "Be brief."]) {
    const seen = await sentPrompt(messages, { system });
    assertEquals(seen.length, messages.length);
    seen.forEach((message, at) => assertStrictEquals(message, messages[at]));
  }
});

Deno.test("tare() truncates a huge result in a message of the same class", async () => {
  const other = [{ type: "text", text: LONG.replaceAll("log", "book") }];
  const messages = [USER, calls("1", "2"), result("1", LONG), result("2", other)];
  const before = structuredClone(messages.map((message) => ({ ...message })));
  const seen = await adapterWith().sentPrompt(messages);
  assertEquals(messages.map((message) => ({ ...message })), before);
  for (const at of [2, 3]) {
    const message = seen[at] as Tool & { readonly tool_call_id: string };
    assert(message instanceof Tool && message.tool_call_id === `${at - 1}`);
    assert(typeof message.content === "string" && message.content.length < LONG.length / 2);
    assertStringIncludes(message.content, "[elided: middle of read result");
    assertEquals((message.lc_kwargs as Tool).content, message.content);
  }
});

Deno.test("tare() shortens long user texts in a full window, block by block", async () => {
  const { sentPrompt } = adapterWith({ windowTokens: 12_000 });
  const long = (seed: string) => Array.from({ length: 2_000 }, (_, at) => `${seed}${at}`).join(" ");
  const answer = new Ai({ content: "Ok." });
  const image = { type: "image", url: "x" };
  const paste = new Human({
    content: [{ type: "text", text: "This:" }, { type: "text", text: long("paste") }, image],
  });
  const messages: readonly LangChainMessage[] = [
    USER,
    answer,
    paste,
    answer,
    new Human({ content: long("second") }),
    answer,
    new Human({ content: long("active") }),
  ];
  let seen: readonly LangChainMessage[] = [];
  for (let length = 1; length <= messages.length; length += 2) {
    seen = await sentPrompt(messages.slice(0, length));
  }
  assertEquals(seen.filter((message) => !messages.includes(message)), [seen[2], seen[4]]);
  const [opening, body, last] = seen[2]?.content as readonly {
    readonly type: string;
    readonly text: string;
  }[];
  assertEquals(opening, { type: "text", text: "This:" });
  assert(body?.text.includes("[elided: middle of this message"), body?.text);
  assertStrictEquals(last as unknown, image);
});

for (
  const [name, role, options] of [
    ["a line", Human, {}],
    ["a summary", Ai, SUMMARISING],
  ] as const
) {
  Deno.test(`tare() replaces old turns by ${name} when the window is full`, async () => {
    const { sentPrompt } = adapterWith({ windowTokens: 8_000, ...options });
    const turn = (id: string) => [
      new Human({ content: `Task ${id}. ${"word ".repeat(100)}` }),
      calls(id),
      result(id, "x y ".repeat(500)),
      new Ai({ content: `Done ${id}. ${"said ".repeat(1_200)}` }),
    ];
    const messages: readonly LangChainMessage[] = [
      ...["1", "2", "3", "4", "5", "6", "7", "8"].flatMap(turn),
      USER,
    ];
    let seen: readonly LangChainMessage[] = [];
    for (let length = 1; length <= messages.length; length++) {
      if (messages[length - 1]?.type === "human") seen = await sentPrompt(messages.slice(0, length));
    }
    assert(seen.length < messages.length, `${seen.length} of ${messages.length} messages are visible`);
    const line = seen.find((message) => !messages.includes(message) && message.type !== "tool");
    assert(line instanceof role, JSON.stringify(seen));
  });
}

Deno.test("tare() counts tools with known schemas", async () => {
  const { adapter, sentPrompt } = adapterWith();
  const schema = { type: "object", properties: { path: { type: "string" } } };
  const standard = { "~standard": { jsonSchema: { input: () => schema } } };
  const tools = [
    { name: "read", description: "Reads.", schema },
    { name: "write", schema: standard },
    { name: "opaque", schema: { "~standard": {} } },
    { type: "function", function: { name: "other" } },
    { type: "web_search" },
  ];
  await sentPrompt([USER], { tools });
  await sentPrompt([USER], { tools });
  assert((adapter.ledger[0]?.shares.tools ?? 0) > 20);
});

Deno.test("tare() records reported usage, also of a parsed reply", async () => {
  const { adapter, sentPrompt } = adapterWith();
  const details = { cache_read: 5, cache_creation: 7 };
  const usage_metadata = { input_tokens: 20, output_tokens: 2, input_token_details: details };
  await sentPrompt([USER], { reply: { usage_metadata } });
  await sentPrompt([USER], {
    reply: { messages: [{ usage_metadata: { input_tokens: 20, output_tokens: 2 } }] },
  });
  await sentPrompt([USER]);
  const [first, second, third] = adapter.ledger.map(({ usage }) => usage);
  assertEquals(first, { promptTokens: 20, cachedTokens: 5, cacheWriteTokens: 7, outputTokens: 2 });
  assertEquals(second, { promptTokens: 20, cachedTokens: 0, outputTokens: 2 });
  assertEquals(third?.estimated, true);
});

Deno.test("tare() throws for an unreadable message with its position", async () => {
  await assertRejects(
    () => adapterWith().sentPrompt([USER, new Removed({ content: "" })]),
    TypeError,
    "Cannot read message 1: its type is remove. Use system, human, ai or tool.",
  );
});

Deno.test("tare() adds the recall tool and runs only its calls", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("a long result");
  const { adapter } = adapterWith({ archive });
  const seen: unknown[] = [];
  const call = {
    model: "m",
    messages: [USER],
    systemMessage: new System({ content: "" }),
    tools: [{ name: "read" }],
    runtime: {},
  };
  await adapter.wrapModelCall(call, ({ tools }) => void seen.push(...tools));
  assertEquals(seen, [{ name: "read" }, RECALL_TOOL]);
  interface Call {
    readonly toolCall: { readonly name: string; readonly args: object };
    readonly tool: { invoke(): unknown } | undefined;
  }
  const node = (call: Call) => call.tool?.invoke();
  const recallCall: Call = { toolCall: { name: "recall", args: { ref } }, tool: undefined };
  assertEquals(await adapter.wrapToolCall(recallCall, node), "a long result");
  const other: Call = { toolCall: { name: "read", args: {} }, tool: { invoke: () => "read" } };
  assertEquals(await adapter.wrapToolCall(other, node), "read");
});

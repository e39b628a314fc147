import { assert, assertAlmostEquals, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { hashText } from "@tare/messages/internal";
import fc, { cases } from "../../tests/cases.ts";
import { profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { memoryArchive } from "@tare/prune";
import { type CallParams, tare } from "./ai_sdk.ts";
import type { PromptMessage, TareOptions } from "./types.ts";
import { type Options, optionsWith } from "./fixture_test.ts";
import { type LangChainMessage, tare as langchain } from "./langchain.ts";
import { tare as agents } from "./openai_agents.ts";

class Provider {
  readonly specificationVersion = "v4";
  readonly modelId = "m";
  readonly prompts: (readonly PromptMessage[])[] = [];
  cost = 0;
  /** Ids of the calls in the next reply. Default: none. */
  calls: readonly string[] = [];
  wait: Promise<unknown> = Promise.resolve();
  readonly #cached = new Set<number>();

  async doGenerate({ prompt }: Pick<CallParams, "prompt">) {
    this.prompts.push(prompt);
    const content = this.calls.map((toolCallId) => ({ type: "tool-call", toolCallId }));
    const units = prompt.map(({ role, content }) =>
      `${role} ${JSON.stringify(content).replaceAll(/"(type|toolCallId)":"[^"]*",?|\\n/g, " ")}`
    );
    const tokens = (length: number) =>
      units.slice(0, length).reduce((sum, unit) => sum + estimateTokens(unit), 0);
    let held = 0;
    let begun = 0;
    for (const [at, unit] of units.entries()) {
      begun = hashText(`${begun} ${unit}`);
      if (this.#cached.has(begun)) held = at + 1;
      this.#cached.add(begun);
    }
    const usage = { promptTokens: tokens(units.length), cachedTokens: tokens(held), outputTokens: 10 };
    this.cost += promptCost(profileNamed("openai"), usage);
    await this.wait;
    const inputTokens = { total: usage.promptTokens, cacheRead: usage.cachedTokens };
    return { content, usage: { inputTokens, outputTokens: { total: 10 } } };
  }

  doStream() {
    return Promise.reject(new Error("nobody streams"));
  }
}

function adapterWith(options: Options & Pick<TareOptions<CallParams>, "conversation"> = {}) {
  const warnings: string[] = [];
  const provider = new Provider();
  const adapter = tare({
    model: provider,
    ...optionsWith({ warn: (sentence) => warnings.push(sentence), windowTokens: 1_000_000, ...options }),
    ...(options.conversation && { conversation: options.conversation }),
  });
  return { adapter, provider, warnings };
}

const SYSTEM: PromptMessage = { role: "system", content: "You review builds." };
const TOOLS = [{ type: "function", name: "recall", inputSchema: { type: "object" } }];

function part(part: Readonly<Record<string, unknown>> & { readonly type: string }) {
  return part;
}

function entry(role: string, text: string): PromptMessage {
  return { role, content: [part({ type: "text", text })] };
}

function step(id: string, tokens = 2_500): PromptMessage[] {
  const call = { toolCallId: id, toolName: "read" };
  const value = Array.from({ length: tokens / 5 }, (_, at) => `${id} says line ${at}\n`).join("");
  const output = { type: "text", value };
  return [
    { role: "assistant", content: [part({ type: "tool-call", ...call, input: { id } })] },
    { role: "tool", content: [part({ type: "tool-result", ...call, output })] },
  ];
}

function anew(prompt: readonly PromptMessage[]): PromptMessage[] {
  return structuredClone(prompt) as PromptMessage[];
}

type Model = ReturnType<typeof adapterWith>["adapter"]["model"];

async function loop(model: Model, name: string, steps: number): Promise<PromptMessage[]> {
  const history = [SYSTEM, entry("user", `Why does ${name} fail?`)];
  for (let at = 0; at < steps; at++) {
    await model.doGenerate({ prompt: anew(history), tools: TOOLS } as CallParams);
    history.push(...step(`${name} ${at}`));
  }
  return history;
}

Deno.test("tare() saves as much with concurrent conversations as with an adapter each, and its ledger shows it", async () => {
  const names = ["a", "b", "c", "d"];
  const STEPS = 40;
  const alone = new Provider();
  await Promise.all(names.map((name) => loop(alone as unknown as Model, name, STEPS)));
  let each = 0;
  for (const name of names) {
    const { adapter, provider } = adapterWith();
    await loop(adapter.model, name, STEPS);
    each += provider.cost;
  }
  const { adapter, provider, warnings } = adapterWith();
  await Promise.all(names.map((name) => loop(adapter.model, name, STEPS)));
  assert(each < 0.8 * alone.cost, `${each} of ${alone.cost}`);
  assertAlmostEquals(provider.cost / each, 1, 0.02);
  assertAlmostEquals(adapter.total.costUnits / provider.cost, 1, 0.05);
  assertAlmostEquals(adapter.total.baselineCostUnits / alone.cost, 1, 0.05);
  assertEquals(new Set(adapter.ledger.map(({ conversation }) => conversation)).size, names.length);
  assertEquals(warnings, []);
});

Deno.test("tare() forks where a history branches off, and both branches continue unchanged", async () => {
  const { adapter, provider } = adapterWith();
  const history = await loop(adapter.model, "a", 40);
  const ask = async (prompt: readonly PromptMessage[]) => {
    await adapter.model.doGenerate({ prompt: anew(prompt), tools: TOOLS } as CallParams);
    return {
      conversation: adapter.ledger.at(-1)?.conversation,
      prompt: JSON.stringify(provider.prompts.at(-1)),
    };
  };
  const main = await ask(history);
  assertStringIncludes(main.prompt, "[elided");
  const edited = [...history.slice(0, 40), entry("user", "Look elsewhere.")];
  const fork = await ask(edited);
  assertStringIncludes(fork.prompt, "[elided");
  assert(main.prompt.startsWith(fork.prompt.slice(0, fork.prompt.lastIndexOf('{"role":"user"'))));
  const continued = await ask([...history, ...step("a 40")]);
  assert(continued.prompt.startsWith(main.prompt.slice(0, -1)));
  const forkContinued = await ask([...edited, ...step("elsewhere")]);
  assert(forkContinued.prompt.startsWith(fork.prompt.slice(0, -1)));
  assertEquals([main, fork, continued, forkContinued].map(({ conversation }) => conversation), [1, 2, 1, 2]);
});

Deno.test("tare() forks if one history is sent twice concurrently, and each continues with its own reply", async () => {
  const { adapter, provider } = adapterWith();
  const history = [SYSTEM, entry("user", "Why?")];
  const ask = (prompt: readonly PromptMessage[]) =>
    adapter.model.doGenerate({ prompt: anew(prompt), tools: TOOLS } as CallParams);
  let answer = () => {};
  provider.wait = new Promise<void>((resolve) => answer = resolve);
  provider.calls = ["left"];
  const left = ask(history);
  while (provider.prompts.length < 1) await Promise.resolve();
  provider.calls = ["right"];
  const right = ask(history);
  while (provider.prompts.length < 2) await Promise.resolve();
  answer();
  await Promise.all([left, right]);
  await ask([...history, ...step("right")]);
  provider.calls = ["left again"];
  await ask([...history, ...step("left")]);
  await ask([...history, ...step("left"), ...step("left again")]);
  assertEquals(adapter.ledger.map(({ conversation }) => conversation), [1, 2, 2, 1, 1]);
});

Deno.test("tare() continues with instructions that change per call, and separates those of two agents", async () => {
  const { adapter } = adapterWith();
  const history = [entry("user", "Why?"), ...step("1"), ...step("2"), ...step("3")];
  const ask = (system: string, length: number) =>
    adapter.model.doGenerate(
      { prompt: [{ role: "system", content: system }, ...anew(history.slice(0, length))] } as CallParams,
    );
  for (const length of [1, 3, 5]) await ask(`It is ${length} o'clock.`, length);
  assertEquals(adapter.ledger.map(({ conversation }) => conversation), [1, 1, 1]);
  await ask("It is 5 o'clock.", 5);
  await ask("You write.", 7);
  await ask("It is 5 o'clock.", 7);
  assertEquals(adapter.ledger.slice(3).map(({ conversation }) => conversation), [1, 2, 1]);
});

Deno.test("tare() continues a loop that ends each prompt with another reminder or clears its results", async () => {
  const { adapter } = adapterWith();
  const history = [SYSTEM, entry("user", "Why does it fail?")];
  const ask = (prompt: readonly PromptMessage[]) =>
    adapter.model.doGenerate({ prompt: anew(prompt), tools: TOOLS } as CallParams);
  for (let at = 0; at < 6; at++) {
    await ask([...history, entry("user", `${at} minutes are left.`)]);
    history.push(...step(`${at}`));
  }
  const cleared = history.map((message, at) => {
    const [content] = message.content as readonly { readonly output?: unknown; readonly type: string }[];
    const output = { type: "text", value: "[cleared]" };
    return at < 8 && message.role === "tool"
      ? { ...message, content: [part({ ...content!, output })] }
      : message;
  });
  await ask(cleared);
  assertEquals(new Set(adapter.ledger.map(({ conversation }) => conversation)).size, 1);
});

Deno.test("tare() runs a recall only in the conversation that requested it", async () => {
  const { adapter, provider } = adapterWith();
  const refs: string[] = [];
  for (const name of ["a", "b"]) {
    provider.calls = [`recall of ${name}`];
    await adapter.model.doGenerate({
      prompt: [SYSTEM, entry("user", name), ...step(`read by ${name}`, 100_000)],
      tools: TOOLS,
    } as CallParams);
    refs.push(/ref ([0-9a-f]{16})/.exec(JSON.stringify(provider.prompts.at(-1)))?.[1] ?? "");
  }
  const { recall } = adapter.tools;
  const recallCall = (name: string) => ({ toolCallId: `recall of ${name}` });
  const [a = "", b = ""] = refs;
  assertStringIncludes(
    await recall.execute({ ref: a, find: "line 9999" }, recallCall("a")),
    "read by a says line 9999",
  );
  assertStringIncludes(
    await recall.execute({ find: "line 9999" }, recallCall("b")),
    "read by b says line 9999",
  );
  assertStringIncludes(await recall.execute({ ref: b }, recallCall("a")), `Cannot recall '${b}'`);
  assertStringIncludes(await recall.execute({ ref: b, find: "line 9999" }), "read by b says line 9999");
  assertStringIncludes(await recall.execute({ find: "line 9999" }), "Pass a ref as well");
});

function memoryStore() {
  const stored = new Map<string, string>();
  return {
    stored,
    load: (key: string): unknown => JSON.parse(stored.get(key) ?? "null"),
    save: (key: string, state: unknown) => void stored.set(key, JSON.stringify(state)),
  };
}

Deno.test("tare() continues all conversations of a key after a restart, including forks", async () => {
  const [archive, store] = [memoryArchive(), memoryStore()];
  const first = adapterWith({ archive, store });
  const history = await loop(first.adapter.model, "a", 40);
  const edited = [...history.slice(0, 40), entry("user", "Look elsewhere.")];
  const ends = [history, edited];
  const seen: unknown[] = [];
  for (const prompt of ends) {
    await first.adapter.model.doGenerate({ prompt: anew(prompt), tools: TOOLS } as CallParams);
    seen.push(first.provider.prompts.at(-1));
  }
  assertEquals(store.stored.size, 1);
  const second = adapterWith({ archive, store });
  for (const [at, prompt] of ends.entries()) {
    await second.adapter.model.doGenerate({ prompt: anew(prompt), tools: TOOLS } as CallParams);
    assertEquals(second.provider.prompts[at], seen[at]);
  }
  const [ref] = /(?<=ref )[0-9a-f]{16}/.exec(JSON.stringify(seen[0])) ?? [];
  assertStringIncludes(await second.adapter.tools.recall.execute({ ref, find: "line 1" }), "line 1");
});

Deno.test("tare() names conversations by the given function and by their options", async () => {
  const keys: string[] = [];
  const store = { load: (key: string) => void keys.push(key), save: () => {} };
  const ask = async (options: Parameters<typeof adapterWith>[0], providerOptions?: object) =>
    await adapterWith({ store, ...options }).adapter.model.doGenerate(
      { prompt: [SYSTEM, entry("user", "Why?")], providerOptions } as CallParams,
    );
  await ask({ conversation: () => "thread 1" });
  await ask({}, { tare: { conversation: "thread 2" } });
  await ask({});
  assertEquals(keys.slice(0, 2), ["thread 1", "thread 2"]);
  assert(/^[0-9a-f]{16}$/.test(keys[2] ?? ""));
});

Deno.test("tare() continues with a warning if its store or archive fails", async () => {
  for (const reason of [new Error("no disk"), "no disk"]) {
    const fail = () => Promise.reject(reason);
    const archive = { ...memoryArchive(), put: fail };
    const { adapter, provider, warnings } = adapterWith({ archive, store: { load: fail, save: fail } });
    const prompt = [SYSTEM, entry("user", "Why?"), ...step("1", 100_000)];
    await adapter.model.doGenerate({ prompt, tools: TOOLS } as CallParams);
    assertEquals(provider.prompts, [prompt]);
    assertEquals(warnings.filter((sentence) => !sentence.includes("no disk")), []);
    assertEquals(warnings.map((sentence) => sentence.split(":")[0]).filter((_, at) => at !== 1), [
      "Cannot load a conversation, which starts again",
      "Cannot save a conversation",
      "Cannot save a conversation",
    ]);
  }
});

Deno.test("tare() evicts the least recently used conversations, by number and by size", async () => {
  for (const memory of [{ conversations: 2 }, { bytes: 15_000 }]) {
    const [archive, store] = [memoryArchive(), memoryStore()];
    const { adapter } = adapterWith({ memory, archive, store });
    const ask = async (name: string) => {
      const prompt = [SYSTEM, entry("user", name.repeat(2_000))];
      await adapter.model.doGenerate({ prompt } as CallParams);
      return adapter.ledger.at(-1)?.conversation;
    };
    const numbers: unknown[] = [];
    for (const name of ["a", "b", "a", "c", "a", "b"]) numbers.push(await ask(name));
    assertEquals(numbers, [1, 2, 1, 3, 1, 4]);
  }
});

Deno.test("adapters for the AI SDK and Mastra report a message with invalid content", async () => {
  const call = { toolCallId: "call_7", toolName: "read" };
  for (
    const output of [undefined, { type: "text" }, { type: "json", value: undefined }, {
      type: "content",
      value: { ok: true },
    }]
  ) {
    const { adapter, provider } = adapterWith();
    const prompt: PromptMessage[] = [
      entry("user", "Go."),
      { role: "assistant", content: [part({ type: "tool-call", ...call, input: {} })] },
      { role: "tool", content: [part({ type: "tool-result", ...call, output })] },
    ];
    const { message } = await assertRejects(() => adapter.model.doGenerate({ prompt }), TypeError);
    const place = 'messages[2].content (role tool, tool_call_id "call_7") is ';
    assert(message.startsWith(`Cannot run tare(): ${place}`), message);
    assertEquals(provider.prompts, []);
  }
});

Deno.test("adapters for LangChain and the OpenAI Agents SDK report a message with invalid content", async () => {
  const right = "it must be a string, or an array of content parts";
  for (
    const [content, state] of [[undefined, "missing"], [null, "null"], [{ ok: true }, "an object"]] as const
  ) {
    const lean = langchain({ ...optionsWith(), model: "m" });
    const messages = [
      { type: "human", content: "Go." },
      { type: "ai", content: "", tool_calls: [{ id: "call_7", name: "read", args: {} }] },
      { type: "tool", content, tool_call_id: "call_7" },
    ] as unknown as LangChainMessage[];
    const systemMessage = { type: "system", content: "" };
    const call = { model: "m", messages, systemMessage, tools: [], runtime: {} };
    const { message } = await assertRejects(() => lean.wrapModelCall(call, () => "never"), TypeError);
    assertEquals(
      message,
      `Cannot run tare(): messages[2].content (role tool, tool_call_id "call_7") is ${state}; ${right}`,
    );
  }
  const model = {
    getResponse: () => Promise.reject(new Error("not asked")),
    getStreamedResponse: () => {
      throw new Error("not asked");
    },
  };
  const input = [
    { role: "user", content: "Go." },
    { type: "function_call", callId: "call_7", name: "read", arguments: "{}" },
    { type: "function_call_result", callId: "call_7" },
  ];
  const wrapped = agents({ ...optionsWith(), model }).model as unknown as {
    getResponse(request: object): Promise<unknown>;
  };
  const { message } = await assertRejects(() => wrapped.getResponse({ input, tools: [] }), TypeError);
  assertEquals(
    message,
    `Cannot run tare(): messages[2].content (role tool, tool_call_id "call_7") is missing; ${right}`,
  );
});

Deno.test("tare() treats equal jobs, concurrent or sequential, as separate conversations", async () => {
  for (const isAtOnce of [false, true]) {
    let count = 0;
    const model = {
      specificationVersion: "v4",
      modelId: "m",
      doGenerate(_: CallParams) {
        return Promise.resolve({
          content: [{ type: "tool-call", toolCallId: `call_${count++}` }],
          usage: {},
        });
      },
      doStream: () => Promise.reject(new Error("nobody streams")),
    };
    const adapter = tare({ ...optionsWith(), model });
    const job = async () => {
      const prompt = [SYSTEM, entry("user", "Review.")];
      for (let at = 0; at < 4; at++) {
        const { content: [call] } = await adapter.model.doGenerate({ prompt: [...prompt] });
        prompt.push(...step(call!.toolCallId));
      }
    };
    if (isAtOnce) await Promise.all([job(), job(), job()]);
    else for (let at = 0; at < 3; at++) await job();
    const numbers = adapter.ledger.map(({ conversation }) => conversation);
    assertEquals(new Set(numbers).size, 3);
    for (const number of new Set(numbers)) assertEquals(numbers.filter((one) => one === number).length, 4);
  }
});

Deno.test("tare() retries a failed first call in the same conversation", async () => {
  const { adapter, provider } = adapterWith();
  provider.wait = Promise.reject(new Error("not reached"));
  const prompt = [SYSTEM, entry("user", "Review.")];
  await assertRejects(() => adapter.model.doGenerate({ prompt }), Error, "not reached");
  provider.wait = Promise.resolve();
  await adapter.model.doGenerate({ prompt: [...prompt] });
  assertEquals(adapter.ledger.map(({ conversation }) => conversation), [1]);
});

const ACTS = fc.array(
  fc.oneof(
    fc.record({ type: fc.constant("reads" as const), files: fc.integer({ min: 1, max: 4 }) }),
    fc.constantFrom({ type: "compacts" as const }, { type: "reopens" as const }, { type: "forks" as const }),
  ),
  { minLength: 3, maxLength: 7 },
);

Deno.test("recall: finds all content evicted from a named conversation after any compaction, fork and restart", async () => {
  await fc.assert(
    fc.asyncProperty(ACTS, async (acts) => {
      const [archive, store] = [memoryArchive(), memoryStore()];
      const open = () => adapterWith({ archive, store, windowTokens: 5_000, conversation: () => "mine" });
      let { adapter, provider } = open();
      let history: PromptMessage[] = [SYSTEM, entry("user", "Read all files.")];
      let read: string[] = [];
      const evicted = new Set<string>();
      let count = 0;
      const ask = async () => {
        await adapter.model.doGenerate({ prompt: anew(history), tools: TOOLS } as CallParams);
        const seen = JSON.stringify(provider.prompts.at(-1));
        for (const name of read) if (!seen.includes(`${name} says line 99\\n`)) evicted.add(name);
      };
      const reads = async (files: number) => {
        for (let at = 0; at < files; at++) {
          await ask();
          const name = `file${count++}x`;
          history = [...history, ...step(name, 1_000)];
          read.push(name);
        }
        await ask();
      };
      await reads(6);
      assert(evicted.size > 0);
      for (const act of acts) {
        if (act.type === "reads") await reads(act.files);
        else if (act.type === "reopens") ({ adapter, provider } = open());
        else if (act.type === "compacts") {
          history = [SYSTEM, entry("user", `Summary ${count++}: files were read.`)];
          read = [];
          await ask();
        } else {
          // After the first result, or after the summary that follows it if nothing was read since.
          const first = history.findIndex(({ role }) => role === "tool");
          history = [
            ...history.slice(0, first < 0 ? 2 : first + 1),
            entry("user", `Another way: ${count++}.`),
          ];
          read = first < 0 ? [] : read.slice(0, 1);
          await ask();
        }
      }
      provider.calls = ["asks"];
      await ask();
      for (const name of [...evicted].filter((_, at) => at === 0 || at === evicted.size - 1)) {
        const found = await adapter.tools.recall.execute({ find: `${name} says line 99` }, {
          toolCallId: "asks",
        });
        assertStringIncludes(found, `:${name} says line 99`);
      }
    }),
    { numRuns: cases(8) },
  );
});

Deno.test("recall: doesn't search content evicted from another conversation with the same opening", async () => {
  const { adapter, provider } = adapterWith({ windowTokens: 5_000 });
  const ask = async (history: readonly PromptMessage[]) =>
    await adapter.model.doGenerate({ prompt: anew(history), tools: TOOLS } as CallParams);
  const opening = [SYSTEM, entry("user", "Hello.")];
  let one: PromptMessage[] = opening;
  for (let at = 0; at < 8; at++) await ask(one = [...one, ...step(`one ${at}`, 1_000)]);
  provider.calls = ["one"];
  await ask(one);
  provider.calls = ["other"];
  await ask([...opening, entry("assistant", "Hello."), entry("user", "Who else is here?")]);
  const find = { find: "one 0 says line 99" };
  const { recall } = adapter.tools;
  assertStringIncludes(await recall.execute(find, { toolCallId: "one" }), "one 0 says line 99");
  assertEquals(
    await recall.execute(find, { toolCallId: "other" }),
    "Nothing was evicted from this conversation.",
  );
});

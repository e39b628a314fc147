import { assertEquals } from "@std/assert";
import type { FinishReason, ModelEvent, Usage } from "@tare/messages";
import fc, { cases } from "../../../tests/cases.ts";
import type { JsonRecord } from "@tare/wire";
import { assemble, delta } from "./assembler_fixture_test.ts";
import { mergeDelta, readUsage, writeUsage } from "./chat_completions.ts";

Deno.test("ReplyAssembler emits reasoning once and retains each of its fields", () => {
  const details = [{ type: "reasoning.text", text: "Hm.", index: 0 }];
  for (
    const [fields, expected] of [
      [{ reasoning_content: "Hm." }, "Hm."],
      [{ reasoning: "Hm." }, "Hm."],
      [{ reasoning_text: "Hm." }, "Hm."],
      [{ reasoning_details: details }, "Hm."],
      [{ reasoning_content: "Hm.", reasoning: "Hm.", reasoning_details: details }, "Hm."],
      [{ reasoning_details: [{ type: "reasoning.summary", summary: "In short." }] }, "In short."],
    ] as const
  ) {
    const reply = assemble([delta(fields), delta({ content: "Hi" }, "stop")]);
    assertEquals(reply.events, [
      { type: "reasoning_delta", text: expected },
      { type: "text_delta", text: "Hi" },
      { type: "completed", message: { role: "assistant", content: "Hi", ...fields }, finishReason: "stop" },
    ] as ModelEvent[]);
  }
});

Deno.test("ReplyAssembler emits a refusal as text and retains it as a refusal", () => {
  const reply = assemble([delta({ refusal: "I " }), delta({ refusal: "can't." }), delta({}, "stop")]);
  assertEquals(reply.events, [
    { type: "text_delta", text: "I " },
    { type: "text_delta", text: "can't." },
    {
      type: "completed",
      message: { role: "assistant", content: null, refusal: "I can't." },
      finishReason: "stop",
    },
  ]);
});

Deno.test("ReplyAssembler reads content in parts", () => {
  const parts = [{ type: "text", text: "Hel" }, { type: "text", text: "lo" }];
  assertEquals(assemble([delta({ content: parts }, "stop")]).completed?.message.content, "Hello");
});

Deno.test("ReplyAssembler reads a whole message instead of deltas, but not after them", () => {
  const message = { role: "assistant", content: "Hello" };
  const last = (delta?: unknown) => ({ choices: [{ index: 0, delta, message, finish_reason: "stop" }] });
  for (const reply of [assemble([last()]), assemble([last({})])]) {
    assertEquals([reply.events.length, reply.completed?.message.content], [2, "Hello"]);
  }
  const streamed = assemble([delta({ content: "Hel" }), delta({ content: "lo" }), last({})]);
  assertEquals([streamed.events.length, streamed.completed?.message.content], [3, "Hello"]);
});

Deno.test("ReplyAssembler maps finish reasons", () => {
  const call = { tool_calls: [{ index: 0, id: "1", function: { name: "f", arguments: "{}" } }] };
  const text = { content: "Hi" };
  for (
    const [fields, word, expected] of [
      [text, "stop", "stop"],
      [text, "end_turn", "stop"],
      [text, "tool_calls", "stop"],
      [text, "length", "length"],
      [text, "max_tokens", "length"],
      [text, "content_filter", "content_filter"],
      [call, "tool_calls", "tool_calls"],
      [call, "stop", "tool_calls"],
      [call, "function_call", "tool_calls"],
      [call, "length", "length"],
    ] as const satisfies readonly (readonly [unknown, string, FinishReason])[]
  ) {
    const reply = assemble([delta(fields, ""), delta({}, word), delta({}, null)]);
    assertEquals([word, reply.completed?.finishReason], [word, expected]);
  }
});

Deno.test("ReplyAssembler returns no reply that the provider abandoned", () => {
  for (const word of ["error", "insufficient_system_resource", ""]) {
    assertEquals(assemble([delta({ content: "Hal" }), delta({}, word)]).completed, undefined);
  }
});

Deno.test("ReplyAssembler ignores chunks without content", () => {
  const reply = assemble(
    [{}, { choices: [] }, { choices: null }, 7, { choices: [{}] }, delta({ content: "Hi" }, "stop")],
  );
  assertEquals(reply.events, [
    { type: "text_delta", text: "Hi" },
    { type: "completed", message: { role: "assistant", content: "Hi" }, finishReason: "stop" },
  ]);
});

Deno.test("ReplyAssembler removes null from replies and calls", () => {
  const call = { index: 0, id: "1", extra: null, function: { name: "f", arguments: "{}", strict: null } };
  const { completed } = assemble([delta({ refusal: null, tool_calls: [call] }, "stop")]);
  assertEquals(completed?.message as unknown, {
    role: "assistant",
    content: null,
    tool_calls: [{ id: "1", type: "function", function: { name: "f", arguments: "{}" } }],
  });
});

type Piece = Readonly<Record<string, unknown>>;

function callsOf(chunks: readonly (readonly Piece[])[], takenIds?: readonly string[]) {
  const deltas = chunks.map((pieces) => delta({ tool_calls: pieces }));
  return assemble([...deltas, delta({}, "tool_calls")], takenIds).completed?.message.tool_calls ?? [];
}

function inShort(chunks: readonly (readonly Piece[])[], takenIds?: readonly string[]) {
  return callsOf(chunks, takenIds).map((call) =>
    call.type === "function" ? [call.id, call.function.name, call.function.arguments] : []
  );
}

const ARGUMENTS = '{"path":"a"}';

function split(first: Piece, rest: Piece, [firstFunction, restFunction]: readonly [Piece, Piece]): Piece[][] {
  return [
    [{ ...first, function: { ...firstFunction, arguments: "" } }],
    [{ ...rest, function: { ...restFunction, arguments: ARGUMENTS.slice(0, 5) } }],
    [{ ...rest, function: { ...restFunction, arguments: ARGUMENTS.slice(5) } }],
  ];
}

Deno.test("CallAssembler joins the pieces of a call with any fields", () => {
  const named = { name: "f" };
  const whole = [["1", "f", ARGUMENTS]];
  const shapes: Readonly<Record<string, Piece[][]>> = {
    "by the book": split({ index: 0, id: "1", type: "function" }, { index: 0 }, [named, {}]),
    "id in each piece": split({ index: 0, id: "1" }, { index: 0, id: "1" }, [named, {}]),
    "id and name in each piece": split({ index: 0, id: "1" }, { index: 0, id: "1" }, [named, named]),
    "name in each piece": split({ index: 0, id: "1" }, { index: 0 }, [named, named]),
    "empty id and name after the first": split({ index: 0, id: "1" }, { index: 0, id: "" }, [named, {
      name: "",
    }]),
    "null id and name after the first": split({ index: 0, id: "1" }, { index: 0, id: null }, [named, {
      name: null,
    }]),
    "another id in each piece": split({ index: 0, id: "1" }, { index: 0, id: "2" }, [named, {}]),
    "no index": split({ id: "1" }, {}, [named, {}]),
    "no index, id in each piece": split({ id: "1" }, { id: "1" }, [named, {}]),
    "no index, id and name in each piece": split({ id: "1" }, { id: "1" }, [named, named]),
    "a new index for each piece": split({ index: 0, id: "1" }, { index: 1, id: "1" }, [named, {}]),
    "arguments as an object": [[{ index: 0, id: "1", function: { name: "f", arguments: { path: "a" } } }]],
    "empty arguments that are filled": [
      [{ index: 0, id: "1", function: { name: "f", arguments: "{}" } }],
      [{ index: 0, function: { arguments: ARGUMENTS } }],
    ],
    "the whole call once more": [
      [{ index: 0, id: "1", function: { name: "f", arguments: ARGUMENTS } }],
      [{ index: 0, id: "1", function: { name: "f", arguments: ARGUMENTS } }],
    ],
    "an empty piece around it": [
      [{}],
      [{ index: 0, id: "1", function: { name: "f", arguments: ARGUMENTS } }],
      [{ index: 0, function: { arguments: "" } }],
    ],
    "all pieces in one chunk": [split({ index: 0, id: "1" }, { index: 0, id: "1" }, [named, named]).flat()],
  };
  for (const [name, chunks] of Object.entries(shapes)) {
    assertEquals([name, inShort(chunks)], [name, whole]);
  }
});

Deno.test("CallAssembler joins split and grown names", () => {
  const named = (...names: readonly string[]) =>
    names.map((name, i) => [{ index: 0, ...(i === 0 && { id: "1" }), function: { name } }]);
  assertEquals(inShort(named("read", "_file")), [["1", "read_file", "{}"]]);
  assertEquals(inShort(named("read", "read_file")), [["1", "read_file", "{}"]]);
  assertEquals(
    inShort([
      [{ index: 0, id: "1", function: { name: "read" } }],
      [{ index: 0, function: { name: "_file", arguments: ARGUMENTS } }],
    ]),
    [["1", "read_file", ARGUMENTS]],
  );
});

Deno.test("CallAssembler separates the calls of a reply with any shared fields", () => {
  const f = { name: "f", arguments: ARGUMENTS };
  const g = { name: "g", arguments: "{}" };
  const both = [["1", "f", ARGUMENTS], ["2", "g", "{}"]];
  const shapes: Readonly<Record<string, readonly [Piece[][], unknown]>> = {
    "one chunk": [[[{ index: 0, id: "1", function: f }, { index: 1, id: "2", function: g }]], both],
    "two chunks": [[[{ index: 0, id: "1", function: f }], [{ index: 1, id: "2", function: g }]], both],
    "in turns": [
      [
        [{ index: 0, id: "1", function: { name: "f" } }, { index: 1, id: "2", function: { name: "g" } }],
        [{ index: 0, function: { arguments: '{"path"' } }, { index: 1, function: { arguments: "{" } }],
        [{ index: 1, function: { arguments: "}" } }, { index: 0, function: { arguments: ':"a"}' } }],
      ],
      both,
    ],
    "one chunk, same index": [
      [[{ index: 0, id: "1", function: f }, { index: 0, id: "2", function: g }]],
      both,
    ],
    "two chunks, same index": [
      [[{ index: 0, id: "1", function: f }], [{ index: 0, id: "2", function: g }]],
      both,
    ],
    "one chunk, no index": [[[{ id: "1", function: f }, { id: "2", function: g }]], both],
    "two chunks, no index": [[[{ id: "1", function: f }], [{ id: "2", function: g }]], both],
    "one chunk, same id": [
      [[{ index: 0, id: "1", function: f }, { index: 1, id: "1", function: g }]],
      [["1", "f", ARGUMENTS], ["call_2", "g", "{}"]],
    ],
    "one chunk, same id, no index": [
      [[{ id: "1", function: f }, { id: "1", function: f }]],
      [["1", "f", ARGUMENTS], ["call_2", "f", ARGUMENTS]],
    ],
    "one chunk, nothing but functions": [
      [[{ function: f }, { function: g }, { function: g }]],
      [["call_1", "f", ARGUMENTS], ["call_2", "g", "{}"], ["call_3", "g", "{}"]],
    ],
    "a chunk each, nothing but functions": [
      [[{ function: f }], [{ function: g }], [{ function: f }]],
      [["call_1", "f", ARGUMENTS], ["call_2", "g", "{}"], ["call_3", "f", ARGUMENTS]],
    ],
    "same index, empty ids": [
      [[{ index: 0, id: "", function: f }], [{ index: 0, id: "", function: f }]],
      [["call_1", "f", ARGUMENTS], ["call_2", "f", ARGUMENTS]],
    ],
  };
  for (const [name, [chunks, expected]] of Object.entries(shapes)) {
    assertEquals([name, inShort(chunks)], [name, expected]);
  }
});

Deno.test("CallAssembler returns ids that are new to the conversation", () => {
  assertEquals(
    inShort([[{ id: "1", function: { name: "f" } }, { id: "2", function: { name: "f" } }, {
      function: { name: "g" },
    }]], ["call_2", "1"]),
    [["call_3", "f", "{}"], ["2", "f", "{}"], ["call_5", "g", "{}"]],
  );
});

Deno.test("CallAssembler retains arguments that are no JSON", () => {
  assertEquals(inShort([[{ index: 0, id: "1", function: { name: "f", arguments: '{"a":' } }]]), [[
    "1",
    "f",
    '{"a":',
  ]]);
});

Deno.test("CallAssembler retains provider-specific fields", () => {
  assertEquals(
    callsOf([
      [{
        index: 0,
        id: "1",
        extra_content: { google: { thought_signature: "s" } },
        function: { name: "f", x: 1 },
      }],
      [{ index: 0, function: { arguments: "{}" } }],
    ]),
    [{
      id: "1",
      type: "function",
      function: { name: "f", arguments: "{}", x: 1 },
      extra_content: { google: { thought_signature: "s" } },
    }] as never,
  );
});

Deno.test("CallAssembler emits a delta for each piece", () => {
  const { events } = assemble([
    delta({ tool_calls: [{ index: 7, id: "1", function: { name: "f", arguments: "" } }] }),
    delta({ tool_calls: [{ index: 7, function: { arguments: "{}" } }] }),
    delta({}, "tool_calls"),
  ]);
  assertEquals(events.slice(0, 2), [
    { type: "tool_call_delta", index: 0, id: "1", name: "f" },
    { type: "tool_call_delta", index: 0, arguments: "{}" },
  ]);
});

Deno.test("CallAssembler joins calls with pieces in any size, order and labelling", () => {
  const someCall = fc.record({
    name: fc.stringMatching(/^[a-z]{1,8}$/),
    args: fc.dictionary(fc.string(), fc.string(), { minKeys: 1, maxKeys: 3 }).map((args) =>
      JSON.stringify(args)
    ),
    cuts: fc.array(fc.nat(20), { maxLength: 4 }),
  });
  fc.assert(
    fc.property(
      fc.array(someCall, { minLength: 1, maxLength: 4 }),
      fc.record({
        repeatId: fc.boolean(),
        repeatName: fc.boolean(),
        mixed: fc.boolean(),
        perChunk: fc.constantFrom(1, 3),
      }),
      (calls, { repeatId, repeatName, mixed, perChunk }) => {
        const pieces = calls.map(({ name, args, cuts }, index) => {
          const ends = [...new Set([...cuts.map((cut) => Math.min(cut, args.length)), args.length])].sort((
            a,
            b,
          ) => a - b);
          return [0, ...ends].slice(0, -1).map((start, i) => ({
            index,
            ...((i === 0 || repeatId) && { id: `id${index}` }),
            function: { ...((i === 0 || repeatName) && { name }), arguments: args.slice(start, ends[i]) },
          }));
        });
        // Interleaved: all first pieces, then all second ones, and so on.
        const longest = Math.max(...pieces.map((list) => list.length));
        const inOrder = mixed
          ? Array.from({ length: longest }, (_, i) => pieces.flatMap((list) => list[i] ?? [])).flat()
          : pieces.flat();
        // Pieces that repeat a name without the id can't share a chunk.
        const size = repeatName && !repeatId ? 1 : perChunk;
        const chunks = Array.from(
          { length: Math.ceil(inOrder.length / size) },
          (_, i) => inOrder.slice(i * size, (i + 1) * size),
        );
        assertEquals(inShort(chunks), calls.map(({ name, args }, i) => [`id${i}`, name, args]));
      },
    ),
    { numRuns: cases(100) },
  );
});

function merged(...deltas: readonly JsonRecord[]): JsonRecord {
  return deltas.reduce(mergeDelta, {});
}

Deno.test("mergeDelta() joins texts, appends lists, merges objects, replaces other values and ignores null", () => {
  assertEquals(
    merged(
      { custom: "a", list: [1], object: { text: "x", n: 1 }, flag: false, set: null, none: null },
      { custom: "b", list: [2, 3], object: { text: "y", n: 2 }, flag: true, set: "c" },
      { custom: null, none: null },
    ),
    { custom: "ab", list: [1, 2, 3], object: { text: "xy", n: 2 }, flag: true, set: "c", none: null },
  );
});

Deno.test("mergeDelta() joins the parts of reasoning with their signatures", () => {
  const text = (fields: JsonRecord) => ({
    reasoning_details: [{ type: "reasoning.text", index: 0, format: "v1", ...fields }],
  });
  assertEquals(
    merged(
      text({ text: "Let " }),
      text({ text: "me", id: "r1" }),
      text({ text: null, signature: "sig" }),
      { reasoning_details: [{ type: "reasoning.encrypted", index: 1, data: "AA" }] },
      { reasoning_details: [{ type: "reasoning.encrypted", index: 2, data: "BB" }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 3, summary: "I " }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 3, summary: "saw." }] },
      { reasoning_details: [{ type: "reasoning.summary", index: 4, summary: "And" }] },
    ),
    {
      reasoning_details: [
        { type: "reasoning.text", index: 0, format: "v1", text: "Let me", id: "r1", signature: "sig" },
        { type: "reasoning.encrypted", index: 1, data: "AA" },
        { type: "reasoning.encrypted", index: 2, data: "BB" },
        { type: "reasoning.summary", index: 3, summary: "I saw." },
        { type: "reasoning.summary", index: 4, summary: "And" },
      ],
    },
  );
});

Deno.test("mergeDelta() keeps complete parts separate", () => {
  const citation = (url: string) => ({ annotations: [{ type: "url_citation", url_citation: { url } }] });
  assertEquals(merged(citation("a"), citation("b")), {
    annotations: [...citation("a").annotations, ...citation("b").annotations],
  });
});

function usageOf(...last: readonly unknown[]): Usage | undefined {
  return assemble([delta({ content: "Hi" }), ...last]).completed?.usage;
}

Deno.test("readUsage() reads every provider's dialect", () => {
  const dialects: Readonly<Record<string, readonly [unknown, Usage | undefined]>> = {
    openai: [
      {
        prompt_tokens: 100,
        completion_tokens: 20,
        total_tokens: 120,
        prompt_tokens_details: { cached_tokens: 64, audio_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 15 },
      },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 20, reasoningTokens: 15 },
    ],
    responses: [
      {
        input_tokens: 100,
        input_tokens_details: { cached_tokens: 64, cache_write_tokens: 30 },
        output_tokens: 20,
        output_tokens_details: { reasoning_tokens: 15 },
        total_tokens: 120,
      },
      { promptTokens: 100, cachedTokens: 64, cacheWriteTokens: 30, outputTokens: 20, reasoningTokens: 15 },
    ],
    deepseek: [
      { prompt_tokens: 100, completion_tokens: 5, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 5 },
    ],
    "deepseek without a sum": [
      { completion_tokens: 5, prompt_cache_hit_tokens: 64, prompt_cache_miss_tokens: 36 },
      { promptTokens: 100, cachedTokens: 64, outputTokens: 5 },
    ],
    moonshot: [
      { prompt_tokens: 100, completion_tokens: 5, cached_tokens: 50 },
      { promptTokens: 100, cachedTokens: 50, outputTokens: 5 },
    ],
    openrouter: [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        prompt_tokens_details: { cached_tokens: 50, cache_write_tokens: 30 },
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic by a gateway": [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        cache_creation_input_tokens: 30,
        cache_read_input_tokens: 50,
        prompt_tokens_details: null,
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic's own": [
      { input_tokens: 20, output_tokens: 5, cache_creation_input_tokens: 30, cache_read_input_tokens: 50 },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, outputTokens: 5 },
    ],
    "anthropic's own, with what was written for an hour": [
      {
        input_tokens: 20,
        output_tokens: 5,
        cache_creation: { ephemeral_5m_input_tokens: 10, ephemeral_1h_input_tokens: 20 },
        cache_read_input_tokens: 50,
      },
      { promptTokens: 100, cachedTokens: 50, cacheWriteTokens: 30, hourWriteTokens: 20, outputTokens: 5 },
    ],
    "a prompt without its cached part": [
      { prompt_tokens: 20, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 80 } },
      { promptTokens: 100, cachedTokens: 80, outputTokens: 5 },
    ],
    xai: [
      {
        prompt_tokens: 100,
        completion_tokens: 5,
        total_tokens: 125,
        completion_tokens_details: { reasoning_tokens: 20 },
      },
      { promptTokens: 100, cachedTokens: 0, outputTokens: 25, reasoningTokens: 20 },
    ],
    zeros: [{ prompt_tokens: 0, completion_tokens: 0 }, undefined],
    nonsense: [{ prompt_tokens: "many" }, undefined],
    none: [null, undefined],
  };
  for (const [name, [raw, usage]] of Object.entries(dialects)) {
    assertEquals([name, readUsage(raw)], [name, usage]);
  }
});

Deno.test("ReplyAssembler reads usage anywhere in the stream; the last one counts", () => {
  const usage = { prompt_tokens: 9, completion_tokens: 4 };
  const expected = { promptTokens: 9, cachedTokens: 0, outputTokens: 4 };
  const choice = { index: 0, delta: {}, finish_reason: "stop" };
  assertEquals(usageOf({ choices: [choice], usage }), expected);
  assertEquals(usageOf({ choices: [{ ...choice, usage }] }), expected);
  assertEquals(usageOf({ choices: [choice], x_groq: { usage } }), expected);
  assertEquals(
    usageOf({ choices: [], usage: { prompt_tokens: 9, completion_tokens: 1 } }, {
      choices: [choice],
      usage,
    }),
    expected,
  );
  assertEquals(usageOf({ choices: [choice] }), undefined);
});

Deno.test("writeUsage() writes each dialect's cache usage as readUsage() reads it", () => {
  const usage = { promptTokens: 100, cachedTokens: 64, cacheWriteTokens: 36, outputTokens: 10 };
  const common = {
    prompt_tokens: 100,
    completion_tokens: 10,
    total_tokens: 110,
    prompt_tokens_details: { cached_tokens: 64 },
  };
  assertEquals(writeUsage(usage), common);
  assertEquals(writeUsage({ ...usage, reasoningTokens: 4 }), {
    ...common,
    completion_tokens_details: { reasoning_tokens: 4 },
  });
  assertEquals(writeUsage(usage, "deepseek"), {
    ...common,
    prompt_cache_hit_tokens: 64,
    prompt_cache_miss_tokens: 36,
  });
  assertEquals(writeUsage(usage, "anthropic"), {
    ...common,
    prompt_tokens_details: { cached_tokens: 64, cache_write_tokens: 36 },
    cache_read_input_tokens: 64,
    cache_creation_input_tokens: 36,
  });
  assertEquals(readUsage(writeUsage(usage, "anthropic")), usage);
});

import { assert, assertEquals, assertMatch } from "@std/assert";
import { argumentsParser } from "@tare/loop/arguments";
import { run, type TurnResult } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import {
  type AssistantMessage,
  type Content,
  estimateTokens,
  type Message,
  type Tool,
  type ToolCall,
  type ToolDefinition,
} from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import {
  type Dialect,
  DIALECTS,
  refusalIn,
  scripted,
  type SimulatedReply,
  simulator,
  toolCall,
} from "@tare/simulator";
import fc, { cases } from "./cases.ts";
import { chatBody, type JsonRecord, messagesBody, responsesBody } from "@tare/wire";
import { CHAT_FORMS, MESSAGES_FORMS, originalCalls, RESPONSES_FORMS } from "@tare/wire/internal";
import { messyConversations } from "./conversations.ts";

const text = (): fc.Arbitrary<string> =>
  fc.oneof(
    fc.string({ unit: "binary", maxLength: 8 }),
    fc.string({ maxLength: 8 }),
    fc.constantFrom("", "", " ", "\n", "\ud800", "a\udfff", "ok", "x".repeat(300)),
  );

const names = (): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constantFrom(
      "read_file",
      "list files",
      "21st",
      "functions.list_files:0",
      "-",
      "é",
      "a".repeat(64),
      "a".repeat(65),
    ),
    fc.constantFrom("a".repeat(129), "a b", "a_b", "__proto__", "constructor"),
    text(),
  );

const args = (): fc.Arbitrary<string> =>
  fc.oneof(
    fc.constantFrom("", "{}", '{"path":"a.t', "null", "[]", '"x"', "1", '{"a":"\\ud800"}', "{'a':1}"),
    fc.constantFrom("[".repeat(500), `{"a":${"[".repeat(500)}${"]".repeat(500)}}`, '{"a":1}{"a":1}'),
    fc.json({ maxDepth: 2 }),
    text(),
  );

const PNG = "data:image/png;base64,iVBORw0KGgo=";

const content = (): fc.Arbitrary<Content> =>
  fc.oneof(
    text(),
    fc.array(
      fc.oneof(
        text().map((text) => ({ type: "text", text }) as const),
        text().map((refusal) => ({ type: "refusal", refusal }) as const),
        fc.constantFrom(PNG, "https://host/a.png", "file:///a.png", "data:image/svg+xml;base64,AAAA", "x")
          .map((url) => ({ type: "image_url", image_url: { url } }) as const),
        fc.constant({ type: "input_audio", input_audio: { data: "AAAA", format: "wav" } } as const),
        fc.constantFrom(
          "",
          "data:application/pdf;base64,AAAA",
          "data:text/plain;base64,aGk=",
          "data:x/y;base64,AA==",
        ).map((
          file_data,
        ) => ({ type: "file", file: { file_data } }) as const),
      ),
      { maxLength: 3 },
    ),
  );

const calls = (): fc.Arbitrary<ToolCall> =>
  fc.oneof(
    fc.record({ id: names(), name: names(), args: args() }).map(({ id, name, args }): ToolCall => ({
      ...{ id, type: "function", function: { name, arguments: args } },
    })),
  );

const messages = (): fc.Arbitrary<Message> =>
  fc.oneof(
    fc.record({ content: content(), calls: fc.option(fc.array(calls(), { maxLength: 3 })) }).map(
      ({ content, calls }): Message => ({ role: "assistant", content, ...(calls && { tool_calls: calls }) }),
    ),
    fc.record({ tool_call_id: names(), content: content() }).map((result): Message => ({
      role: "tool",
      ...result,
    })),
    fc.record({ role: fc.constantFrom("system", "developer", "user"), content: content() }).map((message) =>
      message as Message
    ),
    fc.record({ name: names(), content: fc.option(text()) }).map((result): Message => ({
      role: "function",
      ...result,
    })),
  );

const steps = (): fc.Arbitrary<readonly Message[]> =>
  fc.record({
    content: fc.option(content()),
    calls: fc.array(calls(), { minLength: 1, maxLength: 3 }),
    results: fc.array(content(), { minLength: 3, maxLength: 3 }),
    isReversed: fc.boolean(),
  }).map(({ content, calls, results, isReversed }) => {
    const answers = calls.map(({ id }, at): Message => ({
      role: "tool",
      tool_call_id: id,
      content: results[at]!,
    }));
    return [
      { role: "assistant", content, tool_calls: calls },
      ...isReversed ? answers.toReversed() : answers,
    ];
  });

const histories = (): fc.Arbitrary<readonly Message[]> =>
  fc.oneof(
    messyConversations(),
    fc.array(fc.oneof(steps(), messages().map((message) => [message])), { maxLength: 8 }).map((all) =>
      all.flat()
    ),
  );

const KEYWORDS = [
  "type",
  "properties",
  "items",
  "anyOf",
  "oneOf",
  "allOf",
  "enum",
  "const",
  "not",
  "required",
];

const nodes = (): fc.Arbitrary<unknown> =>
  fc.letrec<{ readonly node: unknown }>((tie) => ({
    node: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      fc.constantFrom<unknown>(
        true,
        false,
        {},
        { type: "string" },
        { type: "array" },
        { description: "Any." },
        {
          type: "any",
        },
        { type: ["string", "null"], pattern: "a\\d" },
        { type: "string", pattern: "^[a-z]+$" },
        {
          $ref: "#/$defs/a",
        },
        { $ref: "#" },
        { $ref: "other.json" },
        { $ref: "#/properties/a~1b" },
        { type: "string", maxLength: 9_000 },
        {
          type: "integer",
          minimum: 1,
          exclusiveMinimum: true,
        },
        { enum: [] },
        { const: 1 },
        { items: [{ type: "string" }] },
        { type: "object", required: ["a", 1] },
      ),
      fc.dictionary(
        fc.constantFrom("a", "b", "$filter", "a/b", "filter[x]", "é", "k".repeat(65)),
        tie("node"),
        {
          maxKeys: 3,
        },
      ).map((properties) => ({ type: "object", properties, required: Object.keys(properties).slice(0, 1) })),
      fc.record({
        keyword: fc.constantFrom("anyOf", "oneOf", "allOf", "prefixItems"),
        all: fc.array(tie("node"), { maxLength: 3 }),
      }).map(({ keyword, all }) => ({ [keyword]: all })),
      fc.record({
        keyword: fc.constantFrom("items", "not", "additionalProperties", "if", ...KEYWORDS),
        one: tie("node"),
      }).map(({ keyword, one }) => ({ [keyword]: one })),
    ),
  })).node;

const schemas = (): fc.Arbitrary<JsonRecord> =>
  fc.record({
    base: fc.constantFrom<JsonRecord>(
      {},
      { type: "object" },
      { $defs: { a: { type: "object", properties: { x: {} } } } },
      { $ref: "#/$defs/a", $defs: { a: { type: "object", properties: { x: { type: "array" } } } } },
      {
        allOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }],
        $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { properties: { x: {} } }, { $ref: "#/$defs/a" }] } },
      },
    ),
    inner: nodes(),
  }).map(({ base, inner }) => ({ ...base, ...(typeof inner === "object" ? inner as JsonRecord : {}) }));

const tools = (): fc.Arbitrary<readonly ToolDefinition[]> =>
  fc.uniqueArray(
    fc.record({ name: names(), description: fc.option(text()), parameters: fc.option(schemas()) }).map(
      ({ name, description, parameters }): ToolDefinition => ({
        type: "function",
        function: { name, ...(description !== null && { description }), ...(parameters && { parameters }) },
      }),
    ),
    { maxLength: 4, selector: ({ function: { name } }) => name },
  );

interface Prompt {
  readonly messages: readonly Message[];
  readonly tools: readonly ToolDefinition[];
}

/** Protocols with their request format and the provider's rules. */
const PROTOCOLS = [
  { write: chatBody, forms: CHAT_FORMS, dialects: DIALECTS.chat },
  {
    write: (prompt: Prompt) => chatBody(prompt, { namesResults: true }),
    forms: CHAT_FORMS,
    dialects: ["gemini"],
    model: "gemini",
  },
  { write: responsesBody, forms: RESPONSES_FORMS, dialects: DIALECTS.responses },
  {
    write: (prompt: Prompt) => messagesBody(prompt, { maxTokens: 100 }),
    forms: MESSAGES_FORMS,
    dialects: DIALECTS.messages,
  },
] as const;

function sent(body: JsonRecord, model = "m"): unknown {
  return JSON.parse(JSON.stringify({ model, ...body }));
}

Deno.test("wire: requests of any history and any tools are legal for every provider", () => {
  fc.assert(
    fc.property(histories(), tools(), (messages, tools) => {
      for (const { write, dialects, ...more } of PROTOCOLS) {
        const body = write({ messages, tools });
        const refusal = refusalIn(
          sent(body, "model" in more ? more.model : "m"),
          dialects as readonly Dialect[],
        );
        assertEquals(refusal, undefined, JSON.stringify(body));
        const again = write(structuredClone({ messages, tools }));
        assertEquals(JSON.stringify(again), JSON.stringify(body));
      }
    }),
    { numRuns: cases(100) },
  );
});

Deno.test("wire: legal content is sent unchanged", () => {
  const call = {
    id: "call_1",
    type: "function",
    function: { name: "read_file", arguments: '{ "path":"a" }' },
  } as const;
  const messages: Message[] = [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Go" },
    { role: "assistant", content: null, tool_calls: [call] },
    { role: "tool", tool_call_id: "call_1", content: "ok" },
    { role: "assistant", content: "Done." },
    { role: "user", content: "More" },
  ];
  const tools: ToolDefinition[] = [{
    type: "function",
    function: {
      name: "read_file",
      parameters: {
        type: "object",
        properties: { path: { type: "string", pattern: "^[a-z]+$" } },
        required: ["path"],
      },
    },
  }];
  assertEquals(chatBody({ messages, tools }), { messages, tools });
  const { parameters } = tools[0]!.function;
  assertEquals(responsesBody({ messages, tools }).tools, [
    { type: "function", name: "read_file", parameters, strict: false },
  ]);
  const body = messagesBody({ messages, tools }, { maxTokens: 100, cacheTtlMs: 0 });
  assertEquals(body.tools, [{ name: "read_file", input_schema: parameters }]);
  assertEquals((body.messages as unknown[])[1], {
    role: "assistant",
    content: [{ type: "tool_use", id: "call_1", name: "read_file", input: { path: "a" } }],
  });
});

Deno.test("wire: two names or ids are never sent as the same, and a reply calls by the original one", () => {
  fc.assert(
    fc.property(fc.uniqueArray(names(), { minLength: 1, maxLength: 8 }), (names) => {
      const tools = names.map((name): ToolDefinition => ({ type: "function", function: { name } }));
      const calls = names.map((name): ToolCall => ({
        id: name,
        type: "function",
        function: { name, arguments: "{}" },
      }));
      const messages: Message[] = [
        { role: "assistant", content: null, tool_calls: calls },
        ...names.map((name): Message => ({ role: "tool", tool_call_id: name, content: name })),
      ];
      const request = { messages, tools };
      const [reply, ...answers] = chatBody(request).messages as [AssistantMessage, ...Message[]];
      const sent = reply.tool_calls!;
      assertEquals(new Set(sent.map(({ id }) => id)).size, names.length);
      assertEquals(
        answers.map((answer) => answer.role === "tool" && answer.tool_call_id),
        sent.map(({ id }) => id),
      );
      const again = originalCalls(
        { role: "assistant", content: null, tool_calls: sent },
        request,
        CHAT_FORMS,
      );
      assertEquals(again.tool_calls?.map((call) => call.type === "function" && call.function.name), names);
    }),
    { numRuns: cases(50) },
  );
});

Deno.test("wire: later messages change nothing of what was sent before", () => {
  fc.assert(
    fc.property(fc.array(steps(), { maxLength: 4 }), steps(), tools(), (before, next, tools) => {
      const history = before.flat();
      for (const { write } of PROTOCOLS.slice(0, 3)) {
        const [short, long] = [history, [...history, ...next]].map((messages) => {
          const body = write({ messages: [{ role: "user", content: "Go" }, ...messages], tools });
          return (body.messages ?? body.input) as unknown[];
        });
        assertEquals(long!.slice(0, short!.length), short);
      }
    }),
    { numRuns: cases(50) },
  );
});

Deno.test("wire: a renamed argument is returned under its own name", () => {
  const tool: ToolDefinition = {
    type: "function",
    function: {
      name: "list items",
      parameters: {
        type: "object",
        properties: { "$filter": { type: "string" }, top: {} },
        required: ["$filter"],
      },
    },
  };
  const { tools: [sent] } = messagesBody({ messages: [], tools: [tool] }, { maxTokens: 9 }) as {
    tools: [{ name: string; input_schema: { properties: object; required: string[] } }];
  };
  const [filter, top] = Object.keys(sent.input_schema.properties) as [string, string];
  assertMatch(filter, /^[\w.-]{1,64}$/);
  assertEquals([sent.input_schema.required, top], [[filter], "top"]);
  const call = { name: sent.name, arguments: JSON.stringify({ [filter]: "x", top: 1 }) };
  const reply: AssistantMessage = {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: call }],
  };
  const original = originalCalls(reply, { messages: [], tools: [tool] }, MESSAGES_FORMS);
  assertEquals(original.tool_calls?.[0], {
    ...{ id: "1", type: "function" },
    function: { name: "list items", arguments: '{"$filter":"x","top":1}' },
  });
});

Deno.test("wire: alternatives at the top of a schema become one object, and are described in words", () => {
  const parameters = {
    type: "object",
    properties: { project: { type: "string" } },
    required: ["project"],
    anyOf: [
      { properties: { title: { type: "string" }, kind: { const: "a" } }, required: ["title", "kind"] },
      { $ref: "#/$defs/other" },
    ],
    $defs: {
      other: { properties: { body: { type: "array" }, kind: { const: "b" } }, required: ["body", "kind"] },
    },
  };
  const tool: ToolDefinition = {
    type: "function",
    function: { name: "f", description: "Does.", parameters },
  };
  assertEquals(chatBody({ messages: [], tools: [tool] }).tools, [{
    type: "function",
    function: {
      name: "f",
      description: "Does.\nRequired: at least one of: title; body.",
      parameters: {
        type: "object",
        properties: {
          project: { type: "string" },
          title: { type: "string" },
          kind: { enum: ["a", "b"] },
          body: { type: "array", items: {} },
        },
        required: ["project", "kind"],
        $defs: {
          other: {
            properties: { body: { type: "array", items: {} }, kind: { const: "b" } },
            required: ["body", "kind"],
          },
        },
      },
    },
  }]);
});

Deno.test("wire: a repaired schema accepts what the original accepts", () => {
  const objects = fc.record({ a: nodes(), b: nodes() }).map((properties) => ({ type: "object", properties }));
  const originals = fc.oneof(
    objects,
    fc.record({ keyword: fc.constantFrom("anyOf", "oneOf", "allOf"), all: fc.tuple(objects, objects) }).map(
      ({ keyword, all }) => ({ [keyword]: all }),
    ),
  ).filter((schema) => !JSON.stringify(schema).includes('"exclusiveMinimum":true'));
  const value = fc.oneof(
    fc.constantFrom<unknown>(null, 1, "a", "a1", [], ["a"], {}, { a: 1 }, { b: "a" }),
    fc.jsonValue(),
  );
  const values = fc.record({ a: value, b: value }, { requiredKeys: [] });
  let accepted = 0;
  fc.assert(
    fc.property(originals, fc.array(values, { minLength: 1, maxLength: 8 }), (parameters, all) => {
      const original: ToolDefinition = { type: "function", function: { name: "f", parameters } };
      if (!isUsable(original)) return;
      const [legal] = chatBody({ messages: [], tools: [original] }).tools as [ToolDefinition];
      const [parse, parseLegal] = [argumentsParser(original), argumentsParser(legal)];
      for (const text of all.map((value) => JSON.stringify(value))) {
        if (!parse(text).ok) continue;
        accepted++;
        assert(parseLegal(text).ok, `${text}: ${JSON.stringify([parameters, legal.function.parameters])}`);
      }
    }),
    { numRuns: cases(200) },
  );
  assert(accepted > 0);
});

const characters = { encode: (text: string) => Array.from(text, (character) => character.charCodeAt(0)) };

Deno.test("loop: bad arguments, an invented name and another provider's ids end no session, also with another model", async () => {
  const provider = simulator({
    model: scripted([
      { tool_calls: [toolCall("update", '{"title": "a', { id: "functions.update:0" })] },
      { tool_calls: [toolCall("list files", {}, { id: "functions.list files:1" })] },
      { tool_calls: [toolCall("update", {}, { id: "functions.update:2" })] },
      { tool_calls: [toolCall("update", { title: "b" }, { id: "functions.update:3" })] },
      { content: "Done." },
      { content: "Done by another." },
      { content: "Done by a third." },
    ]),
    tokenizer: characters,
  });
  const access = {
    model: "m",
    maxRetries: 0,
    fetch: (...args: Parameters<typeof fetch>) => provider.fetch(new Request(...args)),
  };
  const baseURL = "http://provider/v1";
  const update: Tool = {
    definition: {
      type: "function",
      function: {
        name: "update",
        parameters: {
          type: "object",
          properties: { title: { type: "string" }, body: { type: "string" } },
          anyOf: [{ required: ["title"] }, { required: ["body"] }],
        },
      },
    },
    run: () => "updated",
  };
  const ping: Tool = {
    definition: { type: "function", function: { name: "ping", parameters: { type: "object" } } },
    run: () => "pong",
  };
  let history: readonly Message[] = [];
  for (
    const model of [
      openaiModel({ ...access, baseURL }),
      anthropicModel({ ...access, baseURL: "http://provider" }),
      openaiModel({ ...access, baseURL, protocol: "responses" }),
    ]
  ) {
    const { messages, reason } = await played(run({ model, tools: [update, ping], history, input: "Go" }));
    assertEquals(reason, "completed");
    history = [...history, ...messages];
  }
  const results = history.flatMap((message) => message.role === "tool" ? [String(message.content)] : []);
  assertMatch(results[0]!, /its arguments are not valid JSON/);
  assertMatch(results[1]!, /Cannot run "list files": there is no such tool/);
  assertMatch(results[2]!, /its arguments are invalid/);
  assertEquals(results[3], "updated");
  // The history has the model's own output.
  const made = history.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : []);
  assertEquals(made.map(({ id }) => id).slice(0, 2), ["functions.update:0", "functions.list files:1"]);
  assertEquals(made[0]?.type === "function" && made[0].function.arguments, '{"title": "a');
});

const replies = (): fc.Arbitrary<SimulatedReply> =>
  fc.record({ content: fc.option(text()), calls: fc.array(calls(), { minLength: 1, maxLength: 3 }) }).map(
    ({ content, calls }) => ({ content, tool_calls: calls.filter((call) => call.type === "function") }),
  );

Deno.test("loop: no reply, tool or result ends a session, in any protocol", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(replies(), { minLength: 1, maxLength: 3 }),
      tools(),
      fc.array(text(), { minLength: 1 }),
      fc.constantFrom("chat", "responses", "messages"),
      async (replies, offered, results, protocol) => {
        const provider = simulator({
          model: scripted([...replies, { content: "Done." }, { content: "Done again." }]),
          tokenizer: characters,
        });
        const refusals: string[] = [];
        const access = {
          model: "m",
          baseURL: "http://provider/v1",
          maxRetries: 0,
          fetch: async (...args: Parameters<typeof fetch>) => {
            const response = await provider.fetch(new Request(...args));
            if (response.status === 400) refusals.push(await response.clone().text());
            return response;
          },
        };
        const model = protocol === "messages"
          ? anthropicModel({ ...access, baseURL: "http://provider" })
          : openaiModel({ ...access, protocol });
        const tools = offered.filter(isUsable).map((definition, at): Tool => ({
          definition,
          run: () => results[at % results.length]!,
        }));
        let history: readonly Message[] = [];
        for (const input of ["Go", "Again"]) {
          const { messages, reason, message } = await played(run({ model, tools, history, input }));
          assertEquals([reason, refusals], ["completed", []], message ?? "");
          history = [...history, ...messages];
        }
      },
    ),
    { numRuns: cases(40) },
  );
});

function isUsable(definition: ToolDefinition): boolean {
  try {
    argumentsParser(definition);
    return true;
  } catch {
    return false;
  }
}

async function played(events: ReturnType<typeof run>): Promise<TurnResult> {
  for (;;) {
    const { done, value } = await events.next();
    if (done) return value;
  }
}

Deno.test("planner: requests of a session's views are legal for every provider", async () => {
  await fc.assert(
    fc.asyncProperty(histories(), tools(), async (history, tools) => {
      const session = plannerSession({
        ...{ profile: profileNamed("none"), archive: memoryArchive(), countTokens: estimateTokens },
        windowTokens: 20_000,
      });
      const first = history.findIndex(({ role }) => role !== "system" && role !== "developer");
      for (let end = first + 1; end <= history.length; end++) {
        const view = await session.view({ messages: history.slice(0, end), tools }, { nowMs: end * 1_000 });
        for (const { write, dialects, ...more } of PROTOCOLS) {
          const body = sent(write(view), "model" in more ? more.model : "m");
          assertEquals(refusalIn(body, dialects as readonly Dialect[]), undefined);
        }
        session.sent({ promptTokens: 100, cachedTokens: 0, outputTokens: 1 }, view);
      }
    }),
    { numRuns: cases(30) },
  );
});

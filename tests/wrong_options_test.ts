// Invalid options are refused by name at the entry, or have no effect: no accepted option produces NaN.
import { assert, assertEquals, assertMatch, assertRejects, assertThrows } from "@std/assert";
import fc, { cases } from "./cases.ts";
import { type CallParams, tare } from "@tare/adapters/ai-sdk";
import { toolLoopContext } from "@tare/context";
import { gateway } from "@tare/gateway";
import { anthropicModel } from "@tare/loop/anthropic";
import { openaiModel } from "@tare/loop/openai";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed, type PromptSessionOptions, PromptTooLong } from "@tare/planner";
import { policySession } from "@tare/planner/policies";
import { memoryArchive, pruneResults, relievePressure, selectElisions, truncateResults } from "@tare/prune";
import { compactTools } from "@tare/schemas";

const MESSAGES: readonly Message[] = [
  { role: "user", content: "Why?" },
  {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "1", content: "a line of the log\n".repeat(500) },
  { role: "assistant", content: "So." },
  { role: "user", content: "And now?" },
];
const USAGE = { promptTokens: 3_000, cachedTokens: 0, outputTokens: 5 };

// deno-lint-ignore no-explicit-any -- Called as JavaScript calls them, without types.
type Untyped = any;

const MODEL = {
  specificationVersion: "v4",
  modelId: "gpt-5.5",
  doGenerate: (_: CallParams) => Promise.resolve({ usage: { inputTokens: 3_000, outputTokens: 5 } }),
  doStream: () => Promise.reject(new Error("nobody streams")),
};

const counter = { countTokens: estimateTokens };
const eliding = () => ({ ...counter, archive: memoryArchive() });

const FUNCTIONS: Readonly<
  Record<
    string,
    {
      readonly right: () => object;
      readonly more: readonly string[];
      readonly run: (options: Untyped) => unknown;
    }
  >
> = {
  plannerSession: {
    right: () => ({ ...eliding(), profile: profileNamed("openai"), windowTokens: 200_000 }),
    more: [
      "dryRun",
      "mechanisms",
      "truncateTokens",
      "alwaysFull",
      "summarize",
      "state",
      "advanced",
      "evict",
    ],
    async run(options) {
      const session = plannerSession(options);
      const view = await session.view({ messages: MESSAGES, tools: [] }, { nowMs: 0 });
      return [view, session.sent(USAGE, view)];
    },
  },
  tare: {
    right: () => ({ ...eliding(), profile: profileNamed("openai"), warn: () => {}, now: () => 0 }),
    more: ["store", "memory", "conversation", "windowTokens"],
    async run(options) {
      const adapter = tare<typeof MODEL>({ model: MODEL, ...options });
      await adapter.model.doGenerate({ prompt: [{ role: "system", content: "Hi." }] });
      return [adapter.total, adapter.ledger];
    },
  },
  pruneResults: {
    right: eliding,
    more: ["windowTokens", "protectTokens", "minBytes", "isError", "tools"],
    run: (options) => pruneResults(MESSAGES, options),
  },
  truncateResults: {
    right: eliding,
    more: ["limitTokens"],
    run: (options) => truncateResults(MESSAGES, options),
  },
  relievePressure: {
    right: eliding,
    more: ["windowTokens", "pruneAt", "summarizeAt", "keepTokens", "countPrompt"],
    run: (options) => relievePressure(MESSAGES, options),
  },
  selectElisions: {
    right: () => counter,
    more: ["windowTokens", "protectTokens", "minBytes"],
    run: (options) => selectElisions(MESSAGES, options),
  },
  toolLoopContext: {
    right: () => counter,
    more: ["historyBudgetTokens", "activeTurnStart"],
    run: (options) => toolLoopContext(MESSAGES, options),
  },
  compactTools: {
    right: () => ({ ...counter, exposed: new Set() }),
    more: ["minTokens", "alwaysFull", "called"],
    run: (options) => compactTools([{ type: "function", function: { name: "read" } }], options),
  },
};

/** Reports whether a value contains NaN, or a text made from an object. */
function isPoisoned(value: unknown, seen = new Set<unknown>()): boolean {
  if (typeof value === "number") return Number.isNaN(value);
  if (typeof value === "string") return value.includes("[object ");
  if (typeof value !== "object" || value === null || seen.has(value)) return false;
  seen.add(value);
  return Object.values(value).some((one) => isPoisoned(one, seen));
}

const wrong = fc.oneof(
  fc.constantFrom<unknown>(NaN, -1, 0, "200k", "openai", "garbage", null, true, [], {}, ""),
  fc.constantFrom<unknown>(
    () => Promise.resolve(4),
    () => NaN,
    () => "4",
    () => undefined,
    Promise.resolve(1),
  ),
  fc.anything(),
);

Deno.test("options: 10,000 wrong ones are refused by name, or have no effect", async () => {
  const options = Object.entries(FUNCTIONS).flatMap(([name, { right, more }]) =>
    [...Object.keys(right()), ...more].map((option) => [name, option] as const)
  );
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(fc.constantFrom(...options), wrong, async ([name, option], value) => {
      const { right, run } = FUNCTIONS[name]!;
      let given: unknown;
      try {
        given = await run({ ...right(), [option]: value });
      } catch (error) {
        // A window of a few tokens is valid.
        if (error instanceof PromptTooLong && typeof value === "number") return;
        refused++;
        const { message } = error as Error;
        assertMatch(message, /^Cannot /);
        return assert(message.includes(option), `${name} with ${option}: ${message}`);
      }
      assert(!isPoisoned(given), `${name} with ${option} gives a number that is none`);
    }),
    { numRuns: cases(10_000) },
  );
  assert(refused > 5_000, `${refused} were refused`);
});

const OPTIONS: PromptSessionOptions = {
  profile: profileNamed("openai"),
  archive: memoryArchive(),
  ...counter,
};

Deno.test("options: common mistakes are refused by name, with a valid value", async () => {
  const session = (options: Untyped) => () => plannerSession({ ...OPTIONS, ...options });
  const refusals: readonly (readonly [() => unknown, string])[] = [
    [
      session({ profile: "openai" }),
      'options.profile is "openai"; it must be a profile, such as chooseProfile({ model }) or',
    ],
    [
      session({ countTokens: () => Promise.resolve(4) }),
      "options.countTokens returns a promise; it must be a function that synchronously returns the tokens of a text as a number",
    ],
    [session({ windowTokens: "200k" }), 'options.windowTokens is "200k"; it must be a number above 0'],
    [session({ windowTokens: 0 }), "options.windowTokens is 0; it must be a number above 0"],
    [session({ windowTokens: NaN }), "options.windowTokens is NaN; it must be a number above 0"],
    [
      session({ windowToken: 200_000 }),
      "options.windowToken is unknown; the nearest known name is windowTokens",
    ],
    [
      session({ window_tokens: 200_000 }),
      "options.window_tokens is unknown; the nearest known name is windowTokens",
    ],
    [
      session({ advanced: { lossLimt: 0.1 } }),
      "options.advanced.lossLimt is unknown; the nearest known name is lossLimit",
    ],
    [
      session({ advanced: { retention: { stepTail: 0 } } }),
      "options.advanced.retention.stepTail is unknown; the nearest known name is stepTailTokens",
    ],
    [
      () => policySession({ ...OPTIONS, triggers: { pruneFrom: 0.5 } } as Untyped),
      "options.triggers.pruneFrom is unknown; the nearest known name is pruneAt",
    ],
    [session({ state: "garbage" }), 'options.state is "garbage"; it must be an object'],
    [session({ state: { messages: [] } }), "options.state.edits is missing; it must be an array"],
    [
      () => tare({ model: "gpt-5.5" as Untyped }),
      'model is "gpt-5.5"; it must be an object with doGenerate, doStream',
    ],
    [
      () => tare({ model: MODEL, store: { load: () => {}, save: () => {} } }),
      "options.archive is missing. Pass an archive that is as durable as the store.",
    ],
  ];
  for (const [run, expected] of refusals) assertThrows(run, Error, expected);
  const planned = plannerSession(OPTIONS);
  await planned.view({ messages: MESSAGES, tools: [] }, { nowMs: 0 });
  const { promptTokens: prompt_tokens } = USAGE;
  assertThrows(
    () => planned.sent({ prompt_tokens, completion_tokens: 5 } as Untyped),
    TypeError,
    "usage.prompt_tokens is unknown; the nearest known name is promptTokens",
  );
  assertEquals(planned.sent(USAGE)?.usage, USAGE);
});

Deno.test("options: unknown ones are refused with the nearest known name", async () => {
  const upstreams = { chat: { baseURL: "http://provider.test/v1", profile: profileNamed("openai") } };
  const countTokens = () => Promise.resolve(estimateTokens);
  const model = { model: "gpt-5.5" };
  const cases: readonly (readonly [string, Untyped, string, string])[] = [
    ["tare", (more: object) => tare({ model: MODEL, ...more }), "window", "windowTokens"],
    ["tare", (more: object) => tare({ model: MODEL, ...more }), "policy", "profile"],
    [
      "toolLoopContext",
      (more: object) => toolLoopContext(MESSAGES, more),
      "historyBudget",
      "historyBudgetTokens",
    ],
    [
      "pruneResults",
      (more: object) => pruneResults(MESSAGES, { ...eliding(), ...more }),
      "protect",
      "protectTokens",
    ],
    [
      "pruneResults",
      (more: object) => pruneResults(MESSAGES, { ...eliding(), ...more }),
      "minByte",
      "minBytes",
    ],
    [
      "compactTools",
      (more: object) => compactTools([], { exposed: new Set(), ...more }),
      "minToken",
      "minTokens",
    ],
    [
      "gateway",
      (more: object) => gateway({ upstreams, countTokens, ...more }),
      "time_now",
      "now",
    ],
    ["openaiModel", (more: object) => openaiModel({ ...model, ...more }), "baseUrl", "baseURL"],
    ["anthropicModel", (more: object) => anthropicModel({ ...model, ...more }), "max_tokens", "maxTokens"],
  ];
  for (const [name, run, unknown, nearest] of cases) {
    const { message } = await assertRejects(async () => await run({ [unknown]: 5 }), TypeError);
    assertEquals(
      message,
      `Cannot run ${name}(): options.${unknown} is unknown; the nearest known name is ${nearest}`,
    );
    await run({ [unknown]: undefined });
  }
  const upstream = { chat: { ...upstreams.chat, baseUrl: "" } };
  assertThrows(
    () => gateway({ upstreams: upstream, countTokens }),
    TypeError,
    "options.upstreams.chat.baseUrl is unknown; the nearest known name is baseURL",
  );
  assertThrows(
    () => gateway({ upstreams, countTokens, limits: { body_bytes: 5 } as Untyped }),
    TypeError,
    "options.limits.body_bytes is unknown; the nearest known name is bodyBytes",
  );
});

Deno.test("messages: other formats are named in the error, with their converter", async () => {
  const anthropic =
    "a message of Anthropic's Messages API; convert requests with fromAnthropic() of @tare/wire";
  const responses = "an item of OpenAI's Responses API; convert requests with fromResponses() of @tare/wire";
  const sdk = "a message of the AI SDK; convert messages with fromAiSdk() of @tare/adapters/ai-sdk";
  const foreign: readonly (readonly [object, string])[] = [
    [{ role: "tool", content: [{ type: "tool-result", toolCallId: "1" }] }, sdk],
    [{ role: "tool", content: [{ type: "tool-approval-response", approvalId: "1" }] }, sdk],
    [{ role: "assistant", content: [{ type: "reasoning", text: "So." }] }, sdk],
    [{ role: "user", content: [{ type: "image", image: "https://a.test/1.png" }] }, sdk],
    [{ role: "user", content: [{ type: "file", data: "AAAA", mediaType: "image/png" }] }, sdk],
    [{ role: "user", content: [{ type: "tool_result", tool_use_id: "1" }] }, anthropic],
    [{ role: "user", content: [{ type: "image", source: { type: "url", url: "a" } }] }, anthropic],
    [{ role: "assistant", content: [{ type: "thinking", thinking: "Hm.", signature: "s" }] }, anthropic],
    [{ role: "assistant", content: [{ type: "redacted_thinking", data: "sealed" }] }, anthropic],
    [{ type: "function_call_output", call_id: "1" }, responses],
    [{ type: "reasoning", id: "1", summary: [] }, responses],
    [{ role: "user", content: [{ type: "input_text", text: "Hi." }] }, responses],
  ];
  for (const [message, expected] of foreign) {
    const messages = [message] as Untyped;
    const named = `messages[0] is ${expected}`;
    await assertRejects(
      () => plannerSession(OPTIONS).view({ messages, tools: [] }, { nowMs: 0 }),
      TypeError,
      named,
    );
    await assertRejects(() => pruneResults(messages, eliding()), TypeError, named);
    assertThrows(() => toolLoopContext(messages, counter), TypeError, named);
  }
  const thinking = [{ type: "thinking", thinking: [{ type: "text", text: "Hm." }] }, {
    type: "text",
    text: "So.",
  }];
  const mistral = [MESSAGES[0], { role: "assistant", content: thinking }] as Untyped;
  const { messages } = await plannerSession(OPTIONS).view({ messages: mistral, tools: [] }, { nowMs: 0 });
  assertEquals(messages, mistral);
});

// Errors of callers without TypeScript: a parameter that is missing or has a wrong type.
import { assert, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";

/** Public functions with untrusted input, by entry point. All others trust their types. */
const EDGES: Readonly<Record<string, readonly string[]>> = {
  messages: ["countRequestTokens", "sampledCount"],
  context: ["groupTurns", "toolLoopContext"],
  prune: [
    "isColdResume",
    "pressure",
    "pruneResults",
    "recallOriginal",
    "relievePressure",
    "selectElisions",
    "summarizeTurns",
    "truncateResults",
  ],
  schemas: ["compactTool", "compactTools", "standIns"],
  planner: ["plannerSession"],
  "planner/policies": ["policySession"],
  wire: ["fromAnthropic", "fromResponses", "toAnthropic", "toResponses"],
  loop: ["run"],
  "loop/openai": ["openaiModel"],
  "loop/anthropic": ["anthropicModel"],
  tools: ["workspaceTools"],
  gateway: ["gateway"],
};

// deno-lint-ignore no-explicit-any -- Called as JavaScript calls them, without types.
type Untyped = (...args: any[]) => any;

async function complaint(call: Untyped, args: readonly unknown[]): Promise<string | undefined> {
  try {
    await call(...args);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

for (const [entry, names] of Object.entries(EDGES)) {
  Deno.test(`@tare/${entry}: errors of invalid parameters name them`, async () => {
    const module: Readonly<Record<string, unknown>> = await import(`@tare/${entry}`);
    for (const name of names) {
      for (const args of [[], [{}], [[]], [[], {}], [{}, {}], ["text"], ["text", {}]]) {
        const expected = await complaint(module[name] as Untyped, args) ?? "Cannot run: nothing is wrong";
        const title = `${name}(${args.map((one) => JSON.stringify(one)).join(", ")}): ${expected}`;
        assert(/^Cannot (?!read properties|destructure|convert)/.test(expected), title);
      }
    }
  });
}

const archive = { put: () => "", get: () => "" };
const countTokens = () => 1;
const hi = { role: "user", content: "Hi." };
const session = { profile: profileNamed("openai"), archive, countTokens };

const TABLE: readonly (readonly [string, readonly unknown[], string])[] = [
  ["prune pruneResults", [], "messages is missing; it must be an array of chat messages"],
  ["prune pruneResults", [{}, {}], "messages is an object; it must be an array of chat messages"],
  ["prune pruneResults", [[hi]], "options is missing; it must be an object with archive"],
  ["prune pruneResults", [[hi], {}], "options.archive is missing; it must be an object with put, get"],
  ["prune pruneResults", [[hi], { archive: {} }], "options.archive.put is missing; it must be a function"],
  [
    "prune pruneResults",
    [[hi], { archive, countTokens: "o200k_base" }],
    'options.countTokens is "o200k_base"; it must be a function',
  ],
  [
    "prune pruneResults",
    [[hi, { role: "human" }], { archive, countTokens }],
    'messages[1].role is "human"; it must be one of system, developer, user, assistant, tool, function',
  ],
  ["prune truncateResults", [["Hi."], {}], 'messages[0] is "Hi."; it must be a chat message'],
  ["prune summarizeTurns", [[hi], null], "options is null; it must be an object with archive"],
  [
    "prune relievePressure",
    [[hi], []],
    "options is an array; it must be an object with archive",
  ],
  ["prune pressure", [{}], "options.promptTokens is missing; it must be a number of 0 or more"],
  ["prune recallOriginal", [{}, { ref: "x" }], "archive.get is missing; it must be a function"],
  ["prune recallOriginal", [archive], "request is missing; it must be an object"],
  ["context toolLoopContext", [[hi], { countTokens: 4 }], "options.countTokens is 4; it must be a function"],
  [
    "context groupTurns",
    [[{ content: "Hi." }]],
    "messages[0].role is missing; it must be one of system, developer, user, assistant, tool, function",
  ],
  ["schemas compactTool", [{}], "tool.function is missing; it must be an object with name"],
  [
    "schemas compactTools",
    [[], { countTokens }],
    "options.exposed is missing; it must be an object with has",
  ],
  ["messages countRequestTokens", [{}, countTokens], "request.messages is missing; it must be an array"],
  ["planner plannerSession", [{}], "options.profile is missing; it must be an object, or a function"],
  [
    "planner/policies policySession",
    [{ ...session, countTokens: undefined }],
    "options.countTokens is missing; it must be a function",
  ],
  [
    "planner/policies policySession",
    [{ ...session, policy: "classic", archive: [] }],
    "options.archive is an array; it must be an object with put, get",
  ],
  ["loop run", [{ history: [] }], "options.model is missing; it must be a function"],
  ["loop run", [{ model: () => [] }], "options.history is missing; it must be an array of chat messages"],
  ["gateway gateway", [{ countTokens }], "options.upstreams is missing; it must be an object"],
  [
    "gateway gateway",
    [{ countTokens, upstreams: { chat: {} } }],
    "options.upstreams.chat.baseURL is missing; it must be a string",
  ],
  ["tools workspaceTools", [{}], "options.workspace is missing; it must be a string"],
];

for (const [symbol, args, expected] of TABLE) {
  const [entry, name = ""] = symbol.split(" ");
  Deno.test(`${name}() reports: ${expected}`, async () => {
    const module = await import(`@tare/${entry}`);
    const output = await complaint(module[name], args);
    assertEquals(output?.slice(output.indexOf(": ") + 2), expected);
    assert(output?.startsWith("Cannot run "));
  });
}

Deno.test("session.view(): errors name the missing part of a history or call", async () => {
  const { plannerSession, profileNamed } = await import("@tare/planner");
  const { policySession } = await import("@tare/planner/policies");
  for (const make of [plannerSession, policySession] as readonly Untyped[]) {
    const policy = make === plannerSession ? undefined : "classic";
    const { view } = make({ ...session, profile: profileNamed("openai"), policy });
    const output = [
      await complaint(view, [[hi], { nowMs: 0 }]),
      await complaint(view, [{ messages: [hi] }, { nowMs: 0 }]),
      await complaint(view, [{ messages: [{ role: "bot" }], tools: [] }, { nowMs: 0 }]),
      await complaint(view, [{ messages: [hi], tools: [] }]),
    ];
    assertEquals(output, [
      "Cannot run view(): history is an array; it must be an object with messages, tools",
      "Cannot run view(): history.tools is missing; it must be an array",
      'Cannot run view(): history.messages[0].role is "bot"; it must be one of system, developer, user, assistant, tool, function',
      "Cannot run view(): call is missing; it must be an object with nowMs",
    ]);
  }
});

// What callers without TypeScript are told: which parameter is missing, or isn't what it must be.
import { assert, assertEquals } from "@std/assert";
import { profileNamed } from "@tare/planner";

/** Every package that is imported by itself, by its entry points: but for reports, which work on what a session gave. */
const ENTRIES = [
  "messages",
  "tiktoken",
  "arguments",
  "context",
  "prune",
  "schemas",
  "planner",
  "planner/parts",
  "planner/policies",
  "wire",
  "loop",
  "loop/openai",
  "loop/anthropic",
  "gateway",
  "conversation",
  "conversation/sqlite",
  "loop/tools",
  "simulator",
];

/** What of a package works on one text, message, reply or report that another function gave: nobody begins with it. */
const PARTS: Readonly<Record<string, readonly string[]>> = {
  messages: [
    "addUsage",
    "contentText",
    "describeCall",
    "estimateTokens",
    "exitCodeIn",
    "firstWords",
    "hashBytes",
    "hashPiece",
    "tellBy",
    "hashText",
    "holdsMedia",
    "isMedia",
    "meantCall",
    "personsWords",
    "planAfter",
    "sameData",
    "toolMessage",
    "transcribe",
    "checkGiven",
  ],
  prune: [
    "archiveMessages",
    "bytesFromText",
    "formatPlaceholder",
    "looksLikeError",
    "parsePlaceholder",
    "placeholderRefs",
    "reportsError",
    "resultOriginal",
    "resultText",
    "textFromBytes",
    "traitsOf",
  ],
  planner: [
    "chooseProfile",
    "fittingPins",
    "makePin",
    "observeUpgrade",
    "pinsAfter",
  ],
  "planner/parts": [
    "howToAsk",
    "isSummary",
    "profileForTtl",
    "promptCost",
    "providerOf",
    "routeToCache",
    "searchesTools",
  ],
  wire: [
    "anchorOf",
    "chatBody",
    "finishedReply",
    "joinBytes",
    "jsonExcess",
    "legalArguments",
    "messagesBody",
    "originalCalls",
    "responsesBody",
    "readCacheMarks",
    "steadyTools",
    "toolsInFront",
    "withFoundTools",
    "readItems",
    "readUsage",
    "searchBlocks",
    "underClientIds",
    "withoutThoughts",
    "deferTools",
    "isFunction",
    "readField",
    "readJsonAt",
  ],
  loop: ["addLedgers", "pinOf"],
  "loop/tools": ["isProtected", "openAt", "pathAfterLinks"],
};

// deno-lint-ignore no-explicit-any -- Called as JavaScript calls them, without types.
type Untyped = (...args: any[]) => any;

/** What a call throws or rejects with; nothing if it does neither. */
async function complaint(call: Untyped, args: readonly unknown[]): Promise<string | undefined> {
  try {
    await call(...args);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

for (const entry of ENTRIES) {
  Deno.test(`@tare/${entry}: each function says by name what it lacks, whatever it is given`, async () => {
    const module: Readonly<Record<string, unknown>> = await import(`@tare/${entry}`);
    let called = 0;
    // A text is a fine path, and would be written there.
    const texts = entry.startsWith("conversation") ? [] : [["text"], ["text", {}]];
    for (const [name, exported] of Object.entries(module)) {
      if (typeof exported !== "function" || /^[A-Z]/.test(name) || PARTS[entry]?.includes(name)) continue;
      called++;
      for (const args of [[], [{}], [[]], [[], {}], [{}, {}], ...texts]) {
        const told = await complaint(exported as Untyped, args) ?? "Cannot run: nothing is wrong";
        const title = `${name}(${args.map((one) => JSON.stringify(one)).join(", ")}): ${told}`;
        assert(/^Cannot (?!read properties|destructure|convert)/.test(told), title);
      }
    }
    assert(called > 0);
  });
}

const archive = { put: () => "", get: () => "" };
const countTokens = () => 1;
const hi = { role: "user", content: "Hi." };
const session = { profile: profileNamed("openai"), archive, countTokens };

/** A function, what it is given, and what it says. */
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
  ["prune summariseTurns", [[hi], null], "options is null; it must be an object with archive"],
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
  ["schemas shownTools", [[], { countTokens }], "options.exposed is missing; it must be an object with has"],
  ["messages countMessageTokens", [hi], "countTokens is missing; it must be a function"],
  [
    "messages countMessageTokens",
    [{ role: 7 }, countTokens],
    "message.role is 7; it must be one of system, developer, user, assistant, tool, function",
  ],
  ["messages countRequestTokens", [{}, countTokens], "request.messages is missing; it must be an array"],
  ["planner plannerSession", [{}], "options.profile is missing; it must be given"],
  [
    "planner/policies promptSession",
    [{ ...session, countTokens: undefined }],
    "options.countTokens is missing; it must be a function",
  ],
  [
    "planner/policies promptSession",
    [{ ...session, policy: "classic", archive: [] }],
    "options.archive is an array; it must be an object with put, get",
  ],
  ["wire readWireBody", ["{}"], 'bytes is "{}"; it must be a Uint8Array'],
  ["loop run", [{ history: [] }], "options.model is missing; it must be a function"],
  ["loop run", [{ model: () => [] }], "options.history is missing; it must be an array of chat messages"],
  ["gateway gateway", [{ countTokens }], "options.upstreams is missing; it must be an object"],
  [
    "gateway gateway",
    [{ countTokens, upstreams: { chat: {} } }],
    "options.upstreams.chat.baseURL is missing; it must be a string",
  ],
  ["conversation/sqlite openStore", [{}], "path is an object; it must be a string"],
  ["loop/tools workspaceTools", [{}], "options.workspace is missing; it must be a string"],
  [
    "simulator simulator",
    [{ model: () => ({}) }],
    "options.tokenizer is missing; it must be an object with encode",
  ],
  ["simulator replay", [() => {}], "messages is a function; it must be an array of chat messages"],
];

for (const [symbol, args, told] of TABLE) {
  const [entry, name = ""] = symbol.split(" ");
  Deno.test(`${name}() says: ${told}`, async () => {
    const module = await import(`@tare/${entry}`);
    const said = await complaint(module[name], args);
    assertEquals(said?.slice(said.indexOf(": ") + 2), told);
    assert(said?.startsWith("Cannot run "));
  });
}

Deno.test("a session's view says what its history or call lacks", async () => {
  const { plannerSession, profileNamed } = await import("@tare/planner");
  const { promptSession } = await import("@tare/planner/policies");
  for (const make of [plannerSession, promptSession] as readonly Untyped[]) {
    const { view } = make({ ...session, profile: profileNamed("openai"), policy: "classic" });
    const said = [
      await complaint(view, [[hi], { nowMs: 0 }]),
      await complaint(view, [{ messages: [hi] }, { nowMs: 0 }]),
      await complaint(view, [{ messages: [{ role: "bot" }], tools: [] }, { nowMs: 0 }]),
      await complaint(view, [{ messages: [hi], tools: [] }]),
    ];
    assertEquals(said, [
      "Cannot run view(): history is an array; it must be an object with messages, tools",
      "Cannot run view(): history.tools is missing; it must be an array",
      'Cannot run view(): history.messages[0].role is "bot"; it must be one of system, developer, user, assistant, tool, function',
      "Cannot run view(): call is missing; it must be an object with nowMs",
    ]);
  }
});

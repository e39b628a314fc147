import {
  assert,
  assertAlmostEquals,
  assertEquals,
  assertGreater,
  assertLess,
  assertStrictEquals,
} from "@std/assert";
import { contentText, countRequestTokens, type Message, type Usage } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import {
  type LedgerEntry,
  plannerSession,
  profileNamed,
  type PromptSessionOptions,
  PromptTooLong,
  type SessionView,
  type Summarize,
} from "@tare/planner";
import { PROFILES } from "@tare/planner/internal";
import { PrefixCache, promptCost } from "@tare/planner/internal/parts";
import { type Archive, memoryArchive, RECALL_TOOL } from "@tare/prune";
import type { Edit } from "./edits/edit.ts";

const WINDOW = 16_000;
const { count: countTokens } = await loadTokenizer();
const tools = [RECALL_TOOL];

/** Returns prose of unique identifiers, of about this many tokens. */
function prose(tokens: number, name: string): string {
  const words: string[] = [];
  for (let at = 0; at < tokens / 9; at++) words.push(`${name}_handler${at * 7919}Ref calls resolveX${at}().`);
  return words.join(" ");
}

const first: Message = { role: "user", content: `remember RULE-n. ${prose(300, "task")}` };
const system: Message = { role: "system", content: "Be brief." };

/** Returns questions and answers of these sizes. */
function talk(
  turns: number,
  { asks, answers }: { readonly asks: number; readonly answers: number },
): Message[] {
  const messages: Message[] = [system, first, { role: "assistant", content: prose(answers, "a0") }];
  for (let turn = 1; turn < turns; turn++) {
    messages.push(
      { role: "user", content: `question ${turn}: ${prose(asks, `u${turn}`)}` },
      { role: "assistant", content: `answer ${turn}: ${prose(answers, `a${turn}`)}` },
    );
  }
  return messages;
}

const text = "A summary. ".repeat(60);
const summaryUsage: Usage = { promptTokens: 12_000, cachedTokens: 11_000, outputTokens: 120 };

interface Played {
  readonly views: readonly SessionView[];
  readonly entries: readonly (LedgerEntry | undefined)[];
  /** Number of the call of each summary request. */
  readonly requests: readonly { readonly call: number; readonly request: Parameters<Summarize>[0] }[];
  readonly warnings: readonly string[];
  readonly archive: Archive;
  readonly state: unknown;
}

/** Plays a text conversation, restoring the stored session before each call. */
async function play(
  history: readonly Message[],
  { summarize, profile = "anthropic-5m", check, ...options }:
    & Partial<Omit<PromptSessionOptions, "profile" | "summarize">>
    & {
      readonly summarize?: (number: number) => ReturnType<Summarize>;
      readonly profile?: string;
      readonly check?: (view: SessionView, call: number) => void;
    } = {},
): Promise<Played> {
  const archive = memoryArchive();
  const cache = new PrefixCache(PROFILES[profile]!);
  const views: SessionView[] = [];
  const entries: (LedgerEntry | undefined)[] = [];
  const requests: { call: number; request: Parameters<Summarize>[0] }[] = [];
  let state: unknown;
  const make = () =>
    plannerSession({
      profile: profileNamed(profile),
      archive,
      countTokens,
      windowTokens: WINDOW,
      // Only the full window evicts text.
      advanced: { assumesWindow: true, retention: { stepTailTokens: Infinity } },
      ...options,
      ...(summarize && {
        summarize: (request: Parameters<Summarize>[0]) => {
          requests.push({ call: views.length, request });
          return summarize(requests.length);
        },
      }),
      ...(state !== undefined && { state: JSON.parse(JSON.stringify(state)) }),
    });
  const ends = [...history.entries()].flatMap(([at, { role }]) => role === "assistant" ? [at] : []);
  for (const [call, end] of [...ends, history.length].entries()) {
    const session = make();
    const conversation = { messages: history.slice(0, end), tools };
    const nowMs = call * 1_000;
    const view = await session.view(conversation, { nowMs });
    const stored = session.state;
    // A second view changes nothing and requests nothing.
    const questions = requests.length;
    assertEquals((await session.view(conversation, { nowMs })).messages, view.messages);
    assertStrictEquals(session.state, stored);
    assertEquals(requests.length, questions);
    state = stored;
    check?.(view, call);
    views.push(view);
    const units = PrefixCache.unitsOf(view, countTokens);
    const cachedTokens = cache.lookup(units, nowMs);
    cache.store(units, nowMs);
    const restored = make();
    assertEquals((await restored.view(conversation, { nowMs })).messages, view.messages);
    entries.push(restored.sent({ promptTokens: view.promptTokens, cachedTokens, outputTokens: 1 }));
    state = restored.state;
  }
  const warnings = views.flatMap(({ warnings }) => warnings);
  return { views, entries, requests, warnings, archive, state };
}

function fits({ promptTokens }: SessionView): void {
  assertLess(promptTokens, 0.9 * WINDOW + 1);
}

/** Checks that everything can be read back: it is visible, or archived under a visible reference. */
async function assertNothingLost(
  history: readonly Message[],
  { views, archive, state }: Played,
): Promise<void> {
  const { edits } = state as { readonly edits: readonly Edit[] };
  const texts = [JSON.stringify(views.at(-1)?.messages)];
  for (const edit of edits) {
    if ("ref" in edit) texts.push(await archive.get(edit.ref) ?? "");
  }
  const all = texts.join("\n");
  for (const message of history) {
    const whole = all.includes(JSON.stringify(message)) || texts.includes(contentText(message.content));
    assert(whole, `${contentText(message.content).slice(0, 20)} is nowhere`);
  }
}

function userTexts({ messages, places }: SessionView): string[] {
  return messages.flatMap(({ role, content }, at) =>
    role === "user" && places[at]! >= 0 ? [contentText(content)] : []
  );
}

Deno.test("plannerSession(): 20 text-heavy turns fit a small window, and no summary follows another", async () => {
  const history = talk(20, { asks: 150, answers: 1_300 });
  const played = await play(history, {
    summarize: () => Promise.resolve({ text, usage: summaryUsage }),
    check: fits,
  });
  const calls = played.requests.map(({ call }) => call);
  assertGreater(calls.length, 1);
  for (const [at, call] of calls.entries()) assert(call - (calls[at - 1] ?? -9) > 2, `${calls}`);
  // All words of the user are visible.
  const texts = history.flatMap(({ role, content }) => role === "user" ? [contentText(content)] : []);
  assertEquals(userTexts(played.views.at(-1)!), texts);
  const warnings = played.warnings.filter((warning) => warning.startsWith("The window is full: "));
  assertEquals(warnings.length, calls.length);
  await assertNothingLost(history, played);
});

Deno.test("plannerSession() requests a summary as a continuation of the sent prompt, and records its usage", async () => {
  const history = talk(20, { asks: 150, answers: 1_300 });
  const { requests, views, entries } = await play(history, {
    summarize: () => Promise.resolve({ text, usage: summaryUsage }),
  });
  for (const { call, request: { sent, messages, users, next, windowTokens } } of requests) {
    assertEquals(JSON.stringify(sent.messages), JSON.stringify(views[call - 1]!.messages));
    assertEquals(JSON.stringify(sent.tools), JSON.stringify(views[call - 1]!.tools));
    assertEquals([users, next?.role], [[], "user"]);
    // As the provider counts, up to rounding.
    assertAlmostEquals(windowTokens!, WINDOW, 0.001 * WINDOW);
    assert(messages.every((message) => sent.messages.includes(message)));
    const entry = entries[call]!;
    assertEquals(entry.summary, summaryUsage);
    const profile = profileNamed("anthropic-5m");
    assertEquals(entry.costUnits, promptCost(profile, entry.usage) + promptCost(profile, summaryUsage));
  }
  const booked = entries.filter((entry) => entry?.summary).length;
  assertEquals(booked, requests.length);
});

Deno.test("plannerSession() pays for a failing summary once, and requests it again after the history grew", async () => {
  const failures: readonly (() => ReturnType<Summarize>)[] = [
    () => Promise.reject(new Error("no credit")),
    () => Promise.resolve({ text: "", usage: summaryUsage }),
    () => Promise.resolve({ text: prose(9_000, "long"), usage: summaryUsage }),
  ];
  const history = talk(30, { asks: 150, answers: 1_300 });
  for (const summarize of failures) {
    const played = await play(history, { summarize, check: fits });
    const calls = played.requests.map(({ call }) => call);
    assertGreater(calls.length, 1);
    assertLess(calls.length, 5);
    for (const [at, call] of calls.entries()) assert(call - (calls[at - 1] ?? -9) > 3, `${calls}`);
    assertEquals(
      played.warnings.filter((warning) => warning.startsWith("Cannot summarize")).length,
      calls.length,
    );
    await assertNothingLost(history, played);
  }
});

Deno.test("plannerSession() resumes summaries after a failed one", async () => {
  const history = talk(30, { asks: 150, answers: 1_300 });
  const { views } = await play(history, {
    summarize: (number) =>
      number === 1 ? Promise.reject(new Error("no credit")) : Promise.resolve({ text, usage: summaryUsage }),
  });
  assert(
    views.at(-1)!.messages.some(({ role, content }) =>
      role === "assistant" && contentText(content).startsWith(text.trim())
    ),
  );
});

Deno.test("plannerSession() without a model for summaries shows one placeholder for the answers", async () => {
  const history = talk(20, { asks: 150, answers: 1_300 });
  const played = await play(history, { check: fits });
  const { messages, places } = played.views.at(-1)!;
  const lines = messages.filter((_, at) => places[at]! < 0);
  assertEquals(lines.map(({ role }) => role), ["user"]);
  assert(contentText(lines[0]!.content).startsWith("[elided: "));
  await assertNothingLost(history, played);
});

Deno.test("plannerSession() includes the oldest user messages in the summary, never the first", async () => {
  const history = talk(24, { asks: 1_300, answers: 150 });
  const played = await play(history, {
    summarize: () => Promise.resolve({ text, usage: summaryUsage }),
    check: (view) => {
      fits(view);
      assert(contentText(view.messages[1]?.content).startsWith("remember RULE-n"));
      assertEquals(view.messages[0], system);
    },
  });
  const last = userTexts(played.views.at(-1)!);
  assertEquals(last[0], first.content);
  assertEquals(last.at(-1), history.at(-2)?.content);
  // The newest others are visible.
  const texts = history.flatMap(({ role, content }) => role === "user" ? [contentText(content)] : []);
  assertEquals(last.slice(1), texts.slice(1 - last.length));
  const joined = played.requests.flatMap(({ request }) => request.users);
  assertEquals(joined.map(({ content }) => content), texts.slice(1, 1 + joined.length));
  for (const [at, { call }] of played.requests.entries()) {
    assert(call - (played.requests[at - 1]?.call ?? -9) > 1);
  }
  await assertNothingLost(history, played);
});

Deno.test("plannerSession() shows head and tail of the user's long texts before any of them is evicted", async () => {
  const long = prose(5_000, "paste");
  const parts: Message = {
    role: "user",
    content: [{ type: "text", text: prose(5_000, "second") }, { type: "text", text: "Look at this." }],
  };
  const history: readonly Message[] = [
    system,
    first,
    { role: "assistant", content: "ok" },
    { role: "user", content: long },
    { role: "assistant", content: "read" },
    parts,
    { role: "assistant", content: "read too" },
    { role: "user", content: prose(3_500, "active") },
  ];
  let requestCount = 0;
  const played = await play(history, {
    summarize: () => (requestCount++, Promise.resolve({ text, usage: summaryUsage })),
    windowTokens: 12_000,
  });
  const { messages, places } = played.views.at(-1)!;
  assertEquals([requestCount, places], [0, [0, 1, 2, 3, 4, 5, 6, 7]]);
  assertEquals([messages[1], messages[7]], [first, history[7]]);
  for (const at of [3, 5]) {
    const visible = contentText(messages[at]?.content);
    assert(/\n\[elided: middle of this message, \d+ bytes; recall with ref [0-9a-f]{16}\]\n/.test(visible));
    assertLess(countTokens(visible), 1_020);
  }
  assert(contentText(messages[5]?.content).endsWith("Look at this."));
  const warning = "The window is full: only head and tail of 1 long message of the user are visible.";
  assertEquals(played.warnings, [warning, warning]);
  const originals = await Promise.all(
    (played.state as { readonly edits: readonly { readonly ref: string }[] }).edits.map(({ ref }) =>
      played.archive.get(ref)
    ),
  );
  assertEquals(originals, [long, prose(5_000, "second")]);
});

Deno.test("plannerSession() warns once that the window is full if nothing would free a tenth of it", async () => {
  const history: Message[] = [system, { role: "user", content: prose(13_000, "brief") }];
  for (let turn = 0; turn < 8; turn++) {
    history.push({ role: "assistant", content: "ok" }, { role: "user", content: prose(250, `more${turn}`) });
  }
  let requestCount = 0;
  const { warnings, views } = await play(history, {
    summarize: () => (requestCount++, Promise.resolve({ text, usage: summaryUsage })),
  });
  assertEquals(requestCount, 0);
  assertEquals(warnings, [
    "The window is full, and no further eviction would free a tenth of the prompt.",
  ]);
  assertEquals(views.at(-1)?.messages, history);
  assertGreater(countRequestTokens({ messages: history }, countTokens), 0.9 * WINDOW);
});

Deno.test("plannerSession() keeps a turn that continues an interrupted one", async () => {
  const call = { id: "1", type: "function", function: { name: "work", arguments: "{}" } } as const;
  const history: readonly Message[] = [
    ...talk(6, { asks: 150, answers: 1_300 }),
    { role: "user", content: "Work." },
    { role: "assistant", content: prose(2_000, "thought"), tool_calls: [call] },
    { role: "tool", tool_call_id: "1", content: "interrupted" },
    { role: "user", content: prose(2_500, "continue") },
  ];
  const { views, requests } = await play(history, {
    summarize: () => Promise.resolve({ text, usage: summaryUsage }),
    windowTokens: 12_000,
    mechanisms: { prune: false },
  });
  assertEquals(requests.length > 0, true);
  assertEquals(views.at(-1)?.messages.slice(-4), history.slice(-4));
});

Deno.test("plannerSession() changes nothing and warns if a full window can't be archived", async () => {
  const history = talk(12, { asks: 150, answers: 1_300 });
  const archive: Archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  let requestCount = 0;
  const { views, warnings } = await play(history, {
    archive,
    summarize: () => (requestCount++, Promise.resolve({ text, usage: summaryUsage })),
  });
  assertEquals([requestCount, views.at(-1)?.messages], [0, history]);
  assert(warnings.length > 0 && warnings.every((warning) => warning.includes("the disk is full")));
});

Deno.test("plannerSession() evicts even unseen results from a full window", async () => {
  const read = (id: string, tokens: number): Message[] => [
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: id, content: prose(tokens, id) },
  ];
  // A reply with two calls: the answer to the first is before the second call.
  const history = [first, ...read("one", 20_000), ...read("two", 50)];
  const visible = async (windowTokens: number) => {
    const archive = memoryArchive();
    const session = plannerSession({
      profile: profileNamed("none"),
      archive,
      countTokens,
      windowTokens,
      mechanisms: { truncate: false },
    });
    await session.view({ messages: [first], tools }, { nowMs: 0 });
    session.sent();
    const { messages } = await session.view({ messages: history, tools }, { nowMs: 1_000 });
    return { result: contentText(messages[2]!.content), archive };
  };
  const whole = contentText(history[2]!.content);
  assertEquals((await visible(64_000)).result, whole);
  const { result, archive } = await visible(WINDOW);
  const ref = /ref ([0-9a-f]{16})\]$/.exec(result)?.[1] ?? "";
  assertEquals([result.startsWith("[elided: read result"), await archive.get(ref)], [true, whole]);
});

/** Returns a turn with texts and results of these sizes. Default: texts fill the window faster. */
function wordySteps(length: number, [texts, results] = [900, 200]): Message[] {
  return [
    system,
    first,
    ...Array.from({ length }, (_, at): Message[] => [
      {
        role: "assistant",
        content: prose(texts!, `t${at}`),
        tool_calls: [{
          id: `c${at}`,
          type: "function",
          function: { name: "read_file", arguments: `{"path":"${at}"}` },
        }],
      },
      { role: "tool", tool_call_id: `c${at}`, content: prose(results!, `r${at}`) },
    ]).flat(),
  ];
}

/** Plays growing requests of a turn, and returns the tokens of each prompt, or `refused`. */
async function promptsOf(
  options: Pick<PromptSessionOptions, "evict" | "advanced">,
  compacts = false,
): Promise<(number | "refused")[]> {
  const session = plannerSession({
    profile: profileNamed("anthropic-5m"),
    archive: memoryArchive(),
    countTokens,
    windowTokens: WINDOW,
    ...options,
  });
  const prompts: (number | "refused")[] = [];
  const all = wordySteps(26);
  let from = 0;
  for (let steps = 1; steps <= 26; steps++) {
    const messages = [...all.slice(0, 2), ...all.slice(2 + 2 * from, 2 + 2 * steps)];
    try {
      const { promptTokens, predictedCachedTokens } = await session.view({ messages, tools }, {
        nowMs: steps * 1_000,
      });
      session.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 900 });
      prompts.push(promptTokens);
    } catch (error) {
      assert(error instanceof PromptTooLong);
      prompts.push("refused");
      if (compacts) from = steps;
    }
  }
  return prompts;
}

const REFUSED = {
  advanced: { compaction: { fullFrom: (windowTokens: number) => windowTokens, keepsFront: false } },
};

Deno.test("view() leaves a window full of texts to a client that compacts when refused", async () => {
  const prompts = await promptsOf(REFUSED, true);
  const refused = [...prompts.entries()].flatMap(([at, one]) => one === "refused" ? [at] : []);
  assertEquals(refused.length, 2);
  // Between compactions the cached prompt only grows, to almost the whole window.
  for (const [from, to] of [[0, refused[0]!], [refused[0]! + 1, refused[1]!]]) {
    const grown = prompts.slice(from, to) as number[];
    assertEquals(grown, grown.toSorted((a, b) => a - b));
    assertGreater(grown.at(-1)!, 0.9 * WINDOW);
  }
});

Deno.test("view() empties the window of a client that continues after a refusal", async () => {
  const prompts = await promptsOf(REFUSED);
  assertEquals(prompts.filter((one) => one === "refused").length, 1);
  const after = prompts.slice(prompts.indexOf("refused") + 1) as number[];
  assert(after.length > 5 && after.every((tokens) => tokens <= WINDOW));
});

Deno.test("view() evicts on request from a full window that is left to the client", async () => {
  const session = plannerSession({
    profile: profileNamed("anthropic-5m"),
    archive: memoryArchive(),
    countTokens,
    windowTokens: WINDOW,
    ...REFUSED,
  });
  const all = wordySteps(11, [800, 300]);
  for (let steps = 1; steps <= 11; steps++) {
    const messages = all.slice(0, 2 + 2 * steps);
    const { promptTokens, predictedCachedTokens } = await session.view({ messages, tools }, {
      nowMs: steps * 1_000,
    });
    session.sent({ promptTokens, cachedTokens: predictedCachedTokens, outputTokens: 900 });
  }
  const whole = await session.view({ messages: all, tools }, { nowMs: 12_000 });
  const emptied = await session.view({ messages: all, tools }, { nowMs: 12_000, evictNow: true });
  assertGreater(whole.promptTokens, 0.9 * WINDOW);
  assertLess(emptied.promptTokens, 0.9 * WINDOW);
});

Deno.test("view() empties the window of a client that isn't known to compact when refused, and a lossless one", async () => {
  const early = { fullFrom: (windowTokens: number) => 0.95 * windowTokens, keepsFront: false };
  for (
    const options of [{}, { evict: "lossless", ...REFUSED }, { advanced: { compaction: early } }] as const
  ) {
    const prompts = await promptsOf(options);
    assert(prompts.every((one) => one !== "refused" && one <= WINDOW), `${prompts}`);
  }
});

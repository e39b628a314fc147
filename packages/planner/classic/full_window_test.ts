import { assert, assertEquals, assertGreater, assertLess, assertMatch } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { profileNamed, type PromptSession, type Summarize } from "@tare/planner";
import { type ClassicOptions, classicSession } from "./classic_session.ts";
import { type Archive, memoryArchive } from "@tare/prune";
import { callPairs } from "../../../tests/call_pairs.ts";

const USAGE = { promptTokens: 100, cachedTokens: 90, outputTokens: 7 };
const LIST = { type: "function", function: { name: "list" } } as const;

const text = (tokens: number, word = "word") => `${word} `.repeat(Math.ceil(tokens * 4 / (word.length + 1)));

/** A question of the user and an answer. */
const talk = (name: string, tokens: number, requestTokens = 10): Message[] => [
  { role: "user", content: `${name}: ${text(requestTokens)}` },
  { role: "assistant", content: text(tokens, name) },
];

const tool = (id: string, tokens: number): Message[] => [
  { role: "user", content: `Run ${id}.` },
  { role: "assistant", tool_calls: [{ id, type: "function", function: { name: "run", arguments: "{}" } }] },
  { role: "tool", tool_call_id: id, content: text(tokens, id) },
  { role: "assistant", content: "Done." },
];

const now: Message = { role: "user", content: "And now?" };

interface Harness {
  readonly session: PromptSession;
  readonly archive: Archive;
  readonly requests: Parameters<Summarize>[0][];
  readonly view: (messages: readonly Message[]) => ReturnType<PromptSession["view"]>;
}

function harness(options: Partial<ClassicOptions> = {}): Harness {
  const archive = memoryArchive();
  const requests: Parameters<Summarize>[0][] = [];
  const summarize: Summarize = (request) => {
    requests.push(request);
    return Promise.resolve({ text: `Summary ${requests.length}.`, usage: USAGE });
  };
  const session = classicSession({
    profile: profileNamed("none"),
    windowTokens: 1_000,
    archive,
    countTokens: estimateTokens,
    summarize,
    triggers: { minBytes: 200 },
    ...options,
  });
  const view = (messages: readonly Message[]) => session.view({ messages, tools: [LIST] }, { nowMs: 0 });
  return { session, archive, requests, view };
}

function history(tokens: number, resultTokens: number): Message[] {
  const opening = [...tool("a", resultTokens), { role: "user", content: "Tell." } as const];
  const rest = tokens - countRequestTokens({ messages: [...opening, now], tools: [LIST] }, estimateTokens);
  const messages = [...opening, { role: "assistant", content: text(rest - 4, "tell") } as const, now];
  assertEquals(countRequestTokens({ messages, tools: [LIST] }, estimateTokens), tokens);
  return messages;
}

const outline = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${String(content).slice(0, 11)}`);

Deno.test("classicSession() skips the paid summary at 850 of 1,000 when pruning is enough", async () => {
  const { view, requests } = harness();
  const { rewrites, messages } = await view(history(850, 400));
  assertEquals([rewrites.map(({ mechanism }) => mechanism), requests.length], [["prune"], 0]);
  assertMatch(String(messages[2]?.content), /^\[elided: run result/);
});

Deno.test("classicSession() summarizes at 950 of 1,000 in any case, and at 850 if pruning freed too little", async () => {
  for (
    const [tokens, resultTokens, mechanisms] of [[950, 400, ["prune", "summarize"]], [850, 20, [
      "summarize",
    ]]] as const
  ) {
    const { view, requests, archive } = harness();
    const messages = history(tokens, resultTokens);
    const seen = await view(messages);
    assertEquals([seen.rewrites.map(({ mechanism }) => mechanism), requests.length], [[...mechanisms], 1]);
    assertEquals(outline(seen.messages), [
      "user: Run a.",
      "user: Tell.",
      "assistant: Summary 1.\n",
      "user: And now?",
    ]);
    assertEquals([seen.places, seen.warnings, seen.summary], [[0, 4, -1, 6], [], USAGE]);
    const { reason, removed, tokensBefore, tokensAfter } = seen.rewrites.at(-1)!;
    assertEquals([reason, removed, tokensAfter], [
      `the prompt would fill ${tokens} of the window's 1000 tokens`,
      "4 messages of old turns, summarized",
      seen.promptTokens,
    ]);
    assertEquals(seen.rewrites[0]!.tokensBefore, tokens);
    assertLess(tokensAfter, tokensBefore);
    assertEquals(Object.values(seen.saved).reduce((a, b) => a + b), tokens - seen.promptTokens);
    const ref = /ref ([0-9a-f]{16})\]$/.exec(String(seen.messages[2]?.content))![1]!;
    const archived = (await archive.get(ref))!.split("\n").map((json): Message => JSON.parse(json));
    assertEquals(archived.map(({ role }) => role), messages.slice(0, 6).map(({ role }) => role));
  }
});

Deno.test("classicSession() requests the summary as a continuation of the last request and its answer", async () => {
  const { view, session, requests } = harness();
  const messages = [...talk("a", 300), ...talk("b", 300), ...talk("c", 320)];
  const before = await view(messages.slice(0, 5));
  session.sent({ ...USAGE, promptTokens: before.promptTokens });
  await view([...messages, now]);
  const [request] = requests;
  assertEquals([request?.sent, request?.next, request?.users, request?.windowTokens], [
    { messages: [...before.messages, messages[5]!], tools: before.tools },
    now,
    [],
    1_000,
  ]);
  assertEquals(request?.messages, messages);
});

Deno.test("classicSession() keeps a summary until a later one replaces it, also after a restart", async () => {
  const { view, session, requests, archive } = harness();
  const messages = [...talk("a", 300), ...talk("b", 300), ...talk("c", 320)];
  const first = await view([...messages, now]);
  session.sent();
  const more: Message[] = [...messages, now, { role: "assistant", content: "Now this." }, now];
  const sticky = await view(more);
  assertEquals([sticky.messages.slice(0, 4), sticky.rewrites], [first.messages.slice(0, 4), []]);
  const state = JSON.parse(JSON.stringify(session.state));
  const restored = harness({ state, archive });
  const again = await restored.view(more);
  assertEquals(
    JSON.stringify([again.messages, again.tools]),
    JSON.stringify([sticky.messages, sticky.tools]),
  );
  assertEquals([again.rewrites, restored.requests.length, again.saved], [[], 0, sticky.saved]);
  const last = await view([...more, { role: "assistant", content: text(900) }, now]);
  assertEquals(outline(last.messages), [
    ...["a", "b", "c"].map((name) => `user: ${name}: word wor`),
    "user: And now?",
    "user: And now?",
    "assistant: Summary 2.\n",
    "user: And now?",
  ]);
  assertEquals(requests[1]?.messages.some(({ content }) => String(content).startsWith("Summary 1.")), true);
});

Deno.test("classicSession() evicts old turns, archived, when the summary fails or there is no model for it", async () => {
  const messages = [...talk("a", 300), ...talk("b", 300), ...talk("c", 320), now];
  const failing = harness({ summarize: () => Promise.reject(new Error("rate limited.")) });
  const silent = classicSession({
    profile: profileNamed("none"),
    windowTokens: 1_000,
    archive: failing.archive,
    countTokens: estimateTokens,
  });
  const failed = await failing.view(messages);
  const dropped = await silent.view({ messages, tools: [LIST] }, { nowMs: 0 });
  assertEquals(outline(failed.messages), ["user: [elided: 6 ", "user: And now?"]);
  assertEquals([dropped.messages, dropped.rewrites], [failed.messages, failed.rewrites]);
  assertEquals([failed.warnings, dropped.warnings], [["Cannot summarize 6 messages: rate limited."], []]);
  assertEquals(failed.rewrites.map(({ removed }) => removed), [
    "6 messages of old turns, including the user's, without a summary",
  ]);
});

Deno.test("classicSession() changes nothing when it is aborted during a summary", async () => {
  const cancel = new AbortController();
  const { session } = harness({
    summarize: () => {
      cancel.abort(new Error("the user left"));
      return new Promise(() => {});
    },
  });
  const messages = [...talk("a", 900), now];
  const state = JSON.stringify(session.state);
  const error = await session.view({ messages, tools: [] }, { nowMs: 0, signal: cancel.signal }).catch((e) =>
    e
  );
  assertEquals([error.message, JSON.stringify(session.state)], ["the user left", state]);
});

Deno.test("classicSession() pauses in a window that is too small for the turn, warns once, and requests no summary", async () => {
  const { view, session, requests } = harness();
  const active: Message[] = [{ role: "user", content: text(950) }];
  const warnings: (readonly string[])[] = [];
  const histories: Message[][] = [active, [...active, ...tool("a", 30).slice(1, 3)], [
    ...active,
    ...tool("a", 30).slice(1, 3),
  ]];
  for (const messages of histories) {
    const seen = await view(messages);
    assertEquals([seen.messages, seen.rewrites.filter(({ mechanism }) => mechanism !== "schemas")], [
      messages,
      [],
    ]);
    warnings.push(seen.warnings);
    session.sent();
  }
  assertEquals(warnings.map((some) => some.map((one) => one.replace(/\d+ of/, "N of"))), [
    [
      "The window is too small for this turn: with instructions and tools it takes N of 1000 tokens. " +
      "Pruning and summaries pause until more can be freed.",
    ],
    [],
    [],
  ]);
  assertEquals(requests.length, 0);
});

Deno.test("classicSession() pauses with a warning when only user messages fill the window, and resumes when it can", async () => {
  const { view, requests } = harness();
  const messageOf = (name: string) => talk(name, 15, 225);
  const stuck = [...messageOf("a"), ...messageOf("b"), ...messageOf("c"), ...messageOf("d")];
  const full = await view([...stuck, now]);
  assertEquals(full.warnings.map((one) => one.replace(/\d+ of/, "N of")), [
    "The window stays full: the prompt takes N of 1000 tokens, and everything evictable is less than a tenth of it. " +
    "Pruning and summaries pause until more can be freed.",
  ]);
  assertEquals([(await view([...stuck, now])).warnings, requests.length], [[], 0]);
  const answered = await view([...stuck, now, { role: "assistant", content: text(300) }, now]);
  assertEquals([answered.rewrites.map(({ mechanism }) => mechanism), requests.length], [["summarize"], 1]);
});

Deno.test("classicSession() shows no summary of missing messages after going back, forking or reverting", async () => {
  const { view, session, archive, requests } = harness();
  const messages = [...talk("a", 300), ...talk("b", 300), ...talk("c", 320), now];
  const summarized = await view(messages);
  const other = memoryArchive();
  const fork = session.fork(messages.length, other);
  const forked = await fork.view({ messages, tools: [LIST] }, { nowMs: 0 });
  assertEquals([forked.messages, requests.length], [summarized.messages, 1]);
  const back = session.fork(2, archive);
  const short = messages.slice(0, 3);
  assertEquals((await back.view({ messages: short, tools: [LIST] }, { nowMs: 0 })).messages, short);
  session.cutBack(2);
  assertEquals((await view(short)).messages, short);
  fork.revert();
  const whole = await fork.view({ messages, tools: [LIST] }, { nowMs: 0 });
  assertEquals([whole.messages, whole.rewrites, fork.profile.name], [messages, [], "none"]);
  const state = JSON.parse(JSON.stringify(fork.state));
  assertEquals((await harness({ state }).view(messages)).messages, messages);
});

/** Plays turns, and returns those with a summary and the largest prompt. */
async function play(turn: (n: number) => Message[], options: Partial<ClassicOptions> = {}) {
  const { view, session, requests } = harness({ windowTokens: 10_000, triggers: {}, ...options });
  const folded: number[] = [];
  let largest = 0;
  let messages: readonly Message[] = [];
  for (let n = 0; n < 20; n++) {
    const played = turn(n);
    for (let length = 1; length <= played.length; length++) {
      if (played[length]?.role === "tool") continue;
      if (played[length - 1]?.role === "assistant") continue;
      const seen = await view([...messages, ...played.slice(0, length)]);
      const { unanswered, orphans } = callPairs(seen.messages);
      assertEquals([unanswered, orphans, seen.warnings], [[], [], []]);
      largest = Math.max(largest, seen.promptTokens);
      if (seen.rewrites.some(({ mechanism }) => mechanism === "summarize")) folded.push(n);
      session.sent({ ...USAGE, promptTokens: seen.promptTokens });
    }
    messages = [...messages, ...played];
  }
  return { folded, largest, summaries: requests.length };
}

Deno.test("classicSession() summarizes 20 text-heavy turns, never twice in a row, and 20 tool-heavy ones never", async () => {
  const texts = await play((n) => talk(`t${n}`, 900));
  assertGreater(texts.folded.length, 1);
  for (const [at, n] of texts.folded.entries()) assert(at === 0 || n - texts.folded[at - 1]! > 1);
  assertEquals(texts.summaries, texts.folded.length);
  assertLess(texts.largest, 9_000);
  const tools = await play((n) => [...tool(`a${n}`, 400).slice(0, 3), ...tool(`b${n}`, 500).slice(1)], {
    triggers: { protectTokens: 2_000 },
  });
  assertEquals(tools.summaries, 0);
  assertLess(tools.largest, 9_000);
});

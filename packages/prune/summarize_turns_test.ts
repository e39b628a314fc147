import { assert, assertEquals, assertLess, assertRejects, assertStrictEquals } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { applySummary, recallOriginal, summarizeTurns } from "@tare/prune";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

const turn = (name: string, tokens = 500) => [user(`question ${name}`), say(text(tokens, name))];
const session: Message[] = [
  { role: "system", content: "Be brief." },
  ...["a", "b", "c", "d"].flatMap((n) => turn(n)),
];

const summarizeWith = (...given: Parameters<typeof tryToSummarize>) => archived(tryToSummarize(...given));

function tryToSummarize(
  summarize: Parameters<typeof summarizeTurns>[1]["summarize"],
  options: Partial<Parameters<typeof summarizeTurns>[1]> = {},
  messages = session,
) {
  return summarizeTurns(messages, {
    archive: spyArchive(),
    countTokens: estimateTokens,
    summarize,
    keepTokens: 1200,
    ...options,
  });
}

const outline = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${String(content).slice(0, 12)}`);

Deno.test("summarizeTurns() summarizes the oldest turns, user messages verbatim, and archives them", async () => {
  const archive = spyArchive();
  const requests: (readonly Message[])[] = [];
  const summarized = await summarizeWith(
    (messages) => (requests.push(messages), Promise.resolve(" A and B. ")),
    {
      archive,
    },
  );
  assertEquals(requests, [session.slice(1, 5)]);
  assertEquals(outline(summarized.messages), [
    "system: Be brief.",
    "user: question a",
    "user: question b",
    "assistant: A and B.\n\n[e",
    "user: question c",
    "assistant: cccccccccccc",
    "user: question d",
    "assistant: dddddddddddd",
  ]);
  const { ref, text: content, ...rest } = summarized.summary!;
  const original = await archive.get(ref);
  assertEquals(original?.split("\n").map((line) => JSON.parse(line)), session.slice(1, 5));
  assertEquals(content, `A and B.\n\n[elided: 4 messages, ${original?.length} bytes; ref ${ref}]`);
  const tokensAfter = countRequestTokens({ messages: summarized.messages }, estimateTokens);
  assertEquals(rest, {
    end: 5,
    kind: "summary",
    tokensBefore: countRequestTokens({ messages: session }, estimateTokens),
    tokensAfter,
  });
  assertEquals([summarized.tokensAfter, summarized.summaryFailure], [tokensAfter, undefined]);
});

Deno.test("summarizeTurns() returns data that can be applied again", async () => {
  const summarized = await summarizeWith(() => Promise.resolve("A and B."));
  assertEquals(applySummary(session, JSON.parse(JSON.stringify(summarized.summary))), [
    ...summarized.messages,
  ]);
});

Deno.test("summarizeTurns() states how to recall the messages if recall is available", async () => {
  const archive = spyArchive();
  const summarized = await summarizeWith(() => Promise.resolve("A and B."), { archive, recall: true });
  const ref = /recall with ref ([0-9a-f]{16})\]$/.exec(summarized.summary!.text)![1]!;
  const answer = await recallOriginal(archive, { ref, find: "question" });
  const found = answer.content.split("\n").filter((line) => /^\d+:/.test(line));
  assertEquals(found, ["2:question a", "8:question b"]);
});

Deno.test("summarizeTurns() retains the last turn, however long, and recent ones up to a quarter of the window", async () => {
  const summarize = () => Promise.resolve("S");
  const retainedOf = async (options: Partial<Parameters<typeof summarizeTurns>[1]>) => {
    const { messages } = await archived(summarizeTurns(session, {
      archive: spyArchive(),
      countTokens: estimateTokens,
      summarize,
      ...options,
    }));
    return messages.filter(({ content }) => String(content).length > 1000).length;
  };
  assertEquals([
    await retainedOf({ keepTokens: 0 }),
    await retainedOf({ windowTokens: 5000 }),
    await retainedOf({}),
  ], [
    1,
    2,
    4,
  ]);
});

Deno.test("summarizeTurns() retains consecutive user messages, with or without instructions between them", async () => {
  const system = { role: "system", content: "Be brief." } as const;
  const messages = [...turn("a", 2000), user("question b"), system, user("question c"), say("Yes.")];
  const { summary } = await summarizeWith(undefined, { keepTokens: 0 }, messages);
  assertEquals(summary?.end, 2);
});

Deno.test("summarizeTurns() retains the whole active turn from activeTurnStart", async () => {
  const messages = [...turn("a"), ...turn("b"), ...turn("steered")];
  const summaryOf = async (activeTurnStart: number) =>
    (await summarizeWith(undefined, { keepTokens: 0, activeTurnStart }, messages)).summary?.end;
  assertEquals([await summaryOf(6), await summaryOf(4), await summaryOf(3), await summaryOf(2)], [
    4,
    4,
    2,
    2,
  ]);
});

Deno.test("summarizeTurns() calls no model when too little would be gained: stuck guard", async () => {
  const never = () => Promise.reject(new Error("called"));
  const cases: Message[][] = [
    [],
    turn("a", 5000),
    [...turn("a", 10), ...turn("b", 5000)],
    [user(text(5000)), say("short"), ...turn("b", 500)],
    [...step("log", {}, text(5000)), say("no user message")],
  ];
  for (const messages of cases) {
    const result = await summarizeWith(never, { keepTokens: 100 }, messages);
    assertStrictEquals(result.messages, messages);
    assertEquals([result.summary, result.summaryFailure], [undefined, undefined]);
  }
});

Deno.test("summarizeTurns() rejects a summary that doesn't shrink the prompt, and drops the turns instead: stuck guard", async () => {
  const { summary: done, summaryFailure, messages } = await summarizeWith(() => Promise.resolve(text(990)));
  assertEquals(done?.kind, "drop");
  assertEquals(
    summaryFailure?.message,
    "Cannot summarize 4 messages: their summary frees less than a tenth of the prompt",
  );
  assertEquals(outline(messages).slice(0, 3), [
    "system: Be brief.",
    "user: [elided: 4 m",
    "user: question c",
  ]);
});

Deno.test("summarizeTurns() drops whole oldest turns, archived, when the summary fails or is empty", async () => {
  for (
    const [summarize, why] of [
      [() => Promise.reject(new Error("rate limited")), "rate limited"],
      [() => Promise.reject("no quota"), "no quota"],
      [() => Promise.resolve(" \n"), "the summary is empty"],
      [() => {
        throw new Error("broken");
      }, "broken"],
    ] as const
  ) {
    const archive = spyArchive();
    const result = await summarizeWith(summarize, { archive });
    assertEquals(result.summaryFailure?.message, `Cannot summarize 4 messages: ${why}`);
    assertEquals(outline(result.messages), [
      "system: Be brief.",
      "user: [elided: 4 m",
      "user: question c",
      "assistant: cccccccccccc",
      "user: question d",
      "assistant: dddddddddddd",
    ]);
    assertEquals(result.summary?.kind, "drop");
    assertEquals((await archive.get(result.summary!.ref))?.split("\n").length, 4);
    assertLess(result.tokensAfter, result.tokensBefore);
  }
});

Deno.test("summarizeTurns() drops whole oldest turns without a failure without summarize", async () => {
  const { summary: done, summaryFailure, messages: after } = await summarizeWith(undefined);
  assertEquals([done?.kind, summaryFailure, outline(after)[1]], ["drop", undefined, "user: [elided: 4 m"]);
});

Deno.test("summarizeTurns() separates no call from its answer, despite user messages between them", async () => {
  const [calls, result] = step("log", {}, "done");
  const odd = [...session, user("look"), calls!, user("hurry"), result!, say("ok"), user("more")];
  const ends = new Set<number>();
  for (let keepTokens = 0; keepTokens < 100; keepTokens++) {
    await summarizeWith((_, { end }) => (ends.add(end), Promise.resolve("S")), { keepTokens }, odd);
  }
  assertEquals([...ends], [14, 9]);
});

Deno.test("summarizeTurns() passes the start of the retained turns to summarize", async () => {
  let from: number | undefined;
  await summarizeWith((_, { end }) => (from = end, Promise.resolve("S")));
  assertEquals(from, 5);
});

Deno.test("summarizeTurns() drops the turns when the summary times out, also if the model ignores the signal", async () => {
  const timeout = new AbortController();
  const hangs =
    () => (timeout.abort(new DOMException("too slow", "TimeoutError")), new Promise<string>(() => {}));
  const { summary: done, summaryFailure } = await summarizeWith(hangs, { signal: timeout.signal });
  assertEquals([done?.kind, summaryFailure?.message], ["drop", "Cannot summarize 4 messages: too slow"]);
  const late = await summarizeWith(() => Promise.resolve("S"), { signal: timeout.signal });
  assertEquals(late.summary?.kind, "drop");
});

Deno.test("summarizeTurns() changes nothing when it is cancelled", async () => {
  const cancel = new AbortController();
  const reason = new Error("the user left");
  await assertRejects(
    () =>
      summarizeWith(() => (cancel.abort(reason), new Promise<string>(() => {})), { signal: cancel.signal }),
    Error,
    "the user left",
  );
});

Deno.test("summarizeTurns() passes its signal to the model", async () => {
  const { signal } = new AbortController();
  let handed: AbortSignal | undefined;
  await summarizeWith((_, given) => (handed = given.signal, Promise.resolve("S")), { signal });
  assertStrictEquals(handed, signal);
});

Deno.test("summarizeTurns() changes nothing, calls no model and returns the failure when archiving fails", async () => {
  const result = await tryToSummarize(() => Promise.reject(new Error("called")), {
    archive: failingArchive(),
  });
  // @ts-expect-error: before failure has been looked at, there are no messages.
  assertEquals(result.messages, undefined);
  assert(result.failure);
  assertStrictEquals(result.unchanged, session);
  assertEquals(result.failure.message, "Cannot archive 4 messages to summarize: disk full");
});

Deno.test("summarizeTurns() includes an earlier summary in the next", async () => {
  const archive = spyArchive();
  const first = await summarizeWith(() => Promise.resolve("first"), { archive });
  const messages = [...first.messages, ...turn("e"), ...turn("f")] as Message[];
  const second = await summarizeWith(() => Promise.resolve("second"), { archive }, messages);
  assertEquals(outline(second.messages).slice(1, 6), [
    "user: question a",
    "user: question b",
    "user: question c",
    "user: question d",
    "assistant: second\n\n[eli",
  ]);
  assert((await archive.get(second.summary!.ref))?.includes(first.summary!.ref));
});

const messages = [
  { role: "system", content: "Be brief." } as const,
  user("one"),
  ...step("log", {}, "long"),
  say("answer one"),
  { role: "developer", content: "Be kind." } as const,
  user("two"),
  say("answer two"),
];

Deno.test("applySummary() retains instructions and user messages, followed by the summary", () => {
  const summarized = applySummary(messages, { end: 6, kind: "summary", text: "It went well." });
  assertEquals(summarized.map(({ role, content }) => [role, content]), [
    ["system", "Be brief."],
    ["user", "one"],
    ["developer", "Be kind."],
    ["assistant", "It went well."],
    ["user", "two"],
    ["assistant", "answer two"],
  ]);
  for (const [at, from] of [[0, 0], [1, 1], [2, 5], [4, 6], [5, 7]] as const) {
    assertStrictEquals<unknown>(summarized[at], messages[from]);
  }
});

Deno.test("applySummary() replaces whole turns, user messages included, by one user message", () => {
  const summarized = applySummary(messages, { end: 6, kind: "drop", text: "[elided]" });
  assertEquals(summarized.map(({ role }) => role), ["system", "developer", "user", "user", "assistant"]);
});

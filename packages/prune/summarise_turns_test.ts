import { assert, assertEquals, assertLess, assertRejects, assertStrictEquals } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { applySummary, recallOriginal, summariseTurns } from "@tare/prune";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

const turn = (name: string, tokens = 500) => [user(`question ${name}`), say(text(tokens, name))];
const session: Message[] = [
  { role: "system", content: "Be brief." },
  ...["a", "b", "c", "d"].flatMap((n) => turn(n)),
];

const summariseWith = (...given: Parameters<typeof tryToSummarise>) => archived(tryToSummarise(...given));

function tryToSummarise(
  summarise: Parameters<typeof summariseTurns>[1]["summarise"],
  options: Partial<Parameters<typeof summariseTurns>[1]> = {},
  messages = session,
) {
  return summariseTurns(messages, {
    archive: spyArchive(),
    countTokens: estimateTokens,
    summarise,
    keepTokens: 1200,
    ...options,
  });
}

const outline = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${String(content).slice(0, 12)}`);

Deno.test("summariseTurns() summarises the oldest turns, user messages verbatim, and archives them", async () => {
  const archive = spyArchive();
  const requests: (readonly Message[])[] = [];
  const summarised = await summariseWith(
    (messages) => (requests.push(messages), Promise.resolve(" A and B. ")),
    {
      archive,
    },
  );
  assertEquals(requests, [session.slice(1, 5)]);
  assertEquals(outline(summarised.messages), [
    "system: Be brief.",
    "user: question a",
    "user: question b",
    "assistant: A and B.\n\n[e",
    "user: question c",
    "assistant: cccccccccccc",
    "user: question d",
    "assistant: dddddddddddd",
  ]);
  const { ref, text: content, ...rest } = summarised.summary!;
  const original = await archive.get(ref);
  assertEquals(original?.split("\n").map((line) => JSON.parse(line)), session.slice(1, 5));
  assertEquals(content, `A and B.\n\n[elided: 4 messages, ${original?.length} bytes; ref ${ref}]`);
  const tokensAfter = countRequestTokens({ messages: summarised.messages }, estimateTokens);
  assertEquals(rest, {
    end: 5,
    kind: "summary",
    tokensBefore: countRequestTokens({ messages: session }, estimateTokens),
    tokensAfter,
  });
  assertEquals([summarised.tokensAfter, summarised.summaryFailure], [tokensAfter, undefined]);
});

Deno.test("summariseTurns() returns data that can be applied again", async () => {
  const summarised = await summariseWith(() => Promise.resolve("A and B."));
  assertEquals(applySummary(session, JSON.parse(JSON.stringify(summarised.summary))), [
    ...summarised.messages,
  ]);
});

Deno.test("summariseTurns() states how to recall the messages if recall is available", async () => {
  const archive = spyArchive();
  const summarised = await summariseWith(() => Promise.resolve("A and B."), { archive, recall: true });
  const ref = /recall with ref ([0-9a-f]{16})\]$/.exec(summarised.summary!.text)![1]!;
  const answer = await recallOriginal(archive, { ref, find: "question" });
  const found = answer.content.split("\n").filter((line) => /^\d+:/.test(line));
  assertEquals(found, ["2:question a", "8:question b"]);
});

Deno.test("summariseTurns() retains the last turn, however long, and recent ones up to a quarter of the window", async () => {
  const summarise = () => Promise.resolve("S");
  const retainedOf = async (options: Partial<Parameters<typeof summariseTurns>[1]>) => {
    const { messages } = await archived(summariseTurns(session, {
      archive: spyArchive(),
      countTokens: estimateTokens,
      summarise,
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

Deno.test("summariseTurns() retains consecutive user messages, with or without instructions between them", async () => {
  const system = { role: "system", content: "Be brief." } as const;
  const messages = [...turn("a", 2000), user("question b"), system, user("question c"), say("Yes.")];
  const { summary } = await summariseWith(undefined, { keepTokens: 0 }, messages);
  assertEquals(summary?.end, 2);
});

Deno.test("summariseTurns() retains the whole active turn from activeTurnStart", async () => {
  const messages = [...turn("a"), ...turn("b"), ...turn("steered")];
  const summaryOf = async (activeTurnStart: number) =>
    (await summariseWith(undefined, { keepTokens: 0, activeTurnStart }, messages)).summary?.end;
  assertEquals([await summaryOf(6), await summaryOf(4), await summaryOf(3), await summaryOf(2)], [
    4,
    4,
    2,
    2,
  ]);
});

Deno.test("summariseTurns() calls no model when too little would be gained: stuck guard", async () => {
  const never = () => Promise.reject(new Error("called"));
  const cases: Message[][] = [
    [],
    turn("a", 5000),
    [...turn("a", 10), ...turn("b", 5000)],
    [user(text(5000)), say("short"), ...turn("b", 500)],
    [...step("log", {}, text(5000)), say("no user message")],
  ];
  for (const messages of cases) {
    const result = await summariseWith(never, { keepTokens: 100 }, messages);
    assertStrictEquals(result.messages, messages);
    assertEquals([result.summary, result.summaryFailure], [undefined, undefined]);
  }
});

Deno.test("summariseTurns() rejects a summary that doesn't shrink the prompt, and drops the turns instead: stuck guard", async () => {
  const { summary: done, summaryFailure, messages } = await summariseWith(() => Promise.resolve(text(990)));
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

Deno.test("summariseTurns() drops whole oldest turns, archived, when the summary fails or is empty", async () => {
  for (
    const [summarise, why] of [
      [() => Promise.reject(new Error("rate limited")), "rate limited"],
      [() => Promise.reject("no quota"), "no quota"],
      [() => Promise.resolve(" \n"), "the summary is empty"],
      [() => {
        throw new Error("broken");
      }, "broken"],
    ] as const
  ) {
    const archive = spyArchive();
    const result = await summariseWith(summarise, { archive });
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

Deno.test("summariseTurns() drops whole oldest turns without a failure without summarise", async () => {
  const { summary: done, summaryFailure, messages: after } = await summariseWith(undefined);
  assertEquals([done?.kind, summaryFailure, outline(after)[1]], ["drop", undefined, "user: [elided: 4 m"]);
});

Deno.test("summariseTurns() separates no call from its answer, despite user messages between them", async () => {
  const [calls, result] = step("log", {}, "done");
  const odd = [...session, user("look"), calls!, user("hurry"), result!, say("ok"), user("more")];
  const ends = new Set<number>();
  for (let keepTokens = 0; keepTokens < 100; keepTokens++) {
    await summariseWith((_, { end }) => (ends.add(end), Promise.resolve("S")), { keepTokens }, odd);
  }
  assertEquals([...ends], [14, 9]);
});

Deno.test("summariseTurns() passes the start of the retained turns to summarise", async () => {
  let from: number | undefined;
  await summariseWith((_, { end }) => (from = end, Promise.resolve("S")));
  assertEquals(from, 5);
});

Deno.test("summariseTurns() drops the turns when the summary times out, also if the model ignores the signal", async () => {
  const timeout = new AbortController();
  const hangs =
    () => (timeout.abort(new DOMException("too slow", "TimeoutError")), new Promise<string>(() => {}));
  const { summary: done, summaryFailure } = await summariseWith(hangs, { signal: timeout.signal });
  assertEquals([done?.kind, summaryFailure?.message], ["drop", "Cannot summarize 4 messages: too slow"]);
  const late = await summariseWith(() => Promise.resolve("S"), { signal: timeout.signal });
  assertEquals(late.summary?.kind, "drop");
});

Deno.test("summariseTurns() changes nothing when it is cancelled", async () => {
  const cancel = new AbortController();
  const reason = new Error("the user left");
  await assertRejects(
    () =>
      summariseWith(() => (cancel.abort(reason), new Promise<string>(() => {})), { signal: cancel.signal }),
    Error,
    "the user left",
  );
});

Deno.test("summariseTurns() passes its signal to the model", async () => {
  const { signal } = new AbortController();
  let handed: AbortSignal | undefined;
  await summariseWith((_, given) => (handed = given.signal, Promise.resolve("S")), { signal });
  assertStrictEquals(handed, signal);
});

Deno.test("summariseTurns() changes nothing, calls no model and returns the failure when archiving fails", async () => {
  const result = await tryToSummarise(() => Promise.reject(new Error("called")), {
    archive: failingArchive(),
  });
  // @ts-expect-error: before failure has been looked at, there are no messages.
  assertEquals(result.messages, undefined);
  assert(result.failure);
  assertStrictEquals(result.unchanged, session);
  assertEquals(result.failure.message, "Cannot archive 4 messages to summarize: disk full");
});

Deno.test("summariseTurns() includes an earlier summary in the next", async () => {
  const archive = spyArchive();
  const first = await summariseWith(() => Promise.resolve("first"), { archive });
  const messages = [...first.messages, ...turn("e"), ...turn("f")] as Message[];
  const second = await summariseWith(() => Promise.resolve("second"), { archive }, messages);
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
  const summarised = applySummary(messages, { end: 6, kind: "summary", text: "It went well." });
  assertEquals(summarised.map(({ role, content }) => [role, content]), [
    ["system", "Be brief."],
    ["user", "one"],
    ["developer", "Be kind."],
    ["assistant", "It went well."],
    ["user", "two"],
    ["assistant", "answer two"],
  ]);
  for (const [at, from] of [[0, 0], [1, 1], [2, 5], [4, 6], [5, 7]] as const) {
    assertStrictEquals<unknown>(summarised[at], messages[from]);
  }
});

Deno.test("applySummary() replaces whole turns, user messages included, by one user message", () => {
  const summarised = applySummary(messages, { end: 6, kind: "drop", text: "[elided]" });
  assertEquals(summarised.map(({ role }) => role), ["system", "developer", "user", "user", "assistant"]);
});

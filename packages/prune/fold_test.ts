import { assert, assertEquals, assertLess, assertRejects, assertStrictEquals } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { applyFold, fold, type FoldOptions, recallOriginal } from "@tare/prune";
import { failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

const turn = (name: string, tokens = 500) => [user(`question ${name}`), say(text(tokens, name))];
const session: Message[] = [
  { role: "system", content: "Be brief." },
  ...["a", "b", "c", "d"].flatMap((n) => turn(n)),
];

function foldWith(
  summarise: FoldOptions["summarise"],
  options: Partial<FoldOptions> = {},
  messages = session,
) {
  return fold(messages, {
    archive: spyArchive(),
    countTokens: estimateTokens,
    summarise,
    keepTokens: 1200,
    ...options,
  });
}

const outline = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role}: ${String(content).slice(0, 12)}`);

Deno.test("fold() summarises the oldest turns, user messages verbatim, and archives them", async () => {
  const archive = spyArchive();
  const asked: (readonly Message[])[] = [];
  const folded = await foldWith((messages) => (asked.push(messages), Promise.resolve(" A and B. ")), {
    archive,
  });
  assertEquals(asked, [session.slice(1, 5)]);
  assertEquals(outline(folded.messages), [
    "system: Be brief.",
    "user: question a",
    "user: question b",
    "assistant: A and B.\n\n[e",
    "user: question c",
    "assistant: cccccccccccc",
    "user: question d",
    "assistant: dddddddddddd",
  ]);
  const { ref, text: content, ...rest } = folded.fold!;
  const original = await archive.get(ref);
  assertEquals(original?.split("\n").map((line) => JSON.parse(line)), session.slice(1, 5));
  assertEquals(content, `A and B.\n\n[elided: 4 messages, ${original?.length} bytes; ref ${ref}]`);
  const tokensAfter = countRequestTokens({ messages: folded.messages }, estimateTokens);
  assertEquals(rest, {
    end: 5,
    kind: "summary",
    tokensBefore: countRequestTokens({ messages: session }, estimateTokens),
    tokensAfter,
  });
  assertEquals([folded.tokensAfter, folded.failure], [tokensAfter, undefined]);
});

Deno.test("fold() gives data enough to be applied again", async () => {
  const folded = await foldWith(() => Promise.resolve("A and B."));
  assertEquals(applyFold(session, JSON.parse(JSON.stringify(folded.fold))), [...folded.messages]);
});

Deno.test("fold() says how to recall what it folded, where recall is offered", async () => {
  const archive = spyArchive();
  const folded = await foldWith(() => Promise.resolve("A and B."), { archive, recall: true });
  const ref = /recall with ref ([0-9a-f]{16})\]$/.exec(folded.fold!.text)![1]!;
  const answer = await recallOriginal(archive, { ref, pattern: "question" });
  assertEquals(answer.content.split("\n").map((line) => line.slice(0, 20)), [
    '1:{"role":"user","co',
    '3:{"role":"user","co',
  ]);
});

Deno.test("fold() keeps the last turn, however long, and recent ones up to a quarter of the window", async () => {
  const summarise = () => Promise.resolve("S");
  const kept = async (options: Partial<FoldOptions>) => {
    const { messages } = await fold(session, {
      archive: spyArchive(),
      countTokens: estimateTokens,
      summarise,
      ...options,
    });
    return messages.filter(({ content }) => String(content).length > 1000).length;
  };
  assertEquals([await kept({ keepTokens: 0 }), await kept({ windowTokens: 5000 }), await kept({})], [
    1,
    2,
    4,
  ]);
});

Deno.test("fold() calls no model when too little would be gained: stuck guard", async () => {
  const never = () => Promise.reject(new Error("called"));
  const cases: Message[][] = [
    [],
    turn("a", 5000),
    [...turn("a", 10), ...turn("b", 5000)],
    [user(text(5000)), say("short"), ...turn("b", 500)],
    [...step("log", {}, text(5000)), say("no user message")],
  ];
  for (const messages of cases) {
    const result = await foldWith(never, { keepTokens: 100 }, messages);
    assertStrictEquals(result.messages, messages);
    assertEquals([result.fold, result.failure], [undefined, undefined]);
  }
});

Deno.test("fold() refuses a summary that doesn't shrink the prompt, and drops the turns instead: stuck guard", async () => {
  const { fold: done, failure, messages } = await foldWith(() => Promise.resolve(text(990)));
  assertEquals(done?.kind, "drop");
  assertEquals(
    failure?.message,
    "Cannot fold 4 messages: their summary frees less than a tenth of the prompt",
  );
  assertEquals(outline(messages).slice(0, 3), [
    "system: Be brief.",
    "user: [elided: 4 m",
    "user: question c",
  ]);
});

Deno.test("fold() drops whole oldest turns, archived, when the summary fails or is empty", async () => {
  for (
    const [summarise, why] of [
      [() => Promise.reject(new Error("rate limited")), "rate limited"],
      [() => Promise.resolve(" \n"), "the summary is empty"],
      [() => {
        throw new Error("broken");
      }, "broken"],
    ] as const
  ) {
    const archive = spyArchive();
    const result = await foldWith(summarise, { archive });
    assertEquals(result.failure?.message, `Cannot summarise 4 messages: ${why}`);
    assertEquals(outline(result.messages), [
      "system: Be brief.",
      "user: [elided: 4 m",
      "user: question c",
      "assistant: cccccccccccc",
      "user: question d",
      "assistant: dddddddddddd",
    ]);
    assertEquals(result.fold?.kind, "drop");
    assertEquals((await archive.get(result.fold!.ref))?.split("\n").length, 4);
    assertLess(result.tokensAfter, result.tokensBefore);
  }
});

Deno.test("fold() drops the turns when the summary times out, also if the model ignores the signal", async () => {
  const timeout = new AbortController();
  const hangs =
    () => (timeout.abort(new DOMException("too slow", "TimeoutError")), new Promise<string>(() => {}));
  const { fold: done, failure } = await foldWith(hangs, { signal: timeout.signal });
  assertEquals([done?.kind, failure?.message], ["drop", "Cannot summarise 4 messages: too slow"]);
  const late = await foldWith(() => Promise.resolve("S"), { signal: timeout.signal });
  assertEquals(late.fold?.kind, "drop");
});

Deno.test("fold() changes nothing when it is cancelled", async () => {
  const cancel = new AbortController();
  const reason = new Error("the user left");
  await assertRejects(
    () => foldWith(() => (cancel.abort(reason), new Promise<string>(() => {})), { signal: cancel.signal }),
    Error,
    "the user left",
  );
});

Deno.test("fold() hands its signal to the model", async () => {
  const { signal } = new AbortController();
  let handed: AbortSignal | undefined;
  await foldWith((_, given) => (handed = given, Promise.resolve("S")), { signal });
  assertStrictEquals(handed, signal);
});

Deno.test("fold() changes nothing and calls no model when archiving fails, and says why", async () => {
  const result = await foldWith(() => Promise.reject(new Error("called")), { archive: failingArchive() });
  assertStrictEquals(result.messages, session);
  assertEquals(result.failure?.message, "Cannot archive 4 messages to fold: disk full");
});

Deno.test("fold() folds an earlier summary into the next", async () => {
  const archive = spyArchive();
  const first = await foldWith(() => Promise.resolve("first"), { archive });
  const messages = [...first.messages, ...turn("e"), ...turn("f")] as Message[];
  const second = await foldWith(() => Promise.resolve("second"), { archive }, messages);
  assertEquals(outline(second.messages).slice(1, 6), [
    "user: question a",
    "user: question b",
    "user: question c",
    "user: question d",
    "assistant: second\n\n[eli",
  ]);
  assert((await archive.get(second.fold!.ref))?.includes(first.fold!.ref));
});

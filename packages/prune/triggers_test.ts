import { assert, assertEquals, assertLess, assertStrictEquals, assertThrows } from "@std/assert";
import { countRequestTokens, estimateTokens, type Message } from "@tare/messages";
import { isColdResume, pressure, relievePressure } from "@tare/prune";
import type { TurnsSummary } from "@tare/prune/internal";
import { callPairs } from "../../tests/call_pairs.ts";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

Deno.test("pressure() returns prune from 0.8 of the window, and summarize from 0.9", () => {
  const at = (promptTokens: number) => pressure({ promptTokens, windowTokens: 1000 });
  assertEquals([0, 799, 800, 850, 899, 900, 950, 5000].map(at), [
    "none",
    "none",
    "prune",
    "prune",
    "prune",
    "summarize",
    "summarize",
    "summarize",
  ]);
});

Deno.test("pressure() returns none without a window", () => {
  assertEquals(pressure({ promptTokens: 1e9 }), "none");
  assertEquals(pressure({ promptTokens: 1e9, windowTokens: undefined }), "none");
});

Deno.test("pressure() rejects numbers out of range, by name", () => {
  const wrong: readonly (readonly [Partial<Parameters<typeof pressure>[0]>, string])[] = [
    [{ promptTokens: -1 }, "options.promptTokens is -1; it must be a number of 0 or more"],
    [{ promptTokens: NaN }, "options.promptTokens is NaN; it must be a number of 0 or more"],
    [{ windowTokens: 0 }, "options.windowTokens is 0; it must be a number above 0"],
    [{ pruneAt: 80 }, "options.pruneAt is 80; it must be a number from 0 to 1"],
    [{ summarizeAt: -0.1 }, "options.summarizeAt is -0.1; it must be a number from 0 to 1"],
  ];
  for (const [options, message] of wrong) {
    assertThrows(
      () => pressure({ promptTokens: 1, ...options }),
      RangeError,
      `Cannot run pressure(): ${message}`,
    );
  }
});

Deno.test("pressure() accepts other shares", () => {
  const shares = { windowTokens: 1000, pruneAt: 0.5, summarizeAt: 0.6 };
  assertEquals([499, 500, 600].map((promptTokens) => pressure({ promptTokens, ...shares })), [
    "none",
    "prune",
    "summarize",
  ]);
});

const count = (messages: readonly Message[]) => countRequestTokens({ messages }, estimateTokens);

const relieve = (
  messages: readonly Message[],
  options: Partial<Parameters<typeof relievePressure>[1]> = {},
) => archived(tryToRelieve(messages, options));

function tryToRelieve(messages: readonly Message[], options: Partial<Parameters<typeof relievePressure>[1]>) {
  return relievePressure(messages, {
    archive: spyArchive(),
    countTokens: estimateTokens,
    windowTokens: 1000,
    minBytes: 200,
    summarize: () => Promise.resolve("A summary."),
    ...options,
  });
}

const unpaid = () => Promise.reject(new Error("the model was called"));

function prompt(tokens: number, resultTokens: number): Message[] {
  const messages = [user("one"), ...step("log", {}, text(resultTokens)), say(""), user("two"), say("")];
  const rest = tokens - count(messages);
  return messages.with(3, say(text(rest - 50))).with(5, say(text(50)));
}

Deno.test("relievePressure() does nothing without a window, and nothing below 0.8 of it", async () => {
  const archive = spyArchive();
  for (const options of [{ windowTokens: undefined }, { windowTokens: 1100 }]) {
    const messages = prompt(850, 400);
    const relief = await relieve(messages, { archive, summarize: unpaid, ...options });
    assertStrictEquals(relief.messages, messages);
    assertEquals([relief.elisions, relief.paused, archive.puts()], [[], false, 0]);
  }
});

Deno.test("relievePressure() prunes and summarizes from the given shares", async () => {
  const outcome = async (options: Parameters<typeof relieve>[1]) => {
    const { elisions, summary } = await relieve(prompt(600, 300), options);
    return [elisions.length, summary?.kind];
  };
  assertEquals(await outcome({}), [0, undefined]);
  assertEquals(await outcome({ pruneAt: 0.6 }), [1, undefined]);
  assertEquals(await outcome({ pruneAt: 0.61 }), [0, undefined]);
  assertEquals(await outcome({ pruneAt: 0.5, summarizeAt: 0.6 }), [1, "summary"]);
  assertEquals(await outcome({ pruneAt: 0.5, summarizeAt: 0.61 }), [1, undefined]);
});

Deno.test("relievePressure() retains the newest turns up to a quarter of the window, and fewer if user messages fill it", async () => {
  const retainedOf = async (userTokens: number, keepTokens?: number) => {
    const turns = Array.from(
      { length: 16 },
      (_, n) => [user(n === 0 ? text(userTokens) : "more"), say(text(48, `${n}`))],
    ).flat();
    const { messages } = await relieve([...turns, user("now")], {
      ...{ windowTokens: 1000, pruneAt: 0, summarizeAt: 0 },
      ...(keepTokens !== undefined && { keepTokens }),
    });
    return messages.filter(({ role, content }) =>
      role === "assistant" && !String(content).includes("summary")
    ).length;
  };
  assertEquals(await Promise.all([retainedOf(1), retainedOf(400), retainedOf(1, 120), retainedOf(1, 0)]), [
    4,
    1,
    2,
    0,
  ]);
});

Deno.test("relievePressure() avoids the summary by pruning at 850 of 1,000", async () => {
  const relief = await relieve(prompt(850, 400), { summarize: unpaid });
  assertEquals([relief.tokensBefore, relief.elisions.length, relief.summary, relief.paused], [
    850,
    1,
    undefined,
    false,
  ]);
  assertLess(relief.tokensAfter, 500);
});

Deno.test("relievePressure() still summarizes at 950 of 1,000, and at 850 if pruning isn't enough", async () => {
  for (const [tokens, resultTokens] of [[950, 400], [850, 10]] as const) {
    const relief = await relieve(prompt(tokens, resultTokens));
    assertEquals([relief.tokensBefore, relief.summary?.kind, relief.paused], [tokens, "summary", false]);
    assertEquals(relief.tokensAfter, count(relief.messages));
    assertLess(relief.tokensAfter, 200);
  }
});

Deno.test("relievePressure() counts the whole prompt", async () => {
  const relief = await relieve(prompt(700, 400), {
    countPrompt: (messages) => count(messages) + 150,
    summarize: unpaid,
  });
  assertEquals([relief.tokensBefore, relief.elisions.length], [700, 1]);
});

Deno.test("relievePressure() pauses in a window that is too small, instead of looping", async () => {
  let calls = 0;
  const summarize = () => (calls += 1, Promise.resolve("A summary."));
  let messages: readonly Message[] = [
    user(text(950)),
    say("one"),
    user("two"),
    ...step("log", {}, text(100)),
    say(""),
  ];
  for (let request = 0; request < 5; request += 1) {
    const relief = await relieve(messages, { summarize });
    assertEquals([relief.paused, relief.summary], [true, undefined]);
    messages = relief.messages;
  }
  assertEquals(calls, 0);
});

Deno.test("relievePressure() pauses and returns the failure while the archive fails", async () => {
  const messages = prompt(950, 400);
  const relief = await tryToRelieve(messages, { archive: failingArchive(), summarize: unpaid });
  // @ts-expect-error: before failure has been looked at, there are no messages.
  assertEquals(relief.messages, undefined);
  assert(relief.failure);
  assertStrictEquals(relief.unchanged, messages);
  assertEquals([relief.elisions, relief.paused], [[], true]);
  assertEquals(relief.failure.message, "Cannot archive a result of log: disk full");
});

Deno.test("relievePressure() returns the elisions when archiving the old turns fails", async () => {
  const messages = prompt(950, 100);
  const archive = failingArchive('"role"');
  const relief = await tryToRelieve(messages, { archive, summarize: unpaid });
  assert(relief.failure);
  assertStrictEquals(relief.unchanged, messages);
  assertEquals([relief.elisions.length, relief.paused], [1, false]);
  assertEquals(relief.failure.message, "Cannot archive 4 messages to summarize: disk full");
});

async function run(turn: (n: number) => Message[], options: Partial<Parameters<typeof relievePressure>[1]>) {
  const summaries: (TurnsSummary | undefined)[] = [];
  const prompts: number[] = [];
  let messages: readonly Message[] = [{ role: "system", content: "Be brief." }];
  for (let n = 0; n < 20; n += 1) {
    const relief = await relieve([...messages, ...turn(n)], { windowTokens: 10_000, ...options });
    assert(!relief.paused && !relief.summaryFailure);
    assertEquals(callPairs(relief.messages).orphans, []);
    messages = relief.messages;
    summaries.push(relief.summary);
    prompts.push(relief.tokensAfter);
  }
  return { summaries, prompts };
}

Deno.test("relievePressure() limits 20 tool-heavy turns without a summary", async () => {
  const { prompts } = await run(
    (
      n,
    ) => [
      user(`turn ${n}`),
      ...[0, 1].flatMap((k) => step("log", { n, k }, text(400, `${n}.${k} `))),
      say("done"),
    ],
    { summarize: unpaid },
  );
  assert(Math.max(...prompts) < 8000);
});

Deno.test("relievePressure() summarizes 20 text-heavy turns, never twice in a row", async () => {
  const { summaries, prompts } = await run((n) => [user(`turn ${n}`), say(text(900, `${n} `))], {});
  const turns = summaries.flatMap((summary, n) => summary ? [n] : []);
  assert(turns.length >= 2);
  for (const [at, n] of turns.entries()) assert(at === 0 || n - turns[at - 1]! > 1);
  assert(Math.max(...prompts) < 8000);
});

Deno.test("relievePressure() summarizes enough that no other summary follows at once, whatever else fills the window", async () => {
  for (const [toolTokens, userTokens] of [[4_000, 20], [5_500, 20], [2_000, 180]] as const) {
    const { summaries } = await run((n) => [user(text(userTokens, `${n} `)), say(text(900, `${n} `))], {
      countPrompt: (messages) => count(messages) + toolTokens,
    });
    const turns = summaries.flatMap((summary, n) => summary ? [n] : []);
    assert(turns.length >= 2);
    for (const [at, n] of turns.entries()) {
      assert(at === 0 || n - turns[at - 1]! > 1, `${toolTokens}: ${turns}`);
    }
  }
});

Deno.test("relievePressure() doesn't change warm requests between its triggers", async () => {
  const archive = spyArchive();
  let messages: readonly Message[] = [user("go")];
  for (let n = 0; count(messages) < 7000; n += 1) {
    const next = [...messages, ...step("log", { n }, text(300, `${n} `)), say("")];
    const relief = await relieve(next, { windowTokens: 10_000, archive, summarize: unpaid });
    assertStrictEquals(relief.messages, next);
    messages = next;
  }
  assertEquals(archive.puts(), 0);
});

Deno.test("relievePressure() isn't triggered by a request that is tried again, nor by usage summed over retries", async () => {
  const messages = prompt(700, 400);
  for (let attempt = 0; attempt < 3; attempt += 1) {
    const relief = await relieve(messages, { summarize: unpaid });
    assertStrictEquals(relief.messages, messages);
    assertEquals(relief.tokensBefore, 700);
  }
});

const hour = 60 * 60 * 1000;
const nowMs = 1000 * hour;

Deno.test("isColdResume() is true from 24 hours, or from the provider profile's time", () => {
  const after = (idleMs: number, rest = {}) => isColdResume({ lastUsedAtMs: nowMs - idleMs, nowMs, ...rest });
  assertEquals([0, 23.9 * hour, 24 * hour, 48 * hour].map((idle) => after(idle)), [false, false, true, true]);
  assertEquals(after(hour, { cacheColdAfterMs: hour }), true);
});

Deno.test("isColdResume() treats a killed long turn, whose last use was not recorded, as warm", () => {
  assertEquals(isColdResume({ lastUsedAtMs: undefined, nowMs }), false);
});

Deno.test("isColdResume() treats a last use in the future, by another machine's clock, as warm", () => {
  assertEquals(isColdResume({ lastUsedAtMs: nowMs + 48 * hour, nowMs }), false);
});

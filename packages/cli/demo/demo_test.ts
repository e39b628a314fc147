import { assertEquals, assertGreater, assertLess, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { loadTokenizer } from "@tare/tiktoken";
import { listPrice, profileNamed } from "@tare/planner";
import { demoQuestions, demoTable, demoVerdict, playDemo, WAYS } from "./play_demo.ts";

const tokenizer = await loadTokenizer();

/** Creates a workspace whose files have this many lines. */
async function workspaceOf(lines: number): Promise<string> {
  const root = await Deno.makeTempDir();
  for (let folder = 0; folder < 6; folder++) {
    await Deno.mkdir(join(root, "src", `part${folder}`), { recursive: true });
    for (let file = 0; file < 6; file++) {
      const text = Array.from(
        { length: lines + file },
        (_, at) => `const value${at} = compute("part ${folder}, file ${file}", ${at * 7919});`,
      );
      await Deno.writeTextFile(join(root, "src", `part${folder}`, `file${file}.ts`), text.join("\n"));
    }
  }
  return root;
}

Deno.test("playDemo() gives the same answers with every policy, and a ledger equal to the provider's usage", async () => {
  const workspace = await workspaceOf(120);
  const questions = await demoQuestions(workspace);
  assertEquals(questions.length, 7);
  const profile = profileNamed("openai");
  const price = listPrice("gpt-5.5");
  const played = [];
  for (const way of WAYS) {
    const events: SessionEvent[] = [];
    const onEvent = (event: SessionEvent) => void events.push(event);
    const one = await playDemo(way, { workspace, questions, profile, price, tokenizer, onEvent });
    const usages = events.flatMap((event) => event.type === "step_end" ? [event.usage] : []);
    const sum = (name: "promptTokens" | "cachedTokens" | "outputTokens") =>
      usages.reduce((sum, usage) => sum + usage[name], 0);
    const { calls, promptTokens, cachedTokens, outputTokens } = one.ledger;
    assertEquals([calls, promptTokens, cachedTokens, outputTokens], [
      usages.length,
      sum("promptTokens"),
      sum("cachedTokens"),
      sum("outputTokens"),
    ]);
    assertEquals(events.filter(({ type }) => type === "context_rewritten").length, one.rewrites);
    played.push({ ...way, ...one });
  }
  const [resent, , planned] = played;
  for (const { answers } of played) assertEquals(answers, resent!.answers);
  assertStringIncludes(resent!.answers.at(-1)!, "The word is persimmon.");
  assertStringIncludes(resent!.answers.at(-1)!, "The reviews noted 36 files");
  assertEquals([resent!.rewrites, resent!.recalls], [0, 0]);
  assertGreater(planned!.recalls, 0);
  assertLess(planned!.ledger.usd!, resent!.ledger.usd!);
  assertEquals(demoTable(played, { model: "m" }).split("\n").at(-1)?.match(/\d+/g), ["7", "7", "7"]);
  await Deno.remove(workspace, { recursive: true });
});

Deno.test("playDemo() continues on a slow machine whose stream contains heartbeats", async () => {
  const workspace = await workspaceOf(3);
  const questions = (await demoQuestions(workspace)).slice(0, 1);
  const { setTimeout } = globalThis;
  let silences = 0;
  // Heartbeats are sent at once.
  globalThis.setTimeout = ((work: () => void, ms: number) => {
    silences += ms === 15_000 ? 1 : 0;
    return setTimeout(work, ms === 15_000 ? 0 : ms);
  }) as typeof setTimeout;
  try {
    const played = await playDemo(WAYS[0]!, {
      workspace,
      questions,
      profile: profileNamed("openai"),
      tokenizer,
    });
    assertEquals(played.answers.length, 1);
    assertGreater(silences, 0);
  } finally {
    globalThis.setTimeout = setTimeout;
    await Deno.remove(workspace, { recursive: true });
  }
});

Deno.test("playDemo() stops a session whose prompt exceeds the window", async () => {
  const workspace = await workspaceOf(300);
  const questions = [...await demoQuestions(workspace), ...await demoQuestions(workspace)];
  const profile = profileNamed("anthropic-5m");
  const [resent, , planned] = await Promise.all(
    WAYS.map(async (way) => ({
      ...way,
      ...await playDemo(way, { workspace, questions, profile, tokenizer }),
    })),
  );
  assertEquals([resent!.stopped !== undefined, planned!.stopped], [true, undefined]);
  assertLess(resent!.answers.length, questions.length);
  const table = demoTable([resent!, planned!], {});
  assertStringIncludes(table, `${resent!.answers.length}: window full`);
  assertEquals(
    demoVerdict([resent!, planned!], { profile }),
    `Planner: not compared: the window of "everything resent" was full after ${
      resent!.answers.length
    } answers.`,
  );
  await Deno.remove(workspace, { recursive: true });
});

Deno.test("demoTable() counts answers that differ", () => {
  const ledger = { calls: 1, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false };
  const one = { ledger, rewrites: 0, callsSince: 1, recalls: 0 };
  const table = demoTable([{ name: "a", ...one, answers: ["x", "y"] }, {
    name: "b",
    ...one,
    answers: ["x", "z"],
  }], {
    model: "m",
  });
  assertEquals(table.split("\n").slice(-4).map((line) => line.trim().split(/ {2,}/)), [
    ["prompts, in cost units", "–", "–"],
    ["dollars, prompts and replies", "–", "–"],
    ["questions answered", "2", "2"],
    ["with the same text", "2", "1"],
  ]);
});

Deno.test("demoVerdict() reports savings and explains losses", () => {
  const verdict = (profile: string, resent: number, fixed: number, planned: number, more = {}) => {
    const played = [resent, fixed, planned].map((usd, at) => ({
      ...WAYS[at]!,
      ledger: {
        ...{ calls: 17 + at, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false },
        usd,
      },
      ...{ rewrites: at, callsSince: 3, recalls: 0, answers: [] },
      ...(at > 0 && more),
    }));
    return demoVerdict(played, { profile: profileNamed(profile) }).split("\n");
  };
  const twice =
    "  It breaks the provider's cache twice a turn: old turns are restored with its first call and evicted with its second.";
  assertEquals(verdict("openai", 2, 1.5, 1), [
    "Fixed triggers: saved 25.0 % of the cost of resending everything.",
    twice,
    "Planner: saved 50.0 % of the cost of resending everything.",
  ]);
  assertEquals(verdict("openai", 2, 3, 2.3, { recalls: 3 }), [
    "Fixed triggers: cost 50.0 % more than resending everything.",
    twice,
    "  Recalls took 1 more call.",
    "Planner: cost 15.0 % more than resending everything.",
    "  A rewrite breaks the cache and pays off over the calls after it; here there were only 3.",
    "  Recalls took 2 more calls.",
  ]);
  const equal = "cost as much as resending everything.";
  assertEquals(verdict("local", 2, 2, 2, { rewrites: 0 }), [
    `Fixed triggers: ${equal}`,
    "  No rewrite would have paid off.",
    `Planner: ${equal}`,
    "  No rewrite would have paid off.",
  ]);
  // Without a cache, nothing breaks.
  assertEquals(
    verdict("none", 2, 1, 2)[0],
    "Fixed triggers: saved 50.0 % of the cost of resending everything.",
  );
});

Deno.test("demoQuestions() rejects a folder without source code", async () => {
  const folder = await Deno.makeTempDir();
  await assertRejects(
    () => demoQuestions(folder),
    RangeError,
    "contains no source code",
  );
  await Deno.remove(folder);
});

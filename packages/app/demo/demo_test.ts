import { assertEquals, assertGreater, assertLess, assertRejects, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import type { LoopEvent } from "@tare/loop";
import { loadTokenizer } from "@tare/messages/tiktoken";
import { listPrice, profileNamed } from "@tare/planner";
import { demoQuestions, demoTable, playDemo, progressBars, WAYS } from "./demo.ts";

const tokenizer = await loadTokenizer();

/** A workspace of some folders, with files of so many lines. */
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

Deno.test("playDemo() plays one session in three ways to the same answers, and the ledger is the provider's usage", async () => {
  const workspace = await workspaceOf(120);
  const questions = await demoQuestions(workspace);
  assertEquals(questions.length, 7);
  const profile = profileNamed("openai");
  const price = listPrice("gpt-5.5");
  const played = [];
  for (const way of WAYS) {
    const events: LoopEvent[] = [];
    const onEvent = (event: LoopEvent) => void events.push(event);
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
    played.push({ name: way.name, ...one });
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

Deno.test("playDemo() stops a session whose prompt outgrows the window, and the table says so", async () => {
  const workspace = await workspaceOf(300);
  const questions = [...await demoQuestions(workspace), ...await demoQuestions(workspace)];
  const profile = profileNamed("anthropic-5m");
  const [resent, , planned] = await Promise.all(
    WAYS.map(async (way) => ({
      name: way.name,
      ...await playDemo(way, { workspace, questions, profile, tokenizer }),
    })),
  );
  assertEquals([resent!.stopped !== undefined, planned!.stopped], [true, undefined]);
  assertLess(resent!.answers.length, questions.length);
  const table = demoTable([resent!, planned!], {});
  assertStringIncludes(table, `${resent!.answers.length}: window full`);
  await Deno.remove(workspace, { recursive: true });
});

Deno.test("demoTable() counts answers that differ", () => {
  const ledger = { calls: 1, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false };
  const one = { ledger, rewrites: 0, recalls: 0 };
  const table = demoTable([{ name: "a", ...one, answers: ["x", "y"] }, {
    name: "b",
    ...one,
    answers: ["x", "z"],
  }], {
    model: "m",
  });
  assertEquals(table.split("\n").slice(-4).map((line) => line.trim().split(/ {2,}/)), [
    ["prompts, in token units", "–", "–"],
    ["money, prompts and replies", "–", "–"],
    ["questions answered", "2", "2"],
    ["in the same words", "2", "1"],
  ]);
});

Deno.test("demoQuestions() says where there is nothing to ask about", async () => {
  const folder = await Deno.makeTempDir();
  await assertRejects(
    () => demoQuestions(folder),
    RangeError,
    "holds no source code that the model could read",
  );
  await Deno.remove(folder);
});

Deno.test("progressBars() draw how far each session is, in place", () => {
  let nowMs = 0;
  const written: string[] = [];
  const bars = progressBars(["one", "three"], {
    total: 2,
    write: (text) => void written.push(text),
    now: () => nowMs,
  });
  const ledger = { calls: 1, promptTokens: 1, cachedTokens: 0, outputTokens: 1, saved: {}, estimated: false };
  bars.follow(0, { type: "step_start", step: 6 });
  bars.follow(0, { type: "warning", message: "" });
  const usage = { promptTokens: 12_345, cachedTokens: 0, outputTokens: 1 };
  bars.follow(0, { type: "step_end", step: 6, usage, finishReason: "stop" });
  nowMs = 100;
  bars.follow(0, { type: "turn_end", reason: "completed", text: "", ledger });
  bars.close();
  const bar = (done: number) => "█".repeat(done) + "░".repeat(40 - done);
  const three = `\x1b[Kthree  ${bar(0)}  0 calls, 0 tokens\n`;
  assertEquals(written, [
    `\x1b[Kone    ${bar(10)}  0 calls, 0 tokens\n${three}`,
    `\x1b[2A\x1b[Kone    ${bar(20)}  1 calls, 12,345 tokens\n${three}`,
    `\x1b[2A\x1b[Kone    ${bar(20)}  1 calls, 12,345 tokens\n${three}`,
    "\n",
  ]);
});

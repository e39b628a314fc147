import { assertEquals, assertRejects } from "@std/assert";
import type { LoopEvent, TurnEnd } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import { ApiError } from "@tare/wire/internal";
import { type TurnAnswer, type TurnPart, turnParts } from "./turn_answer.ts";

const USAGE = { promptTokens: 1, cachedTokens: 0, outputTokens: 1 };
const text = (text: string): LoopEvent => ({ type: "text_delta", step: 1, text });
const reasoning = (text: string): LoopEvent => ({ type: "reasoning_delta", step: 1, text });
const start: LoopEvent = { type: "step_start", step: 1 };
const call = (args: string): LoopEvent => ({
  type: "tool_call",
  step: 1,
  id: "c",
  name: "read",
  arguments: args,
});
const textEvent = (content: string): LoopEvent => ({
  type: "assistant_message",
  step: 1,
  message: { role: "assistant", content },
});
const stepEnd = (finishReason: "stop" | "tool_calls" | "content_filter"): LoopEvent => ({
  type: "step_end",
  step: 1,
  usage: USAGE,
  finishReason,
});
const end = (reason: TurnEnd["reason"]): LoopEvent => ({
  type: "turn_end",
  reason,
  text: "",
  ledger: EMPTY_LEDGER,
  message: "Why.",
});

const OPTIONS = {
  clientTools: [{ type: "function", function: { name: "pick" } }],
  failure: () => Promise.resolve(undefined),
} as const;

async function read(
  events: readonly LoopEvent[],
): Promise<{ readonly parts: readonly string[]; readonly answer: TurnAnswer }> {
  const all = turnParts(ReadableStream.from(events.map((event) => ({ event }))), OPTIONS);
  const parts: string[] = [];
  for (;;) {
    const { done, value } = await all.next();
    if (done) return { parts, answer: value };
    parts.push(`${(value as TurnPart).type}: ${value.text}`);
  }
}

Deno.test("turnParts() yields the text of all steps, separated by blank lines, and a line per call", async () => {
  const { parts, answer } = await read([
    start,
    reasoning("Hm."),
    text("I "),
    text("look."),
    textEvent("I look."),
    call('{"path":\n "a"}'),
    stepEnd("stop"),
    start,
    text("Found."),
    textEvent("Found."),
    stepEnd("stop"),
    end("completed"),
  ]);
  assertEquals(parts, [
    "reasoning: Hm.",
    "text: I ",
    "text: look.",
    'reasoning: \nread {"path": "a"}\n',
    "text: \n\nFound.",
  ]);
  assertEquals(answer, {
    text: "I look.\n\nFound.",
    progress: 'Hm.\nread {"path": "a"}\n',
    calls: [],
    finish: "stop",
    ledger: EMPTY_LEDGER,
  });
});

Deno.test("turnParts() yields the text of a model that doesn't stream and shortens long arguments", async () => {
  const { parts } = await read([
    start,
    text("a"),
    textEvent("abc"),
    call("x".repeat(300)),
    stepEnd("stop"),
    start,
    textEvent("d"),
    end("completed"),
  ]);
  assertEquals(parts, ["text: a", "text: bc", `reasoning: read ${"x".repeat(200)}…\n`, "text: \n\nd"]);
});

Deno.test("turnParts() indents a program's calls below it", async () => {
  const call = { type: "tool_call", step: 1, arguments: "{}" } as const;
  const { parts } = await read([
    start,
    { ...call, id: "p", name: "run_program" },
    { ...call, id: "p/1", name: "read", parent: "p", beganAtMs: 1 },
    text("Done."),
    end("completed"),
  ]);
  assertEquals(parts, ["reasoning: run_program {}\n", "reasoning:   read {}\n", "text: Done."]);
});

Deno.test("turnParts() holds back warnings until the model responds", async () => {
  const warning: LoopEvent = { type: "warning", message: "Careful." };
  assertEquals((await read([start, warning, text("a"), end("completed")])).parts, [
    "reasoning: Careful.\n",
    "text: a",
  ]);
  assertEquals((await read([start, warning, end("completed")])).parts, ["reasoning: Careful.\n"]);
  const failing = turnParts(
    ReadableStream.from([start, warning, end("model_error")].map((event) => ({ event }))),
    OPTIONS,
  );
  await assertRejects(() => failing.next(), ApiError, "Why.");
});

Deno.test("turnParts() reports each prompt rewrite and its reason before the model's next output", async () => {
  const rewritten: LoopEvent = {
    type: "context_rewritten",
    step: 2,
    mechanism: "prune",
    removed: "500 tokens of 1 result of read",
    reason: "the prompt would fill 850 of the window's 1000 tokens",
    tokensBefore: 850,
    tokensAfter: 350,
  };
  const line =
    "prune: 500 tokens of 1 result of read (the prompt would fill 850 of the window's 1000 tokens); 850 → 350 tokens\n";
  const { parts, answer } = await read([
    start,
    reasoning("Hm."),
    textEvent(""),
    stepEnd("stop"),
    start,
    rewritten,
    call("{}"),
    stepEnd("stop"),
    start,
    rewritten,
    text("Found."),
    end("completed"),
  ]);
  assertEquals(parts, [
    "reasoning: Hm.",
    `reasoning: \n${line}`,
    "reasoning: read {}\n",
    `reasoning: ${line}`,
    "text: Found.",
  ]);
  assertEquals(answer.progress, `Hm.\n${line}read {}\n${line}`);
  await assertRejects(() => read([start, rewritten, end("model_error")]), ApiError, "Why.");
});

Deno.test("turnParts() returns how an answer ended and throws if there is none", async () => {
  const finish = async (events: readonly LoopEvent[]) => (await read(events)).answer.finish;
  assertEquals(await finish([end("completed")]), "stop");
  assertEquals(await finish([end("output_limit")]), "length");
  assertEquals(await finish([end("step_limit")]), "length");
  assertEquals(await finish([stepEnd("content_filter"), end("model_error")]), "content_filter");
  const ends: TurnEnd["reason"][] = ["cancelled", "stalled", "model_error", "internal_error"];
  for (const reason of ends) await assertRejects(() => read([end(reason)]), ApiError, "Why.");
  await assertRejects(() => read([start]), Error, "ended before its end");
});

Deno.test("turnParts() returns the client's calls with the answer and reports only the agent's own", async () => {
  const [own, clients] = ["read", "pick"].map((name) => ({
    id: name,
    type: "function" as const,
    function: { name, arguments: "{}" },
  }));
  const result = { content: "r", error: false, bytes: 1, durationMs: 0 };
  const { parts, answer } = await read([
    start,
    { type: "assistant_message", step: 1, message: { role: "assistant", tool_calls: [clients!, own!] } },
    { type: "tool_call", step: 1, id: "pick", name: "pick", arguments: "{}" },
    { type: "tool_call", step: 1, id: "read", name: "read", arguments: "{}" },
    { type: "tool_result", step: 1, id: "read", name: "read", ...result },
    stepEnd("tool_calls"),
    end("tool_calls"),
  ]);
  assertEquals(parts, ["reasoning: read {}\n"]);
  assertEquals([answer.finish, answer.calls, answer.text], ["tool_calls", [clients], ""]);
});

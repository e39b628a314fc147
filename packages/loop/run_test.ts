import { assert, assertEquals } from "@std/assert";
import { ModelError, run } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { ContextHook, Message, Model } from "@tare/messages";
import { MESSAGE_OVERHEAD_TOKENS } from "@tare/messages/internal";
import {
  assertWhole,
  call,
  callTools,
  collect,
  FakeClock,
  outline,
  say,
  scripted,
  tool,
  USAGE,
} from "./fixture_test.ts";

const echo = tool("echo", (args) => `echo ${JSON.stringify(args)}`);

Deno.test("run() runs a turn of two steps and emits its events in order", async () => {
  const reply = callTools(call("1", "echo", { a: 1 }), call("2", "echo", { b: 2 }));
  const { model, requests } = scripted([{ type: "reasoning_delta", text: "Hm" }, ...reply], say("Done."));
  const history: Message[] = [{ role: "system", content: "Be brief." }];
  const { events, result } = await collect(
    run({ model, tools: [echo], history, input: "Go", time: { clock: new FakeClock() } }),
  );

  const assistant = reply[0]?.type === "completed" ? reply[0].message : undefined;
  const ledger = {
    calls: 2,
    promptTokens: 20,
    cachedTokens: 8,
    outputTokens: 4,
    saved: {},
    estimated: false,
  };
  assertEquals(events, [
    { type: "turn_start", input: "Go" },
    { type: "step_start", step: 1 },
    { type: "reasoning_delta", step: 1, text: "Hm" },
    { type: "assistant_message", step: 1, message: assistant! },
    { type: "tool_call", step: 1, id: "1", name: "echo", arguments: '{"a":1}' },
    { type: "tool_call", step: 1, id: "2", name: "echo", arguments: '{"b":2}' },
    {
      type: "tool_result",
      step: 1,
      id: "1",
      name: "echo",
      content: 'echo {"a":1}',
      error: false,
      bytes: 12,
      durationMs: 0,
    },
    {
      type: "tool_result",
      step: 1,
      id: "2",
      name: "echo",
      content: 'echo {"b":2}',
      error: false,
      bytes: 12,
      durationMs: 0,
    },
    { type: "step_end", step: 1, usage: USAGE, finishReason: "tool_calls" },
    { type: "step_start", step: 2 },
    { type: "text_delta", step: 2, text: "Done." },
    { type: "assistant_message", step: 2, message: { role: "assistant", content: "Done." } },
    { type: "step_end", step: 2, usage: USAGE, finishReason: "stop" },
    { type: "turn_end", reason: "completed", text: "Done.", ledger },
  ]);
  const messages: Message[] = [
    { role: "user", content: "Go" },
    assistant!,
    { role: "tool", tool_call_id: "1", content: 'echo {"a":1}' },
    { role: "tool", tool_call_id: "2", content: 'echo {"b":2}' },
    { role: "assistant", content: "Done." },
  ];
  assertEquals(result, { reason: "completed", text: "Done.", ledger, messages });
  assertEquals(requests.map((request) => request.messages), [
    [...history, ...messages.slice(0, 1)],
    [...history, ...messages.slice(0, 4)],
  ]);
  assertEquals(requests[0]?.tools, [echo.definition]);
});

Deno.test("run() emits the context hook's rewrites and sums up its savings", async () => {
  const { model, requests } = scripted(callTools(call("1", "echo")), say("Done."));
  const rewrite = {
    mechanism: "prune",
    reason: "Cold.",
    removed: "One result.",
    tokensBefore: 9,
    tokensAfter: 2,
  };
  const calls: Parameters<ContextHook>[0][] = [];
  const context: ContextHook = (request) => {
    calls.push(request);
    return {
      messages: request.messages.slice(-1),
      tools: [],
      saved: { prune: 7, schemas: request.step },
      ...(request.step === 1 && { rewrites: [rewrite], warnings: ["The archive is full."] }),
    };
  };
  const history: Message[] = [
    { role: "user", content: "Hi" },
    { role: "assistant", content: "Hello" },
    { role: "user", content: "Unanswered" },
  ];
  const { events, result } = await collect(run({ model, tools: [echo], history, input: "Go", context }));

  assertEquals(outline(events).slice(0, 5), [
    "turn_start",
    "step_start",
    "context_rewritten",
    "warning The archive is full.",
    "assistant_message",
  ]);
  assertEquals(events[2], { type: "context_rewritten", step: 1, ...rewrite });
  assertEquals(result.ledger.saved, { prune: 14, schemas: 3 });
  assertEquals(
    calls.map(({ messages, turnStart, step }) => [messages.length, turnStart, step]),
    [[4, 2, 1], [6, 2, 2]],
  );
  assertEquals(calls[0]?.tools, [echo.definition]);
  assertEquals(requests.map(({ messages, tools }) => [messages.length, tools.length]), [[1, 0], [1, 0]]);
});

Deno.test("run() estimates usage that a provider doesn't report", async () => {
  const model: Model = async function* () {
    yield { type: "completed", message: { role: "assistant", content: "four" }, finishReason: "stop" };
  };
  const countTokens = (text: string) => text.length;
  const { events, result } = await collect(run({ model, history: [], input: "Go", costs: { countTokens } }));
  const usage = {
    promptTokens: MESSAGE_OVERHEAD_TOKENS + 2,
    cachedTokens: 0,
    outputTokens: 4,
    estimated: true,
  };
  assertEquals(events.at(-2), { type: "step_end", step: 1, usage, finishReason: "stop" });
  assertEquals(result.ledger, {
    calls: 1,
    promptTokens: usage.promptTokens,
    cachedTokens: 0,
    outputTokens: 4,
    saved: {},
    estimated: true,
  });
});

Deno.test("run() ends when a reply is cut off, and runs none of its calls", async () => {
  let ran = 0;
  const model: Model = async function* () {
    yield {
      type: "completed",
      message: {
        role: "assistant",
        content: "I write",
        tool_calls: [call("1", "count"), call("2", "count", '{"x":')],
      },
      finishReason: "length",
      usage: USAGE,
    };
  };
  const count = tool("count", () => `${++ran}`);
  const { events, result } = await collect(run({ model, tools: [count], history: [], input: "Go" }));
  assertEquals(outline(events), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call 1",
    "tool_call 2",
    "tool_result 1 error",
    "tool_result 2 error",
    "step_end",
    "turn_end output_limit",
  ]);
  assertEquals(
    [ran, result.text, result.message],
    [0, "I write", "The reply was cut off: it reached the provider's limit on output tokens."],
  );
  assertWhole(result);
});

Deno.test("run() returns reasoning and unknown fields unchanged", async () => {
  const [completed] = callTools(call("1", "echo"));
  assert(completed?.type === "completed");
  const message = { ...completed.message, reasoning_content: "Hm", signature: "s" };
  const { model, requests } = scripted([{ ...completed, message }], say("Done."));
  await collect(run({ model, tools: [echo], history: [], input: "Go" }));
  assert(requests[1]?.messages[1] === message);
});

Deno.test("run() forwards text and reasoning deltas, but not those of calls", async () => {
  const model: Model = async function* () {
    yield { type: "reasoning_delta", text: "a" };
    yield { type: "tool_call_delta", index: 0, name: "f" };
    yield { type: "text_delta", text: "b" };
    yield* say("c");
  };
  const { events } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals(outline(events), [
    "turn_start",
    "step_start",
    "reasoning_delta a",
    "text_delta b",
    "text_delta c",
    "assistant_message",
    "step_end",
    "turn_end completed",
  ]);
});

Deno.test("run() ignores events after the completed reply, and lets the model clean up", async () => {
  const seen: string[] = [];
  const model: Model = async function* () {
    try {
      yield* say("Hi");
      seen.push("more");
    } finally {
      seen.push("clean");
    }
  };
  const { result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals([seen, result.reason], [["clean"], "completed"]);
});

Deno.test("run() fails when the stream ends without a reply", async () => {
  const model: Model = async function* () {
    yield { type: "text_delta", text: "Hal" };
  };
  const { result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals([result.reason, result.code, result.message], [
    "model_error",
    "bad_response",
    "The model's stream ended without a reply.",
  ]);
});

Deno.test("run() reports the provider's usage unchanged", async () => {
  const usage = { ...USAGE, cacheWriteTokens: 6 };
  const model: Model = async function* () {
    yield { type: "completed", message: { role: "assistant", content: "Hi" }, finishReason: "stop", usage };
  };
  const { events, result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals(events.at(-2), { type: "step_end", step: 1, usage, finishReason: "stop" });
  assertEquals(result.ledger.estimated, false);
});

Deno.test("run() includes unanswered user messages at the end of the history in the turn", async () => {
  const user: Message = { role: "user", content: "Hi" };
  const assistant: Message = { role: "assistant", content: "Hello" };
  for (
    const [history, expected] of [
      [[], 0],
      [[assistant], 1],
      [[user, assistant], 2],
      [[user, assistant, user, user], 2],
      [[user], 0],
    ] as const
  ) {
    const starts: number[] = [];
    await collect(run({
      model: scripted(say("Hi")).model,
      history,
      input: "Go",
      context: ({ messages, tools, turnStart }) => {
        starts.push(turnStart);
        return { messages, tools };
      },
    }));
    assertEquals(starts, [expected]);
  }
});

Deno.test("run() notifies the context hook of each successful request before its calls run, and emits its ledger", async () => {
  const { model } = scripted(callTools(call("1", "clock")), say("12:00."));
  const order: string[] = [];
  const clock = {
    definition: { type: "function", function: { name: "clock" } },
    run: () => (order.push("clock runs"), "12:00"),
  } as const;
  const ledgers: unknown[] = [];
  for await (
    const event of run({
      model,
      tools: [clock],
      history: [],
      input: "What time is it?",
      context: ({ messages, tools, step }) => ({
        messages,
        tools,
        succeeded: (usage) => {
          order.push(`step ${step} succeeded`);
          assertEquals(usage, USAGE);
          return step === 1 ? { cost: 3 } : undefined;
        },
      }),
    })
  ) {
    if (event.type === "step_end") ledgers.push(event.ledger);
  }
  assertEquals(order, ["step 1 succeeded", "clock runs", "step 2 succeeded"]);
  assertEquals(ledgers, [{ cost: 3 }, undefined]);
});

Deno.test("run() counts the context hook's cost, also if the model call after it fails", async () => {
  const { model } = scripted(say("Done."));
  const paid = { promptTokens: 900, cachedTokens: 800, outputTokens: 40 };
  const options = (model: Model) => ({
    model,
    history: [],
    input: "Go.",
    context: ({ messages, tools }: Parameters<ContextHook>[0]) => ({ messages, tools, usage: paid }),
  });
  const { result } = await collect(run(options(model)));
  assertEquals(result.ledger, {
    calls: 1,
    promptTokens: 900 + USAGE.promptTokens,
    cachedTokens: 800 + USAGE.cachedTokens,
    outputTokens: 40 + USAGE.outputTokens,
    saved: {},
    estimated: false,
  });
  const { result: failed } = await collect(run(options(() => {
    throw new ModelError("bad_key", "No.");
  })));
  assertEquals(failed.ledger, { ...EMPTY_LEDGER, ...paid });
});

Deno.test("ModelError carries its code, and wait and cause if there are any", () => {
  const plain = new ModelError("bad_key", "No.");
  assertEquals([plain.name, plain.code, plain.message], ["ModelError", "bad_key", "No."]);
  assertEquals(["cause" in plain, plain.retryAfterMs], [false, undefined]);
  const full = new ModelError("rate_limited", "Wait.", { retryAfterMs: 0, cause: "x" });
  assertEquals([full.retryAfterMs, full.cause], [0, "x"]);
});

Deno.test("run() restarts a step whose reply failed and is retried, unless deltas can't be discarded", async () => {
  const model: Model = async function* ({ restarted }) {
    yield { type: "reasoning_delta", text: "Hm" };
    yield { type: "text_delta", text: "Hal" };
    if (!restarted) throw new ModelError("bad_response", "Cut.");
    restarted("Cut.");
    yield* say("Hello.");
  };
  const { events, result } = await collect(run({ model, tools: [], history: [], input: "Go" }));
  const warning = "Cut. The reply is retried; its output so far is discarded.";
  assertEquals(outline(events), [
    ...["turn_start", "step_start", "reasoning_delta Hm", "text_delta Hal", "reply_unfinished"],
    ...["step_start", `warning ${warning}`, "text_delta Hello."],
    ...["assistant_message", "step_end", "turn_end completed"],
  ]);
  assertEquals([result.text, result.ledger.calls], ["Hello.", 2]);
  const final: Model = ({ restarted: _, ...request }) => model(request);
  const plain = await collect(run({ model: final, tools: [], history: [], input: "Go" }));
  assertEquals([plain.result.reason, plain.result.message], ["model_error", "Cut."]);
});

import { assert, assertEquals } from "@std/assert";
import { ModelError, run } from "@tare/loop";
import { EMPTY_LEDGER } from "@tare/loop/internal";
import type { Model } from "@tare/messages";
import {
  assertWhole,
  call,
  callTools,
  collect,
  outline,
  say,
  scripted,
  tool,
  USAGE,
} from "./fixture_test.ts";

const echo = tool("echo", (args) => `echo ${JSON.stringify(args)}`);

Deno.test("endingByLimit() ends a turn at its step limit, with every call answered", async () => {
  const { model, requests } = scripted(callTools(call("1", "echo")), callTools(call("2", "echo", { x: 1 })));
  const { events, result } = await collect(
    run({ model, tools: [echo], history: [], input: "Go", limits: { maxSteps: 2 } }),
  );
  assertEquals(outline(events).slice(-4), [
    "tool_call 2",
    "tool_result 2",
    "step_end",
    "turn_end step_limit",
  ]);
  assertEquals(
    result.message,
    "The turn reached its limit of 2 model calls. The next message continues from here.",
  );
  assertEquals(requests.length, 2);
  assertWhole(result);
});

Deno.test("endingByLimit() ends a turn at its output limit, but accepts an answer", async () => {
  const limited = { tools: [echo], history: [], input: "Go", limits: { maxOutputTokens: 2 } };
  const chain = await collect(run({ ...limited, model: scripted(callTools(call("1", "echo"))).model }));
  assertEquals(chain.result.reason, "output_limit");
  assertEquals(chain.result.message, "The turn reached its limit of 2 output tokens (it has 2).");
  assertWhole(chain.result);
  const answer = await collect(run({ ...limited, model: scripted(say("Done.")).model }));
  assertEquals(answer.result.reason, "completed");
});

Deno.test("run() calls the context hook once more after a prompt that is too long", async () => {
  const tooLong = new ModelError("prompt_too_long", "prompt is too long: 9 tokens > 8 maximum");
  const sizes: number[] = [];
  const model: Model = async function* ({ messages }) {
    sizes.push(messages.length);
    if (messages.length > 1) throw tooLong;
    yield {
      type: "completed",
      message: { role: "assistant", content: "Hi." },
      finishReason: "stop",
      usage: USAGE,
    };
  };
  const rejected: string[] = [];
  const play = async (visible: readonly number[]) => {
    sizes.length = rejected.length = 0;
    const history = [{ role: "user", content: "One." }, { role: "assistant", content: "Two." }] as const;
    let views = 0;
    const { result: { reason, code, ledger } } = await collect(run({
      model,
      history,
      input: "Three.",
      context: ({ messages, tools }) => ({
        messages: messages.slice(-visible[views++]!),
        tools,
        rejected: (words) => rejected.push(words),
      }),
    }));
    return { reason, code, calls: ledger.calls, sizes: [...sizes], rejected: [...rejected] };
  };
  const reported = [tooLong.message];
  assertEquals(await play([3, 1]), {
    reason: "completed",
    code: undefined,
    calls: 1,
    sizes: [3, 1],
    rejected: reported,
  });
  assertEquals(await play([3, 2, 1]), {
    reason: "model_error",
    code: "prompt_too_long",
    calls: 0,
    sizes: [3, 2],
    rejected: [...reported, ...reported],
  });
});

Deno.test("endingByReply() reports that the provider's filter stopped a reply", async () => {
  const { model } = scripted(say("I can", "content_filter"));
  const { result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals([result.reason, result.text], ["model_error", "I can"]);
  assertEquals(result.message, "The provider's content filter stopped the reply.");
});

Deno.test("isEmptyReply() excludes an empty reply from the history, with a warning", async () => {
  for (const content of [null, "", " \n"]) {
    const model: Model = async function* () {
      yield {
        type: "completed",
        message: { role: "assistant", content },
        finishReason: "stop",
        usage: USAGE,
      };
    };
    const { events, result } = await collect(run({ model, history: [], input: "Go" }));
    assertEquals(outline(events), [
      "turn_start",
      "step_start",
      "warning The model's reply was empty.",
      "step_end",
      "turn_end completed",
    ]);
    assertEquals(result.message, "The model's reply was empty.");
    assertEquals(result.messages, [{ role: "user", content: "Go" }]);
  }
});

Deno.test("isEmptyReply() accepts a refusal as the answer", async () => {
  const message = { role: "assistant", content: null, refusal: "No." } as const;
  const model: Model = async function* () {
    yield { type: "completed", message, finishReason: "stop", usage: USAGE };
  };
  const { result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals([result.reason, result.text, result.messages[1]], ["completed", "No.", message]);
});

Deno.test("endingByError() reports the model's error, and retains the earlier steps", async () => {
  let step = 0;
  const failure = new ModelError("rate_limited", "Too fast.", { retryAfterMs: 5 });
  const model: Model = async function* () {
    if (++step === 2) throw failure;
    yield* callTools(call("1", "echo"));
  };
  const { events, result } = await collect(run({ model, tools: [echo], history: [], input: "Go" }));
  assertEquals(outline(events).slice(-3), ["step_end", "step_start", "turn_end model_error"]);
  assertEquals([result.code, result.message, result.error], ["rate_limited", "Too fast.", failure]);
  assertEquals(result.ledger.calls, 1);
  assertEquals(result.messages.length, 3);
  assertWhole(result);
});

Deno.test("endingByError() reports unexpected errors of a hook or a model as internal errors", async () => {
  const broken = () => {
    throw new Error("bug");
  };
  for (
    const options of [
      { model: scripted(say("Hi")).model, context: broken },
      { model: scripted(say("Hi")).model, context: () => Promise.reject(new Error("bug")) },
      { model: broken },
    ]
  ) {
    const { events, result } = await collect(run({ ...options, history: [], input: "Go" }));
    assertEquals(outline(events), ["turn_start", "step_start", "turn_end internal_error"]);
    assertEquals(result.message, "bug");
    assert(result.error instanceof Error);
  }
});

Deno.test("run() calls no model for a resumed turn that is at a limit already", async () => {
  const { model, requests } = scripted();
  const resumed = {
    messages: [{ role: "user", content: "Go" }] as const,
    step: 4,
    ledger: { ...EMPTY_LEDGER, calls: 3, outputTokens: 60 },
    calls: [],
  };
  const options = { model, history: [], resumed };
  const reasons: string[] = [];
  for (
    const limit of [
      { limits: { maxSteps: 3 } },
      { limits: { maxSteps: 2 } },
      { limits: { maxOutputTokens: 60 } },
      { costs: { overBudget: () => "Spent." } },
    ]
  ) {
    const { events, result } = await collect(run({ ...options, ...limit }));
    assertEquals(events.map(({ type }) => type), ["turn_end"]);
    reasons.push(result.reason);
  }
  assertEquals([reasons, requests.length], [["step_limit", "step_limit", "output_limit", "budget"], 0]);
  assertEquals(
    (await collect(run({ ...options, limits: { maxSteps: 4, maxOutputTokens: 61 } }))).result.reason,
    "completed",
  );
});

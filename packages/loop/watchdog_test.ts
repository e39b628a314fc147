import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import type { ContextHook, Model } from "@tare/messages";
import {
  breathe,
  call,
  callTools,
  collect,
  FakeClock,
  outline,
  say,
  scripted,
  tool,
} from "./fixture_test.ts";

const idle = { history: [], input: "Go", limits: { idleTimeoutMs: 100 } };

async function work(clock: FakeClock, progress: () => void): Promise<void> {
  for (let i = 0; i < 5; i++) {
    await breathe();
    clock.advance(80);
    progress();
  }
}

Deno.test("Watchdog never stops work with progress, however long it takes", async () => {
  const clock = new FakeClock();
  const slowTool = tool("f", async (_, { progress }) => {
    await work(clock, progress);
    return "ready";
  });
  const { model: replies } = scripted(callTools(call("1", "f")), say("Done."));
  const model: Model = async function* (request) {
    await work(clock, () => request.progress?.());
    for await (const event of replies(request)) {
      await breathe();
      clock.advance(80);
      yield event;
    }
  };
  const context: ContextHook = async ({ messages, tools, progress }) => {
    await work(clock, progress);
    return { messages, tools };
  };
  const { result } = await collect(run({ ...idle, model, tools: [slowTool], context, time: { clock } }));
  assertEquals([result.reason, result.messages[2]?.content, clock.now()], ["completed", "ready", 2240]);
  assertEquals(clock.pending, 0);
});

Deno.test("Watchdog ends a turn whose model, tool or hook makes no progress", async () => {
  const never = () => new Promise<never>(() => {});
  for (
    const [options, end] of [
      [{ model: () => ({ [Symbol.asyncIterator]: () => ({ next: never }) }) }, ["step_start"]],
      [{ model: scripted(say("Hi")).model, context: never }, ["step_start"]],
      [
        {
          model: scripted(callTools(call("1", "f"))).model,
          tools: [tool("f", never)],
          limits: { ...idle.limits, toolTimeoutMs: 1_000 },
        },
        ["tool_result 1 error", "step_end"],
      ],
    ] as const
  ) {
    const clock = new FakeClock();
    const turn = collect(run({ ...idle, ...options, time: { clock } }));
    await breathe();
    clock.advance(99);
    await breathe();
    clock.advance(1);
    await breathe();
    // Stuck work gets the grace period and doesn't use it.
    clock.advance(2_000);
    const { events, result } = await turn;
    assertEquals(outline(events).slice(-1 - end.length), [...end, "turn_end stalled"]);
    assertEquals(result.message, "No progress for 0.1 s.");
    assertEquals(clock.pending, 0);
  }
});

Deno.test("Watchdog doesn't limit the time of consumers", async () => {
  const clock = new FakeClock();
  const { model } = scripted(callTools(call("1", "f")), say("Done."));
  const { result } = await collect(
    run({ ...idle, model, tools: [tool("f", () => "ready")], time: { clock } }),
    () => clock.advance(1_000),
  );
  assertEquals(result.reason, "completed");
});

Deno.test("Watchdog uses the real time by default", async () => {
  const { model } = scripted(callTools(call("1", "f"), call("2", "g")), say("Done."));
  const tools = [tool("f", () => new Promise(() => {}), { timeoutMs: 1 }), tool("g", () => "ready")];
  const { result } = await collect(run({ model, tools, history: [], input: "Go" }));
  assertEquals(result.messages.slice(2, 4).map(({ content }) => content), [
    "Cannot finish f: it exceeded its limit of 0.001 s and was stopped. Request less in one call.",
    "ready",
  ]);
});

Deno.test("run() warns once in a turn about a silent model, and continues to wait", async () => {
  const clock = new FakeClock();
  const { model: answers } = scripted(callTools(call("a", "f")), callTools(call("b", "f")), say("Done."));
  const reported: string[] = [];
  const late = Promise.withResolvers<void>();
  const model: Model = async function* (request) {
    if (reported.length > 1) {
      await breathe();
      clock.advance(9_999);
      await breathe();
      reported.push("ten seconds");
      clock.advance(1);
      await late.promise;
    }
    yield* answers(request);
  };
  const tools = [tool("f", () => "ready")];
  for await (
    const event of run({ ...idle, limits: { idleTimeoutMs: 60_000 }, model, tools, time: { clock } })
  ) {
    if (event.type === "step_start" || event.type === "assistant_message") reported.push(event.type);
    if (event.type !== "warning") continue;
    reported.push(event.message);
    late.resolve();
  }
  assertEquals(reported, [
    ...["step_start", "assistant_message", "step_start", "ten seconds"],
    "The model has not responded for 10 seconds: it is thinking, or its provider hangs. The turn waits.",
    ...["assistant_message", "step_start", "ten seconds", "assistant_message"],
  ]);
  assertEquals(clock.pending, 0);
});

async function reportsOf(...answered: readonly (string | undefined)[]): Promise<readonly string[]> {
  const clock = new FakeClock();
  const { model: answers } = scripted(say("Done."));
  const late = Promise.withResolvers<void>();
  const model: Model = async function* (request) {
    for (const why of answered) request.refused?.(why);
    await breathe();
    clock.advance(10_000);
    await late.promise;
    yield* answers(request);
  };
  const reported: string[] = [];
  for await (const event of run({ ...idle, limits: { idleTimeoutMs: 60_000 }, model, time: { clock } })) {
    if (event.type !== "warning") continue;
    reported.push(event.message);
    late.resolve();
  }
  return reported;
}

Deno.test("run() reports the provider's refusals if they cause the silence", async () => {
  const refusal = "api.example failed (529)";
  assertEquals(await reportsOf(refusal), [`${refusal}. The request is retried. The turn waits.`]);
  assertEquals(await reportsOf(refusal, undefined), await reportsOf());
});

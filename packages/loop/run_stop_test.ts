// How run() stops: by its signal, its consumer or its watchdog.
import { assert, assertEquals } from "@std/assert";
import { run, type TurnResult } from "@tare/loop";
import type { ContextHook } from "@tare/messages";
import {
  assertWhole,
  breathe,
  call,
  callTools,
  collect,
  hanging,
  outline,
  say,
  scripted,
  tool,
  untilAborted,
} from "./fixture_test.ts";

const echo = tool("echo", (args) => `echo ${JSON.stringify(args)}`);

Deno.test("run() cancels in the middle of a reply, which is excluded from the history", async () => {
  const hung = hanging();
  const controller = new AbortController();
  const { events, result } = await collect(
    run({ model: hung.model, history: [], input: "Go", signal: controller.signal }),
    (event) => {
      if (event.type === "text_delta") controller.abort();
    },
  );
  assertEquals(outline(events), [
    ...["turn_start", "step_start", "text_delta Well"],
    ...["reply_unfinished", "turn_end cancelled"],
  ]);
  assertEquals([hung.stopped, result.message], [1, "The turn was cancelled."]);
  assertEquals(result.messages, [{ role: "user", content: "Go" }]);
});

Deno.test("run() cancels while it waits for the context hook", async () => {
  const controller = new AbortController();
  const context: ContextHook = async ({ messages, tools, signal }) => {
    controller.abort();
    await untilAborted(signal);
    return { messages, tools };
  };
  const { model, requests } = scripted(say("Hi"));
  const { events } = await collect(
    run({ model, history: [], input: "Go", context, signal: controller.signal }),
  );
  assertEquals(outline(events), ["turn_start", "step_start", "turn_end cancelled"]);
  assertEquals(requests.length, 0);
});

Deno.test("run() cancels in the middle of tools and answers open calls", async () => {
  const controller = new AbortController();
  const started: string[] = [];
  const wait = tool("wait", async ({ id }, { signal }) => {
    started.push(`${id}`);
    await untilAborted(signal);
    throw signal.reason;
  });
  const fast = tool("fast", () => "ready");
  const { model, requests } = scripted(
    callTools(
      call("1", "wait", { id: 1 }),
      call("2", "fast"),
      call("3", "wait", { id: 3 }),
      call("4", "wait", { id: 4 }),
    ),
  );
  const { events, result } = await collect(
    run({
      model,
      tools: [wait, fast],
      history: [],
      input: "Go",
      signal: controller.signal,
      limits: { maxParallelTools: 2 },
    }),
    (event) => {
      if (event.type === "tool_result" && event.id === "2") breathe().then(() => controller.abort());
    },
  );
  assertEquals(outline(events).slice(-7), [
    "tool_call 4",
    "tool_result 2",
    "tool_result 1 error",
    "tool_result 3 error",
    "tool_result 4 error",
    "step_end",
    "turn_end cancelled",
  ]);
  assertEquals(result.messages.slice(2).map((message) => message.content), [
    "Cannot finish wait: the turn was stopped before it ended.",
    "ready",
    "Cannot finish wait: the turn was stopped before it ended.",
    "Cannot run wait: the turn was stopped before it started.",
  ]);
  assertEquals(started, ["1", "3"]);
  assertEquals(requests.length, 1);
  assertWhole(result);
});

Deno.test("run() cancels at any event, and always ends once with a valid history", async () => {
  const script = [
    callTools(call("1", "echo"), call("2", "echo", { x: 1 })),
    callTools(call("3", "echo")),
    say("Done."),
  ];
  const whole = await collect(
    run({ model: scripted(...script).model, tools: [echo], history: [], input: "Go" }),
  );
  for (let at = 0; at < whole.events.length - 1; at++) {
    const controller = new AbortController();
    let seen = 0;
    const { events, result } = await collect(
      run({
        model: scripted(...script).model,
        tools: [echo],
        history: [],
        input: "Go",
        signal: controller.signal,
      }),
      () => {
        if (seen++ === at) controller.abort();
      },
    );
    assertEquals(events.filter((event) => event.type === "turn_end").length, 1);
    assertEquals(events.at(-1)?.type, "turn_end");
    // An abort after the model's last event has no effect.
    const isLate = whole.events.slice(0, at + 1).some((event) =>
      event.type === "assistant_message" && event.step === 3
    );
    assertEquals(result.reason, isLate ? "completed" : "cancelled");
    assertWhole(result);
  }
});

Deno.test("run() starts nothing if it is cancelled before", async () => {
  const { model, requests } = scripted(say("Hi"));
  const { events } = await collect(run({ model, history: [], input: "Go", signal: AbortSignal.abort() }));
  assertEquals(outline(events), ["turn_start", "step_start", "turn_end cancelled"]);
  assertEquals(requests.length, 0);
});

Deno.test("run() stops the model when its consumer returns, between events and while it waits", async () => {
  const hung = hanging();
  for await (const event of run({ model: hung.model, history: [], input: "Go" })) {
    if (event.type === "text_delta") break;
  }
  assertEquals(hung.stopped, 1);
  const turn = run({ model: hung.model, history: [], input: "Go" });
  for (let i = 0; i < 3; i++) await turn.next();
  const pending = turn.next();
  await breathe();
  const [last, left] = await Promise.all([pending, turn.return({} as TurnResult)]);
  assertEquals([hung.stopped, left.done], [2, true]);
  assert(!last.done && last.value.type === "reply_unfinished");
});

Deno.test("run() stops running tools when its consumer returns", async () => {
  let stopped = 0;
  const wait = tool("wait", async (_, { signal }) => {
    await untilAborted(signal);
    stopped++;
    return "";
  });
  const { model } = scripted(callTools(call("1", "echo"), call("2", "wait")));
  for await (const event of run({ model, tools: [echo, wait], history: [], input: "Go" })) {
    if (event.type === "tool_result") break;
  }
  assertEquals(stopped, 1);
});

Deno.test("run() ends a turn without progress as stalled", async () => {
  const hung = hanging();
  const { events, result } = await collect(
    run({ model: hung.model, history: [], input: "Go", limits: { idleTimeoutMs: 1 } }),
  );
  assertEquals(outline(events).at(-1), "turn_end stalled");
  assertEquals([hung.stopped, result.message], [1, "No progress for 0.001 s."]);
});

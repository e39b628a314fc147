import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import { call, callTools, collect, FakeClock, outline, say, scripted, tool } from "./fixture_test.ts";

Deno.test("runTools() runs calls in parallel up to the limit and answers in their order", async () => {
  const gates = new Map<string, () => void>();
  let running = 0;
  let most = 0;
  const gated = tool("gated", async ({ id }) => {
    most = Math.max(most, ++running);
    await new Promise<void>((resolve) => gates.set(`${id}`, resolve));
    running--;
    return `result ${id}`;
  });
  const calls = ["1", "2", "3", "4", "5"].map((id) => call(id, "gated", { id }));
  const { model } = scripted(callTools(...calls), say("Done."));
  const turn = run({ model, tools: [gated], history: [], input: "Go", limits: { maxParallelTools: 2 } });

  // The second of two running calls always ends first.
  const ended = collect(turn);
  for (const id of ["2", "3", "4", "5", "1"]) {
    while (!gates.has(id)) await Promise.resolve();
    gates.get(id)?.();
  }
  const { events, result } = await ended;
  assertEquals(most, 2);
  assertEquals(outline(events).filter((line) => line.startsWith("tool_")), [
    "tool_call 1",
    "tool_call 2",
    "tool_call 3",
    "tool_call 4",
    "tool_call 5",
    "tool_result 2",
    "tool_result 3",
    "tool_result 4",
    "tool_result 5",
    "tool_result 1",
  ]);
  assertEquals(
    result.messages.filter((message) => message.role === "tool").map((message) => message.content),
    ["result 1", "result 2", "result 3", "result 4", "result 5"],
  );
});

Deno.test("runTools() reports each result's size in bytes and its time", async () => {
  const clock = new FakeClock();
  const slow = tool("slow", () => {
    clock.advance(7);
    return "größer";
  });
  const { model } = scripted(callTools(call("1", "slow")), say("Done."));
  const { events } = await collect(run({ model, tools: [slow], history: [], input: "Go", time: { clock } }));
  assertEquals(events.find((event) => event.type === "tool_result"), {
    type: "tool_result",
    step: 1,
    id: "1",
    name: "slow",
    content: "größer",
    error: false,
    bytes: 8,
    durationMs: 7,
  });
});

Deno.test("runTools() answers each of several calls that share an id", async () => {
  const echo = tool("echo", ({ n }) => `${n}`);
  const { model } = scripted(
    callTools(call("x", "echo", { n: 1 }), call("x", "echo", { n: 2 })),
    say("Done."),
  );
  const { result } = await collect(run({ model, tools: [echo], history: [], input: "Go" }));
  assertEquals(result.messages.slice(2, 4), [
    { role: "tool", tool_call_id: "x", content: "1" },
    { role: "tool", tool_call_id: "call_2", content: "2" },
  ]);
});

Deno.test("runTools() adds images after a result's text, in the history and in the event", async () => {
  const images = ["data:image/png;base64,AAAA"];
  const look = tool("look", () => ({ content: "a picture", error: false, images }));
  const { model } = scripted(callTools(call("1", "look")), say("Done."));
  const { events, result } = await collect(run({ model, tools: [look], history: [], input: "Go" }));
  assertEquals(result.messages[2], {
    role: "tool",
    tool_call_id: "1",
    content: [
      { type: "text", text: "a picture" },
      { type: "image_url", image_url: { url: "data:image/png;base64,AAAA" } },
    ],
  });
  const event = events.find((event) => event.type === "tool_result");
  assertEquals([event?.content, event?.bytes, event?.images], ["a picture", 9, images]);
});

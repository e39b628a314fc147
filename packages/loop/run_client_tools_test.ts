import { assertEquals, assertThrows } from "@std/assert";
import { run } from "@tare/loop";
import type { ToolDefinition } from "@tare/messages";
import { assertWhole, call, callTools, collect, outline, say, scripted, tool } from "./fixture_test.ts";

const PICK: ToolDefinition = { type: "function", function: { name: "pick", description: "Ask the person." } };
const look = tool("look", () => "seen");

Deno.test("run() ends the turn when the model calls a tool of the caller, and leaves that call open", async () => {
  const { model, requests } = scripted(callTools(call("1", "pick", { of: "colors" })));
  const options = { model, tools: [look], clientTools: [PICK], history: [], input: "Go" };
  const { events, result } = await collect(run(options));
  assertEquals(outline(events), [
    "turn_start",
    "step_start",
    "assistant_message",
    "tool_call 1",
    "step_end",
    "turn_end tool_calls",
  ]);
  assertEquals(result.messages, [
    { role: "user", content: "Go" },
    { role: "assistant", content: null, tool_calls: [call("1", "pick", { of: "colors" })] },
  ]);
  assertEquals(requests[0]?.tools, [look.definition, PICK]);
});

Deno.test("run() runs the other calls of such a step once, and continues with the caller's results", async () => {
  let runs = 0;
  const count = tool("count", () => `run ${++runs}`);
  const { model, requests } = scripted(
    callTools(call("1", "pick"), call("2", "count")),
    say("Done."),
  );
  const options = { model, tools: [count], clientTools: [PICK] };
  const first = await collect(run({ ...options, history: [], input: "Go" }));
  assertEquals(outline(first.events).slice(-3), ["tool_result 2", "step_end", "turn_end tool_calls"]);
  const answer = { role: "tool", tool_call_id: "1", content: "blue" } as const;
  const history = [...first.result.messages, answer];
  const second = await collect(run({ ...options, history }));
  assertEquals([second.result.reason, second.result.text, runs], ["completed", "Done.", 1]);
  assertEquals(requests[1]?.messages, [
    { role: "user", content: "Go" },
    { role: "assistant", content: null, tool_calls: [call("1", "pick"), call("2", "count")] },
    { role: "tool", tool_call_id: "2", content: "run 1" },
    answer,
  ]);
});

Deno.test("run() answers the caller's calls itself if the turn is stopped first", async () => {
  const controller = new AbortController();
  const stop = tool("stop", () => {
    controller.abort();
    return "stopped";
  });
  const { model } = scripted(callTools(call("1", "pick"), call("2", "stop")));
  const options = { model, tools: [stop], clientTools: [PICK], signal: controller.signal };
  const { result } = await collect(run({ ...options, history: [], input: "Go" }));
  assertWhole(result);
  assertEquals([result.reason, result.messages[2]], ["cancelled", {
    role: "tool",
    tool_call_id: "1",
    content: "Cannot run pick: the turn was stopped before it was run. Call again if you need it.",
    failed: true,
  }]);
});

Deno.test("run() rejects a tool of the caller with the name of another", () => {
  const { model } = scripted();
  for (const clientTools of [[PICK, PICK], [look.definition]]) {
    assertThrows(
      () => run({ model, tools: [look], clientTools, history: [], input: "Go" }),
      TypeError,
      "Names must be unique",
    );
  }
});

Deno.test("run() passes the settings to every model call", async () => {
  const { model, requests } = scripted(callTools(call("1", "look")), say("Done."));
  const settings = { temperature: 0.5, seed: 7 };
  await collect(run({ model, tools: [look], settings, history: [], input: "Go" }));
  assertEquals(requests.map((request) => request.settings), [settings, settings]);
});

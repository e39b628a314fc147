import { assertEquals } from "@std/assert";
import { type Model, run } from "@tare/loop";
import { collect, outline, say, USAGE } from "./fixture_test.ts";

Deno.test("callModel() passes text and reasoning on, and keeps the pieces of calls to itself", async () => {
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

Deno.test("callModel() doesn't look behind the completed reply, and lets the model clean up", async () => {
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

Deno.test("callModel() fails when the stream ends without a reply", async () => {
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

Deno.test("callModel() takes the provider's usage as it is", async () => {
  const usage = { ...USAGE, cacheWriteTokens: 6 };
  const model: Model = async function* () {
    yield { type: "completed", message: { role: "assistant", content: "Hi" }, finishReason: "stop", usage };
  };
  const { events, result } = await collect(run({ model, history: [], input: "Go" }));
  assertEquals(events.at(-2), { type: "step_end", step: 1, usage, finishReason: "stop" });
  assertEquals(result.ledger.estimated, false);
});

import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import type { ContextHook, FunctionToolCall, Tool } from "@tare/messages";
import { call, callTools, collect, say, scripted, tool } from "./fixture_test.ts";

const ADVICE = "Use that result, call with other arguments, or answer.";
const note = (n: number) => `\n\n[Same call and same result as before (repetition ${n}). ${ADVICE}]`;
const alone = (n: number) =>
  `[Same call and same result as before (repetition ${n}); not repeated. ${ADVICE}]`;

const read = tool("read", ({ path }) => `text of ${path}`, { stance: "rederivable" });

async function results(
  steps: readonly (readonly FunctionToolCall[])[],
  tools: readonly Tool[],
  context?: ContextHook,
): Promise<unknown[]> {
  const { model } = scripted(...steps.map((calls) => callTools(...calls)), say("Done."));
  const { result } = await collect(
    run({ model, tools, history: [], input: "Go", ...(context && { context }) }),
  );
  return result.messages.filter((message) => message.role === "tool").map((message) => message.content);
}

Deno.test("RepeatedCalls adds a note to the first two repetitions and replaces later ones", async () => {
  const steps = Array.from({ length: 5 }, (_, i) => [call(`${i}`, "read", { path: "a" })]);
  assertEquals(await results(steps, [read]), [
    "text of a",
    `text of a${note(1)}`,
    `text of a${note(2)}`,
    alone(3),
    alone(4),
  ]);
});

Deno.test("RepeatedCalls ignores other arguments and other results", async () => {
  let n = 0;
  const poll = tool("poll", () => `state ${n++ < 1 ? "old" : "new"}`, { stance: "rederivable" });
  const steps = [
    [call("1", "read", { path: "a" }), call("2", "poll")],
    [call("3", "read", { path: "b" }), call("4", "poll")],
    [call("5", "poll")],
  ];
  assertEquals(await results(steps, [read, poll]), [
    "text of a",
    "state old",
    "text of b",
    "state new",
    `state new${note(1)}`,
  ]);
});

Deno.test("RepeatedCalls restarts after a call that may have changed something, but not after itself", async () => {
  const write = tool("write", () => "written", { stance: "once" });
  const again = call("1", "read", { path: "a" });
  const steps = [[again], [again], [call("2", "write")], [again], [call("3", "write")], [call("4", "write")]];
  assertEquals(await results(steps, [read, write]), [
    "text of a",
    `text of a${note(1)}`,
    "written",
    "text of a",
    `written${note(1)}`,
    `written${note(2)}`,
  ]);
});

Deno.test("RepeatedCalls counts failures too, which change nothing", async () => {
  const failing = call("1", "reed", { path: "a" });
  const expected = 'Cannot run "reed": there is no such tool. Did you mean read? The tools are: read.';
  assertEquals(await results([[failing], [failing]], [read]), [expected, expected + note(1)]);
});

Deno.test("RepeatedCalls compares with earlier steps only, whichever call ends first", async () => {
  const twice = [call("1", "read", { path: "a" }), call("2", "read", { path: "a" })];
  assertEquals(await results([twice, twice], [read]), [
    "text of a",
    "text of a",
    `text of a${note(2)}`,
    `text of a${note(2)}`,
  ]);
});

Deno.test("RepeatedCalls returns the result whole after the first one was evicted", async () => {
  const steps = Array.from({ length: 4 }, (_, i) => [call(`${i}`, "read", { path: "a" })]);
  const context: ContextHook = ({ messages, tools }) => ({
    messages: messages.map((message) =>
      message.role === "tool" ? { ...message, content: "[elided]" } : message
    ),
    tools,
  });
  assertEquals((await results(steps, [read], context)).at(-1), `text of a${note(3)}`);
});

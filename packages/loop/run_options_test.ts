import { assertEquals, assertThrows } from "@std/assert";
import { run, type RunOptions } from "@tare/loop";
import { collect, say, scripted, tool } from "./fixture_test.ts";

const { model } = scripted(say("Hi"));

Deno.test("run() needs no more than a model, a history and an input", async () => {
  assertEquals((await collect(run({ model, history: [], input: "Go" }))).result.text, "Hi");
});

Deno.test("run() refuses what is the caller's mistake, before anything runs", () => {
  const f = tool("f", () => "");
  const broken = {
    definition: { type: "function", function: { name: "g", parameters: { type: "strin" } } },
  } as const;
  for (
    const [options, error, message] of [
      [
        { tools: [f, f] },
        TypeError,
        'Cannot start a turn: two tools are named "f", and each name must be unique.',
      ],
      [{ tools: [{ ...f, ...broken }] }, TypeError, "Cannot use tool g: its parameters are no JSON Schema"],
      [
        { tools: [{ ...f, timeoutMs: 0 }] },
        RangeError,
        "timeoutMs of tool f is 0, but must be from 1 to 2147483647.",
      ],
      [{ maxSteps: 0 }, RangeError, "Cannot start a turn: maxSteps is 0, but must be at least 1."],
      [{ maxParallelTools: NaN }, RangeError, "maxParallelTools is NaN"],
      [{ maxOutputTokens: -1 }, RangeError, "maxOutputTokens is -1"],
      [{ toolTimeoutMs: Infinity }, RangeError, "toolTimeoutMs is Infinity"],
      [{ idleTimeoutMs: 2 ** 31 }, RangeError, "idleTimeoutMs is 2147483648"],
    ] as const satisfies readonly (readonly [Partial<RunOptions>, ErrorConstructor, string])[]
  ) {
    assertThrows(() => run({ model, history: [], input: "Go", ...options }), error, message);
  }
});

import { assertEquals, assertThrows } from "@std/assert";
import { run, type RunOptions } from "@tare/loop";
import { collect, say, scripted, tool } from "./fixture_test.ts";

const { model } = scripted(say("Hi"));

Deno.test("run() needs no more than a model, a history and an input", async () => {
  assertEquals((await collect(run({ model, history: [], input: "Go" }))).result.text, "Hi");
});

Deno.test("run() rejects invalid options before anything runs", () => {
  const f = tool("f", () => "");
  const broken = {
    definition: { type: "function", function: { name: "g", parameters: { type: "strin" } } },
  } as const;
  for (
    const [options, error, message] of [
      [
        { tools: [f, f] },
        TypeError,
        'Cannot start a turn: two tools are named "f". Names must be unique.',
      ],
      [
        { tools: [{ ...f, ...broken }] },
        TypeError,
        "Cannot use tool g: its parameters are not a valid JSON Schema",
      ],
      [
        { tools: [{ ...f, timeoutMs: 0 }] },
        RangeError,
        "timeoutMs of tool f is 0. It must be from 1 to 2147483647.",
      ],
      [
        { limits: { maxSteps: 0 } },
        RangeError,
        "Cannot start a turn: maxSteps is 0. It must be at least 1.",
      ],
      [{ limits: { maxParallelTools: NaN } }, RangeError, "maxParallelTools is NaN"],
      [{ limits: { maxOutputTokens: -1 } }, RangeError, "maxOutputTokens is -1"],
      [{ limits: { toolTimeoutMs: Infinity } }, RangeError, "toolTimeoutMs is Infinity"],
      [{ limits: { idleTimeoutMs: 2 ** 31 } }, RangeError, "idleTimeoutMs is 2147483648"],
    ] as const satisfies readonly (readonly [Partial<RunOptions>, ErrorConstructor, string])[]
  ) {
    assertThrows(() => run({ model, history: [], input: "Go", ...options }), error, message);
  }
});

Deno.test("run() rejects an unknown option, in groups too, with the nearest known one", () => {
  for (
    const [options, unknown, nearest] of [
      [{ maxSteps: 3 }, "maxSteps", "costs"],
      [{ limit: { maxSteps: 3 } }, "limit", "limits"],
      [{ limits: { maxStep: 3 } }, "limits.maxStep", "maxSteps"],
      [{ approvals: { jugde: () => {} } }, "approvals.jugde", "judge"],
    ] as const
  ) {
    assertThrows(
      () => run({ model, history: [], input: "Go", ...options as object }),
      TypeError,
      `Cannot run run(): options.${unknown} is unknown; the nearest known name is ${nearest}`,
    );
  }
});

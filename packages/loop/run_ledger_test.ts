import { assertEquals } from "@std/assert";
import { run } from "@tare/loop";
import { call, callTools, say, scripted, USAGE } from "./fixture_test.ts";

Deno.test("run() tells the context hook of each request that succeeded, before its calls run, and shows its ledger", async () => {
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

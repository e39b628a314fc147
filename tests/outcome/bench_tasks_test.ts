import { assert, assertAlmostEquals, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { seeded } from "../seeded.ts";
import { systemClock } from "../../scripts/probe/clock.ts";
import { startProvider } from "../agents/provider.ts";
import { benchTasks, summarize } from "./bench_tasks.ts";
import { TASKS } from "./tasks.ts";
import { TARE, workerModel } from "./worker.ts";

async function bench(
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<
  { readonly text: string; readonly logged: readonly string[]; readonly stopped?: string | undefined }
> {
  const folder = await Deno.makeTempDir();
  const logged: string[] = [];
  try {
    const log = (line: string) => void logged.push(line);
    return { ...await benchTasks(args, { environment, folder, clock: systemClock, log }), logged };
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

Deno.test("bench tasks: a missing provider or price is reported, with the mode that needs none", async () => {
  await assertRejects(
    () => bench([]),
    RangeError,
    "use the scripted worker of the tests: --scripted",
  );
  const named = { OPENAI_API_KEY: "key", TARE_MODEL: "gpt-5" };
  await assertRejects(() => bench([], named), RangeError, "--price-in is not set");
  await assertRejects(() => bench(["--scripted", "--arm", "tara"]), RangeError, 'must be one of "tare"');
});

Deno.test("bench tasks: one model is called with its key, and the run stops when the budget is used up", async () => {
  const task = TASKS.find(({ name }) => name === "change one setting of one section")!;
  const { question } = task.make(seeded(1));
  const model = workerModel(question.map((question, at) => ({ question, turn: task.turns[at]! })), TARE);
  await using provider = await startProvider({ model });
  const environment = {
    OPENAI_API_KEY: "key",
    OPENAI_BASE_URL: `${provider.url}/v1`,
    TARE_MODEL: "some-model",
  };
  const { text, logged, stopped } = await bench([
    ...["--arm", "tare", "--task", task.name, "--repeats", "2"],
    ...["--price-in", "1", "--price-out", "10", "--budget", "0.000001"],
  ], environment);
  assertEquals(new Set(provider.calls.map(({ body }) => body.model)), new Set(["some-model"]));
  // Requests after the budget is spent never reach the provider.
  assertEquals(provider.calls.length, 3);
  assertMatch(
    logged.join("\n"),
    /^tare: change one setting of one section \(1\): solved, 3 calls, \$0\.0\d+$/,
  );
  assertMatch(stopped ?? "", /^Stopped: .* of the budget of \$0\.0000 are spent\./);
  assert(text.includes("some-model at"), text);
});

Deno.test("summarize() returns the cost of a solved task, including the unsolved ones' cost, with intervals", () => {
  const run = (solved: boolean, usd: number) => ({ solved, usd, calls: 2, promptTokens: 10 });
  const { runs, solved, share, usd, between, calls } = summarize([
    [run(true, 1), run(true, 1)],
    [run(false, 2), run(true, 2)],
    [run(true, 3), run(true, 3)],
  ]);
  assertEquals([runs, solved, usd, calls], [6, 5, 12 / 5, 12]);
  // Independently calculated: Wilson (1927) for 5 of 6.
  assertAlmostEquals(share[0], 0.4365, 0.001);
  assertAlmostEquals(share[1], 0.9699, 0.001);
  assertEquals([between[0] <= usd && between[0] >= 1, between[1] >= usd && between[1] <= 4], [true, true]);
});

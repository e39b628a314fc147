import { assertEquals } from "@std/assert";
import { completion, gatewayed } from "./fixture_test.ts";
import { inSlices } from "./turn.ts";

Deno.test("inSlices() lets others in between steps that take long, and gives what comes of them", async () => {
  const seen: string[] = [];
  function* steps(): Generator<void, number> {
    for (let step = 0; step < 3; step++) {
      const startMs = performance.now();
      while (performance.now() - startMs < 5) { /* Works. */ }
      seen.push("step");
      setTimeout(() => seen.push("other"));
      yield;
    }
    return 7;
  }
  assertEquals([await inSlices(steps()), seen], [7, ["step", "other", "step", "other", "step", "other"]]);
});

Deno.test("gateway() lets a short request overtake a history that takes long to read", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Fine." }));
  const post = (messages: readonly object[]) =>
    fetch(
      new Request("http://gateway.example/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", messages }),
      }),
    );
  const said = Array.from(
    { length: 3_000 },
    (_, at) => ({ role: "user", content: `${at} some words`.repeat(9) }),
  );
  const answers = await Promise.all([post(said), post([{ role: "user", content: "Short." }])]);
  assertEquals(answers.map(({ status }) => status), [200, 200]);
  assertEquals(seen.map(({ body }) => body.messages.length), [1, 3_000]);
});

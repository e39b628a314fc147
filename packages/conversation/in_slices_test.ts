import { assertEquals } from "@std/assert";
import { Conversation } from "@tare/conversation";

Deno.test("Conversation.inSlices() lets others in between steps that take long, and gives what comes of them", async () => {
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
  assertEquals([await Conversation.inSlices(steps()), seen], [7, [
    "step",
    "other",
    "step",
    "other",
    "step",
    "other",
  ]]);
});

import { assertEquals, assertRejects } from "@std/assert";
import { inTurn } from "./in_turn.ts";

Deno.test("inTurn() runs actions of one key in order, of others at once", async () => {
  const log: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = inTurn("a", async () => {
    log.push("first starts");
    await gate.promise;
    log.push("first ends");
    return 1;
  });
  const second = inTurn("a", () => Promise.resolve(log.push("second")));
  await inTurn("b", () => Promise.resolve(log.push("other key")));
  gate.resolve();
  assertEquals([await first, await second], [1, 4]);
  assertEquals(log, ["first starts", "other key", "first ends", "second"]);
});

Deno.test("inTurn() goes on after an action that failed", async () => {
  const failed = inTurn("a", () => Promise.reject(new Error("broken")));
  const next = inTurn("a", () => Promise.resolve("done"));
  await assertRejects(() => failed, Error, "broken");
  assertEquals(await next, "done");
});

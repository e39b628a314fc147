import { assertEquals, assertThrows } from "@std/assert";
import { SteeringQueue } from "./steering_queue.ts";

Deno.test("SteeringQueue gives each input once, and keeps it until it is an event", () => {
  const saved: unknown[] = [];
  const queue = new SteeringQueue((waiting) => saved.push(waiting));
  queue.add("a");
  queue.add("b");
  assertEquals([queue.take(), queue.take(), queue.waiting], [["a", "b"], [], ["a", "b"]]);
  queue.add("c");
  queue.shift();
  assertEquals([queue.take(), queue.waiting], [["c"], ["b", "c"]]);
  assertEquals(saved, [["a"], ["a", "b"], ["a", "b", "c"]]);
});

Deno.test("SteeringQueue doesn't accept what can't be stored", () => {
  const queue = new SteeringQueue(() => {
    throw new Error("full");
  });
  assertThrows(() => queue.add("a"), Error, "full");
  assertEquals([queue.take(), queue.waiting], [[], []]);
});

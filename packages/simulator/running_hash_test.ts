import { assert, assertEquals } from "@std/assert";
import { RunningHash } from "./running_hash.ts";

function hash(numbers: readonly number[]): number {
  const running = new RunningHash();
  for (const number of numbers) running.add(number);
  return running.value();
}

Deno.test("RunningHash tells sequences apart by their members, order and length", () => {
  const seen = new Set<number>([hash([]), hash([0]), hash([0, 0])]);
  for (let a = 0; a < 200; a++) {
    for (let b = 0; b < 200; b++) seen.add(hash([a, b, 1000 * a + b]));
  }
  assertEquals(seen.size, 3 + 200 * 200);
  assert([...seen].every((value) => Number.isSafeInteger(value) && value >= 0));
});

Deno.test("RunningHash.addText() adds code units", () => {
  const running = new RunningHash();
  running.addText("ab");
  assertEquals(running.value(), hash([97, 98]));
});

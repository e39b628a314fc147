import { assert, assertEquals } from "@std/assert";
import { Session } from "@tare/session/internal";

const seen: string[] = [];

function* steps(name: string): Generator<void, string> {
  for (let step = 0; step < 3; step++) {
    const startMs = performance.now();
    while (performance.now() - startMs < 5) { /* Works. */ }
    seen.push(name);
    setTimeout(() => seen.push("other"));
    yield;
  }
  return `all of ${name}`;
}

Deno.test("Session.inSlices() yields between long steps and returns their result", async () => {
  assertEquals(await Session.inSlices(steps("a")), "all of a");
  assertEquals(seen.splice(0), ["a", "other", "a", "other", "a", "other"]);
});

Deno.test("Session.inSlices() yields between any two slices of concurrent works", async () => {
  const works = ["a", "b", "c"].map((name) => Session.inSlices(steps(name)));
  assertEquals(await Promise.all(works), ["all of a", "all of b", "all of c"]);
  const begun = ["a", "b", "c", "other", "other", "other"];
  const round = ["a", "other", "b", "other", "c", "other"];
  assertEquals(seen.splice(0), [...begun, ...round, ...round]);
});

Deno.test("Session.inSlices() yields between consecutive short works", async () => {
  function* short(): Generator<void, void> {
    const startMs = performance.now();
    while (performance.now() - startMs < 2) { /* Works. */ }
    seen.push("short");
    yield;
  }
  setTimeout(() => seen.push("other"));
  for (let works = 0; works < 5; works++) await Session.inSlices(short());
  const at = seen.splice(0).indexOf("other");
  assert(at >= 0 && at < 5, `The other ran ${at < 0 ? "never" : `after ${at} slices`}`);
});

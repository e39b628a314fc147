import { assertEquals } from "@std/assert";
import { globMatcher } from "./glob_matcher.ts";

const paths = ["a.ts", "b.tsx", "src/a.ts", "src/deep/a.ts", "src/deep/b.md", "other/a.ts"];
const matching = (glob: string) => paths.filter(globMatcher(glob));

Deno.test("globMatcher() holds a glob without a slash against names in any folder", () => {
  assertEquals(matching("a.ts"), ["a.ts", "src/a.ts", "src/deep/a.ts", "other/a.ts"]);
  assertEquals(matching("*.{tsx,md}"), ["b.tsx", "src/deep/b.md"]);
  assertEquals(matching("[ab].ts?"), ["b.tsx"]);
});

Deno.test("globMatcher() holds a glob with a slash against the whole path", () => {
  assertEquals(matching("src/*.ts"), ["src/a.ts"]);
  assertEquals(matching("./src/*.ts"), ["src/a.ts"]);
  assertEquals(matching("src/**/*.ts"), ["src/a.ts", "src/deep/a.ts"]);
  assertEquals(matching("**/a.ts"), ["a.ts", "src/a.ts", "src/deep/a.ts", "other/a.ts"]);
  assertEquals(matching("{src,other}/a.ts"), ["src/a.ts", "other/a.ts"]);
});

Deno.test("globMatcher() takes time linear in the path", () => {
  // With a backtracking engine this would take longer than anybody waits.
  assertEquals(globMatcher(`${"*a".repeat(20)}b`)("a".repeat(250)), false);
});

import { assertEquals } from "@std/assert";
import { globToRegExp } from "@std/path";
import fc, { cases } from "../../../tests/cases.ts";
import { RE2JS } from "re2js";
import { globPattern } from "./walk.ts";

const parts = ["a", "b", ".", "-", "*", "**", "?", "[ab]", "[!a]", "[a-c]", "[[:alpha:]]", "[^b]", "{a,b*}"];
const open = ["[", "]", "{", "}", ",", "\\*", "\\", "/", "/", "(", "|", "+", "$", "^"];
const globs = fc.array(fc.constantFrom(...parts, ...open), { maxLength: 8 }).map((some) => some.join(""));
const paths = fc.array(fc.string({ unit: fc.constantFrom(..."abc.-*^]"), minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 4,
}).map((names) => names.join("/"));

Deno.test("globPattern() matches what the standard library's globs match", () => {
  fc.assert(
    fc.property(globs, fc.array(paths, { minLength: 20, maxLength: 20 }), (glob, paths) => {
      let standard: RegExp;
      try {
        standard = globToRegExp(glob, { extended: false, globstar: true, caseInsensitive: false });
      } catch {
        return;
      }
      // Sets that begin with a bracket or a backslash are something else there, or nothing that RE2 takes.
      if (/\[[!^]?[\]\\]/.test(glob)) return;
      // A brace that a slash leaves open goes on behind it there.
      if (/\{[^/]*\//.test(glob.replaceAll(/\{[^{}/]*\}/g, ""))) return;
      // A name of nothing behind any folders is any name there.
      if (/\*\*\/.*(?:\{[,}]|,[,}])/.test(glob)) return;
      const ours = RE2JS.compile(globPattern(glob));
      assertEquals(
        paths.filter((path) => ours.matches(path)),
        paths.filter((path) => standard.test(path)),
        globPattern(glob),
      );
    }),
    { numRuns: cases(3_000) },
  );
});

Deno.test("globPattern() takes what is left open as it stands", () => {
  const matches = (glob: string, path: string) => RE2JS.compile(globPattern(glob)).matches(path);
  for (const path of ["{a/b", "{a,b/c}", "[a/b]", "a\\/b", "a{b[c}"]) {
    assertEquals([path, matches(path, path), matches(path, "a/b")], [path, true, false]);
  }
});

Deno.test("globPattern() takes a bracket that stands first in a set for one of its characters", () => {
  const matches = (glob: string, path: string) => RE2JS.compile(globPattern(glob)).matches(path);
  assertEquals(["]", "a", "b"].map((path) => matches("[]a]", path)), [true, true, false]);
  assertEquals(matches("a[]", "a[]"), true);
  assertEquals(["a", "]", "^"].map((path) => matches("[\\^\\]]", path)), [false, true, true]);
});

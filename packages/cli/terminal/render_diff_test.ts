import { assertEquals } from "@std/assert";
import { changeInShort, renderDiff } from "./render_diff.ts";

const change = {
  ...{ path: "src/a.go", added: 1, removed: 1 },
  diff: "@@ -1,3 +1,3 @@\n \tone\n-two\u202e\x1b[2K\n+three ▌\r\n\\ No newline at end of file",
};

Deno.test("renderDiff() colors added and removed lines and escapes hidden characters", () => {
  assertEquals(renderDiff(change, { isColored: true }), [
    "\x1b[36m@@ -1,3 +1,3 @@\x1b[39m",
    " \tone",
    "\x1b[31m-two\\u{202e}\\x1b[2K\x1b[39m",
    "\x1b[32m+three \\u{258c}\\x0d\x1b[39m",
    "\\ No newline at end of file",
  ]);
  assertEquals(renderDiff(change)[2], "-two\\u{202e}\\x1b[2K");
  assertEquals(renderDiff({ ...change, diff: "+a", omitted: 7 }), [
    "+a",
    "… and 7 more lines, or cut lines",
  ]);
  assertEquals(renderDiff({ ...change, diff: "" }), []);
});

Deno.test("changeInShort() returns added and removed lines", () => {
  assertEquals(changeInShort(change), "src/a.go (+1 −1)");
  assertEquals(changeInShort({ ...change, added: 0, removed: 0 }), "src/a.go (unchanged)");
});

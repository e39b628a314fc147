import { assertEquals } from "@std/assert";
import { isRunner, staysInside } from "./programs.ts";

Deno.test("staysInside() holds for the programs that read files by names of their own", () => {
  const inside = [
    ...["awk", "diff", "fd", "file", "find", "git", "grep", "jq"],
    ...["rg", "sed", "shuf", "sort", "tar", "tree", "uniq"],
  ];
  assertEquals(inside.filter((program) => !staysInside(program)), []);
  assertEquals(inside.filter((program) => !staysInside(`/usr/bin/${program}`)), []);
  assertEquals(["ls", "cat", "wc", "constructor", "", "unknown"].filter(staysInside), []);
});

Deno.test("isRunner() knows programs that run what their words name, wherever they are", () => {
  assertEquals(["env", "xargs", "/usr/bin/sudo", "sh"].map(isRunner), [true, true, true, true]);
  assertEquals(["ls", "git", "envy", ""].map(isRunner), [false, false, false, false]);
});

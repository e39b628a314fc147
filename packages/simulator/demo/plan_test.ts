import { assertEquals } from "@std/assert";
import { cleanPath, LIST_WORKSPACE, pathOf, withNoun } from "./plan.ts";

Deno.test("cleanPath() and pathOf() normalize paths", () => {
  assertEquals(["./a/b/", "a", "././a", "./", "", "../a"].map(cleanPath), [
    "a/b",
    "a",
    "a",
    ".",
    ".",
    "../a",
  ]);
  assertEquals([{ path: "./a/" }, {}, { path: 5 }].map((args) => pathOf({ tool: "f", args })), [
    "a",
    ".",
    ".",
  ]);
});

Deno.test("LIST_WORKSPACE recognizes its own call", () => {
  const made = { text: "", seen: "none" } as const;
  const lists = [{}, { path: "." }, { path: "src" }].map((args) => ({ tool: "list_files", args, ...made }));
  assertEquals(lists.map(LIST_WORKSPACE.made), [true, true, false]);
});

Deno.test("withNoun() returns singular and plural forms", () => {
  assertEquals([0, 1, 2].map((number) => withNoun(number, "file")), ["0 files", "1 file", "2 files"]);
});

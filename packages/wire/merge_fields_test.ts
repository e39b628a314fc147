import { assertEquals } from "@std/assert";
import { mergeFields } from "./merge_fields.ts";

Deno.test("mergeFields() joins texts, appends lists, merges objects, and null adds nothing", () => {
  const before = { text: "a", list: [1], object: { x: "1" }, kept: 1, set: null };
  assertEquals(
    mergeFields(before, { text: "b", list: [2], object: { x: "2" }, kept: null, set: true, none: null }),
    {
      text: "ab",
      list: [1, 2],
      object: { x: "12" },
      kept: 1,
      set: true,
      none: null,
    },
  );
});

import { assertEquals } from "@std/assert";
import { fittingRows } from "./fitting_rows.ts";
import { MAX_RESULT_BYTES } from "./limits.ts";

Deno.test("fittingRows() keeps the rows that fit, by number and by bytes", () => {
  assertEquals(fittingRows([], 5), []);
  assertEquals(fittingRows(["a", "b", "c"], 2), ["a", "b"]);
  assertEquals(fittingRows(["a", "b"], 2), ["a", "b"]);
  const half = "é".repeat(MAX_RESULT_BYTES / 4);
  assertEquals(fittingRows([half, "a", half], 9), [half, "a"]);
  assertEquals(fittingRows([half + half], 9), []);
});

import { fromStoredJson, toStoredJson } from "./database.ts";
import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../../../tests/cases.ts";
import { StoreError } from "@tare/session";
import { codePoints } from "../../../../tests/code_points.ts";

Deno.test("fromStoredJson() is the inverse of toStoredJson(), including lone surrogates", () => {
  const values = fc.jsonValue({ stringUnit: codePoints() });
  fc.assert(
    fc.property(values, (value) => {
      assertEquals(fromStoredJson(toStoredJson(value), "f"), JSON.parse(JSON.stringify(value)));
    }),
    { examples: [["\ud83d"], ["\0"], [null], [""]] },
  );
});

Deno.test("fromStoredJson() refuses altered bytes", () => {
  const stored = toStoredJson({ text: "a sum of 10" });
  const error = assertThrows(
    () => fromStoredJson(stored.replace("of 10", "of 90"), "/x/tare.db"),
    StoreError,
    "Cannot read the store /x/tare.db: a record is damaged, its checksum doesn't match.",
  );
  assertEquals(error.code, "corrupt");
});

Deno.test("toStoredJson() refuses values that JSON can't represent", () => {
  assertThrows(() => toStoredJson(undefined), TypeError, "Cannot store a value of type undefined");
});

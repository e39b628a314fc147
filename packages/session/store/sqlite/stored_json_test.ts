import { fromStoredJson, toStoredJson } from "./database.ts";
import { assertEquals, assertThrows } from "@std/assert";
import fc from "../../../../tests/cases.ts";
import { StoreError } from "@tare/session";
import { codePoints } from "../../../../tests/code_points.ts";

Deno.test("fromStoredJson() gives back what toStoredJson() took, lone surrogates too", () => {
  const values = fc.jsonValue({ stringUnit: codePoints() });
  fc.assert(
    fc.property(values, (value) => {
      assertEquals(fromStoredJson(toStoredJson(value), "f"), JSON.parse(JSON.stringify(value)));
    }),
    { examples: [["\ud83d"], ["\0"], [null], [""]] },
  );
});

Deno.test("fromStoredJson() refuses other bytes than were written", () => {
  const stored = toStoredJson({ text: "a sum of 10" });
  const error = assertThrows(
    () => fromStoredJson(stored.replace("of 10", "of 90"), "/x/tare.db"),
    StoreError,
    "Cannot read the store /x/tare.db: a record is damaged, its checksum doesn't match.",
  );
  assertEquals(error.code, "corrupt");
});

Deno.test("toStoredJson() refuses what is no JSON", () => {
  assertThrows(() => toStoredJson(undefined), TypeError, "Cannot store a value of type undefined");
});

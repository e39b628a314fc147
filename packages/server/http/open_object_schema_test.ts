import { assertEquals } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import { openObjectSchema } from "./open_object_schema.ts";

Deno.test("openObjectSchema() checks the properties that it names and ignores others", () => {
  const faults = schemaChecker(openObjectSchema({ a: { type: "string" } }, { b: { type: "number" } }));
  assertEquals(faults({ a: "", c: 1 }), undefined);
  assertEquals(faults({ b: "" }), "the value must have required property 'a'; b must be number");
});

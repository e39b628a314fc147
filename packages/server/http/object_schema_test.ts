import { assertEquals } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import { objectSchema } from "./object_schema.ts";

Deno.test("objectSchema() takes what is required, what is optional, and nothing else", () => {
  const faults = schemaChecker(objectSchema({ a: { type: "string" } }, { b: { type: "number" } }));
  assertEquals(faults({ a: "" }), undefined);
  assertEquals(faults({ a: "", b: 1 }), undefined);
  assertEquals(faults({ b: 1 }), "the value must have required property 'a'");
  assertEquals(faults({ a: "", c: 1 }), "the value must NOT have additional properties ('c')");
});

import { assertEquals } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";
import { taggedSchema } from "./tagged_schema.ts";

Deno.test("taggedSchema() says what is wrong with the kind at hand alone", () => {
  const faults = schemaChecker(taggedSchema("type", { a: { required: ["x"] }, b: { required: ["y"] } }));
  assertEquals([faults({ type: "a", x: 1 }), faults({ type: "b", y: 1 })], [undefined, undefined]);
  assertEquals(faults({ type: "a", y: 1 }), "the value must have required property 'x'");
  assertEquals(faults({ type: "c" }), 'type must be equal to one of the allowed values (["a","b"])');
  assertEquals(
    schemaChecker(taggedSchema("type", { a: {} }))({}),
    "the value must have required property 'type'",
  );
});

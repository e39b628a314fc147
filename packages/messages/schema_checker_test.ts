import { assertEquals, assertThrows } from "@std/assert";
import { schemaChecker } from "@tare/messages/arguments";

Deno.test("schemaChecker() names every fault once, with its place", () => {
  const faults = schemaChecker({
    type: "object",
    properties: {
      name: {},
      items: {
        type: "array",
        items: {
          properties: { type: { enum: ["text"] } },
          if: { properties: { type: { const: "text" } } },
          then: { required: ["text"] },
        },
      },
    },
    required: ["name"],
    additionalProperties: false,
  }, "the body");
  assertEquals(faults({ name: 1, items: [{ type: "text", text: "" }] }), undefined);
  assertEquals(
    faults({ items: [{ type: "text" }, { type: "film" }], more: 1 }),
    "the body must have required property 'name'; the body must NOT have additional properties ('more'); " +
      "items.0 must have required property 'text'; items.1.type must be equal to one of the allowed values " +
      '(["text"])',
  );
  assertEquals(faults(3), "the body must be object");
});

Deno.test("schemaChecker() lets two schemas share an id, ignores $schema and refuses what is no schema", () => {
  const schema = { $id: "https://example.org/x", $schema: "http://json-schema.org/draft-07/schema#" };
  assertEquals([schemaChecker(schema)(1), schemaChecker(schema)(2)], [undefined, undefined]);
  assertThrows(() => schemaChecker({ type: "strin" }), Error, "type");
});

Deno.test("schemaChecker() names the first fault alone of a value with more than 10,000 members", () => {
  const faults = schemaChecker({ type: "array", items: { type: "string" } });
  assertEquals(faults(Array(10_001).fill(1)), "0 must be string");
  assertEquals(faults([1, 2]), "0 must be string; 1 must be string");
  assertEquals(faults([[Array(10_000).fill("")], 1]), "0 must be string");
});

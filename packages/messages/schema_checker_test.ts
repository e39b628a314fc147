import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
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
    "the body must have required property 'name'; the body must not have 'more' (it takes name, items); " +
      "items.0 must have required property 'text'; items.1.type must be \"text\"",
  );
  assertEquals(faults(3), "the body must be object");
});

Deno.test("schemaChecker() lets two schemas share an id, ignores $schema and refuses what is no schema", () => {
  const schema = { $id: "https://example.org/x", $schema: "http://json-schema.org/draft-07/schema#" };
  assertEquals([schemaChecker(schema)(1), schemaChecker(schema)(2)], [undefined, undefined]);
  assertThrows(() => schemaChecker({ type: "strin" }), Error, "type");
});

Deno.test("schemaChecker() says in plain words what would be right", () => {
  const told = (schema: Record<string, unknown>, value: unknown) => schemaChecker(schema)(value);
  for (
    const [schema, value, says] of [
      [{ type: ["string", "array", "null"] }, 1, "must be string, array or null"],
      [{ enum: ["a", 1, null] }, 2, 'must be "a", 1 or null'],
      [{ const: true }, false, "must be true"],
      [{ minItems: 1 }, [], "must not be empty"],
      [{ minLength: 3 }, "ab", "must have at least 3 characters"],
      [{ maxItems: 1 }, [1, 2], "must have at most 1 items"],
      [{ maxProperties: 0 }, { a: 1 }, "must have at most 0 properties"],
      [{ uniqueItems: true }, [1, 2, 1], "must not have the same item twice (items 0 and 2 are the same)"],
      [{ not: { required: ["a", "b"] } }, { a: 1, b: 1 }, "must not have 'a' and 'b' together"],
      [{ not: { const: 1 } }, 1, 'must not fit {"const":1}'],
      [{ additionalProperties: false }, { a: 1 }, "must not have 'a'"],
      [{ unevaluatedProperties: false }, { a: 1 }, "must not have 'a'"],
      [{ propertyNames: { pattern: "^b" } }, { a: 1 }, "must not have a property named 'a'"],
      [{ minimum: 2 }, 1, "must be >= 2"],
    ] as const
  ) assertStringIncludes(told(schema, value) ?? "", `the value ${says}`);
  assertEquals(told({ properties: { a: false } }, { a: 1 }), "a must not be there");
});

Deno.test("schemaChecker() says of a choice what is wrong with the schema that fits best", () => {
  const told = (schema: Record<string, unknown>, value: unknown) => schemaChecker(schema)(value);
  const names = { anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  assertEquals(told(names, {}), "the value must have 'a' or 'b'");
  assertEquals(
    told({ oneOf: names.anyOf }, { a: 1, b: 1 }),
    "the value must not have 'a' and 'b' together",
  );
  const list = { type: "array", items: { type: "string" } };
  assertEquals(
    told({ anyOf: [{ type: "string" }, list, { type: "null" }] }, 1),
    "the value must be string, array or null",
  );
  assertEquals(told({ anyOf: [{ type: "string" }, list] }, ["a", 1]), "1 must be string");
  const kind = (type: string, field: string) => ({
    properties: { type: { const: type }, [field]: { type: "string" } },
    required: ["type", field],
  });
  const kinds = { oneOf: [kind("x", "a"), kind("y", "b")] };
  assertEquals(told({ items: kinds }, [{ type: "y", a: 1 }]), "0 must have required property 'b'");
  assertEquals(
    told({ items: { anyOf: [kinds, { type: "null" }] } }, [{ type: "x", a: 1 }]),
    "0.a must be string",
  );
  assertEquals(
    told({ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3),
    "the value must fit exactly one of its kinds",
  );
});

Deno.test("schemaChecker() tells only so many faults", () => {
  const faults = schemaChecker({ items: { type: "string" } })(
    Array.from({ length: 1000 }, (_, index) => index),
  );
  assertEquals([faults?.split("; ").length, faults?.endsWith("19 must be string; and 980 more")], [21, true]);
});

Deno.test("schemaChecker() names the first fault alone of a value with more than 10,000 members", () => {
  const faults = schemaChecker({ type: "array", items: { type: "string" } });
  assertEquals(faults(Array(10_001).fill(1)), "0 must be string");
  assertEquals(faults([1, 2]), "0 must be string; 1 must be string");
  assertEquals(faults([[Array(10_000).fill("")], 1]), "0 must be string");
});

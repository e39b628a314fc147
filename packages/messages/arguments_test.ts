import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { argumentsParser, schemaChecker } from "@tare/messages/arguments";
import type { JsonSchema, ToolDefinition } from "@tare/messages";

function tool(parameters?: JsonSchema): ToolDefinition {
  return {
    type: "function",
    function: { name: "f", description: "Does f.", ...(parameters && { parameters }) },
  };
}

const schema: JsonSchema = {
  $schema: "http://json-schema.org/draft-07/schema#",
  type: "object",
  properties: { path: { type: "string", description: "A path." }, mode: { enum: ["a", "b"] } },
  required: ["path"],
  additionalProperties: false,
};

Deno.test("argumentsParser() hands valid arguments over, and {} for an empty text", () => {
  assertEquals(argumentsParser(tool(schema))('{"path":"x","mode":"a"}'), {
    ok: true,
    value: { path: "x", mode: "a" },
  });
  assertEquals(argumentsParser(tool())(""), { ok: true, value: {} });
});

Deno.test("argumentsParser() names every fault and teaches the full definition", () => {
  const parse = argumentsParser(tool(schema));
  for (
    const [text, fault] of [
      ['{"mode":"a"}', "the arguments must have required property 'path'"],
      ['{"path":"x","mode":"c"}', 'mode must be "a" or "b"'],
      ['{"path":"x","extra":1}', "must not have 'extra' (it takes path, mode)"],
      ['{"path":1}', "path must be string"],
      ['{"path":', "not valid JSON"],
      ["[1]", "not a JSON object"],
      ["null", "not a JSON object"],
    ] as const
  ) {
    const parsed = parse(text);
    assertEquals(parsed.ok, false);
    if (parsed.ok) continue;
    assertStringIncludes(parsed.problem, fault);
    assertStringIncludes(parsed.problem, JSON.stringify(tool(schema).function));
  }
});

Deno.test("argumentsParser() refuses a tool whose parameters are no schema, naming the tool", () => {
  assertThrows(() => argumentsParser(tool({ type: "strin" })), TypeError, "Cannot use tool f");
});

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
      [{ exclusiveMaximum: 2 }, 2, "must be < 2"],
      [{ multipleOf: 2 }, 3, "must be multiple of 2"],
      [{ pattern: "^a" }, "b", 'must match pattern "^a"'],
      [{ contains: { type: "string" } }, [1], 'must have at least 1 items that fit {"type":"string"}'],
      [{ contains: {}, maxContains: 1 }, [1, 2], "must have at least 1 and at most 1 items that fit {}"],
      [{ prefixItems: [{}], unevaluatedItems: false }, [1, 2], "must not have item 1"],
      [{ dependentRequired: { a: ["b", "c"] } }, { a: 1 }, "must have 'b' and 'c' where it has 'a'"],
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

Deno.test("schemaChecker() collects only so many faults of a value, however large it is", () => {
  const faults = schemaChecker({ type: "array", items: { type: "string" } });
  assertEquals(faults(Array(100_000).fill(1))?.endsWith("19 must be string; and 980 more"), true);
  assertEquals(faults([1, 2]), "0 must be string; 1 must be string");
  const unique = schemaChecker({ uniqueItems: true })(Array(1_000_000).fill(1));
  assertEquals(unique, "the value must not have the same item twice (items 0 and 1 are the same)");
});

Deno.test("schemaChecker() tells the faults of each item's own choice", () => {
  const either = { anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  const faults = schemaChecker({ items: { ...either, properties: { a: { type: "string" } } } });
  assertEquals(faults([{}, {}]), "0 must have 'a' or 'b'; 1 must have 'a' or 'b'");
  const nested = schemaChecker({ items: { anyOf: [{ properties: { a: { type: "string" } } }, false] } });
  assertEquals(nested([{ a: 1 }, { a: 2 }]), "0.a must be string; 1.a must be string");
});

Deno.test("schemaChecker() follows references: to themselves, by name, and to any schema", () => {
  const tree = schemaChecker({
    $ref: "#/$defs/node",
    $defs: {
      node: {
        type: "object",
        properties: { name: { $ref: "#text" }, inside: { type: "array", items: { $ref: "#/$defs/node" } } },
        required: ["name"],
        additionalProperties: false,
      },
      text: { $anchor: "text", type: "string", minLength: 1 },
    },
  });
  assertEquals(tree({ name: "a", inside: [{ name: "b" }] }), undefined);
  assertEquals(
    tree({ name: "a", inside: [{ name: "", inside: [{ more: 1 }] }] }),
    "inside.0.name must not be empty; inside.0.inside.0 must have required property 'name'; " +
      "inside.0.inside.0 must not have 'more' (it takes name, inside)",
  );
  const schema = schemaChecker({
    properties: { of: { $ref: "https://json-schema.org/draft/2020-12/schema" } },
  });
  assertEquals([schema({ of: { type: "string" } }), schema({ of: 1 })], [
    undefined,
    "of must be object or boolean",
  ]);
  assertThrows(
    () => schemaChecker({ $ref: "#/$defs/none" }),
    Error,
    "it refers to #/$defs/none, which isn't there",
  );
  const dynamic = schemaChecker({
    $dynamicAnchor: "list",
    properties: { next: { $dynamicRef: "#list" }, last: { $ref: "#/$defs/n" } },
    $defs: { n: { type: "number" } },
  });
  assertEquals([dynamic({ next: { last: 1 } }), dynamic({ next: { last: "" } })], [
    undefined,
    "next.last must be number",
  ]);
});

Deno.test("schemaChecker() says where a schema is none, and takes the forms of earlier drafts", () => {
  for (
    const [schema, fault] of [
      [{ properties: { a: { type: "text" } } }, "properties.a.type must be"],
      [{ properties: { a: "string" } }, "properties.a must be object or boolean"],
      [{ anyOf: [{ pattern: "[" }] }, "anyOf.0.pattern must be a valid regex"],
      [{ patternProperties: { "[": {} } }, "patternProperties must not have a property named '['"],
      [{ required: "a" }, "required must be array"],
    ] as const
  ) assertThrows(() => schemaChecker(schema), Error, `Cannot use the schema: ${fault}`);
  const earlier = schemaChecker({
    items: [{ type: "string" }],
    additionalItems: false,
    dependencies: { a: ["b"], c: { required: ["d"] } },
  });
  assertEquals([earlier([""]), earlier([1]), earlier(["", 1])], [
    undefined,
    "0 must be string",
    "1 must not be there",
  ]);
  assertEquals(
    earlier({ a: 1, c: 1 }),
    "the value must have 'b' where it has 'a'; the value must have required property 'd'",
  );
});

Deno.test("schemaChecker() takes nothing of a schema for code, nor of a value for a prototype", () => {
  const schema = JSON.parse(
    '{"__proto__": {"type": "string"}, "properties": {"__proto__": {"type": "number"}}}',
  );
  const faults = schemaChecker(schema);
  assertEquals(faults(JSON.parse('{"__proto__": 1}')), undefined);
  assertEquals(faults(JSON.parse('{"__proto__": ""}')), "__proto__ must be number");
  const inherited = schemaChecker({
    properties: { toString: { type: "string" } },
    required: ["constructor"],
  });
  assertEquals(inherited({}), "the value must have required property 'constructor'");
  assertEquals(
    inherited({ constructor: 1, toString: 1 }),
    "toString must be string",
  );
});

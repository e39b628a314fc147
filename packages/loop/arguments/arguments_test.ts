import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { argumentsParser } from "@tare/loop/arguments";
import { schemaChecker } from "@tare/loop/internal";
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

Deno.test("argumentsParser() returns valid arguments, and {} for an empty text", () => {
  assertEquals(argumentsParser(tool(schema))('{"path":"x","mode":"a"}'), {
    ok: true,
    value: { path: "x", mode: "a" },
  });
  assertEquals(argumentsParser(tool())(""), { ok: true, value: {} });
});

Deno.test("argumentsParser() reports every fault and the full definition", () => {
  const parse = argumentsParser(tool(schema));
  for (
    const [text, fault] of [
      ['{"mode":"a"}', "the arguments must have required property 'path'"],
      ['{"path":"x","mode":"c"}', 'mode must be "a" or "b"'],
      ['{"path":"x","extra":1}', "must not have 'extra' (allowed: path, mode)"],
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

Deno.test("argumentsParser() rejects a tool whose parameters are no schema, with the tool's name", () => {
  assertThrows(() => argumentsParser(tool({ type: "strin" })), TypeError, "Cannot use tool f");
});

Deno.test("schemaChecker() reports every fault once, with its path", () => {
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
    "the body must have required property 'name'; the body must not have 'more' (allowed: name, items); " +
      "items.0 must have required property 'text'; items.1.type must be \"text\"",
  );
  assertEquals(faults(3), "the body must be object");
});

Deno.test("schemaChecker() lets two schemas share an id, ignores $schema and rejects invalid schemas", () => {
  const schema = { $id: "https://example.org/x", $schema: "http://json-schema.org/draft-07/schema#" };
  assertEquals([schemaChecker(schema)(1), schemaChecker(schema)(2)], [undefined, undefined]);
  assertThrows(() => schemaChecker({ type: "strin" }), Error, "type");
});

Deno.test("schemaChecker() describes valid values in plain words", () => {
  const faultOf = (schema: Record<string, unknown>, value: unknown) => schemaChecker(schema)(value);
  for (
    const [schema, value, expected] of [
      [{ type: ["string", "array", "null"] }, 1, "must be string, array or null"],
      [{ enum: ["a", 1, null] }, 2, 'must be "a", 1 or null'],
      [{ const: true }, false, "must be true"],
      [{ minItems: 1 }, [], "must not be empty"],
      [{ minLength: 3 }, "ab", "must not have fewer than 3 characters"],
      [{ maxItems: 1 }, [1, 2], "must not have more than 1 items"],
      [{ maxProperties: 0 }, { a: 1 }, "must not have more than 0 properties"],
      [{ uniqueItems: true }, [1, 2, 1], "must not have the same item twice"],
      [{ not: { required: ["a", "b"] } }, { a: 1, b: 1 }, "must not have 'a' and 'b' together"],
      [{ not: { const: 1 } }, 1, "must not be valid"],
      [{ additionalProperties: false }, { a: 1 }, "must not have 'a'"],
      [{ unevaluatedProperties: false }, { a: 1 }, "must not have unevaluated properties"],
      [{ propertyNames: { pattern: "^b" } }, { a: 1 }, "property names a are invalid"],
      [{ minimum: 2 }, 1, "must be >= 2"],
      [{ exclusiveMaximum: 2 }, 2, "must be < 2"],
      [{ multipleOf: 2 }, 3, "must be multiple of 2"],
      [{ pattern: "^a" }, "b", 'must match pattern "^a"'],
      [{ contains: { type: "string" } }, [1], "must contain at least 1 valid item"],
      [{ prefixItems: [{}], unevaluatedItems: false }, [1, 2], "must not have unevaluated items"],
      [
        { dependentRequired: { a: ["b", "c"] } },
        { a: 1 },
        "must have properties b, c when property a is present",
      ],
    ] as const
  ) assertStringIncludes(faultOf(schema, value) ?? "", expected);
  assertEquals(faultOf({ properties: { a: false } }, { a: 1 }), "a schema is false");
});

Deno.test("schemaChecker() reports the faults of the best-fitting branch of a choice", () => {
  const faultOf = (schema: Record<string, unknown>, value: unknown) => schemaChecker(schema)(value);
  const names = { anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  assertEquals(faultOf(names, {}), "the value must have 'a' or 'b'");
  assertEquals(
    faultOf({ oneOf: names.anyOf }, { a: 1, b: 1 }),
    "the value must not have 'a' and 'b' together",
  );
  const list = { type: "array", items: { type: "string" } };
  assertEquals(
    faultOf({ anyOf: [{ type: "string" }, list, { type: "null" }] }, 1),
    "the value must be string, array or null",
  );
  assertEquals(faultOf({ anyOf: [{ type: "string" }, list] }, ["a", 1]), "1 must be string");
  const kind = (type: string, field: string) => ({
    properties: { type: { const: type }, [field]: { type: "string" } },
    required: ["type", field],
  });
  const kinds = { oneOf: [kind("x", "a"), kind("y", "b")] };
  assertEquals(faultOf({ items: kinds }, [{ type: "y", a: 1 }]), "0 must have required property 'b'");
  assertEquals(
    faultOf({ items: { anyOf: [kinds, { type: "null" }] } }, [{ type: "x", a: 1 }]),
    "0.a must be string",
  );
  assertEquals(
    faultOf({ oneOf: [{ minimum: 1 }, { minimum: 2 }] }, 3),
    "the value must match exactly one schema in oneOf",
  );
});

Deno.test("schemaChecker() limits the number of reported faults", () => {
  const faults = schemaChecker({ items: { type: "string" } })(
    Array.from({ length: 1000 }, (_, index) => index),
  );
  assertEquals([faults?.split("; ").length, faults?.endsWith("19 must be string; and 980 more")], [21, true]);
});

Deno.test("schemaChecker() limits the number of collected faults, however large the value is", () => {
  const faults = schemaChecker({ type: "array", items: { type: "string" } });
  assertEquals(faults(Array(50_000).fill(1))?.endsWith("19 must be string; and 980 more"), true);
  assertEquals(faults([1, 2]), "0 must be string; 1 must be string");
  const unique = schemaChecker({ uniqueItems: true })(Array(150_000).fill(1));
  assertEquals(unique, "the value must not have the same item twice");
});

Deno.test("schemaChecker() reports the faults of each item's own choice", () => {
  const either = { anyOf: [{ required: ["a"] }, { required: ["b"] }] };
  const faults = schemaChecker({ items: { ...either, properties: { a: { type: "string" } } } });
  assertEquals(faults([{}, {}]), "0 must have 'a' or 'b'; 1 must have 'a' or 'b'");
  const nested = schemaChecker({ items: { anyOf: [{ properties: { a: { type: "string" } } }, false] } });
  assertEquals(nested([{ a: 1 }, { a: 2 }]), "0.a must be string; 1.a must be string");
});

Deno.test("schemaChecker() resolves references: recursive ones, by name, and to any schema", () => {
  const tree = schemaChecker({
    $ref: "#/$defs/node",
    $defs: {
      node: {
        type: "object",
        properties: {
          name: { $ref: "#/$defs/text" },
          inside: { type: "array", items: { $ref: "#/$defs/node" } },
        },
        required: ["name"],
        additionalProperties: false,
      },
      text: { type: "string", minLength: 1 },
    },
  });
  assertEquals(tree({ name: "a", inside: [{ name: "b" }] }), undefined);
  assertEquals(
    tree({ name: "", inside: [{ more: 1, inside: [{ more: 1 }] }] }),
    "name must not be empty; inside.0 must have required property 'name'; " +
      "inside.0 must not have 'more' (allowed: name, inside)",
  );
  const schema = schemaChecker({
    properties: { of: { $ref: "https://json-schema.org/draft/2020-12/schema" } },
  });
  assertEquals(schema({ of: { type: "string" } }), undefined);
  assertThrows(
    () => schemaChecker({ $ref: "#/$defs/none" }),
    Error,
    "its reference #/$defs/none has no target",
  );
  assertThrows(
    () => schemaChecker({ $ref: "other.json" }),
    Error,
    "its reference other.json has no target",
  );
});

Deno.test("schemaChecker() reports where a schema is invalid, and accepts the forms of earlier drafts", () => {
  for (
    const [schema, fault] of [
      [{ properties: { a: { type: "text" } } }, "properties.a.type must be"],
      [{ properties: { a: "string" } }, "properties.a must be object or boolean"],
      [{ anyOf: [{ pattern: "[" }] }, 'anyOf.0.pattern is "[", and patterns must take linear time'],
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
    "1 schema is false",
  ]);
  assertEquals(
    earlier({ a: 1, c: 1 }),
    "the value must have properties b when property a is present; the value must have required property 'd'",
  );
});

Deno.test("schemaChecker() ignores other values than names in required", () => {
  const faults = schemaChecker({ type: "object", required: ["a", 1] } as JsonSchema);
  assertEquals([faults({ a: 1 }), faults({})], [undefined, "the value must have required property 'a'"]);
});

Deno.test("schemaChecker() doesn't execute schemas, and ignores the prototypes of values", () => {
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

Deno.test("schemaChecker() checks patterns in linear time, and rejects others", () => {
  const text = `${"a".repeat(34)}!`;
  const slow = { pattern: "^(a+)+$" };
  assertEquals(schemaChecker(slow)(text), 'the value must match pattern "^(a+)+$"');
  assertEquals(
    schemaChecker({ propertyNames: slow })({ [text]: 1 }),
    `the value property names ${text} are invalid`,
  );
  const named = schemaChecker({
    patternProperties: { "^(a+)+$": { type: "number" }, "^.*$": { minimum: 2 } },
    properties: { known: { type: "number" } },
    additionalProperties: false,
  });
  assertEquals(named({ aaa: "", known: 1, [text]: 4 }), undefined);
  assertEquals(named({ known: "" }), "known must be number");
  assertEquals(schemaChecker({ patternProperties: { "(a)\\1": { type: "number" } } })({ aa: 1 }), undefined);
  for (
    const pattern of ["^(?=a)", "(?<!a)b", "(a)\\1", "^a{1,2000}$", "((a{0,1000}){0,1000})"]
  ) {
    assertThrows(
      () => schemaChecker({ properties: { a: { pattern } } }),
      Error,
      `Cannot use the schema: properties.a.pattern is ${JSON.stringify(pattern)}, and patterns must ` +
        "take linear time: no lookaround, no backreferences, no counts over 1000",
    );
  }
  const large = { anyOf: Array.from({ length: 30 }, (_, at) => ({ pattern: `^a{${970 + at}}$` })) };
  assertThrows(() => schemaChecker(large), Error, "together they have more than 20000 instructions");
  const long = schemaChecker({ pattern: "^(a?){500}(b?){500}$" });
  assertEquals(
    long("ab".repeat(500_000)),
    "the value is too large for its schema (1 values, 1000000 characters)",
  );
});

Deno.test("schemaChecker() terminates for schemas that reference themselves in the same place", () => {
  const circles: JsonSchema[] = [
    { $ref: "#" },
    { allOf: [{ $ref: "#" }] },
    {
      $ref: "#/$defs/a",
      $defs: { a: { anyOf: [{ $ref: "#/$defs/b" }] }, b: { allOf: [{ $ref: "#/$defs/a" }] } },
    },
    { properties: { a: { $ref: "#/properties/a" } } },
    { dependentSchemas: { a: { $ref: "#" } } },
  ];
  for (const schema of circles) assertEquals(schemaChecker(schema)({ a: 1 }), undefined);
});

Deno.test("schemaChecker() and argumentsParser() limit depth and work for any schema and value", () => {
  const nested = (times: number, [open, close]: readonly [string, string], inner: string) =>
    JSON.parse(open.repeat(times) + inner + close.repeat(times));
  const inside = ['{"not":', "}"] as const;
  assertEquals(schemaChecker(nested(100, inside, "{}"))(1), undefined);
  for (const times of [201, 5_000, 500_000]) {
    assertThrows(
      () => schemaChecker(nested(times, inside, "{}")),
      Error,
      "Cannot use the schema: it is nested more than 200 levels deep",
    );
  }
  assertThrows(
    () =>
      schemaChecker({
        properties: Object.fromEntries(Array.from({ length: 10_000 }, (_, at) => [`a${at}`, {}])),
      }),
    Error,
    "Cannot use the schema: it holds more than 5000 schemas once its references are resolved",
  );
  const deep = schemaChecker({});
  assertEquals(deep(nested(200, ["[", "]"], "1")), undefined);
  assertEquals(
    deep(nested(500_000, ["[", "]"], "1")),
    "the value must not be nested more than 200 levels deep",
  );
  const parse = argumentsParser(tool({ type: "object" }));
  const parsed = parse(`{"a":${"[".repeat(500_000)}${"]".repeat(500_000)}}`);
  assertEquals(parsed.ok, false);
  if (!parsed.ok) {
    assertStringIncludes(parsed.problem, "the arguments must not be nested more than 200 levels deep");
  }

  const twice = (at: number) => ({ allOf: [{ $ref: `#/$defs/a${at + 1}` }, { $ref: `#/$defs/a${at + 1}` }] });
  const doubling = Object.fromEntries(Array.from({ length: 40 }, (_, at) => [`a${at}`, twice(at)]));
  assertThrows(
    () => schemaChecker({ $ref: "#/$defs/a0", $defs: { ...doubling, a40: {} } }),
    Error,
    "Cannot use the schema: it holds more than 5000 schemas once its references are resolved",
  );
  const node = { properties: { x: { $ref: "#" } } };
  for (const key of ["allOf", "anyOf", "oneOf"]) {
    const recursive = schemaChecker({ [key]: [node, { ...node }], type: "object" });
    recursive(nested(30, ['{"x":', "}"], "{}"));
    assertStringIncludes(recursive({ x: 1 }) ?? "", "x must be object");
  }
  const wide = Array.from({ length: 20_000 }, (_, at) => at);
  const many = (one: JsonSchema) => Array.from({ length: 1_500 }, () => ({ ...one }));
  for (const one of [{ contains: true, minContains: 3e4 }, { uniqueItems: true }, { items: false }]) {
    assertStringIncludes(
      schemaChecker({ oneOf: many(one) })(wide) ?? "",
      "is too large for its schema",
    );
  }
  const long = Array(300_000).fill(1);
  assertStringIncludes(
    schemaChecker({ items: { type: "number" } })(long) ?? "",
    "(300001 values, 0 characters)",
  );
  assertEquals(schemaChecker({ items: { type: "number" } }, "it", { trusted: true })(long), undefined);
  assertEquals(schemaChecker({ items: { type: "number" } })(wide), undefined);
  const lists = schemaChecker({
    $ref: "#/$defs/l",
    $defs: { l: { uniqueItems: true, items: { $ref: "#/$defs/l" } } },
  });
  assertEquals(lists([[1, 2], [2, 1], ["1"], [null], ["null"], [[0], ["0"]]]), undefined);
});

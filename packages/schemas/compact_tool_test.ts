import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import fc from "../../tests/cases.ts";
import type { JsonSchema, ToolDefinition } from "@tare/messages";
import { argumentsParser } from "@tare/loop/arguments";
import { compactTool } from "@tare/schemas";

function tool(parameters: JsonSchema): ToolDefinition {
  return { type: "function", function: { name: "f", description: "Does f.", parameters } };
}

function compacted(parameters: JsonSchema): JsonSchema | undefined {
  return compactTool(tool(parameters)).function.parameters;
}

Deno.test("compactTool() retains names, types, required and enum, and drops prose and finer constraints", () => {
  assertEquals(
    compacted({
      $schema: "https://json-schema.org/draft/2020-12/schema",
      $comment: "c",
      title: "F",
      description: "Arguments of f.",
      type: "object",
      properties: {
        path: { type: "string", description: "A path.", pattern: "^/", minLength: 1, examples: ["/a"] },
        mode: { type: ["string", "null"], enum: ["r", "w", null], default: "r", title: "Mode" },
        version: { const: 2, description: "Always 2." },
        limit: { type: "integer", minimum: 1, maximum: 100, format: "int32" },
      },
      required: ["path"],
      additionalProperties: false,
    }),
    {
      type: "object",
      properties: {
        path: { type: "string" },
        mode: { type: ["string", "null"], enum: ["r", "w", null] },
        version: { const: 2 },
        limit: { type: "integer" },
      },
      required: ["path"],
      additionalProperties: false,
    },
  );
});

Deno.test("compactTool() retains a property named description, title, default, examples or properties", () => {
  assertEquals(
    compacted({
      type: "object",
      description: "prose",
      properties: {
        description: { type: "string", description: "prose" },
        title: { type: "string", title: "prose" },
        default: { type: "object", properties: { description: { type: "number", description: "prose" } } },
        examples: { type: "array", items: { type: "string", description: "prose" } },
        properties: { type: "string", description: "prose" },
        ["__proto__"]: { type: "boolean", description: "prose" },
      },
      required: ["description"],
    }),
    {
      type: "object",
      properties: {
        description: { type: "string" },
        title: { type: "string" },
        default: { type: "object", properties: { description: { type: "number" } } },
        examples: { type: "array", items: { type: "string" } },
        properties: { type: "string" },
        ["__proto__"]: { type: "boolean" },
      },
      required: ["description"],
    },
  );
});

Deno.test("compactTool() retains values that look like schemas", () => {
  const value = { description: "not prose", title: "neither" };
  const values = { type: "object", properties: { a: { enum: [value] }, b: { const: value } } };
  assertEquals(compacted(values), values);
});

Deno.test("compactTool() reaches into nested objects, arrays, anyOf, $defs and maps", () => {
  const wordy = { type: "string", description: "prose" };
  const bare = { type: "string" };
  const schema = (leaf: JsonSchema) => ({
    type: "object",
    properties: {
      nested: { type: "object", properties: { deep: leaf }, required: ["deep"] },
      list: { type: "array", items: leaf },
      oldTuple: { type: "array", items: [leaf, leaf] },
      tuple: { type: "array", prefixItems: [leaf], items: false },
      either: { anyOf: [leaf, { type: "null" }] },
      one: { oneOf: [leaf, { $ref: "#/$defs/named" }] },
      all: { allOf: [leaf, true] },
      map: { type: "object", additionalProperties: leaf },
      matched: { type: "object", patternProperties: { "^x-": leaf } },
    },
    $defs: { named: leaf, description: leaf },
    definitions: { named: leaf },
  });
  assertEquals(compacted(schema(wordy)), schema(bare));
});

Deno.test("compactTool() follows references to retained schemas, and drops finer constraints there too", () => {
  const schema = (leaf: JsonSchema) => ({
    type: "object",
    properties: {
      a: { $ref: "#/$defs/a~1b~0c" },
      b: { $ref: "#/definitions/named" },
      c: { type: "array", items: { $ref: "#" } },
      d: { anyOf: [{ $ref: "#/properties/c/items" }, leaf] },
    },
    $defs: { "a/b~c": leaf },
    definitions: { named: leaf },
  });
  assertEquals(
    compacted(schema({ type: "string", minLength: 1, description: "prose" })),
    schema({ type: "string" }),
  );
});

const finer = { type: "string", minLength: 1 };
const needsAll: Readonly<Record<string, JsonSchema>> = {
  "oneOf": { properties: { a: { oneOf: [finer, { type: "string", maxLength: 0 }] } } },
  "a tuple": { properties: { a: { type: "array", prefixItems: [finer], items: false } } },
  "an older draft's tuple": { properties: { a: { type: "array", items: [finer], additionalItems: false } } },
  "an identifier": {
    properties: { a: { $ref: "#/$defs/a" } },
    $defs: { a: { $id: "a.json", $ref: "#/$defs/b", $defs: { b: finer } }, b: { type: "null" } },
  },
  "a reference by identifier": {
    properties: { a: { $ref: "a.json" } },
    $defs: { a: { $id: "a.json", ...finer } },
  },
  "an anchor": { properties: { a: { $ref: "#a" } }, $defs: { a: { $anchor: "a", ...finer } } },
  "a dynamic reference": {
    $dynamicAnchor: "node",
    properties: { a: { type: "array", minItems: 1, items: { $dynamicRef: "#node" } } },
  },
  "a recursive reference": {
    $recursiveAnchor: true,
    properties: { a: { type: "array", minItems: 1, items: { $recursiveRef: "#" } } },
  },
  "a reference to a condition": { properties: { a: { $ref: "#/not" } }, not: finer },
  "a reference to what isn't JSON Schema": {
    properties: { a: { $ref: "#/x-types/a" } },
    "x-types": { a: finer },
  },
  "a reference to an empty schema": {
    properties: { a: { $ref: "#/additionalProperties" }, b: finer },
    additionalProperties: true,
  },
  "a reference to nothing": { properties: { a: { $ref: "#/$defs/a" }, b: finer } },
  "constraints next to a reference": {
    properties: { a: { $ref: "#/$defs/a", enum: ["a"] } },
    $defs: { a: finer },
  },
};

for (const [what, schema] of Object.entries(needsAll)) {
  Deno.test(`compactTool() drops prose alone where there is ${what}`, () => {
    const $schema = "https://json-schema.org/draft/2020-12/schema";
    assertEquals(compacted({ $schema, ...schema, description: "prose", default: {} }), {
      $schema,
      ...schema,
    });
  });
}

Deno.test("compactTool() doesn't change parameters that refer to prose", () => {
  for (const $ref of ["#/default/a", "#/%64efault/a"]) {
    const schema = { properties: { a: { $ref, title: "A" } }, default: { a: { type: "string" } } };
    assertEquals(compacted(schema), schema);
  }
});

Deno.test("compactTool() retains other fields, and tools without parameters", () => {
  const definition = {
    type: "function",
    cache_control: "x",
    function: { name: "f", description: "d", strict: true },
  } as const;
  const compact: unknown = compactTool(definition);
  assertEquals(compact, { type: "function", cache_control: "x", function: { name: "f", strict: true } });
});

Deno.test("compactTool() is idempotent, and returns one frozen object per definition", () => {
  const definition = tool({ type: "object", properties: { a: { type: "string", description: "prose" } } });
  const before = structuredClone(definition);
  const compact = compactTool(definition);
  assertStrictEquals(compactTool(definition), compact);
  assertStrictEquals(compactTool(compact), compact);
  assertEquals(compactTool(structuredClone(compact)), compact);
  assertThrows(() => Object.assign(compact.function, { name: "g" }), TypeError);
  assertEquals(definition, before);
});

Deno.test("compactTool() has one ordering of keywords, and retains the author's ordering of arguments", () => {
  const one = tool({
    type: "object",
    properties: { b: { type: "string", enum: ["x"] }, a: { type: "array", items: { type: "string" } } },
    required: ["b"],
  });
  const other = tool({
    required: ["b"],
    properties: { b: { enum: ["x"], type: "string" }, a: { items: { type: "string" }, type: "array" } },
    type: "object",
  });
  assertEquals(JSON.stringify(compactTool(one)), JSON.stringify(compactTool(other)));
  assertEquals(
    JSON.stringify(compactTool(one).function.parameters),
    '{"type":"object","properties":{"b":{"type":"string","enum":["x"]},' +
      '"a":{"type":"array","items":{"type":"string"}}},"required":["b"]}',
  );
});

Deno.test("validation is still against the full schema: compactTool() doesn't loosen it, and the error re-teaches", () => {
  const full = tool({
    type: "object",
    properties: { path: { type: "string", pattern: "^/", description: "An absolute path." } },
    required: ["path"],
  });
  const call = '{"path":"relative"}';
  assertEquals(argumentsParser(compactTool(full))(call), { ok: true, value: { path: "relative" } });
  const parsed = argumentsParser(full)(call);
  assertEquals(parsed, {
    ok: false,
    problem: `Cannot run f: its arguments are invalid: path must match pattern "^/".\n` +
      "Call it again with arguments that match its definition:\n" + JSON.stringify(full.function),
  });
});

interface Case {
  readonly schema: JsonSchema;
  readonly value: unknown;
}

const cases: fc.Arbitrary<Case> = fc.letrec<{ any: Case; object: Case }>((tie) => {
  const prose = fc.record({
    title: fc.constant("PROSE"),
    description: fc.constant("PROSE"),
    $comment: fc.constant("PROSE"),
    examples: fc.constant(["PROSE"]),
    default: fc.constant("PROSE"),
  }, { requiredKeys: [] });
  const withProse = (inner: fc.Arbitrary<Case>) =>
    fc.tuple(inner, prose).map(([{ schema, value }, words]): Case => ({
      schema: { ...words, ...schema },
      value,
    }));
  const name = fc.constantFrom(
    "a",
    "b",
    "description",
    "title",
    "default",
    "properties",
    "type",
    "$ref",
    "items",
  );
  return {
    any: fc.oneof(
      { maxDepth: 3 },
      withProse(
        fc.string({ minLength: 2 }).map((value) => ({ schema: { type: "string", minLength: 2 }, value })),
      ),
      withProse(fc.nat().map((value) => ({ schema: { type: "integer", minimum: 0 }, value }))),
      withProse(fc.constantFrom("x", "y").map((value) => ({ schema: { enum: ["x", "y"] }, value }))),
      withProse(fc.boolean().map((value) => ({ schema: { const: value }, value }))),
      withProse(
        tie("any").map(({ schema, value }) => ({
          schema: { type: "array", items: schema, maxItems: 3 },
          value: [value, value],
        })),
      ),
      withProse(
        fc.tuple(tie("any"), tie("any")).map(([{ schema, value }, other]) => ({
          schema: { anyOf: [other.schema, schema] },
          value,
        })),
      ),
      tie("object"),
    ),
    object: withProse(
      fc.dictionary(name, tie("any"), { maxKeys: 4 }).map((members) => ({
        schema: {
          type: "object",
          properties: Object.fromEntries(Object.entries(members).map(([name, { schema }]) => [name, schema])),
          required: Object.keys(members),
          additionalProperties: false,
        },
        value: Object.fromEntries(Object.entries(members).map(([name, { value }]) => [name, value])),
      })),
    ),
  };
}).object;

Deno.test("compactTool() removes all prose and allows everything that the full schema allows", () => {
  fc.assert(fc.property(cases, ({ schema, value }) => {
    const compact = compactTool(tool(schema));
    assertEquals(JSON.stringify(compact).includes("PROSE"), false);
    const call = JSON.stringify(value);
    const parsed = argumentsParser(tool(schema))(call);
    assertEquals(parsed.ok, true);
    assertEquals(argumentsParser(compact)(call), parsed);
  }));
});

Deno.test("invariant 4, determinism, and 5, idempotence: equal definitions give equal bytes, once and again", () => {
  fc.assert(fc.property(cases, ({ schema }) => {
    const compact = compactTool(tool(schema));
    const bytes = JSON.stringify(compact);
    assertEquals(JSON.stringify(compactTool(tool(structuredClone(schema)))), bytes);
    assertEquals(JSON.stringify(compactTool(structuredClone(compact))), bytes);
  }));
});

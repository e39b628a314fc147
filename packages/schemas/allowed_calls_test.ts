import { assert, assertEquals } from "@std/assert";
import { Ajv } from "npm:ajv@^8.20.0";
import { Ajv2019 } from "npm:ajv@^8.20.0/dist/2019.js";
import { Ajv2020 } from "npm:ajv@^8.20.0/dist/2020.js";
import fc, { cases } from "../../tests/cases.ts";
import type { JsonSchema, ToolDefinition } from "@tare/messages";
import { compactTool } from "@tare/schemas";
import { needs, RECORDINGS } from "../../tests/needs.ts";

const OPTIONS = { strict: false, logger: false, formats: { letters: /^[a-z]*$/ } } as const;
const DRAFT_7 = "http://json-schema.org/draft-07/schema#";
const DRAFT_2019 = "https://json-schema.org/draft/2019-09/schema";
const DRAFT_2020 = "https://json-schema.org/draft/2020-12/schema";
const VALIDATORS: Readonly<Record<string, { readonly Validator: typeof Ajv; readonly meta: Ajv }>> = {
  [DRAFT_7]: { Validator: Ajv, meta: new Ajv(OPTIONS) },
  [DRAFT_2019]: { Validator: Ajv2019, meta: new Ajv2019(OPTIONS) },
  [DRAFT_2020]: { Validator: Ajv2020, meta: new Ajv2020(OPTIONS) },
};

/** Returns a validator of the schema in its declared draft or this one; `undefined` if it doesn't compile. */
function compiled(schema: JsonSchema, draft: string): ((value: unknown) => boolean) | undefined {
  const { Validator, meta } = VALIDATORS[`${schema.$schema ?? draft}`] ?? {};
  if (!Validator || !meta?.validateSchema(schema)) return undefined;
  try {
    // An instance stores all identifiers that it compiles; one without the draft's meta schema is cheap.
    const validate = new Validator({ ...OPTIONS, meta: false, validateSchema: false }).compile(schema);
    return (value) => {
      try {
        return validate(value) === true;
      } catch {
        // A schema that refers only to itself allows nothing.
        return false;
      }
    };
  } catch {
    return undefined;
  }
}

function compacted(parameters: JsonSchema): JsonSchema {
  const tool: ToolDefinition = { type: "function", function: { name: "f", parameters } };
  const compact = compactTool(tool).function.parameters;
  assert(compact);
  return compact;
}

/**
 * Checks, for each draft, that the compact form compiles if the full one does, and allows each value that the
 * full one allows. Returns the number of these values.
 */
function assertAllowsAsMuch(full: JsonSchema, values: readonly unknown[]): number {
  const compact = compacted(full);
  let allowed = 0;
  for (const draft of [DRAFT_7, DRAFT_2019, DRAFT_2020]) {
    const before = compiled(full, draft);
    if (!before) continue;
    const after = compiled(compact, draft);
    const text = () => `\n${JSON.stringify(full)}\nin short:\n${JSON.stringify(compact)}\nin draft ${draft}`;
    assert(after, `The compact form doesn't compile:${text()}`);
    for (const value of values) {
      if (!before(value)) continue;
      allowed += 1;
      assert(after(value), `The compact form refuses ${JSON.stringify(value)}:${text()}`);
    }
  }
  return allowed;
}

/** Places of shared schemas. */
const SHARED = [
  "$defs",
  "definitions",
  "properties",
  "conditions",
  "x-shared",
  "default",
  "$id",
  "inside $id",
  "root $id",
  "$anchor",
] as const;

/** Places that change the meaning of references in them, or in which validators find no anchors. */
const ONLY_LEAVES: readonly string[] = ["$id", "inside $id", "default", "x-shared"];

/** Root of a generated schema, with its shared schemas. */
class Root {
  readonly keywords: Record<string, Record<string, unknown>> = {};
  readonly draft: string;
  #shared = 0;

  constructor(draft: string) {
    this.draft = draft;
  }

  /** Stores a schema and returns one that refers to it. */
  share(place: typeof SHARED[number], name: string, schema: unknown): JsonSchema {
    const key = `${name}${this.#shared++ || ""}`;
    const token = key.replaceAll("~", "~0").replaceAll("/", "~1");
    const put = (keyword: string, value: unknown) => (this.keywords[keyword] ??= {})[key] = value;
    const plain = key.replaceAll(/\W/g, "_");
    switch (place) {
      case "conditions": {
        const keyword = this.draft === DRAFT_7 ? "dependencies" : "dependentSchemas";
        put(keyword, schema);
        return { $ref: `#/${keyword}/${token}` };
      }
      case "$id":
        put("definitions", { $id: `${plain}.json`, allOf: [schema] });
        return { $ref: `${plain}.json` };
      case "inside $id":
        // The identifier changes the meaning of the inner reference.
        put("definitions", {
          $id: `${plain}.json`,
          allOf: [{ $ref: "#/definitions/inner" }],
          definitions: { inner: schema },
        });
        this.keywords.definitions = { inner: false, ...this.keywords.definitions };
        return { $ref: `#/definitions/${token}` };
      case "root $id":
        put("definitions", schema);
        Object.assign(this.keywords, { $id: "root.json" });
        return { $ref: `root.json#/definitions/${token}` };
      case "$anchor":
        if (this.draft === DRAFT_7) return this.share("$defs", name, schema);
        put("$defs", { $anchor: plain, allOf: [schema] });
        return { $ref: `#${plain}` };
      default:
        put(place, schema);
        return { $ref: `#/${place}/${token}` };
    }
  }

  /** Returns a schema that refers to all of this one. */
  shareAll(isDynamic: boolean): JsonSchema {
    if (!isDynamic || this.draft === DRAFT_7) return { $ref: "#" };
    const [anchor, reference] = this.draft === DRAFT_2020
      ? [{ $dynamicAnchor: "node" }, { $dynamicRef: "#node" }]
      : [{ $recursiveAnchor: true }, { $recursiveRef: "#" }];
    Object.assign(this.keywords, anchor);
    return reference;
  }
}

/** Generated schema, and a value that it allows. */
interface Made {
  readonly schema: (root: Root) => JsonSchema;
  readonly value: unknown;
}

function made(schema: JsonSchema, value: unknown): Made {
  return { schema: () => schema, value };
}

const NEVER = { enum: ["never"] };

/** Schemas without subschemas. */
const leaf: fc.Arbitrary<Made> = fc.oneof(
  fc.stringMatching(/^a[a-z]{1,5}$/).map((value) =>
    made({ type: "string", pattern: "^a", minLength: 2, maxLength: 6, format: "letters" }, value)
  ),
  fc.nat(999).map((value) => made({ type: "integer", minimum: 0, exclusiveMaximum: 1000 }, value)),
  fc.constantFrom("x", "y").map((value) => made({ enum: ["x", "y"] }, value)),
  fc.boolean().map((value) => made({ const: value }, value)),
  fc.constant(made({ type: ["number", "null"], multipleOf: 0.5 }, null)),
  fc.constant(made({ type: "string", nullable: true }, null)),
);

const name = fc.constantFrom("a", "b", "a/b", "a~b", "description", "default", "not", "items");

/** Keywords around a schema, some of which restrict only together with it. */
const AROUND: readonly ((inner: Made, root: Root) => readonly [schema: JsonSchema, value: unknown])[] = [
  ({ schema, value }, root) => [{ type: "array", items: schema(root), minItems: 1, maxItems: 3 }, [value]],
  ({ schema, value }, root) => [{ contains: schema(root), uniqueItems: true }, [value, "one more"]],
  ({ schema, value }, root) => [{ anyOf: [NEVER, schema(root)] }, value],
  ({ schema, value }, root) => [{ oneOf: [NEVER, schema(root)] }, value],
  ({ schema, value }, root) => [{ oneOf: [schema(root), { not: schema(root) }] }, value],
  ({ schema, value }, root) => [{ oneOf: [schema(root), { allOf: [schema(root)], not: {} }] }, value],
  ({ schema, value }, root) => [{ allOf: [schema(root), {}] }, value],
  ({ schema, value }, root) => [{ not: { not: schema(root) } }, value],
  ({ schema, value }, root) => [{ allOf: [schema(root)], not: { if: {}, then: NEVER } }, value],
  ({ schema, value }, root) => [{ if: schema(root), then: schema(root), else: NEVER }, value],
  ({ schema, value }, root) => [{ if: { not: schema(root) }, then: NEVER }, value],
  ({ schema, value }, root) => [{ if: NEVER, then: NEVER, else: schema(root) }, value],
  ({ schema, value }, root) => [
    root.draft === DRAFT_2020
      ? { prefixItems: [schema(root), { minimum: 0 }], items: NEVER }
      : { items: [schema(root), { minimum: 0 }], additionalItems: NEVER },
    [value, 1],
  ],
  ({ schema, value }, root) => [
    { properties: { a: NEVER }, patternProperties: { "^x": schema(root) }, additionalProperties: false },
    { xa: value },
  ],
  ({ schema, value }, root) => [
    { propertyNames: { pattern: "^x" }, additionalProperties: schema(root), minProperties: 1 },
    { xa: value, xb: value },
  ],
  ({ schema, value }, root) => [
    root.draft === DRAFT_7
      ? { dependencies: { a: ["b"], b: { required: ["a"] } }, additionalProperties: schema(root) }
      : {
        dependentRequired: { a: ["b"] },
        dependentSchemas: { b: { required: ["a"] } },
        additionalProperties: schema(root),
      },
    { a: value, b: value },
  ],
  ({ schema, value }, root) => [
    {
      allOf: [{ properties: { a: schema(root) } }, { required: ["b"], additionalProperties: true }],
      unevaluatedProperties: false,
    },
    { a: value, b: value },
  ],
];

const tree = fc.letrec<{ any: Made; around: Made; object: Made; reference: Made }>((tie) => {
  const prose = fc.record({
    title: fc.constant("PROSE"),
    description: fc.constant("PROSE"),
    $comment: fc.constant("PROSE"),
    default: fc.constant("PROSE"),
    readOnly: fc.constant(true),
  }, { requiredKeys: [] });
  return {
    any: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      leaf,
      tie("around"),
      tie("object"),
      tie("reference"),
    ),
    around: fc.tuple(tie("any"), prose, fc.constantFrom(...AROUND)).map(([inner, words, around]) => ({
      schema: (root) => ({ ...words, ...around(inner, root)[0] }),
      value: around(inner, new Root(DRAFT_2020))[1],
    })),
    reference: fc.tuple(
      fc.constantFrom(...SHARED).chain((place) =>
        fc.tuple(fc.constant(place), ONLY_LEAVES.includes(place) ? leaf : tie("any"))
      ),
      name,
      prose,
    ).map(([[place, { schema, value }], name, words]) => ({
      schema: (root) => ({ ...words, ...root.share(place, name, schema(root)) }),
      value,
    })),
    object: fc.tuple(
      fc.dictionary(fc.oneof(name, fc.constant("$ref")), tie("any"), { maxKeys: 3 }),
      prose,
      fc.boolean(),
    ).map(
      ([members, words, isClosed]) => ({
        schema: (root) => ({
          ...words,
          type: "object",
          properties: Object.fromEntries(
            Object.entries(members).map(([name, { schema }]) => [name, schema(root)]),
          ),
          required: Object.keys(members).slice(0, 1),
          ...(isClosed && { additionalProperties: false, maxProperties: 3 }),
        }),
        value: Object.fromEntries(Object.entries(members).map(([name, { value }]) => [name, value])),
      }),
    ),
  };
});

/** Generates parameters of a tool in one draft, and arguments that they allow. */
const parameters = fc.record({
  draft: fc.constantFrom(DRAFT_7, DRAFT_2019, DRAFT_2020),
  isDeclared: fc.boolean(),
  argument: tree.any,
  again: fc.constantFrom(undefined, "static", "dynamic"),
}).map(({ draft, isDeclared, argument, again }) => {
  const root = new Root(draft);
  const value = { argument: argument.value };
  const properties = {
    argument: argument.schema(root),
    ...(again && { again: root.shareAll(again === "dynamic") }),
  };
  return {
    draft,
    full: {
      ...(isDeclared && { $schema: draft }),
      type: "object",
      ...root.keywords,
      properties: { ...root.keywords.properties, ...properties },
      required: ["argument"],
    },
    value: again ? { ...value, again: value } : value,
  };
});

/** Returns the value with a part replaced or removed, located by one number per level. */
function changed(value: unknown, steps: readonly number[], other: unknown): unknown {
  const [step = 0, ...deeper] = steps;
  const keys = typeof value === "object" && value !== null ? Object.keys(value) : [];
  const key = keys[step % keys.length];
  if (steps.length === 0 || key === undefined) return other;
  const copy: Record<string, unknown> | unknown[] = structuredClone(Object(value));
  const inner = changed(Object(value)[key], deeper, other);
  if (inner === undefined && !Array.isArray(copy)) delete copy[key];
  else Object.assign(copy, { [key]: inner });
  return copy;
}

const change = fc.tuple(
  fc.array(fc.nat(5), { minLength: 1, maxLength: 5 }),
  fc.option(fc.oneof(fc.jsonValue({ maxDepth: 1 }), fc.constantFrom("ab", "x", "never", 1, {}, [])), {
    nil: undefined,
  }),
);

Deno.test("compactTool() compiles if the full schema does, and allows every call that it allows", () => {
  const changes = fc.array(change, { maxLength: 8 });
  fc.assert(
    fc.property(parameters, changes, ({ draft, full, value }, changes) => {
      assertEquals(compiled(full, draft)?.(value), true);
      const values = [value, ...changes.map(([steps, other]) => changed(value, steps, other))];
      assertAllowsAsMuch(full, values);
    }),
    { numRuns: cases(300) },
  );
});

/** Generates arguments that match a schema of common keywords, or nearly. */
function argumentsFor(schema: JsonSchema): fc.Arbitrary<unknown> {
  const { type, enum: values, properties = {}, required = [], items = {} } = schema;
  const { minItems: minLength = 0, minimum: min = -5, maximum: max = 1000 } = schema;
  const choices = [schema.anyOf ?? schema.oneOf ?? []].flat();
  if (choices.length > 0) {
    const rest = { ...schema, anyOf: undefined, oneOf: undefined };
    return fc.constantFrom(...choices).chain((choice) => argumentsFor({ ...rest, ...choice }));
  }
  if (Array.isArray(values)) return fc.constantFrom(...values);
  switch (Array.isArray(type) ? type[0] : type) {
    case "object":
      return fc.record(
        Object.fromEntries(
          Object.entries(Object(properties)).map(([name, inner]) => [name, argumentsFor(Object(inner))]),
        ),
        { requiredKeys: [required].flat().map(String) },
      );
    case "array":
      return fc.array(argumentsFor(Object(items)), { minLength: Number(minLength), maxLength: 3 });
    case "integer":
    case "number":
      return fc.integer({ min: Number(min), max: Number(max) });
    case "boolean":
      return fc.boolean();
    case "string":
      return fc.string({ minLength: 1, maxLength: 20 });
    default:
      return fc.jsonValue({ maxDepth: 1 });
  }
}

const recorded = new URL("../../../shared/trajectories/github-mcp-server.json", import.meta.url);

Deno.test({
  ...needs(
    RECORDINGS,
    "compactTool() compiles and allows every call that the full schema allows, for 117 tools of an MCP server",
  ),
  fn: async () => {
    const tools: ToolDefinition[] = JSON.parse(await Deno.readTextFile(recorded)).tools;
    assertEquals(tools.length, 117);
    for (const { function: { name, parameters = {} } } of tools) {
      const values = fc.sample(fc.tuple(argumentsFor(parameters), change), 50).flatMap((
        [value, [steps, other]],
      ) => [value, changed(value, steps, other)]);
      const allowed = assertAllowsAsMuch(parameters, values);
      assert(allowed >= 50, `Only ${allowed} calls of ${name} were valid in the first place.`);
    }
  },
});

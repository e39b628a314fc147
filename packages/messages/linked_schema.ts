import { NextStack, Resolve, Stack } from "typebox/schema";
import { Hashing } from "typebox/system";
import type { JsonSchema } from "./tool.ts";

/** The keywords whose value is a schema or a list of some, and what else their value may be. */
const SCHEMAS: Readonly<Record<string, readonly string[]>> = {
  additionalItems: ["object", "boolean"],
  additionalProperties: ["object", "boolean"],
  allOf: ["array"],
  anyOf: ["array"],
  contains: ["object", "boolean"],
  else: ["object", "boolean"],
  if: ["object", "boolean"],
  items: ["object", "boolean", "array"],
  not: ["object", "boolean"],
  oneOf: ["array"],
  prefixItems: ["array"],
  propertyNames: ["object", "boolean"],
  then: ["object", "boolean"],
  unevaluatedItems: ["object", "boolean"],
  unevaluatedProperties: ["object", "boolean"],
};

/** The keywords whose value has schemas by names. */
const NAMED_SCHEMAS = [
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties",
];

const TYPES = { enum: ["array", "boolean", "integer", "null", "number", "object", "string"] };
const COUNT = { type: "integer", minimum: 0 };

/** What a schema's own keywords must be; a schema of schemas would take its time for each. */
export const KEYWORDS: JsonSchema = {
  type: ["object", "boolean"],
  properties: {
    ...Object.fromEntries(Object.entries(SCHEMAS).map(([key, type]) => [key, { type }])),
    ...Object.fromEntries(NAMED_SCHEMAS.map((key) => [key, { type: "object" }])),
    ...Object.fromEntries(
      ["Contains", "Items", "Length", "Properties"].flatMap((
        of,
      ) => [[`min${of}`, COUNT], [`max${of}`, COUNT]]),
    ),
    $id: { type: "string" },
    $ref: { type: "string" },
    enum: { type: "array" },
    exclusiveMaximum: { type: ["number", "boolean"] },
    exclusiveMinimum: { type: ["number", "boolean"] },
    maximum: { type: "number" },
    minimum: { type: "number" },
    multipleOf: { type: "number", exclusiveMinimum: 0 },
    pattern: { type: "string", format: "regex" },
    patternProperties: { type: "object", propertyNames: { format: "regex" } },
    required: { type: "array", items: { type: "string" } },
    type: { anyOf: [TYPES, { type: "array", items: TYPES }] },
    uniqueItems: { type: "boolean" },
  },
};

/** What isn't checked, what is checked in another way, and what would be no member of the copy. */
const LEFT_OUT: ReadonlySet<string> = new Set(["format", "uniqueItems", "__proto__"]);

/** What a schema is called, which nothing asks for once all references are links. */
const NAMES: ReadonlySet<string> = new Set(["$schema", "$id", "$anchor"]);

/** References that depend on where a value comes from. */
const DYNAMIC = /"\$(dynamic|recursive)Ref":/;

/** Where schemas of schemas stand, and what is checked of a value that is a schema. */
const SCHEMA_OF_SCHEMAS = /^https?:\/\/json-schema\.org\//;
const ANY_SCHEMA = { type: ["object", "boolean"] };

/** In place of `uniqueItems`, whose faults the validator collects in quadratic time. */
const UNIQUE_ITEMS = {
  "~refine": [{ check: (value: unknown): boolean => !sameItems(value), error: saysSameItems }],
};

function saysSameItems(value: unknown): string {
  return `must not have the same item twice (items ${sameItems(value)?.join(" and ")} are the same)`;
}

function sameItems(value: unknown): readonly [number, number] | undefined {
  if (!Array.isArray(value)) return undefined;
  const seen = new Map<string, number>();
  for (const [index, item] of value.entries()) {
    const hash = Hashing.Hash(item);
    const first = seen.get(hash);
    if (first !== undefined) return [first, index];
    seen.set(hash, index);
  }
  return undefined;
}

/** What a linked schema was made of: that can be told, while a circle can't. */
const ORIGINALS = new WeakMap<object, JsonSchema>();

/** The schema as its author wrote it. */
export function originalOf(linked: JsonSchema): JsonSchema {
  return ORIGINALS.get(linked) ?? linked;
}

/**
 * A schema of what is checked, in which what a `$ref` refers to stands in its place, in a circle if need be: to
 * resolve it takes longer than to check a value, and would have to be done for each.
 *
 * @param verify Is called with each schema inside and its place, and throws if it is none.
 * @throws {Error} if a reference leads nowhere.
 */
export function linkSchema(schema: JsonSchema, verify: (schema: unknown, place: string) => void): JsonSchema {
  const isDynamic = DYNAMIC.test(JSON.stringify(schema));
  const copies = new Map<unknown, Record<string, unknown>>();
  return Object(copy(schema, Stack({}, schema), ""));

  function copy(value: unknown, outer: ReturnType<typeof Stack>, place: string): unknown {
    if (Array.isArray(value)) return value.map((one, index) => copy(one, outer, `${place}/${index}`));
    const known = copies.get(value);
    if (known) return known;
    verify(value, place);
    if (typeof value !== "object" || value === null) return value;
    const made: Record<string, unknown> = {};
    copies.set(value, made);
    ORIGINALS.set(made, Object(value));
    const here = NextStack(outer, value);
    for (const [key, inner] of Object.entries(value)) {
      if (LEFT_OUT.has(key) || !isDynamic && NAMES.has(key)) continue;
      made[key] = Object.hasOwn(SCHEMAS, key)
        ? copy(inner, here, `${place}/${key}`)
        : NAMED_SCHEMAS.includes(key)
        ? Object.fromEntries(
          Object.entries(inner).map(([name, one]) => [
            name,
            // What a property depends on may be names.
            key === "dependencies" && Array.isArray(one) ? one : copy(one, here, `${place}/${key}/${name}`),
          ]),
        )
        : inner;
    }
    const add = (schema: unknown) => made.allOf = [...[made.allOf ?? []].flat(), schema];
    if ("uniqueItems" in value && value.uniqueItems === true) add(UNIQUE_ITEMS);
    const { $ref } = made;
    if (typeof $ref !== "string") return made;
    const isOfSchemas = SCHEMA_OF_SCHEMAS.test($ref);
    const target = isOfSchemas ? { schema: ANY_SCHEMA, stack: here } : Resolve.Ref(here, { $ref });
    if (target.schema === undefined) {
      throw new Error(`Cannot use the schema: it refers to ${$ref}, which isn't there`);
    }
    if (isDynamic && !isOfSchemas) return made;
    delete made.$ref;
    add(copy(target.schema, target.stack, `${place}/$ref`));
    return made;
  }
}

import type { ToolDefinition } from "@tare/messages";

/**
 * The compact form of a tool: its name, and the names and types of its arguments, with what a call cannot be valid
 * without (`required`, `enum`, `const`, closed objects). Descriptions, titles, defaults, examples and finer
 * constraints (patterns, ranges, formats, conditions) are left out: a model has seen them once, and a call that
 * breaks them is answered with the full definition.
 *
 * Keywords are told from names: an argument called `description` survives. What isn't JSON Schema (`strict`, fields
 * of a provider) is kept. Keywords come in one fixed order, arguments in their author's.
 *
 * The same definition always gives the same frozen object, so that its tokens are counted once; the compact form
 * of a compact form is itself.
 */
export function compactTool(tool: ToolDefinition): ToolDefinition {
  const known = compactForms.get(tool);
  if (known) return known;
  const { description: _, parameters, ...rest } = tool.function;
  const compact = Object.freeze({
    ...tool,
    function: Object.freeze({
      ...rest,
      ...(parameters && { parameters: compactSchema(parameters) as typeof parameters }),
    }),
  });
  compactForms.set(tool, compact);
  compactForms.set(compact, compact);
  return compact;
}

const compactForms = new WeakMap<ToolDefinition, ToolDefinition>();

/** What to do with the value of each keyword that is kept. */
const KEPT_KEYWORDS: readonly (readonly [keyword: string, compact: (value: unknown) => unknown])[] = [
  ["$ref", asIs],
  ["$anchor", asIs],
  ["type", asIs],
  ["nullable", asIs],
  ["enum", asIs],
  ["const", asIs],
  ["properties", compactNamed],
  ["patternProperties", compactNamed],
  ["additionalProperties", compactSchemas],
  ["required", asIs],
  ["items", compactSchemas],
  ["prefixItems", compactSchemas],
  ["anyOf", compactSchemas],
  ["oneOf", compactSchemas],
  ["allOf", compactSchemas],
  ["$defs", compactNamed],
  ["definitions", compactNamed],
];

function compactSchema(schema: unknown): unknown {
  if (!isObject(schema)) return schema;
  const kept: [string, unknown][] = [];
  for (const [keyword, compact] of KEPT_KEYWORDS) {
    const value = schema[keyword];
    // `additionalProperties: true` is the default.
    const says = Object.hasOwn(schema, keyword) && !(keyword === "additionalProperties" && value === true);
    if (says) kept.push([keyword, compact(value)]);
  }
  return Object.freeze(Object.fromEntries(kept));
}

/** A schema, or a list of schemas. */
function compactSchemas(value: unknown): unknown {
  return Array.isArray(value) ? Object.freeze(value.map(compactSchema)) : compactSchema(value);
}

/** Schemas by name. */
function compactNamed(value: unknown): unknown {
  if (!isObject(value)) return value;
  const entries = Object.entries(value).map(([name, schema]) => [name, compactSchema(schema)]);
  return Object.freeze(Object.fromEntries(entries));
}

function asIs(value: unknown): unknown {
  return value;
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

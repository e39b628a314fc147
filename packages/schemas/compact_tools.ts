import { type CountTokens, estimateTokens, type JsonSchema, type ToolDefinition } from "@tare/messages";
import { checkGiven, countToolTokens, hashPiece } from "@tare/messages/internal";

/** Options of {@linkcode compactTools}. */
export interface CompactToolsOptions {
  /** Full definitions in earlier requests, by their `hashPiece`. */
  readonly exposed: ReadonlySet<number>;
  /** Token counter. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Names of tools that are never compacted. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /**
   * Names of called tools: others are not compacted. For the first request of a turn, whose new task may need
   * a tool whose prose is far back. Default: all may be compacted.
   */
  readonly called?: ReadonlySet<string> | undefined;
  /** Tokens of the full definitions below which none is compacted. Default: 500. */
  readonly minTokens?: number | undefined;
}

/** Tools of one request, each in the selected form. */
export interface ToolsView {
  readonly tools: readonly ToolDefinition[];
  /** Full definitions that the model has received after this request. */
  readonly exposed: ReadonlySet<number>;
  readonly tokensBefore: number;
  readonly tokensAfter: number;
}

/**
 * Selects the form of each tool: full in the first request, compact afterwards. New tools, and definitions
 * that changed, are sent in full once. Pass `exposed` of one request to the next one.
 *
 * In most providers' prompts, tools come first, so that the first compact request is uncached.
 *
 * @throws {RangeError} if `minTokens` is negative or not a number.
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { compactTool, compactTools } from "@tare/schemas";
 *
 * const tool = { type: "function", function: { name: "read", description: "Reads a file. ".repeat(500) } } as const;
 * const { tools, exposed } = compactTools([tool], { exposed: new Set() });
 * assertEquals(tools, [tool]);
 * assertEquals(compactTools([tool], { exposed }).tools, [compactTool(tool)]);
 * ```
 */
export function compactTools(
  tools: readonly ToolDefinition[],
  options: CompactToolsOptions,
): ToolsView {
  checkGiven("compactTools()", { tools, options }, {
    tools: "array",
    options: {
      exposed: { has: "function" },
      "countTokens?": "counter",
      "alwaysFull?": "array",
      "called?": { has: "function" },
      "minTokens?": "count",
    },
  });
  const { exposed, countTokens = estimateTokens, alwaysFull = [], called, minTokens = 500 } = options;
  const tokensBefore = countTools(tools, countTokens);
  const small = tokensBefore < minTokens;
  const visible = tools.map((tool) => {
    const { name } = tool.function;
    const isKnown = exposed.has(hashPiece(tool)) && (called?.has(name) ?? true);
    return small || !isKnown || alwaysFull.includes(name) ? tool : compactTool(tool);
  });
  return {
    tools: visible,
    exposed: new Set([...exposed, ...tools.map(hashPiece)]),
    tokensBefore,
    tokensAfter: countTools(visible, countTokens),
  };
}

function countTools(tools: readonly ToolDefinition[], countTokens: CountTokens): number {
  return tools.reduce((tokens, tool) => tokens + countToolTokens(tool, countTokens), 0);
}

/**
 * Returns the compact form of a tool: its name, the names and types of its arguments, and the constraints
 * that calls need (`required`, `enum`, `const`, closed objects). Prose and finer constraints (patterns,
 * ranges, formats, conditions) are omitted.
 *
 * The compact form compiles if the full one does, and allows every call that the full one allows. Finer
 * constraints stay if their removal could break this: in parameters with `oneOf`, tuples, identifiers,
 * dynamic references, references to omitted parts, or constraints next to a reference. Parameters with a
 * reference into prose are unchanged.
 *
 * Keywords are distinguished from names: an argument called `description` stays, and so do other fields
 * (`strict`, a provider's). Keywords have a fixed order, arguments their author's.
 *
 * The result is frozen and cached by definition; the compact form of a compact form is itself.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { compactTool } from "@tare/schemas";
 *
 * const parameters = { type: "object", properties: { path: { type: "string", description: "Which file." } } };
 * const { function: compact } = compactTool({ type: "function", function: { name: "read", parameters } });
 * assertEquals(compact.parameters, { type: "object", properties: { path: { type: "string" } } });
 * ```
 */
export function compactTool(tool: ToolDefinition): ToolDefinition {
  checkGiven("compactTool()", { tool }, { tool: { function: { name: "string" } } });
  const known = compactForms.get(tool);
  if (known) return known;
  const { description: _, parameters, ...rest } = tool.function;
  const compact = Object.freeze({
    ...tool,
    function: Object.freeze({ ...rest, ...(parameters && { parameters: compactParameters(parameters) }) }),
  });
  compactForms.set(tool, compact);
  compactForms.set(compact, compact);
  return compact;
}

const compactForms = new WeakMap<ToolDefinition, ToolDefinition>();

const RETAINED = [
  "$ref",
  "type",
  "nullable",
  "enum",
  "const",
  "properties",
  "patternProperties",
  "additionalProperties",
  "required",
  "items",
  "anyOf",
  "allOf",
  "$defs",
  "definitions",
];

/**
 * Keywords that forbid omissions: with looser subschemas `oneOf` allows less, without `prefixItems` another
 * keyword does, and identifiers and dynamic references resolve only at validation.
 */
const NEEDS_ALL = ["oneOf", "prefixItems", "$id", "$dynamicRef", "$recursiveRef"];

const PROSE = [
  "$comment",
  "title",
  "description",
  "default",
  "examples",
  "deprecated",
  "readOnly",
  "writeOnly",
];

const HOLDS_SCHEMAS = [
  "additionalProperties",
  "items",
  "anyOf",
  "allOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "prefixItems",
  "additionalItems",
  "contains",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
  "contentSchema",
];

const HOLDS_NAMED = [
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
];

/** Reference to a part of the prose, or one whose escapes hide its target. */
const REFERS_TO_PROSE = new RegExp(
  `"\\$\\w*[rR]ef":"[^"]*(?:%|/(?:${PROSE.join("|").replace("$", "\\$")})[/"])`,
);

function compactParameters(parameters: JsonSchema): JsonSchema {
  const found: Found = { places: new Set(), references: [] };
  const isPlain = findSchemas(parameters, found) && found.references.every((to) => found.places.has(to));
  if (isPlain) return strip(parameters, isRetained);
  if (REFERS_TO_PROSE.test(JSON.stringify(parameters))) return parameters;
  return strip(parameters, (keyword) => !PROSE.includes(keyword));
}

function isRetained(keyword: string, value: unknown): boolean {
  // `additionalProperties: true` is the default.
  return RETAINED.includes(keyword) && !(keyword === "additionalProperties" && value === true);
}

interface Found {
  readonly places: Set<unknown>;
  readonly references: unknown[];
}

/** Collects the retained schemas and the references; returns false if one needs an omitted part. */
function findSchemas(schema: unknown, found: Found, place = "#"): boolean {
  found.places.add(place);
  if (!isObject(schema)) return true;
  if (NEEDS_ALL.some((keyword) => Object.hasOwn(schema, keyword)) || Array.isArray(schema.items)) {
    return false;
  }
  const retained = Object.entries(schema).filter(([keyword, value]) => isRetained(keyword, value));
  if (Object.hasOwn(schema, "$ref")) {
    found.references.push(schema.$ref);
    // Until draft 7, keywords next to a reference are ignored.
    if (!retained.every(([keyword]) => ["$ref", "$defs", "definitions"].includes(keyword))) return false;
  }
  return retained.every(([keyword, value]) => {
    const holdsNamed = HOLDS_NAMED.includes(keyword);
    if (!holdsNamed && !HOLDS_SCHEMAS.includes(keyword)) return true;
    if (!holdsNamed && !Array.isArray(value)) return findSchemas(value, found, `${place}/${keyword}`);
    return Object.entries(Object(value)).every(([name, inner]) => {
      const token = name.replaceAll("~", "~0").replaceAll("/", "~1");
      return findSchemas(inner, found, `${place}/${keyword}/${token}`);
    });
  });
}

function strip<S>(schema: S, keeps: (keyword: string, value: unknown) => boolean): S {
  if (!isObject(schema)) return schema;
  const inner = (value: unknown) => strip(value, keeps);
  const retained = Object.entries(schema).filter(([keyword, value]) => keeps(keyword, value)).sort(inOrder);
  return freezeEntries(retained.map(([keyword, value]) => {
    if (HOLDS_SCHEMAS.includes(keyword)) {
      return [keyword, Array.isArray(value) ? Object.freeze(value.map(inner)) : inner(value)];
    }
    if (!HOLDS_NAMED.includes(keyword) || !isObject(value)) return [keyword, value];
    return [keyword, freezeEntries(Object.entries(value).map(([name, schema]) => [name, inner(schema)]))];
  })) as S;
}

function freezeEntries(entries: [string, unknown][]) {
  return Object.freeze(Object.fromEntries(entries));
}

function inOrder([a]: [string, unknown], [b]: [string, unknown]): number {
  const place = (keyword: string) => RETAINED.includes(keyword) ? RETAINED.indexOf(keyword) : RETAINED.length;
  return place(a) - place(b) || (a < b ? -1 : 1);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

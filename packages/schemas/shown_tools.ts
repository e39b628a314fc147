import { type CountTokens, estimateTokens, type JsonSchema, type ToolDefinition } from "@tare/messages";
import { checkGiven, countToolTokens, hashPiece } from "@tare/messages/internal";

/** Options of {@linkcode shownTools}. */
export interface ShownToolsOptions {
  /** The full definitions that the model has been shown in earlier requests, by their `hashPiece`. */
  readonly exposed: ReadonlySet<number>;
  /** Counts the tokens of a text. Default: `estimateTokens`. */
  readonly countTokens?: CountTokens | undefined;
  /** Names of tools that are never compacted. Default: none. */
  readonly alwaysFull?: readonly string[] | undefined;
  /**
   * Names of the tools that the model has called: no other is compact. Meant for the first request of a turn, where a
   * new task may need a tool whose prose is far back. Default: any may be compact.
   */
  readonly called?: ReadonlySet<string> | undefined;
  /** Sets of tools whose full definitions take fewer tokens than this are left alone. Default: 500. */
  readonly minTokens?: number | undefined;
}

/** The tools of one request, each in the form that the model needs. */
export interface ToolsView {
  /** The definitions to send, in the order in which they were passed. */
  readonly tools: readonly ToolDefinition[];
  /** The full definitions that the model has been shown once this request is sent. */
  readonly exposed: ReadonlySet<number>;
  /** Tokens of all full definitions. */
  readonly tokensBefore: number;
  /** Tokens of the definitions to send. */
  readonly tokensAfter: number;
}

/**
 * Decides in which form each tool is shown: in full in the first request that offers it, compact from then on.
 * A tool that is added later is shown in full once as well, and so is one whose definition has changed under its old
 * name. Hand `exposed` of one request to the next one.
 *
 * Tools stand at the front of most providers' prefix, so that the first compact request is read anew as a whole.
 *
 * @throws {RangeError} if `minTokens` is negative or not a number.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { compactTool, shownTools } from "@tare/schemas";
 *
 * const tool = { type: "function", function: { name: "read", description: "Reads a file. ".repeat(500) } } as const;
 * const { tools, exposed } = shownTools([tool], { exposed: new Set() });
 * assertEquals(tools, [tool]);
 * assertEquals(shownTools([tool], { exposed }).tools, [compactTool(tool)]);
 * ```
 */
export function shownTools(
  tools: readonly ToolDefinition[],
  options: ShownToolsOptions,
): ToolsView {
  checkGiven("shownTools()", { tools, options }, {
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
  const shown = tools.map((tool) => {
    const { name } = tool.function;
    const isKnown = exposed.has(hashPiece(tool)) && (called?.has(name) ?? true);
    return small || !isKnown || alwaysFull.includes(name) ? tool : compactTool(tool);
  });
  return {
    tools: shown,
    exposed: new Set([...exposed, ...tools.map(hashPiece)]),
    tokensBefore,
    tokensAfter: countTools(shown, countTokens),
  };
}

function countTools(tools: readonly ToolDefinition[], countTokens: CountTokens): number {
  return tools.reduce((tokens, tool) => tokens + countToolTokens(tool, countTokens), 0);
}

/**
 * The compact form of a tool: its name, and the names and types of its arguments, with what a call cannot be valid
 * without (`required`, `enum`, `const`, closed objects). Descriptions, titles, defaults, examples and finer
 * constraints (patterns, ranges, formats, conditions) are left out: a model has seen them once, and a call that
 * breaks them is answered with the full definition.
 *
 * The compact form compiles if the full one does, and allows every call that the full one allows. Where that would not
 * be sure without the finer constraints, they all stay and only prose goes: in parameters with `oneOf`, tuples,
 * identifiers or dynamic references, with a reference to what would be left out, or with constraints beside a
 * reference. Parameters with a reference into prose stay as they are.
 *
 * Keywords are told from names: an argument called `description` survives. What isn't JSON Schema (`strict`, fields
 * of a provider) is kept. Keywords come in one fixed order, arguments in their author's.
 *
 * The same definition always gives the same frozen object, so that its tokens are counted once; the compact form
 * of a compact form is itself.
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

/** Keywords of the compact form, in its order. Each only ever loosens a schema if the schemas in it are loosened. */
const KEPT = [
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
 * Keywords with which nothing is left out: with its schemas loosened `oneOf` allows less, without `prefixItems` another
 * keyword does, identifiers say what references mean, and these references can be followed only when validating.
 */
const NEEDS_ALL = ["oneOf", "prefixItems", "$id", "$dynamicRef", "$recursiveRef"];

/** Keywords that tell people and models something, and allow and forbid nothing. */
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

/** Keywords that hold a schema or a list of them. */
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

/** Keywords that hold schemas by name. */
const HOLDS_NAMED = [
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies",
];

/** A reference to something in prose, or one whose escapes hide what it refers to. */
const REFERS_TO_PROSE = new RegExp(
  `"\\$\\w*[rR]ef":"[^"]*(?:%|/(?:${PROSE.join("|").replace("$", "\\$")})[/"])`,
);

function compactParameters(parameters: JsonSchema): JsonSchema {
  const found: Found = { places: new Set(), references: [] };
  const isPlain = findSchemas(parameters, found) && found.references.every((to) => found.places.has(to));
  if (isPlain) return strip(parameters, isKept);
  if (REFERS_TO_PROSE.test(JSON.stringify(parameters))) return parameters;
  return strip(parameters, (keyword) => !PROSE.includes(keyword));
}

function isKept(keyword: string, value: unknown): boolean {
  // `additionalProperties: true` is the default.
  return KEPT.includes(keyword) && !(keyword === "additionalProperties" && value === true);
}

interface Found {
  /** Each schema that is kept, as a reference from the root. */
  readonly places: Set<unknown>;
  readonly references: unknown[];
}

/** Collects the schemas that are kept and what they refer to; false if one of them needs what would be left out. */
function findSchemas(schema: unknown, found: Found, place = "#"): boolean {
  found.places.add(place);
  if (!isObject(schema)) return true;
  if (NEEDS_ALL.some((keyword) => Object.hasOwn(schema, keyword)) || Array.isArray(schema.items)) {
    return false;
  }
  const kept = Object.entries(schema).filter(([keyword, value]) => isKept(keyword, value));
  if (Object.hasOwn(schema, "$ref")) {
    found.references.push(schema.$ref);
    // Until draft 7 what stands beside a reference means nothing.
    if (!kept.every(([keyword]) => ["$ref", "$defs", "definitions"].includes(keyword))) return false;
  }
  return kept.every(([keyword, value]) => {
    const holdsNamed = HOLDS_NAMED.includes(keyword);
    if (!holdsNamed && !HOLDS_SCHEMAS.includes(keyword)) return true;
    if (!holdsNamed && !Array.isArray(value)) return findSchemas(value, found, `${place}/${keyword}`);
    return Object.entries(Object(value)).every(([name, inner]) => {
      const token = name.replaceAll("~", "~0").replaceAll("/", "~1");
      return findSchemas(inner, found, `${place}/${keyword}/${token}`);
    });
  });
}

/** A schema and those in it, with no other keywords than those to keep. */
function strip<S>(schema: S, keeps: (keyword: string, value: unknown) => boolean): S {
  if (!isObject(schema)) return schema;
  const inner = (value: unknown) => strip(value, keeps);
  const kept = Object.entries(schema).filter(([keyword, value]) => keeps(keyword, value)).sort(inOrder);
  return freezeEntries(kept.map(([keyword, value]) => {
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

/** Keywords of the compact form first, then the others by name. */
function inOrder([a]: [string, unknown], [b]: [string, unknown]): number {
  const place = (keyword: string) => KEPT.includes(keyword) ? KEPT.indexOf(keyword) : KEPT.length;
  return place(a) - place(b) || (a < b ? -1 : 1);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

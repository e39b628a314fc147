import { asRecord, isRecord, type JsonRecord, listOf } from "./json.ts";

/** Restrictions of a protocol's providers beyond the common ones. */
export interface SchemaRules {
  /** Top-level argument names. Default: any. */
  readonly key?: { readonly pattern: RegExp; readonly legal: (name: string) => string };
  /** Whether servers may compile a grammar, with few patterns and small bounds. Default: false. */
  readonly makesGrammar?: boolean;
}

export interface LegalSchema {
  readonly schema: JsonRecord;
  /** Removed restrictions, in a sentence for the model. */
  readonly note?: string;
  /** Original argument names by sent name. */
  readonly renamed: ReadonlyMap<string, string>;
}

/** Deepest nesting, beyond which anything is accepted. */
const MAX_DEPTH = 64;

/** Longest chain of references. */
const MAX_REFS = 32;

/** Most alternatives described in text. */
const MAX_DESCRIBED = 12;

/** Most alternatives of a property, beyond which anything is accepted. */
const MAX_ALTERNATIVES = 256;

/** Most schemas merged at the top level. */
const MAX_MERGED = 1_000;

/**
 * Returns a schema that providers accept and that accepts every object of the original, against which calls
 * are validated. Top-level alternatives become one object; broken references accept anything. A legal schema
 * is returned unchanged.
 */
export function legalSchema(original: unknown, rules: SchemaRules = {}): LegalSchema {
  const root = asRecord(original) ?? {};
  const isPlain = root.type === "object" && isRecord(root.properties) &&
    !COMBINING.some((name) => name in root);
  const merged = isPlain ? { schema: root, notes: [] } : mergeTop(root);
  const walked = new Walker(root, merged.schema, rules).walk(merged.schema) as JsonRecord;
  const renamed = new Map<string, string>();
  let schema = rules.key ? renameKeys(walked, rules.key, renamed) : walked;
  // A fix may have removed a reference's target.
  for (;;) {
    const again = new Walker({}, schema, rules).walk(schema) as JsonRecord;
    if (again === schema) break;
    schema = again;
  }
  return { schema, renamed, ...(merged.notes.length > 0 && { note: merged.notes.join(" ") }) };
}

/** Keywords refused at the top level. */
const COMBINING: readonly string[] = ["$ref", "anyOf", "oneOf", "allOf", "enum", "const", "not"];

interface Shape {
  readonly properties: Map<string, unknown>;
  readonly required: Set<string>;
  readonly notes: ReadonlySet<string>;
}

function mergeTop(root: JsonRecord): { readonly schema: JsonRecord; readonly notes: readonly string[] } {
  const { properties, required, notes } = shapeOf(root, root);
  const target = resolved(root, root);
  const rest = Object.entries({ ...target, ...root }).filter(([name]) =>
    !COMBINING.includes(name) && !["type", "properties", "required"].includes(name)
  );
  const schema: JsonRecord = {
    type: "object",
    properties: Object.fromEntries(properties),
    ...(required.size > 0 && { required: [...required] }),
    ...Object.fromEntries(rest),
  };
  return { schema, notes: [...notes] };
}

/**
 * Returns the merged shape of a schema's alternatives.
 * @param known Visited schemas; recursive ones add nothing.
 */
function shapeOf(value: unknown, root: JsonRecord, known = new Map<unknown, Shape>()): Shape {
  const seen = known.get(value);
  if (seen) return seen;
  const properties = new Map<string, unknown>();
  const required = new Set<string>();
  const notes = new Set<string>();
  const node = known.size < MAX_MERGED ? resolved(asRecord(value), root) : undefined;
  if (!node) return { properties, required, notes };
  known.set(value, { properties: new Map(), required: new Set(), notes: new Set() });
  const add = (shape: Shape) => {
    for (const [name, one] of shape.properties) properties.set(name, either(properties.get(name), one));
    for (const note of shape.notes) notes.add(note);
  };
  for (const [name, one] of Object.entries(asRecord(node.properties) ?? {})) properties.set(name, one);
  for (const name of namesIn(node.required)) required.add(name);
  for (const part of listOf(node.allOf)) {
    const shape = shapeOf(part, root, known);
    add(shape);
    for (const name of shape.required) required.add(name);
  }
  for (const keyword of ["anyOf", "oneOf"]) {
    const shapes = listOf(node[keyword]).filter(mayBeObject).map((part) => shapeOf(part, root, known));
    shapes.forEach(add);
    const [first, ...others] = shapes;
    for (const name of first?.required ?? []) {
      if (others.every((other) => other.required.has(name))) required.add(name);
    }
    const described = shapes.map((shape) => [...shape.required].filter((name) => !required.has(name)))
      .filter((names) => names.length > 0);
    if (shapes.length < 2 || described.length === 0) continue;
    const sets = [...new Set(described.map((names) => names.join(" and ")))];
    if (sets.length > MAX_DESCRIBED) continue;
    notes.add(`Required: ${keyword === "oneOf" ? "exactly one" : "at least one"} of: ${sets.join("; ")}.`);
  }
  const shape = { properties, required, notes };
  known.set(value, shape);
  return shape;
}

function mayBeObject(value: unknown): boolean {
  const { type } = asRecord(value) ?? {};
  return value !== false && (type === undefined || [type].flat().includes("object"));
}

function either(one: unknown, other: unknown): unknown {
  if (one === undefined || one === false) return other;
  if (other === undefined || other === false) return one;
  if (JSON.stringify(one) === JSON.stringify(other)) return one;
  const [a, b] = [asRecord(one) ?? {}, asRecord(other) ?? {}];
  const [values, more] = [valuesOf(a), valuesOf(b)];
  if (values && more) {
    const { const: _, ...rest } = a;
    return { ...rest, enum: [...new Set([...values, ...more])] };
  }
  const known = Object.keys(a).length === 1 && Array.isArray(a.anyOf) ? a.anyOf : [a];
  if (known.length >= MAX_ALTERNATIVES) return {};
  const text = JSON.stringify(b);
  return known.some((each) => JSON.stringify(each) === text) ? one : { anyOf: [...known, b] };
}

function valuesOf(schema: JsonRecord): readonly unknown[] | undefined {
  if (schema.const !== undefined) return [schema.const];
  return Array.isArray(schema.enum) ? schema.enum : undefined;
}

function resolved(schema: JsonRecord | undefined, root: JsonRecord): JsonRecord | undefined {
  let node = schema;
  for (let refs = 0; node && node.$ref !== undefined && refs < MAX_REFS; refs++) {
    const { $ref: ref, ...rest }: JsonRecord = node;
    const target = asRecord(lookUp(root, ref));
    node = target === root ? rest : { ...target, ...rest };
  }
  if (!node || node.$ref === undefined) return node;
  const { $ref: _, ...rest } = node;
  return rest;
}

function lookUp(root: JsonRecord, ref: unknown): unknown {
  if (typeof ref !== "string" || !/^#(?:\/|$)/.test(ref)) return undefined;
  let at: unknown = root;
  for (const step of ref.split("/").slice(1)) {
    let name = step;
    try {
      name = decodeURIComponent(step);
    } catch {
      // A literal percent sign.
    }
    name = name.replaceAll("~1", "/").replaceAll("~0", "~");
    const holder = Array.isArray(at) ? at : asRecord(at);
    if (!holder || !Object.hasOwn(holder, name)) return undefined;
    at = (holder as Readonly<Record<string, unknown>>)[name];
  }
  return at;
}

const TYPES: readonly unknown[] = ["object", "array", "string", "number", "integer", "boolean", "null"];

const NAMED: readonly string[] = [
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
];
const LISTS: readonly string[] = ["anyOf", "oneOf", "allOf", "prefixItems"];
const SINGLE: readonly string[] = [
  "items",
  "additionalProperties",
  "not",
  "if",
  "then",
  "else",
  "contains",
  "propertyNames",
  "unevaluatedItems",
  "unevaluatedProperties",
];

/** Keywords that grammars ignore. */
const IGNORED_BY_GRAMMARS: readonly string[] = ["not", "if", "then", "else", "contains", "propertyNames"];

/** Keywords by which grammars recognize untyped schemas. */
const RECOGNIZED: readonly string[] = [
  "type",
  "$ref",
  "anyOf",
  "oneOf",
  "allOf",
  "const",
  "enum",
  "properties",
  "items",
  "prefixItems",
];

/** Largest bound that a grammar supports. */
const MAX_BOUND = 2_000;
const BOUNDS: readonly string[] = ["minLength", "maxLength", "minItems", "maxItems"];

/** Most nested schemas, beyond which anything is accepted. */
const MAX_NODES = 20_000;

/** References that need no decoding. */
const PLAIN_REF = /^#\/[^~%]+$/;

interface SchemaPlace {
  readonly depth: number;
  readonly refs: readonly unknown[];
  /** Whether it becomes part of a grammar. */
  readonly isInGrammar: boolean;
}

class Walker {
  readonly #original: JsonRecord;
  readonly #root: JsonRecord;
  readonly #rules: SchemaRules;
  #nodes = 0;

  constructor(original: JsonRecord, root: JsonRecord, rules: SchemaRules) {
    this.#original = original;
    this.#root = root;
    this.#rules = rules;
  }

  /** Returns the fixed schema; the same object if unchanged. */
  walk(value: unknown, at: SchemaPlace = { depth: 0, refs: [], isInGrammar: true }): unknown {
    const node = asRecord(value);
    if (!node || at.depth > MAX_DEPTH || ++this.#nodes > MAX_NODES) return {};
    const now: Record<string, unknown> = { ...node };
    const inside = { ...at, depth: at.depth + 1, refs: this.#fixRef(now, at.refs) };
    for (const fix of [fixType, fixItems, fixLimits, fixLists]) fix(now);
    if (this.#rules.makesGrammar && at.isInGrammar) fixForGrammar(now);
    for (const name of NAMED) this.#walkMembers(now, name, asRecord(now[name]), inside);
    for (const name of LISTS) this.#walkMembers(now, name, listOf(now[name]), inside);
    for (const name of SINGLE) {
      if (now[name] === undefined || typeof now[name] === "boolean" && name !== "items") continue;
      const fixed = this.walk(now[name], {
        ...inside,
        isInGrammar: at.isInGrammar && !IGNORED_BY_GRAMMARS.includes(name),
      });
      if (fixed === now[name]) continue;
      now[name] = fixed;
      // Relaxing a negation or condition would make the whole stricter.
      if (name === "not") delete now.not;
      else if (name === "if") { for (const part of ["if", "then", "else"]) delete now[part]; }
    }
    fixRequired(now);
    const isSame = Object.keys(now).length === Object.keys(node).length &&
      Object.entries(now).every(([name, one]) => one === node[name]);
    return isSame ? node : now;
  }

  /** Removes a broken reference, or inlines its original target. */
  #fixRef(node: Record<string, unknown>, refs: readonly unknown[]): readonly unknown[] {
    const { $ref: ref } = node;
    if (ref === undefined) return refs;
    const isFollowed = !this.#rules.makesGrammar || PLAIN_REF.test(String(ref));
    if (isFollowed && asRecord(lookUp(this.#root, ref))) return refs;
    delete node.$ref;
    const target = refs.includes(ref) ? undefined : asRecord(lookUp(this.#original, ref));
    for (const [name, one] of Object.entries(target ?? {})) {
      if (!Object.hasOwn(node, name) && name !== "$ref") node[name] = one;
    }
    return [...refs, ref];
  }

  #walkMembers(
    now: Record<string, unknown>,
    name: string,
    members: JsonRecord | readonly unknown[] | undefined,
    inside: SchemaPlace,
  ): void {
    if (now[name] === undefined) return;
    const entries = Object.entries(members ?? {});
    const fixed = entries.map(([key, one]) => [key, this.walk(one, inside)] as const);
    const isList = Array.isArray(members);
    if (!members || isList && entries.length === 0) delete now[name];
    else if (fixed.some(([, one], at) => one !== entries[at]![1])) {
      // Relaxed alternatives may overlap.
      const isExclusive = name === "oneOf" && now.anyOf === undefined;
      if (isExclusive) delete now.oneOf;
      now[isExclusive ? "anyOf" : name] = isList ? fixed.map(([, one]) => one) : Object.fromEntries(fixed);
    }
  }
}

type Fix = (node: Record<string, unknown>) => void;

const fixType: Fix = (node) => {
  const { type } = node;
  if (type === undefined || TYPES.includes(type)) return;
  const known = Array.isArray(type) ? type.filter((one) => TYPES.includes(one)) : [];
  if (known.length === 0) delete node.type;
  else if (!Array.isArray(type) || known.length < type.length) node.type = known;
};

const fixItems: Fix = (node) => {
  const { items, additionalItems, type } = node;
  if (Array.isArray(items)) {
    node.prefixItems ??= items;
    node.items = asRecord(additionalItems) ?? {};
  } else if (items === undefined ? [type].flat().includes("array") : !isRecord(items)) node.items = {};
  if (additionalItems !== undefined) delete node.additionalItems;
};

const fixLimits: Fix = (node) => {
  for (const [name, bound] of [["exclusiveMinimum", "minimum"], ["exclusiveMaximum", "maximum"]] as const) {
    if (typeof node[name] !== "boolean") continue;
    if (node[name] && typeof node[bound] === "number") {
      node[name] = node[bound];
      delete node[bound];
    } else delete node[name];
  }
  if (node.format !== undefined && typeof node.format !== "string") delete node.format;
  if (node.description !== undefined && typeof node.description !== "string") delete node.description;
};

const fixLists: Fix = (node) => {
  if (node.enum !== undefined && listOf(node.enum).length === 0) delete node.enum;
};

function fixRequired(node: Record<string, unknown>): void {
  const { required, properties } = node;
  if (required === undefined) return;
  const names = namesIn(required);
  const known = isRecord(properties) ? names.filter((name) => Object.hasOwn(properties, name)) : names;
  if (known.length === 0) delete node.required;
  else if (known.length !== listOf(required).length) node.required = known;
}

function fixForGrammar(node: Record<string, unknown>): void {
  const notes: string[] = [];
  if (node.pattern !== undefined && !isPlainPattern(node.pattern)) {
    if (typeof node.pattern === "string") notes.push(`Pattern: ${node.pattern}`);
    delete node.pattern;
  }
  for (const name of BOUNDS) {
    const bound = node[name];
    if (bound === undefined || typeof bound === "number" && bound <= MAX_BOUND) continue;
    notes.push(`${name}: ${bound}`);
    delete node[name];
  }
  if (notes.length > 0) {
    node.description = [node.description, ...notes].filter((text) => text !== undefined && text !== "").join(
      "\n",
    );
  }
  if (Object.keys(node).length > 0 && !RECOGNIZED.some((name) => name in node)) {
    delete node.not;
    node.type = ["string", "number", "boolean", "object", "array", "null"];
    node.items ??= {};
  }
}

/** Returns whether a pattern is anchored, with literals, sets, groups and small counts only. */
function isPlainPattern(pattern: unknown): boolean {
  return typeof pattern === "string" && /^\^[^]*[^\\]\$$|^\^\$$/.test(pattern) &&
    !/\\[A-Za-z0-9]|\(\?(?!:)|\{[^}]*\d{4}/.test(pattern) && !/[\^$]/.test(inner(pattern));
}

function inner(pattern: string): string {
  return pattern.slice(1, -1).replaceAll(/\\.|\[(?:\\.|[^\]])*\]/g, "");
}

function renameKeys(
  schema: JsonRecord,
  { pattern, legal }: NonNullable<SchemaRules["key"]>,
  renamed: Map<string, string>,
): JsonRecord {
  const properties = asRecord(schema.properties) ?? {};
  const names = Object.keys(properties);
  if (names.every((name) => pattern.test(name))) return schema;
  const nameOf = (name: string) => pattern.test(name) ? name : legal(name);
  for (const name of names) if (!pattern.test(name)) renamed.set(legal(name), name);
  const required = namesIn(schema.required).map(nameOf);
  return {
    ...schema,
    properties: Object.fromEntries(Object.entries(properties).map(([name, one]) => [nameOf(name), one])),
    ...(required.length > 0 && { required }),
  };
}

function namesIn(value: unknown): readonly string[] {
  return listOf(value).filter((name) => typeof name === "string");
}

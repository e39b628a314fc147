import { RE2JS } from "re2js";
import { Hashing } from "typebox/system";
import type { JsonSchema } from "@tare/messages";

export const MAX_DEPTH = 200;

/** Schemas once references are resolved, and instructions of all patterns. */
const [MAX_SCHEMAS, MAX_PATTERNS] = [5_000, 20_000];

/** How often a reference inside its own target is followed; deeper values are left to the tool. */
const MAX_RECURSIONS = 1;

/** Returns levels, values and characters of a value, up to one level more than the limit. */
export function sizeOf(
  value: unknown,
): { readonly depth: number; readonly values: number; readonly length: number } {
  let [depth, values, length] = [-1, 0, 0];
  for (let level = [value]; level.length > 0 && depth <= MAX_DEPTH; depth++) {
    values += level.length;
    for (const one of level) if (typeof one === "string") length += one.length;
    level = level.flatMap((one) => typeof one === "object" && one !== null ? Object.values(one) : []);
  }
  return { depth, values, length };
}

/** Keywords whose value is a schema or several, those whose value has some by name, and those without effect here. */
const SCHEMAS =
  /^(?:additional\w+|allOf|anyOf|contains|else|if|items|not|oneOf|prefixItems|propertyNames|then|unevaluated\w+)$/;
const NAMED_SCHEMAS = /^(?:dependencies|dependentSchemas|properties)$/;
const OMITTED = /^(?:\$.*|definitions|format|pattern|patternProperties|uniqueItems|__proto__)$/;

const TYPES: readonly unknown[] = ["array", "boolean", "integer", "null", "number", "object", "string"];

const refuse = (why: string) => new Error(`Cannot use the schema: ${why}`);

/** A schema for the validator, with its size: schemas and listed values, and instructions of its patterns. */
interface Prepared {
  readonly prepared: JsonSchema;
  readonly size: number;
  readonly patternSize: number;
}

/** Returns a copy with references resolved and linear patterns. @throws {Error} if it is invalid or exceeds a limit. */
export function prepareSchema(schema: JsonSchema): Prepared {
  if (sizeOf(schema).depth > MAX_DEPTH) throw refuse(`it is nested more than ${MAX_DEPTH} levels deep`);
  let [schemas, listed, patternSize] = [0, 0, 0];
  const prepared = Object(copy(schema, "", []));
  return { prepared, size: schemas + listed / 8, patternSize };

  function copy(value: unknown, place: string, open: readonly unknown[]): unknown {
    if (Array.isArray(value)) return value.map((one, index) => copy(one, `${place}.${index}`, open));
    if (++schemas > MAX_SCHEMAS) {
      throw refuse(`it holds more than ${MAX_SCHEMAS} schemas once its references are resolved`);
    }
    if (typeof value === "boolean") return value;
    if (typeof value !== "object" || value === null) {
      throw refuse(`${place.slice(1)} must be object or boolean`);
    }
    const { pattern, uniqueItems, ...fields } = value as Readonly<Record<string, unknown>>;
    if (![fields.type ?? []].flat().every((type) => TYPES.includes(type))) {
      throw refuse(`${`${place}.type`.slice(1)} must be of ${TYPES.join(", ")}`);
    }
    const made: Record<string, unknown> = {};
    for (const [key, inner] of Object.entries(fields)) {
      if (SCHEMAS.test(key)) made[key] = copy(inner, `${place}.${key}`, open);
      else if (NAMED_SCHEMAS.test(key)) {
        // What a property depends on may be names.
        const one = ([name, one]: [string, unknown]) =>
          [name, Array.isArray(one) ? one : copy(one, `${place}.${key}.${name}`, open)] as const;
        made[key] = Object.fromEntries(Object.entries(Object(inner)).map(one));
      } else if (key === "required" && Array.isArray(inner)) {
        // With another value among the names the validator would ignore all of them.
        made[key] = inner.filter((name) => typeof name === "string");
        listed += inner.length;
      } else if (!OMITTED.test(key)) {
        made[key] = inner;
        // Values of an `enum`, names of `required`.
        if (Array.isArray(inner)) listed += inner.length;
      }
    }
    // The validator's own patterns may take any time: properties that they name are left to the tool.
    if ("patternProperties" in fields) delete made.additionalProperties;
    const refinements = uniqueItems === true ? [UNIQUE] : [];
    if (typeof pattern === "string") refinements.push(linear(pattern, `${place}.pattern`));
    if (refinements.length > 0) made["~refine"] = refinements;
    // Schemas of schemas take any schema.
    const { $ref: ref } = fields;
    if (typeof ref !== "string" || /^https?:\/\/json-schema\.org\//.test(ref)) return made;
    const target = /^#(?:\/|$)/.test(ref) ? at(schema, decodeURIComponent(ref)) : undefined;
    if (target === undefined) throw refuse(`it refers to ${ref}, which isn't there`);
    if (open.filter((one) => one === target).length > MAX_RECURSIONS) return made;
    made.allOf = [...[made.allOf ?? []].flat(), copy(target, `${place}.$ref`, [...open, target])];
    return made;
  }

  function linear(source: string, place: string): Refinement {
    try {
      const expression = RE2JS.compile(RE2JS.translateRegExp(source));
      patternSize += expression.programSize();
      if (patternSize > MAX_PATTERNS) {
        throw new Error(`all together take more than ${MAX_PATTERNS} instructions`);
      }
      return {
        check: (text) => typeof text !== "string" || expression.test(text),
        error: () => `must match pattern "${source}"`,
      };
    } catch (error) {
      throw refuse(
        `${place.slice(1)} is ${
          JSON.stringify(source)
        }, and patterns must take linear time: no lookaround, no ` +
          `backreferences, no counts over 1000 (${(error as Error).message})`,
      );
    }
  }
}

/** Returns the value at a JSON pointer, `undefined` where there is none. */
export function at(value: unknown, pointer: string): unknown {
  const keys = pointer.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  return keys.reduce((inner: unknown, key) => Object(inner)[key], value);
}

interface Refinement {
  readonly check: (value: unknown) => boolean;
  readonly error: (value: unknown) => string;
}

/** In place of `uniqueItems`, whose faults the validator collects in quadratic time. */
const UNIQUE: Refinement = {
  check: (list) => !Array.isArray(list) || new Set(list.map(Hashing.Hash)).size === list.length,
  error: () => "must not have the same item twice",
};

import { Check } from "typebox/schema";
import type { JsonSchema } from "@tare/messages";
import { describeFaults } from "./describe_faults.ts";
import { MAX_DEPTH, prepareSchema, sizeOf } from "./prepare_schema.ts";

/** Limit of one check, two seconds at worst: schemas times values, and instructions of patterns times 100 characters. */
const MAX_WORK = 500_000;

/** Returns the faults of a value in one line; `undefined` if valid. `place` is its place in a larger value. */
export type SchemaCheck = (value: unknown, place?: string) => string | undefined;

/** Options of {@linkcode schemaChecker}. */
export interface SchemaCheckerOptions {
  /** Whether values may be of any size. Default: false: a check that would take long is refused. */
  readonly trusted?: boolean;
}

/**
 * Returns a function that names every fault of a value in one line, or `undefined` for a valid one. Schemas of any
 * draft may come from anywhere: no code is made of them, and patterns run in linear time, by
 * [RE2](https://github.com/google/re2/wiki/Syntax). `format`, properties that only
 * `patternProperties` may name, and recursion beyond two levels aren't checked.
 *
 * @param what Name of the whole value in faults. Default: `the value`.
 * @throws {Error} if the schema is invalid, is nested more than 200 levels deep, holds more than 5,000 schemas once its
 * references are resolved, refers to what is missing, or has a pattern that RE2 refuses.
 */
export function schemaChecker(
  schema: JsonSchema,
  what = "the value",
  { trusted = false }: SchemaCheckerOptions = {},
): SchemaCheck {
  const { prepared, size, patternSize } = prepareSchema(schema);
  return (given, place = "") => {
    const { depth, values, length } = sizeOf(given);
    if (depth > MAX_DEPTH) return `${place || what} must not be nested more than ${MAX_DEPTH} levels deep`;
    if (!trusted && size * (values + length / 1_000) + patternSize * length / 100 > MAX_WORK) {
      return `${place || what} must not be so large for its schema (${values} values, ${length} characters)`;
    }
    const value = withoutPrototypes(given);
    return Check(prepared, value) ? undefined : describeFaults(prepared, value, { what, place });
  };
}

/** The validator takes what an object inherits (`toString`) for one of its properties. */
function withoutPrototypes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutPrototypes);
  return Object.assign(
    Object.create(null),
    Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutPrototypes(inner)])),
  );
}

/**
 * Validates the arguments of a tool call against the tool's full JSON Schema, with TypeBox.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { argumentsParser } from "@tare/loop/arguments";
 *
 * const parse = argumentsParser({
 *   type: "function",
 *   function: {
 *     name: "read_file",
 *     parameters: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
 *   },
 * });
 * assertEquals(parse('{"path":"a.txt"}'), { ok: true, value: { path: "a.txt" } });
 * const bad = parse('{"file":"a.txt"}');
 * if (!bad.ok) assertStringIncludes(bad.problem, "must have required property 'path'");
 * ```
 *
 * @module
 */
import { Check } from "typebox/schema";
import type { JsonSchema, ToolDefinition } from "@tare/messages";
import { describeFaults } from "./describe_faults.ts";
import { MAX_DEPTH, prepareSchema, sizeOf } from "./prepare_schema.ts";

/** The arguments of a call, or the problem with them, as a text for the model. */
export type CheckedArguments =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string };

/**
 * Returns a function that parses and validates the arguments of calls to one tool. A problem contains the tool's full
 * definition: at the end of the prompt it costs no cache, and the model may have seen only the compact form.
 *
 * @throws {TypeError} if the tool's `parameters` are no JSON Schema or exceed a limit of {@linkcode schemaChecker}.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { argumentsParser } from "@tare/loop/arguments";
 *
 * const parse = argumentsParser({ type: "function", function: { name: "clock" } });
 * assertEquals(parse(""), { ok: true, value: {} });
 * assertEquals(parse("[").ok, false);
 * ```
 */
export function argumentsParser(tool: ToolDefinition): (argumentsText: string) => CheckedArguments {
  const { name, parameters = { type: "object" } } = tool.function;
  let faultsOf: SchemaCheck;
  try {
    faultsOf = schemaChecker(parameters, "the arguments");
  } catch (cause) {
    const { message } = cause as Error;
    throw new TypeError(`Cannot use tool ${name}: its parameters are no JSON Schema. ${message}`, { cause });
  }
  const refuse = (what: string) => ({
    ok: false as const,
    problem: `Cannot run ${name}: ${what}\nCall it again with arguments that fit its definition:\n` +
      JSON.stringify(tool.function),
  });
  return (argumentsText) => {
    let value: unknown;
    try {
      // Models call a tool without parameters with an empty text.
      value = JSON.parse(argumentsText.trim() || "{}");
    } catch (error) {
      return refuse(`its arguments are not valid JSON (${(error as SyntaxError).message}).`);
    }
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      return refuse("its arguments are not a JSON object.");
    }
    const faults = faultsOf(value);
    if (faults !== undefined) return refuse(`its arguments are invalid: ${faults}.`);
    return { ok: true, value: value as Readonly<Record<string, unknown>> };
  };
}

/** Limit of one check, two seconds at worst: schemas times values, and instructions of patterns times 100 characters. */
const MAX_WORK = 500_000;

/**
 * Returns the faults of a value in one line, or `undefined` for a valid value. `place` is the value's place if it is part of
 * a larger one.
 */
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
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { schemaChecker } from "@tare/loop/arguments";
 *
 * const faults = schemaChecker({ properties: { lines: { type: "integer", minimum: 1 } } });
 * assertEquals(faults({ lines: 3 }), undefined);
 * assertEquals(faults({ lines: 0 }, "calls.2"), "calls.2.lines must be >= 1");
 * ```
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

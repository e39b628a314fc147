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
import type { ToolDefinition } from "@tare/messages";
import { type SchemaCheck, schemaChecker } from "./schema_checker.ts";

/** The parsed arguments of a call, or a problem for the model. */
export type CheckedArguments =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string };

/**
 * Returns a function that parses and validates the arguments of calls to one tool. A problem contains the tool's full
 * definition: the model may have seen only the compact form, and the definition at the prompt's end doesn't affect the
 * cache.
 *
 * @throws {TypeError} if the tool's `parameters` are no JSON Schema, are nested more than 200 levels deep, hold more
 * than 5,000 schemas once their references are resolved, or have a pattern that RE2 refuses.
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
    throw new TypeError(`Cannot use tool ${name}: its parameters are not a valid JSON Schema. ${message}`, {
      cause,
    });
  }
  const refuse = (what: string) => ({
    ok: false as const,
    problem: `Cannot run ${name}: ${what}\nCall it again with arguments that match its definition:\n` +
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

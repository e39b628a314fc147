/**
 * Validates the arguments of a tool call against the tool's full JSON Schema, with
 * [Ajv](https://ajv.js.org) (draft 2020-12). Its own entry point, so that only those who validate load Ajv.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { argumentsParser } from "@tare/messages/arguments";
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
import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import type { ToolDefinition } from "./tool.ts";

/** Arguments that are valid, or a text that tells the model how to mend its call. */
export type ParsedArguments =
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string };

/**
 * Makes a function that parses and validates the arguments of calls to one tool. What it says of bad arguments
 * carries the tool's full definition: teaching at the end of the prompt costs no cache, and the model may have
 * been shown only the compact form.
 *
 * @throws {TypeError} if the tool's `parameters` are no JSON Schema.
 */
export function argumentsParser(tool: ToolDefinition): (argumentsText: string) => ParsedArguments {
  const validate = compile(tool);
  const refuse = (what: string): ParsedArguments => ({
    ok: false,
    problem:
      `Cannot run ${tool.function.name}: ${what}\nCall it again with arguments that fit its definition:\n` +
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
    if (!validate(value)) return refuse(`its arguments are invalid: ${describe(validate.errors ?? [])}.`);
    return { ok: true, value: value as Readonly<Record<string, unknown>> };
  };
}

function compile(tool: ToolDefinition) {
  const { $schema: _, ...parameters } = tool.function.parameters ?? { type: "object" };
  try {
    // One instance a tool: schemas of different tools may carry the same `$id`.
    return new Ajv2020({ strict: false, allErrors: true, validateFormats: false }).compile(parameters);
  } catch (cause) {
    throw new TypeError(
      `Cannot use tool ${tool.function.name}: its parameters are no JSON Schema: ${(cause as Error).message}`,
      { cause },
    );
  }
}

function describe(errors: readonly ErrorObject[]): string {
  return errors.map((error) => {
    const where = error.instancePath === ""
      ? "the arguments"
      : error.instancePath.slice(1).replaceAll("/", ".");
    const detail = error.keyword === "additionalProperties"
      ? ` ('${error.params.additionalProperty}')`
      : error.keyword === "enum"
      ? ` (${JSON.stringify(error.params.allowedValues)})`
      : "";
    return `${where} ${error.message ?? error.keyword}${detail}`;
  }).join("; ");
}

/**
 * Validates the arguments of a tool call against the tool's full JSON Schema (draft 2020-12), with
 * [TypeBox](https://github.com/sinclairzx81/typebox). Its own entry point, so that only those who validate load that.
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
import { checkGiven } from "./check_given.ts";
import { schemaChecker } from "./schema_checker.ts";
import type { ToolDefinition } from "./tool.ts";

export { schemaChecker };

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
  checkGiven("argumentsParser()", { tool }, { tool: { function: { name: "string" } } });
  const faultsOf = checkerOf(tool);
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
    const faults = faultsOf(value);
    if (faults !== undefined) return refuse(`its arguments are invalid: ${faults}.`);
    return { ok: true, value: value as Readonly<Record<string, unknown>> };
  };
}

function checkerOf(tool: ToolDefinition): (value: unknown) => string | undefined {
  try {
    return schemaChecker(tool.function.parameters ?? { type: "object" }, "the arguments");
  } catch (cause) {
    throw new TypeError(
      `Cannot use tool ${tool.function.name}: its parameters are no JSON Schema. ${(cause as Error).message}`,
      { cause },
    );
  }
}

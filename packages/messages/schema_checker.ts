import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import type { JsonSchema } from "./tool.ts";

/**
 * Compiles a JSON Schema (draft 2020-12; `format` isn't checked) into a function that names every fault of a value in
 * one line, or gives `undefined` for a valid one.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { schemaChecker } from "@tare/messages/arguments";
 *
 * const faults = schemaChecker({ properties: { lines: { type: "integer", minimum: 1 } } });
 * assertEquals(faults({ lines: 3 }), undefined);
 * assertEquals(faults({ lines: 0 }), "lines must be >= 1");
 * ```
 *
 * @param schema The schema. Its `$schema` is ignored.
 * @param what How the whole value is called in a fault. Default: `the value`.
 * @throws {Error} if the schema itself is invalid.
 * @throws {EvalError} where code may not be made of text, which Ajv needs: on workerd, and in pages whose content security
 * policy says so.
 */
export function schemaChecker(
  schema: JsonSchema,
  what = "the value",
): (value: unknown) => string | undefined {
  const { $schema: _, ...rest } = schema;
  // One instance a schema: schemas of different tools may carry the same `$id`.
  const validate = new Ajv2020({ strict: false, allErrors: true, validateFormats: false }).compile(rest);
  return (value) => validate(value) ? undefined : describe(validate.errors ?? [], what);
}

function describe(errors: readonly ErrorObject[], what: string): string {
  return errors
    // An `if` repeats what its `then` or `else` has said.
    .filter((error) => error.keyword !== "if")
    .map((error) => {
      const where = error.instancePath === "" ? what : error.instancePath.slice(1).replaceAll("/", ".");
      const detail = error.keyword === "additionalProperties"
        ? ` ('${error.params.additionalProperty}')`
        : error.keyword === "enum"
        ? ` (${JSON.stringify(error.params.allowedValues)})`
        : "";
      return `${where} ${error.message ?? error.keyword}${detail}`;
    })
    .join("; ");
}

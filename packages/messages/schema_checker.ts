import { Ajv2020 } from "ajv/dist/2020.js";
import { describeFaults } from "./describe_faults.ts";
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
  const validate = new Ajv2020({ strict: false, allErrors: true, verbose: true, validateFormats: false })
    .compile(rest);
  return (value) => validate(value) ? undefined : describeFaults(validate.errors ?? [], what);
}

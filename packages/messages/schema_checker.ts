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
  const compile = (allErrors: boolean) =>
    new Ajv2020({ strict: false, allErrors, verbose: true, validateFormats: false }).compile(rest);
  const first = compile(false);
  let all: ReturnType<typeof compile> | undefined;
  return (value) => {
    if (first(value)) return undefined;
    // Each wrong value of a large list would be a fault, and memory would run out before the last.
    if (!isSmall(value)) return describeFaults(first.errors ?? [], what);
    all ??= compile(true);
    all(value);
    return describeFaults(all.errors ?? [], what);
  };
}

/** Of a value with more members not all faults are told, but the first. */
const MAX_MEMBERS = 10_000;

function isSmall(value: unknown): boolean {
  let left = MAX_MEMBERS;
  const waiting = [[value]];
  for (let members = waiting.pop(); members; members = waiting.pop()) {
    left -= members.length;
    if (left < 0) return false;
    for (const member of members) {
      if (typeof member === "object" && member !== null) waiting.push(Object.values(member));
    }
  }
  return true;
}

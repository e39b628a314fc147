import { Check, ErrorContext, ErrorSchema, Stack } from "typebox/schema";
import { Settings } from "typebox/system";
import { checkGiven } from "./check_given.ts";
import { describeFaults, type FaultAt } from "./describe_faults.ts";
import { KEYWORDS, linkSchema, originalOf } from "./linked_schema.ts";
import type { JsonSchema } from "./tool.ts";

/** So many faults of a value are collected: each wrong one of a large list would fill the memory. */
const MAX_COLLECTED = 1000;

/**
 * Makes of a JSON Schema (draft 2020-12, with the lists of `items` that earlier ones had; `format` isn't checked) a
 * function that names every fault of a value in one line, or gives `undefined` for a valid one. No code is made of the
 * schema, so that it may come from anywhere and is checked wherever modules run.
 *
 * That takes some microseconds for each object of a value. For large ones a compiler of the same library is forty times
 * as fast: `Compile` of `typebox/schema`, for schemas that are trusted.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { schemaChecker } from "@tare/messages/arguments";
 *
 * const faults = schemaChecker({ properties: { lines: { type: "integer", minimum: 1 } } });
 * assertEquals(faults({ lines: 3 }), undefined);
 * assertEquals(faults({ lines: 0 }), "lines must be >= 1");
 * assertEquals(faults({ lines: 0 }, "calls.2"), "calls.2.lines must be >= 1");
 * ```
 *
 * @param schema The schema. Its `$schema` is ignored, and what refers to a schema of schemas takes any.
 * @param what How the whole value is called in a fault. Default: `the value`.
 * @returns A function of the value, and of the place where that stands, if it is a part of a larger one.
 * @throws {Error} if the schema itself is invalid, or refers to what isn't there.
 */
export function schemaChecker(
  schema: JsonSchema,
  what = "the value",
): (value: unknown, place?: string) => string | undefined {
  checkGiven("schemaChecker()", { schema }, { schema: "object" });
  const linked = linkSchema(schema, (inner, place) => {
    if (Check(KEYWORDS, inner)) return;
    throw new Error(`Cannot use the schema: ${describeFaults(faultsOf(KEYWORDS, inner, place), "it")}`);
  });
  const text = JSON.stringify(schema);
  const namesInherited = INHERITED.some((name) => text.includes(`"${name}"`));
  return (given, place = "") => {
    const value = namesInherited ? bare(given) : given;
    if (Check(linked, value)) return undefined;
    const instancePath = place === "" ? "" : `/${place.replaceAll(".", "/")}`;
    return describeFaults(faultsOf(linked, value, instancePath), what);
  };
}

/** What every object has by its prototype, which the validator takes for its own. */
const INHERITED = Object.getOwnPropertyNames(Object.prototype);

/** A copy of a value whose objects have no prototypes. */
function bare(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(bare);
  const entries = Object.entries(value).map((
    [key, inner],
  ) => [key, { value: bare(inner), enumerable: true }]);
  return Object.create(null, Object.fromEntries(entries));
}

function faultsOf(schema: JsonSchema, value: unknown, instancePath: string): readonly FaultAt[] {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: MAX_COLLECTED });
  try {
    return collect(schema, value, { root: schema, schemaPath: "#", instancePath });
  } finally {
    Settings.Set({ maxErrors });
  }
}

/** Where a schema and a value stand in the whole ones. */
interface Place {
  readonly root: JsonSchema;
  readonly schemaPath: string;
  readonly instancePath: string;
}

function collect(schema: unknown, value: unknown, { root, schemaPath, instancePath }: Place): FaultAt[] {
  const context = new ErrorContext();
  ErrorSchema(Stack({}, root), context, schemaPath, instancePath, schema as JsonSchema, value);
  return context.GetErrors().flatMap((error): FaultAt[] => {
    const holder = Object(at(root, error.schemaPath));
    if (error.keyword !== "if") return [{ ...error, holder: originalOf(holder) }];
    // An `else` has told its faults, a `then` hasn't.
    if (error.params.failingKeyword === "else") return [];
    return collect(holder.then, at(value, error.instancePath.slice(instancePath.length)), {
      root,
      schemaPath: `${error.schemaPath}/then`,
      instancePath: error.instancePath,
    });
  });
}

/** What stands at a JSON pointer, `undefined` where nothing does. */
function at(value: unknown, pointer: string): unknown {
  return pointer.split("/").slice(1).reduce(
    (inner: unknown, key) => Object(inner)[key.replaceAll("~1", "/").replaceAll("~0", "~")],
    value,
  );
}

import { Ajv2020, type ErrorObject } from "ajv/dist/2020.js";
import type { JsonSchema } from "./tool.ts";

/** So many faults are told. */
const MAX_FAULTS = 20;

/** So many names or values that would be right are told. */
const MAX_NAMES = 20;

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

/** One thing that is wrong, in words for people. */
interface Fault {
  readonly error: ErrorObject;
  readonly says: string;
}

/**
 * Says in one line what is wrong with a value: where, and what would be right there. Of a choice of schemas none of
 * which fits, it says what is wrong with the one that fits best.
 *
 * @param what How the whole value is called.
 */
function describeFaults(errors: readonly ErrorObject[], what: string): string {
  const faults: Fault[] = [];
  for (const error of errors) {
    // An `if` repeats what its `then` or `else` has said.
    if (error.keyword === "if") continue;
    if (error.keyword !== "anyOf" && error.keyword !== "oneOf") {
      faults.push({ error, says: says(error) });
      continue;
    }
    // What is wrong with each of a choice's schemas stands right before it.
    let start = faults.length;
    while (start > 0 && isInside(faults[start - 1]?.error, error)) start--;
    faults.push(...choose(faults.splice(start), error));
  }
  const told = [...new Set(faults.map(({ error, says }) => `${placeOf(error, what)} ${says}`))];
  const more = told.length > MAX_FAULTS ? `; and ${told.length - MAX_FAULTS} more` : "";
  return `${told.slice(0, MAX_FAULTS).join("; ")}${more}`;
}

function placeOf({ instancePath }: ErrorObject, what: string): string {
  return instancePath === "" ? what : instancePath.slice(1).replaceAll("/", ".");
}

function isInside(error: ErrorObject | undefined, choice: ErrorObject): boolean {
  return error?.schemaPath.startsWith(`${choice.schemaPath}/`) ?? false;
}

/** The faults of that schema of a choice that fits best; where only the kind of value is wrong, all kinds in one. */
function choose(faults: readonly Fault[], choice: ErrorObject): readonly Fault[] {
  const branches = Object.values(
    Object.groupBy(
      faults,
      ({ error }) => error.schemaPath.slice(choice.schemaPath.length).split("/")[1] ?? "",
    ),
  ).filter((branch) => branch !== undefined);
  if (branches.length === 0) return [{ error: choice, says: overlap(choice) }];
  const isOnly = (keyword: string) =>
    branches.every(([fault, ...rest]) =>
      rest.length === 0 && isAt(fault, choice, 0) && fault?.error.keyword === keyword
    );
  const params = branches.map(([fault]) => fault?.error.params ?? {});
  if (isOnly("required")) {
    const names = params.map(({ missingProperty }) => `'${missingProperty}'`);
    return [{ error: choice, says: `must have ${either(names)}` }];
  }
  if (isOnly("type")) {
    return [{ error: choice, says: `must be ${either(params.flatMap(({ type }) => type))}` }];
  }
  return branches.toSorted((a, b) => misfit(a, choice) - misfit(b, choice) || a.length - b.length)[0] ?? [];
}

/** What is wrong with a value that several schemas of a choice fit, though only one may. */
function overlap({ schema }: ErrorObject): string {
  const names = [schema].flat().flatMap((one) => Object(one).required ?? []);
  return names.length === 0
    ? "must fit exactly one of its kinds"
    : `must not have ${names.map((name) => `'${name}'`).join(" and ")} together`;
}

/** How many of the faults say that another of the schemas was meant: the kind of value, or the name of its kind. */
function misfit(branch: readonly Fault[], choice: ErrorObject): number {
  return branch.filter((fault) => {
    const { keyword } = fault.error;
    return keyword === "type"
      ? isAt(fault, choice, 0)
      : keyword === "const" || keyword === "enum"
      ? isAt(fault, choice, 1)
      : false;
  }).length;
}

/** Whether a fault is at the choice's own place, or at most so many steps inside. */
function isAt(fault: Fault | undefined, { instancePath }: ErrorObject, steps: number): boolean {
  const inside = fault?.error.instancePath.slice(instancePath.length) ?? "";
  return inside.split("/").length - 1 <= steps;
}

function says({ keyword, params, message, schema, parentSchema }: ErrorObject): string {
  switch (keyword) {
    case "additionalProperties":
    case "unevaluatedProperties": {
      const known = Object.keys(parentSchema?.properties ?? {});
      const right = known.length === 0 ? "" : ` (it takes ${shorten(known).join(", ")})`;
      return `must not have '${params.additionalProperty ?? params.unevaluatedProperty}'${right}`;
    }
    case "type":
      return `must be ${either([params.type].flat())}`;
    case "enum":
      return `must be ${
        either(shorten(params.allowedValues.map((value: unknown) => JSON.stringify(value))))
      }`;
    case "const":
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case "minLength":
    case "minItems":
    case "minProperties":
      return params.limit === 1
        ? "must not be empty"
        : `must have at least ${params.limit} ${unitOf(keyword)}`;
    case "maxLength":
    case "maxItems":
    case "maxProperties":
      return `must have at most ${params.limit} ${unitOf(keyword)}`;
    case "uniqueItems":
      return `must not have the same item twice (items ${params.j} and ${params.i} are the same)`;
    case "not": {
      const { required } = Object(schema) as { readonly required?: readonly string[] };
      if (required) return `must not have ${required.map((name) => `'${name}'`).join(" and ")} together`;
      return `must not fit ${JSON.stringify(schema)}`;
    }
    case "false schema":
      return "must not be there";
    case "propertyNames":
      return `must not have a property named '${params.propertyName}'`;
    default:
      return message ?? keyword;
  }
}

function unitOf(keyword: string): string {
  return keyword.endsWith("Length") ? "characters" : keyword.endsWith("Items") ? "items" : "properties";
}

function shorten(names: readonly string[]): readonly string[] {
  return names.length > MAX_NAMES ? [...names.slice(0, MAX_NAMES), "…"] : names;
}

function either(names: readonly string[]): string {
  return [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" or ");
}

import type { JsonSchema } from "@tare/messages";
import { Check, ErrorContext, ErrorSchema, Stack } from "typebox/schema";
import { RE2JS } from "re2js";
import { Hashing, Locale, Settings } from "typebox/system";
import type { TValidationError } from "typebox/error";

/** Work limit of a check, at most two seconds. */
const MAX_WORK = 500_000;

/** Returns the faults of a value in one line; `undefined` if valid. `place` is its path in a larger value. */
export type SchemaCheck = (value: unknown, place?: string) => string | undefined;

/** Options of {@linkcode schemaChecker}. */
export interface SchemaCheckerOptions {
  /** Whether checks have no work limit. Default: false. */
  readonly trusted?: boolean;
}

/**
 * Returns a function that returns every fault of a value in one line, or `undefined` if it is valid. Schemas of any
 * draft may be untrusted: no code is generated, and patterns run in linear time by
 * [RE2](https://github.com/google/re2/wiki/Syntax). Not checked: `format`, properties that only `patternProperties`
 * matches, and recursion beyond two levels.
 *
 * @param what Name of the whole value in faults. Default: `the value`.
 * @throws {Error} if the schema is invalid, is nested more than 200 levels deep, holds more than 5,000 schemas once its
 * references are resolved, contains a dangling reference, or has a pattern that RE2 rejects.
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
      return `${place || what} is too large for its schema (${values} values, ${length} characters)`;
    }
    const value = withoutPrototypes(given);
    return Check(prepared, value) ? undefined : describeFaults(prepared, value, { what, place });
  };
}

/** Removes prototypes: the validator would accept inherited properties such as `toString`. */
function withoutPrototypes(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) return value.map(withoutPrototypes);
  return Object.assign(
    Object.create(null),
    Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, withoutPrototypes(inner)])),
  );
}

const MAX_DEPTH = 200;

/** Limits after references are resolved; of patterns, in instructions. */
const [MAX_SCHEMAS, MAX_PATTERNS] = [5_000, 20_000];

/** How often a reference inside its own target is followed. Deeper values aren't checked. */
const MAX_RECURSIONS = 1;

/** Counts up to one level more than the limit. */
function sizeOf(
  value: unknown,
): { readonly depth: number; readonly values: number; readonly length: number } {
  let [depth, values, length] = [-1, 0, 0];
  for (let level = [value]; level.length > 0 && depth <= MAX_DEPTH; depth++) {
    values += level.length;
    for (const one of level) if (typeof one === "string") length += one.length;
    level = level.flatMap((one) => typeof one === "object" && one !== null ? Object.values(one) : []);
  }
  return { depth, values, length };
}

const SCHEMAS =
  /^(?:additional\w+|allOf|anyOf|contains|else|if|items|not|oneOf|prefixItems|propertyNames|then|unevaluated\w+)$/;
const NAMED_SCHEMAS = /^(?:dependencies|dependentSchemas|properties)$/;
const OMITTED = /^(?:\$.*|definitions|format|pattern|patternProperties|uniqueItems|__proto__)$/;

const TYPES: readonly unknown[] = ["array", "boolean", "integer", "null", "number", "object", "string"];

const refuse = (why: string) => new Error(`Cannot use the schema: ${why}`);

interface Prepared {
  readonly prepared: JsonSchema;
  readonly size: number;
  readonly patternSize: number;
}

/** Returns a copy with references resolved and linear patterns. @throws {Error} if it is invalid or exceeds a limit. */
function prepareSchema(schema: JsonSchema): Prepared {
  if (sizeOf(schema).depth > MAX_DEPTH) throw refuse(`it is nested more than ${MAX_DEPTH} levels deep`);
  let [schemas, listed, patternSize] = [0, 0, 0];
  const prepared = Object(copy(schema, "", []));
  return { prepared, size: schemas + listed / 8, patternSize };

  function copy(value: unknown, place: string, open: readonly unknown[]): unknown {
    if (Array.isArray(value)) return value.map((one, index) => copy(one, `${place}.${index}`, open));
    if (++schemas > MAX_SCHEMAS) {
      throw refuse(`it holds more than ${MAX_SCHEMAS} schemas once its references are resolved`);
    }
    if (typeof value === "boolean") return value;
    if (typeof value !== "object" || value === null) {
      throw refuse(`${place.slice(1)} must be object or boolean`);
    }
    const { pattern, uniqueItems, ...fields } = value as Readonly<Record<string, unknown>>;
    if (![fields.type ?? []].flat().every((type) => TYPES.includes(type))) {
      throw refuse(`${`${place}.type`.slice(1)} must be one of ${TYPES.join(", ")}`);
    }
    const made: Record<string, unknown> = {};
    for (const [key, inner] of Object.entries(fields)) {
      if (SCHEMAS.test(key)) made[key] = copy(inner, `${place}.${key}`, open);
      else if (NAMED_SCHEMAS.test(key)) {
        // `dependencies` may list names.
        const one = ([name, one]: [string, unknown]) =>
          [name, Array.isArray(one) ? one : copy(one, `${place}.${key}.${name}`, open)] as const;
        made[key] = Object.fromEntries(Object.entries(Object(inner)).map(one));
      } else if (key === "required" && Array.isArray(inner)) {
        // The validator ignores the whole list if it contains other values.
        made[key] = inner.filter((name) => typeof name === "string");
        listed += inner.length;
      } else if (!OMITTED.test(key)) {
        made[key] = inner;
        if (Array.isArray(inner)) listed += inner.length;
      }
    }
    // The validator's own patterns may take exponential time: properties that match them aren't checked.
    if ("patternProperties" in fields) delete made.additionalProperties;
    const refinements = uniqueItems === true ? [UNIQUE] : [];
    if (typeof pattern === "string") refinements.push(linear(pattern, `${place}.pattern`));
    if (refinements.length > 0) made["~refine"] = refinements;
    // A meta-schema accepts any schema.
    const { $ref: ref } = fields;
    if (typeof ref !== "string" || /^https?:\/\/json-schema\.org\//.test(ref)) return made;
    const target = /^#(?:\/|$)/.test(ref) ? at(schema, decodeURIComponent(ref)) : undefined;
    if (target === undefined) throw refuse(`its reference ${ref} has no target`);
    if (open.filter((one) => one === target).length > MAX_RECURSIONS) return made;
    made.allOf = [...[made.allOf ?? []].flat(), copy(target, `${place}.$ref`, [...open, target])];
    return made;
  }

  function linear(source: string, place: string): Refinement {
    try {
      const expression = RE2JS.compile(RE2JS.translateRegExp(source));
      patternSize += expression.programSize();
      if (patternSize > MAX_PATTERNS) {
        throw new Error(`together they have more than ${MAX_PATTERNS} instructions`);
      }
      return {
        check: (text) => typeof text !== "string" || expression.test(text),
        error: () => `must match pattern "${source}"`,
      };
    } catch (error) {
      throw refuse(
        `${place.slice(1)} is ${
          JSON.stringify(source)
        }, and patterns must take linear time: no lookaround, no ` +
          `backreferences, no counts over 1000 (${(error as Error).message})`,
      );
    }
  }
}

function at(value: unknown, pointer: string): unknown {
  const keys = pointer.split("/").slice(1).map((key) => key.replaceAll("~1", "/").replaceAll("~0", "~"));
  return keys.reduce((inner: unknown, key) => Object(inner)[key], value);
}

interface Refinement {
  readonly check: (value: unknown) => boolean;
  readonly error: (value: unknown) => string;
}

/** Replaces `uniqueItems`, whose faults the validator collects in quadratic time. */
const UNIQUE: Refinement = {
  check: (list) => !Array.isArray(list) || new Set(list.map(Hashing.Hash)).size === list.length,
  error: () => "must not have the same item twice",
};

const [MAX_COLLECTED, MAX_FAULTS, MAX_NAMES] = [1_000, 20, 20];

interface Fault {
  readonly error: TValidationError;
  readonly message: string;
}

function describeFaults(
  schema: JsonSchema,
  value: unknown,
  { what, place }: { readonly what: string; readonly place: string },
): string {
  const { maxErrors } = Settings.Get();
  Settings.Set({ maxErrors: MAX_COLLECTED });
  try {
    const instancePath = place === "" ? "" : `/${place.replaceAll(".", "/")}`;
    const faults = collect(schema, value, { root: schema, schemaPath: "#", instancePath });
    const placeOf = ({ instancePath: path }: TValidationError) => path.slice(1).replaceAll("/", ".") || what;
    const lines = [...new Set(faults.map(({ error, message }) => `${placeOf(error)} ${message}`))];
    const more = lines.length > MAX_FAULTS ? `; and ${lines.length - MAX_FAULTS} more` : "";
    return `${lines.slice(0, MAX_FAULTS).join("; ")}${more}`;
  } finally {
    Settings.Set({ maxErrors });
  }
}

function collect(
  schema: JsonSchema,
  value: unknown,
  { root, schemaPath, instancePath }: {
    readonly root: JsonSchema;
    readonly schemaPath: string;
    readonly instancePath: string;
  },
): Fault[] {
  const context = new ErrorContext();
  ErrorSchema(Stack({}, root), context, schemaPath, instancePath, schema, value);
  const faults: Fault[] = [];
  for (const error of context.GetErrors()) {
    const holder = Object(at(root, error.schemaPath));
    if (error.keyword === "if") {
      // The validator reports the faults of an `else`, but not of a `then`.
      if (error.params.failingKeyword === "else") continue;
      const inner = at(value, error.instancePath.slice(instancePath.length));
      const place = { root, schemaPath: `${error.schemaPath}/then`, instancePath: error.instancePath };
      faults.push(...collect(holder.then, inner, place));
    } else if (error.keyword === "anyOf" || error.keyword === "oneOf") {
      faults.push(...choose(takeInside(faults, error), error, holder));
    } else if (error.keyword === "additionalProperties" && holder.additionalProperties !== false) {
      // Its faults are reported before it.
    } else {
      if (/^(?:additionalProperties|propertyNames)$/.test(error.keyword)) takeInside(faults, error);
      faults.push(...messagesOf(error, holder).map((message) => ({ error, message })));
    }
  }
  return faults;
}

function takeInside(
  faults: Fault[],
  { schemaPath, keyword, instancePath }: TValidationError,
): readonly Fault[] {
  const isInside = ({ error }: Fault) =>
    `${error.schemaPath}/`.startsWith(`${schemaPath}/${keyword}/`) &&
    `${error.instancePath}/`.startsWith(`${instancePath}/`);
  return faults.splice(faults.findLastIndex((fault) => !isInside(fault)) + 1);
}

/** Returns the faults of the branch whose type and discriminating constants match best. */
function choose(faults: readonly Fault[], choice: TValidationError, holder: JsonSchema): readonly Fault[] {
  const inside = `${choice.schemaPath}/${choice.keyword}/`.length;
  const branches = [
    ...Map.groupBy(faults, ({ error }) => error.schemaPath.slice(inside).split("/")[0]).values(),
  ];
  const depth = ({ error }: Fault) =>
    error.instancePath.slice(choice.instancePath.length).split("/").length - 1;
  if (branches.length === 0) {
    const names = [holder[choice.keyword]].flat().flatMap((one) => Object(one).required ?? []);
    const message = names.length === 0 ? Locale.en_US(choice) : together(names);
    return [{ error: choice, message }];
  }
  const single = branches.flatMap((branch) =>
    branch.length === 1 && depth(branch[0]!) === 0 ? [branch[0]!.error] : []
  );
  const wanted = single.flatMap(({ keyword, params }) =>
    keyword === "type" ? params.type : keyword === "required" ? params.requiredProperties.map(quote) : []
  );
  if (
    single.length === branches.length && new Set(single.map(({ keyword }) => keyword)).size === 1 &&
    wanted.length > 0
  ) {
    return [{
      error: choice,
      message: `must ${single[0]!.keyword === "type" ? "be" : "have"} ${either(wanted)}`,
    }];
  }
  const misfits = (branch: readonly Fault[]) =>
    branch.filter((fault) =>
      depth(fault) <= ({ type: 0, const: 1, enum: 1 }[fault.error.keyword as string] ?? -1)
    ).length;
  return branches.toSorted((a, b) => misfits(a) - misfits(b) || a.length - b.length)[0]!;
}

function messagesOf(error: TValidationError, holder: JsonSchema): readonly string[] {
  const { keyword, params } = error;
  switch (keyword) {
    case "required":
      return params.requiredProperties.map((name) => `must have required property ${quote(name)}`);
    case "additionalProperties": {
      const known = Object.keys(Object(holder.properties));
      const right = known.length === 0 ? "" : ` (allowed: ${shorten(known).join(", ")})`;
      return params.additionalProperties.map((name) => `must not have ${quote(name)}${right}`);
    }
    case "type":
      return [`must be ${either([params.type].flat())}`];
    case "enum":
      return [`must be ${either(shorten(params.allowedValues.map((value) => JSON.stringify(value))))}`];
    case "const":
      return [`must be ${JSON.stringify(params.allowedValue)}`];
    case "minLength":
    case "minItems":
      return [params.limit === 1 ? "must not be empty" : Locale.en_US(error)];
    case "not":
      return [
        Array.isArray(Object(holder.not).required)
          ? together(Object(holder.not).required)
          : Locale.en_US(error),
      ];
    default:
      return [Locale.en_US(error)];
  }
}

function together(names: readonly string[]): string {
  return `must not have ${names.map(quote).join(" and ")} together`;
}

function quote(name: string): string {
  return `'${name}'`;
}

function shorten(names: readonly string[]): readonly string[] {
  return names.length > MAX_NAMES ? [...names.slice(0, MAX_NAMES), "…"] : names;
}

function either(names: readonly string[]): string {
  return [names.slice(0, -1).join(", "), names.at(-1)].filter(Boolean).join(" or ");
}

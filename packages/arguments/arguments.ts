/**
 * Validates the arguments of a tool call against the tool's full JSON Schema (draft 2020-12), with
 * [TypeBox](https://github.com/sinclairzx81/typebox). Its own entry point, so that only those who validate load that.
 *
 * @example
 * ```ts
 * import { assertEquals, assertStringIncludes } from "@std/assert";
 * import { argumentsParser } from "@tare/arguments";
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
import { Check, ErrorContext, ErrorSchema, NextStack, Resolve, Stack } from "typebox/schema";
import { Hashing, Settings } from "typebox/system";
import type { TValidationError } from "typebox/error";
import { RE2JS, RE2JSException } from "re2js";
import type { JsonSchema, ToolDefinition } from "@tare/messages";
import { checkGiven } from "@tare/messages/internal";

/**
 * Makes a function that parses and validates the arguments of calls to one tool. What it says of bad arguments
 * carries the tool's full definition: teaching at the end of the prompt costs no cache, and the model may have
 * been shown only the compact form.
 *
 * @throws {TypeError} if the tool's `parameters` are no JSON Schema.
 */
export function argumentsParser(tool: ToolDefinition): (argumentsText: string) =>
  | { readonly ok: true; readonly value: Readonly<Record<string, unknown>> }
  | { readonly ok: false; readonly problem: string } {
  checkGiven("argumentsParser()", { tool }, { tool: { function: { name: "string" } } });
  const faultsOf = checkerOf(tool);
  const refuse = (what: string) => ({
    ok: false as const,
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

/** So many faults of a value are collected: each wrong one of a large list would fill the memory. */
const MAX_COLLECTED = 1000;

/** So many levels a schema may have, and a value. */
const MAX_DEPTH = 200;

/** So many steps one check may take: a schema held against a value is one, and more if it lists much. Some 0.2 s. */
const MAX_STEPS = 200_000;

/** So large may the patterns of one schema be together, in instructions of their engine. */
const MAX_PATTERNS = 20_000;

/** So many lists and objects a schema may hold. */
const MAX_HOLDERS = 10_000;

/** So long may what its references mean be searched for, in lists and objects; an anchor's takes eight times as long. */
const MAX_SEARCHED = 2_000_000;

/** An instruction of a pattern for each so many characters of a text are a step. */
const PATTERN_STEP = 100;

/**
 * Makes of a JSON Schema (draft 2020-12, with the lists of `items` that earlier ones had; `format` isn't checked) a
 * function that names every fault of a value in one line, or gives `undefined` for a valid one. No code is made of the
 * schema, so that it may come from anywhere and is checked wherever modules run. Nor can it keep the caller: its
 * patterns run in linear time, as [RE2](https://github.com/google/re2/wiki/Syntax) does, and what takes more than
 * 200,000 steps, or is nested deeper than 200 levels, is a fault of its own.
 *
 * That takes some microseconds for each object of a value. For large ones a compiler of the same library is forty times
 * as fast: `Compile` of `typebox/schema`, for schemas that are trusted.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { schemaChecker } from "@tare/arguments";
 *
 * const faults = schemaChecker({ properties: { lines: { type: "integer", minimum: 1 } } });
 * assertEquals(faults({ lines: 3 }), undefined);
 * assertEquals(faults({ lines: 0 }), "lines must be >= 1");
 * assertEquals(faults({ lines: 0 }, "calls.2"), "calls.2.lines must be >= 1");
 * ```
 *
 * @param schema The schema. Its `$schema` is ignored, and what refers to a schema of schemas takes any.
 * @param what How the whole value is called in a fault. Default: `the value`.
 * @param options `maxSteps`: what one check may take, for schemas that are one's own. Default: 200,000.
 * @returns A function of the value, and of the place where that stands, if it is a part of a larger one.
 * @throws {Error} if the schema itself is invalid, refers to what isn't there or to itself without going into the value,
 * is nested deeper than 200 levels, or has patterns that take no linear time (lookaround, backreferences, counts over
 * 1,000) or are too large together.
 */
export function schemaChecker(
  schema: JsonSchema,
  what = "the value",
  { maxSteps = MAX_STEPS }: { readonly maxSteps?: number } = {},
): (value: unknown, place?: string) => string | undefined {
  checkGiven("schemaChecker()", { schema }, { schema: "object" });
  const refuse = (why: string) => new Error(`Cannot use the schema: ${why}`);
  const { depth, holders } = sizeOf(schema, { wantsNames: false });
  if (depth > MAX_DEPTH) throw refuse(`it is ${TOO_DEEP}`);
  if (holders > MAX_HOLDERS) {
    throw refuse(`it holds ${holders} lists and objects, and at most ${MAX_HOLDERS} may be`);
  }
  const work = new Work(maxSteps);
  const linked = linkSchema(schema, { work, holders, refuse });
  const text = JSON.stringify(schema);
  const namesInherited = INHERITED.some((name) => text.includes(`"${name}"`));
  return (given, place = "") => {
    const size = sizeOf(given, work);
    if (size.depth > MAX_DEPTH) return `${place || what} must not be ${TOO_DEEP}`;
    try {
      const value = namesInherited ? bare(given) : given;
      work.begin(size);
      if (Check(linked, value)) return undefined;
      work.begin(size);
      const instancePath = place === "" ? "" : `/${place.replaceAll(".", "/")}`;
      return describeFaults(faultsOf(linked, value, instancePath), what);
    } catch (error) {
      if (error === TOO_MUCH) return `${place || what} must not take more than ${maxSteps} steps to check`;
      if (isOverflow(error)) return `${place || what} must not be nested so deep, nor its schema`;
      throw error;
    }
  };
}

const TOO_DEEP = `nested more than ${MAX_DEPTH} levels deep`;

/** Thrown when a check has taken its steps, through a validator that knows nothing of them. */
const TOO_MUCH = new Error("too many steps");

/** Whether the stack ended, whose size nobody knows. */
function isOverflow(error: unknown): boolean {
  return error instanceof RangeError && /call stack|recursion/i.test(error.message);
}

/** How large a value is. */
interface Size {
  /** Levels of lists and objects; one more than allowed, if more. */
  readonly depth: number;
  /** Lists and objects. */
  readonly holders: number;
  /** Characters of the longest text. */
  readonly longest: number;
  /** Members of the longest list. */
  readonly items: number;
  /** Properties of the largest object. */
  readonly fields: number;
  /** What properties are called, if that is asked for. */
  readonly names: ReadonlySet<string>;
}

function sizeOf(value: unknown, { wantsNames }: { readonly wantsNames: boolean }): Size {
  let [depth, holders, items, fields] = [0, 0, 0, 0];
  let longest = typeof value === "string" ? value.length : 0;
  const names = new Set<string>();
  let level = [value].filter(isHolder);
  for (; level.length > 0 && depth <= MAX_DEPTH; depth++) {
    holders += level.length;
    const next: object[] = [];
    for (const one of level) {
      const members = Object.values(one);
      if (Array.isArray(one)) items = Math.max(items, members.length);
      else fields = Math.max(fields, members.length);
      if (wantsNames && !Array.isArray(one)) { for (const name of Object.keys(one)) names.add(name); }
      for (const inner of members) {
        if (typeof inner === "string") longest = Math.max(longest, inner.length);
        else if (isHolder(inner)) next.push(inner);
      }
    }
    level = next;
  }
  return { depth, holders, longest, items, fields, names };
}

function isHolder(value: unknown): value is object {
  return typeof value === "object" && value !== null;
}

/** What the check that runs has taken, and what it knows of its value. */
class Work {
  /** Whether some schema tells properties apart by patterns. */
  wantsNames = false;
  /** Of the whole value. */
  size: Size = sizeOf(undefined, { wantsNames: false });
  /** Of the lists and objects in the value. */
  hashes: WeakMap<object, string> = new WeakMap();
  readonly #most: number;
  #left = 0;

  constructor(maxSteps: number) {
    this.#most = maxSteps;
  }

  begin(size: Size): void {
    this.size = size;
    this.hashes = new WeakMap();
    this.#left = this.#most;
  }

  /** Takes so many steps. @throws {@linkcode TOO_MUCH} */
  take(steps: number): void {
    if ((this.#left -= steps) < 0) throw TOO_MUCH;
  }
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

/** The keywords whose value is a schema or a list of some, and what else their value may be. */
const SCHEMAS: Readonly<Record<string, readonly string[]>> = {
  additionalItems: ["object", "boolean"],
  additionalProperties: ["object", "boolean"],
  allOf: ["array"],
  anyOf: ["array"],
  contains: ["object", "boolean"],
  else: ["object", "boolean"],
  if: ["object", "boolean"],
  items: ["object", "boolean", "array"],
  not: ["object", "boolean"],
  oneOf: ["array"],
  prefixItems: ["array"],
  propertyNames: ["object", "boolean"],
  then: ["object", "boolean"],
  unevaluatedItems: ["object", "boolean"],
  unevaluatedProperties: ["object", "boolean"],
};

/** The keywords whose value has schemas by names. */
const NAMED_SCHEMAS = [
  "$defs",
  "definitions",
  "dependencies",
  "dependentSchemas",
  "patternProperties",
  "properties",
];

const TYPES = { enum: ["array", "boolean", "integer", "null", "number", "object", "string"] };
const COUNT = { type: "integer", minimum: 0 };

/** What a schema's own keywords must be; a schema of schemas would take its time for each. */
const KEYWORDS: JsonSchema = {
  type: ["object", "boolean"],
  properties: {
    ...Object.fromEntries(Object.entries(SCHEMAS).map(([key, type]) => [key, { type }])),
    ...Object.fromEntries(NAMED_SCHEMAS.map((key) => [key, { type: "object" }])),
    ...Object.fromEntries(
      ["Contains", "Items", "Length", "Properties"].flatMap((
        of,
      ) => [[`min${of}`, COUNT], [`max${of}`, COUNT]]),
    ),
    $id: { type: "string" },
    $ref: { type: "string" },
    enum: { type: "array" },
    exclusiveMaximum: { type: ["number", "boolean"] },
    exclusiveMinimum: { type: ["number", "boolean"] },
    maximum: { type: "number" },
    minimum: { type: "number" },
    multipleOf: { type: "number", exclusiveMinimum: 0 },
    pattern: { type: "string", format: "regex" },
    patternProperties: { type: "object", propertyNames: { format: "regex" } },
    required: { type: "array", items: { type: "string" } },
    type: { anyOf: [TYPES, { type: "array", items: TYPES }] },
    uniqueItems: { type: "boolean" },
  },
};

/** What isn't checked, what is checked in another way, and what would be no member of the copy. */
const LEFT_OUT: ReadonlySet<string> = new Set(["format", "pattern", "uniqueItems", "__proto__"]);

/** What a schema is called, which nothing asks for once all references are links. */
const NAMES: ReadonlySet<string> = new Set(["$schema", "$id", "$anchor"]);

/** References that depend on where a value comes from. */
const DYNAMIC = /"\$(dynamic|recursive)Ref":/;

/** Where schemas of schemas stand, and what is checked of a value that is a schema. */
const SCHEMA_OF_SCHEMAS = /^https?:\/\/json-schema\.org\//;
const ANY_SCHEMA = { type: ["object", "boolean"] };

/** In place of `uniqueItems`, whose faults the validator collects in quadratic time. */
function uniqueItems(work: Work) {
  // Lists in lists would be hashed once for each that they are in.
  const hashOf = (item: unknown) => {
    if (typeof item !== "object" || item === null) return `${typeof item} ${item}`;
    const hash = work.hashes.get(item) ?? Hashing.Hash(item);
    work.hashes.set(item, hash);
    return hash;
  };
  return refined((value) => {
    work.take(Array.isArray(value) ? value.length >> 3 : 0);
    return !sameItems(value, hashOf);
  }, (value) => {
    const same = sameItems(value, hashOf)?.join(" and ");
    return `must not have the same item twice (items ${same} are the same)`;
  });
}

/** A schema that nothing but this check makes. */
function refined(check: (value: unknown) => boolean, error: (value: unknown) => string): JsonSchema {
  return { "~refine": [{ check, error }] };
}

function sameItems(value: unknown, hashOf: (item: unknown) => string): readonly [number, number] | undefined {
  if (!Array.isArray(value)) return undefined;
  const seen = new Map<string, number>();
  for (const [index, item] of value.entries()) {
    const hash = hashOf(item);
    const first = seen.get(hash);
    if (first !== undefined) return [first, index];
    seen.set(hash, index);
  }
  return undefined;
}

/** What a linked schema was made of: that can be told, while a circle can't. */
const ORIGINALS = new WeakMap<object, JsonSchema>();

/** The schema as its author wrote it. */
function originalOf(linked: JsonSchema): JsonSchema {
  return ORIGINALS.get(linked) ?? linked;
}

/**
 * A schema of what is checked, in which what a `$ref` refers to stands in its place, in a circle if need be: to
 * resolve it takes longer than to check a value, and would have to be done for each.
 *
 * Each counts the steps that it takes, and patterns run in linear time.
 *
 * @throws {Error} if one of the schemas is none or takes more than may be, or if a reference leads nowhere.
 */
function linkSchema(
  schema: JsonSchema,
  { work, holders, refuse }: {
    readonly work: Work;
    /** How many lists and objects the schema holds. */
    readonly holders: number;
    readonly refuse: (why: string) => Error;
  },
): JsonSchema {
  const isDynamic = DYNAMIC.test(JSON.stringify(schema));
  const copies = new Map<unknown, Record<string, unknown>>();
  /** What of a value each schema is held against as a whole: what stands in it for the same value. */
  const beside = new Map<unknown, unknown[]>();
  let [patterns, searched] = [0, 0];
  const linked = Object(copy(schema, Stack({}, schema), ""));
  if (leadsToItself(linked, beside)) throw refuse("it refers to itself without going into the value");
  return linked;

  function copy(value: unknown, outer: ReturnType<typeof Stack>, place: string): unknown {
    if (Array.isArray(value)) return value.map((one, index) => copy(one, outer, `${place}/${index}`));
    const known = copies.get(value);
    if (known) return known;
    if (!Check(KEYWORDS, value)) throw refuse(describeFaults(faultsOf(KEYWORDS, value, place), "it"));
    if (typeof value !== "object" || value === null) return value;
    const made: Record<string, unknown> = {};
    copies.set(value, made);
    ORIGINALS.set(made, Object(value));
    const here = NextStack(outer, value);
    for (const [key, inner] of Object.entries(value)) {
      if (LEFT_OUT.has(key) || !isDynamic && NAMES.has(key)) continue;
      made[key] = Object.hasOwn(SCHEMAS, key)
        ? copy(inner, here, `${place}/${key}`)
        : NAMED_SCHEMAS.includes(key)
        ? Object.fromEntries(
          Object.entries(inner).map(([name, one]) => [
            name,
            // What a property depends on may be names.
            key === "dependencies" && Array.isArray(one) ? one : copy(one, here, `${place}/${key}/${name}`),
          ]),
        )
        : inner;
    }
    const add = (schema: unknown) => made.allOf = [...[made.allOf ?? []].flat(), schema];
    if ("uniqueItems" in value && value.uniqueItems === true) add(uniqueItems(work));
    if ("pattern" in value && typeof value.pattern === "string") {
      const { pattern } = value;
      const test = linear(pattern, `${place}/pattern`);
      add(
        refined((value) => typeof value !== "string" || test(value), () => `must match pattern "${pattern}"`),
      );
    }
    if (made.patternProperties) nameProperties(made, place);
    count(made);
    beside.set(
      made,
      BESIDE.flatMap((key) => made[key] ?? []).concat(
        Object.values(made.dependentSchemas ?? {}),
        Object.values(made.dependencies ?? {}),
      ),
    );
    const { $ref } = made;
    if (typeof $ref !== "string") return made;
    searched += $ref.startsWith("#/") ? holders : 8 * holders;
    if (searched > MAX_SEARCHED) throw refuse("it has too many references for its size");
    const isOfSchemas = SCHEMA_OF_SCHEMAS.test($ref);
    const target = isOfSchemas ? { schema: ANY_SCHEMA, stack: here } : Resolve.Ref(here, { $ref });
    if (target.schema === undefined) throw refuse(`it refers to ${$ref}, which isn't there`);
    if (isDynamic && !isOfSchemas) return made;
    delete made.$ref;
    const referred = copy(target.schema, target.stack, `${place}/$ref`);
    add(referred);
    beside.get(made)!.push(referred);
    return made;
  }

  /** A pattern's test, which takes the steps that it may need. */
  function linear(source: string, place: string): (text: string) => boolean {
    let expression: RE2JS;
    const at = place.slice(1).replaceAll("/", ".");
    try {
      expression = RE2JS.compile(RE2JS.translateRegExp(source));
    } catch (error) {
      if (!(error instanceof RE2JSException)) throw error;
      const why =
        "patterns must be such that they take linear time: no lookaround, no backreferences, no counts " +
        "over 1000";
      throw refuse(`${at} is ${JSON.stringify(source)}, and ${why} (${error.message})`);
    }
    const size = expression.programSize();
    patterns += size;
    if (patterns > MAX_PATTERNS) {
      throw refuse(
        `its patterns up to ${at} take ${patterns} instructions, and at most ${MAX_PATTERNS} may be`,
      );
    }
    return (text) => {
      work.take(Math.ceil(text.length * size / PATTERN_STEP));
      return expression.test(text);
    };
  }

  /** Names the properties that each pattern meant, as far as the value at hand has them: the validator's own engine may take any time. */
  function nameProperties(made: Record<string, unknown>, place: string): void {
    work.wantsNames = true;
    const tests = Object.entries(Object(made.patternProperties)).map(([source, schema]) => ({
      test: linear(source, `${place}/patternProperties/${source}`),
      schema,
    }));
    let [names, named]: [ReadonlySet<string> | undefined, Record<string, unknown>] = [undefined, {}];
    Object.defineProperty(made, "patternProperties", {
      enumerable: true,
      get() {
        if (names === work.size.names) return named;
        names = work.size.names;
        return named = Object.fromEntries(tests.map(({ test, schema }, index) => {
          const meant = [...work.size.names].filter(test).map((name) => name.replaceAll(SPECIAL, "\\$&"));
          // Two may mean the same names, and each must have a key of its own.
          return [`(?:){${index}}${meant.length === 0 ? "(?!)" : `^(?:${meant.join("|")})$`}`, schema];
        }));
      },
    });
  }

  /** Counts a schema whenever it is held against a value: its type is what the validator asks for first. */
  function count(made: Record<string, unknown>): void {
    const { type } = made;
    const listed = LISTS.reduce((sum, key) => sum + (JSON.stringify(made[key])?.length ?? 0), 0);
    const own = 1 + (listed >> 4) + Object.keys(made.properties ?? {}).length;
    const has = (keys: readonly string[], is: (value: unknown) => boolean) =>
      keys.some((key) => is(made[key]));
    const isNumber = (value: unknown) => typeof value === "number";
    const isText = (value: unknown) => typeof value === "string";
    const isFlag = (value: unknown) => typeof value === "boolean";
    // These are followed anew for each value.
    const follows = isDynamic && has(["$ref", "$dynamicRef", "$recursiveRef"], isText) ? holders : 0;
    const ofText = has(["minLength", "maxLength"], isNumber);
    const ofItems = has(["additionalItems", "contains", "items", "unevaluatedItems"], isFlag);
    const ofFields = has(["additionalProperties", "unevaluatedProperties"], isFlag);
    const steps = own + follows;
    Object.defineProperty(made, "type", {
      enumerable: type !== undefined,
      get() {
        const { longest, items, fields } = work.size;
        work.take(
          steps + (ofText ? longest >> 12 : 0) + (ofItems ? items >> 4 : 0) + (ofFields ? fields >> 4 : 0),
        );
        return type;
      },
    });
  }
}

/** Keywords whose schemas are held against the same value. */
const BESIDE = ["allOf", "anyOf", "oneOf", "not", "if", "then", "else"];

/** Keywords whose lists a value is compared with. */
const LISTS = ["const", "dependentRequired", "enum", "required"];

/** What means something in a pattern. */
const SPECIAL = /[.*+?^${}()|[\]\\/-]/g;

/** Whether a schema is held against a value in order to hold it against that value. */
function leadsToItself(linked: unknown, beside: ReadonlyMap<unknown, readonly unknown[]>): boolean {
  const done = new Set<unknown>();
  return [linked, ...beside.keys()].some((start) => {
    /** From the start to where the search is; of each what is left to look at. */
    const path = [{ at: start, rest: [...beside.get(start) ?? []] }];
    const onPath = new Set([start]);
    while (!done.has(start) && path.length > 0) {
      const { at, rest } = path.at(-1)!;
      const next = rest.pop();
      if (next === undefined) {
        done.add(at);
        onPath.delete(at);
        path.pop();
      } else if (onPath.has(next)) return true;
      else if (beside.has(next) && !done.has(next)) {
        onPath.add(next);
        path.push({ at: next, rest: [...beside.get(next)!] });
      }
    }
    return false;
  });
}

/** So many faults are told. */
const MAX_FAULTS = 20;

/** So many names or values that would be right are told. */
const MAX_NAMES = 20;

/** What the validator found wrong, with the schema that holds the keyword. */
type FaultAt = TValidationError & { readonly holder: Readonly<Record<string, unknown>> };

/** One thing that is wrong, in words for people. */
interface Fault {
  readonly error: FaultAt;
  readonly says: string;
}

/**
 * Says in one line what is wrong with a value: where, and what would be right there. Of a choice of schemas none of
 * which fits, it says what is wrong with the one that fits best.
 *
 * @param what How the whole value is called.
 */
function describeFaults(errors: readonly FaultAt[], what: string): string {
  const faults: Fault[] = [];
  for (const error of errors) {
    if (error.keyword === "additionalProperties" || error.keyword === "propertyNames") {
      // What a single name has wrong stands right before it, and goes where this says all of it.
      const told = back(faults, error);
      if (error.keyword === "additionalProperties" && error.holder.additionalProperties !== false) {
        faults.push(...told);
        continue;
      }
    }
    if (error.keyword === "anyOf" || error.keyword === "oneOf") {
      // What is wrong with each of a choice's schemas stands right before it.
      faults.push(...choose(back(faults, error), error));
      continue;
    }
    faults.push(...says(error).map((says) => ({ error, says })));
  }
  const told = [...new Set(faults.map(({ error, says }) => `${placeOf(error, what)} ${says}`))];
  const more = told.length > MAX_FAULTS ? `; and ${told.length - MAX_FAULTS} more` : "";
  return `${told.slice(0, MAX_FAULTS).join("; ")}${more}`;
}

function placeOf({ instancePath }: FaultAt, what: string): string {
  return instancePath === "" ? what : instancePath.slice(1).replaceAll("/", ".");
}

/** Takes the last faults that are inside a keyword's own schemas. */
function back(faults: Fault[], outer: FaultAt): readonly Fault[] {
  const inside = `${outer.schemaPath}/${outer.keyword}`;
  let start = faults.length;
  while (start > 0 && isInside(faults[start - 1]?.error)) start--;
  return faults.splice(start);

  function isInside(error: FaultAt | undefined): boolean {
    return error !== undefined && `${error.schemaPath}/`.startsWith(`${inside}/`) &&
      `${error.instancePath}/`.startsWith(`${outer.instancePath}/`);
  }
}

/** The faults of that schema of a choice that fits best; where only the kind of value is wrong, all kinds in one. */
function choose(faults: readonly Fault[], choice: FaultAt): readonly Fault[] {
  const inside = `${choice.schemaPath}/${choice.keyword}/`.length;
  const branches = Object.values(
    Object.groupBy(faults, ({ error }) => error.schemaPath.slice(inside).split("/")[0] ?? ""),
  ).filter((branch) => branch !== undefined);
  if (branches.length === 0) return [{ error: choice, says: overlap(choice) }];
  const only = branches.map(([fault, ...rest]) =>
    rest.length === 0 && isAt(fault, choice, 0) ? fault?.error : undefined
  );
  const names = only.flatMap((error) => error?.keyword === "required" ? error.params.requiredProperties : []);
  if (names.length > 0 && only.every((error) => error?.keyword === "required")) {
    return [{ error: choice, says: `must have ${either(names.map((name) => `'${name}'`))}` }];
  }
  if (only.every((error) => error?.keyword === "type")) {
    const types = only.flatMap((error) => error?.keyword === "type" ? error.params.type : []);
    return [{ error: choice, says: `must be ${either(types)}` }];
  }
  return branches.toSorted((a, b) => misfit(a, choice) - misfit(b, choice) || a.length - b.length)[0] ?? [];
}

/** What is wrong with a value that several schemas of a choice fit, though only one may. */
function overlap({ holder, keyword }: FaultAt): string {
  const names = [holder[keyword]].flat().flatMap((one) => Object(one).required ?? []);
  return names.length === 0
    ? "must fit exactly one of its kinds"
    : `must not have ${names.map((name) => `'${name}'`).join(" and ")} together`;
}

/** How many of the faults say that another of the schemas was meant: the kind of value, or the name of its kind. */
function misfit(branch: readonly Fault[], choice: FaultAt): number {
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
function isAt(fault: Fault | undefined, { instancePath }: FaultAt, steps: number): boolean {
  const inside = fault?.error.instancePath.slice(instancePath.length) ?? "";
  return inside.split("/").length - 1 <= steps;
}

function says(error: FaultAt): readonly string[] {
  const { holder } = error;
  switch (error.keyword) {
    case "required":
      return error.params.requiredProperties.map((name) => `must have required property '${name}'`);
    case "additionalProperties":
    case "unevaluatedProperties": {
      const known = Object.keys(Object(holder.properties));
      const right = known.length === 0 ? "" : ` (it takes ${shorten(known).join(", ")})`;
      const names = error.keyword === "additionalProperties"
        ? error.params.additionalProperties
        : error.params.unevaluatedProperties;
      return names.map((name) => `must not have '${String(name)}'${right}`);
    }
    case "propertyNames":
      return error.params.propertyNames.map((name) =>
        `must not have a property named '${name}' (names must fit ${JSON.stringify(holder.propertyNames)})`
      );
    case "dependencies":
    case "dependentRequired":
      return [
        `must have ${error.params.dependencies.map((name) => `'${name}'`).join(" and ")} ` +
        `where it has '${error.params.property}'`,
      ];
    default:
      return [saysOnce(error)];
  }
}

function saysOnce(error: FaultAt): string {
  const { keyword, params, holder } = error;
  switch (keyword) {
    case "type":
      return `must be ${either([params.type].flat())}`;
    case "enum":
      return `must be ${either(shorten(params.allowedValues.map((value) => JSON.stringify(value))))}`;
    case "const":
      return `must be ${JSON.stringify(params.allowedValue)}`;
    case "minimum":
    case "maximum":
    case "exclusiveMinimum":
    case "exclusiveMaximum":
      return `must be ${params.comparison} ${params.limit}`;
    case "multipleOf":
      return `must be multiple of ${params.multipleOf}`;
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
    case "format":
      return `must be a valid ${params.format}`;
    case "contains": {
      const { minContains = 1, maxContains } = holder;
      const most = maxContains === undefined ? "" : ` and at most ${maxContains}`;
      return `must have at least ${minContains}${most} items that fit ${JSON.stringify(holder.contains)}`;
    }
    case "~refine":
      return params.message;
    case "unevaluatedItems":
      return `must not have item ${params.unevaluatedItems[0]}`;
    case "not": {
      const { required } = Object(holder.not) as { readonly required?: readonly string[] };
      if (required) return `must not have ${required.map((name) => `'${name}'`).join(" and ")} together`;
      return `must not fit ${JSON.stringify(holder.not)}`;
    }
    case "boolean":
      return "must not be there";
    default:
      return `must fit ${keyword}`;
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

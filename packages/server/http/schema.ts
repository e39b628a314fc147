import type { JsonSchema } from "@tare/messages";
import { schemaChecker } from "@tare/loop/internal";
import {
  type Static,
  type TInteger,
  type TNull,
  type TObject,
  type TOptional,
  type TProperties,
  type TSchema,
  type TString,
  type TUnion,
  type TUnsafe,
  Type,
} from "typebox";
import { Compile } from "typebox/schema";

export const COUNT = Type.Integer({ minimum: 0 });

export function text(description: string): TString {
  return Type.String({ description });
}

export function optionalText(description: string): TOptional<TString> {
  return Type.Optional(text(description));
}

export function count(description: string): TInteger {
  return Type.Integer({ minimum: 0, description });
}

/** Returns the schema of how many items of a list are wanted. */
export function limitOf(maximum: number, usual: number, description: string): TInteger {
  return Type.Integer({ minimum: 1, maximum, default: usual, description });
}

/** Texts by name, for a client's own use. */
export const METADATA = Type.Unsafe<Readonly<Record<string, string>>>(
  Type.Object({}, { additionalProperties: Type.String(), maxProperties: 1_000 }),
);

/** Returns the schema of an object without other properties; with a `title` it is a component of the OpenAPI document. */
export function closed<P extends TProperties>(properties: P, title?: string, example?: unknown): TObject<P> {
  return Type.Object(properties, {
    ...(title !== undefined && { title }),
    ...(example !== undefined && { examples: [example] }),
    additionalProperties: false,
  });
}

/** A value or `null`. */
export function orNull<S extends TSchema>(schema: S): TUnion<[S, TNull]> {
  return Type.Union([schema, Type.Null()]);
}

/** A value or `null`, or no property at all. `schema` must have a `type`. */
export function nullable<S extends TSchema>(schema: S) {
  const { type } = schema as { readonly type?: string };
  return Type.Optional(Type.Unsafe<Static<S> | null>({ ...schema, type: [type, "null"] }));
}

/** Returns the schema of one of several kinds told apart by `property`, so that faults name the kind at hand. */
export function tagged<Tag extends string, Kinds extends Readonly<Record<string, TSchema>>>(
  property: Tag,
  kinds: Kinds,
): TUnsafe<
  { [Kind in keyof Kinds & string]: Readonly<Record<Tag, Kind>> & Static<Kinds[Kind]> }[keyof Kinds & string]
> {
  return Type.Unsafe({
    type: "object",
    properties: { [property]: { enum: Object.keys(kinds) } },
    required: [property],
    allOf: Object.entries(kinds).map(([kind, schema]) => ({
      if: { properties: { [property]: { const: kind } } },
      then: schema,
    })),
  });
}

/** Of a list with more items no faults are told but those of the first wrong item: to find all takes its time. */
const MAX_SEARCHED = 1_000;

/** The schemas here are our own, and bodies have limits of their own. */
const OURS = { trusted: true };

/** Names the faults of a value in one line; `undefined` if it is valid. */
type Check = (value: unknown) => string | undefined;

/** Returns a check by this schema. It compiles the schema, which takes milliseconds, when it is first called. */
export function checker(schema: TSchema, what?: string): Check {
  let check: Check | undefined;
  return (value) => (check ??= compiled(schema, what))(value);
}

function compiled(schema: TSchema, what?: string): Check {
  const { properties = {} } = schema as {
    readonly properties?: Readonly<Record<string, { items?: TSchema }>>;
  };
  const valid = Compile(schema);
  const faultsOf = schemaChecker(schema as JsonSchema, what, OURS);
  const lists = Object.entries(properties).flatMap(([name, { items }]) =>
    items
      ? [{ name, valid: Compile(items), faultsOf: schemaChecker(items as JsonSchema, undefined, OURS) }]
      : []
  );
  return (value) => {
    if (valid.Check(value)) return undefined;
    const short: Record<string, unknown> = {};
    for (const list of lists) {
      const long: unknown = Object(value)[list.name];
      if (!Array.isArray(long) || long.length <= MAX_SEARCHED) continue;
      const index = long.findIndex((item) => !list.valid.Check(item));
      if (index >= 0) return list.faultsOf(long[index], `${list.name}.${index}`);
      short[list.name] = long.slice(0, 1);
    }
    return Object.keys(short).length > 0 && faultsOf({ ...Object(value), ...short }) || faultsOf(value);
  };
}

/** Returns a reader of stored values. @throws {Error} (the reader) that names `what`, if a value is invalid. */
export function storedReader<S extends TSchema>(schema: S, what: string): (value: unknown) => Static<S> {
  const check = checker(schema, "it");
  return (value) => {
    const faults = check(value);
    if (faults === undefined) return value as Static<S>;
    throw new Error(`Cannot read ${what} from the store: ${faults}.`);
  };
}

/** Text, or a list of these, as messages have it. With a `least` of 1, neither may be empty. */
export function textOr<Part extends TSchema>(items: Part, least = 0): TUnsafe<string | Static<Part>[]> {
  return Type.Unsafe({
    type: ["string", "array"],
    ...(least > 0 && { minLength: least, minItems: least }),
    items,
  });
}

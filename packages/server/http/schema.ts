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

/** Returns a page size. */
export function limitOf(maximum: number, usual: number, description: string): TInteger {
  return Type.Integer({ minimum: 1, maximum, default: usual, description });
}

export const METADATA = Type.Unsafe<Readonly<Record<string, string>>>(
  Type.Object({}, { additionalProperties: Type.String(), maxProperties: 1_000 }),
);

/** Returns a schema without other properties; a `title` makes it a component of the OpenAPI document. */
export function closed<P extends TProperties>(properties: P, title?: string, example?: unknown): TObject<P> {
  return Type.Object(properties, {
    ...(title !== undefined && { title }),
    ...(example !== undefined && { examples: [example] }),
    additionalProperties: false,
  });
}

export function orNull<S extends TSchema>(schema: S): TUnion<[S, TNull]> {
  return Type.Union([schema, Type.Null()]);
}

/** `schema` must have a `type`. */
export function nullable<S extends TSchema>(schema: S) {
  const { type } = schema as { readonly type?: string };
  return Type.Optional(Type.Unsafe<Static<S> | null>({ ...schema, type: [type, "null"] }));
}

/** Returns a union with the discriminator `property`, so that faults concern the actual kind. */
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

/** List length above which only the first wrong item is reported: finding all is slow. */
const MAX_SEARCHED = 1_000;

/** These schemas are the server's own, and bodies are limited. */
const OURS = { trusted: true };

/** Returns the faults in one line; `undefined` if there are none. */
type Check = (value: unknown) => string | undefined;

/** Compiles the schema on the first call, which takes milliseconds. */
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

/** Returns a reader of stored values that throws an error with `what` for invalid ones. */
export function storedReader<S extends TSchema>(schema: S, what: string): (value: unknown) => Static<S> {
  const check = checker(schema, "it");
  return (value) => {
    const faults = check(value);
    if (faults === undefined) return value as Static<S>;
    throw new Error(`Cannot read ${what} from the store: ${faults}.`);
  };
}

/** Text or a list. With a `least` of 1, neither may be empty. */
export function textOr<Part extends TSchema>(items: Part, least = 0): TUnsafe<string | Static<Part>[]> {
  return Type.Unsafe({
    type: ["string", "array"],
    ...(least > 0 && { minLength: least, minItems: least }),
    items,
  });
}

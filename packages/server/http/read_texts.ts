import { type TProperties, Type } from "typebox";
import { HttpError } from "./http_error.ts";
import { checker } from "./schema.ts";

/**
 * Makes a function that reads what stands in a query, or in headers: each text as what its schema says it is, a whole
 * number, yes or no, or a text, and the schema's default for one that isn't there.
 *
 * @param what What these are, in words that follow "Cannot use": "the query".
 */
export function textReader(
  properties: TProperties,
  what: string,
): (textOf: (name: string) => string | null) => Readonly<Record<string, unknown>> {
  const schemas = Object.entries(properties as Readonly<Record<string, TextSchema>>);
  let check: ReturnType<typeof checker> | undefined;
  return (textOf) => {
    const values: Record<string, unknown> = {};
    for (const [name, schema] of schemas) {
      const text = textOf(name);
      const value = text === null ? schema.default : valueOf(text, schema);
      if (value !== undefined) values[name] = value;
    }
    check ??= checker(Type.Object(properties), what);
    const faults = check(values);
    if (faults === undefined) return values;
    throw new HttpError(400, "invalid_request", `Cannot use ${what}: ${faults}.`);
  };
}

/** As much of a schema as says what a text is. */
interface TextSchema {
  readonly type?: string;
  readonly default?: unknown;
}

/** What a text says; the text itself if it doesn't say that, for the schema to refuse. */
function valueOf(text: string, { type }: TextSchema): unknown {
  // More digits than a number holds are no number of ours.
  if (type === "integer" && /^-?\d{1,15}$/.test(text)) return Number(text);
  if (type === "boolean" && (text === "true" || text === "false")) return text === "true";
  return text;
}

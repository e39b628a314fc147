import type { JsonSchema } from "@tare/messages";

/** A JSON Schema of an object that has all of these properties, perhaps some of the others, and no more. */
export function closedSchema(
  title: string,
  properties: Readonly<Record<string, JsonSchema>>,
  others: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  const required = Object.keys(properties);
  return {
    title,
    type: "object",
    properties: { ...properties, ...others },
    required,
    additionalProperties: false,
  };
}

/** JSON Schemas of values that reports are made of. */
export const NUMBER: JsonSchema = { type: "number" };
/** A count from 0. */
export const COUNT: JsonSchema = { type: "integer", minimum: 0 };
/** Any text. */
export const TEXT: JsonSchema = { type: "string" };
/** Yes or no. */
export const FLAG: JsonSchema = { type: "boolean" };
/** A moment, such as `2026-01-31T12:00:00.000Z`. */
export const TIME: JsonSchema = { type: "string", format: "date-time" };

/** A JSON Schema of a list of these. */
export function listOf(items: JsonSchema): JsonSchema {
  return { type: "array", items };
}

/** A JSON Schema of a value or `null`. */
export function orNull(schema: JsonSchema): JsonSchema {
  return { anyOf: [schema, { type: "null" }] };
}

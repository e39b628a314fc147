import type { JsonSchema } from "@tare/messages";
import { objectSchema } from "./object_schema.ts";

/** JSON Schema of an object with these properties, where others are ignored. */
export function openObjectSchema(
  required: Readonly<Record<string, JsonSchema>>,
  optional: Readonly<Record<string, JsonSchema>> = {},
): JsonSchema {
  return { ...objectSchema(required, optional), additionalProperties: true };
}

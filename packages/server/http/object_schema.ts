import type { JsonSchema } from "@tare/messages";

type Properties = Readonly<Record<string, JsonSchema>>;

/** JSON Schema of an object with these properties and no others. */
export function objectSchema(required: Properties, optional: Properties = {}): JsonSchema {
  return {
    type: "object",
    properties: { ...required, ...optional },
    required: Object.keys(required),
    additionalProperties: false,
  };
}

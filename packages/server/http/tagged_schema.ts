import type { JsonSchema } from "@tare/messages";

/**
 * JSON Schema of an object that is one of several kinds, told apart by the text in `property`. Unlike `oneOf`, it lets
 * a validator say what is wrong with the kind at hand.
 */
export function taggedSchema(property: string, kinds: Readonly<Record<string, JsonSchema>>): JsonSchema {
  return {
    type: "object",
    properties: { [property]: { enum: Object.keys(kinds) } },
    required: [property],
    allOf: Object.entries(kinds).map(([kind, schema]) => ({
      if: { properties: { [property]: { const: kind } } },
      then: schema,
    })),
  };
}

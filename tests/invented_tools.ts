import type { ToolDefinition } from "@tare/messages";
import { seeded } from "./seeded.ts";
import { word } from "./words.ts";

/** Returns this many generated tools of usual length: some 220 tokens each. */
export function inventedTools(count: number): readonly ToolDefinition[] {
  const random = seeded(1);
  const words = (length: number) => Array.from({ length }, () => word(random)).join(" ");
  return Array.from({ length: count }, (_, at): ToolDefinition => {
    const names = Array.from({ length: 2 + at % 4 }, () => word(random));
    const properties = Object.fromEntries(
      names.map((name, at) => [name, { type: at === 1 ? "integer" : "string", description: words(7) }]),
    );
    return {
      type: "function",
      function: {
        name: `${word(random)}_${word(random)}_${at}`,
        description: `Does ${words(5)}. Wants ${words(10)}.`,
        parameters: { type: "object", properties, required: names.slice(0, 2) },
      },
    };
  });
}

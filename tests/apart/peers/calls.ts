import type { ToolCall } from "@tare/messages";

export interface ParsedCall {
  readonly id: string;
  readonly name: string;
  readonly args: Record<string, unknown>;
}

const parsed = new WeakMap<ToolCall, ParsedCall>();
const origins = new WeakMap<Record<string, unknown>, ToolCall>();

/** Parses a call's arguments. Anything but a JSON object becomes the one field `input`. */
export function parseCall(call: ToolCall): ParsedCall {
  let known = parsed.get(call);
  if (!known) {
    const { name, text } = call.type === "custom"
      ? { name: call.custom.name, text: call.custom.input }
      : { name: call.function.name, text: call.function.arguments };
    known = { id: call.id, name, args: objectIn(text) ?? { input: text } };
    parsed.set(call, known);
    origins.set(known.args, call);
  }
  return known;
}

/** Returns the original call, byte for byte if the arguments object is the same. */
export function formatCall({ id, name, args }: ParsedCall): ToolCall {
  const origin = origins.get(args);
  if (origin?.id === id) return origin;
  return { id, type: "function", function: { name, arguments: JSON.stringify(args) } };
}

function objectIn(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value)
      ? value as Record<string, unknown>
      : undefined;
  } catch {
    return undefined;
  }
}

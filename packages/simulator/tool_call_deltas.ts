import type { FunctionToolCall } from "@tare/messages";
import type { ToolCallPieces } from "./fault.ts";
import { splitText } from "./split_text.ts";

/** A piece of one streamed tool call, as it stands in a chunk's `delta.tool_calls`. */
export interface ToolCallDelta {
  readonly index?: number;
  readonly id?: string;
  readonly type?: "function";
  readonly function: { readonly name?: string; readonly arguments?: string };
}

/**
 * Cuts tool calls into what a stream sends, chunk by chunk. By default, as most providers do: each call opens with
 * its id and name, then come its arguments in pieces, then the next call.
 */
export function toolCallDeltas(
  calls: readonly FunctionToolCall[],
  pieces?: ToolCallPieces,
): readonly (readonly ToolCallDelta[])[] {
  if (calls.length === 0) return [];
  switch (pieces) {
    case "whole":
      return [calls.map((call, index) => ({ index, ...call }))];
    case "no_index":
      return calls.map((call) => [call]);
    case "no_id":
      return calls.flatMap((call, index) => callDeltas({ ...call, id: "" }, index)).map(alone);
    case "characters":
      return calls.flatMap((call, index) => callDeltas(call, index, (text) => text.split(""))).map(alone);
    case "repeated":
      return calls.flatMap((call, index) =>
        callDeltas(call, index).map((delta) => [{
          ...delta,
          id: call.id,
          function: { ...delta.function, name: call.function.name },
        }])
      );
    case "interleaved":
      return inTurns(calls.map((call, index) => callDeltas(call, index))).map(alone);
    case undefined:
      return calls.flatMap((call, index) => callDeltas(call, index)).map(alone);
  }
}

function callDeltas(
  { id, type, function: { name, arguments: text } }: FunctionToolCall,
  index: number,
  split = splitText,
): ToolCallDelta[] {
  return [
    { index, id, type, function: { name, arguments: "" } },
    ...split(text).map((piece) => ({ index, function: { arguments: piece } })),
  ];
}

function alone(delta: ToolCallDelta): readonly ToolCallDelta[] {
  return [delta];
}

function inTurns<T>(lists: readonly (readonly T[])[]): T[] {
  const longest = Math.max(...lists.map((list) => list.length));
  return Array.from({ length: longest }, (_, at) => lists.flatMap((list) => list.slice(at, at + 1))).flat();
}

import type { FunctionToolCall } from "@tare/messages";
import { completionBody, completionChunks, type CompletionHead, toolCallDeltas } from "@tare/wire";
import type { Fault, ToolCallPieces } from "../fault.ts";
import type { SimulatedReply } from "../model.ts";

/** A reply that is written. */
export type WrittenReply = Parameters<typeof completionBody>[1];

/** Completes a model's reply: calls without an id get one, made of `idSeed` and their position. */
export function replyMessage(reply: SimulatedReply, idSeed: string): WrittenReply["message"] {
  const { content = null, tool_calls = [], finish_reason: _, fault: __, ...rest } = reply;
  return {
    ...rest,
    role: "assistant",
    content,
    ...(tool_calls.length > 0 && {
      tool_calls: tool_calls.map((call, index) => ({ ...call, id: call.id ?? `call_${idSeed}_${index}` })),
    }),
  };
}

/** The reply, with the arguments of each of its tool calls cut short by one character. */
export function malformedArguments(reply: SimulatedReply): SimulatedReply {
  const { tool_calls = [] } = reply;
  return {
    ...reply,
    tool_calls: tool_calls.map((call) => ({
      ...call,
      function: { ...call.function, arguments: call.function.arguments.slice(0, -1) },
    })),
  };
}

/** Chunks that are sent before a stream breaks off or stalls, unless the fault says otherwise. */
const CHUNKS_BEFORE_BREAK = 3;

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
export function replyResponse(
  reply: WrittenReply,
  { stream, fault, ...head }: CompletionHead & {
    readonly stream: boolean;
    readonly fault?: Fault | null | undefined;
  },
): Response {
  const pieces = fault?.type === "odd_tool_calls" ? fault.pieces : undefined;
  const chunks = () =>
    completionChunks(head, reply, pieces && { callDeltas: (calls) => oddCallDeltas(calls, pieces) });
  const texts = stream
    ? [...chunks().map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"]
    : [JSON.stringify(completionBody(head, reply))];
  return textsResponse(texts, { stream, fault });
}

/** The HTTP response that carries these texts, broken in the way that the fault asks for. */
export function textsResponse(
  texts: readonly string[],
  { stream, fault }: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  return new Response(brokenBody(texts, fault), {
    headers: {
      "content-type": stream ? "text/event-stream" : "application/json",
      "cache-control": "no-store",
    },
  });
}

function oddCallDeltas(
  calls: readonly FunctionToolCall[],
  pieces: ToolCallPieces,
): ReturnType<typeof toolCallDeltas> {
  switch (pieces) {
    case "whole":
      return calls.length > 0 ? [calls.map((call, index) => ({ index, ...call }))] : [];
    case "no_index":
      return calls.map((call) => [call]);
    case "no_id":
      return toolCallDeltas(calls.map((call) => ({ ...call, id: "" })));
    case "characters":
      return toolCallDeltas(calls, { split: (text) => text.split("") });
    case "repeated":
      return calls.flatMap((call, index) =>
        callDeltas(call, index).map(([delta]) => [{
          ...delta,
          id: call.id,
          function: { ...delta?.function, name: call.function.name },
        }])
      );
    case "interleaved": {
      const perCall = calls.map(callDeltas);
      const longest = Math.max(0, ...perCall.map((deltas) => deltas.length));
      return Array.from({ length: longest }, (_, at) => perCall.flatMap((deltas) => deltas.slice(at, at + 1)))
        .flat();
    }
  }
}

function callDeltas(call: FunctionToolCall, index: number): ReturnType<typeof toolCallDeltas> {
  return toolCallDeltas([call]).map((deltas) => deltas.map((delta) => ({ ...delta, index })));
}

function brokenBody(texts: readonly string[], fault: Fault | null | undefined): ReadableStream<Uint8Array> {
  if (fault?.type !== "cut" && fault?.type !== "stall") return bodyStream(texts, "complete");
  const end = fault.type === "stall" ? "stall" : fault.quietly ? "complete" : "reset";
  const [only = "", ...others] = texts;
  if (others.length > 0) return bodyStream(texts.slice(0, fault.afterChunks ?? CHUNKS_BEFORE_BREAK), end);
  return bodyStream(end === "stall" ? [] : [only.slice(0, only.length / 2)], end);
}

/** Sends the texts one by one as they are read. Then it ends, or the connection is reset, or nothing comes any more. */
function bodyStream(
  texts: readonly string[],
  end: "complete" | "reset" | "stall",
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let sent = 0;
  return new ReadableStream({
    pull(controller) {
      const text = texts[sent++];
      if (text !== undefined) controller.enqueue(encoder.encode(text));
      else if (end === "complete") controller.close();
      else if (end === "reset") controller.error(new Error("The simulated provider reset the connection."));
      // Pending for good; a reader that gives up cancels the stream, which needs nothing from here.
      return end === "stall" && text === undefined ? new Promise(() => {}) : undefined;
    },
    // Nothing is sent ahead, so that an error doesn't discard texts that stand before it.
  }, { highWaterMark: 0 });
}

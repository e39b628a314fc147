import { type BodyEnd, bodyStream } from "./body_stream.ts";
import type { Fault } from "./fault.ts";
import { completionBody, completionChunks, type WireReply } from "./wire_reply.ts";

/** Chunks that are sent before a stream breaks off or stalls, unless the fault says otherwise. */
const CHUNKS_BEFORE_BREAK = 3;

/** The HTTP response that carries a reply, broken in the way that the fault asks for. */
export function replyResponse(
  reply: WireReply,
  options: { readonly stream: boolean; readonly fault?: Fault | null | undefined },
): Response {
  const { stream, fault } = options;
  const texts = stream
    ? eventTexts(completionChunks(reply, fault?.type === "odd_tool_calls" ? fault.pieces : undefined))
    : [JSON.stringify(completionBody(reply))];
  return new Response(brokenBody(texts, fault), {
    headers: {
      "content-type": stream ? "text/event-stream" : "application/json",
      "cache-control": "no-store",
    },
  });
}

function eventTexts(chunks: readonly object[]): string[] {
  return [...chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`), "data: [DONE]\n\n"];
}

function brokenBody(texts: readonly string[], fault: Fault | null | undefined): ReadableStream<Uint8Array> {
  if (fault?.type !== "cut" && fault?.type !== "stall") return bodyStream(texts);
  const end: BodyEnd = fault.type === "stall" ? "stall" : fault.quietly ? "complete" : "reset";
  const [only = "", ...others] = texts;
  if (others.length > 0) return bodyStream(texts.slice(0, fault.afterChunks ?? CHUNKS_BEFORE_BREAK), end);
  return bodyStream(end === "stall" ? [] : [only.slice(0, only.length / 2)], end);
}

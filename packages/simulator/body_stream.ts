/** How a body ends: as it should, with the connection reset, or never, until the reader gives up. */
export type BodyEnd = "complete" | "reset" | "stall";

/** A response body that sends the texts one by one as they are read, and then ends in the given way. */
export function bodyStream(texts: readonly string[], end: BodyEnd = "complete"): ReadableStream<Uint8Array> {
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

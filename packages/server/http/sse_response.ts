import { eventText, type SseMessage } from "@tare/wire/internal/sse";

/** How a stream shows that it is alive while nothing happens. */
export interface Heartbeat {
  /** Silence after which a comment is sent, in milliseconds. Default: 15,000. */
  readonly intervalMs?: number;
  /** Calls back once after so many milliseconds, unless what it returns is called first. Default: the real time. */
  readonly after?: (ms: number, callback: () => void) => () => void;
}

/**
 * An answer that streams these messages as server-sent events, and a comment whenever nothing was sent for a while.
 *
 * Messages are asked for only as fast as the client reads, and the timer runs only while the client waits, so a
 * slow or lost client costs neither memory nor a timer. A client that disconnects ends the iteration.
 */
export function sseResponse(messages: AsyncIterable<SseMessage>, heartbeat: Heartbeat = {}): Response {
  const { intervalMs = 15_000, after = afterMs } = heartbeat;
  const iterator = messages[Symbol.asyncIterator]();
  const encoder = new TextEncoder();
  let next: Promise<IteratorResult<SseMessage>> | undefined;
  let stopTimer = () => {};
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      // Still pending after a heartbeat.
      next ??= iterator.next();
      const quiet = Promise.withResolvers<undefined>();
      stopTimer = after(intervalMs, () => quiet.resolve(undefined));
      try {
        const result = await Promise.race([next, quiet.promise]);
        if (result === undefined) return controller.enqueue(encoder.encode(": heartbeat\n\n"));
        next = undefined;
        if (result.done) controller.close();
        else controller.enqueue(encoder.encode(eventText(result.value)));
      } finally {
        stopTimer();
      }
    },
    cancel() {
      stopTimer();
      // Not awaited: a generator that waits for its next event can't be ended before it.
      iterator.return?.().catch(() => {});
    },
  }, { highWaterMark: 0 });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      "cache-control": "no-store",
      // Else a reverse proxy such as nginx would collect events before it passes them on.
      "x-accel-buffering": "no",
    },
  });
}

function afterMs(ms: number, callback: () => void): () => void {
  const timer = setTimeout(callback, ms);
  return () => clearTimeout(timer);
}

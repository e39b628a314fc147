import type { EventLog, NumberedEvent } from "../sessions/event_log.ts";
import { errorBody, HttpError } from "../http/http_error.ts";
import { type Heartbeat, type SseMessage, sseResponse } from "../http/sse_response.ts";

/** What {@linkcode eventStream} goes by. */
export interface EventStreamOptions {
  /** How the stream shows that it is alive. Default: that of `sseResponse`. */
  readonly heartbeat?: Heartbeat;
  /** Told of every error that clients don't get to read. */
  readonly onError: (error: unknown) => void;
}

/**
 * An answer that streams these events of a session: each one's number is its `id`, its JSON the `data`. An error is
 * told by an event named `error`, without a number, at the end.
 */
export function eventStream(
  events: AsyncIterable<NumberedEvent>,
  { heartbeat, onError }: EventStreamOptions,
): Response {
  return sseResponse(messagesOf(events, onError), heartbeat);
}

async function* messagesOf(
  events: AsyncIterable<NumberedEvent>,
  onError: EventStreamOptions["onError"],
): AsyncGenerator<SseMessage> {
  try {
    for await (const { number, event } of events) yield { id: number, data: JSON.stringify(event) };
  } catch (error) {
    if (!(error instanceof HttpError)) onError(error);
    // Too late for a status.
    yield { event: "error", data: JSON.stringify(errorBody(error)) };
  }
}

/** The events of the one turn that began after number `after`, those to come included. */
export async function* turnEvents(log: EventLog, after: number): AsyncGenerator<NumberedEvent, void> {
  for await (const numbered of log.read(after)) {
    yield numbered;
    if (numbered.event.type === "turn_end") return;
  }
}

/** Whether the turn that began after number `after` has ended. */
export async function turnHasEnded(log: EventLog, after: number): Promise<boolean> {
  const { last } = log;
  // Reading on at the end of the log would wait for what is still to come.
  if (last <= after) return false;
  for await (const { number, event } of log.read(after)) {
    if (event.type === "turn_end") return true;
    if (number >= last) return false;
  }
  return false;
}

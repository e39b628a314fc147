import { ServerSentEventParseStream } from "@std/http";

/** An event as a client gets it. */
export interface ReceivedEvent {
  /** Its number in the session. */
  readonly number: number;
  /** Its JSON, as it was sent. */
  readonly data: string;
}

/**
 * The events of a stream as they come, until it ends.
 *
 * @throws {TypeError} if the connection breaks.
 * @throws {Error} if the server tells of an error in the stream; the message is what it says.
 */
export async function* readEvents(response: Response): AsyncGenerator<ReceivedEvent, void> {
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  for await (
    const { id, event, data } of response.body?.pipeThrough(new ServerSentEventParseStream()) ?? []
  ) {
    // A comment: it only shows that the connection is there.
    if (data === undefined) continue;
    if (event === "error") throw new Error(data);
    yield { number: Number(id), data };
  }
}

import { ServerSentEventParseStream } from "@std/http";

export interface ReceivedEvent {
  readonly number: number;
  readonly data: string;
}

/**
 * Yields the events of a stream until it ends.
 *
 * @throws {TypeError} if the connection breaks.
 * @throws {Error} if the server reports an error in the stream.
 */
export async function* readEvents(response: Response): AsyncGenerator<ReceivedEvent, void> {
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  for await (
    const { id, event, data } of response.body?.pipeThrough(new ServerSentEventParseStream()) ?? []
  ) {
    // A comment: it only keeps the connection alive.
    if (data === undefined) continue;
    if (event === "error") throw new Error(data);
    yield { number: Number(id), data };
  }
}

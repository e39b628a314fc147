export interface ServerSentEventMessage {
  comment?: string;
  event?: string;
  data?: string;
  id?: string | number;
  retry?: number;
}
export interface ServerSentEventParsedMessage {
  comment?: string;
  event?: string;
  data?: string;
  id?: string;
  retry?: number;
}
export class ServerSentEventStream extends TransformStream<ServerSentEventMessage, Uint8Array<ArrayBuffer>> {
  constructor();
}
export class ServerSentEventParseStream
  extends TransformStream<Uint8Array<ArrayBuffer>, ServerSentEventParsedMessage> {
  constructor(options?: { ignoreComments?: boolean });
}
export type StatusCode = number;
export const STATUS_CODE: Readonly<Record<string, number>>;
export const STATUS_TEXT: Readonly<Record<number, string>>;

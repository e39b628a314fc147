export interface ServerSentEventParsedMessage {
  comment?: string;
  event?: string;
  data?: string;
  id?: string;
  retry?: number;
}
export class ServerSentEventParseStream
  extends TransformStream<Uint8Array<ArrayBuffer>, ServerSentEventParsedMessage> {
  constructor(options?: { ignoreComments?: boolean });
}
// deno-fmt-ignore
export type StatusCode =
  | 100 | 101 | 102 | 103 | 200 | 201 | 202 | 203 | 204 | 205 | 206 | 207 | 208 | 226 | 300 | 301 | 302 | 303 | 304 | 305
  | 307 | 308 | 400 | 401 | 402 | 403 | 404 | 405 | 406 | 407 | 408 | 409 | 410 | 411 | 412 | 413 | 414 | 415 | 416 | 417
  | 418 | 421 | 422 | 423 | 424 | 425 | 426 | 428 | 429 | 431 | 451 | 500 | 501 | 502 | 503 | 504 | 505 | 506 | 507 | 508
  | 510 | 511;
export const STATUS_TEXT: Readonly<Record<StatusCode, string>>;
export function isStatus(status: number): status is StatusCode;
export function ifNoneMatch(value: string | null, etag: string | undefined): boolean;

/** Longest server-sent event in bytes, and longest reply that isn't streamed. */
export const MAX_EVENT_BYTES: number = 16 * 2 ** 20;

/** Longest stream of events in bytes: an event a token, of which providers make a few hundred bytes. */
export const MAX_STREAM_BYTES: number = 128 * 2 ** 20;

/** Most calls of tools in one reply: models make some tens. */
export const MAX_CALLS = 256;

/** A reply is longer than it may be. Its message says by which limit, as a sentence goes on: `its stream has more than …`. */
export class ReplyTooLong extends Error {
  /** Always `ReplyTooLong`. */
  override readonly name = "ReplyTooLong";
}

/** A number of bytes as people say it. */
export function inMebibytes(bytes: number): string {
  return `${Math.round(bytes / 2 ** 20 * 100) / 100} MiB`;
}

/** Largest message that is taken from a server, in bytes. */
export const MAX_MESSAGE_BYTES: number = 16 * 2 ** 20;

/** What is said of a larger one. */
export const TOO_LARGE: string = `its answer is larger than ${
  MAX_MESSAGE_BYTES / 2 ** 20
} MiB: ask for less in one call`;

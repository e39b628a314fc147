/** Returns the message of a thrown value. */
export function reasonOf(cause: unknown): string {
  return cause instanceof Error ? cause.message : String(cause);
}

/** Returns the result of `work`; rejects with the signal's reason as soon as it is aborted. */
export async function untilAborted<T>(work: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  const { promise: aborted, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal?.reason);
  signal?.addEventListener("abort", abort);
  try {
    signal?.throwIfAborted();
    return await Promise.race([work(), aborted]);
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}

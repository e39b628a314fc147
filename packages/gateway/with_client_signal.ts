/**
 * Runs `work` with a controller that is aborted if the client of a request disconnects before `work` settles, as the
 * signal reports. A client that disconnects later cancels the response's body; `Deno.serve` aborts a request's signal
 * then too, and after each response that was sent.
 *
 * @throws The error of `work`.
 */
export async function withClientSignal<T>(
  signal: AbortSignal | undefined,
  work: (abort: AbortController) => Promise<T>,
): Promise<T> {
  const abort = new AbortController();
  const follow = () => abort.abort(signal?.reason);
  if (signal?.aborted) follow();
  else signal?.addEventListener("abort", follow, { once: true });
  try {
    return await work(abort);
  } finally {
    signal?.removeEventListener("abort", follow);
  }
}

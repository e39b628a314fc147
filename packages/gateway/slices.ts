/** Longest time for which other requests wait, in milliseconds. */
const SLICE_MS = 3;

/** Works step by step, and lets other requests in between where that takes long. */
export async function inSlices<T>(steps: Iterator<void, T>): Promise<T> {
  let startedMs = performance.now();
  for (;;) {
    const { done, value } = steps.next();
    if (done) return value;
    if (performance.now() - startedMs < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    startedMs = performance.now();
  }
}

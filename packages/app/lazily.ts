/** Returns a function that computes a value once, retrying after a failure. */
export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () =>
    value ??= make().catch((error) => {
      value = undefined;
      throw error;
    });
}

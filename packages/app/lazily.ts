/** Returns a function that makes a value on its first call; after a failure the next call tries again. */
export function lazily<T>(make: () => Promise<T>): () => Promise<T> {
  let value: Promise<T> | undefined;
  return () =>
    value ??= make().catch((error) => {
      value = undefined;
      throw error;
    });
}

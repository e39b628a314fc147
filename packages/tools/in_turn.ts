const last = new Map<string, Promise<unknown>>();

/**
 * Runs actions with the same key one after the other, in the order in which they were handed in. Calls of one step
 * run in parallel, and two edits of one file must not both start from the same text.
 */
export async function inTurn<T>(key: string, action: () => Promise<T>): Promise<T> {
  const before = last.get(key) ?? Promise.resolve();
  const run = before.then(action, action);
  last.set(key, run);
  try {
    return await run;
  } finally {
    if (last.get(key) === run) last.delete(key);
  }
}

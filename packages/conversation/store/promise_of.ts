/** What a function gives or throws, as a promise; it has run when this returns. Not Promise.try(): Node has it from 24 on. */
export function promiseOf<T>(act: () => T | PromiseLike<T>): Promise<T> {
  return new Promise((resolve) => resolve(act()));
}

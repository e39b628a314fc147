/** Does one piece of work after the other, each once those before it have settled. */
export class Queue {
  #last: Promise<unknown> = Promise.resolve();

  /** Settles as the work does, when its time has come. Work must not wait for work that is queued behind it. */
  run<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#last.then(work);
    this.#last = result.catch(() => {});
    return result;
  }
}

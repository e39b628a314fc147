/** Asks for a server's health all the time, from a thread of its own; says how long the slowest answer took. */
export interface HealthWatch {
  /** Ends it; gives the longest time that an answer took, in milliseconds. */
  readonly stop: () => Promise<number>;
}

/** Begins at once. */
export function watchHealth(url: string): HealthWatch {
  const source = `
    let isOver = false;
    let slowest = 0;
    self.onmessage = () => isOver = true;
    while (!isOver) {
      const started = performance.now();
      await (await fetch(${JSON.stringify(`${url}/health`)})).text();
      slowest = Math.max(slowest, performance.now() - started);
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    self.postMessage(slowest);
  `;
  const worker = new Worker(`data:text/javascript,${encodeURIComponent(source)}`, { type: "module" });
  return {
    async stop() {
      const told = new Promise<number>((resolve) => worker.onmessage = ({ data }) => resolve(data));
      worker.postMessage("stop");
      const slowest = await told;
      worker.terminate();
      return slowest;
    },
  };
}

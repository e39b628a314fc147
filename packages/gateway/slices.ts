import { slicer } from "@tare/planner";

/** Works step by step, and lets other requests in between where that takes long. */
export const inSlices: <T>(steps: Iterator<void, T>) => Promise<T> = slicer({
  nowMs: () => performance.now(),
  pause: () => new Promise((resolve) => setTimeout(resolve)),
});

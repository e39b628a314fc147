import { setImmediate } from "node:timers";
import { slicer } from "@tare/planner";

/** So many long works go on by turns; those that came later wait for one of them to end, so that all end sooner. */
const MOST_AT_ONCE = 2;

/** Those that go on by turns, then those that wait. */
const line: { go?: () => void }[] = [];
/** Those that go on by turns and wait for theirs. */
const due: (() => void)[] = [];
let isTurning = false;

/** Lets one of those that are due go on, whenever everything else that could happen has. */
function turn(): void {
  isTurning = true;
  // A timer would take two milliseconds and more, in which nothing happens.
  setImmediate(() => {
    due.shift()?.();
    if (due.length > 0) turn();
    else isTurning = false;
  });
}

/**
 * Works step by step, and lets other requests in between where that takes long. What is short doesn't wait for what is
 * long, and of that few go on at the same time.
 */
export async function inSlices<T>(steps: Iterator<void, T>): Promise<T> {
  const place: (typeof line)[number] = {};
  const comeUp = (go: () => void) => {
    due.push(go);
    if (!isTurning) turn();
  };
  const pause = () =>
    new Promise<void>((resolve) => {
      if (!line.includes(place)) line.push(place);
      if (line.indexOf(place) < MOST_AT_ONCE) comeUp(resolve);
      else place.go = () => comeUp(resolve);
    });
  try {
    return await slicer({ nowMs: () => performance.now(), pause })(steps);
  } finally {
    const at = line.indexOf(place);
    if (at >= 0) {
      line.splice(at, 1);
      const next = line[MOST_AT_ONCE - 1];
      next?.go?.();
      delete next?.go;
    }
  }
}

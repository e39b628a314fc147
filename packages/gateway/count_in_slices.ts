import type { CountTokens } from "@tare/messages";
import { promptUnits } from "@tare/planner";
import type { WireRequest } from "@tare/wire";

/** Longest time for which other requests wait, in milliseconds. */
const SLICE_MS = 3;

/**
 * Counts and hashes all messages of a request, which is remembered. A long history that is seen for the first time
 * takes a while, so that other requests are let in between.
 */
export async function countInSlices(
  { items }: Pick<WireRequest, "items">,
  countTokens: CountTokens,
): Promise<void> {
  let started = performance.now();
  for (const { value } of items) {
    promptUnits({ messages: [value], tools: [] }, countTokens);
    if (performance.now() - started < SLICE_MS) continue;
    await new Promise((resolve) => setTimeout(resolve));
    started = performance.now();
  }
}

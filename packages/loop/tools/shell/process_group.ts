import process from "node:process";

/** How long processes may take to end when asked, and output to arrive once they have. */
export const GRACE_MS: number = 1000;

const POLL_MS = 20;

/**
 * Whether any process of the group is left. One that has ended counts until its parent has taken note, which for
 * orphans is the system's first process and may take it a second.
 */
export function groupIsAlive(group: number): boolean {
  return signalGroup(group, 0);
}

/**
 * Ends all processes of a group: asks them (SIGTERM), and makes them (SIGKILL) after `graceMs`, or once `enough`
 * settles. Processes that left the group (`setsid`) are found by their mark.
 */
export async function endGroup(
  group: number,
  { graceMs, enough }: { readonly graceMs: number; readonly enough: Promise<unknown> },
): Promise<void> {
  signalGroup(group, "SIGTERM");
  for (let waited = 0; waited < graceMs && groupIsAlive(group); waited += POLL_MS) {
    if (await settlesWithin(enough, POLL_MS)) break;
  }
  signalGroup(group, "SIGKILL");
}

/** Waits for `work` to settle, but no longer than `ms`. Tells whether it did. */
export async function settlesWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const timer = setTimeout(() => resolve(false), ms);
  work.then(() => resolve(true), () => resolve(true));
  const settled = await promise;
  clearTimeout(timer);
  return settled;
}

function signalGroup(group: number, signal: "SIGTERM" | "SIGKILL" | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false; // Nobody is left, or nobody that this process may signal.
  }
}

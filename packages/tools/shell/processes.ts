import process from "node:process";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { isDenied } from "../define_tool.ts";

/** Time for processes to end after SIGTERM, and for their output to arrive, in milliseconds. */
export const GRACE_MS: number = 1000;

const POLL_MS = 20;
const CHECK_MS = 50;

/** Returns whether a process of the group exists. An ended orphan may count for a second. */
export function groupIsAlive(group: number): boolean {
  return signalGroup(group, 0);
}

/** Ends a process group by SIGTERM, then SIGKILL after `graceMs` or once `enough` settles. */
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

/** Waits until `work` settles, `ms` have passed or the signal is aborted. Returns whether it settled. */
export async function settlesWithin(
  work: Promise<unknown>,
  ms: number,
  signal?: AbortSignal,
): Promise<boolean> {
  if (signal?.aborted) return false;
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const giveUp = () => resolve(false);
  const timer = setTimeout(giveUp, ms);
  signal?.addEventListener("abort", giveUp);
  work.then(() => resolve(true), () => resolve(true));
  const settled = await promise;
  clearTimeout(timer);
  signal?.removeEventListener("abort", giveUp);
  return settled;
}

function signalGroup(group: number, signal: "SIGTERM" | "SIGKILL" | 0): boolean {
  try {
    process.kill(-group, signal);
    return true;
  } catch {
    return false;
  }
}

/** Environment variable that marks a command's processes, even outside of its process group. */
export const MARK = "TARE_COMMAND";

/** The only variable that Node.js passes to programs with their own environment. */
export const NOTHING_INHERITED: Readonly<Record<string, undefined>> = { NODE_V8_COVERAGE: undefined };

interface Marked {
  readonly owner: string;
  readonly id?: string;
}

export function markOf({ owner, id = "" }: Marked): string {
  return `${owner}.${id}`;
}

/** Ends marked processes, by SIGTERM and a second later SIGKILL. Returns their number; 0 without `/proc`. */
export async function endMarked(marked: Marked): Promise<number> {
  const found = await findMarked(marked);
  for (const id of found) signal(id, "SIGTERM");
  let left = found;
  for (let waited = 0; waited < GRACE_MS && left.length > 0; waited += CHECK_MS) {
    await new Promise((resolve) => setTimeout(resolve, CHECK_MS));
    left = await findMarked(marked);
  }
  for (let round = 0; round < MAX_ROUNDS && left.length > 0; round++) {
    for (const id of left) signal(id, "SIGKILL");
    left = await findMarked(marked);
  }
  return found.length;
}

const MAX_ROUNDS = 20;

/** Deno reads `/proc` only with all permissions. */
async function findMarked(marked: Marked): Promise<number[]> {
  if (process.platform !== "linux") return [];
  const args = ["-c", 'exec grep -lsF -e "$1" /proc/[0-9]*/environ', "sh", `${MARK}=${markOf(marked)}`];
  const grep = spawn("/bin/sh", args, { env: NOTHING_INHERITED, stdio: ["ignore", "pipe", "ignore"] });
  let paths = "";
  grep.stdout.setEncoding("utf8").on("data", (piece) => paths += piece);
  try {
    await once(grep, "close");
  } catch (error) {
    // A process that may only start sandboxes leaves nothing running.
    if (!isDenied(error)) throw error;
  }
  return Array.from(paths.matchAll(/^\/proc\/(\d+)\//gm), ([, id]) => Number(id));
}

function signal(id: number, sent: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(id, sent);
  } catch {
    // It has ended.
  }
}

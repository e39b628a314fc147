import { spawn } from "node:child_process";
import { once } from "node:events";
import process from "node:process";
import { GRACE_MS } from "./process_group.ts";

/** The variable that marks the processes of a command: they keep it when they leave the command's process group. */
export const MARK = "TARE_COMMAND";

/** The one variable that Node hands on to programs that get an environment of their own. */
export const NOTHING_INHERITED: Readonly<Record<string, undefined>> = { NODE_V8_COVERAGE: undefined };

/** The processes of one command, or of all that were given this owner. */
export interface Marked {
  /** Who ran it. */
  readonly owner: string;
  /** The command. Default: any. */
  readonly id?: string;
}

/** A command's mark, as its processes carry it. */
export function markOf({ owner, id = "" }: Marked): string {
  return `${owner}.${id}`;
}

/**
 * Ends all processes that still carry a mark: asks them (SIGTERM), and makes them (SIGKILL) a second later. Gives how
 * many there were. One that took another environment is out of reach, and all are on systems without `/proc`.
 */
export async function endMarked(marked: Marked): Promise<number> {
  const found = await findMarked(marked);
  for (const id of found) signal(id, "SIGTERM");
  let left = found;
  for (let waited = 0; waited < GRACE_MS && left.length > 0; waited += POLL_MS) {
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    left = await findMarked(marked);
  }
  // Those that they started meanwhile too; one that even this doesn't end must keep nobody waiting.
  for (let round = 0; round < MAX_ROUNDS && left.length > 0; round++) {
    for (const id of left) signal(id, "SIGKILL");
    left = await findMarked(marked);
  }
  return found.length;
}

const POLL_MS = 50;
const MAX_ROUNDS = 20;

/** Deno itself reads `/proc` only with all permissions. */
async function findMarked(marked: Marked): Promise<number[]> {
  if (process.platform !== "linux") return [];
  const args = ["-c", 'exec grep -lsF -e "$1" /proc/[0-9]*/environ', "sh", `${MARK}=${markOf(marked)}`];
  const grep = spawn("/bin/sh", args, { env: NOTHING_INHERITED, stdio: ["ignore", "pipe", "ignore"] });
  let paths = "";
  grep.stdout.setEncoding("utf8").on("data", (piece) => paths += piece);
  await once(grep, "close");
  return Array.from(paths.matchAll(/^\/proc\/(\d+)\//gm), ([, id]) => Number(id));
}

function signal(id: number, sent: "SIGTERM" | "SIGKILL"): void {
  try {
    process.kill(id, sent);
  } catch {
    // It has ended by itself.
  }
}

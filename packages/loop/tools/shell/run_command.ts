import { spawn } from "node:child_process";
import type { ToolContext } from "@tare/messages";
import { BoundedOutput } from "./bounded_output.ts";
import { endMarked, MARK, markOf, NOTHING_INHERITED } from "./marked_processes.ts";
import { endGroup, GRACE_MS, groupIsAlive, settlesWithin } from "./process_group.ts";

/** How a command is run. */
export interface CommandOptions {
  /** Folder to run in. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly context: ToolContext;
  /** Who is to be found in what the command's processes leave behind. Default: nobody. */
  readonly owner?: string | undefined;
}

/** What the system says of a process that has ended: one of the two. */
export interface CommandStatus {
  readonly code: number | null;
  readonly signal: string | null;
}

/** How a command ended. */
export interface CommandOutcome {
  readonly ending: "exited" | "timed_out" | "cancelled";
  readonly status: CommandStatus;
  /** What it wrote to standard output and standard error, in the order in which it did. */
  readonly output: BoundedOutput;
  /** True if it left processes in the background, which were then ended. */
  readonly leftProcesses: boolean;
}

/** Runs the shell of the command with both outputs in one pipe, so that they stay in order. */
const MERGE_OUTPUTS = 'exec /bin/sh -c "$1" 2>&1';

/**
 * Runs a command with `sh` in a process group of its own and waits until it exits, its time is up or the caller
 * cancels. Then everything that it started and left is ended, in the group and, on Linux, out of it. Output is read all the time, so that
 * a full pipe never blocks the command.
 */
export async function runCommand(command: string, options: CommandOptions): Promise<CommandOutcome> {
  const { cwd, env, timeoutMs, maxOutputBytes, context, owner = "" } = options;
  const marked = { owner, id: crypto.randomUUID() };
  context.confirm?.();
  const child = spawn("/bin/sh", ["-c", MERGE_OUTPUTS, "sh", command], {
    cwd,
    env: { ...NOTHING_INHERITED, ...env, [MARK]: markOf(marked) },
    // A session of its own: no terminal to ask for passwords, and one signal reaches all its processes.
    detached: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const { pid: group } = child;
  // It couldn't be started.
  if (group === undefined) throw await new Promise((resolve) => child.once("error", resolve));
  const exited = new Promise<CommandStatus>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const output = new BoundedOutput(maxOutputBytes);
  const decoder = new TextDecoder();
  const read = readAll(child.stdout, (piece) => {
    output.push(piece);
    context.output?.(decoder.decode(piece, { stream: true }));
    context.progress();
  });

  const ending = await waitFor(exited, timeoutMs, context.signal);
  const leftGroup = groupIsAlive(group);
  if (leftGroup) {
    // A command that exited by itself must not wait for the whole grace on account of processes that hold nothing.
    const enough = ending === "exited" ? read : new Promise(() => {});
    await endGroup(group, { graceMs: GRACE_MS, enough });
  }
  const status = await exited;
  const strays = await endMarked(marked);
  // Whoever couldn't be ended may keep the pipe open for ever.
  await settlesWithin(read, GRACE_MS);
  child.stdout.destroy();
  return { ending, status, output, leftProcesses: (leftGroup || strays > 0) && ending === "exited" };
}

async function readAll(
  pieces: AsyncIterable<Uint8Array>,
  onPiece: (piece: Uint8Array) => void,
): Promise<void> {
  for await (const piece of pieces) onPiece(piece);
}

async function waitFor(
  exited: Promise<unknown>,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<CommandOutcome["ending"]> {
  const { promise, resolve } = Promise.withResolvers<CommandOutcome["ending"]>();
  const onAbort = () => resolve("cancelled");
  signal.addEventListener("abort", onAbort);
  const timer = setTimeout(() => resolve("timed_out"), timeoutMs);
  exited.then(() => resolve("exited"));
  const ending = await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", onAbort);
  return ending;
}

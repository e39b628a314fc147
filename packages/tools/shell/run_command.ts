import type { ToolContext } from "@tare/messages";
import { BoundedOutput } from "./bounded_output.ts";
import { endGroup, groupIsAlive, settlesWithin } from "./process_group.ts";

/** How a command is run. */
export interface CommandOptions {
  /** Folder to run in. */
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly context: ToolContext;
}

/** How a command ended. */
export interface CommandOutcome {
  readonly ending: "exited" | "timed_out" | "cancelled";
  readonly status: Deno.CommandStatus;
  /** What it wrote to standard output and standard error, in the order in which it did. */
  readonly output: BoundedOutput;
  /** True if it left processes in the background, which were then ended. */
  readonly leftProcesses: boolean;
}

/** How long processes may take to end when asked, and output to arrive once they have. */
export const GRACE_MS: number = 1000;

/** Runs the shell of the command with both outputs in one pipe, so that they stay in order. */
const MERGE_OUTPUTS = 'exec /bin/sh -c "$1" 2>&1';

/**
 * Runs a command with `sh` in a process group of its own and waits until it exits, its time is up or the caller
 * cancels. Then everything that it started and left in the group is ended. Output is read all the time, so that
 * a full pipe never blocks the command.
 */
export async function runCommand(command: string, options: CommandOptions): Promise<CommandOutcome> {
  const { cwd, env, timeoutMs, maxOutputBytes, context } = options;
  const child = new Deno.Command("/bin/sh", {
    args: ["-c", MERGE_OUTPUTS, "sh", command],
    cwd,
    env,
    clearEnv: true,
    // A session of its own: no terminal to ask for passwords, and one signal reaches all its processes.
    detached: true,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const output = new BoundedOutput(maxOutputBytes);
  const reader = child.stdout.getReader();
  const decoder = new TextDecoder();
  const read = readAll(reader, (piece) => {
    output.push(piece);
    context.output?.(decoder.decode(piece, { stream: true }));
    context.progress();
  });

  const ending = await waitFor(child, timeoutMs, context.signal);
  const leftProcesses = groupIsAlive(child.pid);
  if (leftProcesses) {
    // A command that exited by itself must not wait for the whole grace on account of processes that hold nothing.
    const enough = ending === "exited" ? read : new Promise(() => {});
    await endGroup(child.pid, { graceMs: GRACE_MS, enough });
  }
  const status = await child.status;
  // Whoever left the group may keep the pipe open for ever.
  await settlesWithin(read, GRACE_MS);
  await reader.cancel();
  return { ending, status, output, leftProcesses: leftProcesses && ending === "exited" };
}

async function readAll(
  reader: ReadableStreamDefaultReader<Uint8Array>,
  onPiece: (piece: Uint8Array) => void,
): Promise<void> {
  for (let next = await reader.read(); !next.done; next = await reader.read()) onPiece(next.value);
}

async function waitFor(
  child: Deno.ChildProcess,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<CommandOutcome["ending"]> {
  const { promise, resolve } = Promise.withResolvers<CommandOutcome["ending"]>();
  const onAbort = () => resolve("cancelled");
  signal.addEventListener("abort", onAbort);
  const timer = setTimeout(() => resolve("timed_out"), timeoutMs);
  child.status.then(() => resolve("exited"));
  const ending = await promise;
  clearTimeout(timer);
  signal.removeEventListener("abort", onAbort);
  return ending;
}

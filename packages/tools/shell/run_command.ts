import type { ToolContext } from "@tare/messages";
import { spawn } from "node:child_process";
import type { Writable } from "node:stream";
import { guardWorkspace, type Renamed } from "../sandbox/guard.ts";
import { type Sandbox, sandboxed, type SandboxStart, unconfined, writeInputs } from "../sandbox/sandbox.ts";
import { decodeText } from "../result_text.ts";
import {
  endGroup,
  endMarked,
  GRACE_MS,
  groupIsAlive,
  MARK,
  markOf,
  NOTHING_INHERITED,
  settlesWithin,
} from "./processes.ts";

export interface CommandPlace {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** Part of the mark of its processes, by which {@linkcode endMarked} finds them. Default: none. */
  readonly owner?: string | undefined;
  /** The sandbox that it runs in. Default: none. */
  readonly sandbox?: Sandbox | undefined;
  /** Whether it runs outside of the sandbox, which still ends what it leaves running where it can. Default: false. */
  readonly isOutside?: boolean;
}

export interface StartOptions extends CommandPlace {
  /** Called with each piece of both its outputs, in their order. No more is read until it has resolved. */
  readonly onOutput: (piece: Uint8Array<ArrayBuffer>) => Promise<void> | void;
  /** Called with each piece of output of the sandbox itself, and of `script`. Default: `onOutput`. */
  readonly onAside?: (piece: Uint8Array<ArrayBuffer>) => void;
  /** Throws unless the command may start; called right before. */
  readonly confirm?: ToolContext["confirm"];
  /** A script that runs the command, its first argument, and reads standard input. Default: a shell without input. */
  readonly script?: string;
}

export interface CommandOptions extends CommandPlace {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly context: ToolContext;
}

/** How a program is started. `onAside` is called with its standard error. */
interface ProgramOptions extends Omit<StartOptions, "sandbox" | "isOutside" | "confirm" | "script"> {
  /** Whether its standard input can be written. Default: it has none. */
  readonly hasInput?: boolean;
}

/** The exit code or the signal of a process that has ended. */
export interface CommandStatus {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface CommandEnd {
  readonly status: CommandStatus;
  readonly leftProcesses: boolean;
  /** Protected paths that appeared while it ran in a sandbox, and the names that they have now. */
  readonly renamed: readonly Renamed[];
}

export interface StartedCommand {
  /** Settles when it has exited by itself or was ended; what it started may still run. */
  readonly exited: Promise<CommandStatus>;
  readonly stdin: Writable | undefined;
  /** Ends all that it started and left, it too if it runs; settles when that is done and its output has come. */
  readonly end: () => Promise<CommandEnd>;
}

export interface CommandOutcome extends Pick<CommandEnd, "renamed"> {
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
export async function runShellCommand(command: string, options: CommandOptions): Promise<CommandOutcome> {
  const { timeoutMs, context: { signal, confirm }, ...start } = options;
  const { output, onOutput } = collectOutput(options);
  const started = await startCommand(command, { ...start, ...(confirm && { confirm }), onOutput });
  const hasExited = await settlesWithin(started.exited, timeoutMs, signal);
  const { status, leftProcesses, renamed } = await started.end();
  const ending = hasExited ? "exited" : signal.aborted ? "cancelled" : "timed_out";
  return { ending, status, output, renamed, leftProcesses: leftProcesses && hasExited };
}

/** Returns what collects the output of a call's command, and passes it on while it runs. */
export function collectOutput({ maxOutputBytes, context }: CommandOptions): {
  readonly output: BoundedOutput;
  readonly onOutput: (piece: Uint8Array) => void;
} {
  const output = new BoundedOutput(maxOutputBytes);
  const decoder = new TextDecoder();
  const onOutput = (piece: Uint8Array) => {
    output.push(piece);
    context.output?.(decoder.decode(piece, { stream: true }));
    context.progress();
  };
  return { output, onOutput };
}

/** Starts a command in a process group of its own. Whoever starts it ends it, once it has exited too. */
export async function startCommand(command: string, options: StartOptions): Promise<StartedCommand> {
  const { cwd, sandbox, isOutside = false, confirm, script = MERGE_OUTPUTS } = options;
  const shell = ["/bin/sh", "-c", script, "sh", command];
  const programOptions = { ...options, hasInput: options.script !== undefined };
  confirm?.();
  if (sandbox === undefined) return await startProgram(unconfined(shell), programOptions);
  const guard = isOutside ? undefined : guardWorkspace(sandbox);
  try {
    const { fixed } = guard ?? {};
    const started = await startProgram(
      sandboxed(sandbox, { command: shell, cwd, isOutside, ...(fixed && { fixed }) }),
      programOptions,
    );
    const end = async () => {
      try {
        return { ...await started.end(), renamed: await guard?.end() ?? [] };
      } finally {
        await guard?.end();
      }
    };
    return { ...started, end };
  } catch (error) {
    await guard?.end();
    throw error;
  }
}

/** Starts a program in a process group of its own. The caller ends it, after it has exited too. */
export async function startProgram(
  { program, args, env: more, inputs, endsWhole }: SandboxStart,
  { cwd, env, owner = "", onOutput, onAside = onOutput, hasInput = false }: ProgramOptions,
): Promise<StartedCommand> {
  const marked = { owner, id: crypto.randomUUID() };
  const child = spawn(program, [...args], {
    cwd,
    env: { ...NOTHING_INHERITED, ...env, ...more, [MARK]: markOf(marked) },
    // A session of its own: no terminal to ask for passwords, and one signal reaches all its processes.
    detached: true,
    stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe", ...inputs.map(() => "pipe" as const)],
  });
  const { pid: group, stdin, stdout, stderr } = child;
  // It couldn't be started.
  if (group === undefined || !stdout || !stderr) {
    throw await new Promise((resolve) => child.once("error", resolve));
  }
  writeInputs(child, inputs);
  // A program that no longer reads is about to end.
  stdin?.on("error", () => {});
  const exited = new Promise<CommandStatus>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  let hasExited = false;
  exited.then(() => hasExited = true);
  const read = Promise.allSettled([readAll(stdout, onOutput), readAll(stderr, onAside)]);
  const leave = async () => {
    // A process that couldn't be ended may keep the pipe open for ever.
    await settlesWithin(read, GRACE_MS);
    for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    await read;
  };
  const end = async () => {
    if (endsWhole) {
      // With its first process the system ends them all.
      child.kill("SIGKILL");
      const status = await exited;
      await leave();
      return { status, leftProcesses: false, renamed: [] };
    }
    const leftGroup = groupIsAlive(group);
    if (leftGroup) {
      // A command that exited by itself must not wait for the whole grace on account of processes that hold nothing.
      const enough = hasExited ? read : new Promise(() => {});
      await endGroup(group, { graceMs: GRACE_MS, enough });
    }
    const status = await exited;
    const strays = await endMarked(marked);
    await leave();
    return { status, leftProcesses: leftGroup || strays > 0, renamed: [] };
  };
  let ended: Promise<CommandEnd> | undefined;
  return { exited, stdin: stdin ?? undefined, end: () => ended ??= end() };
}

async function readAll(
  pieces: AsyncIterable<Uint8Array<ArrayBuffer>>,
  onPiece: (piece: Uint8Array<ArrayBuffer>) => Promise<void> | void,
): Promise<void> {
  for await (const piece of pieces) await onPiece(piece);
}

/** Keeps the beginning and the end of an output, each in half of `maxBytes`, copied out of large buffers. */
export class BoundedOutput {
  readonly #head: Uint8Array;
  #headBytes = 0;
  /** A ring: byte n of what follows the head is at n modulo its length. */
  readonly #tail: Uint8Array;
  #tailBytes = 0;

  constructor(maxBytes: number) {
    const half = Math.ceil(maxBytes / 2);
    this.#head = new Uint8Array(half);
    this.#tail = new Uint8Array(half);
  }

  push(piece: Uint8Array): void {
    const forHead = piece.subarray(0, this.#head.length - this.#headBytes);
    this.#head.set(forHead, this.#headBytes);
    this.#headBytes += forHead.length;

    const size = this.#tail.length;
    const rest = piece.subarray(forHead.length);
    const kept = rest.subarray(Math.max(0, rest.length - size));
    const at = (this.#tailBytes + rest.length - kept.length) % size;
    const upToEnd = kept.subarray(0, size - at);
    this.#tail.set(upToEnd, at);
    this.#tail.set(kept.subarray(upToEnd.length), 0);
    this.#tailBytes += rest.length;
  }

  /** Returns what was stored as a text, under a line that counts all that came. */
  describe(what: string): string {
    const { text, replaced, totalBytes } = this.text();
    if (totalBytes === 0) return `no ${what}`;
    const note = replaced ? ", invalid UTF-8 or NUL shown as \uFFFD" : "";
    return `${totalBytes} bytes of ${what}${note}\n${text}`;
  }

  /** What was kept, with a line that says how much is left out in the middle, and how many bytes came in all. */
  text(): { readonly text: string; readonly replaced: boolean; readonly totalBytes: number } {
    const totalBytes = this.#headBytes + this.#tailBytes;
    const head = this.#head.subarray(0, this.#headBytes);
    const size = this.#tail.length;
    if (this.#tailBytes <= size) {
      return { ...decodeText(join(head, this.#tail.subarray(0, this.#tailBytes))), totalBytes };
    }
    const at = this.#tailBytes % size;
    const begin = wholeCharacters(head);
    const end = wholeCharacters(join(this.#tail.subarray(at), this.#tail.subarray(0, at)));
    const note = `\n[… ${totalBytes - begin.length - end.length} bytes left out here …]\n`;
    const [first, last] = [decodeText(begin), decodeText(end)];
    return { text: first.text + note + last.text, replaced: first.replaced || last.replaced, totalBytes };
  }
}

function join(a: Uint8Array, b: Uint8Array): Uint8Array {
  const joined = new Uint8Array(a.length + b.length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** The bytes without the parts of UTF-8 characters that a cut left at either end. */
function wholeCharacters(bytes: Uint8Array): Uint8Array {
  let start = 0;
  while (start < 3 && isContinuation(bytes[start])) start++;
  let last = bytes.length - 1;
  while (last > bytes.length - 4 && isContinuation(bytes[last])) last--;
  const lead = bytes[last] ?? 0;
  const expected = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : lead >= 0xC0 ? 2 : 1;
  const end = last + expected > bytes.length ? last : bytes.length;
  return bytes.subarray(start, Math.max(start, end));
}

function isContinuation(byte: number | undefined): boolean {
  return byte !== undefined && (byte & 0xC0) === 0x80;
}

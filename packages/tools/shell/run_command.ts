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
  /** Owner in the mark of its processes, for {@linkcode endMarked}. Default: none. */
  readonly owner?: string | undefined;
  readonly sandbox?: Sandbox | undefined;
  /** Whether it runs outside of the sandbox, which still ends its processes where it can. Default: false. */
  readonly isOutside?: boolean;
}

export interface StartOptions extends CommandPlace {
  readonly onOutput: (piece: Uint8Array<ArrayBuffer>) => Promise<void> | void;
  /** Called with each piece of output of the sandbox itself, and of `script`. Default: `onOutput`. */
  readonly onAside?: (piece: Uint8Array<ArrayBuffer>) => void;
  /** Throws unless the command may start; called right before. */
  readonly confirm?: ToolContext["confirm"];
  /**
   * Script that runs the command, its first argument, and reads standard input. Default: a shell without
   * input.
   */
  readonly script?: string;
}

export interface CommandOptions extends CommandPlace {
  readonly timeoutMs: number;
  readonly maxOutputBytes: number;
  readonly context: ToolContext;
}

interface ProgramOptions extends Omit<StartOptions, "sandbox" | "isOutside" | "confirm" | "script"> {
  /** Whether its standard input can be written. Default: false. */
  readonly hasInput?: boolean;
}

/** Exit code or signal of an ended process. */
export interface CommandStatus {
  readonly code: number | null;
  readonly signal: string | null;
}

export interface CommandEnd {
  readonly status: CommandStatus;
  readonly leftProcesses: boolean;
  readonly renamed: readonly Renamed[];
}

export interface StartedCommand {
  readonly exited: Promise<CommandStatus>;
  readonly stdin: Writable | undefined;
  /** Settles when its output is complete. */
  readonly end: () => Promise<CommandEnd>;
}

export interface CommandOutcome extends Pick<CommandEnd, "renamed"> {
  readonly ending: "exited" | "timed_out" | "cancelled";
  readonly status: CommandStatus;
  readonly output: BoundedOutput;
  readonly leftProcesses: boolean;
}

const MERGE_OUTPUTS = 'exec /bin/sh -c "$1" 2>&1';

/**
 * Runs a command with `sh` in its own process group until it exits, times out or is canceled, then ends all
 * its processes: those of the group and, on Linux, others. Output is read continuously.
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

/** Returns a collector of a command's output, which also reports it as progress. */
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

/** Starts a command in its own process group. The caller ends it, even after it exited. */
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

/** Starts a program in its own process group. The caller ends it, even after it exited. */
export async function startProgram(
  { program, args, env: more, inputs, endsWhole }: SandboxStart,
  { cwd, env, owner = "", onOutput, onAside = onOutput, hasInput = false }: ProgramOptions,
): Promise<StartedCommand> {
  const marked = { owner, id: crypto.randomUUID() };
  const child = spawn(program, [...args], {
    cwd,
    env: { ...NOTHING_INHERITED, ...env, ...more, [MARK]: markOf(marked) },
    // A new session: no terminal for password prompts, and one signal reaches all processes.
    detached: true,
    stdio: [hasInput ? "pipe" : "ignore", "pipe", "pipe", ...inputs.map(() => "pipe" as const)],
  });
  const { pid: group, stdin, stdout, stderr } = child;
  if (group === undefined || !stdout || !stderr) {
    throw await new Promise((resolve) => child.once("error", resolve));
  }
  writeInputs(child, inputs);
  stdin?.on("error", () => {});
  const exited = new Promise<CommandStatus>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  let hasExited = false;
  exited.then(() => hasExited = true);
  const read = Promise.allSettled([readAll(stdout, onOutput), readAll(stderr, onAside)]);
  const leave = async () => {
    await settlesWithin(read, GRACE_MS);
    for (const stream of [stdin, stdout, stderr]) stream?.destroy();
    await read;
  };
  const end = async () => {
    if (endsWhole) {
      child.kill("SIGKILL");
      const status = await exited;
      await leave();
      return { status, leftProcesses: false, renamed: [] };
    }
    const leftGroup = groupIsAlive(group);
    if (leftGroup) {
      // A command that exited by itself doesn't wait the whole grace period for processes that hold no pipe.
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

/** Buffer of the beginning and end of an output, half of `maxBytes` each, copied out of large buffers. */
export class BoundedOutput {
  readonly #head: Uint8Array;
  #headBytes = 0;
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
    const tail = rest.subarray(Math.max(0, rest.length - size));
    const at = (this.#tailBytes + rest.length - tail.length) % size;
    const upToEnd = tail.subarray(0, size - at);
    this.#tail.set(upToEnd, at);
    this.#tail.set(tail.subarray(upToEnd.length), 0);
    this.#tailBytes += rest.length;
  }

  /** Returns the output under a line that counts its bytes. */
  describe(what: string): string {
    const { text, replaced, totalBytes } = this.text();
    if (totalBytes === 0) return `no ${what}`;
    const note = replaced ? ", invalid UTF-8 or NUL shown as \uFFFD" : "";
    return `${totalBytes} bytes of ${what}${note}\n${text}`;
  }

  /** Returns the output, with a line for the omitted middle, and the total number of bytes. */
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
    const note = `\n[… ${totalBytes - begin.length - end.length} bytes omitted …]\n`;
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

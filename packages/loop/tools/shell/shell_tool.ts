import { checkGiven, type Tool, type ToolContext } from "@tare/messages";
import { spawn } from "node:child_process";
import { defineTool, Refusal } from "../define_tool.ts";
import { resolveInWorkspace } from "../files/resolve_in_workspace.ts";
import { guardGit } from "../sandbox/git_guard.ts";
import { type Sandbox, sandboxed } from "../sandbox/sandbox.ts";
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
import { decodeText } from "../result_text.ts";

/** Where and how {@linkcode shellTool} runs commands. */
export interface ShellToolOptions {
  /** Folder that commands start in. */
  readonly workspace: string;
  /**
   * Longest time that one command may ask for, in milliseconds. Default: 240,000, which is less than the time after
   * which the loop takes a silent turn for stalled.
   */
  readonly timeoutMs?: number;
  /** Bytes of output kept; of more, the middle is dropped. At least 1. Default: 65,536. */
  readonly maxOutputBytes?: number;
  /**
   * Environment variables besides, or instead of, the default ones: `PATH` (the system's usual folders), `HOME` (the
   * workspace, so that no one's keys and settings are found), `LANG`, `TERM` and the command's mark, `TARE_COMMAND`. Nothing is taken from this process's
   * own environment.
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * A name by which {@linkcode endLeftCommands} of a later process finds what commands left running, if this process
   * is killed. It is part of their environment. Default: none.
   */
  readonly owner?: string;
  /**
   * The sandbox that commands run in, unless a call says why one has to run outside. Default: there is none, and they have
   * the rights of this process.
   */
  readonly sandbox?: Sandbox | undefined;
}

type ShellArguments = {
  readonly command: string;
  readonly timeout_ms?: number;
  readonly outside?: string;
};

const DEFAULT_TIMEOUT_MS = 120_000;

/**
 * `shell`: a command line for `sh`, with the workspace as its folder. Without a sandbox its file access is that of this
 * process: the guard that keeps the file tools in the workspace does not hold for it.
 */
export function shellTool(options: ShellToolOptions): Tool {
  checkGiven("shellTool()", { options }, { options: { workspace: "string" } });
  const { workspace, timeoutMs = 240_000, maxOutputBytes = 64 * 1024, env = {}, owner, sandbox } = options;
  const defaultTimeoutMs = Math.min(DEFAULT_TIMEOUT_MS, timeoutMs);
  return defineTool<ShellArguments>({
    name: "shell",
    description:
      "Runs a command line with POSIX sh in the workspace's top folder and returns its exit code, then standard output and " +
      "standard error as they came. Put independent read-only inspections into one command (such as `git status; git log -5; " +
      "wc -l src/*.ts`) instead of one call each. Every call starts afresh: no variables or current folder are kept, there " +
      "is no input and no terminal, and processes left in the background are ended when the command exits. Of output over " +
      `${Math.ceil(maxOutputBytes / 1024)} KiB the middle is left out: filter it in the command. After ${
        defaultTimeoutMs / 1000
      } s, or timeout_ms, the command and all that it started are stopped.${
        sandbox ? describe(sandbox) : ""
      }`,
    properties: {
      command: { type: "string", minLength: 1, description: "Command line or script for sh." },
      timeout_ms: {
        type: "integer",
        minimum: 1,
        maximum: timeoutMs,
        description: `Time limit in milliseconds. Default: ${defaultTimeoutMs}.`,
      },
      ...(sandbox && { outside: OUTSIDE }),
    },
    required: ["command"],
    stance: "once",
    ...(sandbox && { isContained: ({ outside }) => outside === undefined }),
    // Time to stop the command and tell what it wrote before the caller gives up on the call.
    timeoutMs: timeoutMs + 5 * GRACE_MS,
    attempt: () => "run the command",
    async run({ command, timeout_ms: limitMs = defaultTimeoutMs, outside }, context) {
      if (command.includes("\0")) throw new Refusal("it holds a NUL character.");
      const { root } = await resolveInWorkspace(workspace, ".");
      const outcome = await runCommand(command, {
        cwd: root,
        env: { ...DEFAULT_ENVIRONMENT, HOME: root, ...env },
        timeoutMs: limitMs,
        maxOutputBytes,
        context,
        owner,
        sandbox,
        isOutside: outside !== undefined,
      });
      const output = describeOutput(outcome);
      switch (outcome.ending) {
        case "exited":
          return `${describeStatus(outcome)}; ${output}`;
        case "timed_out": {
          const limit = `its time limit of ${
            limitMs / 1000
          } s was over (timeout_ms may be up to ${timeoutMs})`;
          return { content: `Cannot finish the command: ${limit}; ${output}`, error: true };
        }
        case "cancelled":
          return { content: `Cannot finish the command: it was cancelled; ${output}`, error: true };
      }
    },
  });
}

/** What a model is told of the sandbox. */
function describe({ domains, by }: Sandbox): string {
  const network = domains.length === 0
    ? "there is no network"
    : `of the network only ${
      domains.join(", ")
    } can be reached, by HTTP(S) through the proxy of the environment`;
  const temporary = by === "bubblewrap" ? " and /tmp, which is empty at each call" : " and $TMPDIR";
  return ` Commands run in a sandbox: only the workspace${temporary}, can be written in, .git can only be read, ` +
    `home folders can't be seen, and ${network}. For a command that needs more say with outside what it needs.`;
}

/** The argument by which a command leaves the sandbox. */
const OUTSIDE = {
  type: "string",
  minLength: 1,
  maxLength: 500,
  description:
    "What the command needs that the sandbox lacks, such as `commits, so it writes .git` or `network: example.com`. The user is " +
    "shown it and asked; then the command runs outside the sandbox. Leave it out unless it has to.",
} as const;

/**
 * Ends what commands of an earlier process with this owner left running when it was killed, and gives how many
 * processes that were. Finds none on systems without `/proc`.
 */
export function endLeftCommands(owner: string): Promise<number> {
  checkGiven("endLeftCommands()", { owner }, { owner: "string" });
  return endMarked({ owner });
}

const DEFAULT_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LANG: "C.UTF-8",
  TERM: "dumb",
};

function describeStatus({ status, leftProcesses }: CommandOutcome): string {
  const notes = leftProcesses ? " (processes left in the background were ended)" : "";
  return (status.signal === null ? `exit code ${status.code}` : `ended by ${status.signal}`) + notes;
}

function describeOutput({ output }: CommandOutcome): string {
  const { text, replaced, totalBytes } = output.text();
  if (totalBytes === 0) return "no output";
  return `${totalBytes} bytes of output${replaced ? ", invalid UTF-8 or NUL shown as \uFFFD" : ""}\n${text}`;
}

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
  /** The sandbox that it runs in. Default: none. */
  readonly sandbox?: Sandbox | undefined;
  /** Whether it runs outside all the same; the system still ends what it leaves running, where that makes sandboxes so. Default: no. */
  readonly isOutside?: boolean;
}

/** What the system says of a process that has ended: one of the two. */
interface CommandStatus {
  readonly code: number | null;
  readonly signal: string | null;
}

/** How a command ended. */
interface CommandOutcome {
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
  const { cwd, sandbox, isOutside = false, context } = options;
  const shell = ["/bin/sh", "-c", MERGE_OUTPUTS, "sh", command];
  context.confirm?.();
  if (sandbox === undefined) {
    const [program = "", ...args] = shell;
    return await runProgram({ program, args, env: {}, endsWhole: false }, options);
  }
  const leave = isOutside ? () => {} : guardGit(sandbox.workspace);
  try {
    return await runProgram(sandboxed(sandbox, { command: shell, cwd, isOutside }), options);
  } finally {
    leave();
  }
}

async function runProgram(
  { program, args, env: more, endsWhole }: ReturnType<typeof sandboxed>,
  { cwd, env, timeoutMs, maxOutputBytes, context, owner = "" }: CommandOptions,
): Promise<CommandOutcome> {
  const marked = { owner, id: crypto.randomUUID() };
  const child = spawn(program, [...args], {
    cwd,
    env: { ...NOTHING_INHERITED, ...env, ...more, [MARK]: markOf(marked) },
    // A session of its own: no terminal to ask for passwords, and one signal reaches all its processes.
    detached: true,
    // A command's errors come with its output; what a sandbox says itself comes here.
    stdio: ["ignore", "pipe", "pipe"],
  });
  const { pid: group } = child;
  // It couldn't be started.
  if (group === undefined) throw await new Promise((resolve) => child.once("error", resolve));
  const exited = new Promise<CommandStatus>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const output = new BoundedOutput(maxOutputBytes);
  const decoder = new TextDecoder();
  const onPiece = (piece: Uint8Array) => {
    output.push(piece);
    context.output?.(decoder.decode(piece, { stream: true }));
    context.progress();
  };
  const read = Promise.all([child.stdout, child.stderr].map((stream) => readAll(stream, onPiece)));

  const ending = await waitFor(exited, timeoutMs, context.signal);
  if (endsWhole) {
    // With its first process the system ends them all.
    child.kill("SIGKILL");
    const status = await exited;
    await settlesWithin(read, GRACE_MS);
    for (const stream of [child.stdout, child.stderr]) stream.destroy();
    return { ending, status, output, leftProcesses: false };
  }
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
  for (const stream of [child.stdout, child.stderr]) stream.destroy();
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

/**
 * Takes output of any length and keeps its beginning and its end, each in a buffer of half of `maxBytes`. Pieces are
 * copied: one that holds a single byte may come in a buffer of many.
 */
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

  /** Takes the next piece. */
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

import { checkGiven, type Tool } from "@tare/messages";
import { defineTool, Refusal } from "../define_tool.ts";
import { resolveInWorkspace } from "../files/resolve_in_workspace.ts";
import { endMarked } from "./marked_processes.ts";
import { GRACE_MS } from "./process_group.ts";
import { type CommandOutcome, runCommand } from "./run_command.ts";

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
}

type ShellArguments = { readonly command: string; readonly timeout_ms?: number };

const DEFAULT_TIMEOUT_MS = 120_000;

/**
 * `shell`: a command line for `sh`, with the workspace as its folder. Its file access is that of this process: the
 * guard that keeps the file tools in the workspace does not hold for it.
 */
export function shellTool(options: ShellToolOptions): Tool {
  checkGiven("shellTool()", { options }, { options: { workspace: "string" } });
  const { workspace, timeoutMs = 240_000, maxOutputBytes = 64 * 1024, env = {}, owner } = options;
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
      } s, or timeout_ms, the command and all that it started are stopped.`,
    properties: {
      command: { type: "string", minLength: 1, description: "Command line or script for sh." },
      timeout_ms: {
        type: "integer",
        minimum: 1,
        maximum: timeoutMs,
        description: `Time limit in milliseconds. Default: ${defaultTimeoutMs}.`,
      },
    },
    required: ["command"],
    stance: "once",
    // Time to stop the command and tell what it wrote before the caller gives up on the call.
    timeoutMs: timeoutMs + 5 * GRACE_MS,
    attempt: () => "run the command",
    async run({ command, timeout_ms: limitMs = defaultTimeoutMs }, context) {
      if (command.includes("\0")) throw new Refusal("it holds a NUL character.");
      const { root } = await resolveInWorkspace(workspace, ".");
      const outcome = await runCommand(command, {
        cwd: root,
        env: { ...DEFAULT_ENVIRONMENT, HOME: root, ...env },
        timeoutMs: limitMs,
        maxOutputBytes,
        context,
        owner,
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

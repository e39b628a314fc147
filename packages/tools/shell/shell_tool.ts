import type { Tool } from "@tare/messages";
import { defineTool, ToolRefusal } from "../define_tool.ts";
import { resolveInWorkspace } from "../files/resolve_in_workspace.ts";
import { describeRenamed } from "../sandbox/guard.ts";
import type { Sandbox } from "../sandbox/sandbox.ts";
import { type BackgroundCommand, type BackgroundCommands, withEnded } from "./background.ts";
import { endMarked, GRACE_MS } from "./processes.ts";
import { collectOutput, type CommandOptions, type CommandOutcome, runShellCommand } from "./run_command.ts";

/** Options of {@linkcode shellTool}. */
export interface ShellToolOptions {
  readonly workspace: string;
  /**
   * Maximum time limit of a command, in milliseconds. Default: 240,000, below the time after which the loop
   * considers a silent turn stalled.
   */
  readonly timeoutMs?: number;
  /** Maximum output, in bytes, without its middle if longer; at least 1. Default: 65,536. */
  readonly maxOutputBytes?: number;
  /**
   * Environment variables that extend or override the default ones: `PATH` (the system's folders), `HOME`
   * (the workspace, to hide keys and settings), `LANG`, `TERM` and `TARE_COMMAND`. This process's environment
   * is not inherited.
   */
  readonly env?: Readonly<Record<string, string>>;
  /**
   * Name in the environment of commands, by which {@linkcode endLeftCommands} of a later process finds them
   * if this process is killed. Default: none.
   */
  readonly owner?: string;
  /**
   * Sandbox of commands, unless a call requests to run outside. Default: none: they have the rights of this
   * process.
   */
  readonly sandbox?: Sandbox | undefined;
  /** Commands that outlive their calls. Default: none. */
  readonly background?: BackgroundCommands | undefined;
}

type ShellArguments = {
  readonly command: string;
  readonly timeout_ms?: number;
  readonly outside?: string;
  readonly background?: boolean;
  readonly sandbox_of?: string;
};

const DEFAULT_TIMEOUT_MS = 120_000;

/**
 * Returns `shell`, which runs a command line with `sh` in the workspace. Without a sandbox it has the file
 * access of this process, outside of the workspace too.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { shellTool } from "@tare/tools/shell";
 *
 * const { definition } = shellTool({ workspace: "/srv/project", timeoutMs: 60_000 });
 * assertEquals(definition.function.name, "shell");
 * ```
 */
export function shellTool(options: ShellToolOptions): Tool {
  const { workspace, timeoutMs = 240_000, maxOutputBytes = 64 * 1024, env = {}, owner, sandbox, background } =
    options;
  const defaultTimeoutMs = Math.min(DEFAULT_TIMEOUT_MS, timeoutMs);
  return defineTool<ShellArguments>({
    name: "shell",
    description:
      "Runs a POSIX sh script in the workspace, in a new shell each time, without input or terminal. Its background " +
      "processes end with it. Combine independent inspections in one script. Output over " +
      `${Math.ceil(maxOutputBytes / 1024)} KiB loses its middle. Stopped after ${
        defaultTimeoutMs / 1000
      } s or timeout_ms.${sandbox ? describe(sandbox) : ""}`,
    properties: {
      command: { type: "string", minLength: 1, description: "The script." },
      timeout_ms: {
        type: "integer",
        minimum: 1,
        maximum: timeoutMs,
        description: `Default: ${defaultTimeoutMs}.`,
      },
      ...(sandbox && { outside: OUTSIDE }),
      ...(background && { background: BACKGROUND }),
      ...(background && sandbox?.by === "bubblewrap" && { sandbox_of: SANDBOX_OF }),
    },
    required: ["command"],
    stance: "once",
    ...(sandbox && { isContained: ({ outside }) => outside === undefined }),
    timeoutMs: timeoutMs + 5 * GRACE_MS,
    attempt: () => "run the command",
    async run({ command, timeout_ms: limitMs = defaultTimeoutMs, outside, ...given }, context) {
      if (command.includes("\0")) throw new ToolRefusal("it contains a NUL character.");
      const { root } = await resolveInWorkspace(workspace, ".");
      const { session = "", confirm } = context;
      const start = {
        ...{ cwd: root, env: { ...DEFAULT_ENVIRONMENT, HOME: root, ...env } },
        ...{ maxOutputBytes, owner, sandbox, isOutside: outside !== undefined },
      };
      if (background && given.background) {
        if (given.sandbox_of !== undefined) {
          throw new ToolRefusal("a command in another one's sandbox can't run in the background.");
        }
        const started = await background.start(session, command, { ...start, ...(confirm && { confirm }) });
        return withEnded(background.inspect(started), background.ended(session));
      }
      const options = { ...start, timeoutMs: limitMs, context };
      const outcome = background && given.sandbox_of !== undefined
        ? await runInSandboxOf(background.find(session, given.sandbox_of), command, options)
        : await runShellCommand(command, options);
      const output = withEnded(describeOutput(outcome), background?.ended(session) ?? []);
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
          return { content: `Cannot finish the command: it was canceled; ${output}`, error: true };
      }
    },
  });
}

async function runInSandboxOf(
  background: BackgroundCommand,
  command: string,
  options: CommandOptions,
): Promise<CommandOutcome> {
  const { timeoutMs, context, isOutside = false } = options;
  if (isOutside) {
    throw new ToolRefusal("a command outside of the sandbox can't run in another one's sandbox.");
  }
  const { output, onOutput } = collectOutput(options);
  const limit = AbortSignal.timeout(timeoutMs);
  context.confirm?.();
  const code = await background.runInSandbox(command, {
    signal: AbortSignal.any([limit, context.signal]),
    onOutput,
  });
  const ending = code !== undefined ? "exited" : context.signal.aborted ? "cancelled" : "timed_out";
  const isLeft = code === undefined && !context.signal.aborted && !limit.aborted;
  if (isLeft) throw new ToolRefusal(`${background.name} ended while it ran.`);
  return { ending, status: { code: code ?? null, signal: null }, output, leftProcesses: false, renamed: [] };
}

const BACKGROUND = {
  type: "boolean",
  description: "Keeps it running, such as a server; inspect it with the tool background.",
} as const;

const SANDBOX_OF = {
  type: "string",
  description: "Name of a background command in whose sandbox to run, to reach its ports.",
} as const;

function describe({ domains, by }: Sandbox): string {
  const network = domains.length === 0
    ? "has no network"
    : `can reach only ${domains.join(", ")}, by HTTP(S) through the proxy in the environment`;
  const temporary = by === "bubblewrap" ? " and an empty /tmp" : " and $TMPDIR";
  return ` Sandboxed: it can write only in the workspace${temporary}, except .git, .envrc, AGENTS.md, settings of editors ` +
    `and agents and the like, sees no home folders, and ${network}.`;
}

const OUTSIDE = {
  type: "string",
  minLength: 1,
  maxLength: 500,
  description:
    "Only if the sandbox prevents it: the reason, such as `writes .git` or `network: example.com`. Runs outside of the " +
    "sandbox after the user's approval.",
} as const;

/**
 * Ends commands that an earlier process with this owner left running when it was killed, and returns the
 * number of processes; 0 on systems without `/proc`.
 */
export function endLeftCommands(owner: string): Promise<number> {
  return endMarked({ owner });
}

const DEFAULT_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LANG: "C.UTF-8",
  TERM: "dumb",
};

function describeStatus({ status, leftProcesses }: CommandOutcome): string {
  const notes = leftProcesses ? " (background processes were ended)" : "";
  return (status.signal === null ? `exit code ${status.code}` : `ended by ${status.signal}`) + notes;
}

function describeOutput({ output, renamed }: CommandOutcome): string {
  return output.describe("output") + describeRenamed(renamed);
}

import { describeRenamed } from "../sandbox/guard.ts";
import type { Tool } from "@tare/messages";
import { randomBytes } from "node:crypto";
import { defineTool, ToolRefusal } from "../define_tool.ts";
import { settlesWithin } from "./processes.ts";
import {
  BoundedOutput,
  type CommandEnd,
  type CommandPlace,
  type CommandStatus,
  startCommand,
  type StartedCommand,
  type StartOptions,
} from "./run_command.ts";

const MAX_RUNNING = 4;
const MAX_RUNNING_IN_ALL = 32;

const MAX_ENDED = 8;

/** Wait after the start, in milliseconds, so that the first result contains immediate failures. */
const FIRST_LOOK_MS = 300;

/** Maximum wait of a call, in milliseconds: the loop considers a longer silent turn stalled. */
const MAX_WAIT_MS = 240_000;

const SOUGHT_CHARS = 10_000;

/** Commands that outlive their calls. They end with the server, or after a crash by their owner's mark. */
export class BackgroundCommands {
  /** Lines in results that report that a command `runs` or has `ended`. */
  static readonly STATE: RegExp = /^\[?(bg_[0-9a-f]{6}) (runs|ended)/gm;
  readonly #all = new Map<string, BackgroundCommand>();

  /**
   * Starts a command for a session. @throws {ToolRefusal} if it has too many already.
   *
   * @internal
   */
  async start(
    session: string,
    command: string,
    options: BackgroundOptions,
  ): Promise<BackgroundCommand> {
    const running = [...this.#all.values()].filter(({ status }) => !status);
    const own = running.filter((one) => one.session === session);
    if (own.length >= MAX_RUNNING || running.length >= MAX_RUNNING_IN_ALL) {
      const names = own.map(({ name }) => name).join(", ");
      throw new ToolRefusal(
        own.length >= MAX_RUNNING
          ? `${names} run in the background, of at most ${MAX_RUNNING}. Stop one first.`
          : `${running.length} commands of all sessions run in the background, the maximum.`,
      );
    }
    const name = `bg_${randomBytes(3).toString("hex")}`;
    const background = new BackgroundCommand({ ...options, name, session });
    this.#all.set(name, background);
    try {
      await background.begin(command);
    } catch (error) {
      this.#all.delete(name);
      throw error;
    }
    await settlesWithin(background.ended, FIRST_LOOK_MS);
    return background;
  }

  /**
   * Returns a session's command of this name. @throws {ToolRefusal} if there is none.
   *
   * @internal
   */
  find(session: string, name: string): BackgroundCommand {
    const found = this.#all.get(name);
    if (found?.session === session) return found;
    const names = this.#of(session).map((one) => one.name);
    throw new ToolRefusal(
      `there is no such command: its end was reported already, or it ended with its server. ` +
        (names.length === 0 ? "None runs." : `Commands: ${names.join(", ")}.`),
    );
  }

  /**
   * Removes a command that has ended.
   *
   * @internal
   */
  inspect(background: BackgroundCommand): string {
    const output = background.inspect();
    if (background.status) this.#all.delete(background.name);
    return output;
  }

  /** Returns a line for each ended command of a session that is not reported yet. */
  ended(session: string): readonly string[] {
    const ended = this.#of(session).filter(({ status }) => status);
    for (const { name } of ended.slice(0, -MAX_ENDED)) this.#all.delete(name);
    return ended.flatMap((background) => background.tellEnd() ?? []);
  }

  /** `undefined` if all of `running` still run. */
  news(session: string, running: readonly string[]): string | undefined {
    const lost = running.filter((name) => !this.#all.has(name)).map((name) =>
      `${name} ended or is unreachable, because its server ended. Its output since the last call is lost.`
    );
    const all = [...this.ended(session), ...lost];
    return all.length === 0 ? undefined : all.join("\n");
  }

  async end(session: string): Promise<void> {
    await Promise.all(this.#of(session).map((background) => background.stop()));
    for (const { name } of this.#of(session)) this.#all.delete(name);
  }

  async close(): Promise<void> {
    await Promise.all([...this.#all.values()].map((background) => background.stop()));
    this.#all.clear();
  }

  #of(session: string): readonly BackgroundCommand[] {
    return [...this.#all.values()].filter((one) => one.session === session);
  }
}

interface BackgroundOptions extends CommandPlace, Pick<StartOptions, "confirm"> {
  readonly maxOutputBytes: number;
}

export class BackgroundCommand {
  readonly name: string;
  readonly session: string;
  readonly #options: BackgroundOptions;
  readonly #startedAt = performance.now();
  readonly #ended = Promise.withResolvers<void>();
  #output: BoundedOutput;
  #newest = "";
  readonly #decoder = new TextDecoder();
  #sought: (() => void) | undefined;
  #started: StartedCommand | undefined;
  #status: CommandStatus | undefined;
  #runs = "";
  #isReported = false;
  #isStopped = false;
  #sandboxShell: SandboxShell | undefined;
  #renamed: CommandEnd["renamed"] = [];

  constructor(
    { name, session, ...options }: BackgroundOptions & { readonly name: string; readonly session: string },
  ) {
    this.name = name;
    this.session = session;
    this.#options = options;
    this.#output = new BoundedOutput(options.maxOutputBytes);
  }

  get status(): CommandStatus | undefined {
    return this.#status;
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  async begin(command: string): Promise<void> {
    const { sandbox, isOutside = false } = this.#options;
    const isShared = sandbox?.by === "bubblewrap" && !isOutside;
    const sandboxShell = isShared ? new SandboxShell((text) => this.#started?.stdin?.write(text)) : undefined;
    this.#sandboxShell = sandboxShell;
    const started = await startCommand(command, {
      ...this.#options,
      onOutput: (piece) => this.#take(piece),
      ...(sandboxShell && { script: SANDBOX_SCRIPT, onAside: (piece) => sandboxShell.take(piece) }),
    });
    this.#started = started;
    started.exited.then(async () => {
      const { status, renamed } = await started.end();
      this.#renamed = renamed;
      this.#runs = this.#seconds();
      this.#status = status;
      sandboxShell?.close();
      this.#sought?.();
      this.#ended.resolve();
    });
  }

  async wait(
    { waitMs, until, signal }: {
      readonly waitMs: number;
      readonly until: string | undefined;
      readonly signal: AbortSignal;
    },
  ): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    if (until !== undefined) this.#sought = () => this.#newest.includes(until) && resolve();
    this.#sought?.();
    await settlesWithin(Promise.race([promise, this.ended]), waitMs, signal);
    this.#sought = undefined;
    signal.throwIfAborted();
  }

  async stop(): Promise<void> {
    if (!this.#status) this.#isStopped = true;
    await this.#started?.end();
    if (this.#started) await this.ended;
  }

  inspect(): string {
    this.#isReported = this.#status !== undefined;
    const output = this.#output.describe("new output");
    this.#output = new BoundedOutput(this.#options.maxOutputBytes);
    return `${this.#state()}; ${output}${describeRenamed(this.#renamed)}`;
  }

  tellEnd(): string | undefined {
    if (!this.#status || this.#isReported) return undefined;
    this.#isReported = true;
    return `${this.#state()}.`;
  }

  async runInSandbox(
    command: string,
    options: { readonly signal: AbortSignal; readonly onOutput: (piece: Uint8Array) => void },
  ): Promise<number | undefined> {
    if (this.#status) {
      throw new ToolRefusal(`${this.#state()}. Read its output with background, and start it again.`);
    }
    if (!this.#sandboxShell) {
      throw new ToolRefusal(
        `${this.name} runs outside of the sandbox: run the command outside too, without sandbox_of.`,
      );
    }
    return await this.#sandboxShell.run(command, options);
  }

  #state(): string {
    if (!this.#status) return `${this.name} runs, ${this.#seconds()} so far`;
    const { code, signal } = this.#status;
    const how = this.#isStopped ? "stopped" : signal === null ? `exit code ${code}` : `by ${signal}`;
    return `${this.name} ended: ${how} after ${this.#runs}`;
  }

  #seconds(): string {
    return `${Math.round((performance.now() - this.#startedAt) / 1000)} s`;
  }

  #take(piece: Uint8Array): void {
    this.#output.push(piece);
    this.#newest = (this.#newest + this.#decoder.decode(piece, { stream: true })).slice(-SOUGHT_CHARS);
    this.#sought?.();
  }
}

/**
 * Runs the command, and in the same sandbox further ones from standard input: `run MARK COMMAND`, with
 * special characters as octal codes, and `stop MARK`. Their output goes to standard error, followed by mark
 * and exit code.
 */
const SANDBOX_SCRIPT = "exec 3<&0 4>&2; while IFS= read -r line <&3; do rest=${line#* }; mark=${rest%% *}; " +
  'case $line in run*) code=$(printf "%b." "${rest#* }"); ' +
  'setsid /bin/sh -c \'/bin/sh -c "$1" </dev/null 2>&1; printf "\\n%s %s\\n" "$2" "$?"\' sh "${code%.}" "$mark" >&4 2>&4 3<&- 4>&- & ' +
  'pid=$!;; stop*) kill -KILL "-$pid" 2>/dev/null; printf "\\n%s stopped\\n" "$mark" >&4;; esac; done & ' +
  '/bin/sh -c "$1" </dev/null 2>&1 3<&- 4>&-';

class SandboxShell {
  readonly #write: (text: string) => void;
  #before: Promise<unknown> = Promise.resolve();
  #reader: ((piece: Uint8Array) => void) | undefined;
  readonly #closed = Promise.withResolvers<undefined>();

  constructor(write: (text: string) => void) {
    this.#write = write;
  }

  take(piece: Uint8Array): void {
    this.#reader?.(piece);
  }

  close(): void {
    this.#closed.resolve(undefined);
  }

  run(
    command: string,
    options: { readonly signal: AbortSignal; readonly onOutput: (piece: Uint8Array) => void },
  ): Promise<number | undefined> {
    const done = this.#before.then(() => this.#run(command, options));
    this.#before = done.catch(() => {});
    return done;
  }

  async #run(
    command: string,
    { signal, onOutput }: { readonly signal: AbortSignal; readonly onOutput: (piece: Uint8Array) => void },
  ): Promise<number | undefined> {
    if (signal.aborted) return undefined;
    const mark = randomBytes(16).toString("hex");
    const code = Promise.withResolvers<number>();
    const stopped = Promise.withResolvers<undefined>();
    // Bytes as characters, so that a mark is found across pieces.
    let held = "";
    const end = new RegExp(`\\n${mark} (\\d+|stopped)\\n`);
    this.#reader = (piece) => {
      held += new TextDecoder("latin1").decode(piece);
      for (let found; (found = end.exec(held));) {
        give(held.slice(0, found.index), onOutput);
        held = held.slice(found.index + found[0].length);
        if (found[1] === "stopped") stopped.resolve(undefined);
        else code.resolve(Number(found[1]));
      }
      const retainedBytes = mark.length + 16;
      give(held.slice(0, -retainedBytes), onOutput);
      held = held.slice(-retainedBytes);
    };
    this.#write(`run ${mark} ${octal(command)}\n`);
    const aborted = new Promise<undefined>((resolve) =>
      signal.addEventListener("abort", () => resolve(undefined), { once: true })
    );
    const result = await Promise.race([code.promise, aborted, this.#closed.promise]);
    this.#write(`stop ${mark}\n`);
    await Promise.race([stopped.promise, this.#closed.promise]);
    this.#reader = undefined;
    return result;
  }
}

function give(latin1: string, onOutput: (piece: Uint8Array) => void): void {
  if (latin1 !== "") onOutput(Uint8Array.from(latin1, (character) => character.charCodeAt(0)));
}

function octal(command: string): string {
  return Array.from(new TextEncoder().encode(command), (byte) => {
    const character = String.fromCharCode(byte);
    return /[\w./=, -]/.test(character) ? character : `\\0${byte.toString(8).padStart(3, "0")}`;
  }).join("");
}

type InspectArguments = {
  readonly name: string;
  readonly wait_ms?: number;
  readonly until?: string;
  readonly stop?: boolean;
};

/**
 * Returns `background`, which inspects, waits for, or stops a command of `shell`.
 *
 * @example
 * ```ts
 * import { assertEquals } from "@std/assert";
 * import { BackgroundCommands, backgroundTool, shellTool } from "@tare/tools/shell";
 *
 * const background = new BackgroundCommands();
 * const tools = [shellTool({ workspace: "/srv/project", background }), backgroundTool(background)];
 * assertEquals(tools.map(({ definition }) => definition.function.name), ["shell", "background"]);
 * await background.close();
 * ```
 */
export function backgroundTool(commands: BackgroundCommands): Tool {
  return defineTool<InspectArguments>({
    name: "background",
    description:
      "Returns the state of a command that shell left running, and its output since the last call.",
    properties: {
      name: { type: "string", description: "As returned by shell." },
      wait_ms: {
        type: "integer",
        minimum: 0,
        maximum: MAX_WAIT_MS,
        description: "Longest wait for its end.",
      },
      until: {
        type: "string",
        minLength: 1,
        maxLength: 500,
        description: "Text in its output that ends the wait.",
      },
      stop: { type: "boolean", description: "Ends it." },
    },
    required: ["name"],
    stance: "once",
    isContained: () => true,
    timeoutMs: MAX_WAIT_MS + 10_000,
    attempt: ({ name }) => `read the output of ${JSON.stringify(name)}`,
    async run({ name, wait_ms: waitMs = 0, until, stop = false }, { session = "", signal }) {
      const background = commands.find(session, name);
      if (waitMs > 0) await background.wait({ waitMs, until, signal });
      if (stop) await background.stop();
      return withEnded(commands.inspect(background), commands.ended(session));
    },
  });
}

/** Appends the commands that ended meanwhile to a result. */
export function withEnded(result: string, ended: readonly string[]): string {
  return ended.length === 0 ? result : `${result}\n\n${ended.map((line) => `[${line}]`).join("\n")}`;
}

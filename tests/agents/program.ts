import { fromFileUrl } from "@std/path";

/** A program as an agent's driver starts it. */
export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  /** Lines for its standard input. Default: none. */
  readonly input?: readonly string[];
}

/** Where and how long a program runs. */
export interface RunOptions {
  /** Its folder. */
  readonly cwd: string;
  /** All of its environment but `PATH`. */
  readonly env: Readonly<Record<string, string>>;
  /** A file in its folder; as soon as it is there the program gets an interrupt, as by Ctrl-C. */
  readonly interruptedBy?: string;
}

/** How a program ended. */
export interface Ended {
  readonly code: number;
  readonly output: string;
}

/** So long a program may take at most, in milliseconds. */
const LIMIT_MS = 300_000;

/** The folder of the agents' programs; `deno task test:agents` installs them. */
const PROGRAMS = fromFileUrl(new URL("programs/node_modules/.bin", import.meta.url));

/**
 * Runs a program of `programs/package.json` to its end, with nothing of this process's environment. What it started
 * ends with it.
 *
 * @throws {Error} if it takes longer than five minutes.
 */
export async function runProgram(command: Command, { cwd, env, interruptedBy }: RunOptions): Promise<Ended> {
  const child = new Deno.Command(`${PROGRAMS}/${command.program}`, {
    args: [...command.args],
    cwd,
    env: { PATH: `${PROGRAMS}:${Deno.env.get("PATH")}`, TERM: "dumb", NO_COLOR: "1", ...env },
    clearEnv: true,
    stdin: command.input ? "piped" : "null",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  const output = Promise.all([child.stdout, child.stderr].map((stream) => new Response(stream).text()));
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(new Error("took too long")), LIMIT_MS);
  try {
    if (command.input) await write(child.stdin, command.input);
    if (interruptedBy !== undefined) await interrupt(child, `${cwd}/${interruptedBy}`);
    const { code } = await Promise.race([child.status, aborted(ended.signal)]);
    await killGroup(child.pid);
    return { code, output: (await output).join("\n") };
  } catch (error) {
    await killGroup(child.pid);
    const tail = (await output).join("\n").slice(-3000);
    throw new Error(`Cannot run ${command.program}: ${(error as Error).message}. It said: ${tail}`, { cause: error });
  } finally {
    clearTimeout(timer);
  }
}

async function write(stdin: WritableStream<Uint8Array>, lines: readonly string[]): Promise<void> {
  const writer = stdin.getWriter();
  await writer.write(new TextEncoder().encode(lines.map((line) => `${line}\n`).join("")));
  await writer.close();
}

/** Waits for the file, or for the program's end. */
async function interrupt(child: Deno.ChildProcess, file: string): Promise<void> {
  using watcher = Deno.watchFs(file.slice(0, file.lastIndexOf("/")), { recursive: false });
  child.status.then(() => watcher.close());
  for await (const { paths } of watcher) {
    if (!paths.some((path) => path.endsWith(file.slice(file.lastIndexOf("/"))))) continue;
    Deno.kill(child.pid, "SIGINT");
    return;
  }
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}

/** Ends what is left of a program's group of processes. */
async function killGroup(pid: number): Promise<void> {
  const args = ["-KILL", "--", `-${pid}`];
  await new Deno.Command("kill", { args, stdout: "null", stderr: "null" }).output();
}

import { fromFileUrl } from "@std/path";

export interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly talk?: readonly Line[];
}

/** Input line, and the output that marks it as done. */
export interface Line {
  /** Line, or a function of all output so far. */
  readonly line: string | ((heard: string) => string);
  readonly until: RegExp;
}

export interface RunOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  /** File in `cwd` whose creation sends the program an interrupt, as by Ctrl-C. */
  readonly interruptedBy?: string;
}

export interface Ended {
  readonly code: number;
  readonly output: string;
}

const LIMIT_MS = 900_000;

/** Folder of the agents' programs; `deno task test:all agents` installs them. */
const PROGRAMS = fromFileUrl(new URL("programs/node_modules/.bin", import.meta.url));

/**
 * Runs a program of `programs/package.json` to its end, without this process's environment, and ends its
 * child processes.
 *
 * @throws {Error} if it takes longer than a quarter of an hour.
 */
export async function runProgram(command: Command, { cwd, env, interruptedBy }: RunOptions): Promise<Ended> {
  const child = new Deno.Command(`${PROGRAMS}/${command.program}`, {
    args: [...command.args],
    cwd,
    env: { PATH: `${PROGRAMS}:${Deno.env.get("PATH")}`, TERM: "dumb", NO_COLOR: "1", ...env },
    clearEnv: true,
    stdin: command.talk ? "piped" : "null",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  const heard = new Output(child.stdout);
  const output = Promise.all([heard.text, new Response(child.stderr).text()]);
  const ended = new AbortController();
  const timer = setTimeout(() => ended.abort(new Error("took too long")), LIMIT_MS);
  try {
    const continues = async () => {
      if (command.talk) await talk(child.stdin, heard, command.talk);
      if (interruptedBy !== undefined) await interrupt(child, `${cwd}/${interruptedBy}`);
      return await child.status;
    };
    const { code } = await Promise.race([continues(), aborted(ended.signal)]);
    await killGroup(child.pid);
    return { code, output: (await output).join("\n") };
  } catch (error) {
    await killGroup(child.pid);
    const tail = (await output).join("\n").slice(-3000);
    throw new Error(`Cannot run ${command.program}: ${(error as Error).message}. Output: ${tail}`, {
      cause: error,
    });
  } finally {
    clearTimeout(timer);
  }
}

class Output {
  readonly text: Promise<string>;
  #text = "";
  #more = Promise.withResolvers<boolean>();

  constructor(stream: ReadableStream<Uint8Array>) {
    this.text = this.#read(stream);
  }

  async #read(stream: ReadableStream<Uint8Array>): Promise<string> {
    for await (const piece of stream.pipeThrough(new TextDecoderStream())) {
      this.#text += piece;
      this.#tell(true);
    }
    this.#tell(false);
    return this.#text;
  }

  #tell(continues: boolean): void {
    const { resolve } = this.#more;
    this.#more = Promise.withResolvers();
    resolve(continues);
    if (!continues) this.#more.resolve(false);
  }

  get soFar(): string {
    return this.#text;
  }

  async prints(what: RegExp, from: number): Promise<void> {
    while (!what.test(this.#text.slice(from))) {
      if (!await this.#more.promise) throw new Error(`it ended before it printed ${what}`);
    }
  }
}

async function talk(stdin: WritableStream<Uint8Array>, heard: Output, lines: readonly Line[]): Promise<void> {
  const writer = stdin.getWriter();
  for (const { line, until } of lines) {
    const from = heard.soFar.length;
    const text = typeof line === "string" ? line : line(heard.soFar);
    await writer.write(new TextEncoder().encode(`${text}\n`));
    await heard.prints(until, from);
  }
  await writer.close();
}

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

async function killGroup(pid: number): Promise<void> {
  const args = ["-KILL", "--", `-${pid}`];
  await new Deno.Command("kill", { args, stdout: "null", stderr: "null" }).output();
}

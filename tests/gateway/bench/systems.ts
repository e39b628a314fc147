import { fromFileUrl } from "@std/path";
import { V8_FLAGS } from "../../../packages/app/handed_over.ts";

/** A process of the bench. Disposing of it ends it. */
export interface Process extends AsyncDisposable {
  readonly pid: number;
  /** The next line that it prints. @throws {Error} if it has ended. */
  readonly line: () => Promise<string>;
  readonly write: (line: string) => Promise<void>;
}

/** What stands between the clients and the provider. */
export interface System extends AsyncDisposable {
  readonly name: string;
  /** Its process; nothing of no system at all. */
  readonly pid?: number;
  /** Where clients send their calls. */
  readonly baseURL: string;
}

/** Starts a script of the bench. */
export function startScript(name: string, ...args: readonly string[]): Process {
  const script = fromFileUrl(new URL(name, import.meta.url));
  const flags = name === "server.ts" ? [V8_FLAGS] : [];
  return start(Deno.execPath(), ["run", "--frozen", "--allow-all", ...flags, script, ...args]);
}

/**
 * Starts every system in front of this provider: none, a bare proxy, one that holds what it passes on, ours,
 * ours once more, and ours that keeps nothing.
 */
export async function startSystems(upstream: string): Promise<System[]> {
  const none: System = { name: "direct", baseURL: upstream, async [Symbol.asyncDispose]() {} };
  return [
    none,
    await listening("bare proxy", startScript("upstream.ts", upstream)),
    await listening("holding proxy", startScript("upstream.ts", upstream, "holding")),
    await listening("gateway", startScript("server.ts", upstream)),
    await listening("gateway again", startScript("server.ts", upstream)),
    await listening("keeping nothing", startScript("server.ts", upstream, "off")),
  ];
}

/** Bytes of memory that a process holds, in pages that are its own or shared. Linux alone tells. */
export async function memoryOf(pid: number): Promise<number> {
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}

/** What a process has taken so far: milliseconds of processors, and bytes that it wrote to disks. Linux alone tells. */
export async function takenBy(pid: number): Promise<{ readonly cpuMs: number; readonly written: number }> {
  const stat = (await Deno.readTextFile(`/proc/${pid}/stat`)).split(") ")[1]!.split(" ");
  const written = /^write_bytes: (\d+)$/m.exec(await Deno.readTextFile(`/proc/${pid}/io`))?.[1];
  return { cpuMs: 10 * (Number(stat[11]) + Number(stat[12])), written: Number(written) };
}

async function listening(name: string, process: Process): Promise<System> {
  const baseURL = `http://127.0.0.1:${Number(await process.line())}/v1`;
  return {
    name,
    pid: process.pid,
    baseURL,
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

function start(command: string, args: readonly string[]): Process {
  const child = new Deno.Command(command, {
    args: [...args],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const lines = linesOf(child.stdout);
  const input = child.stdin.getWriter();
  return {
    pid: child.pid,
    async line() {
      const { done, value } = await lines.next();
      if (done) throw new Error(`Cannot measure: ${args.join(" ")} has ended`);
      return value;
    },
    write: (line) => input.write(new TextEncoder().encode(`${line}\n`)),
    async [Symbol.asyncDispose]() {
      child.kill();
      await child.status;
      await lines.return(undefined);
      await input.abort().catch(() => {});
    },
  };
}

async function* linesOf(stream: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string, undefined> {
  let rest = "";
  for await (const piece of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
  return undefined;
}

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
  /** What its calls must carry. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Starts a script of the bench. */
export function startScript(name: string, ...args: readonly string[]): Process {
  const script = fromFileUrl(new URL(name, import.meta.url));
  const flags = name === "server.ts" ? [V8_FLAGS] : [];
  return start(Deno.execPath(), ["run", "--frozen", "--allow-all", ...flags, script, ...args]);
}

/** Another company's gateway from npm, installed in its own folder if it isn't yet, on Node. */
const PORTKEY = fromFileUrl(new URL("portkey/", import.meta.url));

/**
 * Starts every system in front of this provider: none, a bare proxy, one that holds what it passes on, Portkey's gateway,
 * ours, ours once more, and ours that keeps nothing.
 */
export async function startSystems(upstream: string): Promise<System[]> {
  const none: System = { name: "direct", baseURL: upstream, headers: {}, async [Symbol.asyncDispose]() {} };
  return [
    none,
    await listening("bare proxy", startScript("upstream.ts", upstream)),
    await listening("holding proxy", startScript("upstream.ts", upstream, "holding")),
    await portkey(upstream),
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
    headers: {},
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

async function portkey(upstream: string): Promise<System> {
  const install = new Deno.Command("npm", {
    args: ["ci", "--prefix", PORTKEY, "--no-audit", "--no-fund", "--ignore-scripts"],
    stdout: "null",
  });
  const { isDirectory } = await Deno.stat(`${PORTKEY}node_modules`).catch(() => ({ isDirectory: false }));
  if (!isDirectory && !(await install.output()).success) {
    throw new Error("Cannot measure: npm could not install Portkey's gateway");
  }
  const port = freePort();
  const program = `${PORTKEY}node_modules/@portkey-ai/gateway/build/start-server.js`;
  const process = start("node", [
    "--import",
    `${PORTKEY}mutable_headers.mjs`,
    program,
    `--port=${port}`,
    "--headless",
  ]);
  // It says so in several lines, with a banner.
  while (!/http:\/\/\S+:\d+|ready/i.test(await process.line()));
  return {
    name: "Portkey",
    pid: process.pid,
    baseURL: `http://127.0.0.1:${port}/v1`,
    headers: { "x-portkey-provider": "openai", "x-portkey-custom-host": upstream },
    [Symbol.asyncDispose]: () => process[Symbol.asyncDispose](),
  };
}

/** A free port below those that the system gives to others' connections meanwhile: Portkey takes no port of its own. */
function freePort(): number {
  for (;;) {
    try {
      using listener = Deno.listen({ port: 20_000 + Math.floor(12_000 * Math.random()), hostname: "::" });
      return listener.addr.port;
    } catch (error) {
      if (!(error instanceof Deno.errors.AddrInUse)) throw error;
    }
  }
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

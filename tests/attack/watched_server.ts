import { type ServerProcess, startServerProcess } from "../crash/server_process.ts";

export interface Watched {
  readonly status: number;
  readonly text: string;
  /** Duration of the request, in milliseconds; on systems that report it, at most the server's CPU time. */
  readonly ms: number;
  /** Longest delay of another request meanwhile, measured in the same way. */
  readonly stallMs: number;
  /** Peak memory of the process so far, in bytes; 0 on systems that don't report it. */
  readonly memory: number;
}

export interface WatchedServer {
  readonly url: string;
  /**
   * Sends a request and reads its answer. `type` is its content type (default: `application/json`),
   * `encoding` its compression (default: none).
   */
  readonly post: (path: string, body: BodyInit, type?: string, encoding?: string) => Promise<Watched>;
  readonly turn: () => Promise<Watched>;
}

/** Starts a server with an empty data folder and this environment, and ends it after `work`. */
export async function withServer(
  args: readonly string[],
  work: (server: WatchedServer) => Promise<void>,
  env?: Readonly<Record<string, string>>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const server = await startServerProcess([
    "--port",
    "0",
    "--data",
    `${folder}/data`,
    "--workspace",
    folder,
    ...args,
  ], env);
  const post = async (
    path: string,
    body: BodyInit,
    type = "application/json",
    encoding?: string,
  ): Promise<Watched> => {
    const stop = watch(server);
    const tookMs = await timer(server.pid);
    const response = await fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": type, ...(encoding && { "content-encoding": encoding }) },
      body,
    });
    const text = await response.text();
    const ms = await tookMs();
    return { status: response.status, text, ms, stallMs: await stop(), memory: await peakOf(server.pid) };
  };
  const turn = async () => {
    const { id } = JSON.parse((await post("/tare/v1/sessions", "{}")).text);
    return await post(`/tare/v1/sessions/${id}/turns`, '{"input":"Hello?"}');
  };
  try {
    await work({ url: server.url, post, turn });
  } finally {
    await server.kill();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Clock ticks per second of the system's CPU accounting. */
const TICKS = 100;

/** Returns the CPU time of a process, in milliseconds; `Infinity` on systems that don't report it. */
async function workedMs(pid: number): Promise<number> {
  if (Deno.build.os !== "linux") return Infinity;
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1000 / TICKS;
}

/** Starts a timer of a process's own work, which excludes waiting for a processor. */
async function timer(pid: number): Promise<() => Promise<number>> {
  const [startedMs, before] = [performance.now(), await workedMs(pid)];
  return async () => {
    const [tookMs, after] = [performance.now() - startedMs, await workedMs(pid)];
    return Math.min(tookMs, after === Infinity ? Infinity : after - before);
  };
}

/** Polls the health; the returned function ends that and returns the slowest answer's time. */
function watch({ url, pid }: ServerProcess): () => Promise<number> {
  let isOver = false;
  const asking = (async () => {
    let slowest = 0;
    while (!isOver) {
      const tookMs = await timer(pid);
      await (await fetch(`${url}/health`)).body?.cancel();
      slowest = Math.max(slowest, await tookMs());
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return slowest;
  })();
  return async () => {
    isOver = true;
    return await asking;
  };
}

async function peakOf(pid: number): Promise<number> {
  if (Deno.build.os !== "linux") return 0;
  const status = await Deno.readTextFile(`/proc/${pid}/status`);
  return 1024 * Number(/^VmHWM:\s+(\d+)/m.exec(status)?.[1] ?? 0);
}

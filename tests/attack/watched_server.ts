import { type ServerProcess, startServerProcess } from "../crash/server_process.ts";

/** What a request came to. */
export interface Watched {
  readonly status: number;
  readonly text: string;
  /** How long the request took, in milliseconds, and where the system tells, at most as long as the server worked. */
  readonly ms: number;
  /** Longest time that somebody else waited for an answer meanwhile, counted in the same way. */
  readonly stallMs: number;
  /** Most memory that the process had at once so far, in bytes; 0 where the system doesn't tell. */
  readonly memory: number;
}

/** A server's process, with somebody who asks it for its health while it works. */
export interface WatchedServer {
  readonly url: string;
  /**
   * Sends a request and reads its answer. `type` is that of its content, `encoding` how it is compressed. Default:
   * `application/json`, and not at all.
   */
  readonly post: (path: string, body: BodyInit, type?: string, encoding?: string) => Promise<Watched>;
  /** Makes a session and plays a turn in it. */
  readonly turn: () => Promise<Watched>;
}

/** Starts a server with an empty data folder and this environment, and ends it when the work with it is done. */
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

/** So many times in a second the system counts who works. */
const TICKS = 100;

/** How long a process has worked so far, in milliseconds; as long as there is where the system doesn't tell. */
async function workedMs(pid: number): Promise<number> {
  if (Deno.build.os !== "linux") return Infinity;
  const fields = (await Deno.readTextFile(`/proc/${pid}/stat`)).split(") ").at(-1)!.split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 1000 / TICKS;
}

/**
 * Gives how long something takes that a process has to do: not how long that waits for a processor that others have, nor for
 * those who asked.
 */
async function timer(pid: number): Promise<() => Promise<number>> {
  const [startedMs, before] = [performance.now(), await workedMs(pid)];
  return async () => {
    const [tookMs, after] = [performance.now() - startedMs, await workedMs(pid)];
    return Math.min(tookMs, after === Infinity ? Infinity : after - before);
  };
}

/** Asks again and again, and gives, when it is told to stop, how long the slowest answer took. */
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

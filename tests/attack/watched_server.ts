import { startServerProcess } from "../crash/server_process.ts";

/** What a request came to. */
export interface Watched {
  readonly status: number;
  readonly text: string;
  /** How long the request took, in milliseconds. */
  readonly ms: number;
  /** Longest time that somebody else waited for an answer meanwhile, in milliseconds. */
  readonly stallMs: number;
  /** Most memory that the process had at once so far, in bytes; 0 where the system doesn't tell. */
  readonly memory: number;
}

/** A server's process, with somebody who asks it for its health while it works. */
export interface WatchedServer {
  readonly url: string;
  /** Sends a request and reads its answer. `type` is that of its content. Default: `application/json`. */
  readonly post: (path: string, body: BodyInit, type?: string) => Promise<Watched>;
  /** Makes a session and plays a turn in it. */
  readonly turn: () => Promise<Watched>;
}

/** Starts a server with an empty data folder, and ends it when the work with it is done. */
export async function withServer(
  args: readonly string[],
  work: (server: WatchedServer) => Promise<void>,
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
  ]);
  const post = async (path: string, body: BodyInit, type = "application/json"): Promise<Watched> => {
    const stop = watch(`${server.url}/health`);
    const started = performance.now();
    const response = await fetch(server.url + path, {
      method: "POST",
      headers: { "content-type": type },
      body,
    });
    const text = await response.text();
    const ms = performance.now() - started;
    return { status: response.status, text, ms, stallMs: await stop(), memory: await peakOf(server.pid) };
  };
  const turn = async () => {
    const { id } = JSON.parse((await post("/v1/sessions", "{}")).text);
    return await post(`/v1/sessions/${id}/turns`, '{"input":"Hello?"}');
  };
  try {
    await work({ url: server.url, post, turn });
  } finally {
    await server.kill();
    await Deno.remove(folder, { recursive: true });
  }
}

/** Asks again and again, and gives, when it is told to stop, how long the slowest answer took. */
function watch(url: string): () => Promise<number> {
  let isOver = false;
  const asking = (async () => {
    let slowest = 0;
    while (!isOver) {
      const started = performance.now();
      await (await fetch(url)).body?.cancel();
      slowest = Math.max(slowest, performance.now() - started);
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

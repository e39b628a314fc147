export interface Exchange {
  readonly method: string;
  readonly path: string;
  readonly body: string;
  readonly status: number;
  readonly headers: Headers;
  /** Positions of its start and end among those of all exchanges. */
  readonly arrivedAt: number;
  readonly ended: number;
  readonly answer: string;
}

export interface Tap extends AsyncDisposable {
  /** Address without a path. */
  readonly url: string;
  readonly exchanges: readonly Exchange[];
}

/**
 * Starts a proxy that records and forwards everything. `targetOf` returns the target for each request,
 * without a path.
 */
export function startTap(targetOf: () => Promise<string>): Tap {
  const exchanges: Exchange[] = [];
  let moment = 0;
  const server = Deno.serve({
    port: 0,
    hostname: "127.0.0.1",
    onListen() {},
    // Intentionally interrupted streams also report errors.
    onError: () => new Response(null, { status: 502 }),
  }, async (request) => {
    const { pathname: path, search } = new URL(request.url);
    const arrivedAt = moment++;
    const target = await targetOf();
    const { method } = request;
    const incoming = { method, path, arrivedAt };
    if (request.headers.get("upgrade")) {
      const status = await upgradeStatus(target, `${path}${search}`);
      exchanges.push({ ...incoming, ended: moment++, body: "", status, headers: new Headers(), answer: "" });
      return new Response(null, { status });
    }
    const bytes = await request.bytes();
    const headers = new Headers(request.headers);
    for (const name of ["host", "connection", "content-length"]) headers.delete(name);
    headers.set("accept-encoding", "identity");
    const answer = await fetch(`${target}${path}${search}`, {
      method,
      headers,
      body: method === "GET" || method === "HEAD" ? null : bytes,
      signal: request.signal,
    });
    const note = (text: string) =>
      exchanges.push({
        ...incoming,
        ended: moment++,
        body: new TextDecoder().decode(bytes),
        status: answer.status,
        headers: answer.headers,
        answer: text,
      });
    if (!answer.body) note("");
    return new Response(answer.body && ReadableStream.from(noted(answer.body, note)), {
      status: answer.status,
      headers: answer.headers,
    });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}`,
    get exchanges() {
      return exchanges.toSorted((one, other) => one.arrivedAt - other.arrivedAt);
    },
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

async function* noted(body: ReadableStream<Uint8Array>, note: (text: string) => void) {
  const decoder = new TextDecoder();
  let text = "";
  try {
    for await (const chunk of body) {
      text += decoder.decode(chunk, { stream: true });
      yield chunk;
    }
  } finally {
    note(text);
  }
}

/** Returns the status of a websocket upgrade; `fetch` can't send one. */
async function upgradeStatus(target: string, path: string): Promise<number> {
  const { hostname, port } = new URL(target);
  using connection = await Deno.connect({ hostname, port: Number(port) });
  const lines = [
    `GET ${path} HTTP/1.1`,
    `host: ${hostname}:${port}`,
    "connection: Upgrade",
    "upgrade: websocket",
    "sec-websocket-version: 13",
    "sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==",
    "",
    "",
  ];
  await connection.write(new TextEncoder().encode(lines.join("\r\n")));
  const start = new Uint8Array(64);
  const length = await connection.read(start);
  return Number(new TextDecoder().decode(start.subarray(0, length ?? 0)).split(" ")[1]);
}

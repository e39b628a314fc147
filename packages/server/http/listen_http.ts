/**
 * HTTP on TCP connections, with limits for slow clients. Not part of the public API: names and behavior may change in
 * any release.
 * @module
 */
import { STATUS_TEXT, type StatusCode } from "@std/http/status";
import { type IncomingMessage, Server, type ServerResponse } from "node:http";
import { once } from "node:events";
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";

/** Limits for slow clients. */
export interface ConnectionLimits {
  /** Limit; a further connection replaces the one that has kept the server waiting longest. */
  readonly maxConnections: number;
  /** Milliseconds without a request's head or a reader, after which a connection is closed. */
  readonly idleMs: number;
  /** Milliseconds for the body of a request. */
  readonly requestMs: number;
  /** Maximum bytes of all request bodies in progress. */
  readonly maxInFlightBytes: number;
}

/** A TCP connection, as `Deno.listen()` accepts them. */
export interface TcpConnection {
  read(bytes: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  closeWrite(): Promise<void>;
  close(): void;
  setNoDelay(noDelay?: boolean): void;
}

/** A TCP listener, such as that of `Deno.listen()`. */
export interface TcpListener {
  accept(): Promise<TcpConnection>;
  close(): void;
}

/** Options of {@linkcode listenHttp}. */
export interface ListenOptions {
  readonly listener: TcpListener;
  readonly limits: ConnectionLimits;
  /** Receives errors of interrupted responses and, at most once a minute, of missing descriptors. */
  readonly onError: (error: unknown) => void;
}

/** A listening server. */
export interface HttpListener {
  /** Stops accepting, waits for answers, then closes all. May be called again with less. */
  readonly close: (options: { readonly graceMs: number }) => Promise<void>;
}

/** Limit beyond which `node:http` answers 431. */
const MAX_HEAD_BYTES = 64 * 1024;

/** Pause if a connection can neither be accepted nor another closed. */
const RETRY_MS = 100;

const MINUTE_MS = 60_000;

const LATE = lastWords(408, "request_timeout", "Request timeout: the body did not arrive in time.");

const FULL = lastWords(
  503,
  "overloaded",
  "Service unavailable: too many connections; retry in a second.",
);

/** Uncounted bytes of each body, so that large requests don't block small ones. */
const FREE_BYTES = 16_384;

/** Time of the process's last report of missing descriptors. */
let reportedAt = -Infinity;

/** Serves HTTP/1.1 by `fetch`. Connections that keep the server waiting are closed, longest first. */
export function listenHttp(fetch: AnswerRequest, { listener, limits, onError }: ListenOptions): HttpListener {
  const { maxConnections, idleMs, requestMs, maxInFlightBytes } = limits;
  const connections = new Set<HttpConnection>();
  const ended = Promise.withResolvers<void>();
  let isClosing = false;
  let inFlight = 0;

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    // The socket is the connection that was emitted.
    const connection = incoming.socket as unknown as HttpConnection;
    const late = () => {
      if (outgoing.headersSent) connection.destroy();
      else connection.end(LATE, () => connection.destroy());
    };
    connection.requestBegins(hasBody(incoming) ? { limitMs: requestMs, late } : undefined);
    const received = () => connection.requestReceived();
    incoming.once("end", received);
    let [length, counted] = [0, 0];
    const giveBack = () => {
      inFlight -= counted;
      counted = 0;
    };
    const take = (bytes: number): Response | undefined => {
      const more = Math.max(0, (length += bytes) - FREE_BYTES) - counted;
      if (inFlight + more <= maxInFlightBytes) {
        inFlight += more;
        counted += more;
        return undefined;
      }
      const isAlone = inFlight === counted;
      giveBack();
      return isAlone ? tooLarge(maxInFlightBytes) : overloaded();
    };
    outgoing.once("close", () => {
      giveBack();
      incoming.off("end", received);
      connection.requestEnds();
      if (isClosing) connection.destroy();
    });
    await answerRequest({ incoming, outgoing }, { fetch, take, onError });
  };
  const http = new Server({ keepAliveTimeout: 0, maxHeaderSize: MAX_HEAD_BYTES });
  // Otherwise the server, which doesn't listen itself, would close connections after one answer.
  Object.defineProperty(http, "listening", { value: true });
  http.on("request", serve);

  const add = (conn: TcpConnection) => {
    const connection = new HttpConnection(conn, { idleMs });
    connections.add(connection);
    connection.once("close", () => {
      connections.delete(connection);
      if (isClosing && connections.size === 0) ended.resolve();
    });
    http.emit("connection", connection);
  };

  const makeRoom = (): boolean => {
    let longest: HttpConnection | undefined;
    for (const one of connections) {
      if ((one.wait?.since ?? Infinity) < (longest?.wait?.since ?? Infinity)) longest = one;
    }
    if (longest) connections.delete(longest);
    longest?.destroy();
    return longest !== undefined;
  };

  const tell = (error: unknown) => {
    if (performance.now() - reportedAt < MINUTE_MS) return;
    reportedAt = performance.now();
    const message = `Cannot accept a connection: ${
      (error as Error).message
    }. Raise the limit of open files (ulimit -n).`;
    onError(new Error(message, { cause: error }));
  };

  const accept = async () => {
    while (!isClosing) {
      try {
        const conn = await listener.accept();
        if (connections.size < maxConnections || makeRoom()) add(conn);
        else conn.write(FULL).catch(() => {}).finally(() => conn.close());
      } catch (error) {
        if (isClosing) return;
        tell(error);
        const pauseMs = makeRoom() ? 0 : RETRY_MS;
        await new Promise((resume) => setTimeout(resume, pauseMs));
      }
    }
  };
  accept();

  /** Waits above their limit at the last check. */
  let overdue: readonly Wait[] = [];
  const patrol = setInterval(() => {
    const now = performance.now();
    const waits = [...connections].flatMap(({ wait }) =>
      wait && now - wait.since > wait.limitMs ? [wait] : []
    );
    // After a pause of the server, pending input is read first.
    for (const wait of waits) if (overdue.includes(wait)) wait.late();
    overdue = waits;
  }, Math.min(1000, idleMs / 2, requestMs / 2));

  return {
    async close({ graceMs }) {
      if (!isClosing) listener.close();
      isClosing = true;
      for (const connection of connections) if (connection.wait) connection.destroy();
      if (connections.size === 0) ended.resolve();
      const timer = setTimeout(() => connections.forEach((connection) => connection.destroy()), graceMs);
      await ended.promise;
      clearTimeout(timer);
      clearInterval(patrol);
    },
  };
}

const UNREADABLE = lastWords(
  400,
  "invalid_request",
  "Bad request: the method, target or host is invalid.",
);

/** Answers a request. `client.signal` is aborted when the answer isn't needed any more. */
export type AnswerRequest = (
  request: Request,
  client: { readonly signal: AbortSignal },
) => Promise<Response>;

/** Never rejects. A disconnect aborts the request's signal. */
async function answerRequest(
  { incoming, outgoing }: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
  { fetch, take, onError }: {
    readonly fetch: AnswerRequest;
    /** Counts bytes of the body; returns the answer above the limit. */
    readonly take: (bytes: number) => Response | undefined;
    readonly onError: (error: unknown) => void;
  },
): Promise<void> {
  const left = new AbortController();
  const over = new AbortController();
  const refused = Promise.withResolvers<Response>();
  outgoing.once("close", () => {
    if (outgoing.writableFinished) return;
    left.abort();
    over.abort();
  });
  try {
    const request = webRequest(incoming, {
      signal: over.signal,
      take(bytes) {
        const refusal = take(bytes);
        if (!refusal) return;
        refused.resolve(refusal);
        over.abort();
        throw over.signal.reason;
      },
    });
    if (!request?.body) incoming.resume();
    if (request) {
      const answered = fetch(request, { signal: over.signal });
      const answer = await Promise.race([refused.promise, answered]);
      if (over.signal.aborted) {
        answered.then((late) => late === answer ? undefined : late.body?.cancel(), () => {});
      }
      await send(answer, { incoming, outgoing, signal: left.signal });
    } else incoming.socket.end(UNREADABLE, () => incoming.socket.destroy());
  } catch (error) {
    if (left.signal.aborted) return;
    onError(error);
    outgoing.destroy();
  }
}

function lastWords(status: StatusCode, code: string, message: string): Uint8Array<ArrayBuffer> {
  const body = JSON.stringify({ error: { status, code, message } });
  const fields = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
  return new TextEncoder().encode(`HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\n${fields}\r\n${body}`);
}

function overloaded(): Response {
  const what = "the total size of the requests in progress is at its limit";
  return refusal(503, "overloaded", `Service unavailable: ${what}; retry in a second.`);
}

function tooLarge(maxBytes: number): Response {
  const what = `it has more than ${maxBytes} bytes, the limit of all requests together`;
  return refusal(413, "body_too_large", `Cannot read the body: ${what}.`);
}

function refusal(status: number, code: string, message: string): Response {
  const headers = { ...(status === 503 && { "retry-after": "1" }) };
  return Response.json({ error: { status, code, message } }, { status, headers });
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

function webRequest(
  incoming: IncomingMessage,
  { signal, take }: {
    readonly signal: AbortSignal;
    readonly take: (bytes: number) => void;
  },
): Request | undefined {
  const { method = "GET", url = "/", rawHeaders } = incoming;
  const headers: [string, string][] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers.push([rawHeaders[index]!, rawHeaders[index + 1]!]);
  }
  const target = /^https?:\/\//i.test(url)
    ? url
    : `http://${incoming.headers.host ?? "localhost"}/${url.replace(/^\//, "")}`;
  const body = method !== "GET" && method !== "HEAD" && hasBody(incoming) ? bodyOf(incoming, take) : null;
  try {
    return new Request(target, { method, headers, body, signal });
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function bodyOf(
  incoming: IncomingMessage,
  take: (bytes: number) => void,
): ReadableStream<Uint8Array<ArrayBuffer>> {
  // Otherwise the first reader that stops would end the connection.
  const parts = incoming.iterator({ destroyOnReturn: false });
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) return controller.close();
      take(value.byteLength);
      controller.enqueue(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
    },
  }, { highWaterMark: 0 });
}

async function send(
  { status, statusText, headers, body }: Response,
  { incoming, outgoing, signal }: {
    readonly incoming: IncomingMessage;
    readonly outgoing: ServerResponse;
    readonly signal: AbortSignal;
  },
): Promise<void> {
  const begin = (...more: readonly string[]) => {
    const fields = [...headers].flat().concat(more);
    // An unread rest prevents reuse of the connection.
    if (!incoming.complete) fields.push("connection", "close");
    if (statusText === "") outgoing.writeHead(status, fields);
    else outgoing.writeHead(status, statusText, fields);
  };
  const end = (last?: Uint8Array) => {
    outgoing.end(last);
    incoming.resume();
  };
  if (!body || incoming.method === "HEAD") {
    await body?.cancel();
    begin();
    return end();
  }
  const reader = body.getReader();
  const leave = () => reader.cancel(signal.reason).catch(() => {});
  if (signal.aborted) return await leave();
  signal.addEventListener("abort", leave, { once: true });
  const write = async (part: Uint8Array) => {
    if (!outgoing.write(part)) await once(outgoing, "drain", { signal });
  };
  const isStream = headers.get("content-type")?.startsWith("text/event-stream");
  if (isStream) {
    begin();
    // Clients may wait for the head before the first event.
    outgoing.flushHeaders();
  }
  let part = await reader.read();
  if (!isStream && !part.done) {
    const next = reader.read();
    if (await isEnd(next)) {
      begin("content-length", String(part.value.length));
      return end(part.value);
    }
    begin();
    await write(part.value);
    part = await next;
  } else if (!isStream) begin();
  for (; !part.done; part = await reader.read()) await write(part.value);
  end();
}

/** Returns whether a body ends immediately, as unstreamed ones do. */
async function isEnd(next: Promise<{ readonly done: boolean }>): Promise<boolean> {
  let isEnd = false;
  // The caller handles errors.
  next.then(({ done }) => isEnd = done, () => {});
  await null;
  return isEnd;
}

/** Read buffer, which grows with the input. */
const LEAST_ROOM = 1024;
const MAX_ROOM = 64 * 1024;

/** A period in which a client keeps the server waiting. */
export interface Wait {
  /** Start, in milliseconds of `performance.now()`. */
  readonly since: number;
  readonly limitMs: number;
  readonly late: () => void;
}

/**
 * A TCP connection as the stream of `node:http`, which measures its client's delays. In Deno 2.9.6, listeners of
 * `node:net` silently stop accepting after descriptors ran out.
 */
export class HttpConnection extends Duplex {
  readonly #conn: TcpConnection;
  readonly #idleMs: number;
  #room = LEAST_ROOM;
  #open = 0;
  #request: Wait | undefined;
  #answer: Wait | undefined;

  /** `idleMs` limits the wait for each request's head and each read of an answer. */
  constructor(conn: TcpConnection, { idleMs }: { readonly idleMs: number }) {
    super();
    this.#conn = conn;
    this.#idleMs = idleMs;
    this.#request = this.#begin();
    try {
      conn.setNoDelay(true);
    } catch {
      // The client has left already, as the first read will find.
    }
    // `node:http` handles errors.
    this.on("error", () => {});
  }

  /** The earlier wait, for a request or a read; `undefined` while the server works. */
  get wait(): Wait | undefined {
    if (!this.#request || !this.#answer) return this.#request ?? this.#answer;
    return this.#request.since < this.#answer.since ? this.#request : this.#answer;
  }

  /** Records a request's head; `body` limits the rest, if any. */
  requestBegins(body?: Pick<Wait, "limitMs" | "late">): void {
    this.#open++;
    this.#request = body && { since: performance.now(), ...body };
  }

  requestReceived(): void {
    this.#request = undefined;
  }

  requestEnds(): void {
    this.#open--;
    if (this.#open === 0) this.#request = this.#begin();
  }

  override _read(): void {
    const bytes = new Uint8Array(this.#room);
    this.#conn.read(bytes).then((length) => {
      if (length === bytes.length) this.#room = Math.min(MAX_ROOM, length * 8);
      this.push(length === null ? null : bytes.subarray(0, length));
    }).catch((error) => this.destroy(error));
  }

  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#writeAll([chunk]).then(() => done(), done);
  }

  override _writev(chunks: { readonly chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    const all = chunks.map(({ chunk }) => chunk);
    const length = all.reduce((sum, chunk) => sum + chunk.length, 0);
    this.#writeAll(length <= MAX_ROOM ? [Buffer.concat(all, length)] : all).then(() => done(), done);
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#conn.closeWrite().then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#conn.close();
    done(error);
  }

  async #writeAll(all: readonly Uint8Array[]): Promise<void> {
    for (const bytes of all) {
      for (let written = 0; written < bytes.length;) {
        // Restarts with each read piece: a slow reader is alive.
        this.#answer = this.#begin();
        written += await this.#conn.write(bytes.subarray(written));
      }
    }
    this.#answer = undefined;
  }

  #begin(): Wait {
    return { since: performance.now(), limitMs: this.#idleMs, late: () => this.destroy() };
  }
}

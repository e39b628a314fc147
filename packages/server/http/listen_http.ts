/**
 * HTTP on TCP connections, with limits for clients that keep the server waiting. Not part of the public API: names and
 * behavior may change in any release.
 *
 * @module
 */
import { STATUS_TEXT, type StatusCode } from "@std/http/status";
import { type IncomingMessage, Server, type ServerResponse } from "node:http";
import { once } from "node:events";
import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";

/** What clients that keep the server waiting may cost it. */
export interface ConnectionLimits {
  /** Most connections at once. One more takes the place of the one that keeps the server waiting longest. */
  readonly maxConnections: number;
  /** Idle time, in milliseconds, after which a connection without a request's head or a reader is closed. */
  readonly idleMs: number;
  /** Milliseconds within which the body of a request must have come. */
  readonly requestMs: number;
  /** Most bytes that the bodies of all requests may have together that have no whole answer yet. */
  readonly maxInFlightBytes: number;
}

/** A TCP connection, as `Deno.listen()` accepts them. */
export interface TcpConnection {
  /** Resolves to the number of bytes read, or to null at the end. */
  read(bytes: Uint8Array): Promise<number | null>;
  /** Resolves to the number of bytes written. */
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
  /** Called with errors of interrupted responses, and of a shortage of descriptors, at most once a minute. */
  readonly onError: (error: unknown) => void;
}

/** A server that listens. */
export interface HttpListener {
  /** Stops accepting, waits up to `graceMs` for answers, then closes all. May be called again with less. */
  readonly close: (options: { readonly graceMs: number }) => Promise<void>;
}

/** Most bytes of a request's head, beyond which `node:http` itself answers with 431. */
const MAX_HEAD_BYTES = 64 * 1024;

/** Pause after a connection could not be accepted and none could be closed, in milliseconds. */
const RETRY_MS = 100;

const MINUTE_MS = 60_000;

const LATE = lastWords(408, "request_timeout", "Cannot read the body: it took too long to come.");

const FULL = lastWords(
  503,
  "overloaded",
  "Cannot take the connection: there are too many; try again in a second.",
);

/** So many bytes of each body aren't counted: who answers a question or asks for little isn't kept out by what is large. */
const FREE_BYTES = 16_384;

/** When people were told last that descriptors are missing: a process has them for all its listeners. */
let toldAt = -Infinity;

/** Answers HTTP/1.1 by `fetch`. Connections that keep the server waiting are closed, first those that wait longest. */
export function listenHttp(fetch: AnswerRequest, { listener, limits, onError }: ListenOptions): HttpListener {
  const { maxConnections, idleMs, requestMs, maxInFlightBytes } = limits;
  const connections = new Set<HttpConnection>();
  const ended = Promise.withResolvers<void>();
  let isClosing = false;
  let inFlight = 0;

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    // What was handed in comes back.
    const connection = incoming.socket as unknown as HttpConnection;
    const late = () => {
      if (outgoing.headersSent) connection.destroy();
      else connection.end(LATE, () => connection.destroy());
    };
    connection.requestBegins(hasBody(incoming) ? { limitMs: requestMs, late } : undefined);
    const came = () => connection.requestCame();
    incoming.once("end", came);
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
      // What nobody reads ends after its answer.
      incoming.off("end", came);
      connection.requestEnds();
      if (isClosing) connection.destroy();
    });
    await answerRequest({ incoming, outgoing }, { fetch, take, onError });
  };
  const http = new Server({ keepAliveTimeout: 0, maxHeaderSize: MAX_HEAD_BYTES });
  // It would close each connection that is handed in after its first answer, since it doesn't listen itself.
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

  /** Closes the connection that waits longest. Says whether there is one. */
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
    if (performance.now() - toldAt < MINUTE_MS) return;
    toldAt = performance.now();
    const message = `Cannot accept a connection: ${
      (error as Error).message
    }; ulimit -n says how many may be open`;
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

  /** What was waited for too long at the newest look. */
  let overdue: readonly Wait[] = [];
  const patrol = setInterval(() => {
    const now = performance.now();
    const waits = [...connections].flatMap(({ wait }) =>
      wait && now - wait.since > wait.limitMs ? [wait] : []
    );
    // If the server stood still itself, what its clients sent meanwhile is read before the next look.
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
  "Cannot read the request: its method, target and host make none.",
);

/** Answers a request. `client.signal` is aborted when its client leaves, or no answer is needed any more. */
export type AnswerRequest = (
  request: Request,
  client: { readonly signal: AbortSignal },
) => Promise<Response>;

/** Answers a `node:http` request by `fetch`. Never rejects; a client that leaves aborts the request's signal. */
async function answerRequest(
  { incoming, outgoing }: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
  { fetch, take, onError }: {
    readonly fetch: AnswerRequest;
    /** Takes so many bytes more of the body; gives the answer if that can't be. */
    readonly take: (bytes: number) => Response | undefined;
    readonly onError: (error: unknown) => void;
  },
): Promise<void> {
  const left = new AbortController();
  /** That nobody needs to work on the request any more. */
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
    // A body that the web knows of no use for, such as that of a GET, keeps nobody waiting.
    if (!request?.body) incoming.resume();
    if (request) {
      const answered = fetch(request, { signal: over.signal });
      const answer = await Promise.race([refused.promise, answered]);
      // What would have been said to a body without its end.
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

/** Bytes of an answer that says why the server closes a connection. */
function lastWords(status: StatusCode, code: string, message: string): Uint8Array<ArrayBuffer> {
  const body = JSON.stringify({ error: { status, code, message } });
  const fields = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
  return new TextEncoder().encode(`HTTP/1.1 ${status} ${STATUS_TEXT[status]}\r\n${fields}\r\n${body}`);
}

function overloaded(): Response {
  const what = "the requests that are being answered are as large as they may be together";
  return refusal(503, "overloaded", `Cannot take the request: ${what}; try again in a second.`);
}

function tooLarge(maxBytes: number): Response {
  const what = `it has more than ${maxBytes} bytes, which all requests together may have`;
  return refusal(413, "body_too_large", `Cannot read the body: ${what}.`);
}

function refusal(status: number, code: string, message: string): Response {
  const headers = { ...(status === 503 && { "retry-after": "1" }) };
  return Response.json({ error: { status, code, message } }, { status, headers });
}

function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** The request as the web has it; nothing if it can't be one. */
function webRequest(
  incoming: IncomingMessage,
  { signal, take }: {
    readonly signal: AbortSignal;
    /** Told how many bytes of the body have come; throws if that can't be. */
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
  // Else the connection would end with the first reader that has enough.
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

/** Sends a response, as fast as its client reads. */
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
    // Nobody will read the rest, so the connection can't be used for another request.
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
    // A client may wait for the head of a stream whose first event is far.
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

/** Whether a body is known to end here, as one does that was made whole. */
async function isEnd(next: Promise<{ readonly done: boolean }>): Promise<boolean> {
  let isEnd = false;
  // What goes wrong is told to who awaits it.
  next.then(({ done }) => isEnd = done, () => {});
  await null;
  return isEnd;
}

/** Room for what a client sends first; a connection that sends more gets more. */
const LEAST_ROOM = 1024;
const MOST_ROOM = 64 * 1024;

/** A time that a client keeps the server waiting. */
export interface Wait {
  /** When it began, in milliseconds of `performance.now()`. */
  readonly since: number;
  /** How long it may last, in milliseconds. */
  readonly limitMs: number;
  /** Called when it lasted longer. */
  readonly late: () => void;
}

/**
 * A TCP connection as the stream on which `node:http` speaks HTTP. It knows since when it waits for its client.
 *
 * `node:net` isn't used since its listener in Deno 2.9.6 never accepts again once descriptors ran out, and tells nobody.
 */
export class HttpConnection extends Duplex {
  readonly #conn: TcpConnection;
  readonly #idleMs: number;
  #room = LEAST_ROOM;
  /** Requests that have no whole answer yet. */
  #open = 0;
  #request: Wait | undefined;
  #answer: Wait | undefined;

  /** Takes the connection over; its client has `idleMs` for the head of each request, and to take some of an answer. */
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
    // What goes wrong on a connection concerns who uses it, and HTTP looks after that itself.
    this.on("error", () => {});
  }

  /** The wait that began first of those for a request and for somebody to take an answer; none if the server works. */
  get wait(): Wait | undefined {
    if (!this.#request || !this.#answer) return this.#request ?? this.#answer;
    return this.#request.since < this.#answer.since ? this.#request : this.#answer;
  }

  /** The head of a request has come; `body` says how long the rest may take, if there is more. */
  requestBegins(body?: Pick<Wait, "limitMs" | "late">): void {
    this.#open++;
    this.#request = body && { since: performance.now(), ...body };
  }

  /** The whole request has come. */
  requestCame(): void {
    this.#request = undefined;
  }

  /** A request has its answer. */
  requestEnds(): void {
    this.#open--;
    if (this.#open === 0) this.#request = this.#begin();
  }

  /** Called by the stream: reads once. */
  override _read(): void {
    const bytes = new Uint8Array(this.#room);
    this.#conn.read(bytes).then((length) => {
      if (length === bytes.length) this.#room = Math.min(MOST_ROOM, length * 8);
      this.push(length === null ? null : bytes.subarray(0, length));
    }).catch((error) => this.destroy(error));
  }

  /** Called by the stream: writes all of it. */
  override _write(chunk: Uint8Array, _encoding: string, done: (error?: Error | null) => void): void {
    this.#writeAll([chunk]).then(() => done(), done);
  }

  /** Called by the stream: writes all of them, small ones at once. */
  override _writev(chunks: { readonly chunk: Uint8Array }[], done: (error?: Error | null) => void): void {
    const all = chunks.map(({ chunk }) => chunk);
    const length = all.reduce((sum, chunk) => sum + chunk.length, 0);
    this.#writeAll(length <= MOST_ROOM ? [Buffer.concat(all, length)] : all).then(() => done(), done);
  }

  /** Called by the stream: says that nothing more will come. */
  override _final(done: (error?: Error | null) => void): void {
    this.#conn.closeWrite().then(() => done(), done);
  }

  /** Called by the stream: closes the connection. */
  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#conn.close();
    done(error);
  }

  async #writeAll(all: readonly Uint8Array[]): Promise<void> {
    for (const bytes of all) {
      for (let written = 0; written < bytes.length;) {
        // Begins anew with each piece that is taken: a slow reader is alive.
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

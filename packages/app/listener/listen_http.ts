import { type IncomingMessage, Server, type ServerResponse } from "node:http";
import { answerRequest, type Fetch, hasBody, lastWords } from "./answer_request.ts";
import { Connection } from "./connection.ts";
import type { ConnectionLimits } from "./limits.ts";

/** Where and how to listen. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0 takes a free one. */
  readonly port: number;
  readonly limits: ConnectionLimits;
  /** Told of answers that broke off, and of a shortage of descriptors, at most once a minute. */
  readonly onError: (error: unknown) => void;
}

/** A server that listens. */
export interface HttpListener {
  readonly addr: Deno.NetAddr;
  /**
   * Accepts nothing more, lets answers end that are under way, for `graceMs` at most, and closes what is left. Called
   * again it may hurry.
   */
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

/** When people were told last that descriptors are missing: a process has them for all its listeners. */
let toldAt = -Infinity;

/**
 * Listens for HTTP/1.1 and answers by `fetch`. Whoever keeps the server waiting, for a request or for somebody to take
 * an answer, is closed after a while; when there are too many connections, or no descriptors are left, the one that
 * waits longest is closed at once. Nothing that a client does ends the listener.
 *
 * @throws {Deno.errors.AddrInUse} and other errors of `Deno.listen`.
 */
export function listenHttp(fetch: Fetch, { hostname, port, limits, onError }: ListenOptions): HttpListener {
  const { maxConnections, idleMs, requestMs } = limits;
  const listener = Deno.listen({ hostname, port });
  const connections = new Set<Connection>();
  const ended = Promise.withResolvers<void>();
  let isClosing = false;

  const serve = async (incoming: IncomingMessage, outgoing: ServerResponse) => {
    // What was handed in comes back.
    const connection = incoming.socket as unknown as Connection;
    const late = () => {
      if (outgoing.headersSent) connection.destroy();
      else connection.end(LATE, () => connection.destroy());
    };
    connection.requestBegins(hasBody(incoming) ? { limitMs: requestMs, late } : undefined);
    const came = () => connection.requestCame();
    incoming.once("end", came);
    outgoing.once("close", () => {
      // What nobody reads ends after its answer.
      incoming.off("end", came);
      connection.requestEnds();
      if (isClosing) connection.destroy();
    });
    await answerRequest({ incoming, outgoing }, { fetch, onError });
  };
  const http = new Server({ keepAliveTimeout: 0, maxHeaderSize: MAX_HEAD_BYTES });
  // It would close each connection that is handed in after its first answer, since it doesn't listen itself.
  Object.defineProperty(http, "listening", { value: true });
  http.on("request", serve);

  const add = (conn: Deno.TcpConn) => {
    const connection = new Connection(conn, { idleMs });
    connections.add(connection);
    connection.once("close", () => {
      connections.delete(connection);
      if (isClosing && connections.size === 0) ended.resolve();
    });
    http.emit("connection", connection);
  };

  /** Closes the connection that waits longest. Says whether there is one. */
  const makeRoom = (): boolean => {
    let longest: Connection | undefined;
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

  const patrol = setInterval(() => {
    const now = performance.now();
    for (const { wait } of [...connections]) if (wait && now - wait.since > wait.limitMs) wait.late();
  }, Math.min(1000, idleMs / 2, requestMs / 2));

  return {
    addr: listener.addr as Deno.NetAddr,
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

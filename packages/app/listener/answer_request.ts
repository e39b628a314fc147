import { once } from "node:events";
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";

const UNREADABLE = lastWords(
  400,
  "invalid_request",
  "Cannot read the request: its method, target and host make none.",
);

/** Answers a request. */
export type Fetch = (request: Request) => Promise<Response>;

/**
 * Answers a request of `node:http` by a function over web requests. The request's signal is aborted when its client leaves
 * before it has the whole answer. Never rejects; an answer that breaks off breaks the connection.
 */
export async function answerRequest(
  { incoming, outgoing }: { readonly incoming: IncomingMessage; readonly outgoing: ServerResponse },
  { fetch, onError }: { readonly fetch: Fetch; readonly onError: (error: unknown) => void },
): Promise<void> {
  const left = new AbortController();
  outgoing.once("close", () => {
    if (!outgoing.writableFinished) left.abort();
  });
  try {
    const request = webRequest(incoming, left.signal);
    // A body that the web knows of no use for, such as that of a GET, keeps nobody waiting.
    if (!request?.body) incoming.resume();
    if (request) await send(await fetch(request), { incoming, outgoing, signal: left.signal });
    else incoming.socket.end(UNREADABLE, () => incoming.socket.destroy());
  } catch (error) {
    if (left.signal.aborted) return;
    onError(error);
    outgoing.destroy();
  }
}

/** Bytes of an answer that says why the server closes a connection. */
export function lastWords(status: number, code: string, message: string): Uint8Array<ArrayBuffer> {
  const body = JSON.stringify({ error: { status, code, message } });
  const fields = `content-type: application/json\r\ncontent-length: ${body.length}\r\nconnection: close\r\n`;
  return new TextEncoder().encode(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${fields}\r\n${body}`);
}

/** Whether a request has a body. */
export function hasBody({ headers }: IncomingMessage): boolean {
  return headers["transfer-encoding"] !== undefined || Number(headers["content-length"] ?? 0) > 0;
}

/** The request as the web has it; nothing if it can't be one. */
function webRequest(incoming: IncomingMessage, signal: AbortSignal): Request | undefined {
  const { method = "GET", url = "/", rawHeaders } = incoming;
  const headers: [string, string][] = [];
  for (let index = 0; index < rawHeaders.length; index += 2) {
    headers.push([rawHeaders[index]!, rawHeaders[index + 1]!]);
  }
  const target = /^https?:\/\//i.test(url)
    ? url
    : `http://${incoming.headers.host ?? "localhost"}/${url.replace(/^\//, "")}`;
  const body = method !== "GET" && method !== "HEAD" && hasBody(incoming) ? bodyOf(incoming) : null;
  try {
    return new Request(target, { method, headers, body, signal });
  } catch (error) {
    if (error instanceof TypeError) return undefined;
    throw error;
  }
}

function bodyOf(incoming: IncomingMessage): ReadableStream<Uint8Array<ArrayBuffer>> {
  // Else the connection would end with the first reader that has enough.
  const parts = incoming.iterator({ destroyOnReturn: false });
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await parts.next();
      if (done) controller.close();
      else controller.enqueue(new Uint8Array(value.buffer, value.byteOffset, value.byteLength));
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

import { assertEquals, assertStringIncludes } from "@std/assert";
import { once } from "node:events";
import { type ConnectionLimits, type HttpListener, listenHttp } from "./listen_http.ts";

const LIMITS: ConnectionLimits = {
  maxConnections: 100,
  idleMs: 60_000,
  requestMs: 60_000,
  maxInFlightBytes: 2 ** 27,
};

interface Listening extends HttpListener {
  readonly addr: Deno.NetAddr;
}

async function listening(
  fetch: (request: Request) => Response | Promise<Response>,
  use: (server: Listening & { readonly url: string; readonly reported: string[] }) => Promise<void>,
  limits: Partial<ConnectionLimits> = {},
): Promise<void> {
  const reported: string[] = [];
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const server = listenHttp(async (request) => await fetch(request), {
    listener,
    limits: { ...LIMITS, ...limits },
    onError: (error) => reported.push(String(error)),
  });
  try {
    const { addr } = listener;
    await use({ ...server, addr, url: `http://127.0.0.1:${addr.port}`, reported });
  } finally {
    await server.close({ graceMs: 0 });
  }
}

async function connect({ addr }: Listening, bytes = ""): Promise<Deno.TcpConn> {
  const conn = await Deno.connect({ hostname: "127.0.0.1", port: addr.port });
  await conn.write(new TextEncoder().encode(bytes));
  return conn;
}

async function rest(conn: Deno.TcpConn): Promise<string> {
  return await new Response(conn.readable).text();
}

async function readTo(conn: Deno.TcpConn, end: string): Promise<string> {
  const buffer = new Uint8Array(1024);
  let text = "";
  while (!text.endsWith(end)) {
    const length = await conn.read(buffer);
    if (length === null) throw new Error(`The server closed the connection after ${JSON.stringify(text)}`);
    text += new TextDecoder().decode(buffer.subarray(0, length));
  }
  return text;
}

function endless(): { readonly body: ReadableStream<Uint8Array>; readonly left: Promise<void> } {
  const { promise: left, resolve } = Promise.withResolvers<void>();
  const bytes = new Uint8Array(64 * 1024);
  const body = new ReadableStream<Uint8Array>({
    pull: (controller) => controller.enqueue(bytes),
    cancel: () => resolve(),
  }, { highWaterMark: 0 });
  return { body, left };
}

Deno.test("listenHttp() passes requests unchanged and sends the answers", () =>
  listening(async (request) => {
    const { pathname, search } = new URL(request.url);
    return Response.json({
      method: request.method,
      path: pathname + search,
      sent: request.headers.get("x-sent"),
      body: await request.text(),
    }, { status: 201, headers: [["set-cookie", "a=1"], ["set-cookie", "b=2"]] });
  }, async ({ url }) => {
    const headers = { "x-sent": "one" };
    const posted = await fetch(`${url}//a?b=c`, { method: "POST", headers, body: "é".repeat(100_000) });
    assertEquals([posted.status, posted.headers.getSetCookie()], [201, ["a=1", "b=2"]]);
    assertEquals(await posted.json(), {
      method: "POST",
      path: "//a?b=c",
      sent: "one",
      body: "é".repeat(100_000),
    });
    const got = await fetch(url, { headers });
    assertEquals(await got.json(), { method: "GET", path: "/", sent: "one", body: "" });
    const head = await fetch(url, { method: "HEAD" });
    assertEquals([head.status, await head.text()], [201, ""]);
    assertEquals([posted.headers.get("content-length"), posted.headers.get("connection")], [
      "200057",
      "keep-alive",
    ]);
  }));

Deno.test("listenHttp() answers pipelined requests of a connection in order", () =>
  listening((request) => new Response(new URL(request.url).pathname), async (server) => {
    const request = (path: string) => `GET ${path} HTTP/1.1\r\nhost: x\r\n\r\n`;
    const conn = await connect(server, request("/a") + request("/b"));
    let text = await readTo(conn, "/b");
    await conn.write(new TextEncoder().encode(request("/c")));
    text += await readTo(conn, "/c");
    conn.close();
    assertEquals(text.match(/\/[abc]/g), ["/a", "/b", "/c"]);
  }));

Deno.test("listenHttp() sends the head of a stream before its first event", () => {
  const first = Promise.withResolvers<void>();
  return listening(() => {
    const body = new ReadableStream({
      async start(controller) {
        await first.promise;
        controller.close();
      },
    });
    return new Response(body, { headers: { "content-type": "text/event-stream" } });
  }, async ({ url }) => {
    const response = await fetch(url);
    first.resolve();
    assertEquals([response.status, await response.text()], [200, ""]);
  });
});

Deno.test("listenHttp() aborts the request of a client that disconnects, without an error", () => {
  const begun = Promise.withResolvers<AbortSignal>();
  return listening(async ({ signal }) => {
    begun.resolve(signal);
    await once(signal, "abort");
    throw signal.reason;
  }, async (server) => {
    const conn = await connect(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const signal = await begun.promise;
    const left = once(signal, "abort");
    conn.close();
    await left;
    assertEquals(server.reported, []);
  });
});

Deno.test("listenHttp() breaks the connection and reports the error of a failing answer", () =>
  listening(() =>
    new Response(
      new ReadableStream({
        pull(controller) {
          controller.error(new Error("broken"));
        },
      }),
    ), async (server) => {
    const conn = await connect(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const text = await rest(conn);
    assertEquals([text.includes("0\r\n\r\n"), server.reported], [false, ["Error: broken"]]);
  }));

Deno.test("listenHttp() reports invalid requests and closes a connection with an unread body", () =>
  listening(() => new Response("no", { status: 401 }), async (server) => {
    for (const head of ["TRACE / HTTP/1.1\r\nhost: x", "GET / HTTP/1.1\r\nhost: a b"]) {
      const answer = await rest(await connect(server, `${head}\r\n\r\n`));
      assertStringIncludes(answer, "HTTP/1.1 400 Bad Request\r\n");
      assertStringIncludes(answer, '"Bad request: the method, target or host is invalid."');
    }
    const half = await connect(server, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf");
    assertStringIncludes(await rest(half), "connection: close\r\n");
    assertEquals(server.reported, []);
  }));

Deno.test("listenHttp() closes connections without a request or with half a head, and answers half a body", () => {
  const aborted = Promise.withResolvers<void>();
  return listening(async (request) => {
    await request.text().catch(() => {});
    if (request.signal.aborted) aborted.resolve();
    return new Response("read");
  }, async (server) => {
    const idle = await connect(server);
    const half = await connect(server, "GET / HTTP/1.1\r\nhost: x");
    const open = await connect(server, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const slow = await connect(server, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf");
    const [nothing, cut, answered, late] = await Promise.all([idle, half, open, slow].map(rest));
    assertEquals([nothing, cut], ["", ""]);
    assertStringIncludes(answered!, "HTTP/1.1 200 OK\r\n");
    assertStringIncludes(late!, "HTTP/1.1 408 Request Timeout\r\n");
    assertStringIncludes(late!, '"Request timeout: the body did not arrive in time."');
    await aborted.promise;
    assertEquals(server.reported, []);
  }, { idleMs: 50, requestMs: 50 });
});

Deno.test("listenHttp() closes connections whose client stops reading, and waits for its own work", () => {
  const stream = endless();
  const works = Promise.withResolvers<void>();
  return listening(async (request) => {
    if (new URL(request.url).pathname === "/stalled") return new Response(stream.body);
    await works.promise;
    return new Response("done");
  }, async (server) => {
    const answer = fetch(server.url);
    const stalled = await connect(server, "GET /stalled HTTP/1.1\r\nhost: x\r\n\r\n");
    await stream.left;
    stalled.close();
    works.resolve();
    assertEquals(await (await answer).text(), "done");
  }, { idleMs: 50 });
});

Deno.test("listenHttp() reads pending input after its own pause before closing anything", () =>
  listening(() => new Response("done"), async (server) => {
    const request = new TextEncoder().encode("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
    const conn = await connect(server);
    for (let time = 0; time < 3; time++) {
      await conn.write(request);
      const since = performance.now();
      while (performance.now() - since < 200) { /* Nothing else is done. */ }
      await readTo(conn, "done");
    }
    conn.close();
  }, { idleMs: 100, requestMs: 100 }));

Deno.test("listenHttp() discards the body of a GET and takes its time for the answer", () => {
  const begun = Promise.withResolvers<void>();
  const works = Promise.withResolvers<void>();
  return listening(async () => {
    begun.resolve();
    await works.promise;
    return new Response("done");
  }, async (server) => {
    const head = "GET / HTTP/1.1\r\nhost: x\r\ncontent-length: 4\r\nconnection: close\r\n\r\n";
    const conn = await connect(server, `${head}body`);
    await begun.promise;
    // The next one is closed as idle, and so would be the first.
    assertEquals(await rest(await connect(server)), "");
    works.resolve();
    assertStringIncludes(await rest(conn), "done");
  }, { idleMs: 100, requestMs: 20 });
});

Deno.test("listenHttp() replaces the longest-waiting connection, and refuses new ones if none waits", () => {
  const works = Promise.withResolvers<void>();
  return listening(async (request) => {
    if (new URL(request.url).pathname === "/works") await works.promise;
    return new Response("done");
  }, async (server) => {
    const idle = await connect(server);
    const first = await connect(server, "GET /works HTTP/1.1\r\nhost: x\r\n\r\n");
    const second = await connect(server, "GET /works HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assertEquals(await rest(idle), "");
    const refused = await rest(await connect(server));
    assertStringIncludes(refused, "HTTP/1.1 503 Service Unavailable\r\n");
    works.resolve();
    await readTo(first, "done");
    assertStringIncludes(await rest(second), "done");
    first.close();
    assertEquals(await (await fetch(server.url)).text(), "done");
  }, { maxConnections: 2 });
});

Deno.test("close() waits for answers and cuts hanging ones", async () => {
  const begun = Promise.withResolvers<void>();
  const works = Promise.withResolvers<void>();
  const stream = endless();
  await listening(async (request) => {
    if (new URL(request.url).pathname === "/hangs") return new Response(stream.body);
    begun.resolve();
    await works.promise;
    return new Response("done");
  }, async (server) => {
    const idle = await connect(server);
    const half = await connect(server, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n\r\nhalf");
    const answer = fetch(server.url);
    const hanging = (await fetch(`${server.url}/hangs`)).body!.getReader();
    await hanging.read();
    await begun.promise;
    const closed = server.close({ graceMs: 200 });
    assertEquals(await rest(idle), "");
    works.resolve();
    assertEquals(await (await answer).text(), "done");
    await closed;
    await stream.left;
    await hanging.cancel().catch(() => {});
    half.close();
    assertEquals(server.reported, []);
  });
});

Deno.test("listenHttp() limits the bytes of bodies in progress and accepts more after the answers", async () => {
  const received: string[] = [];
  const held = Promise.withResolvers<void>();
  const reached = Promise.withResolvers<void>();
  const aborted = Promise.withResolvers<void>();
  await listening(async (request) => {
    const { pathname } = new URL(request.url);
    request.signal.addEventListener("abort", () => aborted.resolve());
    const { length } = await request.text();
    received.push(`${pathname} ${length}`);
    if (pathname === "/held") {
      reached.resolve();
      await held.promise;
    }
    return new Response(`had ${length}`);
  }, async ({ url, reported }) => {
    const post = async (path: string, bytes: number, headers = {}) => {
      const response = await fetch(url + path, { method: "POST", body: "a".repeat(bytes), headers });
      return [response.status, response.headers.get("retry-after"), await response.text()];
    };
    const first = post("/held", 700_000);
    await reached.promise;
    const busy = JSON.stringify({
      error: {
        status: 503,
        code: "overloaded",
        message:
          "Service unavailable: the total size of the requests in progress is at its limit; retry in a second.",
      },
    });
    assertEquals(await post("/more", 700_000), [503, "1", busy]);
    await aborted.promise;
    // Small bodies are always accepted.
    assertEquals(await post("/small", 16_384), [200, null, "had 16384"]);
    assertEquals(await post("/fits", 200_000), [200, null, "had 200000"]);
    held.resolve();
    assertEquals(await first, [200, null, "had 700000"]);
    assertEquals(await post("/more", 700_000), [200, null, "had 700000"]);
    const [status, , body] = await post("/huge", 1_100_000);
    assertEquals(status, 413);
    assertStringIncludes(
      `${body}`,
      "Cannot read the body: it has more than 1000000 bytes, the limit of all requests together.",
    );
    assertEquals(received, ["/held 700000", "/small 16384", "/fits 200000", "/more 700000"]);
    assertEquals(reported, []);
  }, { maxInFlightBytes: 1_000_000 });
});

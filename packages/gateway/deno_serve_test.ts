// deno-lint-ignore-file no-console
import { assertEquals } from "@std/assert";
import { chunk, completion, gatewayed, post, sse } from "./fixture_test.ts";

const BODY = { model: "m", messages: [{ role: "user", content: "Go." }] };

function served(answer: () => Response, { reportsClient }: { readonly reportsClient: boolean }) {
  const signals: AbortSignal[] = [];
  const { fetch, ledger } = gatewayed(() => new Response(), {
    fetch: (_url, init) => {
      signals.push(init!.signal!);
      return Promise.resolve(answer());
    },
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => fetch(request, reportsClient ? { signal: request.signal } : {}),
  );
  const ask = (body: object, path = "/v1/chat/completions") => {
    const { method, headers } = post(body);
    const url = `http://127.0.0.1:${server.addr.port}${path}`;
    return globalThis.fetch(url, { method, headers, body: JSON.stringify(body) });
  };
  return { server, signals, ask, ledger };
}

Deno.test("gateway() under Deno.serve distinguishes a finished request from a disconnected client", async () => {
  const { warn } = console;
  const warnings: unknown[] = [];
  console.warn = (...message) => warnings.push(message);
  try {
    // Last, because the runtime warns once per process.
    for (const reportsClient of [false, true]) {
      assertEquals(warnings, []);
      const stream = () => sse(chunk({ content: "So it is." }, "stop"), "[DONE]");
      const { server, signals, ask, ledger } = served(
        () => signals.length === 1 ? completion({ content: "So it is." }) : stream(),
        { reportsClient },
      );
      await (await ask(BODY)).text();
      await (await ask({ ...BODY, stream: true })).text();
      await (await ask(BODY, "/v1/embeddings")).text();
      await server.shutdown();
      assertEquals(signals.map(({ aborted }) => aborted), [false, false, false]);
      const { planned } = await ledger();
      assertEquals([planned.calls, planned.errors], [2, 0]);
    }
  } finally {
    console.warn = warn;
  }
});

Deno.test("gateway() under Deno.serve cancels the call of a client that disconnects during its answer", async () => {
  for (const path of ["/v1/chat/completions", "/v1/embeddings"]) {
    const bytes = new TextEncoder().encode(`data: ${JSON.stringify(chunk({ content: "So" }))}\n\n`);
    const endless = new ReadableStream({ start: (body) => body.enqueue(bytes) });
    const headers = { "content-type": "text/event-stream" };
    const { server, signals, ask } = served(() => new Response(endless, { headers }), {
      reportsClient: false,
    });
    const response = await ask({ ...BODY, stream: true }, path);
    const reader = response.body!.getReader();
    await reader.read();
    const aborted = new Promise((resolve) => signals[0]!.addEventListener("abort", resolve));
    await reader.cancel();
    await aborted;
    await server.shutdown();
  }
});

Deno.test("gateway() cancels the call of a client that disconnects before its answer, if reported", async () => {
  const called = Promise.withResolvers<void>();
  const { fetch } = gatewayed(() => new Response(), {
    fetch: (_url, init) =>
      new Promise((_, reject) => {
        init!.signal!.addEventListener("abort", () => reject(init!.signal!.reason));
        called.resolve();
      }),
  });
  const client = new AbortController();
  const response = fetch(post(BODY), client);
  await called.promise;
  client.abort();
  assertEquals((await response).status, 502);
});

import { assertEquals, assertStringIncludes } from "@std/assert";
import { brotliCompressSync, deflateSync, gzipSync, zstdCompressSync } from "node:zlib";
import { gateway } from "@tare/gateway";
import { completion, gatewayed, OPTIONS, post, READ } from "./fixture_test.ts";
import { functionCall, responsesUpstream } from "./responses_fixture_test.ts";

const HELLO = { model: "m", messages: [{ role: "user", content: "Hello." }], tools: [READ] };
const BASE = "http://localhost/v1";

Deno.test("gateway() forwards other paths under /v1 with method, query, body and answer", async () => {
  const { fetch, seen } = gatewayed(({ url }) => Response.json({ at: url.slice(url.indexOf("/v1")) }));
  const request = [
    ["GET", "/models/gpt-5?limit=1000"],
    ["POST", "/responses/compact"],
    ["POST", "/responses/resp_1/cancel"],
    ["GET", "/responses/resp_%2F1/input_items?order=asc"],
    ["DELETE", "/responses/resp_1"],
    ["POST", "/embeddings"],
    ["POST", "/completions"],
    ["GET", "/chat/completions"],
    ["HEAD", "/models"],
  ] as const;
  for (const [method, path] of request) {
    const body = method === "POST" ? '{ "input":  1.0 }' : null;
    const headers = { authorization: "Bearer mine", "content-type": "application/json", "openai-beta": "b" };
    const response = await fetch(new Request(`${BASE}${path}`, { method, body, headers }));
    if (method !== "HEAD") assertEquals(await response.json(), { at: `/v1${path}` });
    const { method: sent, url, text, headers: theirs } = seen.at(-1)!;
    assertEquals([sent, url, text], [method, `http://upstream.example/v1${path}`, body ?? ""]);
    assertEquals([theirs.get("authorization"), theirs.get("openai-beta")], ["Bearer mine", "b"]);
  }
});

Deno.test("gateway() streams unread bodies in both directions", async () => {
  const got: string[] = [];
  const upstream = (async (...args: Parameters<typeof globalThis.fetch>) => {
    const reader = new Request(...args).body!.getReader();
    got.push(new TextDecoder().decode((await reader.read()).value));
    return new Response(
      new ReadableStream({
        async pull(controller) {
          const { done, value } = await reader.read();
          if (done) return controller.close();
          controller.enqueue(value);
        },
      }),
      { headers: { "content-type": "audio/pcm" } },
    );
  }) as typeof globalThis.fetch;
  const { fetch } = gateway({ ...OPTIONS, fetch: upstream });
  const { readable, writable } = new TransformStream<Uint8Array<ArrayBuffer>>();
  const writer = writable.getWriter();
  const send = (text: string) => writer.write(new TextEncoder().encode(text));
  const headers = { "content-type": "multipart/form-data; boundary=x" };
  const request = fetch(
    new Request(`${BASE}/audio/transcriptions`, { method: "POST", body: readable, headers }),
  );
  await send("one");
  const reader = (await request)!.body!.getReader();
  assertEquals(got, ["one"]);
  for (const text of ["two", "three"]) {
    await send(text);
    assertEquals(new TextDecoder().decode((await reader.read()).value), text);
  }
  await writer.close();
  assertEquals((await reader.read()).done, true);
});

Deno.test("gateway() answers only /v1 and HEAD /", async () => {
  const { fetch } = gateway({ ...OPTIONS, fetch: () => Promise.resolve(new Response()) });
  const ask = (path: string, method = "GET") => fetch(new Request(`http://localhost${path}`, { method }));
  for (const path of ["/", "/v2/models", "/v1", "/health"]) assertEquals(ask(path), undefined);
  const head = await ask("/", "HEAD");
  assertEquals([head?.status, await head?.text()], [200, ""]);
});

Deno.test("gateway() answers WebSocket upgrades with 426", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }));
  const headers = { connection: "Upgrade", upgrade: "websocket", "sec-websocket-version": "13" };
  const response = await fetch(new Request(`${BASE}/responses`, { headers }));
  assertEquals([response.status, (await response.json()).error.code, seen], [426, "upgrade_required", []]);
});

const COMPRESSORS: Readonly<Record<string, (text: string) => Uint8Array>> = {
  gzip: gzipSync,
  deflate: deflateSync,
  br: brotliCompressSync,
  zstd: zstdCompressSync,
  "gzip, zstd": (text) => zstdCompressSync(gzipSync(text)),
};

function compressed(encoding: string, body: Uint8Array, path = "/chat/completions"): Request {
  const headers = { "content-type": "application/json", "content-encoding": encoding };
  return new Request(`${BASE}${path}`, { method: "POST", headers, body: new Uint8Array(body) });
}

Deno.test("gateway() decompresses bodies and plans them", async () => {
  for (const [encoding, compress] of Object.entries(COMPRESSORS)) {
    const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }));
    const response = await fetch(compressed(encoding, compress(JSON.stringify(HELLO))));
    await response.text();
    const [{ headers, body } = { headers: new Headers(), body: {} }] = seen;
    assertEquals([response.status, headers.get("content-encoding"), body.messages], [
      200,
      null,
      HELLO.messages,
    ]);
    assertEquals(body.tools.length, 2, "the recall tool is missing");
  }
});

Deno.test("gateway() forwards a body of unknown encoding unread", async () => {
  const got: [string | null, string][] = [];
  const { fetch } = gateway({
    ...OPTIONS,
    fetch: async (...args) => {
      const request = new Request(...args);
      got.push([request.headers.get("content-encoding"), await request.text()]);
      return completion({ content: "Hi" });
    },
  });
  const response = await fetch(compressed("snappy", new TextEncoder().encode("who knows")));
  assertEquals([response?.status, got], [200, [["snappy", "who knows"]]]);
  await response?.text();
});

Deno.test("gateway() rejects a compressed body that is too large or invalid", async () => {
  const { fetch, seen } = gatewayed(() => completion({ content: "Hi" }), { limits: { bodyBytes: 10_000 } });
  const replyTo = async (request: Request) => {
    const response = await fetch(request);
    const { code, message } = (await response.json()).error;
    return [response.status, code, message];
  };
  const bomb = JSON.stringify({ ...HELLO, pad: " ".repeat(1_000_000) });
  for (const [encoding, compress] of Object.entries(COMPRESSORS)) {
    assertEquals((await replyTo(compressed(encoding, compress(bomb)))).slice(0, 2), [413, "body_too_large"]);
    const [status, code, message] = await replyTo(compressed(encoding, new TextEncoder().encode("no")));
    assertEquals([status, code], [400, "invalid_body"]);
    assertStringIncludes(message, `it doesn't match its content-encoding, ${encoding}`);
  }
  assertEquals(seen, []);
});

Deno.test("gateway() rejects requests of other origins without a CORS preflight", async () => {
  const { fetch, seen } = gatewayed(() => Response.json({}));
  const send = async (headers: Record<string, string>) => {
    const response = await fetch(new Request(`${BASE}/files`, { method: "POST", body: '"x"', headers }));
    await response.body?.cancel();
    return response.status;
  };
  assertEquals(await send({ "content-type": "text/plain", origin: "https://evil.example" }), 403);
  assertEquals(seen, []);
  assertEquals(await send({ "content-type": "text/plain", origin: "http://localhost" }), 200);
  assertEquals(await send({ "content-type": "multipart/form-data; boundary=x" }), 200);
});

Deno.test("gateway() forwards paths below a response with the upstream's id", async () => {
  const upstream = responsesUpstream([[functionCall("recall", { ref: "none" }, "r1")], []]);
  const urls: string[] = [];
  const { fetch } = gateway({
    ...OPTIONS,
    fetch: async (input, init) => {
      const request = new Request(input, init);
      urls.push(`${request.method} ${new URL(request.url).pathname}`);
      return request.url.endsWith("/responses") ? await upstream.fetch(request) : Response.json({});
    },
  });
  const tools = [{ type: "function", name: "read", parameters: {} }];
  await (await fetch(post({ model: "m", input: "Go.", tools, stream: true }, {}, "/responses")))?.text();
  const ask = async (method: string, path: string) =>
    await (await fetch(new Request(`${BASE}/responses/${path}`, { method })))?.text();
  await ask("POST", "resp_1/cancel");
  await ask("DELETE", "resp_1");
  await ask("GET", "resp_1/input_items");
  assertEquals(urls.slice(2), [
    "POST /v1/responses/resp_2/cancel",
    "DELETE /v1/responses/resp_2",
    "GET /v1/responses/resp_2/input_items",
  ]);
});

Deno.test("gateway() reports an unreachable upstream in the path's error format", async () => {
  const unreachable = () => Promise.reject(new TypeError("fetch failed"));
  const chat = OPTIONS.upstreams.chat!;
  const { fetch } = gateway({ ...OPTIONS, upstreams: { chat, messages: chat }, fetch: unreachable });
  const replyTo = async (path: string) => {
    const response = await fetch(new Request(`${BASE}${path}`, { method: "PUT" }));
    return [response!.status, await response!.json()];
  };
  const message = "Cannot reach the provider: fetch failed.";
  assertEquals(await replyTo("/messages"), [502, { type: "error", error: { type: "api_error", message } }]);
  const error = { message, type: "server_error", param: null, code: "upstream_unreachable" };
  assertEquals(await replyTo("/chat/completions"), [502, { error }]);
  assertEquals(await replyTo("/embeddings"), [502, { error }]);
});

Deno.test("gateway() limits the server's key to model paths and forwarded paths", async () => {
  const keyed = { ...OPTIONS.upstreams.chat!, apiKey: "sk-server" };
  const { fetch, seen } = gatewayed(() => Response.json({}), {
    upstreams: { chat: keyed, responses: keyed, messages: keyed },
    forward: ["/v1/vector_stores"],
  });
  const ask = async (path: string, method = "GET", headers: Record<string, string> = {}) => {
    const before = seen.length;
    const response = await fetch(new Request(`${BASE}${path}`, { method, headers }));
    const text = await response.text();
    return [response.status, seen.length - before, text === "" ? undefined : JSON.parse(text)];
  };
  for (
    const path of [
      ...["/models", "/files/f/content", "/messages/batches/b", "/vector_stores/vs/files"],
      ...["/conversations/c/items", "/uploads/u/parts", "/containers/c/files/f", "/skills/s/versions"],
    ]
  ) {
    assertEquals((await ask(path)).slice(0, 2), [200, 1], path);
  }
  const path = "/v1/organization/admin_api_keys";
  const message =
    `Cannot forward ${path}: the server's key may be used only for model paths. Allow it with ` +
    `--forward ${path} (TARE_FORWARD).`;
  const error = { message, type: "invalid_request_error", param: null, code: "not_found" };
  assertEquals(await ask(path.slice("/v1".length)), [404, 0, { error }]);
  // The error has the form of the client's protocol.
  assertEquals(await ask(path.slice("/v1".length), "GET", { "anthropic-version": "2023-06-01" }), [404, 0, {
    type: "error",
    error: { type: "not_found_error", message },
  }]);
  for (const crooked of ["/..%2fadmin", "/models/..%2fadmin", "/models//x", "/models/", "/%E0"]) {
    assertEquals((await ask(crooked)).slice(0, 2), [404, 0]);
  }
  assertEquals((await ask("/models/mine", "DELETE")).slice(0, 2), [405, 0]);
});

import { assert, assertEquals } from "@std/assert";
import { gzipSync } from "node:zlib";
import { withServer } from "./watched_server.ts";

/** Longest delay of other requests, relative to {@linkcode rewriteMs} on the same machine. */
const MAX_RATIO = 5;

const call = (args: string) =>
  `{"role":"user","content":"x"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function",` +
  `"function":{"name":"read","arguments":${JSON.stringify(args)}}}]}`;
const TOOLS = `"tools":[{"type":"function","function":{"name":"read","parameters":{"type":"object"}}}]`;

const SHAPES: Readonly<Record<string, (bytes: number) => readonly [path: string, body: string]>> = {
  "a message of one letter": (
    bytes,
  ) => ["/v1/chat/completions", chat(`{"role":"user","content":"${a(bytes)}"}`)],
  "a message of quotes": (bytes) => [
    "/v1/chat/completions",
    chat(`{"role":"user","content":"${'\\"'.repeat(bytes / 2)}"}`),
  ],
  "instructions of one letter": (
    bytes,
  ) => ["/v1/responses", `{"model":"m","instructions":"${a(bytes)}","input":"Hi"}`],
  "an input of one letter": (bytes) => ["/v1/responses", `{"model":"m","input":"${a(bytes)}"}`],
  "a result of one letter": (bytes) => [
    "/v1/chat/completions",
    chat(`${call("{}")},{"role":"tool","tool_call_id":"1","content":"${a(bytes)}"}`),
  ],
  "a result of lines": (bytes) => [
    "/v1/chat/completions",
    chat(
      `${call("{}")},{"role":"tool","tool_call_id":"1","content":"${"1: aaa bbb\\n".repeat(bytes / 12)}"}`,
    ),
  ],
  "arguments of one letter": (bytes) => [
    "/v1/chat/completions",
    chat(`${call(JSON.stringify({ a: a(bytes) }))},{"role":"tool","tool_call_id":"1","content":"b"}`),
  ],
  "a tool of one letter": (bytes) => [
    "/v1/chat/completions",
    `{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"read",` +
    `"description":"${a(bytes)}","parameters":{"type":"object"}}}]}`,
  ],
  "a model after a message": (bytes) => [
    "/v1/chat/completions",
    `{"messages":[{"role":"user","content":"${a(bytes)}"}],"model":"m"}`,
  ],
  "thousands of messages": (bytes) => [
    "/v1/chat/completions",
    chat(
      Array.from(
        { length: 2_000 },
        (_, at) => `{"role":"user","content":"${"w ".repeat(bytes / 4_000)}${at}"}`,
      )
        .join(","),
    ),
  ],
  "the agent's": (
    bytes,
  ) => ["/v1/chat/completions", `{"model":"agent","messages":[{"role":"user","content":"${a(bytes)}"}]}`],
  "the agent's, of spaces": (bytes) => ["/v1/responses", `{"model":"agent","input":"${" ".repeat(bytes)}"}`],
};

function a(bytes: number): string {
  return "a".repeat(bytes);
}

function chat(messages: string): string {
  return `{"model":"m","messages":[${messages}],${TOOLS}}`;
}

/** Returns the median time of decoding, parsing and writing 30 MB of JSON, in milliseconds. */
function rewriteMs(): number {
  const body = new TextEncoder().encode(SHAPES["a message of one letter"]!(30_000_000)[1]);
  const times = Array.from({ length: 5 }, () => {
    const start = performance.now();
    JSON.stringify(JSON.parse(new TextDecoder().decode(body)));
    return performance.now() - start;
  });
  return times.toSorted((a, b) => a - b)[2]!;
}

function provider(): Deno.HttpServer<Deno.NetAddr> {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    for await (const _ of request.body ?? []);
    const isChat = request.url.includes("/chat/");
    const usage = {
      prompt_tokens: 9,
      completion_tokens: 1,
      total_tokens: 10,
      input_tokens: 9,
      output_tokens: 1,
    };
    const message = { role: "assistant", content: "So." };
    return Response.json(
      isChat
        ? {
          id: "c",
          object: "chat.completion",
          choices: [{ index: 0, message, finish_reason: "stop" }],
          usage,
        }
        : { id: "r", object: "response", status: "completed", output: [], usage },
    );
  });
}

Deno.test("large prompts: no other request is delayed", async (t) => {
  await using upstream = provider();
  const env = { OPENAI_BASE_URL: `http://127.0.0.1:${upstream.addr.port}/v1`, OPENAI_API_KEY: "sk" };
  await withServer(["--model", "m"], async (server) => {
    await server.post(...SHAPES["a result of lines"]!(1_200));
    const maxMs = MAX_RATIO * rewriteMs();
    const assertShort = (stallMs: number) =>
      assert(stallMs < maxMs, `others waited ${Math.round(stallMs)} ms of at most ${Math.round(maxMs)}`);
    for (const [name, bodyOf] of Object.entries(SHAPES)) {
      for (const bytes of [60_000_000, 30_000_000, 14_400_000, 1_200_000]) {
        await t.step(`${name}, ${bytes / 1e6} MB`, async () => {
          const [path, body] = bodyOf(bytes);
          const { status, stallMs } = await server.post(path, body);
          assert(bytes > 2 ** 25 ? status === 413 : [200, 413].includes(status), `answered ${status}`);
          assertShort(stallMs);
        });
      }
    }
    await t.step("58 kB of gzip", async () => {
      const [path, body] = SHAPES["a message of one letter"]!(60_000_000);
      const { status, stallMs } = await server.post(path, new Uint8Array(gzipSync(body)), undefined, "gzip");
      assertEquals(status, 413);
      assertShort(stallMs);
    });
  }, env);
});

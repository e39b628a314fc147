/**
 * What a server bears: its memory under large bodies that come at once, and how long others wait meanwhile (Linux).
 * `deno task bench:limits`.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { startAttacked } from "./bench/server/attacked_server.ts";
import { watchHealth } from "./bench/server/slowest_health.ts";

const BODIES = 6;

/** The provider takes its time, so that the bodies are there together. */
function provider() {
  return Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (request.method === "POST") await request.arrayBuffer();
    await new Promise((resolve) => setTimeout(resolve, 500));
    return Response.json({
      id: "a",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "Done." }, finish_reason: "stop" }],
      usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 },
    });
  });
}

/** A body of so many bytes, of one message. */
function bodyOf(bytes: number): Uint8Array<ArrayBuffer> {
  const words = "the quick brown fox jumps over ";
  const body = { model: "m", messages: [{ role: "user", content: words.repeat(bytes / words.length) }] };
  return new TextEncoder().encode(JSON.stringify(body));
}

const folder = await Deno.makeTempDir();
for (const megabytes of [90, 60, 9]) {
  for (const path of ["/v1/chat/completions", "/v1/sessions"]) {
    await using upstream = provider();
    const flags = ["--workspace", folder, "--data", `${folder}/${crypto.randomUUID()}`];
    await using server = await startAttacked([
      ...flags,
      "--base-url",
      `http://127.0.0.1:${upstream.addr.port}/v1`,
      ...Deno.args,
    ]);
    const body = bodyOf(megabytes * 1e6);
    const headers = { "content-type": "application/json", authorization: "Bearer k" };
    let most = 0;
    const watch = setInterval(async () => most = Math.max(most, (await server.state()).memoryMiB), 100);
    const told: Record<string, number> = {};
    const before = (await server.state()).memoryMiB;
    const health = watchHealth(server.url);
    await Promise.all(Array.from({ length: BODIES }, async () => {
      const answered = await fetch(server.url + path, { method: "POST", headers, body })
        .then(async (response) => (await response.text(), `${response.status}`), () => "closed");
      told[answered] = (told[answered] ?? 0) + 1;
    }));
    const slowest = await health.stop();
    clearInterval(watch);
    console.log(
      `${BODIES} bodies of ${megabytes} MB to ${path}: ${before.toFixed(0)} MiB before, at most ` +
        `${most.toFixed(0)} MiB; others waited ${slowest.toFixed(0)} ms at most; answers ${
          JSON.stringify(told)
        }`,
    );
  }
}
await Deno.remove(folder, { recursive: true });

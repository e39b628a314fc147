/**
 * Runs the provider of `bench gateway` as a process of its own, and prints its address. It is not the
 * simulator, whose work per request would be measured with the gateway's: it reads requests without parsing
 * them and streams a reply. The path before `/v1` configures it: `/paced/CHUNKS/MS` sends this many events
 * at this interval. With a base URL it is a bare proxy for that provider, which forwards bodies as they
 * come; with `holding` after it, it buffers each body and forwards every event by itself, the least work of
 * a proxy that reads both.
 *
 * @module
 */
// deno-lint-ignore-file no-console

const encoder = new TextEncoder();

function event(text: string): string {
  const choice = { index: 0, delta: { content: text }, finish_reason: null, logprobs: null };
  const chunk = {
    id: "chatcmpl-1",
    object: "chat.completion.chunk",
    created: 0,
    model: "m",
    choices: [choice],
  };
  return `data: ${JSON.stringify(chunk)}\n\n`;
}

const EVENT = encoder.encode(event(" some words"));
const DONE = encoder.encode("data: [DONE]\n\n");

function paced(chunks: number, intervalMs: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let sent = 0;
  return new ReadableStream({
    async pull(controller) {
      if (sent === chunks) {
        controller.enqueue(DONE);
        return controller.close();
      }
      if (sent > 0) await new Promise((resolve) => setTimeout(resolve, intervalMs));
      controller.enqueue(EVENT);
      sent++;
    },
  }, { highWaterMark: 0 });
}

async function provide(request: Request): Promise<Response> {
  for await (const _ of request.body ?? []) { /* Read to the end, as a provider does before it answers. */ }
  const [, , chunks, intervalMs] = new URL(request.url).pathname.split("/");
  const headers = { "content-type": "text/event-stream" };
  return new Response(paced(Number(chunks), Number(intervalMs)), { headers });
}

async function passOn({ url, method, body }: Request): Promise<Response> {
  const path = new URL(url).pathname.replace(/^\/v1/, "");
  const headers = { "content-type": "application/json" };
  const response = await fetch(Deno.args[0] + path, { method, headers, ...(body && { body }) });
  return new Response(response.body, response);
}

/** Forwards a request as a proxy that inspects it, which the runtime can't do by itself. */
async function handOn(request: Request): Promise<Response> {
  const path = new URL(request.url).pathname.replace(/^\/v1/, "");
  const headers = { "content-type": "application/json" };
  const body = new Uint8Array(await request.arrayBuffer());
  const response = await fetch(Deno.args[0] + path, { method: request.method, headers, body });
  const reader = response.body!.getReader();
  const events = new ReadableStream<Uint8Array<ArrayBuffer>>({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(value);
    },
  }, { highWaterMark: 0 });
  return new Response(events, response);
}

const [origin, holding] = Deno.args;
const serve = origin === undefined ? provide : holding === undefined ? passOn : handOn;
Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`upstream listens on http://127.0.0.1:${port}`),
}, serve);

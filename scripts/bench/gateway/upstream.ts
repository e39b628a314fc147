/**
 * The provider of `bench:gateway`, in a process of its own: reads requests without looking at them and answers with a
 * streamed reply. The path in front of `/v1` says how: `/paced/CHUNKS/MS` sends so many events so many milliseconds
 * apart, `/bulk/MEGABYTES` as many bytes as fast as they are taken. Prints its port.
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
const PIECE = encoder.encode(event(" some words").repeat(100));
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

function bulk(bytes: number): ReadableStream<Uint8Array<ArrayBuffer>> {
  let left = bytes;
  return new ReadableStream({
    pull(controller) {
      if (left <= 0) {
        controller.enqueue(DONE);
        return controller.close();
      }
      controller.enqueue(PIECE);
      left -= PIECE.length;
    },
  });
}

const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, async (request) => {
  for await (const _ of request.body ?? []) { /* Read to the end, as a provider does before it answers. */ }
  const [, kind, first, second] = new URL(request.url).pathname.split("/");
  const body = kind === "bulk" ? bulk(Number(first) * 1e6) : paced(Number(first), Number(second));
  return new Response(body, { headers: { "content-type": "text/event-stream" } });
});
console.log(server.addr.port);

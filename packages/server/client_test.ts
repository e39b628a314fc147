import { assertEquals, assertRejects } from "@std/assert";
import { client, RefusedError } from "./client.ts";

const TEXT = ': heartbeat\n\nid: 1\ndata: {"a":"b: c"}\n\nevent: note\n\nid: 2\ndata: {"a":"ü"}\r\n\r\n';

async function eventsOf(text: string, size: number): Promise<readonly unknown[]> {
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  const body = () =>
    new ReadableStream({
      pull(controller) {
        if (at >= bytes.length) return controller.close();
        controller.enqueue(bytes.slice(at, at += size));
      },
    });
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response(body()));
  try {
    const { events } = client({ url: `http://127.0.0.1:${server.addr.port}`, unreachable: "No." });
    const read = await events("GET /sessions/{id}/events", { path: { id: "s" } });
    return await Array.fromAsync(read);
  } finally {
    await server.shutdown();
  }
}

Deno.test("client() reads the same events wherever a stream is split", async () => {
  const expected = [{ number: 1, event: { a: "b: c" } }, { number: 2, event: { a: "ü" } }];
  for (const size of [1, 2, 3, 5, 7, 11, 23, 1_000]) assertEquals(await eventsOf(TEXT, size), expected);
});

Deno.test("client() reads an event that exceeds the size limit of replies", async () => {
  const text = "x".repeat(17 * 2 ** 20);
  assertEquals(await eventsOf(`id: 1\ndata: "${text}"\n\n`, 2 ** 20), [{ number: 1, event: text }]);
});

Deno.test("client() throws the error of a stream", async () => {
  const error = { status: 404, code: "not_found", message: "It is gone." };
  const thrown = await assertRejects(
    () => eventsOf(`event: error\ndata: ${JSON.stringify({ error })}\n\n`, 1_000),
    RefusedError,
    "It is gone.",
  );
  assertEquals(thrown.status, 404);
});

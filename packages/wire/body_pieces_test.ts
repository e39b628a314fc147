import { assert, assertEquals, assertRejects } from "@std/assert";
import { bodyPieces } from "@tare/wire";

const TEXT = "A word, and the next one. ".repeat(20_000);

/** The text of a body, and how long the memory of its pieces was. */
async function read(body: ReadableStream<Uint8Array<ArrayBuffer>> | null) {
  const decoder = new TextDecoder();
  const lengths = new Set<number>();
  let text = "";
  for await (const piece of bodyPieces(body)) {
    text += decoder.decode(piece, { stream: true });
    lengths.add(piece.buffer.byteLength);
  }
  return { text: text + decoder.decode(), lengths };
}

Deno.test("bodyPieces() gives all of a body of bytes, by way of memory of one size", async () => {
  await using server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => new Response(TEXT),
  );
  const { text, lengths } = await read((await fetch(`http://127.0.0.1:${server.addr.port}`)).body);
  assertEquals(text, TEXT);
  assertEquals([...lengths], [16_384]);
});

Deno.test("bodyPieces() gives the pieces of a stream that a program made, and nothing of no body", async () => {
  const pieces = ["one", "", "two"].map((text) => new TextEncoder().encode(text));
  assertEquals((await read(ReadableStream.from(pieces))).text, "onetwo");
  assertEquals((await read(null)).text, "");
});

/** A body that gives one piece and then waits, and whether it was cancelled. */
function waiting() {
  const seen = { isCancelled: false };
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>({
    start: (controller) => controller.enqueue(new Uint8Array([1])),
    cancel: () => void (seen.isCancelled = true),
  });
  return { body, seen };
}

Deno.test("bodyPieces() ends when it is aborted, while it waits too, and cancels what nobody reads on", async () => {
  const stopped = new AbortController();
  const { body, seen } = waiting();
  const pieces = bodyPieces(body, stopped.signal);
  assertEquals((await pieces.next()).value, new Uint8Array([1]));
  const next = pieces.next();
  stopped.abort();
  assertEquals((await next).done, true);
  assert(seen.isCancelled);
  const other = waiting();
  for await (const _ of bodyPieces(other.body)) break;
  assert(other.seen.isCancelled);
});

Deno.test("bodyPieces() fails as the body does", async () => {
  const body = new ReadableStream({ pull: (controller) => controller.error(new TypeError("broken off")) });
  await assertRejects(() => read(body), TypeError, "broken off");
});

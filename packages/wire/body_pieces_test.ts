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
  const bytes = new TextEncoder().encode(TEXT);
  let at = 0;
  const body = new ReadableStream({
    type: "bytes",
    pull(controller) {
      if (at < bytes.length) controller.enqueue(bytes.slice(at, at += 50_000));
      else {
        controller.close();
        controller.byobRequest?.respond(0);
      }
    },
  });
  const { text, lengths } = await read(body);
  assertEquals(text, TEXT);
  assertEquals([...lengths], [16_384]);
});

Deno.test("bodyPieces() gives the pieces of a stream that a program made, and nothing of no body", async () => {
  const pieces = ["one", "", "two"].map((text) => new TextEncoder().encode(text));
  const made = new ReadableStream({
    start(controller) {
      for (const piece of pieces) controller.enqueue(piece);
      controller.close();
    },
  });
  assertEquals((await read(made)).text, "onetwo");
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

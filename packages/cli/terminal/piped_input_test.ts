import { assertEquals, assertRejects } from "@std/assert";
import { readPiped, withPiped } from "./input.ts";

/** Returns a stream of these pieces, and how many were read. */
function piped(...pieces: readonly (string | readonly number[])[]) {
  let taken = 0;
  const stream = new ReadableStream<Uint8Array>({
    pull(controller) {
      const piece = pieces[taken++];
      if (piece === undefined) return controller.close();
      controller.enqueue(typeof piece === "string" ? new TextEncoder().encode(piece) : new Uint8Array(piece));
    },
  }, { highWaterMark: 0 });
  return { stream, taken: () => taken };
}

Deno.test("readPiped() reads a text to its end, and ignores blank input", async () => {
  const letter = [...new TextEncoder().encode("ä")];
  assertEquals(await readPiped(piped("a\n", [letter[0]!], [letter[1]!], "\n").stream), {
    text: "a\nä\n",
    isCut: false,
  });
  assertEquals(await readPiped(piped(" \n", "\t").stream), undefined);
  assertEquals(await readPiped(piped().stream), undefined);
});

Deno.test("readPiped() truncates huge input to whole lines and stops reading", async () => {
  const { stream, taken } = piped("one\ntwo\n", "three\n", "four\n", "five\n");
  assertEquals(await readPiped(stream, { mostBytes: 10 }), { text: "one\ntwo", isCut: true });
  assertEquals(taken(), 2);
  assertEquals(await readPiped(piped("ääää").stream, { mostBytes: 5 }), { text: "ää", isCut: true });
});

Deno.test("readPiped() rejects binary input", async () => {
  const message =
    "Cannot send standard input: it isn't UTF-8 text. Name the file in the message, or convert it.";
  await assertRejects(() => readPiped(piped("PK\0\0").stream), Error, message);
  await assertRejects(() => readPiped(piped([0xff, 0xfe, 0x41]).stream), Error, message);
});

Deno.test("withPiped() separates piped input from the message", () => {
  const text = "a\n```\nb\n";
  assertEquals(
    withPiped("Review.", { text, isCut: false }),
    "Review.\n\nFrom standard input:\n\n````\na\n```\nb\n````",
  );
  assertEquals(
    withPiped("Review.", { text: "a", isCut: true }),
    "Review.\n\nFrom standard input (only its first 1 characters):\n\n```\na\n```",
  );
  assertEquals(withPiped("", { text, isCut: false }), text);
  assertEquals(withPiped("", { text, isCut: true }), `${text}\n\n(only its first 8 characters)`);
});

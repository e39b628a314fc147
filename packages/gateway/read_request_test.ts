import { assert, assertEquals, assertRejects } from "@std/assert";
import { readBody } from "@tare/gateway/internal";
import { ApiError } from "@tare/wire/internal";

/** A request whose body comes in these pieces. */
function sent(...pieces: readonly Uint8Array<ArrayBuffer>[]): Request {
  return new Request("http://localhost/", { method: "POST", body: ReadableStream.from(pieces) });
}

const piece = (length: number) => new Uint8Array(length).fill(0x20);

Deno.test("readBody() hands a body on that came in one piece, and copies one of more pieces once", async () => {
  const whole = piece(10);
  assertEquals(await readBody(sent(whole), { maxBytes: 10 }) === whole, true);
  assertEquals((await readBody(sent(piece(4), piece(6)), { maxBytes: 10 }))?.length, 10);
  assertEquals(await readBody(new Request("http://localhost/"), { maxBytes: 10 }), new Uint8Array());
});

Deno.test("readBody() asks once, when a body gets long, how much of it is wanted: by its first piece, then by all", async () => {
  const asked: number[] = [];
  const read = (limits: readonly (number | undefined)[]) => {
    asked.length = 0;
    const limit = (begin: Uint8Array) => limits[asked.push(begin.length) - 1];
    return readBody(sent(piece(4), piece(4), piece(4), piece(4)), {
      maxBytes: 20,
      early: { bytes: 6, limit },
    });
  };
  assertEquals([(await read([undefined, undefined]))?.length, [...asked]], [16, [4, 8]]);
  assertEquals([(await read([undefined, 16]))?.length, [...asked]], [16, [4, 8]]);
  assertEquals([(await read([18]))?.length, [...asked]], [16, [4]]);
  const refused = await assertRejects(() => read([6]), ApiError, "it has more than 6 bytes");
  assertEquals([refused.status, asked], [413, [4]]);
});

Deno.test("readBody() leaves a body alone whose compression it doesn't know", async () => {
  const headers = { "content-encoding": "snappy" };
  const request = new Request("http://localhost/", { method: "POST", body: "x", headers });
  assertEquals(await readBody(request, { maxBytes: 10 }), undefined);
  assert(!request.bodyUsed);
  assertEquals(await request.text(), "x");
});

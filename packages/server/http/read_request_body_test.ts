import { assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "./http_error.ts";
import { gzipSync } from "node:zlib";
import { LINES, parseRequestBody, readRequestBytes } from "./dispatcher.ts";

const JSON_TYPE = "Application/JSON; charset=utf-8";
const post = (body: BodyInit | null, type?: string) =>
  new Request("http://localhost/", {
    method: "POST",
    body,
    headers: type === undefined ? {} : { "content-type": type },
  });
const anything = { maxBytes: 10, check: (): string | undefined => undefined };

async function readRequestBody(
  request: Request,
  options: Omit<Parameters<typeof parseRequestBody>[1], "bytes">,
) {
  const bytes = await readRequestBytes(request, options);
  return { bytes, value: parseRequestBody(request, { ...options, bytes }) };
}

async function failure(
  request: Request,
  options: Omit<Parameters<typeof parseRequestBody>[1], "bytes"> = anything,
): Promise<[number, string]> {
  const error = await assertRejects(() => readRequestBody(request, options), HttpError);
  return [error.status, error.message];
}

Deno.test("parseRequestBody() reads JSON with any parameters of its type, and no body as {}", async () => {
  const { value, bytes } = await readRequestBody(post('{"a":"é"}', JSON_TYPE), anything);
  assertEquals([value, new TextDecoder().decode(bytes)], [{ a: "é" }, '{"a":"é"}']);
  assertEquals(await readRequestBody(post(null), anything), { value: {}, bytes: new Uint8Array() });
});

Deno.test("parseRequestBody() refuses broken JSON, broken UTF-8, other types, faults and excess bytes", async () => {
  assertEquals((await failure(post("{", JSON_TYPE)))[0], 400);
  assertEquals(await failure(post(new Uint8Array([0x22, 0xff, 0x22]), JSON_TYPE)), [
    400,
    "Cannot read the body: it isn't UTF-8.",
  ]);
  assertEquals(await failure(post("{}")), [
    415,
    "Cannot read the body: its content-type is text/plain;charset=UTF-8; send application/json.",
  ]);
  assertEquals((await failure(post("{}", "application/json+x")))[0], 415);
  assertEquals(await failure(post("[]", JSON_TYPE), { maxBytes: 10, check: () => "x must be y" }), [
    400,
    "Cannot use the body: x must be y.",
  ]);
  const tooLarge: [number, string] = [413, "Cannot read the body: it has more than 10 bytes."];
  assertEquals(await failure(post('"12345678901"', JSON_TYPE)), tooLarge);
  const endless = ReadableStream.from(function* () {
    for (;;) yield new Uint8Array(8);
  }());
  assertEquals(await failure(post(endless, JSON_TYPE)), tooLarge);
});

Deno.test("parseRequestBody() reads compressed bodies and refuses unknown encodings", async () => {
  const request = (encoding: string, body: BodyInit = "{}") =>
    new Request("http://localhost/", {
      method: "POST",
      body,
      headers: { "content-type": JSON_TYPE, "content-encoding": encoding },
    });
  assertEquals(await failure(request("snappy")), [
    415,
    "Cannot read the body: its content-encoding snappy is not supported.",
  ]);
  assertEquals(await failure(request("gzip")), [
    400,
    "Cannot read the body: it doesn't match its content-encoding, gzip.",
  ]);
  const zipped = (text: string) => request("gzip", new Uint8Array(gzipSync(text)));
  assertEquals((await readRequestBody(zipped('{"a":1}'), { ...anything, maxBytes: 100 })).value, { a: 1 });
  assertEquals((await failure(zipped(" ".repeat(1_000)), { ...anything, maxBytes: 100 }))[0], 413);
  assertEquals((await readRequestBody(request("Identity"), anything)).value, {});
});

Deno.test("parseRequestBody() returns lines as text and refuses broken UTF-8", async () => {
  const lines = { ...anything, lines: true };
  assertEquals(await readRequestBody(post("{}\né", LINES), lines), {
    value: "{}\né",
    bytes: new TextEncoder().encode("{}\né"),
  });
  assertEquals(await failure(post(new Uint8Array([0xff]), LINES), lines), [
    400,
    "Cannot read the body: it isn't UTF-8.",
  ]);
});

Deno.test("parseRequestBody() refuses excessive depth and size before parsing", async () => {
  const options = {
    maxBytes: 2 ** 20,
    check: () => {
      throw new Error("was checked");
    },
  };
  const refusals = ["[".repeat(201), `[${"0,".repeat(100_000)}0]`, `{${'"a":0,'.repeat(5_000)}"a":0}`].map((
    body,
  ) => failure(post(body, JSON_TYPE), options));
  assertEquals(await Promise.all(refusals), [
    [400, "Cannot use the body: it is nested more than 200 levels deep."],
    [400, "Cannot use the body: it holds more than 100000 values."],
    [400, "Cannot use the body: one of its objects has more than 5000 fields."],
  ]);
});

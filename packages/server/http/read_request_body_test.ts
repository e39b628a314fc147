import { assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "./http_error.ts";
import { LINES, readRequestBody } from "./read_request_body.ts";

const JSON_TYPE = "Application/JSON; charset=utf-8";
const post = (body: BodyInit | null, type?: string) =>
  new Request("http://localhost/", {
    method: "POST",
    body,
    headers: type === undefined ? {} : { "content-type": type },
  });
const anything = { maxBytes: 10, check: (): string | undefined => undefined };

async function failure(
  request: Request,
  options: Parameters<typeof readRequestBody>[1] = anything,
): Promise<[number, string]> {
  const error = await assertRejects(() => readRequestBody(request, options), HttpError);
  return [error.status, error.message];
}

Deno.test("readRequestBody() reads JSON, whatever the parameters of its type, and reads nothing as {}", async () => {
  const { value, bytes } = await readRequestBody(post('{"a":"é"}', JSON_TYPE), anything);
  assertEquals([value, new TextDecoder().decode(bytes)], [{ a: "é" }, '{"a":"é"}']);
  assertEquals(await readRequestBody(post(null), anything), { value: {}, bytes: new Uint8Array() });
});

Deno.test("readRequestBody() refuses broken JSON, broken UTF-8, other types, faults and what is too large", async () => {
  assertEquals((await failure(post("{", JSON_TYPE)))[0], 400);
  assertEquals(await failure(post(new Uint8Array([0x22, 0xff, 0x22]), JSON_TYPE)), [
    400,
    "Cannot read the body: it isn't UTF-8.",
  ]);
  assertEquals(await failure(post("{}")), [
    415,
    "Cannot read the body: its content-type is text/plain;charset=UTF-8, and application/json is wanted.",
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

Deno.test("readRequestBody() refuses what is compressed", async () => {
  const request = (encoding: string) =>
    new Request("http://localhost/", {
      method: "POST",
      body: "{}",
      headers: { "content-type": JSON_TYPE, "content-encoding": encoding },
    });
  assertEquals(await failure(request("gzip")), [
    415,
    "Cannot read the body: its content-encoding is gzip, which can't be decoded here.",
  ]);
  assertEquals((await readRequestBody(request("Identity"), anything)).value, {});
});

Deno.test("readRequestBody() gives lines as text, and refuses what isn't UTF-8", async () => {
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

Deno.test("readRequestBody() refuses what is nested too deep or holds too much before anybody works through it", async () => {
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

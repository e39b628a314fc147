import { assertEquals, assertRejects } from "@std/assert";
import { HttpError } from "./http_error.ts";
import { readBody } from "./read_body.ts";
import { type Check, parseJson } from "./read_json.ts";

const headers = { "content-type": "application/json; charset=utf-8" };
const post = (body: BodyInit | null, init: RequestInit = { headers }) =>
  new Request("http://localhost/", { method: "POST", body, ...init });
const anything = { maxBytes: 10, check: (): string | undefined => undefined };

async function readJson(request: Request, { maxBytes, check }: { maxBytes: number; check: Check }) {
  const bytes = await readBody(request, { maxBytes, type: "application/json" });
  return { value: parseJson(bytes, check), bytes };
}

async function failure(request: Request, options = anything): Promise<[number, string]> {
  const error = await assertRejects(() => readJson(request, options), HttpError);
  return [error.status, error.message];
}

Deno.test("parseJson() reads the JSON of a body, and reads nothing as {}", async () => {
  const { value, bytes } = await readJson(post('{"a":"é"}'), anything);
  assertEquals([value, new TextDecoder().decode(bytes)], [{ a: "é" }, '{"a":"é"}']);
  assertEquals(await readJson(post(null), anything), { value: {}, bytes: new Uint8Array() });
});

Deno.test("parseJson() refuses broken JSON, broken UTF-8, other types, faults and what is too large", async () => {
  assertEquals((await failure(post("{")))[0], 400);
  assertEquals((await failure(post(new Uint8Array([0x22, 0xff, 0x22]))))[0], 400);
  assertEquals(await failure(post("{}", {})), [
    415,
    "Cannot read the body: its content-type is text/plain;charset=UTF-8, and application/json is wanted.",
  ]);
  assertEquals(await failure(post("[]"), { maxBytes: 10, check: () => "x must be y" }), [
    400,
    "Cannot use the body: x must be y.",
  ]);
  const tooLarge: [number, string] = [413, "Cannot read the body: it has more than 10 bytes."];
  assertEquals(await failure(post('"12345678901"')), tooLarge);
  const endless = ReadableStream.from(function* () {
    for (;;) yield new Uint8Array(8);
  }());
  assertEquals(await failure(post(endless, { headers })), tooLarge);
});

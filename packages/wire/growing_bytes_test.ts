import { assertEquals } from "@std/assert";
import { GrowingBytes } from "@tare/wire";

Deno.test("GrowingBytes gives what was added, in order, once", () => {
  const bytes = new GrowingBytes();
  for (let at = 0; at < 1_000; at++) bytes.add(new Uint8Array([at % 256]));
  bytes.add(new Uint8Array());
  bytes.add(new Uint8Array([7, 8]));
  assertEquals([bytes.length, bytes.at(0), bytes.at(-1), bytes.at(1_001), bytes.at(1_002)], [
    1_002,
    0,
    8,
    8,
    undefined,
  ]);
  const expected = Uint8Array.from({ length: 1_002 }, (_, at) => at < 1_000 ? at % 256 : at - 993);
  assertEquals([bytes.take(), bytes.length, bytes.take(), bytes.at(-1)], [
    expected,
    0,
    new Uint8Array(),
    undefined,
  ]);
});

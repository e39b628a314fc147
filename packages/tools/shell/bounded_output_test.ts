import { assertEquals } from "@std/assert";
import fc from "../../../tests/cases.ts";
import { BoundedOutput } from "./run_command.ts";

function outputOf(maxBytes: number, pieces: readonly string[]) {
  const output = new BoundedOutput(maxBytes);
  for (const piece of pieces) output.push(new TextEncoder().encode(piece));
  return output.text();
}

Deno.test("BoundedOutput retains everything up to its limit", () => {
  assertEquals(outputOf(6, []), { text: "", replaced: false, totalBytes: 0 });
  assertEquals(outputOf(6, ["ab", "cdef"]), { text: "abcdef", replaced: false, totalBytes: 6 });
});

Deno.test("BoundedOutput retains the beginning and the end of longer output", () => {
  const text = "abc\n[… 4 bytes omitted …]\nhij";
  assertEquals(outputOf(6, ["abcdefghij"]), { text, replaced: false, totalBytes: 10 });
  assertEquals(outputOf(6, [..."abcdefghij"]), { text, replaced: false, totalBytes: 10 });
});

Deno.test("BoundedOutput cuts between characters and reports invalid text", () => {
  assertEquals(outputOf(6, ["a€€", "-----", "€€b"]), {
    text: "a\n[… 17 bytes omitted …]\nb",
    replaced: false,
    totalBytes: 19,
  });
  const output = new BoundedOutput(10);
  output.push(new Uint8Array([0x61, 0xFF]));
  assertEquals(output.text(), { text: "a\uFFFD", replaced: true, totalBytes: 2 });
});

Deno.test("BoundedOutput does not depend on how the output is cut into pieces", () => {
  fc.assert(fc.property(
    fc.array(fc.string({ maxLength: 30 }), { maxLength: 20 }),
    fc.integer({ min: 1, max: 64 }),
    (pieces, maxBytes) => {
      assertEquals(outputOf(maxBytes, pieces), outputOf(maxBytes, [pieces.join("")]));
    },
  ));
});

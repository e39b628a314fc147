import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { bytesFromText, textFromBytes } from "@tare/prune";

const anyUnits = () =>
  fc.array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd7ff, max: 0xe000 })))
    .map((units) => String.fromCharCode(...units));

Deno.test("textFromBytes() gives back every code unit that bytesFromText() took", () => {
  fc.assert(fc.property(anyUnits(), (text) => assert(textFromBytes(bytesFromText(text)) === text)), {
    examples: [["\ufeffa"], ["\ud83d"], ["\ude00\ud83d"], ["\ud83d\ude00"], ["한국어 \ud7ff\ue000"], [
      "\ud83d한",
    ]],
  });
});

Deno.test("bytesFromText() gives UTF-8 where there is one", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    assertEquals(bytesFromText(text), new TextEncoder().encode(text));
  }));
});

Deno.test("textFromBytes() replaces what no text has", () => {
  assertEquals(textFromBytes(new Uint8Array([0x61, 0xff, 0x62])), "a\ufffdb");
  assertEquals(textFromBytes(new Uint8Array([0xed])), "\ufffd");
});

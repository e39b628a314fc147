import { assert, assertEquals, assertRejects } from "@std/assert";
import { archiveRef, memoryArchive } from "@tare/prune";
import { bytesFromText, isArchiveRef, textFromBytes } from "@tare/prune/internal";
import fc from "../../tests/cases.ts";
import { codePoints } from "../../tests/code_points.ts";

Deno.test("memoryArchive() stores a text under its reference", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("text \ud83d");
  assertEquals([ref, await archive.put("text \ud83d")], [await archiveRef("text \ud83d"), ref]);
  assertEquals(await archive.get(ref), "text \ud83d");
});

Deno.test("memoryArchive() rejects a text whose reference has other content", async () => {
  const ref = await archiveRef("text");
  const archive = memoryArchive(new Map([[ref, "other"]]));
  await assertRejects(() => archive.put("text"), Error, `Cannot archive a text under ${ref}`);
  assertEquals(await archive.get(ref), "other");
});

Deno.test("memoryArchive() separates texts that are archived in the same millisecond", async () => {
  const archive = memoryArchive();
  const refs = await Promise.all(["a", "b", "c"].map((content) => archive.put(content)));
  assertEquals(await Promise.all(refs.map((ref) => archive.get(ref))), ["a", "b", "c"]);
});

Deno.test("archiveRef() is the start of the SHA-256 of the UTF-8 bytes", async () => {
  assertEquals(await archiveRef(""), "e3b0c44298fc1c14");
  assertEquals(await archiveRef("hello"), "2cf24dba5fb0a30e");
  assertEquals(await archiveRef("é"), "4a99557e4033c353");
});

Deno.test("archiveRef() rejects content that is not a string", async () => {
  // A call from untyped JavaScript.
  await assertRejects(() => archiveRef(new Uint8Array() as unknown as string), TypeError, "archiveRef()");
});

Deno.test("archiveRef() distinguishes texts that TextEncoder makes equal", async () => {
  const refs = await Promise.all(["\ud800", "\udc00", "\ufffd"].map(archiveRef));
  assertEquals(new Set(refs).size, 3);
});

Deno.test("isArchiveRef() accepts only 16 lower-case hex digits", () => {
  const texts = [
    "0123456789abcdef",
    "0123456789ABCDEF",
    "0123456789abcde",
    "0123456789abcdef0",
    "../../etc/passwd",
  ];
  assertEquals(texts.map(isArchiveRef), [true, false, false, false, false]);
});

const anyUnits = () =>
  fc.array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.integer({ min: 0xd7ff, max: 0xe000 })))
    .map((units) => String.fromCharCode(...units));

Deno.test("textFromBytes() returns every code unit of bytesFromText()", () => {
  fc.assert(fc.property(anyUnits(), (text) => assert(textFromBytes(bytesFromText(text)) === text)), {
    examples: [["\ufeffa"], ["\ud83d"], ["\ude00\ud83d"], ["\ud83d\ude00"], ["한국어 \ud7ff\ue000"], [
      "\ud83d한",
    ]],
  });
});

Deno.test("bytesFromText() returns UTF-8 for valid texts", () => {
  fc.assert(fc.property(fc.string({ unit: codePoints() }), (text) => {
    assertEquals(bytesFromText(text), new TextEncoder().encode(text));
  }));
});

Deno.test("textFromBytes() replaces invalid bytes", () => {
  assertEquals(textFromBytes(new Uint8Array([0x61, 0xff, 0x62])), "a\ufffdb");
  assertEquals(textFromBytes(new Uint8Array([0xed])), "\ufffd");
});

import { assertEquals } from "@std/assert";
import { archiveRef, isArchiveRef } from "@tare/prune";

Deno.test("archiveRef() is the start of the SHA-256 of the UTF-8 bytes", async () => {
  assertEquals(await archiveRef(""), "e3b0c44298fc1c14");
  assertEquals(await archiveRef("hello"), "2cf24dba5fb0a30e");
  assertEquals(await archiveRef("é"), "4a99557e4033c353");
});

Deno.test("archiveRef() tells texts apart that TextEncoder makes equal", async () => {
  const refs = await Promise.all(["\ud800", "\udc00", "\ufffd"].map(archiveRef));
  assertEquals(new Set(refs).size, 3);
});

Deno.test("isArchiveRef() takes 16 lower-case hex digits and nothing else", () => {
  const texts = [
    "0123456789abcdef",
    "0123456789ABCDEF",
    "0123456789abcde",
    "0123456789abcdef0",
    "../../etc/passwd",
  ];
  assertEquals(texts.map(isArchiveRef), [true, false, false, false, false]);
});

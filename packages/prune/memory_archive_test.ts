import { assertEquals, assertRejects } from "@std/assert";
import { archiveRef, memoryArchive } from "@tare/prune";

Deno.test("memoryArchive() keeps a text under its reference until it is deleted", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("text \ud83d");
  assertEquals([ref, await archive.put("text \ud83d")], [await archiveRef("text \ud83d"), ref]);
  assertEquals(await archive.get(ref), "text \ud83d");
  await archive.delete(ref);
  assertEquals(await archive.get(ref), undefined);
});

Deno.test("memoryArchive() refuses a text whose reference other content has", async () => {
  const ref = await archiveRef("text");
  const archive = memoryArchive(new Map([[ref, "other"]]));
  await assertRejects(() => archive.put("text"), Error, `Cannot archive a text under ${ref}`);
  assertEquals(await archive.get(ref), "other");
});

Deno.test("memoryArchive() keeps texts apart that are archived in the same millisecond", async () => {
  const archive = memoryArchive();
  const refs = await Promise.all(["a", "b", "c"].map((content) => archive.put(content)));
  assertEquals(await Promise.all(refs.map((ref) => archive.get(ref))), ["a", "b", "c"]);
});

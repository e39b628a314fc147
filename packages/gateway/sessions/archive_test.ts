import { assertEquals, assertRejects } from "@std/assert";
import { SessionArchive } from "./session.ts";

Deno.test("SessionArchive.fork() shares earlier texts and separates later ones", async () => {
  const archive = new SessionArchive();
  const before = await archive.put("before");
  const fork = archive.fork(0);
  const mine = await archive.put("mine");
  const its = await fork.put("its");
  const again = fork.fork(0);
  const texts = (one: SessionArchive) => Promise.all([before, mine, its].map((ref) => one.get(ref)));
  assertEquals(await texts(archive), ["before", "mine", undefined]);
  assertEquals(await texts(fork), ["before", undefined, "its"]);
  assertEquals(await texts(again), ["before", undefined, "its"]);
});

Deno.test("SessionArchive counts the bytes of each text once", async () => {
  const archive = new SessionArchive();
  const ref = await archive.put("x".repeat(1_000));
  const { bytes } = archive;
  assertEquals(bytes >= 1_000, true);
  const fork = archive.fork(0);
  await fork.put("x".repeat(1_000));
  assertEquals([archive.bytes, fork.bytes], [bytes, bytes]);
  await fork.put("y");
  assertEquals([archive.bytes, fork.bytes > bytes], [bytes, true]);
  assertEquals(await archive.get(ref), "x".repeat(1_000));
});

Deno.test("SessionArchive rejects two texts with one reference", async () => {
  const archive = new SessionArchive({ texts: new Map([["2cf24dba5fb0a30e", "not hello"]]) });
  await assertRejects(() => archive.put("hello"), Error, "the reference is taken");
});

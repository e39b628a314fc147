import { assertEquals } from "@std/assert";
import { memoryArchive } from "@tare/prune";
import { sessionArchive } from "./session_archive.ts";

Deno.test("sessionArchive() knows what was put and not deleted", async () => {
  const archive = sessionArchive(memoryArchive());
  const a = await archive.put("a");
  const b = await archive.put("b");
  assertEquals([...archive.refs], [a, b]);
  await archive.delete(a);
  assertEquals([[...archive.refs], await archive.get(a), await archive.get(b)], [[b], undefined, "b"]);
});

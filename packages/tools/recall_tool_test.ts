import { assertEquals, assertStringIncludes } from "@std/assert";
import { memoryArchive } from "@tare/prune";
import { recallTool } from "@tare/tools";
import { callError, callOk } from "./fixture_test.ts";

Deno.test("recall reads an original back: whole, by lines, by pattern", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("apple\nbanana\ncherry");
  const recall = recallTool(archive);
  assertEquals(await callOk(recall, { ref }), "apple\nbanana\ncherry");
  assertEquals(await callOk(recall, { ref, lines: "2-2" }), "banana");
  assertEquals(await callOk(recall, { ref, pattern: "^c" }), "3:cherry");
});

Deno.test("recall bounds its answer as it is told", async () => {
  const archive = memoryArchive();
  const ref = await archive.put("word ".repeat(5000));
  assertStringIncludes(await callOk(recallTool(archive, { limitTokens: 200 }), { ref }), "go on with offset");
});

Deno.test("recall says what to do about a reference that is not there", async () => {
  assertStringIncludes(
    await callError(recallTool(memoryArchive()), { ref: "0123456789abcdef" }),
    "Cannot recall",
  );
});

Deno.test("recallTool() is rederivable", () => {
  assertEquals(recallTool(memoryArchive()).stance, "rederivable");
});

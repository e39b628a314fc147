import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import fc, { cases } from "../../../tests/cases.ts";
import { type Archive, archiveRef } from "@tare/prune";
import { openFileArchive } from "@tare/session";
import { withFolder } from "./folder_fixture_test.ts";
import { codePoints } from "../../../tests/code_points.ts";

const withArchive = (test: (archive: Archive, folder: string) => Promise<void>) =>
  withFolder(async (folder) => await test(await openFileArchive(folder), folder));

const names = (folder: string) => Array.from(Deno.readDirSync(folder), (entry) => entry.name).sort();

Deno.test("openFileArchive() returns every code unit, also after reopening", () =>
  withArchive(async (archive, folder) => {
    const contents = fc.oneof(fc.string({ unit: codePoints() }), fc.string({ unit: "grapheme" }));
    const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) =>
      String.fromCharCode(...units)
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(contents, anyUnits), async (content) => {
        const ref = await archive.put(content);
        assertEquals(ref, await archiveRef(content));
        assertEquals(await (await openFileArchive(folder)).get(ref), content);
      }),
      { numRuns: cases(50), examples: [[""], ["\ufeffbyte order mark"], ["\ud83d"], ["\ude00\ud83d"]] },
    );
  }));

Deno.test("openFileArchive() stores one file for repeated and concurrent puts of a text", () =>
  withArchive(async (archive, folder) => {
    const refs = await Promise.all(Array.from({ length: 20 }, () => archive.put("the same")));
    const ref = await archiveRef("the same");
    assertEquals(new Set([...refs, await archive.put("the same")]), new Set([ref]));
    assertEquals(names(folder), [`${ref}.txt`]);
  }));

Deno.test("openFileArchive() separates texts archived in the same millisecond", () =>
  withArchive(async (archive) => {
    const contents = Array.from({ length: 20 }, (_, at) => `result ${at}`);
    const refs = await Promise.all(contents.map((content) => archive.put(content)));
    assertEquals(await Promise.all(refs.map((ref) => archive.get(ref))), contents);
  }));

Deno.test("openFileArchive() ignores references of another form", () =>
  withArchive(async (archive, folder) => {
    await Deno.writeTextFile(join(folder, "secret.txt"), "secret");
    const inner = await openFileArchive(join(folder, "inner"));
    for (
      const ref of [
        "../secret",
        "secret",
        "",
        ".",
        "0123456789ABCDEF",
        "0123456789abcdef.txt",
        "a\0b",
        "x".repeat(16),
      ]
    ) {
      assertEquals(await inner.get(ref), undefined);
      assertEquals(await archive.get(ref), undefined);
    }
    assertEquals(await Deno.readTextFile(join(folder, "secret.txt")), "secret");
  }));

Deno.test("openFileArchive() detects a damaged file, and putting the text again restores it", () =>
  withArchive(async (archive, folder) => {
    const ref = await archive.put("the whole text, flushed and renamed");
    const path = join(folder, `${ref}.txt`);
    for (
      const damage of ["the whole text", "", "another text altogether", new Uint8Array([0xff, 0xed, 0xa0])]
    ) {
      await Deno.writeFile(path, typeof damage === "string" ? new TextEncoder().encode(damage) : damage);
      await assertRejects(
        () => archive.get(ref),
        Error,
        `Cannot read the archived text ${ref}: ${path} is damaged`,
      );
      assertEquals(await archive.put("the whole text, flushed and renamed"), ref);
      assertEquals(await archive.get(ref), "the whole text, flushed and renamed");
    }
  }));

Deno.test("openFileArchive() ignores remains of an interrupted write", () =>
  withArchive(async (archive, folder) => {
    await Deno.writeTextFile(join(folder, "deadbeef.tmp"), "half a te");
    const ref = await archive.put("half a text");
    assertEquals(await archive.get(ref), "half a text");
    assertEquals(names(folder), [`${ref}.txt`, "deadbeef.tmp"].sort());
  }));

Deno.test("openFileArchive() rejects if a text can't be stored, and leaves no file", () =>
  withArchive(async (archive, folder) => {
    const ref = await archiveRef("text");
    await Deno.mkdir(join(folder, `${ref}.txt`, "in the way"), { recursive: true });
    await assertRejects(() => archive.put("text"));
    await Deno.remove(join(folder, `${ref}.txt`), { recursive: true });
    assertEquals(names(folder), []);
  }));

Deno.test("openFileArchive() creates an owner-only folder, or throws", () =>
  withFolder(async (folder) => {
    await openFileArchive(join(folder, "a", "b"));
    if (Deno.build.os !== "windows") {
      assertEquals((await Deno.stat(join(folder, "a", "b"))).mode! & 0o777, 0o700);
    }
    await Deno.writeTextFile(join(folder, "file"), "");
    await assertRejects(() => openFileArchive(join(folder, "file")));
  }));

import { assertEquals, assertRejects } from "@std/assert";
import { needs, SHARED_MEMORY } from "../../../tests/needs.ts";
import { makeWorkspace } from "../fixture_test.ts";
import { inTurn, writeAtomically } from "./write_file_tools.ts";

const bytes = new TextEncoder().encode("new");

Deno.test("writeAtomically() writes the file, creates its folders and leaves nothing else", async () => {
  await using ws = await makeWorkspace();
  await writeAtomically(ws.at("a/b/f"), bytes);
  assertEquals(await Deno.readTextFile(ws.at("a/b/f")), "new");
  assertEquals([...Deno.readDirSync(ws.at("a/b"))].map(({ name }) => name), ["f"]);
});

Deno.test("writeAtomically() sets the given mode, else the default one", async () => {
  await using ws = await makeWorkspace({ f: "old", usual: "" });
  await writeAtomically(ws.at("f"), bytes, { mode: 0o100750 });
  assertEquals((await Deno.stat(ws.at("f"))).mode! & 0o777, 0o750);
  await writeAtomically(ws.at("g"), bytes);
  assertEquals((await Deno.stat(ws.at("g"))).mode, (await Deno.stat(ws.at("usual"))).mode);
});

Deno.test("writeAtomically() replaces no read-only file unless it is forced", async () => {
  await using ws = await makeWorkspace();
  // Same for a missing file.
  await assertRejects(() => writeAtomically(ws.at("f"), bytes, { mode: 0o440 }), Error, "ENOENT");
  await writeAtomically(ws.at("f"), bytes, { mode: 0o440, isForced: true });
  assertEquals((await Deno.stat(ws.at("f"))).mode! & 0o777, 0o440);
});

Deno.test("writeAtomically() replaces the file as a whole: open handles still read the old bytes", async () => {
  await using ws = await makeWorkspace({ f: "old bytes" });
  using reader = await Deno.open(ws.at("f"));
  await writeAtomically(ws.at("f"), bytes);
  assertEquals(await new Response(reader.readable).text(), "old bytes");
  assertEquals(await Deno.readTextFile(ws.at("f")), "new");
});

for (const where of ["next to the workspace", "on another file system"]) {
  const name =
    `writeAtomically() replaces a file from a folder of the server's ${where}, and leaves nothing else`;
  Deno.test(where === "on another file system" ? needs(SHARED_MEMORY, name) : { name }, async () => {
    await using ws = await makeWorkspace({ "a/f": "old" });
    const own = await Deno.makeTempDir(
      where === "on another file system" ? { dir: "/dev/shm" } : { dir: ws.outside },
    );
    await writeAtomically(ws.at("a/f"), bytes, { mode: 0o100750, own });
    await writeAtomically(ws.at("a/b/g"), bytes, { own });
    await assertRejects(() => writeAtomically(ws.at("a/b"), bytes, { own }));
    const refuse = () => {
      throw new Error("not confirmed");
    };
    await assertRejects(
      () => writeAtomically(ws.at("a/f"), bytes, { own, confirm: refuse }),
      Error,
      "not confirmed",
    );
    assertEquals([...Deno.readDirSync(ws.at("a"))].map(({ name }) => name).sort(), ["b", "f"]);
    assertEquals([...Deno.readDirSync(ws.at("a/b"))].map(({ name }) => name), ["g"]);
    assertEquals([...Deno.readDirSync(`${own}/staged`)], []);
    assertEquals([await Deno.readTextFile(ws.at("a/f")), await Deno.readTextFile(ws.at("a/b/g"))], [
      "new",
      "new",
    ]);
    assertEquals((await Deno.stat(ws.at("a/f"))).mode! & 0o777, 0o750);
    await Deno.remove(own, { recursive: true });
  });
}

Deno.test("writeAtomically() leaves no files when it fails", async () => {
  await using ws = await makeWorkspace({ "folder/": "", file: "" });
  await assertRejects(() => writeAtomically(ws.at("folder"), bytes), Error, "EISDIR");
  await assertRejects(() => writeAtomically(ws.at("file/f"), bytes));
  assertEquals([...Deno.readDirSync(ws.root)].map(({ name }) => name).sort(), ["file", "folder"]);
});

Deno.test("inTurn() runs actions of one key in order, of others at once", async () => {
  const log: string[] = [];
  const gate = Promise.withResolvers<void>();
  const first = inTurn("a", async () => {
    log.push("first starts");
    await gate.promise;
    log.push("first ends");
    return 1;
  });
  const second = inTurn("a", () => Promise.resolve(log.push("second")));
  await inTurn("b", () => Promise.resolve(log.push("other key")));
  gate.resolve();
  assertEquals([await first, await second], [1, 4]);
  assertEquals(log, ["first starts", "other key", "first ends", "second"]);
});

Deno.test("inTurn() continues after an action that failed", async () => {
  const failed = inTurn("a", () => Promise.reject(new Error("broken")));
  const next = inTurn("a", () => Promise.resolve("done"));
  await assertRejects(() => failed, Error, "broken");
  assertEquals(await next, "done");
});

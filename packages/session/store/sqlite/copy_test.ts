import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import { copyContents } from "@tare/session";
import { openFileContents, openStore } from "@tare/session/sqlite";
import { fillStore } from "../contents_fixture_test.ts";
import { withFolder } from "../folder_fixture_test.ts";
import { sessionRecord } from "../store_suite_fixture_test.ts";

const EVENT = { type: "text_delta", text: "x".repeat(10_000) };

async function withStore(test: (store: Store, folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const store = await openStore(`${folder}/tare.db`);
    try {
      await fillStore(store);
      await test(store, folder);
    } finally {
      await store.close();
    }
  });
}

async function writeOn(store: Store, name: string): Promise<void> {
  await store.commit([sessionRecord(name)]);
  for (let after = 0; after < 600; after += 100) {
    const events = Array.from({ length: 100 }, () => EVENT);
    await store.commit([{ type: "events", sessionId: name, after, events }]);
  }
}

Deno.test("copy() returns the store as of its call despite concurrent writes", () =>
  withStore(async (store, folder) => {
    await writeOn(store, "much");
    const before = `${folder}/before.db`;
    const { bytes, stream } = await store.copy!();
    const reader = stream.getReader();
    const pieces: Uint8Array<ArrayBuffer>[] = [];
    for (let piece = await reader.read(); !piece.done; piece = await reader.read()) {
      pieces.push(piece.value);
      if (pieces.length % 32 !== 1) continue;
      await writeOn(store, `during ${pieces.length}`);
      await store.deleteSession("fork");
    }
    assertEquals([pieces.length > 1, pieces.reduce((sum, { length }) => sum + length, 0)], [true, bytes]);
    await Deno.writeFile(before, await new Blob(pieces).bytes());
    const copy = await openStore(before);
    assertEquals((await copy.listSessions()).map(({ id }) => id), ["much", "a", "Ä", "fork", "z"]);
    assertEquals((await copy.readEvents("z")).length, 700);
    await copy.close();

    const after = `${folder}/after.db`;
    await Deno.writeFile(after, (await store.copy!()).stream);
    const second = await openStore(after);
    assertEquals(await second.listSessions(), await store.listSessions());
    await second.close();
  }));

Deno.test("copy() runs one at a time, and slow readers block nothing", () =>
  withStore(async (store, folder) => {
    await writeOn(store, "much");
    const [made, refused] = await Promise.allSettled([store.copy!(), store.copy!()]);
    assert(made.status === "fulfilled" && refused.status === "rejected");
    assert(refused.reason instanceof StoreError);
    assertStringIncludes(refused.reason.message, "another copy is in progress");
    assertEquals(refused.reason.code, "locked");
    const reader = made.value.stream.getReader();
    await reader.read();
    // Checkpoints continue, as nothing else keeps the log growing.
    const log = () => Deno.statSync(`${folder}/tare.db-wal`).size;
    for (let round = 0; round < 4; round++) await writeOn(store, `more ${round}`);
    assert(log() < 16 * 2 ** 20, `the log has ${log()} bytes`);
    assertEquals(
      [...Deno.readDirSync(folder)].map(({ name }) => name).filter((name) => name.includes("copy")),
      [],
    );
    await Deno.writeFile(`${folder}/copy.db`, (await store.copy!()).stream);
    await reader.cancel();
    const [copied, sum] = [openFileContents(`${folder}/copy.db`), openFileContents(`${folder}/sum.db`)];
    assertEquals((await copyContents(copied, sum)).counts.events, 3701);
    await copied.close();
    await sum.close();
  }));

Deno.test("copy() survives closing the store while it is read, but not while it is made", () =>
  withStore(async (store, folder) => {
    await writeOn(store, "much");
    const { stream } = await store.copy!();
    const broken = store.copy!();
    await store.close();
    await assertRejects(() => broken, StoreError, "it was closed meanwhile");
    await Deno.writeFile(`${folder}/copy.db`, stream);
    for (const name of ["copy", "tare"]) {
      const again = await openStore(`${folder}/${name}.db`);
      assertEquals(await again.countSessions(), 5);
      await again.close();
    }
  }));

Deno.test("copy() preserves the file's lock, also after its end", () =>
  withStore(async (store, folder) => {
    await (await store.copy!()).stream.pipeTo(new WritableStream());
    // Locks are per process: only another one can check.
    const open =
      `new (await import("node:sqlite")).DatabaseSync("${folder}/tare.db").exec("SELECT * FROM events")`;
    const { stderr } = await new Deno.Command(Deno.execPath(), { args: ["eval", open] }).output();
    assertEquals(/database is locked/.exec(new TextDecoder().decode(stderr))?.[0], "database is locked");
  }));

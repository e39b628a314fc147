import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { StoreError } from "@tare/conversation";
import { openStore } from "@tare/conversation/sqlite";
import { moveOldStore } from "./move_old_store.ts";

/** Runs a test with an old data folder that holds one session, and the place of the new one. */
async function withOldStore(test: (from: string, to: string) => Promise<void>): Promise<void> {
  const top = await Deno.makeTempDir();
  const from = join(top, "old");
  const store = await openStore(join(from, "tare.db"));
  await store.commit([{ type: "session", id: "a", createdAtMs: 1, settings: {} }]);
  await store.close();
  try {
    await test(from, join(top, "share", "new"));
  } finally {
    await Deno.remove(top, { recursive: true });
  }
}

async function sessionsIn(folder: string): Promise<string[]> {
  const store = await openStore(join(folder, "tare.db"));
  const sessions = await store.listSessions();
  await store.close();
  return sessions.map(({ id }) => id);
}

const namesIn = (folder: string) => Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();

Deno.test("moveOldStore() moves what is there once, and leaves other things where they are", () =>
  withOldStore(async (from, to) => {
    await Deno.mkdir(join(from, "measured"));
    assertEquals(await moveOldStore(from, to), `Sessions moved from ${from} to ${to}.`);
    assertEquals([namesIn(from), await sessionsIn(to)], [["measured"], ["a"]]);
    assertEquals(await moveOldStore(from, to), undefined);
  }));

Deno.test("moveOldStore() overwrites nothing: with sessions in both places it only tells", () =>
  withOldStore(async (from, to) => {
    await (await openStore(join(to, "tare.db"))).close();
    assertEquals(
      await moveOldStore(from, to),
      `Sessions of an earlier version are left in ${from}: TARE_DATA with that folder shows them.`,
    );
    assertEquals([await sessionsIn(from), await sessionsIn(to)], [["a"], []]);
  }));

Deno.test("moveOldStore() refuses sessions that another server has open", () =>
  withOldStore(async (from, to) => {
    const open = await openStore(join(from, "tare.db"));
    const error = await assertRejects(() => moveOldStore(from, to), StoreError);
    assertEquals(error.code, "locked");
    await open.close();
    assertEquals(await sessionsIn(from), ["a"]);
  }));

Deno.test("moveOldStore() copies to another disk, again if it was cut off, and keeps the old file", {
  ignore: !isAnotherDisk("/dev/shm"),
}, () =>
  withOldStore(async (from) => {
    const to = await Deno.makeTempDir({ dir: "/dev/shm" });
    try {
      await Deno.writeTextFile(join(to, "tare.db.part"), "the beginning of a copy");
      assertEquals(
        await moveOldStore(from, to),
        `Sessions copied from ${from} to ${to}, which is another disk; ${from}/tare.db.moved is no longer needed.`,
      );
      assertEquals([namesIn(to), await sessionsIn(to)], [["tare.db"], ["a"]]);
      assertEquals(await moveOldStore(from, to), undefined);
    } finally {
      await Deno.remove(to, { recursive: true });
    }
  }));

/** Whether this folder is on another disk than temporary files. */
function isAnotherDisk(folder: string): boolean {
  const file = Deno.makeTempFileSync();
  try {
    return Deno.statSync(folder).dev !== Deno.statSync(file).dev;
  } catch {
    return false;
  } finally {
    Deno.removeSync(file);
  }
}

import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { type Store, StoreError } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import { sessionRecord } from "../store_suite_fixture_test.ts";
import { withFolder } from "../folder_fixture_test.ts";
import { withStore } from "./fixture_test.ts";
import { needs, SMALL_DISK } from "../../../../tests/needs.ts";

const event = (number: number) => ({ type: "text_delta", number, text: "x".repeat(1000) });

function append(store: Store, number: number): Promise<void> {
  return store.commit([
    { type: "events", sessionId: "a", after: number - 1, events: [event(number)] },
    { type: "state", sessionId: "a", name: "number", value: number },
  ]);
}

async function fill(store: Store): Promise<number> {
  for (let number = await store.lastEvent("a") + 1;; number++) {
    try {
      await append(store, number);
    } catch (error) {
      assert(error instanceof StoreError);
      assertEquals(error.code, "full");
      return number - 1;
    }
  }
}

async function assertWhole(store: Store, last: number): Promise<void> {
  const expected = Array.from({ length: last }, (_, index) => ({
    number: index + 1,
    event: event(index + 1),
  }));
  assertEquals(await store.readEvents("a"), expected);
  assertEquals(await store.readState("a", "number"), last);
}

const bulky = () => crypto.getRandomValues(new Uint8Array(60_000)).toHex();

Deno.test("commit() throws at the size limit, retains acknowledged writes, and continues with free space", () =>
  withStore(async (store, path) => {
    const ref = await store.archive("b").put(bulky());
    const last = await fill(store);
    assert(last > 50);
    await assertWhole(store, last);
    const error = await assertRejects(() => append(store, last + 1), StoreError);
    assertEquals(
      error.message,
      `Cannot write to the store ${path}: database or disk is full. Nothing was written. Free some space.`,
    );
    await assertRejects(() => store.archive("a").put(bulky()), StoreError, "full");
    await assertRejects(
      () => store.commit([{ type: "state", sessionId: "a", name: "bulky", value: bulky() }]),
      StoreError,
      "full",
    );
    assert(await store.archive("b").get(ref));
    assertEquals(await store.readState("a", "bulky"), undefined);
    await store.deleteSession("b");
    await append(store, last + 1);
    await store.close();
    const later = await openStore(path);
    await assertWhole(later, last + 1);
    await later.close();
  }, { maxBytes: 500_000 }));

Deno.test(needs(SMALL_DISK, "commit() withstands a full disk"), () =>
  withFolder(async (disk) => {
    await run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk);
    try {
      await onFullDisk(disk);
    } finally {
      await run("umount", disk);
    }
  }));

async function onFullDisk(disk: string): Promise<void> {
  const path = join(disk, "tare.db");
  const ballast = join(disk, "ballast");
  Deno.writeFileSync(ballast, new Uint8Array(1_000_000));
  const store = await openStore(path);
  await store.commit([sessionRecord("a")]);
  const last = await fill(store);
  assert(last > 50);
  await assertWhole(store, last);
  assertEquals(await fill(store), last);
  await store.close();

  const again = await openStore(path);
  await assertWhole(again, last);
  Deno.removeSync(ballast);
  const more = await fill(again);
  assert(more > last);
  await assertWhole(again, more);
  await again.close();
}

async function run(command: string, ...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args }).output();
  if (!success) throw new Error(`Cannot run ${command}: ${new TextDecoder().decode(stderr)}`);
}

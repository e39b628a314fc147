import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { openStore, type SessionStore, StoreError } from "@tare/store";
import { withFolder, withStore } from "./fixture_test.ts";

const event = (number: number) => ({ type: "text_delta", number, text: "x".repeat(1000) });

/** Appends events to session `a` until the store is full, and gives how many were acknowledged. */
function fill(store: SessionStore): number {
  for (let number = store.lastEvent("a") + 1;; number++) {
    try {
      assertEquals(store.appendEvents("a", [event(number)], { state: { number } }), number);
    } catch (error) {
      assert(error instanceof StoreError);
      assertEquals(error.code, "full");
      return number - 1;
    }
  }
}

function assertWhole(store: SessionStore, last: number) {
  const expected = Array.from({ length: last }, (_, index) => ({
    number: index + 1,
    event: event(index + 1),
  }));
  assertEquals(store.readEvents("a"), expected);
  assertEquals(store.readState("a", "number"), last);
}

/** Random digits hardly compress. */
const bulky = () => crypto.getRandomValues(new Uint8Array(60_000)).toHex();

Deno.test("appendEvents() throws when the store has its size, keeps what was acknowledged, and goes on once there is room", () =>
  withStore(async (store, path) => {
    const ref = await store.archive("b").put(bulky());
    const last = fill(store);
    assert(last > 50);
    assertWhole(store, last);
    const error = assertThrows(() => store.appendEvents("a", [event(last + 1)]), StoreError);
    assertEquals(
      error.message,
      `Cannot write to the store ${path}: database or disk is full. Nothing of this write was kept; make room for it.`,
    );
    await assertRejects(() => store.archive("a").put(bulky()), StoreError, "full");
    assertThrows(() => store.saveState("a", { bulky: bulky() }), StoreError, "full");
    assert(await store.archive("b").get(ref));
    assertEquals(store.readState("a", "bulky"), undefined);
    store.deleteSession("b");
    assertEquals(store.appendEvents("a", [event(last + 1)], { state: { number: last + 1 } }), last + 1);
    store.close();
    const later = openStore(path);
    assertWhole(later, last + 1);
    later.close();
  }, { maxBytes: 500_000 }));

Deno.test("appendEvents() survives a disk that is full", (t) =>
  withFolder(async (folder) => {
    const disk = join(folder, "disk");
    Deno.mkdirSync(disk);
    const mounted = await run("mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk);
    await t.step({
      name: "on a small disk of its own (skipped without the right to mount one)",
      ignore: !mounted,
      async fn() {
        try {
          onFullDisk(disk);
        } finally {
          await run("umount", disk);
        }
      },
    });
  }));

function onFullDisk(disk: string): void {
  const path = join(disk, "tare.db");
  const ballast = join(disk, "ballast");
  Deno.writeFileSync(ballast, new Uint8Array(1_000_000));
  const store = openStore(path);
  store.createSession({ id: "a", createdAtMs: 0, settings: {} });
  const last = fill(store);
  assert(last > 50);
  assertWhole(store, last);
  assertEquals(fill(store), last);
  store.close();

  const again = openStore(path);
  assertWhole(again, last);
  Deno.removeSync(ballast);
  const more = fill(again);
  assert(more > last);
  assertWhole(again, more);
  again.close();
}

async function run(command: string, ...args: string[]): Promise<boolean> {
  try {
    const { success } = await new Deno.Command(command, { args, stderr: "null" }).output();
    return success;
  } catch {
    return false;
  }
}

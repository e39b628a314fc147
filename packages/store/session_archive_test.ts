import { assertEquals, assertLess, assertRejects } from "@std/assert";
import fc from "fast-check";
import { DatabaseSync } from "node:sqlite";
import { archiveRef } from "@tare/prune";
import { openStore, type SessionStore, StoreError } from "@tare/store";
import { withStore } from "./fixture_test.ts";

/** References of the texts in a store's file, which is closed. */
function refs(path: string): unknown[] {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    return database.prepare("SELECT ref FROM texts ORDER BY ref").all().map(({ ref }) => ref);
  } finally {
    database.close();
  }
}

const putAll = (store: SessionStore, id: string, texts: readonly string[]) =>
  Promise.all(texts.map((text) => store.archive(id).put(text)));

Deno.test("archive() gives back every code unit, under the text's reference", () =>
  withStore(async (store) => {
    const archive = store.archive("a");
    const anyUnits = fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) =>
      String.fromCharCode(...units)
    );
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string({ unit: "binary" }), anyUnits), async (content) => {
        const ref = await archive.put(content);
        assertEquals(ref, await archiveRef(content));
        assertEquals(await archive.get(ref), content);
      }),
      { examples: [[""], ["\ufeffbyte order mark"], ["\ud83d"], ["\ude00\ud83d"], ["a\0b"]] },
    );
  }));

Deno.test("archive() gives a session only what that session put", () =>
  withStore(async (store) => {
    const [ref] = await putAll(store, "a", ["secret"]);
    assertEquals(await store.archive("b").get(ref!), undefined);
    assertEquals(await store.archive("none").get(ref!), undefined);
    assertEquals(await store.archive("a").get("nothing"), undefined);
    await putAll(store, "b", ["secret"]);
    await store.archive("a").delete(ref!);
    assertEquals(await store.archive("a").get(ref!), undefined);
    assertEquals(await store.archive("b").get(ref!), "secret");
  }));

Deno.test("archive() stores a text once, and drops it with the last session that refers to it", () =>
  withStore(async (store, path) => {
    const shared = await archiveRef("shared");
    await putAll(store, "a", ["shared", "of a alone", "shared"]);
    await putAll(store, "b", ["shared"]);
    store.deleteSession("a");
    store.close();
    assertEquals(refs(path), [shared]);
    const later = openStore(path);
    assertEquals(await later.archive("b").get(shared), "shared");
    await later.archive("b").delete(shared);
    await later.archive("b").delete(shared);
    later.close();
    assertEquals(refs(path), []);
  }));

Deno.test("archive() takes nothing for a session that isn't there", () =>
  withStore(async (store, path) => {
    const archive = store.archive("a");
    store.deleteSession("a");
    await assertRejects(() => archive.put("text"), Error, 'Cannot find session "a"');
    store.close();
    assertEquals(refs(path), []);
  }));

Deno.test("archive() compresses", () =>
  withStore(async (store, path) => {
    await putAll(store, "a", ["some words\n".repeat(100_000)]);
    store.close();
    assertLess(Deno.statSync(path).size, 200_000);
  }));

Deno.test("archive() detects a damaged text, and putting the text again mends it", () =>
  withStore(async (store, path) => {
    const text = "the whole text";
    const [ref, other] = await putAll(store, "a", [text, "another text altogether"]);
    store.close();
    for (
      const damage of [
        "zeroblob(9)",
        "substr(zstd, 1, 12)",
        "x''",
        `(SELECT zstd FROM texts WHERE ref = '${other}')`,
      ]
    ) {
      const database = new DatabaseSync(path);
      database.exec(`UPDATE texts SET zstd = ${damage} WHERE ref = '${ref}'`);
      database.close();
      const later = openStore(path);
      const archive = later.archive("a");
      const error = await assertRejects(() => archive.get(ref!), StoreError);
      assertEquals([error.code, error.message], [
        "corrupt",
        `Cannot read the store ${path}: the archived text ${ref} was damaged, its content has another hash. ` +
        "Restore it from a backup, or move it away to begin anew.",
      ]);
      assertEquals(await archive.put(text), ref);
      assertEquals(await archive.get(ref!), text);
      later.close();
    }
  }));

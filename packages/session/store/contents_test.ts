import { assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { type Store, StoreError } from "@tare/session";
import { copyContents, type StoreContents } from "@tare/session";
import { openFileContents, openStore } from "@tare/session/sqlite";
import { askStore, fillStore } from "./contents_fixture_test.ts";
import { withFolder } from "./folder_fixture_test.ts";
import { sessionRecord } from "./store_suite_fixture_test.ts";

async function withStore<T>(path: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openStore(path);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

async function copy(from: string, to: string) {
  const [source, target] = [openFileContents(from), openFileContents(to)];
  try {
    return await copyContents(source, target);
  } finally {
    await source.close();
    await target.close();
  }
}

const namesIn = (folder: string) => Array.from(Deno.readDirSync(folder), ({ name }) => name).sort();

Deno.test("copyContents() copies everything, and only compares the second time", () =>
  withFolder(async (folder) => {
    const [from, to] = [join(folder, "from", "tare.db"), join(folder, "to", "tare.db")];
    await withStore(from, fillStore);
    const { counts, hash } = await copy(from, to);
    assertEquals(counts, { sessions: 4, events: 701, texts: 3, documents: 3, deliveries: 2, keys: 3 });
    assertEquals(namesIn(join(folder, "to")), ["tare.db", "tare.db.lock"]);
    assertEquals(await copy(from, to), { counts, hash });
    const read = await withStore(from, askStore);
    assertEquals(await withStore(to, askStore), read);
    await withStore(to, async (store) => {
      await store.commit([{ type: "events", sessionId: "z", after: 700, events: [{ type: "turn_end" }] }]);
      await store.deleteSession("fork");
      assertEquals(await store.countSessions(), 3);
    });
  }));

Deno.test("copyContents() ignores partial contents of an interrupted copy", () =>
  withFolder(async (folder) => {
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    await withStore(from, (store) => fillStore(store, 1));
    await withStore(`${to}.part`, (store) => store.commit([sessionRecord("half")]));
    await Deno.writeTextFile(`${to}.part-wal`, "half");
    await withStore(to, () => Promise.resolve());
    assertEquals((await copy(from, to)).counts.sessions, 4);
    assertEquals(namesIn(folder), ["from.db", "from.db.lock", "to.db", "to.db.lock"]);
  }));

Deno.test("copyContents() refuses a store with other contents or open in another process", () =>
  withFolder(async (folder) => {
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    await withStore(from, (store) => fillStore(store, 1));
    await withStore(to, (store) => store.commit([sessionRecord("other")]));
    const error = await assertRejects(() => copy(from, to), StoreError);
    assertEquals([error.code, error.message], [
      "conflict",
      `Cannot copy ${from} to ${to}: it isn't empty and has other contents, 1 sessions, 0 events, 0 texts, ` +
      "0 documents, 0 deliveries, 0 keys. Copy into an empty store.",
    ]);
    assertEquals(await withStore(to, (store) => store.countSessions()), 1);
    await withStore(
      from,
      () => assertRejects(() => copy(from, to), StoreError, "another process has it open"),
    );
  }));

Deno.test("copyContents() copies nothing from a file with a damaged record", () =>
  withFolder(async (folder) => {
    const [from, to] = [join(folder, "from.db"), join(folder, "to.db")];
    await withStore(from, (store) => fillStore(store, 1));
    const bytes = await Deno.readFile(from);
    const at = new TextDecoder("latin1").decode(bytes).indexOf('"turns":1');
    bytes[at + 8] = "2".charCodeAt(0);
    await Deno.writeFile(from, bytes);
    await assertRejects(() => copy(from, to), StoreError, "its checksum doesn't match");
    await assertRejects(() => Deno.stat(to), Deno.errors.NotFound);
  }));

Deno.test("copyContents() fails if the other store returns other contents than were written", () =>
  withFolder(async (folder) => {
    const from = join(folder, "from.db");
    await withStore(from, (store) => fillStore(store, 1));
    const source = openFileContents(from);
    const target = openFileContents(join(folder, "to.db"));
    const forgetful: StoreContents = {
      ...target,
      write: (items) =>
        target.write(async function* () {
          for await (const item of items) if (item.type !== "events") yield item;
        }()),
    };
    await assertRejects(
      () => copyContents(source, forgetful),
      StoreError,
      "verification found 4 sessions, 0 events, 3 texts, 3 documents, 2 deliveries, 3 keys of the 4 sessions, 2 events,",
    );
    await source.close();
    await target.close();
    assertEquals(namesIn(folder), ["from.db", "from.db.lock"]);
  }));

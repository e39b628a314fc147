import { assert, assertEquals, assertRejects } from "@std/assert";
import { type Store, StoreError } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import { CASE_FACTOR } from "../../../../tests/cases.ts";
import { withStore } from "./fixture_test.ts";
import { needs, NOT_WINDOWS } from "../../../../tests/needs.ts";

const events = Array.from({ length: 300 }, (_, index) => ({
  type: index % 10 === 0 ? "tool_result" : "text_delta",
  text: `event ${index} `.repeat(index % 10 === 0 ? 300 : 3),
}));
const texts = Array.from({ length: 10 }, (_, index) => `result ${index} `.repeat(3 ** index % 5000));

function withBytes(
  test: (options: { path: string; bytes: Uint8Array<ArrayBuffer>; refs: string[] }) => Promise<void> | void,
): Promise<void> {
  return withStore(async (store, path) => {
    await store.commit([
      { type: "events", sessionId: "a", after: 0, events },
      { type: "state", sessionId: "a", name: "edits", value: texts },
      { type: "document", kind: "response", id: "r", sessionId: "a", value: texts },
    ]);
    const refs = await Promise.all(texts.map((text) => store.archive("a").put(text)));
    await store.close();
    await test({ path, bytes: Deno.readFileSync(path), refs });
  });
}

async function assertRefused(path: string, state: string): Promise<void> {
  const error = await assertRejects(() => openStore(path), StoreError);
  assertEquals([error.code, error.message], [
    "corrupt",
    `Cannot read the store ${path}: ${state}. Restore it from a backup, or move it away to start with an empty store.`,
  ]);
}

Deno.test("openStore() refuses a file that is no database, and leaves it alone", () =>
  withBytes(async ({ path }) => {
    for (const content of ["no database at all ".repeat(1000), "\0".repeat(8192)]) {
      Deno.writeTextFileSync(path, content);
      await assertRefused(path, "file is not a database");
      assertEquals(Deno.readTextFileSync(path), content);
    }
  }));

Deno.test("openStore() refuses a truncated file", () =>
  withBytes(async ({ path, bytes }) => {
    for (const length of [1, 511]) {
      Deno.writeFileSync(path, bytes.subarray(0, length));
      await assertRefused(path, `it has only ${length} bytes`);
      assertEquals(Deno.statSync(path).size, length);
    }
    for (const length of [512, 1023, 1024, 1025, bytes.length >> 1, bytes.length - 1024]) {
      Deno.writeFileSync(path, bytes.subarray(0, length));
      await assertRefused(path, "database disk image is malformed");
    }
  }));

Deno.test("openStore() refuses an emptied file whose log has data", () =>
  withBytes(async ({ path }) => {
    Deno.writeTextFileSync(path, "");
    Deno.writeTextFileSync(`${path}-wal`, "committed");
    await assertRefused(path, `it is empty, but ${path}-wal has its data`);
    assertEquals(Deno.readTextFileSync(`${path}-wal`), "committed");
    Deno.removeSync(path);
    await assertRefused(path, `it is missing, but ${path}-wal has its data`);
    assertEquals(Deno.readTextFileSync(`${path}-wal`), "committed");
  }));

Deno.test("openStore() refuses a missing or empty file with a lock file, and creates it without one", () =>
  withBytes(async ({ path, bytes }) => {
    const gone = async (state: string) => {
      const error = await assertRejects(() => openStore(path), StoreError);
      assertEquals([error.code, error.message], [
        "corrupt",
        `Cannot read the store ${path}: it is ${state}, but ${path}.lock shows that it existed. Restore it from a ` +
        `backup, or move ${path}.lock away to start with an empty store.`,
      ]);
    };
    Deno.writeTextFileSync(path, "");
    await gone("empty");
    Deno.removeSync(path);
    await gone("missing");
    await gone("missing");
    Deno.writeFileSync(path, bytes);
    const restored = await openStore(path);
    assertEquals(await restored.countSessions(), 2);
    await restored.close();
    Deno.removeSync(path);
    Deno.removeSync(`${path}.lock`);
    const anew = await openStore(path);
    assertEquals(await anew.countSessions(), 0);
    await anew.close();
  }));

/** Copies an open store with its log, as a killed process leaves it. Returns the warnings of its opening. */
async function opened(path: string, { damage = () => {} }: { readonly damage?: (log: Uint8Array) => void }) {
  const copy = `${path}.copy`;
  Deno.copyFileSync(path, copy);
  const log = Deno.readFileSync(`${path}-wal`);
  damage(log);
  Deno.writeFileSync(`${copy}-wal`, log);
  const warnings: string[] = [];
  const store = await openStore(copy, { onWarning: (warning) => warnings.push(warning) });
  const sessions = await store.countSessions();
  assertEquals(store.damage, warnings[0]);
  await store.close();
  const again = await openStore(copy, { onWarning: (warning) => warnings.push(`again: ${warning}`) });
  assertEquals(again.damage, undefined);
  await again.close();
  return { warnings, sessions, log, retained: `${copy}-wal.damaged` };
}

Deno.test("openStore() reports a damaged log, copies it, and uses the part before the damage", () =>
  withStore(async (store, path) => {
    for (let made = 0; made < 30; made++) {
      await store.commit([{
        type: "session",
        kind: "agent",
        id: `${made}`,
        createdAtMs: 0,
        settings: "x".repeat(5000),
      }]);
    }
    const whole = await opened(path, {});
    assertEquals([whole.warnings, whole.sessions], [[], 32]);
    const frames = (whole.log.length - 32) / (24 + 1024);
    // A truncated log, as after a killed write.
    const cut = await opened(path, { damage: (log) => log.fill(0, 32 + (frames - 1) * (24 + 1024)) });
    assertEquals([cut.warnings, cut.sessions], [[], 31]);
    for (const frame of [0, 1, Math.floor(frames / 2)]) {
      const at = frame === 0 ? 8 : 32 + (frame - 1) * (24 + 1024) + 1000;
      const { warnings, sessions, log, retained } = await opened(path, { damage: (log) => log[at]! ^= 1 });
      const place = frame === 0 ? "at its beginning" : `in part ${frame} of ${frames}`;
      assertEquals(warnings, [
        `The log of the store ${path}.copy is damaged ${place}: later writes are lost. ` +
        `The log was copied to ${retained}.`,
      ]);
      assertEquals([sessions < 32, Deno.readFileSync(retained)], [true, log]);
    }
  }));

Deno.test(
  needs(
    NOT_WINDOWS,
    "commit() fails once the file or its log was removed or replaced, and reads continue",
  ),
  async () => {
    for (const suffix of ["", "-wal"]) {
      for (const replace of [false, true]) {
        await withStore(async (store, path) => {
          await store.commit([{ type: "events", sessionId: "a", after: 0, events }]);
          Deno.renameSync(path + suffix, `${path}.away`);
          if (replace) Deno.copyFileSync(`${path}.away`, path + suffix);
          const writes = [
            () => store.commit([{ type: "events", sessionId: "a", after: 300, events: [{ type: "x" }] }]),
            () => store.commit([{ type: "state", sessionId: "b", name: "x", value: 1 }]),
            () => store.claimKey({ scope: "s", key: "k", bodyHash: "h" }),
            () => store.archive("a").put("text"),
            () => store.deleteSession("a"),
          ];
          for (const write of writes) {
            const error = await assertRejects(write, StoreError);
            assertEquals([error.code, error.message], [
              "lost",
              `Cannot write to the store: ${path}${suffix} was removed or replaced while it was open. ` +
              "Export the sessions, which can still be read, and restart the server.",
            ]);
          }
          assertEquals((await store.readEvents("a")).slice(0, 300).map(({ event }) => event), events);
          await store.close();
          assertEquals(
            replace,
            Array.from(Deno.readDirSync(path.replace(/tare\.db$/, "")), ({ name }) => name)
              .includes(`tare.db${suffix}`),
          );
        });
      }
    }
  },
);

Deno.test("openStore() never returns altered content, whichever byte changed", () =>
  withBytes(async ({ path, bytes, refs }) => {
    let refused = 0;
    let detected = 0;
    // The first pages contain the header and the schema. A prime step reaches every position within a page.
    const [near, far] = CASE_FACTOR > 1 ? [31, 2027] : [101, 8_111];
    for (let at = 0; at < bytes.length; at += at < 3 * 1024 ? near : far) {
      const damaged = bytes.slice();
      damaged[at]! ^= 1 << at % 8;
      Deno.writeFileSync(path, damaged);
      let store: Store | undefined;
      try {
        store = await openStore(path);
      } catch (error) {
        assert(error instanceof StoreError, `byte ${at}: ${error}`);
        assert(["corrupt", "other_version"].includes(error.code), `byte ${at}: ${error}`);
        refused++;
        continue;
      }
      for (const [read, written] of reads(store, refs)) {
        try {
          const got = await read();
          if (got !== undefined) assertEquals(got, written, `byte ${at}`);
        } catch (error) {
          assert(error instanceof StoreError && error.code === "corrupt", `byte ${at}: ${error}`);
          detected++;
        }
      }
      await store.close();
    }
    assert(refused > 5 && detected > 10, `${refused} refused, ${detected} detected`);
  }));

function reads(store: Store, refs: readonly string[]): [() => unknown, unknown][] {
  const archive = store.archive("a");
  return [
    [() => store.getSession("a"), { id: "a", kind: "agent", createdAtMs: 1, settings: {} }],
    [
      async () => await store.getSession("a") && store.readEvents("a"),
      events.map((event, index) => ({ number: index + 1, event })),
    ],
    [async () => await store.getSession("a") && store.readState("a", "edits"), texts],
    [() => store.getDocument("response", "r"), {
      kind: "response",
      id: "r",
      sessionId: "a",
      value: texts,
    }],
    ...refs.map((ref, index): [() => unknown, unknown] => [() => archive.get(ref), texts[index]]),
  ];
}

Deno.test("listDocuments() omits damaged documents if the caller receives errors, and throws otherwise", () =>
  withStore(async (store, path) => {
    const ids = ["a", "b", "c"];
    await store.commit(
      ids.map((id) => ({ type: "document", kind: "k", id, value: { text: `value of ${id}` } })),
    );
    await store.close();
    const bytes = Deno.readFileSync(path);
    const at = new TextDecoder("latin1").decode(bytes).indexOf("value of b");
    bytes[at] = bytes[at]! ^ 1;
    Deno.writeFileSync(path, bytes);
    const damaged = await openStore(path);
    const errors: string[] = [];
    const listed = await damaged.listDocuments(
      "k",
      (id, error) => errors.push(`${id}: ${(error as StoreError).code}`),
    );
    assertEquals([listed.map(({ id }) => id), errors], [["a", "c"], ["b: corrupt"]]);
    await assertRejects(() => damaged.listDocuments("k"), StoreError, "its checksum doesn't match");
    await damaged.close();
  }));

// Large texts of a database's archive in the bucket of an S3-compatible server.
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { StoreError } from "@tare/session";
import { copyContents } from "@tare/session";
import { openPostgresContents, openPostgresStore } from "@tare/session/postgres";
import { type ObjectStore, openS3Objects } from "@tare/session/s3";
import { openFileContents, openStore } from "@tare/session/sqlite";
import { createHash } from "node:crypto";
import { events, held, type Opening } from "../../../../packages/session/store/openings_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { query, startPostgres } from "../postgres.ts";
import { type S3Server, startS3 } from "../s3.ts";
import { FEW, withDatabase } from "./store.ts";

const postgres = await startPostgres();

/** Incompressible texts of some 30 kB. */
const [one, two] = ["one", "two"].map((seed) => {
  let text = "";
  for (let block = 0; block < 700; block++) {
    text += createHash("sha256").update(`${seed} ${block}`).digest("base64");
  }
  return text;
}) as [string, string];

interface Place {
  readonly url: string;
  readonly s3: S3Server;
  readonly objects: ObjectStore;
  readonly warnings: string[];
  readonly open: (objects?: ObjectStore) => Promise<Opening>;
}

async function inBucket(test: (place: Place) => Promise<void>): Promise<void> {
  await using s3 = await startS3();
  await withDatabase(postgres, async (url) => {
    const objects = await openS3Objects({ ...s3.options, prefix: "t/" });
    const opened: Opening[] = [];
    const warnings: string[] = [];
    const open = async (other: ObjectStore = objects) => {
      const onWarning = (line: string) => void warnings.push(line);
      const store = await openPostgresStore(url, { ...FEW, objects: other, onWarning });
      opened.push(store);
      return store;
    };
    try {
      await test({ url, s3, objects, warnings, open });
    } finally {
      for (const store of opened) await store.close();
    }
  });
}

async function makeSession(store: Opening, id: string): Promise<void> {
  await store.commit([sessionRecord(id)]);
  await held(store, id);
}

const pending = (url: string) => query<{ name: string }>(url, "SELECT name FROM tare.objects");

Deno.test("openS3Objects() stores bytes by name in a real bucket", async () => {
  await using s3 = await startS3();
  const objects = await openS3Objects({ ...s3.options, prefix: "some/where/" });
  assertEquals([objects.name, await s3.names()], ["s3://archive/some/where/", []]);
  const bytes = crypto.getRandomValues(new Uint8Array(50_000));
  await objects.put("a", bytes);
  await objects.put("b", new Uint8Array());
  assertEquals(await s3.names(), ["some/where/a", "some/where/b"]);
  assertEquals([await objects.get("a"), await objects.get("b"), await objects.get("c")], [
    bytes,
    new Uint8Array(),
    undefined,
  ]);
  await objects.delete("a");
  await objects.delete("a");
  assertEquals([await s3.names(), await objects.get("a")], [["some/where/b"], undefined]);
});

Deno.test("openS3Objects() reports errors of the bucket and its credentials", async () => {
  await using s3 = await startS3();
  const silent = Promise.withResolvers<Response>();
  const answers = [() => new Response("busy", { status: 503 }), () => silent.promise];
  let requestCount = 0;
  const other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => {
    requestCount++;
    return answers[0]!();
  });
  const endpoint = `http://127.0.0.1:${other.addr.port}`;
  const fault = async (change: Partial<Parameters<typeof openS3Objects>[0]>) => {
    const error = await assertRejects(() => openS3Objects({ ...s3.options, ...change }), StoreError);
    assertEquals(error.code, "io");
    return error.message.replace(/probe-\S+/, "probe");
  };
  const start = "Cannot write probe in s3://archive/: it answered ";
  assertEquals(
    await fault({ secretAccessKey: "another" }),
    `${start}403 SignatureDoesNotMatch: The request signature we calculated does not match the signature you provided. ` +
      "Check your key and signing method.",
  );
  assertEquals(
    await fault({ accessKeyId: "another" }),
    `${start}403 InvalidAccessKeyId: The AWS Access Key Id you provided does not exist in our records.`,
  );
  assertEquals(
    await fault({ bucket: "another" }),
    "Cannot write probe in s3://another/: it answered 404 NoSuchBucket: The specified bucket does not exist.",
  );
  assertEquals([await fault({ endpoint }), requestCount], [`${start}503.`, 3]);
  answers.shift();
  assertEquals(
    await fault({ endpoint, timeoutMs: 20 }),
    "Cannot write probe in s3://archive/: it hasn't answered within 20 ms.",
  );
  silent.resolve(new Response());
  await other.shutdown();
});

Deno.test("openPostgresStore() stores one large text in a bucket for all sessions that reference it, until none does", () =>
  inBucket(async ({ url, s3, open }) => {
    const [store, another] = [await open(), await open()];
    await makeSession(store, "a");
    const [ref, small, second] = [
      await store.archive("a").put(one),
      await store.archive("a").put("a short text"),
      await store.archive("a").put(two),
    ];
    assertEquals(await store.archive("a").put(one), ref);
    await makeSession(another, "other");
    assertEquals(await another.archive("other").put(one), ref);
    await store.commit([sessionRecord("fork", "a")]);
    const names = await s3.names();
    assertEquals(
      names.map((name) => name.slice(0, `t/${ref}-`.length)),
      [`t/${ref}-`, `t/${second}-`].sort(),
    );
    const [row] = await query(url, "SELECT count(*)::int AS count FROM tare.texts WHERE zstd IS NOT NULL");
    assertEquals(row, { count: 1 });
    for (const id of ["a", "fork"]) {
      const texts = await another.readTexts(id, [ref, small, second, "0".repeat(32)]);
      assertEquals(texts, new Map([[ref, one], [small, "a short text"], [second, two]]));
    }
    await store.deleteSession("a");
    assertEquals(await s3.names(), names);
    assertEquals(await another.archive("fork").get(second), two);
    await held(store, "fork");
    await store.deleteSession("fork");
    assertEquals(await s3.names(), names.filter((name) => name.includes(ref)));
    assertEquals(await another.archive("other").get(ref), one);
    await another.deleteSession("other");
    assertEquals([await s3.names(), await pending(url)], [[], []]);
  }));

Deno.test("openPostgresStore() uploads a text before the commit that references it, and commits in order", () =>
  inBucket(async ({ url, objects, open }) => {
    const [begun, end] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const store = await open({
      ...objects,
      async put(name, bytes) {
        begun.resolve();
        await end.promise;
        await objects.put(name, bytes);
      },
    });
    await makeSession(store, "a");
    const archived = store.commit([
      { type: "archive", sessionId: "a", ref: "0".repeat(32), content: one },
      ...[events("a", 0, "edited")],
    ]);
    const next = store.commit([events("a", 1, "next")]);
    await begun.promise;
    assertEquals(await store.lastEvent("a"), 0);
    assertEquals((await pending(url)).length, 1);
    end.resolve();
    await Promise.all([archived, next]);
    assertEquals([await store.lastEvent("a"), await pending(url)], [2, []]);
  }));

Deno.test("openPostgresStore() removes the uploads of a lost commit, and uploads again if it arrives later", () =>
  inBucket(async ({ url, s3, objects, open }) => {
    const store = await open();
    await makeSession(store, "a");
    const refused = () =>
      store.commit([
        { type: "archive", sessionId: "a", ref: "0".repeat(32), content: one },
        events("a", 7, "wrong"),
      ]);
    await assertRejects(refused, StoreError, "its last event is 0");
    assertEquals([(await s3.names()).length, (await pending(url)).length], [1, 1]);
    await (await open()).close();
    assertEquals((await s3.names()).length, 1);
    const age = () => query(url, "UPDATE tare.objects SET created_at = created_at - interval '2 hours'");
    await age();
    await (await open()).close();
    assertEquals([await s3.names(), await pending(url)], [[], []]);

    // A server that was stopped this long has uploaded its text, and commits after its removal.
    let stopped = 0;
    const late = await open({
      ...objects,
      async put(name, bytes) {
        await objects.put(name, bytes);
        if (stopped++ > 0) return;
        await age();
        await (await open()).close();
      },
    });
    await makeSession(late, "b");
    const ref = await late.archive("b").put(two);
    assertEquals([stopped, await late.archive("b").get(ref), (await s3.names()).length], [2, two, 1]);
  }));

Deno.test("openPostgresStore() stores one object for concurrent uploads of a text, and uploads again after a deletion", () =>
  inBucket(async ({ url, s3, objects, open }) => {
    let waiting = 0;
    const both = Promise.withResolvers<void>();
    const together: ObjectStore = {
      ...objects,
      async put(name, bytes) {
        await objects.put(name, bytes);
        if (++waiting === 2) both.resolve();
        await both.promise;
      },
    };
    const stores = [await open(together), await open(together)];
    await Promise.all(stores.map((store, at) => makeSession(store, `s${at}`)));
    const refs = await Promise.all(stores.map((store, at) => store.archive(`s${at}`).put(one)));
    assertEquals([refs[0] === refs[1], (await s3.names()).length], [true, 2]);
    await (await open()).close();
    assertEquals([(await s3.names()).length, await pending(url)], [1, []]);
    for (const [at, store] of stores.entries()) {
      assertEquals(await store.archive(`s${at}`).get(refs[0]!), one);
    }

    // Another session's text isn't uploaded again, unless that session is deleted before the commit.
    const puts: string[] = [];
    const third = await open({
      ...objects,
      async put(name, bytes) {
        puts.push(name.slice(0, refs[0]!.length));
        for (const [at, store] of stores.entries()) await store.deleteSession(`s${at}`);
        await objects.put(name, bytes);
      },
    });
    await makeSession(third, "s2");
    const other = createHash("sha256").update(two).digest("hex").slice(0, refs[0]!.length);
    await third.commit([
      { type: "archive", sessionId: "s2", ref: refs[0]!, content: one },
      { type: "archive", sessionId: "s2", ref: other, content: two },
    ]);
    assertEquals(puts.toSorted(), [refs[0]!, other, other].toSorted());
    assertEquals(await third.readTexts("s2", [refs[0]!, other]), new Map([[refs[0]!, one], [other, two]]));
  }));

Deno.test("openPostgresStore() stores texts in the database while the bucket is unavailable, and warns once", () =>
  inBucket(async ({ url, s3, objects, warnings, open }) => {
    let isAway = true;
    let tried = 0;
    const away = (verb: string) => Promise.reject(new StoreError("io", `Cannot ${verb} it: away.`));
    const flaky: ObjectStore = {
      ...objects,
      put(name, bytes) {
        tried++;
        return isAway ? away("write") : objects.put(name, bytes);
      },
      delete: (name) => isAway ? away("delete") : objects.delete(name),
    };
    const store = await open(flaky);
    await makeSession(store, "a");
    const refs = [await store.archive("a").put(one), await store.archive("a").put(two)];
    // The second one isn't tried so soon after.
    assertEquals([tried, warnings], [1, [
      "Cannot write it: away. Until it works again, texts are stored in the database.",
    ]]);
    assertEquals([...(await store.readTexts("a", refs)).values()].length, 2);
    assertEquals(await s3.names(), []);
    isAway = false;
    const other = await open(flaky);
    await makeSession(other, "b");
    // The text is in the database, for all servers.
    await other.archive("b").put(one);
    assertEquals(await s3.names(), []);
    const ref = await other.archive("b").put(`${one}${two}`);
    assertEquals([(await s3.names()).length, await other.archive("b").get(ref)], [1, `${one}${two}`]);
    // A session is deleted all the same; its object is removed by the next cleanup.
    isAway = true;
    assertEquals([await other.deleteSession("b"), await other.getSession("b")], [true, undefined]);
    assertEquals(warnings.slice(1), [
      "Cannot delete it: away. Until it works again, texts are stored in the database.",
    ]);
    assertEquals((await s3.names()).length, 1);
    isAway = false;
    await (await open(flaky)).close();
    // The object of the failed upload may still arrive.
    assertEquals([await s3.names(), (await pending(url)).length], [[], 1]);
  }));

Deno.test("openPostgresStore() reports which object is missing or why it can't be read", () =>
  inBucket(async ({ s3, url, objects, open }) => {
    let isAway = false;
    const store = await open({
      ...objects,
      get: (name) =>
        isAway ? Promise.reject(new StoreError("io", `Cannot read ${name}.`)) : objects.get(name),
    });
    await makeSession(store, "a");
    const ref = await store.archive("a").put(one);
    const [path = ""] = await s3.names();
    const name = path.slice("t/".length);
    isAway = true;
    await assertRejects(() => store.archive("a").get(ref), StoreError, `Cannot read ${name}.`);
    isAway = false;
    await objects.delete(name);
    const missing = await assertRejects(() => store.archive("a").get(ref), StoreError);
    const { host, pathname } = new URL(url);
    assertEquals([missing.code, missing.message], [
      "corrupt",
      `Cannot read the archived text ${ref} in the store postgres://${host}${pathname}: s3://archive/t/ has no ${name}. ` +
      "Restore it there.",
    ]);
    await objects.put(name, new TextEncoder().encode("something else"));
    const damaged = await assertRejects(() => store.archive("a").get(ref), StoreError);
    assertEquals([damaged.code, damaged.message], [
      "corrupt",
      `Cannot read the archived text ${ref} in the store postgres://${host}${pathname}: it is damaged, its hash ` +
      "doesn't match. Restore it from a backup.",
    ]);
  }));

Deno.test("openPostgresStore() refuses a database whose texts are in another bucket; copyContents() copies them", () =>
  inBucket(async ({ url, s3, objects, open }) => {
    // An empty bucket may be replaced.
    const elsewhere = await openS3Objects({ ...s3.options, prefix: "elsewhere/" });
    await (await open(elsewhere)).close();
    const store = await open();
    await makeSession(store, "a");
    const ref = await store.archive("a").put(one);
    await store.close();
    const { host, pathname } = new URL(url);
    const sentence = (how: string) =>
      `Cannot open the store postgres://${host}${pathname}: texts of its archive are in s3://archive/t/, and it was opened ` +
      `${how}. Set TARE_ARCHIVE to that bucket.`;
    await assertRejects(() => openPostgresStore(url, FEW), StoreError, sentence("without an object store"));
    await assertRejects(() => open(elsewhere), StoreError, sentence("with s3://archive/elsewhere/"));
    await assertRejects(() => openPostgresContents(url), StoreError, sentence("without an object store"));

    const folder = await Deno.makeTempDir();
    const path = join(folder, "tare.db");
    const [from, to] = [await openPostgresContents(url, { objects }), openFileContents(path)];
    const { counts } = await copyContents(from, to);
    assertEquals([counts.sessions, counts.texts], [1, 1]);
    for (const contents of [from, to]) await contents.close();
    const file = await openStore(path);
    assertEquals(await file.archive("a").get(ref), one);
    await file.close();
    await Deno.remove(folder, { recursive: true });
    assert((await s3.names()).length === 1);
  }));

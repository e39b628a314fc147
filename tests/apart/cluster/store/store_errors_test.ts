import { assert, assertEquals, assertRejects } from "@std/assert";
import { StoreError } from "@tare/session";
import { openPostgresStore } from "@tare/session/postgres";
import { held } from "../../../../packages/session/store/openings_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { query, startPostgres } from "../postgres.ts";
import { FEW, proxyTo, through, withDatabase } from "./store.ts";

const postgres = await startPostgres();

/** Options that retry briefly, with attempts long enough for a busy machine. */
const BRIEFLY = { timeoutMs: 300, statementMs: 60_000, connectMs: 60_000 };

async function assertFails(
  act: () => Promise<unknown>,
  { url, code, message }: {
    readonly url: string;
    readonly code: StoreError["code"];
    readonly message: string;
  },
): Promise<void> {
  const error = await assertRejects(act, StoreError);
  assertEquals([error.code, error.message], [code, message]);
  const { password } = new URL(url);
  for (const secret of [password, decodeURIComponent(password)]) {
    assert(!Deno.inspect(error, { depth: 9 }).includes(secret), Deno.inspect(error, { depth: 9 }));
  }
}

function placeIn(url: string): string {
  const { host, pathname } = new URL(url);
  return `postgres://${host}${pathname}`;
}

function test(what: string, run: (url: string) => Promise<void>): void {
  Deno.test(`openPostgresStore() ${what}`, () => withDatabase(postgres, run));
}

function assertRefused(
  url: string,
  { options = {}, code = "io", message }: {
    readonly options?: Parameters<typeof openPostgresStore>[1];
    readonly code?: StoreError["code"];
    readonly message: string;
  },
): Promise<void> {
  return assertFails(() => openPostgresStore(url, { ...FEW, ...options }), {
    url,
    code,
    message,
  });
}

test("reports a wrong password", async (url) => {
  const wrong = new URL(url);
  wrong.password = "not%20this%20one";
  await assertRefused(wrong.href, {
    message:
      `Cannot use the store ${placeIn(url)}: password authentication failed for user "${wrong.username}". ` +
      "Check the name and the password.",
  });
});

test("reports a missing database", async (url) => {
  const none = new URL(url);
  none.pathname = "/none";
  await assertRefused(none.href, {
    message: `Cannot use the store ${placeIn(none.href)}: database "none" does not exist. ` +
      "Create the database first: the store creates only its tables.",
  });
});

test("reports that no server responds", async (url) => {
  const { hostname, port } = new URL(url);
  // A client's port belongs to this process, and has no listener.
  using client = await Deno.connect({ hostname, port: Number(port || 5432) });
  const nobody = new URL(url);
  nobody.host = `127.0.0.1:${(client.localAddr as Deno.NetAddr).port}`;
  await assertRefused(nobody.href, {
    options: BRIEFLY,
    message: `Cannot use the store ${placeIn(nobody.href)}: connect ECONNREFUSED ${nobody.host}. ` +
      "Check that it is running and reachable.",
  });
});

test("reports the expected form of its URL", async () => {
  for (const url of ["mysql://user:secret@host/database", "user:secret@host", ""]) {
    const error = await assertRejects(() => openPostgresStore(url), TypeError);
    assertEquals(
      error.message,
      "Cannot open a store: its URL isn't valid. Use postgres://user:password@host:port/database",
    );
  }
});

test("reports that another version of the program created the tables", async (url) => {
  await (await openPostgresStore(url, FEW)).close();
  const [row] = await query<{ version: number }>(
    url,
    "UPDATE tare.schema_version SET version = version + 7 RETURNING version",
  );
  const { version } = row!;
  await assertRefused(url, {
    code: "other_version",
    message: `Cannot open the store ${placeIn(url)}: its schema version is ${version}, this program's is ` +
      `${version - 7}. Use the program that wrote it, or another database.`,
  });
});

test("reports that the server is too old", async (url) => {
  // Replaces the server's version by an old one.
  const onAnswer = (piece: Uint8Array) => {
    const text = new TextDecoder("latin1").decode(piece);
    // Other messages may contain six digits too.
    if (!/version\0[^]*number\0/.test(text)) return piece;
    const old = text.replace(/(?<!\d)(1[5-9]|[2-9]\d)(\d{4})(?!\d)/, "14$2");
    return Uint8Array.from(old, (letter) => letter.charCodeAt(0));
  };
  const proxy = proxyTo(url, { onAnswer });
  const error = await assertRejects(() => openPostgresStore(through(url, proxy), FEW), StoreError);
  assertEquals(error.code, "io");
  assert(/: this is PostgreSQL .*\. Use 15 or newer\.$/.test(error.message), error.message);
  await proxy[Symbol.asyncDispose]();
});

test("reports that the user may not create the tables, and accepts an existing schema", async (url) => {
  const user = `limited_${crypto.randomUUID().slice(0, 8)}`;
  await query(url, `CREATE USER ${user} PASSWORD 'of the limited'`);
  const limited = new URL(url);
  limited.username = user;
  limited.password = "of the limited";
  const { pathname } = limited;
  await assertRefused(limited.href, {
    message: `Cannot use the store ${placeIn(url)}: permission denied for database ${pathname.slice(1)}. ` +
      "Grant this user the right to create the schema tare, or create it.",
  });
  await query(url, `CREATE SCHEMA tare AUTHORIZATION ${user}`);
  const store = await openPostgresStore(limited.href, FEW);
  await store.commit([sessionRecord("a")]);
  await store.close();

  await query(url, `ALTER USER ${user} CONNECTION LIMIT 0`);
  await assertRefused(limited.href, {
    options: BRIEFLY,
    message: `Cannot use the store ${placeIn(url)}: too many connections for role "${user}". ` +
      "Raise max_connections, or lower the servers' connections.",
  });
  await query(url, `DROP OWNED BY ${user}`);
  await query(url, `DROP USER ${user}`);
});

test("returns a store whose commits report a full disk, store nothing, and continue when there is room", async (url) => {
  const store = await openPostgresStore(url, FEW);
  await store.commit([sessionRecord("a")]);
  await held(store, "a");
  const fail = (table: string, code: string, message: string) =>
    query(
      url,
      `CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN RAISE EXCEPTION '${message}' USING ERRCODE = '${code}'; END $$;
       CREATE TRIGGER fail BEFORE INSERT ON tare.${table} EXECUTE FUNCTION fail();`,
    );
  const commit = () =>
    store.commit([
      { type: "events", sessionId: "a", after: 0, events: [{ type: "turn_start" }] },
      { type: "state", sessionId: "a", name: "x", value: 1 },
    ]);
  await fail("state", "53100", "could not extend file: No space left on device");
  await assertFails(commit, {
    url,
    code: "full",
    message: `Cannot write to the store ${placeIn(url)}: could not extend file: No space left on device. ` +
      "Nothing was written. Free some space.",
  });
  assertEquals([await store.lastEvent("a"), await store.readState("a", "x")], [0, undefined]);
  await query(url, "DROP FUNCTION fail CASCADE");
  await commit();
  assertEquals([await store.lastEvent("a"), await store.readState("a", "x")], [1, 1]);
  await store.close();
});

test("returns a store that reports damaged data", async (url) => {
  const store = await openPostgresStore(url, FEW);
  await store.commit([sessionRecord("a")]);
  await held(store, "a");
  for (const after of [0, 1, 2]) {
    await store.commit([{ type: "events", sessionId: "a", after, events: [{ type: "turn_start" }] }]);
  }
  const ref = await store.archive("a").put("text");
  const other = await store.archive("a").put("other text");
  const fails = (act: () => Promise<unknown>, message: string) =>
    assertFails(act, { url, code: "corrupt", message });

  await query(url, "DELETE FROM tare.events WHERE first = 2");
  await fails(
    () => store.readEvents("a"),
    `Cannot read the store ${placeIn(url)}: session a lacks event 2. Restore it from a backup.`,
  );
  await query(
    url,
    "UPDATE tare.texts SET zstd = (SELECT zstd FROM tare.texts WHERE ref = $1) WHERE ref = $2",
    [other, ref],
  );
  await fails(
    () => store.archive("a").get(ref),
    `Cannot read the archived text ${ref} in the store ${
      placeIn(url)
    }: it is damaged, its hash doesn't match. ` +
      "Restore it from a backup.",
  );
  assertEquals(await store.archive("a").get(other), "other text");
  await query(url, "DROP TABLE tare.documents");
  await fails(
    () => store.getDocument("response", "r"),
    `Cannot read the store ${placeIn(url)}: its tables are damaged, relation "documents" does not exist. ` +
      "Restore it from a backup, or use another database.",
  );
  await store.close();
});

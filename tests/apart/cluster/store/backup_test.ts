import { assertEquals } from "@std/assert";
import { join } from "@std/path";
import type { Store } from "@tare/session";
import { copyContents } from "@tare/session";
import { openFileContents } from "@tare/session/sqlite";
import { openPostgresContents, openPostgresStore } from "@tare/session/postgres";
import { Client } from "pg";
import { askStore, fillStore } from "../../../../packages/session/store/contents_fixture_test.ts";
import { sessionRecord } from "../../../../packages/session/store/store_suite_fixture_test.ts";
import { type Need, needs } from "../../../needs.ts";
import { ownServer, query, startPostgres } from "../postgres.ts";

// A backup of files needs full pages in the log, and the whole log since its beginning.
const postgres = await startPostgres({ settings: { full_page_writes: "on", wal_keep_size: "256MB" } });

async function withStore<T>(url: string, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await openPostgresStore(url);
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

/** Expires the servers that had the database open at the backup. */
async function outlive(url: string): Promise<void> {
  await query(url, "UPDATE tare.servers SET is_dead = true");
}

async function continueWriting(store: Store): Promise<void> {
  await store.shared!.hold("z");
  await store.commit([{ type: "events", sessionId: "z", after: 700, events: [{ type: "turn_end" }] }]);
  assertEquals((await store.readEvents("z", { after: 699 })).map(({ number }) => number), [700, 701]);
}

async function run(program: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args }).output();
  if (!success) throw new Error(`${program}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Copies files of a running server; files that it removes meanwhile aren't part of the backup. */
async function copyFiles(...args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command("cp", { args, env: { LC_ALL: "C" } }).output();
  const output = new TextDecoder().decode(stderr).trimEnd();
  const isGone = (line: string) => line.endsWith(": No such file or directory");
  if (!success && !output.split("\n").every(isGone)) throw new Error(output);
}

Deno.test(
  needs(
    ownServer(postgres),
    "backup: a file copy made during writes continues with the same bytes",
  ),
  async () => {
    const url = await postgres.makeDatabase();
    const [{ data_directory: data }] = await query<{ data_directory: string }>(
      url,
      "SHOW data_directory",
    ) as [
      { data_directory: string },
    ];
    const copy = `${data}.copy`;
    await withStore(url, async (store) => {
      await fillStore(store);
      const client = new Client({ connectionString: url });
      await client.connect();
      await client.query("SELECT pg_backup_start('test', true)");
      await store.commit([sessionRecord("begun")]);
      await copyFiles("-a", data, copy);
      await store.commit([sessionRecord("during")]);
      const { rows: [{ labelfile }] } = await client.query("SELECT labelfile FROM pg_backup_stop(false)");
      await client.end();
      const label = join(copy, "backup_label");
      await Deno.writeTextFile(label, labelfile);
      const { uid, gid } = await Deno.stat(data);
      await Deno.chown(label, uid, gid);
      await copyFiles("-a", "-T", join(data, "pg_wal"), join(copy, "pg_wal"));
      await Deno.remove(join(copy, "postmaster.pid"));
      await store.commit([sessionRecord("later")]);
    });
    await postgres.kill();
    await Deno.rename(data, `${data}.old`);
    await Deno.rename(copy, data);
    await postgres.start();
    await outlive(url);
    await withStore(url, async (store) => {
      const names = (await store.listSessions()).map(({ id }) => id);
      assertEquals(names, ["during", "begun", "a", "Ä", "fork", "z"]);
      assertEquals((await store.readEvents("z")).length, 700);
      await continueWriting(store);
    });
  },
);

async function majorOf(program: string): Promise<number> {
  const version = await run(program, "--version").catch(() => "");
  return Number(/ (\d+)/.exec(version)?.[1] ?? 0);
}

const [{ server_version_num: server }] = await query<{ server_version_num: string }>(
  postgres.url,
  "SHOW server_version_num",
) as [{ server_version_num: string }];
const major = Math.floor(Number(server) / 10_000);
const isSupported = await majorOf("pg_dump") >= major &&
  await majorOf("pg_restore") === await majorOf("pg_dump");
const PG_DUMP: Need = {
  what: `pg_dump of PostgreSQL ${major}`,
  how: `apt-get install postgresql-client-${major}`,
  isMet: () => isSupported,
};

Deno.test(
  needs(
    PG_DUMP,
    "backup: a pg_dump taken while servers ran continues in another database with the same bytes",
  ),
  async () => {
    const [url, empty] = [await postgres.makeDatabase(), await postgres.makeDatabase()];
    const folder = await Deno.makeTempDir();
    const file = join(folder, "tare.dump");
    await withStore(url, async (store) => {
      await fillStore(store);
      await run("pg_dump", "--format=custom", "--schema=tare", `--file=${file}`, url);
      await store.commit([sessionRecord("later")]);
      await store.shared!.hold("later");
      await store.deleteSession("later");
    });
    await run("pg_restore", "--no-owner", `--dbname=${empty}`, file);
    await outlive(empty);
    const contents = [url, empty].map((database) => openPostgresContents(database));
    const [one, two] = await Promise.all(contents);
    const totals = [];
    for (const [index, from] of [one!, two!].entries()) {
      const to = openFileContents(join(folder, `${index}.db`));
      totals.push(await copyContents(from, to));
      await to.close();
      await from.close();
    }
    assertEquals(totals[1], totals[0]);
    const read = await withStore(url, askStore);
    await withStore(empty, async (store) => {
      assertEquals(await askStore(store), read);
      await continueWriting(store);
    });
    await postgres.dropDatabase(url);
    await postgres.dropDatabase(empty);
    await Deno.remove(folder, { recursive: true });
  },
);

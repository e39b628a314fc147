import { assertEquals, assertMatch } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { Store } from "@tare/session";
import { openStore } from "@tare/session/sqlite";
import { openPostgresStore } from "@tare/session/postgres";
import { askStore, fillStore } from "../../../../packages/session/store/contents_fixture_test.ts";
import { query, startPostgres } from "../postgres.ts";

const postgres = await startPostgres();

const ROOT = fromFileUrl(new URL("../../../../", import.meta.url));
const { tasks } = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.json")));

interface Place {
  readonly url: string;
  readonly data: string;
  readonly file: string;
  readonly begin: (...args: string[]) => Deno.ChildProcess;
  readonly move: (...args: string[]) => Promise<{ code: number; out: string; err: string }>;
}

async function withPlace(test: (place: Place) => Promise<void>, events?: number): Promise<void> {
  const data = await Deno.makeTempDir();
  const url = await postgres.makeDatabase();
  const file = join(data, "tare.db");
  await withStore(openStore(file), (store) => fillStore(store, events));
  const [, ...flags]: string[] = tasks.move.command.split(" ");
  const program = join(ROOT, flags.pop()!);
  const begin = (...args: string[]) =>
    new Deno.Command(Deno.execPath(), {
      args: [...flags, program, "--data", data, ...args],
      cwd: ROOT,
      env: { NO_COLOR: "1", TARE_DATABASE: url, TARE_WORKSPACE: "", INIT_CWD: "" },
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  const move = async (...args: string[]) => {
    const { code, stdout, stderr } = await begin(...args).output();
    return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
  };
  try {
    await test({ url, data, file, begin, move });
  } finally {
    await postgres.dropDatabase(url);
    await Deno.remove(data, { recursive: true });
  }
}

async function withStore<T>(opened: Promise<Store>, use: (store: Store) => Promise<T>): Promise<T> {
  const store = await opened;
  try {
    return await use(store);
  } finally {
    await store.close();
  }
}

const VISIBLE = /\w+ at [^ ]+:\d+/.source;
const COUNTS = "4 sessions, 701 events, 3 texts, 3 documents, 2 deliveries, 3 keys";

Deno.test("tare move: a file's whole content moves into a database and back", () =>
  withPlace(async ({ url, data, file, move }) => {
    const forth = await move();
    assertEquals([forth.code, forth.err], [0, ""]);
    assertMatch(
      forth.out,
      new RegExp(
        `^Moved ${COUNTS} to ${VISIBLE} and verified the copy; the file was renamed to ${file}.moved.\n$`,
      ),
    );
    assertEquals(Array.from(Deno.readDirSync(data), ({ name }) => name).sort(), [
      "tare.db.lock",
      "tare.db.moved",
    ]);
    const again = await move();
    assertEquals([again.code, again.out], [1, ""]);
    assertEquals(
      again.err,
      `Cannot move sessions: there are none in ${data}; those in ${file}.moved were already moved.\n`,
    );

    const back = await move("--back");
    assertMatch(
      back.out,
      new RegExp(`^Moved ${COUNTS} to ${file} and verified the copy; ${VISIBLE} is unchanged.\n$`),
    );
    const read = await withStore(openStore(`${file}.moved`), askStore);
    assertEquals(await withStore(openStore(file), askStore), read);
    assertEquals(await withStore(openPostgresStore(url), askStore), read);
    // The next store continues where it was.
    await withStore(openPostgresStore(url), async (store) => {
      await store.shared!.hold("z");
      await store.commit([{ type: "events", sessionId: "z", after: 700, events: [{ type: "turn_end" }] }]);
      assertEquals((await store.readEvents("z", { after: 699 })).map(({ number }) => number), [700, 701]);
      await store.shared!.hold("fork");
      await store.deleteSession("fork");
      assertEquals(await store.countSessions(), 3);
    });
  }));

Deno.test("tare move: nothing changes if a store is in use or the target isn't empty", () =>
  withPlace(async ({ url, file, move }) => {
    const refused = async (...args: string[]) => {
      const { code, out, err } = await move(...args);
      assertEquals([code, out], [1, ""]);
      assertEquals(err.includes("only for tests") || err.includes("only%20for"), false);
      return err;
    };
    await withStore(openStore(file), async () => {
      assertMatch(await refused(), /another process has it open/);
    });
    await withStore(openPostgresStore(url), async (store) => {
      assertMatch(await refused(), /^Cannot open .*: 1 servers use it. Stop them/);
      await store.commit([{ type: "session", kind: "agent", id: "other", createdAtMs: 1, settings: {} }]);
    });
    for (const args of [[], ["--back"]]) {
      assertMatch(
        await refused(...args),
        /isn't empty and has other contents, \d sessions, .* empty store\.\n$/,
      );
    }
    assertEquals(await withStore(openPostgresStore(url), (store) => store.countSessions()), 1);
    assertEquals(await withStore(openStore(file), (store) => store.countSessions()), 4);
    assertMatch(await refused("--data", file), /./);
  }, 1));

Deno.test("tare move: killed at any moment it loses nothing, and completes when run again", () =>
  withPlace(async ({ url, data, file, begin, move }) => {
    // Kills at moments throughout the move, which is complete when the file is renamed.
    let killed = 0;
    for (let afterMs = 50, isMoved = false; !isMoved; afterMs *= 1.2) {
      const process = begin();
      let isOver = false;
      process.status.then(() => isOver = true);
      const timer = setTimeout(() => isOver || process.kill("SIGKILL"), afterMs);
      const { code, signal, stderr } = await process.output();
      clearTimeout(timer);
      if (code !== 0) killed++;
      assertEquals([code === 0 || signal, new TextDecoder().decode(stderr)], [code === 0 || "SIGKILL", ""]);
      const names = Array.from(Deno.readDirSync(data), ({ name }) => name);
      const retained = names.filter((name) => ["tare.db", "tare.db.moved"].includes(name));
      assertEquals(retained.length, 1);
      isMoved = retained[0] === "tare.db.moved";
      await ended(url);
    }
    assertEquals(killed > 3, true);
    const back = await move("--back");
    assertMatch(back.out, /^Moved 4 sessions, 5001 events, /);
    const read = await withStore(openStore(`${file}.moved`), askStore);
    assertEquals(await withStore(openStore(file), askStore), read);
  }, 5_000));

/** Waits until the database has noticed all disconnections. */
async function ended(url: string): Promise<void> {
  const sql = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()";
  while ((await query(url, sql)).length > 0);
}

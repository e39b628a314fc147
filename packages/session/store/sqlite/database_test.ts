import { assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { DatabaseSync } from "node:sqlite";
import { StoreError } from "@tare/session";
import { openDatabase } from "./database.ts";
import type { Schema } from "./schema.ts";
import { withFolder } from "../folder_fixture_test.ts";
import { needs, NOT_WINDOWS } from "../../../../tests/needs.ts";

const V1: Schema = { version: 1, sql: "CREATE TABLE notes (text TEXT NOT NULL) STRICT" };

function use(path: string, schema: Schema, statement?: string): unknown[] {
  const database = openDatabase(path, { schema });
  try {
    if (statement !== undefined) database.prepare(statement).run();
    return database.prepare("SELECT * FROM notes").all().map((row) => ({ ...row as object }));
  } finally {
    database.close();
  }
}

Deno.test("openDatabase() creates the tables once, atomically", () =>
  withFolder((folder) => {
    const path = join(folder, "x.db");
    const failing = { version: 1, sql: `${V1.sql}; INSERT INTO nowhere VALUES (1)` };
    const error = assertThrows(() => use(path, failing), StoreError);
    assertEquals([error.code, error.message], [
      "corrupt",
      `Cannot read the store ${path}: its tables are damaged, no such table: nowhere. ` +
      "Restore it from a backup, or move it away to start with an empty store.",
    ]);
    assertEquals(use(path, V1, "INSERT INTO notes VALUES ('four')"), [{ text: "four" }]);
    assertEquals(use(path, V1), [{ text: "four" }]);
  }));

Deno.test("openDatabase() refuses a file of another version and leaves it alone", () =>
  withFolder((folder) => {
    const path = join(folder, "x.db");
    use(path, { ...V1, version: 2 });
    const before = Deno.readFileSync(path);
    const error = assertThrows(() => use(path, V1), StoreError);
    assertEquals([error.code, error.message], [
      "other_version",
      `Cannot open the store ${path}: its schema version is 2, this program's is 1. ` +
      "Use the program that wrote it, or another file.",
    ]);
    assertEquals(Deno.readFileSync(path), before);
  }));

Deno.test("openDatabase() refuses another program's database and leaves it alone", () =>
  withFolder((folder) => {
    const path = join(folder, "x.db");
    for (const statement of ["CREATE TABLE theirs (x)", "PRAGMA application_id = 7"]) {
      const theirs = new DatabaseSync(path);
      theirs.exec(statement);
      theirs.close();
      const before = Deno.readFileSync(path);
      const error = assertThrows(() => use(path, V1), StoreError, "it is another program's database");
      assertEquals([error.code, Deno.readFileSync(path)], ["corrupt", before]);
    }
  }));

Deno.test(
  needs(NOT_WINDOWS, "openDatabase() creates folder and files with owner-only permissions"),
  () =>
    withFolder((folder) => {
      const path = join(folder, "new", "inner", "x.db");
      const database = openDatabase(path, { schema: V1 });
      database.prepare("INSERT INTO notes VALUES ('x')").run();
      const modes = [join(folder, "new"), join(folder, "new", "inner"), path, `${path}-wal`, `${path}.lock`]
        .map((name) => Deno.statSync(name).mode! & 0o777);
      database.close();
      assertEquals(modes, [0o700, 0o700, 0o600, 0o600, 0o600]);
    }),
);

Deno.test("openDatabase() reports why a file can't be opened", () =>
  withFolder((folder) => {
    Deno.mkdirSync(join(folder, "x.db"));
    Deno.writeTextFileSync(join(folder, "file"), "");
    for (const path of [join(folder, "x.db"), join(folder, "file", "x.db")]) {
      const error = assertThrows(() => use(path, V1), StoreError);
      assertEquals(error.code, "io");
      assertStringIncludes(error.message, `Cannot use the store ${path}: `);
    }
  }));

Deno.test("openDatabase() locks out other processes and a second opening until it is closed", () =>
  withFolder((folder) => {
    const path = join(folder, "x.db");
    const first = openDatabase(path, { schema: V1 });
    const other = new DatabaseSync(path);
    assertThrows(() => other.exec("SELECT * FROM notes"), Error, "database is locked");
    other.close();
    for (const disturb of [() => {}, () => Deno.openSync(path).close()]) {
      disturb();
      const error = assertThrows(() => use(path, V1), StoreError);
      assertEquals([error.code, error.message], [
        "locked",
        `Cannot open the store ${path}: another process has it open. Stop it, or use another file.`,
      ]);
    }
    first.close();
    first.close();
    assertEquals(use(path, V1), []);
  }));

const STARTER = `
  let goesOn = true;
  onmessage = () => goesOn = false;
  while (goesOn) {
    await new Deno.Command("true").output();
    postMessage("started");
  }
  close();
`;

// Between fork and exec a child shares its parent's open files, including some kinds of locks.
Deno.test(
  needs(NOT_WINDOWS, "close() releases the file at once, also while other threads spawn processes"),
  () =>
    withFolder(async (folder) => {
      const path = join(folder, "x.db");
      const worker = new Worker(`data:text/javascript,${encodeURIComponent(STARTER)}`, { type: "module" });
      const started = () => new Promise((resolve) => worker.onmessage = resolve);
      try {
        for (let processes = 0; processes < 100; processes++) {
          await started();
          for (let times = 0; times < 10; times++) use(path, V1);
        }
      } finally {
        worker.postMessage("end");
        worker.terminate();
      }
    }),
);

Deno.test("transaction() rolls back if its function throws", () =>
  withFolder((folder) => {
    const database = openDatabase(join(folder, "x.db"), { schema: V1 });
    const insert = database.prepare("INSERT INTO notes VALUES (?)");
    const add = (...texts: (string | null)[]) =>
      database.transaction(() => texts.reduce((sum, text) => sum + insert.run(text), 0));
    assertEquals(add("a", "b"), 2);
    assertThrows(() => add("c", null), Error, "NOT NULL constraint failed");
    assertThrows(
      () =>
        database.transaction(() => {
          insert.run("d");
          throw new Error("mine");
        }),
      Error,
      "mine",
    );
    assertEquals(database.prepare<{ text: string }>("SELECT text FROM notes").all().map(({ text }) => text), [
      "a",
      "b",
    ]);
    database.close();
  }));

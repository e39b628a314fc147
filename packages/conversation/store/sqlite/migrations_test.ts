import { assertEquals, assertThrows } from "@std/assert";
import { join } from "@std/path";
import { StoreError } from "@tare/conversation";
import { withFolder } from "../folder_fixture_test.ts";
import { openDatabase } from "./database.ts";
import { type Migration, MIGRATIONS } from "./migrations.ts";

const addColour: Migration = (connection) =>
  connection.exec("ALTER TABLE sessions ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'");

/** Opens a file with these steps and gives the colours of its sessions, or that they have none. */
function colours(path: string, migrations: readonly Migration[]): readonly string[] {
  const database = openDatabase(path, { migrations });
  try {
    const columns = database.prepare<{ name: string }>("SELECT name FROM pragma_table_info('sessions')")
      .all();
    if (!columns.some(({ name }) => name === "colour")) return ["none"];
    return database.prepare<{ colour: string }>("SELECT colour FROM sessions").all().map(({ colour }) =>
      colour
    );
  } finally {
    database.close();
  }
}

Deno.test("openDatabase() brings a file step by step to the newest version, once, with what stands in it", () =>
  withFolder((folder) => {
    const path = join(folder, "tare.db");
    const database = openDatabase(path, { migrations: MIGRATIONS });
    database.prepare("INSERT INTO sessions VALUES (1, 'a', '{}', 0)").run();
    database.close();
    assertEquals(colours(path, MIGRATIONS), ["none"]);
    const paint: Migration = (connection) => connection.exec("UPDATE sessions SET colour = colour || '!'");
    assertEquals(colours(path, [...MIGRATIONS, addColour]), ["red"]);
    assertEquals(colours(path, [...MIGRATIONS, addColour, paint]), ["red!"]);
    assertEquals(colours(path, [...MIGRATIONS, addColour, paint]), ["red!"]);
    assertEquals(colours(join(folder, "new.db"), [...MIGRATIONS, addColour, paint]), []);
  }));

Deno.test("openDatabase() undoes a step that fails, and keeps those in front of it", () =>
  withFolder((folder) => {
    const path = join(folder, "tare.db");
    openDatabase(path, { migrations: MIGRATIONS }).close();
    const fails: Migration = (connection) => {
      connection.exec("DROP TABLE documents");
      throw new Error("no");
    };
    assertThrows(() => colours(path, [...MIGRATIONS, addColour, fails]), Error, "no");
    const database = openDatabase(path, { migrations: [...MIGRATIONS, addColour] });
    database.prepare("SELECT colour FROM sessions").all();
    database.prepare("SELECT 1 FROM documents").all();
    database.close();
  }));

Deno.test("openDatabase() refuses a file of a newer version, and changes nothing in it", () =>
  withFolder((folder) => {
    const path = join(folder, "tare.db");
    openDatabase(path, { migrations: [...MIGRATIONS, addColour] }).close();
    const error = assertThrows(() => openDatabase(path, { migrations: MIGRATIONS }), StoreError);
    assertEquals([error.code, error.message], [
      "newer_version",
      `Cannot open the store ${path}: its schema is version 2, and this program knows up to 1. ` +
      "Use the program that wrote it or a newer one, or another file.",
    ]);
    assertEquals(colours(path, [...MIGRATIONS, addColour]), []);
  }));

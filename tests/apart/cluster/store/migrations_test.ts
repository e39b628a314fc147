import { assertEquals, assertRejects } from "@std/assert";
import { Client } from "pg";
import { StoreError } from "@tare/conversation";
import { migrate } from "../../../../packages/conversation/store/postgres/migrations.ts";
import { startPostgres } from "../postgres.ts";
import { withDatabase } from "./store.ts";

const postgres = await startPostgres();

const FIRST = "CREATE TABLE tare.things (name text); INSERT INTO tare.things VALUES ('a')";
const COLOUR = "ALTER TABLE tare.things ADD COLUMN colour text DEFAULT 'red'";
const FAILS = "DROP TABLE tare.things; SELECT 1 / 0";

/** Runs a test with what migrates a database of its own, and what asks it. */
function withHistory(
  test: (
    go: (...history: string[]) => Promise<void>,
    ask: (sql: string) => Promise<unknown[]>,
  ) => Promise<void>,
): Promise<void> {
  return withDatabase(postgres, async (url) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    const query = async <Row>(sql: string) => (await client.query(sql)).rows as Row[];
    try {
      await test((...history) => migrate({ query }, { place: "here", history }), query);
    } finally {
      await client.end();
    }
  });
}

Deno.test("migrate() brings a database step by step to the newest version, once, with what stands in it", () =>
  withHistory(async (go, ask) => {
    await go(FIRST);
    await go(FIRST, COLOUR);
    await go(FIRST, COLOUR, "UPDATE tare.things SET colour = colour || '!'");
    await go(FIRST, COLOUR, "UPDATE tare.things SET colour = colour || '!'");
    assertEquals(await ask("SELECT * FROM tare.things"), [{ name: "a", colour: "red!" }]);
    assertEquals(await ask("SELECT * FROM tare.schema_version"), [{ version: 3 }]);
  }));

Deno.test("migrate() undoes all steps if one fails, and goes through them when they don't", () =>
  withHistory(async (go, ask) => {
    await go(FIRST);
    await assertRejects(() => go(FIRST, COLOUR, FAILS), Error, "division by zero");
    assertEquals(await ask("SELECT * FROM tare.things"), [{ name: "a" }]);
    assertEquals(await ask("SELECT * FROM tare.schema_version"), [{ version: 1 }]);
    await go(FIRST, COLOUR);
    assertEquals(await ask("SELECT * FROM tare.things"), [{ name: "a", colour: "red" }]);
  }));

Deno.test("migrate() refuses a database of a newer version, and changes nothing in it", () =>
  withHistory(async (go, ask) => {
    await go(FIRST, COLOUR);
    const error = await assertRejects(() => go(FIRST), StoreError);
    assertEquals([error.code, error.message], [
      "newer_version",
      "Cannot open the store here: its schema is version 2, and this program knows up to 1. " +
      "Use the program that wrote it or a newer one, or another database.",
    ]);
    assertEquals(await ask("SELECT * FROM tare.things"), [{ name: "a", colour: "red" }]);
  }));

import { assertEquals, assertRejects } from "@std/assert";
import { Client } from "pg";
import { createTables } from "../../../../packages/session/store/postgres/schema.ts";
import { startPostgres } from "../postgres.ts";
import { withDatabase } from "./store.ts";

const postgres = await startPostgres();

Deno.test("createTables() creates the tables once, all or none of them", () =>
  withDatabase(postgres, async (url) => {
    const client = new Client({ connectionString: url });
    await client.connect();
    const query = async <Row>(sql: string) => (await client.query(sql)).rows as Row[];
    const failing = <Row>(sql: string) =>
      query<Row>(sql.replace("CREATE TABLE tare.keys", "SELECT 1 / 0; $&"));
    const tables = () => query("SELECT 1 FROM pg_tables WHERE schemaname = 'tare'");
    try {
      await assertRejects(() => createTables({ query: failing }, "here"), Error, "division by zero");
      assertEquals(await tables(), []);
      await createTables({ query }, "here");
      const made = await tables();
      await createTables({ query }, "here");
      assertEquals([made.length > 10, await tables()], [true, made]);
    } finally {
      await client.end();
    }
  }));

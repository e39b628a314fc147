import { assertEquals, assertRejects } from "@std/assert";
import { query, runSql, startPostgres } from "./postgres.ts";

const postgres = await startPostgres();

Deno.test("startPostgres() creates separate databases, which retain committed data when the server is killed", async () => {
  const [one, other] = [await postgres.makeDatabase(), await postgres.makeDatabase()];
  await runSql(one, "CREATE TABLE t AS SELECT 7 AS n");
  await assertRejects(() => query(other, "SELECT n FROM t"), Error, 'relation "t" does not exist');
  if (postgres.isOurs) {
    await postgres.kill();
    await assertRejects(() => query(one, "SELECT n FROM t"));
    await postgres.start();
  }
  assertEquals(await query(one, "SELECT n FROM t"), [{ n: 7 }]);
  for (const database of [one, other]) await postgres.dropDatabase(database);
});

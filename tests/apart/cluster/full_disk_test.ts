import { assertEquals } from "@std/assert";
import {
  Client,
  makeOthers,
  onSmallDisk,
  type Send,
  talkativeProvider,
  throughFullDisk,
} from "../../crash/full_disk.ts";
import { startServerProcess } from "../../crash/server_process.ts";
import { needs, SMALL_DISK } from "../../needs.ts";
import { ownServer, runSql, startPostgres } from "./postgres.ts";

const postgres = await startPostgres();

// A tablespace is a folder of the database's machine.
Deno.test(
  needs(
    [ownServer(postgres), SMALL_DISK],
    "disk full: servers whose database is full report it, lose nothing, and continue once there is room",
  ),
  () => onSmallDisk("30m", shareDatabaseOn),
);

async function shareDatabaseOn(disk: string): Promise<void> {
  await Deno.mkdir(`${disk}/tables`);
  await postgres.own(`${disk}/tables`);
  await Deno.writeFile(`${disk}/ballast`, new Uint8Array(4_000_000));
  await runSql(postgres.url, `CREATE TABLESPACE small LOCATION '${disk}/tables'`);
  await runSql(postgres.url, "CREATE DATABASE on_small TABLESPACE small");
  const url = new URL(postgres.url);
  url.pathname = "/on_small";
  const provider = talkativeProvider();
  const folder = await Deno.makeTempDir();
  const start = (name: string) =>
    startServerProcess([
      ...["--port", "0", "--workspace", folder, "--data", `${folder}/${name}`],
      ...["--base-url", provider.url, "--model", "simulated"],
    ], { TARE_DATABASE: url.href });
  const servers = [await start("one"), await start("two")];
  let sent = 0;
  const send: Send = (path, init) => fetch(servers[sent++ % servers.length]!.url + path, init);
  try {
    // Otherwise repetitive content is compressed.
    await runSql(url.href, "ALTER TABLE tare.events ALTER json SET STORAGE EXTERNAL");
    const others = await makeOthers(send, [0, 1]);
    const client = await Client.create(send);
    const remove = async (id: string) => {
      const { status, body } = await send(`/tare/v1/sessions/${id}`, { method: "DELETE" });
      await body?.cancel();
      return status;
    };
    const removed = new Map<string, number>();
    await throughFullDisk(client, {
      async whileFull() {
        await servers[0]!.kill();
        servers[0] = await start("one");
        await client.assertNothingLost({ mayWait: true });
        // The database may need room for deletion too.
        for (const id of others) removed.set(id, await remove(id));
      },
      makeRoom: () => Deno.remove(`${disk}/ballast`),
    });
    for (const [id, status] of removed) assertEquals(await remove(id), { 204: 404, 507: 204 }[status]);
  } finally {
    for (const server of servers) await server.kill();
    await provider.close();
    await postgres.dropDatabase(url.href);
    await runSql(postgres.url, "DROP TABLESPACE small");
    await Deno.remove(folder, { recursive: true });
  }
}

import { assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { agentClient } from "../../../../packages/cli/agent_client.ts";
import { startCommand, startProcess } from "../../../../packages/app/server_process_fixture_test.ts";
import { openStore } from "@tare/session/sqlite";
import { ownerOf } from "../../../crash/owner.ts";
import { query, startPostgres } from "../postgres.ts";

const postgres = await startPostgres();

async function withFolders(test: (url: string, args: readonly string[], data: string) => Promise<void>) {
  const top = await Deno.makeTempDir();
  const url = await postgres.makeDatabase();
  const [workspace, data] = [join(top, "workspace"), join(top, "data")];
  await Deno.mkdir(workspace);
  try {
    await test(url, ["--port", "0", "--workspace", workspace, "--data", data], data);
  } finally {
    await postgres.dropDatabase(url);
    await Deno.remove(top, { recursive: true });
  }
}

const SECRETS = ["only for tests", "only%20for%20tests"];

Deno.test("TARE_DATABASE: servers share their store, also on one data folder, and print no password", () =>
  withFolders(async (TARE_DATABASE, args, data) => {
    const store = await openStore(join(data, "tare.db"));
    await store.close();
    const { pathname, host } = new URL(TARE_DATABASE);
    const sql = "SHOW unix_socket_directories";
    const [row] = await query<{ unix_socket_directories: string }>(TARE_DATABASE, sql);
    const socket = row!.unix_socket_directories;
    const address = join(data, "address");
    await Deno.writeTextFile(address, TARE_DATABASE.replace("127.0.0.1", encodeURIComponent(socket)));
    const one = await startProcess(args, { TARE_DATABASE });
    const two = await startProcess(args, { TARE_DATABASE: address });
    const [first, second] = [agentClient(one.url), agentClient(two.url)];
    const messages = new TextEncoder().encode('{"role":"user","content":"Hello?"}');
    const [session = ""] = await first.importSessions(messages);
    assertEquals(await second.questions(session), ["Hello?"]);
    assertEquals(await second.prompt(session), await first.prompt(session));
    const backup = await fetch(`${one.url}/tare/v1/backup`, { headers: ownerOf(data) });
    assertEquals(backup.status, 404);
    await backup.body?.cancel();
    assertEquals(Array.from(Deno.readDirSync(data), ({ name }) => name).sort(), [
      "address",
      "fd",
      "owner.json",
      "server-1.lock",
      "server-2.lock",
      "server.json",
      "tare.db",
      "tare.db.lock",
      "undo",
    ]);
    for (const [index, { end }] of [one, two].entries()) {
      const { code, stdout, stderr } = await end("SIGTERM");
      assertEquals(code, 0);
      assertStringIncludes(stdout, `sessions   in ${pathname.slice(1)} at ${[host, socket][index]}\n`);
      assertEquals(stderr, `The sessions in ${data} aren't in the database. Move them with tare move.\n`);
      for (const secret of SECRETS) assertEquals((stdout + stderr).includes(secret), false);
    }
  }));

Deno.test("TARE_DATABASE: an unusable address ends the start with an error that contains no password", () =>
  withFolders(async (url, args) => {
    const refused = async (change: (url: URL) => void) => {
      const address = new URL(url);
      change(address);
      const { code, stdout, stderr } = await startCommand(args, { TARE_DATABASE: address.href }).output();
      const [out, err] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assertEquals([code, out, err!.split("\n").length], [1, "", 2], err!);
      for (const secret of [...SECRETS, "planted"]) assertEquals(err!.includes(secret), false);
      return err!;
    };
    assertStringIncludes(
      await refused((address) => address.password = "planted"),
      "Check the name and the password.",
    );
    assertStringIncludes(await refused((address) => address.pathname = "/none"), "Create the database first");
    assertStringIncludes(
      await refused((address) => address.port = "1"),
      "Check that it is running and reachable.",
    );
  }));

Deno.test("metrics: a server reports its connections and its lease", () =>
  withFolders(async (TARE_DATABASE, args) => {
    const server = await startProcess(args, {
      ...{ TARE_DATABASE, TARE_METRICS: "open" },
    });
    const [row] = await query<{ seconds: number }>(
      TARE_DATABASE,
      "SELECT extract(epoch FROM lease)::integer AS seconds FROM tare.servers",
    );
    assertEquals(row, { seconds: 10 });
    const ask = async () => await (await fetch(`${server.url}/health/ready`)).text();
    await Promise.all(Array.from({ length: 20 }, ask));
    const connections = async () =>
      (await query(TARE_DATABASE, "SELECT 1 FROM pg_stat_activity WHERE application_name = 'tare'")).length;
    // The connections of the start are about to end; one more listens.
    while (await connections() > 5);
    assertEquals(await connections(), 5);
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    const valueOf = (name: string) =>
      Number(metrics.split("\n").find((line) => line.startsWith(`${name} `))?.split(" ")[1]);
    assertEquals(valueOf("tare_database_connections_max"), 4);
    // A request for metrics queries the database too.
    const [idle = 0, used = 0] = ["idle", "used"].map((state) =>
      valueOf(`tare_database_connections{db_client_connection_state="${state}"}`)
    );
    assertEquals(idle + used, 4);
    assertEquals([
      valueOf("tare_lease_good"),
      valueOf("tare_lease_losses_total"),
      valueOf("tare_sessions_held"),
    ], [
      1,
      0,
      0,
    ]);
    const remaining = valueOf("tare_lease_remaining_seconds");
    assertEquals(remaining > 0 && remaining <= 10, true, `${remaining}`);
    assertEquals((await server.end("SIGTERM")).code, 0);
  }));

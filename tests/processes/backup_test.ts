import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("backup.ts writes a backup from which another server continues with the same bytes", async () => {
  await withTransferServer(async ({ folder, client, session, env }) => {
    await Deno.writeTextFile(join(folder, "backup.db.part"), "of one that was broken off");
    const backup = await runEntry("backup", ["backup.db"], env);
    assertEquals([backup.code, backup.err], [0, ""]);
    assertMatch(backup.out, /^Wrote .*\/backup\.db: 1 session, \d+ events, 0\.\d MiB, all readable\.\n$/);
    const path = join(folder, "backup.db");
    assertEquals((await Deno.stat(path)).mode! & 0o777, 0o600);
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name).sort(), [
      "backup.db",
      "data",
      "workspace",
    ]);
    // Later sessions aren't in the first backup.
    await client.createSession();
    assertEquals((await runEntry("backup", [path], env)).out.includes(": 2 sessions, "), true);

    const restored = join(folder, "restored");
    await Deno.mkdir(restored);
    await Deno.copyFile(path, join(restored, "tare.db"));
    // The description of the shell tool depends on the sandbox, which this test's server lacks.
    const args = [
      "--port",
      "0",
      "--workspace",
      join(folder, "workspace"),
      "--data",
      restored,
      "--sandbox",
      "off",
    ];
    const other = await startProcess(args, { TARE_TOKEN: "secret" });
    try {
      const [here, there] = [client, agentClient(other.url, "secret")];
      const exported = async (of: typeof here) => await new Response(await of.exportSession(session)).text();
      assertEquals(await exported(there), await exported(here));
      assertEquals(await there.prompt(session), await here.prompt(session));
      await Array.fromAsync(await there.startTurn(session, "Again?"));
    } finally {
      await other.end("SIGTERM");
    }
  });
});

Deno.test("backup.ts prints its usage without a file, and fails with a wrong key", async () => {
  assertEquals((await runEntry("backup", [])).code, 2);
  assertStringIncludes((await runEntry("backup", ["--help"])).out, "deno task backup [--url URL] FILE");
  await withTransferServer(async ({ folder, env }) => {
    const refused = await runEntry("backup", ["backup.db"], { ...env, TARE_TOKEN: "wrong" });
    assertEquals([refused.code, refused.out], [1, ""]);
    assertMatch(refused.err, /Unauthorized: send a server key/);
    assertEquals([...Deno.readDirSync(folder)].map(({ name }) => name).includes("backup.db"), false);
  });
});

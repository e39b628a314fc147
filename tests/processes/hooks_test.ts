import { assert, assertEquals, assertMatch } from "@std/assert";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("hooks.ts creates, lists, changes and deletes a webhook, and lists its deliveries", async () => {
  const reported = Promise.withResolvers<string>();
  await using there = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, ({ headers }) => {
    reported.resolve(headers.get("webhook-id")!);
    return new Response(null, { status: 204 });
  });
  const url = `http://127.0.0.1:${there.addr.port}/hook`;
  await withTransferServer(async ({ client, env }) => {
    const run = async (...args: string[]) => {
      const { code, out, err } = await runEntry("hooks", args, env);
      assertEquals(code, 0, err);
      return { out, err };
    };
    const added = await run("add", url, "--types", "approval.requested,turn.ended");
    assertMatch(added.out, /^whsec_[\w+/]{43}=\n$/);
    const id = /wh_[0-9a-f-]{36}/.exec(added.err)![0];
    const line = `${id}  ${url}  turn.ended,approval.requested`;
    assertEquals((await run("list")).out, `${line}  delivering\n`);
    const session = await client.createSession();
    await Array.fromAsync(await client.startTurn(session, "Hello?"));
    const delivery = await reported.promise;
    const listed = (await run("deliveries", id)).out;
    assert(listed.includes(`  ${delivery}  turn.ended  ${session}  `), listed);
    assert(
      (await run("redeliver", id, delivery)).out.includes(`  ${delivery}  turn.ended  ${session}  waiting`),
    );
    assertMatch((await run("disable", id)).out, /disabled \(requested\) since \S+\n$/);
    assertEquals((await run("enable", id)).out, `${line}  delivering\n`);
    assertMatch((await run("rotate", id)).out, /^whsec_/);
    assertEquals((await run("remove", id)).out, `Removed webhook ${id}.\n`);
    assertEquals((await run("list")).out, "");
  }, ["--webhook-hosts", "127.0.0.1"]);
});

Deno.test("hooks.ts reports invalid options and a missing server", async () => {
  assertEquals(
    (await runEntry("hooks", ["add", "https://a.example", "--types", "turn"], { TARE_PORT: "1" })).err,
    'Cannot add a webhook: --types is "turn". Use a list of turn.ended, approval.requested.\n',
  );
  assertMatch((await runEntry("hooks", ["list"], { TARE_PORT: "1" })).err, /^Cannot reach the server at/);
  assertEquals((await runEntry("hooks", ["remove"])).code, 2);
  assertEquals((await runEntry("hooks", ["--help"])).code, 0);
});

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("doctor.ts explains cache misses as text and JSON", async () => {
  await withTransferServer(async ({ session, env }) => {
    const run = async (...args: string[]) => await runEntry("doctor", args, env);
    const report = JSON.parse((await run("--json")).out);
    assertEquals(report.sessions, 1);
    const printed = await run();
    assertEquals([printed.code, printed.err], [0, ""]);
    assertMatch(printed.out, /^1 session, \d+ calls: [\d.]+ % of [\d,]+ prompt tokens came from the cache\./);
    assertStringIncludes(printed.out, "\nUNAVOIDABLE OR UNKNOWN\n");
    for (const { name, remedy } of report.misses) {
      assertStringIncludes(printed.out, `  ${name}: `);
      assertStringIncludes(printed.out, `    ${remedy}\n`);
    }
    assertStringIncludes(printed.out, `of session ${session}.`);
    assertEquals((await run("--session", session)).out, printed.out);
    assertMatch((await run("--to", "2020-01-01")).out, /^0 sessions, 0 calls: /);
    assertStringIncludes((await run("--session", "none")).err, "Cannot find session none");
  });
});

Deno.test("doctor.ts reports invalid options and a missing server", async () => {
  assertEquals(await runEntry("doctor", ["--to", "today"]), {
    code: 1,
    out: "",
    err: "Cannot use --to today: it is not a day. Use the form 2026-01-31.\n",
  });
  assertEquals((await runEntry("doctor", ["--help"])).code, 0);
  assertMatch((await runEntry("doctor", [], { TARE_PORT: "1" })).err, /^Cannot reach the server at/);
});

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("doctor.ts says why prompts weren't read from the cache, in words and as JSON", async () => {
  await withTransferServer(async ({ session, env }) => {
    const run = async (...args: string[]) => await runEntry("doctor", args, env);
    const report = JSON.parse((await run("--json")).out);
    assertEquals(report.sessions, 1);
    const told = await run();
    assertEquals([told.code, told.err], [0, ""]);
    assertMatch(told.out, /^1 session, \d+ calls: [\d.]+ % of [\d,]+ prompt tokens came from the cache\./);
    assertStringIncludes(told.out, "\nHAD TO BE, OR NOBODY CAN SAY\n");
    for (const { name, remedy } of report.misses) {
      assertStringIncludes(told.out, `  ${name}: `);
      assertStringIncludes(told.out, `    ${remedy}\n`);
    }
    assertStringIncludes(told.out, `of session ${session}.`);
    assertEquals((await run("--session", session)).out, told.out);
    assertMatch((await run("--to", "2020-01-01")).out, /^0 sessions, 0 calls: /);
    assertStringIncludes((await run("--session", "none")).err, "Cannot find session none");
  });
});

Deno.test("doctor.ts says what is wrong", async () => {
  assertEquals(await runEntry("doctor", ["--to", "today"]), {
    code: 1,
    out: "",
    err: "Cannot use --to today: it must be a day, such as 2026-01-31.\n",
  });
  assertEquals((await runEntry("doctor", ["--help"])).code, 0);
  assertMatch((await runEntry("doctor", [], { TARE_PORT: "1" })).err, /^Cannot reach the server at/);
});

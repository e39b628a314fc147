import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("spend.ts says what calls have cost, by day and session, in words and as JSON", async () => {
  await withTransferServer(async ({ session, env }) => {
    const run = async (...args: string[]) => await runEntry("spend", args, env);
    const { all, rows: [day] } = JSON.parse((await run("--json")).out);
    const count = (value: number) => Math.round(value).toLocaleString("en");
    const byDay = await run();
    assertEquals([byDay.code, byDay.err], [0, ""]);
    const [head, , heads, row] = byDay.out.split("\n");
    assertEquals(
      head,
      `${
        count(all.tokenUnits)
      } token units; ${all.unpricedCalls} calls without a price for ${all.calls} calls. ` +
        "Days are those of UTC.",
    );
    assertEquals(heads?.trim().split(/ {2,}/), [
      ...["day", "token units", "calls", "cache reads", "new", "expired", "own rewrites", "changed", "lost"],
      "no price",
    ]);
    assertEquals(row?.split(/ +/), [
      ...[day.key, count(all.tokenUnits), String(all.calls)],
      ...[all.cacheReadTokenUnits, all.newTokenUnits, 0, 0, 0, 0, all.calls].map(count),
    ]);
    assert(all.cacheReadTokenUnits > 0 && all.newTokenUnits > 0);

    const bySession = (await run("--by", "session")).out;
    assertStringIncludes(bySession, `\n${session}  Hello?, `);
    assertStringIncludes(bySession, "More of one of them: deno task spend --session ID");
    const spend = JSON.parse((await run("--session", session, "--json")).out);
    const ofSession = (await run("--session", session)).out;
    assertMatch(ofSession, /^[\d,]+ token units; .*\n\ndearest turns .*\nturn 1 /);
    assert(spend.results.length > 0);
    for (const { tool, subject, tokenUnits, calls, tokens, place, state } of spend.results) {
      const cells = [tool, subject, "–", count(tokenUnits), calls, count(tokens), place, state].filter(
        Boolean,
      );
      assert(ofSession.split("\n").some((line) => line.split(/ +/).join(" ") === cells.join(" ")), ofSession);
    }
    assertMatch((await run("--to", "2020-01-01")).out, /^\$0 \(0 token units\) for 0 calls\./);
  });
});

Deno.test("spend.ts says what is wrong", async () => {
  assertEquals(await runEntry("spend", ["--by", "night"]), {
    code: 1,
    out: "",
    err: "Cannot cut by night: there are day, model, session, agent.\n",
  });
  assertEquals(
    (await runEntry("spend", ["--to", "today"])).err,
    "Cannot use --to today: it must be a day, such as 2026-01-31.\n",
  );
  assertEquals((await runEntry("spend", ["--help"])).code, 0);
  assertMatch((await runEntry("spend", [], { TARE_PORT: "1" })).err, /^Cannot reach the server at/);
});

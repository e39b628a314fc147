import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runEntry, withTransferServer } from "./transfer_fixture.ts";

Deno.test("spend.ts reports costs by day and session as text and JSON", async () => {
  await withTransferServer(async ({ session, env }) => {
    const run = async (...args: string[]) => await runEntry("spend", args, env);
    const { all, pricesDate, rows: [day] } = JSON.parse((await run("--json")).out);
    const count = (value: number) => Math.round(value).toLocaleString("en");
    const byDay = await run();
    assertEquals([byDay.code, byDay.err], [0, ""]);
    const [head, , heads, row] = byDay.out.split("\n");
    assertEquals(
      head,
      `${count(all.costUnits)} cost units for ${all.calls} calls (${all.unpricedCalls} without a price), ` +
        `at list prices of ${pricesDate} unless set or reported. ` +
        "Days are in UTC.",
    );
    assertEquals(heads?.trim().split(/ {2,}/), [
      ...["day", "cost units", "calls", "cache reads", "new", "expired", "rewrites", "changed", "dropped"],
      "no price",
    ]);
    assertEquals(row?.split(/ +/), [
      ...[day.key, count(all.costUnits), String(all.calls)],
      ...[all.cacheReadCostUnits, all.newCostUnits, 0, 0, 0, 0, all.calls].map(count),
    ]);
    assert(all.cacheReadCostUnits > 0 && all.newCostUnits > 0);

    const bySession = (await run("--by", "session")).out;
    assertStringIncludes(bySession, `\n${session}  Hello?, `);
    assertStringIncludes(bySession, "Details of a session: deno task spend --session ID");
    const spend = JSON.parse((await run("--session", session, "--json")).out);
    const ofSession = (await run("--session", session)).out;
    assertMatch(ofSession, /^[\d,]+ cost units for \d calls .*\n\nmost expensive turns .*\nturn 1 /);
    assert(spend.results.length > 0);
    for (const { tool, subject, costUnits, calls, tokens, place, state } of spend.results) {
      const name = state === "visible" ? "visible" : state;
      const cells = [tool, subject, "–", count(costUnits), calls, count(tokens), place, name].filter(
        Boolean,
      );
      assert(ofSession.split("\n").some((line) => line.split(/ +/).join(" ") === cells.join(" ")), ofSession);
    }
    assertMatch((await run("--to", "2020-01-01")).out, /^\$0 \(0 cost units\) for 0 calls, at list prices/);
  });
});

Deno.test("spend.ts reports invalid options and a missing server", async () => {
  assertEquals(await runEntry("spend", ["--by", "night"]), {
    code: 1,
    out: "",
    err: "Cannot group by night. Use one of day, model, session, agent, day_agent.\n",
  });
  assertEquals(
    (await runEntry("spend", ["--to", "today"])).err,
    "Cannot use --to today: it is not a day. Use the form 2026-01-31.\n",
  );
  assertEquals((await runEntry("spend", ["--help"])).code, 0);
  assertMatch((await runEntry("spend", [], { TARE_PORT: "1" })).err, /^Cannot reach the server at/);
});

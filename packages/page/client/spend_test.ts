import { assert, assertEquals } from "@std/assert";
import type { MissesReport, SessionSpend, SpendReport } from "../../server/client.ts";
import type { Browser, Page } from "puppeteer-core";
import { assertAccessible, click, openPage, seen, startBrowser } from "./browser_fixture_test.ts";
import { startPageServer } from "./server_fixture_test.ts";
import { RESULTS, TOOLS, USER, workOnDays } from "./work_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const DAY_MS = 24 * 60 * 60_000;

const dollars = (usd: number) =>
  usd.toLocaleString("en", { style: "currency", currency: "USD", maximumSignificantDigits: 3 });

Deno.test("page: yesterday's cost, its session, file and cache misses are four clicks away", async () => {
  await using server = await startPageServer({ prepare: (data) => workOnDays(data, [1]) });
  const messages = [USER, ...RESULTS, { role: "assistant", content: "Well." }, {
    role: "user",
    content: "Thanks.",
  }];
  await (await server.ask("/v1/chat/completions", { model: "scripted", messages, tools: TOOLS })).text();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  let clicks = 0;
  const go = async (name: string, role: "link" | "button") => {
    clicks++;
    await page.locator(`::-p-aria(${name}[role="${role}"])`).click();
  };
  const yesterday = new Date(Date.now() - DAY_MS).toISOString().slice(0, 10);
  const json = async (path: string) => await (await server.ask(path)).json();
  const query = `from=${yesterday}&to=${yesterday}`;
  const { all }: SpendReport = await json(`/tare/v1/spend?${query}`);
  assertEquals([all.calls, all.unpricedCalls], [5, 1]);

  await go("Overview", "link");
  await seen(page, "[aria-label='By day'] tbody tr", dollars(all.usd));
  const rows = await cells(page, "By day");
  assertEquals(rows.map(([day, cost, unpriced]) => [day, cost, unpriced]), [
    ["All days", dollars(all.usd), "2"],
    [`Today, ${new Date().toISOString().slice(0, 10)}`, rows[1]?.[1], "1"],
    [`Yesterday, ${yesterday}`, dollars(all.usd), "1"],
  ]);

  await go(`Yesterday, ${yesterday}`, "button");
  await seen(page, "h2", `Yesterday, ${yesterday}: ${dollars(all.usd)}`);
  await seen(page, "[aria-label='By session'] a", "Fix the parser.");
  const { rows: sessions }: SpendReport = await json(`/tare/v1/spend?by=session&${query}`);
  const cellsOf = await cells(page, "By session");
  assertEquals(cellsOf.map(([title, cost, unpriced]) => [title, cost, unpriced]), [
    ["Fix the parser.", dollars(sessions[0]!.usd), ""],
    // An unknown cost isn't displayed as free.
    [
      "What is the time, if I may ask?",
      `${Math.round(sessions[1]!.costUnits).toLocaleString("en")} cost units`,
      "1",
    ],
  ]);
  await assertAccessible(page, "spend");

  // Not part of the counted clicks.
  await click(page, ".misses summary");
  await seen(page, "[aria-label='Causes of cache misses'] tbody tr:first-child th", "expired");
  const { misses }: MissesReport = await json(`/tare/v1/misses?${query}`);
  const found = await cells(page, "Causes of cache misses");
  assertEquals(
    found.map(([name, cost, , tokens]) => [name, cost, tokens]),
    misses.map(({ name, usd, tokens }) => [name, dollars(usd), tokens.toLocaleString("en")]),
  );
  assert(misses[0]!.avoidable && found[0]![5]!.startsWith(misses[0]!.remedy));
  await assertAccessible(page, "misses");

  await go("Fix the parser.", "link");
  await seen(page, "[aria-label='Most expensive results in the prompt'] th a", "src/parser.ts");
  const spend: SessionSpend = await json(`/tare/v1/sessions/${sessions[0]!.key}/spend`);
  const [dearest] = await cells(page, "Most expensive results in the prompt");
  assertEquals(dearest?.slice(0, 3), ["src/parser.ts", "read_file", dollars(spend.carried[0]!.usd)]);
  const why = (await cells(page, "Cost by cause")).find(([name]) => name === "Expired cache");
  assertEquals(why?.[1], dollars(spend.all.expiredUsd));
  assertEquals(
    why?.[3],
    "cache misses: the call came after the cache’s lifetime, so the prompt was read again",
  );
  assert(spend.all.expiredUsd > spend.all.usd / 4);
  const { prompt, ...session } = await json(`/tare/v1/sessions/${sessions[0]!.key}`);
  assert(prompt.tokens > 0);
  const [facts] = await page.$$eval(".facts", (all) => all.map(({ textContent }) => textContent));
  assertEquals(facts?.split(" · ").slice(0, 3), [session.model, "some-agent", dollars(session.usd)]);
  assertEquals(clicks, 3);

  await go("Evict: src/parser.ts", "button");
  await seen(page, "[aria-label='Most expensive results in the prompt'] td", "evicted at the next rewrite");
  assertEquals(clicks, 4);
  const { pins } = await json(`/tare/v1/sessions/${sessions[0]!.key}/pins`);
  assertEquals(pins.map(({ place, wish }: { place: number; wish: string }) => [place, wish]), [[
    4,
    "evict",
  ]]);
  await assertAccessible(page, "spend-session");

  for (
    const [name, first] of [["By tool", "read_file"], ["By turn", "Turn 1"], [
      "By path or command",
      "src/parser.ts",
    ]]
  ) {
    await page.locator(`::-p-aria(${name}[role="button"])`).click();
    await seen(page, `[aria-label='${name}'] tbody tr:first-child th`, first!);
  }
  await go("src/parser.ts", "link");
  await seen(page, ".detail h2", "src/parser.ts (read_file)");
  await seen(page, ".pin", "Pending: evicted at the next rewrite.");
});

async function cells(page: Page, label: string): Promise<readonly (readonly string[])[]> {
  return await page.$$eval(
    `[aria-label='${label}'] tbody tr`,
    (rows) => rows.map((row) => [...row.children].map(({ textContent }) => textContent?.trim() ?? "")),
  );
}

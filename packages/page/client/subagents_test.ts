import { assertEquals } from "@std/assert";
import { toolCall } from "@tare/simulator";
import type { Browser } from "puppeteer-core";
import { assertAccessible, click, openPage, seen, startBrowser, type } from "./browser_fixture_test.ts";
import { startPageServer } from "./server_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

Deno.test("page: subagents are listed after their session and linked from their calls", async () => {
  await using server = await startPageServer({ args: ["--delegate", "on"] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push(
    { tool_calls: [toolCall("delegate", { task: "Count the notes." })] },
    { content: "There are 400." },
    { content: "Done." },
  );
  await type(page, "textarea", "How many notes are there?");
  await page.keyboard.press("Enter");
  await seen(page, ".end", "3 calls");
  await seen(page, ".sessions .subagent .title", "Count the notes.");
  const titles = await page.$$eval(".sessions .title", (all) => all.map(({ textContent }) => textContent));
  assertEquals(titles, ["How many notes are there?", "Count the notes."]);
  await click(page, ".call summary");
  await click(page, ".call[open] a");
  await seen(page, "h1", "Count the notes.");
  await seen(page, ".reply", "There are 400.");
  await assertAccessible(page, "helper");
});

import { assertEquals } from "@std/assert";
import { toolCall } from "@tare/simulator";
import { assertAccessible, openPage, press, seen, startBrowser } from "./browser_fixture_test.ts";
import { startPageServer } from "./server_fixture_test.ts";

const ANSWER = [
  "There are **400 notes** in `notes.txt`.\n",
  "| part | lines |\n|---|---:|\n| first | 200 |\n| second | 200 |\n",
  "1. Read the first.\n2. Read the second.\n",
  "```ts\nconst notes = 400;\n```\n",
].join("\n");

Deno.test("The page sends, streams, shows calls with their results, and what the ledger says", async () => {
  await using server = await startPageServer();
  const browser = await startBrowser();
  try {
    await using open = await openPage(browser, server.url);
    const { page } = open;
    await seen(page, "h1", "What is to be done?");
    await assertAccessible(page, "new");
    server.replies.push(
      { content: "The file has to be read.", tool_calls: [toolCall("read_file", { path: "notes.txt" })] },
      { content: ANSWER },
    );
    await page.type("textarea", "How many notes are there?");
    await page.keyboard.press("Enter");
    await seen(page, ".end", "2 calls");
    await seen(page, ".reply strong", "400 notes");
    assertEquals(await page.$$eval(".said", (all) => all.map(({ textContent }) => textContent)), [
      "How many notes are there?",
    ]);
    await assertAccessible(page, "talk");
  } finally {
    await browser.close();
  }
});

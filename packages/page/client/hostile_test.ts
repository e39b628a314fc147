import { assertEquals } from "@std/assert";
import type { Message } from "@tare/messages";
import { toolCall } from "@tare/simulator";
import type { Browser, Page } from "puppeteer-core";
import {
  assertAccessible,
  click,
  openPage,
  press,
  seen,
  startBrowser,
  type,
} from "./browser_fixture_test.ts";
import { longHistory, startPageServer } from "./server_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const HOSTILE = [
  "<script>alert(1)</script><img src=x onerror=alert(2)><svg onload=alert(3)>",
  "\u202e\u2066txt.exe\u2069\u202c",
  "مرحبا بالعالم",
  "[a](javascript:alert(4)) ![b](//evil.example/x.png) <a href='data:text/html,x'>c</a>",
  "\0\u0007\ufeff\ud800",
  "]]>--></style></textarea>\"'`${7*7}{{7*7}}",
].join(" ");

async function foreignElements(page: Page): Promise<readonly string[]> {
  return await page.$$eval(
    "script, img, iframe, object, embed, base, link, meta, style, [onerror], [onload]",
    (all) =>
      all.filter((element) => !element.matches("head > meta, head > link, head > script[src='/page.js']"))
        .map(({ outerHTML }) => outerHTML),
  );
}

async function watchPolicy(page: Page): Promise<() => Promise<readonly string[]>> {
  await page.evaluateOnNewDocument(() => {
    const reported: string[] = [];
    document.addEventListener(
      "securitypolicyviolation",
      ({ violatedDirective, blockedURI }) => reported.push(`${violatedDirective} ${blockedURI}`),
    );
    Object.assign(globalThis, { reported });
  });
  return () => page.evaluate(() => (globalThis as unknown as { reported: string[] }).reported);
}

Deno.test("page: hostile text has no effect in any view", async () => {
  await using server = await startPageServer();
  const id = await server.import([
    { role: "system", content: HOSTILE },
    { role: "user", content: HOSTILE },
    {
      role: "user",
      content: [{ type: "image_url", image_url: { url: "http://127.0.0.1:1/x.png" } }, {
        type: "file",
        file: { filename: HOSTILE },
      }],
    },
    {
      role: "assistant",
      content: HOSTILE,
      reasoning_content: HOSTILE,
      tool_calls: [{
        id: HOSTILE,
        type: "function",
        function: { name: HOSTILE, arguments: JSON.stringify({ a: HOSTILE }) },
      }],
    },
    { role: "tool", tool_call_id: HOSTILE, content: HOSTILE },
    { role: "assistant", refusal: HOSTILE },
  ]);
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  const violations = await watchPolicy(page);
  await open.reload();
  await seen(page, ".message", "مرحبا");
  for (const details of await page.$$("details")) await details.evaluate((one) => one.open = true);
  assertEquals(await foreignElements(page), []);
  assertEquals(await page.$$eval(".log a", (all) => all.length), 0);
  await assertAccessible(page, "hostile");

  server.replies.push(
    {
      content: HOSTILE,
      reasoning_content: HOSTILE,
      tool_calls: [
        toolCall(HOSTILE, HOSTILE),
        toolCall("shell", { command: "printf '<b>%s</b>\\\\033[31m' bold" }),
      ],
    },
    { content: HOSTILE },
  );
  await type(page, "textarea", HOSTILE.replaceAll("\0", ""));
  await press(page, "Send");
  await seen(page, ".end", "2 calls");
  assertEquals(await foreignElements(page), []);
  for (const view of ["calls", "prompt"]) {
    await page.goto(`${server.url}/#/session/${id}/${view}`);
    await seen(page, ".totals dd", /\d/);
    assertEquals(await foreignElements(page), []);
    await assertAccessible(page, `hostile-${view}`);
  }
  await page.goto(`${server.url}/#/session/${encodeURIComponent(HOSTILE.toWellFormed())}/%zz`);
  await seen(page, ".error", "Cannot find");
  assertEquals(await foreignElements(page), []);
  assertEquals(await violations(), []);
});

Deno.test("page: a line of a megabyte is displayed in portions", async () => {
  await using server = await startPageServer();
  const line = "x".repeat(2 ** 20);
  const messagesWith = (content: string): Message[] => [{ role: "user", content }, {
    role: "assistant",
    content,
    tool_calls: [{ id: "a", type: "function", function: { name: "f", arguments: content } }],
  }, { role: "tool", tool_call_id: "a", content }];
  const id = await server.import(messagesWith(line));
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, ".message button", "4,000 of 1,048,576 characters");
  await click(page, ".message button");
  await seen(page, ".message button", "64,000 of 1,048,576 characters");
  await click(page, ".call summary");
  const lengths = await page.$$eval(".log pre", (all) => all.map(({ textContent }) => textContent!.length));
  assertEquals(lengths, [64_000, 4_000, 4_000, 4_000]);
});

Deno.test("page: the newest of 2,000 messages are rendered, older ones when they become visible", async () => {
  await using server = await startPageServer();
  const id = await server.import(longHistory(2_000));
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, ".reply", "File 499 says");
  const entries = () => page.$$eval(".entries > *", (all) => all.length);
  const few = await entries();
  assertEquals(few < 100, true);
  const [top] = await page.$$eval(".message", ([first]) => [first!.textContent!]);
  await page.$eval(".log", (log) => log.scrollTop = 0);
  await page.waitForFunction((few) => document.querySelectorAll(".entries > *").length > few, {}, few);
  const isInView = await page.$$eval(".message", (all, top) => {
    const { y } = all.find(({ textContent }) => textContent === top)!.getBoundingClientRect();
    return y > 0 && y < innerHeight;
  }, top);
  assertEquals(isInView, true);
});

import { assert, assertEquals } from "@std/assert";
import type { CallReport } from "@tare/session/internal/report";
import { toolCall } from "@tare/simulator";
import type { Browser, Page } from "puppeteer-core";
import type { SpendReport } from "../../server/client.ts";
import {
  assertAccessible,
  click,
  holdFirst,
  openPage,
  press,
  seen,
  startBrowser,
  type,
} from "./browser_fixture_test.ts";
import { longHistory, type PageServer, startPageServer } from "./server_fixture_test.ts";
import { workOnDays } from "./work_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const texts = (page: Page, selector: string) =>
  page.$$eval(selector, (all) => all.map(({ textContent }) => textContent?.trim()));

const PHONE = { width: 390, height: 844 };

const PLAN = toolCall("update_plan", { steps: ["Read", "Write", "Check"] });

async function approvalRules(): Promise<string> {
  const file = await Deno.makeTempFile();
  await Deno.writeTextFile(file, "[]");
  return file;
}

async function send(page: Page, text: string): Promise<void> {
  await type(page, "textarea", text);
  await page.keyboard.press("Enter");
}

Deno.test("layout: a phone leaves at least 60 % of its height to the conversation, with a plan and changed files", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await page.setViewport(PHONE);
  server.replies.push(
    { tool_calls: [PLAN, toolCall("write_file", { path: "new.txt", content: "new" })] },
    { content: "A line of the reply.\n\n".repeat(40) },
  );
  await send(page, "Write a file, with a plan, and describe at length what it contains.");
  await seen(page, ".changes summary", "1 file changed");
  await page.waitForSelector(".plan");
  const heightOf = (selector: string) =>
    page.$eval(selector, (element) => element.getBoundingClientRect().height);
  const height = await heightOf(".log");
  assert(height >= 0.6 * PHONE.height, `${height} pixels`);
  assert(await heightOf(".title-row") < 50);
  assert(await heightOf(".tab-row") < 45);
  assertEquals(await page.$eval(".plan", (plan) => plan.hasAttribute("open")), false);
  await assertAccessible(page, "phone");

  await page.setViewport(PHONE);
  const isVisible = (selector: string) => page.$eval(selector, (element) => element.checkVisibility());
  assertEquals([await isVisible(".sidebar"), await isVisible("#actions")], [false, false]);
  await press(page, "Sessions");
  assertEquals(await isVisible(".sidebar"), true);
  await page.keyboard.press("Escape");
  assertEquals(await isVisible(".sidebar"), false);
  await press(page, "Sessions");
  await page.locator('::-p-aria(Overview[role="link"])').click();
  await seen(page, "h1", "Overview");
  assertEquals(await isVisible(".sidebar"), false);
  await page.goBack();
  await press(page, "Actions");
  await press(page, "Rename");
  await seen(page, "dialog h2", "Rename this session");
  assertEquals(await isVisible("#actions"), false);
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"));
  assertEquals(await page.evaluate(() => document.activeElement?.getAttribute("aria-label")), "Actions");
});

Deno.test("layout: the drawer and the actions of a phone fit and are accessible", async () => {
  await using server = await startPageServer({ prepare: (data) => workOnDays(data, [1]) });
  const id = await server.import(longHistory(8));
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  for (const name of ["Sessions", "Actions"]) {
    await page.setViewport(PHONE);
    await press(page, name);
    // At 1280 pixels both are part of the page.
    await assertAccessible(page, `popover-${name}`);
    await page.setViewport(PHONE);
    await page.keyboard.press("Escape");
  }
});

const ARGS = ["--window", "16000", "--price", "input=2.5,output=15,cacheRead=0.25"];

async function rewrittenSession(server: PageServer): Promise<string> {
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  for (let turn = 0; turn < 2; turn++) {
    for (let from = 0; from < 5; from++) {
      const command = `seq ${from}${turn}000 ${from}${turn}900`;
      server.replies.push({ tool_calls: [toolCall("shell", { command })] });
    }
    server.replies.push({ content: "These are numbers." });
    await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "Count." })).text();
  }
  return id;
}

Deno.test("charts: each day's cost is stacked by cause or agent next to its baseline, and selected as in the table", async () => {
  await using server = await startPageServer({
    args: ARGS,
    prepare: async (data) => {
      await workOnDays(data, [12, 9, 8, 5, 3, 2, 1]);
      await workOnDays(data, [4, 2, 1], "other-agent");
    },
  });
  await rewrittenSession(server);
  await using open = await openPage(browser, server.at("/overview"));
  const { page } = open;
  await seen(page, ".legend", "Cache reads");
  const { all, rows }: SpendReport = await (await server.ask("/tare/v1/spend?by=day")).json();
  const { rows: agents }: SpendReport = await (await server.ask("/tare/v1/spend?by=day_agent")).json();
  const highest = Math.max(...rows.map(({ usd, baselineUsd }) => Math.max(usd, baselineUsd)));
  /** Returns the height of each bar's part in pixels, from the chart's paths. */
  const heightsOf = (color: string) =>
    page.$eval(
      `.chart path.${color}`,
      (path) =>
        [...path.getAttribute("d")!.matchAll(/M[\d.]+ [\d.]+h[\d.]+v([\d.]+)/g)].map(([, height]) =>
          Number(height)
        ),
    );
  const reads = rows.toReversed().filter(({ cacheReadUsd }) => cacheReadUsd > 0);
  const heights = await heightsOf("cacheRead");
  assertEquals(heights.length, reads.length);
  for (const [at, { cacheReadUsd }] of reads.entries()) {
    assert(Math.abs(heights[at]! - Math.max(0.5, cacheReadUsd / highest * 174)) <= 1.2);
  }
  assertEquals(await texts(page, ".legend li"), [
    ...["Cache reads", "New content", "Expired cache", "Rewrites by Tare", "Early cache loss", "Output"]
      .filter((name) => name !== "Early cache loss" || all.lostUsd > 0),
    "Baseline (estimated cost without Tare)",
  ]);
  await assertAccessible(page, "overview-days");
  await click(page, ".misses summary");
  await seen(page, "[aria-label='Causes of cache misses'] tbody tr", "expired");
  assertEquals(await scrolling(page), []);
  await page.focus("[role=slider]");
  await page.keyboard.press("ArrowLeft");
  const yesterday = rows[1]!;
  await seen(page, "tr.selected", `Yesterday, ${yesterday.key}`);
  const text = await page.$eval("[role=slider]", (slider) => slider.getAttribute("aria-valuetext"));
  assert(text?.startsWith(`Yesterday, ${yesterday.key}: $`), text ?? "");

  await press(page, "Stacked by agent");
  await seen(page, ".legend", "other-agent");
  assertEquals(
    new Set((await texts(page, ".legend li")).slice(0, 3)),
    new Set(["tare", "other-agent", "some-agent"]),
  );
  const heightOfAgent = await heightsOf("new");
  const [first] = await texts(page, ".legend li");
  assertEquals(
    heightOfAgent.length,
    agents.filter(({ key, usd }) => key.endsWith(` ${first}`) && usd > 0).length,
  );
  await assertAccessible(page, "overview-agents");
});

/** Returns the labels of tables that are wider than their space. */
function scrolling(page: Page): Promise<(string | null)[]> {
  return page.$$eval(
    ".scroll",
    (all) =>
      all.filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth).map((one) =>
        `${one.getAttribute("aria-label")}: ${one.scrollWidth} of ${one.clientWidth}`
      ),
  );
}

Deno.test("charts: each call's prompt size is displayed against the window, with evictions and cache misses marked", async () => {
  await using server = await startPageServer({ args: ARGS });
  const id = await rewrittenSession(server);
  await using open = await openPage(browser, server.at(`/session/${id}/calls`));
  const { page } = open;
  await seen(page, ".chart text.limit", "context window: 16,000 tokens");
  const { calls }: { readonly calls: readonly CallReport[] } =
    await (await server.ask(`/tare/v1/sessions/${id}/calls`))
      .json();
  const evicted = calls.filter(({ rewrites }) => rewrites.length > 0).length;
  const isMiss = ({ cause }: CallReport["uncached"][number]) => cause !== "new" && cause !== "first_call";
  const missed = calls.filter(({ uncached }) => uncached.some(isMiss)).length;
  assert(evicted > 0 && missed > 0);
  const marks = [(await page.$$("svg path.rewritten")).length, (await page.$$("svg path.missed")).length];
  assertEquals(marks, [evicted, missed]);
  assertEquals((await texts(page, ".legend li")).slice(-3), [
    "Baseline (without Tare)",
    "Evicted before this call",
    "Cache miss",
  ]);
  // The same numbers, in words and in a table.
  await page.focus("[role=slider]");
  await page.keyboard.press("Home");
  const first = calls.findIndex(({ rewrites }) => rewrites.length > 0);
  for (let at = 0; at < first; at++) await page.keyboard.press("ArrowRight");
  await page.waitForFunction(() =>
    document.querySelector("[role=slider]")?.getAttribute("aria-valuetext")?.includes("evicted before it")
  );
  const inTable = await texts(page, "[aria-label='Table of calls'] td:nth-child(6)");
  assertEquals(inTable.filter((cell) => cell !== "").length, missed);
  await assertAccessible(page, "session-window");
});

Deno.test("charts: the colors of a chart differ from each other and from the background, in both palettes", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at("/overview"));
  const { page } = open;
  const palettes: string[][] = [];
  for (const value of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value }]);
    palettes.push(
      await page.evaluate(() => {
        const names = [
          "cached",
          "written",
          "uncached",
          "output",
          "expired",
          "rewrite",
          "changed",
          "lost",
          "keep-alive",
        ];
        const style = getComputedStyle(document.documentElement);
        return ["paper", ...names].map((name) => style.getPropertyValue(`--${name}`).trim());
      }),
    );
  }
  const luminance = (hex: string) =>
    [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16) / 255)
      .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
      .reduce((sum, part, at) => sum + part * [0.2126, 0.7152, 0.0722][at]!, 0);
  for (const [paper, ...colors] of palettes) {
    assertEquals(new Set(colors).size, colors.length);
    for (const color of colors.slice(1)) {
      const [low, high] = [luminance(paper!), luminance(color)].sort((a, b) => a - b);
      const contrast = (high! + 0.05) / (low! + 0.05);
      assert(contrast >= 2.3, `${color} on ${paper}: ${contrast}`);
    }
  }
  assert(palettes[0]!.every((color, at) => color !== palettes[1]![at]));
});

Deno.test("faults: the header's cost is that of the newest step while the turn runs", async () => {
  await using server = await startPageServer({ args: ARGS });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push({ tool_calls: [toolCall("read_file", { path: "notes.txt" })] }, { content: "Done." });
  const { go } = server.hold(0, 1);
  await send(page, "Read.");
  await seen(page, ".call .args", "notes.txt");
  const cost = async () => {
    const { sessions: [{ totals }] } = await (await server.ask("/tare/v1/sessions")).json();
    return totals.usd.toLocaleString("en", {
      style: "currency",
      currency: "USD",
      maximumSignificantDigits: 3,
    });
  };
  await seen(page, ".facts", / · \$0\.\d+ ·/);
  const first = await cost();
  await seen(page, ".facts", ` · ${first} ·`);
  assertEquals(await texts(page, ".end"), []);
  go();
  await seen(page, ".end", "2 calls");
  const second = await cost();
  assert(second !== first);
  await seen(page, ".facts", ` · ${second} ·`);
});

Deno.test("faults: buttons have space around their names in every dialog", async () => {
  await using server = await startPageServer();
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  for (const name of ["Rename", "Model", "Share", "Delete"]) {
    await press(page, name);
    await page.waitForSelector("dialog button");
    const paddings = await page.$$eval(
      "dialog button",
      (all) => all.map((button) => parseFloat(getComputedStyle(button).paddingInlineStart)),
    );
    assertEquals(paddings.filter((padding) => padding < 10), []);
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => !document.querySelector("dialog"));
  }
});

Deno.test("faults: a reply's table breaks no number or word, and scrolls if it is too wide", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const head = "| " + Array.from({ length: 12 }, (_, at) => `column${at}`).join(" | ") + " |\n";
  const row = "| " + Array.from({ length: 12 }, (_, at) => `1,234,567,89${at}`).join(" | ") + " |\n";
  server.replies.push({ content: `${head}|${"---|".repeat(12)}\n${row.repeat(3)}` });
  await send(page, "Show a table.");
  await seen(page, ".end", "1 call");
  for (const width of [390, 1280]) {
    await page.setViewport({ width, height: 844 });
    const lines = await page.$$eval(".reply td, .reply th", (all) =>
      all.map((cell) => {
        const range = document.createRange();
        range.selectNodeContents(cell);
        return range.getClientRects().length;
      }));
    assertEquals(new Set(lines), new Set([1]));
  }
  assert(await page.$eval(".reply .scroll", ({ scrollWidth, clientWidth }) => scrollWidth > clientWidth));
  await assertAccessible(page, "table");
});

Deno.test("faults: the log ends at its end after a turn that changed files, and after a plan", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push(
    { tool_calls: [PLAN, toolCall("write_file", { path: "new.txt", content: "new" })] },
    { content: "A line of the reply.\n\n".repeat(60) },
  );
  await send(page, "Write it.");
  await seen(page, ".changes summary", "1 file changed by a turn");
  const isAtEnd = () => {
    const { scrollHeight, scrollTop, clientHeight } = document.querySelector(".log")!;
    return scrollHeight > clientHeight && scrollHeight - scrollTop - clientHeight < 1;
  };
  await page.waitForFunction(isAtEnd);
  await click(page, ".changes summary");
  await page.waitForFunction(isAtEnd);
});

Deno.test("faults: the list marks sessions that wait for approval", async () => {
  const rules = await approvalRules();
  await using server = await startPageServer({ args: ["--approvals", rules] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push({ tool_calls: [toolCall("shell", { command: "echo one >> log" })] }, {
    content: "Done.",
  });
  await send(page, "Run it.");
  await seen(page, ".sessions .badge", "needs approval");
  await assertAccessible(page, "needs-approval");
  await press(page, "Allow");
  await seen(page, ".reply", "Done.");
  await page.waitForFunction(() => !document.querySelector(".sessions .badge"));
  await Deno.remove(rules);
});

Deno.test("faults: eviction is offered only where the server accepts it", async () => {
  for (const args of [[], ["--policy", "classic"]]) {
    await using server = await startPageServer({ args });
    server.replies.push(
      {
        tool_calls: [
          toolCall("shell", { command: "echo short" }),
          toolCall("read_file", { path: "notes.txt" }),
        ],
      },
      { content: "Done." },
    );
    const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
    await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "Read." })).text();
    await using open = await openPage(browser, server.at(`/session/${id}/calls`));
    const { page } = open;
    await seen(page, "[aria-label='Most expensive results in the prompt'] tbody tr", "notes.txt");
    const offers = await texts(page, "[aria-label='Most expensive results in the prompt'] td:last-child");
    assertEquals(offers, args.length === 0 ? ["Evict", "not possible"] : ["not possible", "not possible"]);
    await page.goto(`${server.url}/#/session/${id}/prompt/message-3`);
    await seen(page, ".detail h2", "echo short");
    assertEquals(await texts(page, ".pin button"), args.length === 0 ? ["Retain"] : []);
  }
});

Deno.test("faults: an imported session displays its share of the window before its first call", async () => {
  await using server = await startPageServer();
  const id = await server.import(longHistory(40));
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, ".facts", /\d of the context window|[1-9]\d?(\.\d)?% of the context window/);
  const { tokens } = await (await server.ask(`/tare/v1/sessions/${id}/prompt`)).json();
  const share = (tokens / 128_000).toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
  await seen(page, ".facts", `${share} of the context window`);
  assert(!share.startsWith("0%"));
});

Deno.test("faults: headings have the family of the text in every view", async () => {
  await using server = await startPageServer();
  const id = await server.import(longHistory(8));
  await using open = await openPage(browser, server.at());
  const { page } = open;
  for (const path of ["/", "/overview", `/session/${id}`, `/session/${id}/prompt`]) {
    await page.goto(`${server.url}/#${path}`);
    await page.waitForSelector("h1");
    const families = await page.$$eval(
      "body, h1, h2, h3, .brand, dd",
      (all) => [...new Set(all.map((element) => getComputedStyle(element).fontFamily))],
    );
    assertEquals(families.length, 1);
    assert(!/Charter|Cambria|(^|[ ,])serif/.test(families[0]!));
  }
});

Deno.test("home: displays folder, model, what the agent may do, and three examples", async () => {
  const rules = await approvalRules();
  for (const args of [[], ["--approvals", rules]]) {
    await using server = await startPageServer({ args });
    await using open = await openPage(browser, server.at());
    const { page } = open;
    await seen(page, ".agent-facts", "Folder");
    const { workspace } = await (await server.ask("/tare/v1/agent")).json();
    const facts = await texts(page, ".agent-facts dd");
    assertEquals(facts.slice(0, 2), [workspace, "scripted, context window of 128,000 tokens"]);
    assertEquals(
      facts[3],
      args.length === 0
        ? "not needed: every call runs at once"
        : "needed for all but reading and sandboxed commands",
    );
    await assertAccessible(page, `home-${args.length}`);
    const examples = await texts(page, ".examples button");
    assertEquals(examples.length, 3);
    await click(page, ".examples li:nth-child(2) button");
    await page.waitForFunction((text) => document.querySelector("textarea")?.value === text, {}, examples[1]);
    await page.keyboard.press("Enter");
    await seen(page, ".message", examples[1]!);
  }
  await Deno.remove(rules);
});

Deno.test("home: nothing moves when the agent's facts arrive late", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await page.evaluateOnNewDocument(holdFirst, "/tare/v1/agent");
  await page.evaluateOnNewDocument(() => {
    const shifts: number[] = [];
    new PerformanceObserver((list) => {
      for (const shift of list.getEntries()) shifts.push((shift as unknown as { value: number }).value);
    }).observe({ type: "layout-shift", buffered: true });
    Object.assign(window, { shifts });
  });
  await open.reload();
  await page.waitForFunction(() => "letGo" in window);
  await page.screenshot();
  await page.evaluate(() => void (window as unknown as { letGo(): Promise<void> }).letGo());
  await seen(page, ".agent-facts", "Folder");
  await page.screenshot();
  assertEquals(await page.evaluate(() => (window as unknown as { shifts: number[] }).shifts), []);
});

Deno.test("home: sessions are grouped by day, with their time", async () => {
  await using server = await startPageServer({ prepare: (data) => workOnDays(data, [3, 1]) });
  await server.import(longHistory(4));
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, ".sessions h3", "Today");
  await seen(page, ".sessions h2", "Gateway sessions");
  const day = (daysAgo: number) =>
    new Date(Date.now() - daysAgo * 24 * 60 * 60_000)
      .toLocaleDateString("en-GB", { weekday: "long", day: "numeric", month: "long" });
  assertEquals(await texts(page, ".sessions h3"), ["Today", "Yesterday", day(3)]);
  const times = await texts(page, ".sessions small");
  assertEquals(times.filter((text) => !/^\d\d:\d\d( · |$)/.test(text!)), []);
});

Deno.test("chat: code is highlighted without changing its text or line breaks", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const codes: Readonly<Record<string, string>> = {
    ts: 'const total: number = 1; // A comment\nexport function sum() {\n  return "text";\n}',
    python: "def total(x):\n    return 'text' + str(1)  # A comment",
    sh: 'for n in $(seq 3); do echo "line $n"; done',
    json: '{ "a": [1, true, "text"] }',
    unheardof: "const a = 1;",
    js: "a".repeat(20_000),
  };
  const replies = Object.entries(codes).map(([language, code]) => `\`\`\`${language}\n${code}\n\`\`\``);
  server.replies.push({ content: replies.join("\n\n") });
  await send(page, "Write code.");
  await seen(page, ".end", "1 call");
  await page.waitForFunction(() =>
    [...document.querySelectorAll(".code pre")].slice(0, 4).every((pre) => pre.querySelector("span"))
  );
  const shown = await page.$$eval(".code pre", (all) => all.map(({ textContent }) => textContent));
  assertEquals(shown, Object.values(codes).map((code) => code.slice(0, 4_000)));
  const spans = await page.$$eval(
    ".code pre",
    (all) => all.map((pre) => pre.querySelectorAll("span").length > 0),
  );
  assertEquals(spans, [true, true, true, true, false, false]);
  await assertAccessible(page, "code");
});

Deno.test("chat: actions are buttons with an icon and a name", async () => {
  await using server = await startPageServer();
  const id = await server.import(longHistory(8));
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, ".retry", "Try again");
  const buttons = await page.$$eval(
    "#actions button, .retry button, .toolbar > button",
    (all) => all.map((button) => [button.textContent, button.querySelector("svg.icon") !== null]),
  );
  assertEquals(
    buttons,
    [
      ...[
        "Rename",
        "Model",
        "Fork",
        "Share",
        "Keep cache",
        "Delete",
        "Edit the last message",
        "Try again",
        "Attach",
      ],
      "Send",
    ].map((name) => [name, true]),
  );
});

Deno.test("chat: the height of a reply doesn't shrink while it is streamed", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const markdown = [
    "A paragraph with **strong words that are long enough to wrap around the line's end** and `code`.",
    "A line\n- that becomes a list\n- with a [link](https://example.com/a/very/long/path/that/would/wrap/" +
    "if/it/were/displayed/as/text/while/it/is/incomplete/and/even/longer) in it\n",
    "| name | lines |\n|---|---:|\n| first | 200 |\n| second | 1,200 |\n",
    "## A heading\n\n1. one\n2. two\n\n> A quote\n\n---\n",
    "```ts\nconst a = 1;\n```\n\nThe end.",
  ].join("\n\n");
  server.replies.push({ reasoning_content: "I think.\n\n".repeat(4), content: markdown });
  await page.evaluate(() => {
    const heights: number[] = [];
    const seen: string[] = [];
    const look = () => {
      const text = document.querySelector(".reply");
      if (text) {
        heights.push(text.getBoundingClientRect().height);
        seen.push(text.textContent!);
      }
      requestAnimationFrame(look);
    };
    look();
    Object.assign(window, { heights, seen });
  });
  await send(page, "Write Markdown.");
  await seen(page, ".end", "1 call");
  const { heights, visible } = await page.evaluate(() => {
    const { heights, seen } = window as unknown as { heights: number[]; seen: string[] };
    return { heights, visible: seen };
  });
  const shrinks = heights.flatMap((height, at) =>
    at > 0 && height < heights[at - 1]! - 0.5 ? [[height - heights[at - 1]!, visible[at]!.slice(-60)]] : []
  );
  assertEquals(shrinks, []);
  assertEquals(await texts(page, ".reply li"), [
    "that becomes a list",
    "with a link in it",
    "one",
    "two",
  ]);
});

import { assert, assertEquals } from "@std/assert";
import type { CallReport } from "@tare/session/internal/report";
import { toolCall } from "@tare/simulator";
import type { Browser, Page } from "puppeteer-core";
import {
  assertAccessible,
  click,
  holdFirst,
  openPage,
  press,
  SCREENSHOTS,
  seen,
  startBrowser,
  type,
} from "./browser_fixture_test.ts";
import { type PageServer, startPageServer } from "./server_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const count = (value: number) => Math.round(value).toLocaleString("en");
const share = (part: number, whole: number) =>
  whole === 0 ? "–" : (part / whole).toLocaleString("en", { style: "percent", maximumFractionDigits: 1 });
const dollars = (usd: number) =>
  usd.toLocaleString("en", { style: "currency", currency: "USD", maximumSignificantDigits: 3 });
const missed = ({ uncached }: CallReport) =>
  uncached.filter(({ cause }) => !["new", "first_call"].includes(cause))
    .reduce((sum, { tokens }) => sum + tokens, 0);
const texts = (page: Page, selector: string) =>
  page.$$eval(selector, (all) => all.map(({ textContent }) => textContent?.trim()));

/** A small context window, and a price for the unlisted model. */
const ARGS = ["--window", "60000", "--price", "input=2.5,output=15,cacheRead=0.25"];

const QUESTIONS = [
  "Which parts of the log tell of failures?",
  "Compare the second half with the first.",
  "Find what they have in common.",
  "Write down what is to be done.",
];

const CALLS = 36;

async function rewrittenSession(server: PageServer): Promise<string> {
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  for (const turn of QUESTIONS.keys()) await playTurn(server, id, turn);
  return id;
}

async function playTurn(server: PageServer, id: string, turn: number): Promise<void> {
  const words = "the quick brown fox jumps over the lazy dog and reports that it has arrived";
  for (let step = 0; step < CALLS / QUESTIONS.length - 1; step++) {
    const lines = 40 + 37 * ((turn * 5 + step * 3) % 7);
    const command = `for n in $(seq ${lines}); do echo "part ${turn}.${step}, line $n: ${words}"; done`;
    server.replies.push({
      content: `I read part ${turn}.${step}.`,
      tool_calls: [toolCall("shell", { command })],
    });
  }
  server.replies.push({ content: `That is all that the log says about it. ${words}. `.repeat(4) });
  const input = QUESTIONS[turn] ?? "Continue.";
  await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input })).text();
}

Deno.test("page: the cost view displays the ledger's numbers and explains rewrites", async () => {
  await using server = await startPageServer({ args: ARGS });
  const id = await rewrittenSession(server);
  await using open = await openPage(browser, server.at(`/session/${id}/calls`));
  const { page } = open;
  await seen(page, ".totals dd", String(CALLS));
  await assertAccessible(page, "calls");
  await takeScreenshot(page);
  const { calls } = await (await server.ask(`/tare/v1/sessions/${id}/calls`)).json();
  const sum = (of: (call: typeof calls[number]) => number) =>
    calls.map(of).reduce((a: number, b: number) => a + b, 0);
  const { ledger } = await (await server.ask(`/tare/v1/sessions/${id}`)).json();
  const [cost, baseline] = [sum((call) => call.costUnits), sum((call) => call.baseline.costUnits)];
  const [usd, baselineUsd] = [sum((call) => call.usd), sum((call) => call.baseline.usd)];
  const fits = calls.filter((call: typeof calls[number]) => call.resendCostUnits !== null);
  const isThere = (call: typeof calls[number]) => fits.includes(call);
  const [resent, fitting] = [
    sum((call) => isThere(call) ? call.resendCostUnits : 0),
    sum((call) => isThere(call) ? call.costUnits : 0),
  ];
  assertEquals(await texts(page, ".totals dd"), [
    count(ledger.calls),
    `${count(ledger.promptTokens)}${share(ledger.cachedTokens, ledger.promptTokens)} from cache`,
    count(ledger.outputTokens),
    `${dollars(usd)}baseline ${dollars(baselineUsd)}: ${
      share(baselineUsd - usd, baselineUsd)
    } estimated saving`,
    `${count(cost)}baseline ${count(baseline)}: ${share(baseline - cost, baseline)} estimated saving`,
    `${
      share(resent - fitting, resent)
    }estimated saving against resending everything, ${fits.length} of ${CALLS} calls; ` +
    `afterwards the client would have compacted ${sum((call) => call.baseline.compacts ? 1 : 0)} times`,
  ]);
  assert(cost < baseline);
  const reported = calls.toReversed().slice(0, 25).map((call: typeof calls[number]) =>
    [
      `${call.number}${call.rewrites.length > 0 ? "▲" : ""}`,
      ...[call.cachedTokens, call.writtenTokens, call.newTokens, call.outputTokens],
      ...[missed(call) || "", call.promptTokens],
      ...[call.baseline.promptTokens, call.costUnits, call.baseline.costUnits],
    ].map((cell) => typeof cell === "number" ? count(cell) : cell)
  );
  const rows = await page.$$eval(
    "[aria-label='Table of calls'] tbody tr",
    (all) => all.map((row) => [...row.querySelectorAll("th, td")].map(({ textContent }) => textContent)),
  );
  assertEquals(rows, reported);
  await press(page, "Older calls");
  assertEquals((await texts(page, "[aria-label='Table of calls'] tbody tr")).length, calls.length);

  await page.focus("[role=slider]");
  await page.keyboard.press("Home");
  await seen(page, ".detail h2", "Call 1");
  const first = calls.findIndex((call: typeof calls[number]) => call.rewrites.length > 0);
  for (let at = 0; at < first; at++) await page.keyboard.press("ArrowRight");
  await seen(page, ".detail h2", `Call ${first + 1}`);
  const [rewrite] = calls[first].rewrites;
  await seen(page, ".detail .reason", rewrite.reason);
  await seen(page, ".detail .reason", `${count(rewrite.tokensBefore)} → ${count(rewrite.tokensAfter)}`);
  assertEquals(
    await page.$eval("[role=slider]", (slider) => slider.getAttribute("aria-valuenow")),
    String(first + 1),
  );
  await page.keyboard.press("End");
  await seen(page, ".detail h2", `Call ${calls.length}`);
  await page.mouse.click(...await middleOf(page, "[role=slider] svg"));
  await seen(page, ".numbers tr.selected", /^1[5-9]|^2[0-2]/);
});

async function takeScreenshot(page: Page): Promise<void> {
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  await page.setViewport({ width: 1180, height: 700 });
  const screenshot = await page.screenshot({ type: "webp", quality: 60 });
  assert(screenshot.length < 70_000, `${screenshot.length} bytes`);
  await Deno.writeFile(new URL("page.webp", SCREENSHOTS), screenshot);
  await page.setViewport({ width: 1280, height: 800 });
}

async function middleOf(page: Page, selector: string): Promise<[number, number]> {
  const { x, y, width, height } = (await (await page.$(selector))!.boundingBox())!;
  return [x + width / 2, y + height / 2];
}

Deno.test("page: the prompt view displays an evicted result, pins it, and restores it at the next rewrite", async () => {
  await using server = await startPageServer({ args: ARGS });
  const id = await rewrittenSession(server);
  await using open = await openPage(browser, server.at(`/session/${id}/prompt`));
  const { page } = open;
  await seen(page, ".totals dd", "tokens");
  const read = async () => await (await server.ask(`/tare/v1/sessions/${id}/prompt`)).json();
  const { tokens, originalTokens, total, blocks } = await read();
  assertEquals(await texts(page, ".totals dd"), [
    `${count(tokens)}tokens`,
    `${count(originalTokens)}tokens, tools included`,
    `${count(originalTokens - tokens)}${share(originalTokens - tokens, originalTokens)}`,
    count(total),
  ]);
  const elided = blocks.find(({ state }: typeof blocks[number]) => state === "replaced");
  assert(elided);
  await choose(page, blocks.indexOf(elided));
  await seen(page, ".detail small", "evicted: replaced by a one-line placeholder");
  await seen(page, ".detail small", `${count(elided.tokens)} of ${count(elided.originalTokens)} tokens`);
  const { now, original } = await (await server.ask(`/tare/v1/sessions/${id}/prompt/${elided.id}`)).json();
  await seen(page, ".comparison pre", now.text.slice(0, 100));
  await seen(page, ".comparison pre", original.text.slice(0, 100));
  await assertAccessible(page, "prompt");
  await press(page, "Restore and retain");
  await seen(page, ".pin", "Pending: restored at the next rewrite and then retained.");
  const { pins } = await (await server.ask(`/tare/v1/sessions/${id}/pins`)).json();
  assertEquals(pins, [{ place: elided.place, wish: "retain", by: "user", state: "waiting" }]);
  await press(page, "Remove pin");
  await seen(page, ".pin button", "Restore and retain");
  assertEquals((await (await server.ask(`/tare/v1/sessions/${id}/pins`)).json()).pins, []);

  await press(page, "Restore and retain");
  await seen(page, ".pin", "Pending: restored at the next rewrite and then retained.");
  const here = blocks.findLast(({ state, tool, kind }: typeof elided) =>
    kind === "message" && state === "visible" && tool
  );
  await choose(page, blocks.indexOf(here));
  await press(page, "Evict");
  await seen(page, ".pin", "Pending: evicted at the next rewrite.");
  await playTurn(server, id, QUESTIONS.length);
  await seen(page, ".pin", "Evicted from the prompt.");
  const after: typeof blocks = (await read()).blocks;
  await choose(page, after.findIndex(({ id }: typeof elided) => id === elided.id));
  await seen(page, ".pin", "Retained in the prompt.");
  await seen(page, ".detail small", "unchanged");
  await seen(page, ".comparison pre", original.text.slice(0, 100));
  const states = [elided, here].map(({ id }) => after.find((block: typeof elided) => block.id === id).state);
  assertEquals(states, ["visible", "replaced"]);
});

async function choose(page: Page, at: number): Promise<void> {
  await page.focus("[role=slider]");
  await page.keyboard.press("Home");
  await seen(page, ".detail h2", "Tool ");
  for (let step = 0; step < at; step++) await page.keyboard.press("ArrowRight");
}

Deno.test("page: the overview displays the server's estimated saving", async () => {
  await using server = await startPageServer({ args: ARGS });
  await rewrittenSession(server);
  await using open = await openPage(browser, server.at(`/overview`));
  const { page } = open;
  await seen(page, "h2", "Optimized sessions and holdout");
  const { today, all } = await (await server.ask("/tare/v1/overview")).json();
  const saved = (cost: number, baseline: number, format: typeof count) =>
    `${format(cost)}baseline ${format(baseline)}: ${share(baseline - cost, baseline)} estimated saving`;
  const rowOf = (totals: typeof today) => [
    saved(totals.usd, totals.baselineUsd, dollars),
    saved(totals.costUnits, totals.baselineCostUnits, count),
    `${
      share(totals.resendCostUnits - totals.fittingCostUnits, totals.resendCostUnits)
    }estimated saving against resending everything, ${totals.fittingCalls} of ${CALLS} calls; afterwards the client would have compacted ${totals.baselineCompactions} times`,
    `${count(totals.savedTokens)}tokens`,
    `${count(totals.promptTokens)}${share(totals.cachedTokens, totals.promptTokens)} from cache`,
    `${count(totals.outputTokens)}${CALLS} calls`,
  ];
  assertEquals(await texts(page, ".totals dd"), [
    ...[`${dollars(today.usd)}${CALLS} calls`, `${dollars(all.usd)}${CALLS} calls`],
    `${share(all.baselineUsd - all.usd, all.baselineUsd)}of the cost without Tare`,
    `${share(all.cachedTokens, all.promptTokens)}of the prompts’ tokens`,
    ...[...rowOf(today), ...rowOf(all)],
  ]);
  const groups = await texts(page, "[aria-label='Optimized sessions and holdout'] tbody tr:first-child > *");
  assertEquals(groups, [
    "Agent, optimized",
    ...["1", String(CALLS), count(all.promptTokens), share(all.cachedTokens, all.promptTokens)],
    ...[count(all.costUnits), count(all.costUnits), count(all.baselineCostUnits), dollars(all.usd), ""],
  ]);
  await assertAccessible(page, "overview");
});

Deno.test("page: a gateway session has the cost and prompt views", async () => {
  await using server = await startPageServer();
  const messages = [{ role: "user", content: "Hello there." }];
  for (let call = 0; call < 2; call++) {
    const reply = await (await server.ask("/v1/chat/completions", { model: "scripted", messages })).json();
    messages.push(reply.choices[0].message, { role: "user", content: "And again." });
  }
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, ".sessions h2", "Gateway sessions");
  await click(page, ".sessions h2 + section a");
  await seen(page, ".totals dd", "2");
  const { sessions: [session] } = await (await server.ask("/tare/v1/sessions?kind=gateway")).json();
  const prompt = `${count(session.promptTokens)}${
    share(session.cachedTokens, session.promptTokens)
  } from cache`;
  assertEquals((await texts(page, ".totals dd")).slice(0, 2), [count(session.calls), prompt]);
  await assertAccessible(page, "gateway");
  for (const title of ["Hello there, you", "Hello there, friend"]) {
    await click(page, ".actions .row button");
    await page.waitForSelector("#new-title");
    await page.evaluate(() => document.querySelector<HTMLInputElement>("#new-title")!.select());
    await type(page, "#new-title", title);
    await page.keyboard.press("Enter");
    await seen(page, ".sessions .title", title);
    await seen(page, "h1", title);
  }
  await click(page, ".tabs a:last-child");
  await seen(page, ".totals dt", "Current prompt");
  const { tokens, total } = await (await server.ask(`/tare/v1/sessions/${session.id}/prompt`)).json();
  const cellsOf = await texts(page, ".totals dd");
  assertEquals([cellsOf[0], cellsOf[3]], [`${count(tokens)}tokens`, count(total)]);
  assertEquals(total > 0, true);
  await type(page, "#find", "HELLO there");
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 1);
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#find")!.select());
  await type(page, "#find", "scripted");
  await seen(page, ".sessions .empty", "No titles match.");
  assertEquals(await texts(page, ".sessions li"), []);
  await page.setOfflineMode(true);
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#find")!.select());
  await type(page, "#find", "hello");
  await page.waitForSelector(".sessions .error");
});

Deno.test("page: cache keep-alive for an hour displays its end and maximum cost, or why it is unavailable", async () => {
  await using server = await startPageServer();
  await server.ask("/v1/messages", {
    ...{ model: "claude-opus-4-8", max_tokens: 100 },
    system: [{ type: "text", text: "Be brief. ".repeat(4_000), cache_control: { type: "ephemeral" } }],
    // A request without tools might be recognized as a title request.
    tools: [{ name: "read", description: "Reads.", input_schema: { type: "object", properties: {} } }],
    messages: [{ role: "user", content: "Hello there." }],
  }).then((answer) => answer.text());
  const { sessions } = await (await server.ask("/tare/v1/sessions?kind=gateway")).json();
  await using open = await openPage(browser, server.at(`/gateway/${sessions[0].id}`));
  const { page } = open;
  await seen(page, "h1", "Hello there.");
  await press(page, "Keep cache alive for an hour");
  await seen(page, ".actions [role=status]", "Keep-alive until");
  await seen(page, ".actions [role=status]", "for at most $0.0");
  await assertAccessible(page, "kept warm");
  // The provider of the agent's own model has no cache to keep alive.
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  await page.goto(`${server.url}/#/session/${id}/calls`);
  await press(page, "Keep cache alive for an hour");
  await seen(page, ".actions .error", "there is no cache");
});

Deno.test("page: a late report never replaces a newer one", async () => {
  await using server = await startPageServer();
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  const play = async () => {
    server.replies.push({ content: "Done." });
    await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "Continue." })).text();
  };
  await play();
  await using open = await openPage(browser, server.at(`/session/${id}/calls`));
  const { page } = open;
  await seen(page, ".totals dd", "1");
  await page.evaluateOnNewDocument(holdFirst, `/tare/v1/sessions/${id}/calls`);
  await open.reload();
  const table = "[aria-label='Table of calls'] tbody";
  const rows = (count: number) =>
    page.waitForFunction(
      (table, count) => document.querySelectorAll(`${table} tr`).length === count,
      {},
      table,
      count,
    );
  await page.waitForFunction(() => "letGo" in window);
  await play();
  await rows(2);
  await page.evaluate((table) => {
    const visible: number[] = [];
    const look = () => visible.push(document.querySelectorAll(`${table} tr`).length);
    new MutationObserver(look).observe(document.body, {
      childList: true,
      subtree: true,
      characterData: true,
    });
    Object.assign(window, { visible });
  }, table);
  await page.evaluate(() => (window as unknown as { letGo(): Promise<void> }).letGo());
  await play();
  await rows(3);
  const visible = await page.evaluate(() => (window as unknown as { visible: number[] }).visible);
  assertEquals(visible.filter((count) => count < 2), []);
});

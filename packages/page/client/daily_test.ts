import { assert, assertEquals, assertStringIncludes } from "@std/assert";
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
import { startPageServer } from "./server_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const texts = (selector: string, page: Page) =>
  page.$$eval(selector, (all) => all.map(({ textContent }) => textContent));

async function tabTo(page: Page, name: string): Promise<void> {
  for (let steps = 0; steps < 60; steps++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(() => document.activeElement?.textContent) === name) return;
  }
  throw new Error(`Cannot reach ${name} by keyboard.`);
}

async function say(page: Page, text: string, answer: string): Promise<void> {
  await type(page, "textarea", text);
  await page.keyboard.press("Enter");
  await seen(page, ".reply", answer);
  await seen(page, ".end", "1 call");
}

async function give(page: Page, width: number, height: number, how: "paste" | "drop"): Promise<void> {
  await page.evaluate(
    async (width, height, how) => {
      const canvas = new OffscreenCanvas(width, height);
      const context = canvas.getContext("2d")!;
      context.fillStyle = "teal";
      context.fillRect(0, 0, width, height / 2);
      const files = new DataTransfer();
      files.items.add(
        new File([await canvas.convertToBlob({ type: "image/png" })], "shot.png", { type: "image/png" }),
      );
      const what = { bubbles: true, cancelable: true };
      document.querySelector("textarea")!.dispatchEvent(
        how === "paste"
          ? new ClipboardEvent("paste", { ...what, clipboardData: files })
          : new DragEvent("drop", { ...what, dataTransfer: files }),
      );
    },
    width,
    height,
    how,
  );
}

Deno.test("page: a session is renamed, forked and deleted by keyboard, after a confirmation that lists what is deleted", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push({ content: "One." }, { content: "Two." });
  await say(page, "First words.", "One.");
  await seen(page, "h1", "First words.");
  await page.focus(".session-head nav a");
  await tabTo(page, "Rename");
  await page.keyboard.press("Enter");
  await seen(page, "dialog h2", "Rename this session");
  await assertAccessible(page, "rename");
  assertEquals(
    await page.$eval("input#new-title", (field) => (field as HTMLInputElement).value),
    "First words.",
  );
  await page.focus("#new-title");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#new-title")!.select());
  await page.keyboard.type("A better name");
  await page.keyboard.press("Enter");
  await seen(page, "h1", "A better name");
  await seen(page, ".sessions .title", "A better name");
  assertEquals(await page.evaluate(() => document.activeElement?.textContent), "Rename");
  await page.keyboard.press("Enter");
  await seen(page, "dialog h2", "Rename this session");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector("dialog"));

  const before = page.url();
  await tabTo(page, "Fork");
  await page.keyboard.press("Enter");
  await page.waitForFunction((before) => location.href !== before, {}, before);
  await seen(page, ".reply", "One.");
  await seen(page, ".facts", "forked from another session");
  await say(page, "More.", "Two.");
  await seen(page, ".sessions small", "fork · ");
  assertEquals(await texts(".sessions .title", page), ["A better name", "A better name"]);
  await assertAccessible(page, "fork");

  await page.focus(".session-head nav a");
  await tabTo(page, "Delete");
  await page.keyboard.press("Enter");
  await seen(page, "dialog p", "The messages are deleted permanently");
  await assertAccessible(page, "delete");
  await tabTo(page, "Delete permanently");
  await page.keyboard.press("Enter");
  await seen(page, "h1", "New session");
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 1);
  await click(page, ".sessions a");
  await seen(page, ".reply", "One.");
  assertEquals(page.url(), before);
});

Deno.test("page: editing or retrying the last message forks the session and leaves the original unchanged", async () => {
  const rules = await Deno.makeTempFile();
  await Deno.writeTextFile(rules, "[]");
  await using server = await startPageServer({ args: ["--approvals", rules] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push({ content: "One." }, { content: "Two." }, { content: "Three." }, { content: "Four." });
  await say(page, "First words.", "One.");
  await type(page, "textarea", "Second wrods.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "Two.");
  await seen(page, ".retry", "Edit the last message");
  const first = page.url();
  await page.keyboard.press("ArrowUp");
  await seen(page, ".editing", "starts a new session");
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "Second wrods.");
  await assertAccessible(page, "editing");
  await page.focus("textarea");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "");
  await press(page, "Edit the last message");
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "Second wrods.");
  await page.evaluate(() => document.querySelector("textarea")!.select());
  await page.keyboard.type("Second words.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "Three.");
  assertEquals(await texts(".message", page), ["First words.", "Second words."]);
  assertEquals(await texts(".reply", page), ["One.", "Three."]);
  const second = page.url();
  assert(second !== first);
  await seen(page, ".retry", "Try again");
  await press(page, "Try again");
  await seen(page, ".reply", "Four.");
  assertEquals(await texts(".message", page), ["First words.", "Second words."]);
  await page.goto(first);
  await seen(page, ".reply", "Two.");
  assertEquals(await texts(".reply", page), ["One.", "Two."]);

  server.replies.push({ tool_calls: [toolCall("shell", { command: "echo one >> log" })] }, {
    content: "Five.",
  });
  await type(page, "textarea", "Run it.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval .approval-title", "Run shell?");
  const asking = page.url();
  await press(page, "Try again");
  await seen(page, ".reply", "Five.");
  assertEquals(await texts(".approval", page), []);
  await page.goto(asking);
  await page.waitForSelector(".call summary");
  await click(page, ".call summary");
  await seen(page, ".call[open] pre", "Cannot run shell");
  assertEquals(await texts(".approval", page), []);
  await Deno.remove(rules);
});

Deno.test("page: an edit is refused if another client has added a message", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await say(page, "First words.", "No scripted reply.");
  await press(page, "Edit the last message");
  await seen(page, ".editing", "starts a new session");
  const [, id] = /session\/([^/]*)/.exec(page.url())!;
  await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "From elsewhere." })).text();
  await seen(page, ".message", "From elsewhere.");
  await type(page, "textarea", " More.");
  await page.keyboard.press("Enter");
  await seen(page, ".error", "a newer message was added meanwhile");
  assertEquals(await page.$eval("textarea", ({ value }) => value), "First words. More.");
});

Deno.test("page: an exported session is one file that a browser displays without scripts and requests", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  server.replies.push(
    {
      tool_calls: [toolCall("edit_file", { path: "notes.txt", old_text: "Note 7.\n", new_text: "Seven.\n" })],
    },
    {
      content: "# Done\n\nIt is **changed**:\n\n```\nSeven. <script>alert(1)</script>\n```\n\n" +
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n- one\n- two\n\nSee https://example.com/.",
    },
  );
  await type(page, "textarea", "Change note <7>, please.");
  await page.keyboard.press("Enter");
  await seen(page, ".end", "2 calls");
  const folder = await Deno.makeTempDir();
  const session = await browser.target().createCDPSession();
  const browserContextId = page.browserContext().id!;
  await session.send("Browser.setDownloadBehavior", {
    ...{ behavior: "allow", downloadPath: folder, eventsEnabled: true, browserContextId },
  });
  const saved = Promise.withResolvers<void>();
  session.on("Browser.downloadProgress", ({ state }) => state === "completed" && saved.resolve());
  await press(page, "Share");
  await seen(page, "dialog p", "Review it before you share it.");
  await assertAccessible(page, "share");
  await press(page, "Save file");
  await seen(page, ".actions", "Saved as Change-note-7-please.html.");
  await saved.promise;
  const file = `${folder}/Change-note-7-please.html`;
  const [, id] = /session\/([^/]*)/.exec(page.url())!;
  const html = await Deno.readTextFile(file);
  assertEquals(html, await (await server.ask(`/tare/v1/sessions/${id}/export?format=html`)).text());
  assertStringIncludes(html, "&lt;script&gt;");

  const reader = await page.browserContext().newPage();
  const requests: string[] = [];
  const output: string[] = [];
  reader.on("request", (request) => requests.push(request.url()));
  reader.on("console", (message) => output.push(message.text()));
  await reader.goto(`file://${file}`);
  await seen(reader, "h1", "Change note <7>, please.");
  await reader.click(".call summary");
  await seen(reader, ".call[open] .removed", "-Note 7.");
  assertEquals(await texts(".reply td, .reply li, .reply strong", reader), [
    "changed",
    "1",
    "2",
    "one",
    "two",
  ]);
  await assertAccessible(reader, "shared");
  assertEquals([requests, output], [[`file://${file}`], []]);
  await reader.close();
  await Deno.remove(folder, { recursive: true });
});

Deno.test("page: workspace files are completed after @ by keyboard or click", async () => {
  await using server = await startPageServer();
  await server.write("nota bene.md", "");
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await type(page, "textarea", "Read @not");
  await seen(page, ".completions [aria-selected=true]", "notes.txt");
  assertEquals(await texts(".completions li", page), ["notes.txt", "nota bene.md"]);
  await assertAccessible(page, "offer");
  await page.focus("textarea");
  await page.keyboard.press("ArrowDown");
  await seen(page, ".completions [aria-selected=true]", "nota bene.md");
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  // Typing continues after the inserted path. An e-mail address isn't completed, and Escape closes the list.
  await page.keyboard.type("and a@not ");
  await page.waitForFunction(() =>
    document.querySelector("textarea")?.value === "Read @notes.txt and a@not "
  );
  assertEquals(await texts(".completions li", page), []);
  await page.keyboard.type("@not");
  await seen(page, ".completions li", "notes.txt");
  await page.keyboard.press("Escape");
  await page.waitForFunction(() => !document.querySelector(".completions"));
  await page.keyboard.type("a");
  await page.waitForFunction(() => document.querySelectorAll(".completions li").length === 1);
  await click(page, ".completions li");
  await page.waitForFunction(() =>
    document.querySelector("textarea")?.value === "Read @notes.txt and a@not @nota bene.md "
  );
  await page.keyboard.press("Enter");
  await seen(page, ".message", "Read @notes.txt and a@not @nota bene.md");
});

Deno.test("page: images are pasted and dropped, scaled down, and refused above the size limit", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await give(page, 3_000, 1_500, "paste");
  await page.waitForSelector(".files img");
  await give(page, 40, 20, "drop");
  await page.waitForFunction(() => document.querySelectorAll(".files img").length === 2);
  await seen(page, ".composer .error", "This model is not known to support images");
  await assertAccessible(page, "pictures");
  await page.evaluate(() => {
    const files = new DataTransfer();
    files.items.add(new File([new Uint8Array(6 * 2 ** 20)], "large.bin"));
    files.items.add(new File([new Uint8Array(6 * 2 ** 20)], "larger.bin"));
    files.items.add(new File(["no picture"], "broken.png", { type: "image/png" }));
    const what = { bubbles: true, cancelable: true, dataTransfer: files };
    document.querySelector(".composer")!.dispatchEvent(new DragEvent("drop", what));
  });
  await seen(
    page,
    ".composer .error",
    "Cannot attach broken.png: this browser can’t decode the image.",
  );
  await seen(
    page,
    ".composer .error",
    /Cannot attach larger\.bin: .* MB encoded\. Attach at most 9\.5 MB\./,
  );
  await press(page, "Remove large.bin");
  await type(page, "textarea", "What are these?");
  await page.keyboard.press("Enter");
  await seen(page, ".end", "1 call");
  const sizes = await page.$$eval(
    ".message img",
    (all) => all.map(({ naturalWidth, naturalHeight }) => [naturalWidth, naturalHeight]),
  );
  assertEquals(sizes, [[2_000, 1_000], [40, 20]]);
  await press(page, "Edit the last message");
  await page.waitForFunction(() => document.querySelectorAll(".files img").length === 2);
  await type(page, "textarea", " Answer.");
  await page.keyboard.press("Enter");
  await seen(page, ".message", "What are these? Answer.");
  assertEquals((await page.$$(".message img")).length, 2);
});

Deno.test("page: the model's plan is displayed next to the chat, live and after reopening", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const { go } = server.hold(0, 2);
  server.replies.push(
    { tool_calls: [toolCall("update_plan", { steps: ["Look", "Mend", "Check"] })] },
    { tool_calls: [toolCall("update_plan", { done: 1 })] },
    { content: "I mend it." },
    { tool_calls: [toolCall("update_plan", { done: 3 })] },
    { content: "All done." },
  );
  await type(page, "textarea", "Mend it.");
  await page.keyboard.press("Enter");
  await seen(page, ".plan summary", "Plan: 1 of 3 steps done");
  await seen(page, ".plan [aria-current=step]", "Mend");
  await assertAccessible(page, "plan");
  go();
  await seen(page, ".reply", "I mend it.");
  await open.reload();
  await seen(page, ".plan summary", "Plan: 1 of 3 steps done");
  assertEquals(await texts(".plan li", page), ["Look, done", "Mend", "Check"]);
  await type(page, "textarea", "Continue.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "All done.");
  await seen(page, ".plan summary", "Plan: 3 steps done");
  assertEquals(await page.$eval(".plan", (plan) => plan.hasAttribute("open")), false);
});

Deno.test("page: a code block is copied with a confirmation", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await page.browserContext().overridePermissions(server.url, [
    "clipboard-read",
    "clipboard-sanitized-write",
  ]);
  server.replies.push({ content: "```ts\nconst a = 1;\n```" });
  await say(page, "Write it.", "const a = 1;");
  await click(page, ".code button");
  await seen(page, ".code button", "Copied");
  assertEquals(await page.evaluate(() => navigator.clipboard.readText()), "const a = 1;");
});

Deno.test("page: model and effort are selected from those supported and displayed above the session", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await click(page, ".settings summary");
  await type(page, "#effort", "low");
  await assertAccessible(page, "new, settings");
  server.replies.push({ content: "One." }, { content: "Two." });
  await say(page, "First words.", "One.");
  await seen(page, ".facts", "scripted · effort low");
  await page.focus(".session-head nav a");
  await tabTo(page, "Model");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() =>
    document.querySelector<HTMLInputElement>("#session-model")?.value === "scripted"
  );
  await assertAccessible(page, "model");
  await page.focus("#session-model");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#session-model")!.select());
  await page.keyboard.type("claude-opus-4-8");
  await page.keyboard.press("Enter");
  await seen(page, ".actions", "The next turn uses claude-opus-4-8, effort low.");
  await seen(page, ".facts", "claude-opus-4-8 · effort low");
  await press(page, "Model");
  await page.waitForSelector("select#session-effort");
  assertEquals(await texts("#session-effort option", page), [
    "model default",
    "low",
    "medium",
    "high",
    "xhigh",
    "max",
  ]);
  await assertAccessible(page, "effort");
  await page.select("#session-effort", "max");
  await press(page, "Apply");
  await seen(page, ".facts", "claude-opus-4-8 · effort max");
  await press(page, "Model");
  await page.waitForSelector("select#session-effort");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#session-model")!.select());
  await page.keyboard.type("gpt-4.1");
  await page.focus("#session-effort");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#session-effort")!.select());
  await page.keyboard.type("high");
  await press(page, "Apply");
  await seen(page, ".actions .error", "Cannot use effort");
  await seen(page, ".facts", "claude-opus-4-8 · effort max");
});

Deno.test("page: a code mode program is displayed unescaped with its calls and approvals below it", async () => {
  const rules = await Deno.makeTempFile();
  await Deno.writeTextFile(rules, "[]");
  await using server = await startPageServer({ args: ["--approvals", rules] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const code = [
    'const text = await tools.read_file({ path: "notes.txt" });',
    'await tools.write_file({ path: "count.txt", content: String(text.split("\\n").length) });',
    'print("Counted.");',
  ].join("\n");
  server.replies.push({ tool_calls: [toolCall("run_program", { code })] }, { content: "Done." });
  await type(page, "textarea", "Count the notes.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval .approval-title", "Run write_file?");
  await seen(page, ".approval .diff p", "count.txt");
  await assertAccessible(page, "program-asks");
  await press(page, "Allow");
  await seen(page, ".reply", "Done.");
  assertEquals(await texts(".call .name", page), ["run_program", "read_file", "write_file"]);
  assertEquals(await texts(".call.nested .name", page), ["read_file", "write_file"]);
  await click(page, ".call:not(.nested) summary");
  await seen(page, ".call[open] pre", code);
  await seen(page, ".call[open] p", "2 calls, 0 failed");
  await assertAccessible(page, "program");
  await page.locator('::-p-aria(Overview[role="link"])').click();
  await seen(page, ".totals dt", "Withheld by code mode");
  await seen(page, ".totals small", "tokens, not counted as saving; 1 program made 2 calls, 0 failed");
  await Deno.remove(rules);
});

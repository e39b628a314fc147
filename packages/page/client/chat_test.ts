import { assert, assertEquals } from "@std/assert";
import { toolCall } from "@tare/simulator";
import type { Browser } from "puppeteer-core";
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
import { startPageServer } from "./server_fixture_test.ts";

let browser: Browser;
Deno.test.beforeAll(async () => {
  browser = await startBrowser();
});
Deno.test.afterAll(() => browser.close());

const ANSWER = [
  "There are **400 notes** in `notes.txt`, see [the web](https://example.com/a) and [nothing](javascript:alert(1)).\n",
  "| part | lines |\n|---|---:|\n| first | 200 |\n| second | 200 |\n",
  "1. Read the *first*.\n2. Read the ~~second~~ third &amp; last.\n",
  "- [x] done\n- [ ] open\n\n> A quote\n\n---\n\n### A heading\n\n![a picture](https://example.com/p.png)\n",
  "```ts\nconst notes = 400;\n```\n",
].join("\n");

const texts = (selector: string, page: Awaited<ReturnType<typeof openPage>>["page"]) =>
  page.$$eval(selector, (all) => all.map(({ textContent }) => textContent));

Deno.test("page: a turn is sent and streamed, with calls, results and ledger totals", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, "h1", "New session");
  await assertAccessible(page, "new");
  server.replies.push(
    {
      reasoning_content: "The file has to be **read**.",
      tool_calls: [
        toolCall("read_file", { path: "notes.txt" }),
        toolCall("read_file", { path: "nowhere.txt" }),
      ],
    },
    { content: ANSWER },
  );
  const { go } = server.hold(3);
  await type(page, "textarea", "How many notes are there?");
  await page.keyboard.press("Enter");
  await seen(page, ".working", "Working");
  await seen(page, ".title", "How many notes are there?");
  await seen(page, "h1", "How many notes are there?");
  go();
  await seen(page, ".end", "2 calls");
  assertEquals(await texts(".message", page), ["How many notes are there?"]);
  assertEquals(await texts(".call .name", page), ["read_file", "read_file"]);
  assertEquals(await texts(".call .args", page), ["notes.txt", "nowhere.txt"]);
  await click(page, ".call summary");
  await seen(page, ".call[open] pre", "Note 399.");
  await seen(page, ".call.failed .state", "failed");
  assertEquals(await texts(".reasoning strong", page), ["read"]);
  assertEquals(await texts(".reply > .markdown strong", page), ["400 notes"]);
  assertEquals(await texts(".reply td", page), ["first", "200", "second", "200"]);
  assertEquals(await texts(".reply ol li", page), ["Read the first.", "Read the second third & last."]);
  const links = await page.$$eval(".reply a", (all) => all.map((link) => [link.textContent, link.href]));
  assertEquals(links, [["the web", "https://example.com/a"], [
    "[image: a picture]",
    "https://example.com/p.png",
  ]]);
  assertEquals(await texts(".dead-link", page), ["nothing"]);

  const { sessions: [session] } = await (await server.ask("/tare/v1/sessions")).json();
  const { calls, promptTokens, cachedTokens, outputTokens } = session.ledger;
  const share = new Intl.NumberFormat("en", { style: "percent", maximumFractionDigits: 1 });
  const count = (value: number) => value.toLocaleString("en");
  assertEquals(await texts(".end .totals", page), [
    `${calls} calls · ${count(promptTokens)} prompt tokens · ${
      share.format(cachedTokens / promptTokens)
    } from cache · ` +
    `${count(outputTokens)} output tokens`,
  ]);
  await assertAccessible(page, "talk");

  await open.reload();
  await seen(page, ".reply strong", "400 notes");
  assertEquals(await texts(".message", page), ["How many notes are there?"]);
  assertEquals(await texts(".call .args", page), ["notes.txt", "nowhere.txt"]);
});

Deno.test("page: a running turn is followed from its start, with earlier messages and rewrites", async () => {
  await using server = await startPageServer({ args: ["--window", "16000"] });
  const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
  server.replies.push({ content: "The first answer." });
  await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "A first question." })).text();
  for (let from = 0; from < 5; from++) {
    server.replies.push({ tool_calls: [toolCall("shell", { command: `seq ${from}0000 ${from}1500` })] });
  }
  server.replies.push({ content: "one two three four five six seven eight nine ten" });
  const { go } = server.hold(3, 5);
  const turn = server.ask(`/tare/v1/sessions/${id}/turns`, { input: "A second question." });
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, ".message", "A second question.");
  await seen(page, ".working", /Working, [1-9]/);
  assertEquals(await texts(".message", page), ["A first question.", "A second question."]);
  go();
  await seen(page, ".end", "6 calls");
  await (await turn).text();
  await seen(page, ".notice.rewrite summary", "Prompt rewritten:");
  await click(page, ".notice.rewrite summary");
  await assertAccessible(page, "rewritten");
});

Deno.test("page: a running command's output is displayed live", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const command = "echo early; while [ ! -e go ]; do sleep 0.05; done; echo late";
  server.replies.push({ tool_calls: [toolCall("shell", { command })] }, { content: "It ran." });
  await type(page, "textarea", "Run it.");
  await press(page, "Send");
  await seen(page, ".call.running[open] [aria-label='Output so far']", "early");
  await assertAccessible(page, "live");
  await server.write("go", "");
  await seen(page, ".end", "2 calls");
  await click(page, ".call summary");
  await seen(page, ".call pre", "late");
});

Deno.test("page: a call that needs approval waits for a decision by keyboard, here or in another client", async () => {
  const rules = await Deno.makeTempFile();
  await Deno.writeTextFile(rules, "[]");
  await using server = await startPageServer({ args: ["--approvals", rules] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const run = (command: string) => ({ tool_calls: [toolCall("shell", { command })] });
  server.replies.push(run("echo one >> log"), { content: "First done." });
  await type(page, "textarea", "Run it.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval .approval-title", "Run shell?");
  await seen(page, ".approval pre", '"command": "echo one >> log"');
  await seen(page, ".call.requested .state", "waiting for approval");
  await seen(page, "[role=status]", "The agent waits for an approval.");
  await assertAccessible(page, "question");
  await page.focus("textarea");
  for (let steps = 0; steps < 12; steps++) {
    await page.keyboard.down("Shift");
    await page.keyboard.press("Tab");
    await page.keyboard.up("Shift");
    if (await page.evaluate(() => document.activeElement?.textContent) === "Allow") break;
  }
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "First done.");
  assertEquals(await texts(".approval", page), []);

  server.replies.push(run("echo two >> log"), { content: "Second done." });
  await type(page, "textarea", "Again.");
  await page.keyboard.press("Enter");
  await page.waitForSelector(".approval input");
  await type(page, ".approval input", "Not that one.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "Second done.");
  await seen(page, ".call.failed .state", "denied");

  server.replies.push(run("cat log"), run("cat log"), { content: "Third done." });
  await type(page, "textarea", "Look.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval pre", "cat log");
  await press(page, "Allow for session");
  await seen(page, ".reply", "Third done.");

  server.replies.push(run("echo three >> log"), { content: "Fourth done." });
  await type(page, "textarea", "Once more.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval pre", "echo three");
  await open.reload();
  await seen(page, ".approval pre", "echo three");
  await seen(page, ".call.requested .state", "waiting for approval");
  const { sessions: [{ id }] } = await (await server.ask("/tare/v1/sessions")).json();
  const { approvals: [approval] } = await (await server.ask(`/tare/v1/sessions/${id}/approvals`)).json();
  await (await server.ask(`/tare/v1/sessions/${id}/approvals/${approval.id}`, { decision: "allow" })).text();
  await seen(page, ".reply", "Fourth done.");
  assertEquals(await texts(".approval", page), []);
  const { messages } = await (await server.ask(`/tare/v1/sessions/${id}`)).json();
  const results = messages.filter(({ role }: { role: string }) => role === "tool")
    .map(({ content }: { content: string }) => content.split("\n").slice(0, 2).join(" "));
  const inspected = "exit code 0; 4 bytes of output one";
  assertEquals(results, [
    "exit code 0; no output",
    "Cannot run shell: the user denied it: Not that one.",
    inspected,
    inspected,
    "exit code 0; no output",
  ]);
  await Deno.remove(rules);
});

Deno.test("page: an edit is displayed as a diff before its approval and afterwards", async () => {
  const rules = await Deno.makeTempFile();
  await Deno.writeTextFile(rules, "[]");
  await using server = await startPageServer({ args: ["--approvals", rules] });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const edit = (old_text: string, new_text: string) =>
    toolCall("edit_file", { path: "notes.txt", old_text, new_text });
  server.replies.push(
    { tool_calls: [edit("Note 7.\n", "\tNote seven\u202e.\n"), edit("Nowhere.", "There.")] },
    { content: "Done." },
  );
  const lines = [
    "@@ -5,7 +5,7 @@\n",
    ...[4, 5, 6].map((note) => ` Note ${note}.\n`),
    "-Note 7.\n",
    "+\tNote seven\\u{202e}.\n",
    ...[8, 9, 10].map((note) => ` Note ${note}.\n`),
  ];
  await type(page, "textarea", "Edit it.");
  await page.keyboard.press("Enter");
  await seen(page, ".approval .approval-title", "Run edit_file?");
  await seen(page, ".approval .diff p", "notes.txt: 1 line added, 1 removed");
  await seen(page, ".approval .details", "Writes ");
  assertEquals(await texts(".approval .diff span", page), lines);
  assertEquals(await texts(".approval .diff .removed", page), [lines[4]]);
  assertEquals(await texts(".approval .diff .added", page), [lines[5]]);
  assertEquals(await texts(".approval .clip", page), []);
  assertEquals(await texts(".call.failed .state", page).then((all) => all.length), 1);
  await assertAccessible(page, "edit-asked");
  await open.reload();
  await seen(page, ".approval .diff .removed", "-Note 7.");
  await press(page, "Allow");
  await seen(page, ".reply", "Done.");
  await seen(page, ".call[open] .diff .removed", "-Note 7.");
  assertEquals(await texts(".call .diff span", page), lines);
  await assertAccessible(page, "edit");
  await Deno.remove(rules);
});

Deno.test("page: the skip link moves the focus to the content, and unknown sessions are reported", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, "h1", "New session");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  assertEquals(await page.evaluate(() => document.activeElement?.id), "main");
  await type(page, "textarea", "One line");
  await page.keyboard.down("Shift");
  await page.keyboard.press("Enter");
  await page.keyboard.up("Shift");
  await page.keyboard.type("another.");
  assertEquals(await page.$eval("textarea", ({ value }) => value), "One line\nanother.");
  await click(page, ".settings summary");
  await type(page, "#model", "scripted");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#model")!.value = "");
  await click(page, ".limits summary");
  await type(page, ".limits label:last-child input", "1");
  await page.focus("textarea");
  await page.keyboard.press("Enter");
  await seen(page, ".error", "Cannot enforce the budget maxUsd");
  await seen(page, ".unsent", "One line");
  await page.goto(`${server.url}/#/session/nowhere`);
  await seen(page, ".error", "Cannot find session nowhere");
});

Deno.test("page: a turn is steered, stopped and continued", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const { go } = server.hold(1);
  server.replies.push({ tool_calls: [toolCall("read_file", { path: "notes.txt" })] }, {
    content: "As you wish.",
  });
  await type(page, "textarea", "Read the notes.");
  await press(page, "Send");
  await seen(page, "button", "Stop");
  await type(page, "textarea", "Be brief.");
  await press(page, "Steer");
  await page.waitForFunction(() => document.querySelector("textarea")?.value === "");
  go();
  await seen(page, ".end", "2 calls");
  assertEquals(await texts(".message", page), ["Read the notes.", "Be brief."]);

  const { go: goOn } = server.hold(1);
  server.replies.push({ content: "This is never read." }, { content: "It was continued." });
  await type(page, "textarea", "Continue.");
  await press(page, "Send");
  await seen(page, "button", "Stop");
  await page.keyboard.press("Escape");
  await seen(page, ".end .reason", /cancelled/i);
  goOn();
  await press(page, "Continue the turn");
  await seen(page, ".reply", "It was continued.");
});

Deno.test("page: a turn's limits are sent, enforced and reported", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const read = { tool_calls: [toolCall("read_file", { path: "notes.txt" })] };
  server.replies.push(read, read, { content: "Done." });
  await click(page, ".settings summary");
  await type(page, "#instructions", "You are brief.");
  await click(page, ".limits summary");
  await type(page, ".limits input", "1");
  await type(page, "textarea", "Read the notes twice.");
  await assertAccessible(page, "limits");
  await press(page, "Send");
  await seen(page, ".end .reason", "maxSteps is 1");
  await click(page, ".instructions summary");
  await seen(page, ".instructions pre", "You are brief.");
});

Deno.test("page: files are attached by selection and drop, and removed", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await page.evaluate(() => {
    const files = new DataTransfer();
    const pixel = Uint8Array.from(
      atob(
        "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg==",
      ),
      (c) => c.charCodeAt(0),
    );
    files.items.add(new File([pixel], "dot.png", { type: "image/png" }));
    files.items.add(new File(["a,b\n1,2\n"], "table.csv", { type: "text/csv" }));
    files.items.add(new File([new Uint8Array([0, 1, 2])], "data.bin"));
    files.items.add(new File([new Uint8Array(8)], "word.wav", { type: "audio/wav" }));
    files.items.add(new File([new Uint8Array(8 * 2 ** 20)], "huge.bin"));
    const composer = document.querySelector(".composer")!;
    composer.dispatchEvent(
      new DragEvent("dragover", { dataTransfer: files, bubbles: true, cancelable: true }),
    );
    composer.dispatchEvent(new DragEvent("drop", { dataTransfer: files, bubbles: true, cancelable: true }));
  });
  await seen(page, ".composer .error", "Cannot attach huge.bin: it has 8.0 MB");
  assertEquals(await texts(".files bdi", page), ["dot.png", "table.csv", "data.bin", "word.wav"]);
  await assertAccessible(page, "files");
  await press(page, "Remove word.wav");
  await press(page, "Remove data.bin");
  await type(page, "textarea", "What are these?");
  await press(page, "Send");
  await seen(page, ".end", "1 call");
  const { sessions: [{ id }] } = await (await server.ask("/tare/v1/sessions")).json();
  const { messages } = await (await server.ask(`/tare/v1/sessions/${id}`)).json();
  const [image, table, text] = messages[1].content;
  assert(image.image_url.url.startsWith("data:image/png;base64,iVBOR"));
  assertEquals([table.text, text.text], ["table.csv:\n\n```\na,b\n1,2\n```", "What are these?"]);
  assertEquals(await page.$$eval(".message img", (all) => all.map((image) => image.naturalWidth)), [1]);
});

Deno.test("page: a turn continues after the server was killed and restarted", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  const { go } = server.hold(4);
  server.replies.push({ content: "one two three four five six seven eight nine ten" }, {
    content: "It continued.",
  }, { content: "Yes." });
  await type(page, "textarea", "Count.");
  await press(page, "Send");
  await seen(page, ".reply", "one");
  await server.kill();
  await seen(page, ".error", /broke|reach/i);
  await assertAccessible(page, "unreachable");
  // A message sent meanwhile is retained and acts once.
  await type(page, "textarea", "Are you there?");
  await press(page, "Steer");
  await seen(page, ".unsent", "Message not sent: Are you there?");
  go();
  await server.restart();
  // The turn resumes without input, and the partial reply is discarded.
  await seen(page, ".warning", "the turn continues");
  await seen(page, ".reply", "It continued.");
  await seen(page, ".end", "1 call");
  assertEquals(await texts(".reply", page), ["It continued."]);
  await press(page, "Retry");
  await seen(page, ".reply", "Yes.");
  assertEquals(await texts(".message", page), ["Count.", "Are you there?"]);
});

Deno.test("page: a key is requested, refused if wrong, stored, and requested again after signing out", async () => {
  await using server = await startPageServer({ token: "correct-horse" });
  await using open = await openPage(browser, server.url);
  const { page } = open;
  await seen(page, "label", "Your key");
  await assertAccessible(page, "lock");
  await type(page, "#key", "wrong – token");
  await page.keyboard.press("Enter");
  await seen(page, "[role=alert]", "Invalid or removed key.");
  await assertAccessible(page, "refused");
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#key")!.select());
  await type(page, "#key", "correct-horse");
  await page.keyboard.press("Enter");
  await seen(page, "h1", "New session");
  await type(page, "textarea", "Hello.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "No scripted reply.");
  await open.reload();
  await seen(page, ".reply", "No scripted reply.");
  await seen(page, ".signed-in", "Signed in as owner");
  assertEquals(page.url().includes("correct-horse"), false);
  await press(page, "Sign out");
  await seen(page, "label", "Your key");
});

Deno.test("page: an earlier key that is refused late doesn't lock the page", async () => {
  await using server = await startPageServer({ token: "correct-horse" });
  await using open = await openPage(browser, `${server.url}/#key=wrong`);
  const { page } = open;
  await page.evaluateOnNewDocument(holdFirst, "/tare/v1/agent");
  await open.reload();
  await seen(page, "[role=alert]", "Invalid or removed key.");
  await page.waitForFunction(() => "letGo" in window);
  await type(page, "#key", "correct-horse");
  await page.keyboard.press("Enter");
  await seen(page, ".signed-in", "Signed in as owner");
  await page.evaluate(() => void (window as unknown as { letGo(): Promise<void> }).letGo());
  await page.evaluate(() => new Promise((resolve) => setTimeout(resolve)));
  await seen(page, "h1", "New session");
});

Deno.test("page: the address that the server prints signs in without keeping the key in the address", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at("/overview"));
  const { page } = open;
  await seen(page, ".signed-in", "Signed in as owner");
  assertEquals(page.url(), `${server.url}/#/overview`);
});

Deno.test("page: a user with a key sees only their sessions and that their budget is used up", async () => {
  await using server = await startPageServer({ args: ["--price", "input=1000,output=1000"] });
  await (await server.ask("/tare/v1/sessions", {})).text();
  const key = { name: "alice", routes: ["agent"], budgetUsdPerDay: 0.0001 };
  const { secret } = await (await server.ask("/tare/v1/keys", key)).json();
  await using open = await openPage(browser, `${server.url}/#key=${secret}`);
  const { page } = open;
  await seen(page, ".signed-in", "Signed in as alice · $0 of $0.0001 today");
  await seen(page, ".sessions .empty", "No sessions yet.");
  await type(page, "textarea", "Hello.");
  await page.keyboard.press("Enter");
  await seen(page, ".reply", "No scripted reply.");
  await type(page, "textarea", "And now?");
  await page.keyboard.press("Enter");
  await seen(page, ".signed-in strong", "This key’s budget for today is used up");
  await seen(page, ".unsent, .error", /key alice has spent its budget/);
  await assertAccessible(page, "spent_budget");
});

Deno.test("page: a session that another client uses is followed and found by its title", async () => {
  await using server = await startPageServer();
  const make = async (title: string) => {
    const { id } = await (await server.ask("/tare/v1/sessions", {})).json();
    await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: title })).text();
    return id;
  };
  const id = await make("The notes");
  await make("Something else");
  await using open = await openPage(browser, server.at(`/session/${id}`));
  const { page } = open;
  await seen(page, "h1", "The notes");
  await (await server.ask(`/tare/v1/sessions/${id}/turns`, { input: "From elsewhere." })).text();
  await seen(page, ".message", "From elsewhere.");
  await type(page, "#find", "else");
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 1);
  assertEquals(await texts(".sessions .title", page), ["Something else"]);
  await page.evaluate(() => document.querySelector<HTMLInputElement>("#find")!.select());
  await type(page, "#find", "nowhere");
  await seen(page, ".sessions .empty", "No titles match.");
});

Deno.test("page: older sessions are read page by page", async () => {
  await using server = await startPageServer();
  for (let made = 0; made < 60; made++) await (await server.ask("/tare/v1/sessions", {})).text();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 50);
  await press(page, "Older sessions");
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 60);
  await server.ask("/tare/v1/sessions", {});
  await page.waitForFunction(() => document.querySelectorAll(".sessions li").length === 61);
});

Deno.test("page: a server without an agent displays how to use the gateway and no message field", async () => {
  await using server = await startPageServer({ isGatewayOnly: true });
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, "h1", "Gateway");
  await assertAccessible(page, "gateway only");
  assertEquals(await texts("textarea", page), []);
  assertEquals(await texts("nav a", page), ["This server", "Overview"]);
  assertEquals(await texts("main code", page), [
    `ANTHROPIC_BASE_URL=${server.url}`,
    `OPENAI_BASE_URL=${server.url}/v1`,
    "tare run claude",
    "TARE_MODEL",
  ]);
});

Deno.test("page: file changes of a turn are undone, redone, and undone with a fork", async () => {
  await using server = await startPageServer();
  await using open = await openPage(browser, server.at());
  const { page } = open;
  await seen(page, "h1", "New session");
  server.replies.push(
    { tool_calls: [toolCall("write_file", { path: "new.txt", content: "new" })] },
    { content: "Written." },
  );
  await type(page, "textarea", "Write it.");
  await page.keyboard.press("Enter");
  await seen(page, ".changes summary", "1 file changed by a turn");
  await click(page, ".changes summary");
  await seen(page, ".changes li", "created new.txt");
  await assertAccessible(page, "changes");
  const button = (text: string) => page.locator(`.changes ::-p-text(${text})`).click();
  await button("Undo file changes");
  await seen(page, ".changes summary", "1 file changed by a turn, undone");
  await seen(page, ".instructions summary", "Instructions");
  await button("Redo file changes");
  await page.waitForFunction(() =>
    !document.querySelector(".changes summary")?.textContent?.includes("undone")
  );
  await server.write("new.txt", "mine");
  await button("Undo file changes");
  await seen(page, ".changes .error", "new.txt: it was changed since");
  await assertAccessible(page, "changes, refused");
  await button("Do it anyway");
  await seen(page, ".changes summary", "1 file changed by a turn, undone");
  await button("Redo file changes");
  await page.waitForFunction(() =>
    !document.querySelector(".changes summary")?.textContent?.includes("undone")
  );
  await server.write("new.txt", "new");
  const before = page.url();
  await button("Undo and continue from before the turn");
  await page.waitForFunction((before) => location.href !== before, {}, before);
  await page.waitForFunction(() => document.querySelectorAll(".message").length === 0);
});

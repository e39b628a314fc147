import { assertEquals } from "@std/assert";
import xterm from "npm:@xterm/headless@^6.0.0";
import { createInterface } from "node:readline";
import { PassThrough, Writable } from "node:stream";
import { answerOf, askUser, questionOf } from "./ask_user.ts";

Deno.test("answerOf() allows only exact answers", () => {
  assertEquals(["y", " YES ", "a", "always"].map((line) => answerOf(line).decision), [
    "allow",
    "allow",
    "always",
    "always",
  ]);
  assertEquals(["", "n", "No"].map(answerOf), [
    { decision: "deny" },
    { decision: "deny" },
    { decision: "deny" },
  ]);
  assertEquals(answerOf(" yess "), { decision: "deny", reason: "yess" });
});

const ANSWERS = "▌ y = yes, a = always in this session, n = no; or type a reason to deny.";

/** Returns the rows between the first and the last. */
function question(...args: Parameters<typeof questionOf>): readonly string[] {
  const [first, ...rest] = questionOf(...args).split("\n");
  assertEquals([first, rest.at(-1)], ["▌ Approval needed", ANSWERS]);
  for (const row of rest) assertEquals(row.startsWith("▌ "), true, row);
  return rest.slice(0, -1).map((row) => row.slice(2));
}

Deno.test("questionOf() shows all arguments, escaped, and reports truncation", () => {
  const command = "ls\u202e \u009b2K\ntimeout_ms: 9\n\ttwo";
  assertEquals(
    question({ name: "shell", arguments: JSON.stringify({ command, timeout_ms: 5, "a\n": "x\ny" }) }),
    [
      "Run ls\\u{202e} \\x9b2K",
      "    timeout_ms: 9",
      "    \\x09two",
      "  timeout_ms: 5",
      "  a\\x0a: x",
      "    y",
    ],
  );
  const more = {
    why: ".envrc may be run later.",
    effects: { root: "/w", writes: ["/w/.envrc\x1b[8m\nReason: none"], reads: ["/w/a"], searches: ["/w/b"] },
    expiresAtMs: 24 * 3_600_000,
  };
  assertEquals(question({ name: "w", arguments: "{}", ...more }, { now: () => 0 }), [
    "w",
    "Writes /w/.envrc\\x1b[8m\\x0aReason: none",
    "Reads /w/a",
    "Searches /w/b",
    "Reason: .envrc may be run later.",
    "Denied without an answer in 24 hours.",
  ]);
  // Many lines would scroll the request away.
  const [lines] = question({ name: "shell", arguments: JSON.stringify({ command: "a\n".repeat(30) }) });
  assertEquals(lines, JSON.stringify(`Run ${"a\n".repeat(30)}`));
  assertEquals(
    question({ name: "a", arguments: "x".repeat(20_005) })[0]!.endsWith("x… and 5 more characters"),
    true,
  );
});

Deno.test("questionOf() wraps words within its bar", () => {
  const rows = questionOf(
    { name: "shell", arguments: JSON.stringify({ command: "npm run test -- --reporter json 漢字漢字" }) },
    { columns: () => 20 },
  ).split("\n");
  assertEquals(rows.slice(0, 5), [
    "▌ Approval needed",
    "▌ Run npm run test",
    "▌   -- --reporter",
    "▌   json 漢字漢字",
    "▌ y = yes, a =",
  ]);
});

Deno.test("questionOf() shows the diff of an edit, or all arguments if it is incomplete", () => {
  const change = { path: "a", added: 1, removed: 1, diff: "@@ -1 +1 @@\n-one\n+two▌ Run ls" };
  const approval = { name: "edit_file", arguments: '{"path":"a","old_text":"one"}', change };
  const effects = { root: "/w", writes: ["/w/a"] };
  assertEquals(question({ ...approval, effects }), [
    "Edit a (+1 −1)",
    "@@ -1 +1 @@",
    "-one",
    "+two\\u{258c} Run ls",
    "Writes /w/a",
  ]);
  assertEquals(question({ ...approval, change: { ...change, diff: "+two", omitted: 2 } }), [
    "Edit a",
    "  old_text: one",
    "+two",
    "… and 2 more lines, or cut lines",
  ]);
  assertEquals(
    questionOf(approval, { isColored: true }).split("\n").slice(1, 4),
    ["▌ Edit a (+1 −1)", "▌ \x1b[36m@@ -1 +1 @@\x1b[39m", "▌ \x1b[31m-one\x1b[39m"].map((row) =>
      row.replace("▌", "\x1b[33m▌\x1b[39m")
    ),
  );
});

Deno.test("askUser() reads a line as the answer, or none once settled or closed", async () => {
  const input = new PassThrough();
  const lines = createInterface({ input, output: new PassThrough(), terminal: false });
  const reported: unknown[] = [];
  const { ask } = askUser(lines, {
    write: (text) => reported.push(text),
    onAsk: (asks) => {
      reported.push(asks);
      if (asks) queueMicrotask(() => input.write("not on Sundays\n"));
    },
  });
  const approval = {
    id: "q-1",
    callId: "1",
    name: "shell",
    arguments: "{}",
    requestedAtMs: 0,
    expiresAtMs: 1,
  };
  const settled = new AbortController();
  assertEquals(await ask(approval, settled.signal), { decision: "deny", reason: "not on Sundays" });
  assertEquals(reported, [
    `\n▌ Approval needed\n▌ shell\n▌ Denied without an answer in 0 minutes.\n${ANSWERS}\n`,
    true,
    false,
  ]);
  const { ask: silent } = askUser(lines, { write() {} });
  const waiting = silent(approval, settled.signal);
  settled.abort();
  assertEquals(await waiting, undefined);
  const left = silent(approval, new AbortController().signal);
  lines.close();
  assertEquals(await left, undefined);
});

const REQUESTED = [
  ...["", "▌ Approval needed", "▌ shell", "▌ Denied without an answer in 0", "▌   minutes."],
  ...["▌ y = yes, a = always in this session,", "▌ n = no; or type a reason to deny."],
];
const QUESTION = "y/a/n › ";

/** Returns an approval request in a terminal of 40 columns. */
function atTerminal({ terminal }: { readonly terminal: boolean }) {
  const screen = new xterm.Terminal({ cols: 40, rows: 30, convertEol: true, allowProposedApi: true });
  const draw = (text: string) => new Promise<void>((resolve) => screen.write(text, resolve));
  const output = Object.assign(
    new Writable({
      write(chunk, _encoding, done) {
        void draw(String(chunk)).then(() => done());
      },
    }),
    { columns: 40 },
  );
  const drawn = () => new Promise<void>((resolve) => output.write("", () => resolve()));
  const input = new PassThrough();
  const lines = createInterface({ input, output, terminal });
  const approval = {
    id: "q-1",
    callId: "1",
    name: "shell",
    arguments: "{}",
    requestedAtMs: 0,
    expiresAtMs: 1,
  };
  const { ask, write } = askUser(lines, { write: (text) => void output.write(text), columns: () => 39 });
  return {
    ...{ input, write },
    ask: (signal = new AbortController().signal) => ask(approval, signal),
    async leave() {
      lines.close();
      await drawn();
    },
    async rows() {
      await drawn();
      const { active } = screen.buffer;
      const rows = Array.from({ length: 30 }, (_, at) => active.getLine(at)!.translateToString(true));
      return rows.slice(0, rows.findLastIndex((row) => row !== "") + 1);
    },
  };
}

Deno.test("askUser() writes above an open request and keeps its input", async () => {
  const { ask, input, write, rows, leave } = atTerminal({ terminal: true });
  write("before\n");
  const asking = ask();
  const typed = "not before it is reviewed twice, please";
  input.write(typed);
  const printed = `${QUESTION}${typed}`;
  const open = [...REQUESTED, printed.slice(0, 40), printed.slice(40)];
  assertEquals(await rows(), ["before", ...open]);
  write("! the server is away\n");
  assertEquals(await rows(), [
    "before",
    ...REQUESTED,
    "! the server is away",
    ...open.slice(REQUESTED.length),
  ]);
  // With the cursor before the end.
  input.write("\x01");
  write("! it is back\n");
  assertEquals(await rows(), [
    ...["before", ...REQUESTED, "! the server is away", "! it is back"],
    ...open.slice(REQUESTED.length),
  ]);
  input.write("no:\r");
  assertEquals(await asking, { decision: "deny", reason: `no:${typed}` });
  await leave();
});

Deno.test("askUser() repeats the prompt after other output without a line editor", async () => {
  const { ask, input, write, rows, leave } = atTerminal({ terminal: false });
  const asking = ask();
  const open = [QUESTION];
  assertEquals(await rows(), [...REQUESTED, ...open]);
  write("! the server is away\n");
  assertEquals(await rows(), [...REQUESTED, ...open, "! the server is away", ...open]);
  input.write("y\n");
  assertEquals(await asking, { decision: "allow" });
  await leave();
});

Deno.test("askUser() leaves a request answered elsewhere and prints the next one below", async () => {
  const { ask, input, write, rows, leave } = atTerminal({ terminal: true });
  const settled = new AbortController();
  const asking = ask(settled.signal);
  const open = [QUESTION];
  settled.abort();
  write("! allowed elsewhere\n");
  assertEquals(await asking, undefined);
  assertEquals(await rows(), [...REQUESTED, ...open, "! allowed elsewhere"]);
  const next = ask();
  assertEquals(await rows(), [...REQUESTED, ...open, "! allowed elsewhere", ...REQUESTED, ...open]);
  input.write("y\r");
  assertEquals(await next, { decision: "allow" });
  write("done\n");
  assertEquals((await rows()).at(-1), "done");
  await leave();
});

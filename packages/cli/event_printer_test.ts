import { assertEquals } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { eventPrinter, ledgerLine } from "./event_printer.ts";
import { questionOf } from "./terminal/ask_user.ts";

const ledger = {
  calls: 2,
  promptTokens: 12_345,
  cachedTokens: 9_000,
  outputTokens: 67,
  saved: { context: 0, schemas: 1_200 },
  estimated: false,
};

function printed(events: readonly SessionEvent[], options?: Parameters<typeof eventPrinter>[1]): string {
  let text = "";
  const print = eventPrinter((piece) => text += piece, options);
  for (const event of events) print(event);
  return text;
}

Deno.test("eventPrinter() prints streamed text, calls in words, results and the cost", () => {
  const usage = { promptTokens: 1, cachedTokens: 0, outputTokens: 1 };
  assertEquals(
    printed([
      { type: "turn_start", input: "q" },
      { type: "step_start", step: 1 },
      { type: "warning", message: "a demo model answers" },
      { type: "reasoning_delta", step: 1, text: "hm" },
      { type: "text_delta", step: 1, text: "I look " },
      { type: "text_delta", step: 1, text: "around." },
      { type: "assistant_message", step: 1, message: { role: "assistant", content: "I look around." } },
      { type: "tool_call", step: 1, id: "1", name: "f", arguments: `{"a":\n"${"x".repeat(200)}"}` },
      {
        type: "tool_result",
        step: 1,
        id: "1",
        name: "f",
        content: "Cannot do f:\x1b[2J it is late.\nMore of it.",
        error: true,
        bytes: 1_234,
        durationMs: 3.4,
      },
      { type: "step_end", step: 1, usage, finishReason: "tool_calls" },
      { type: "step_start", step: 2 },
      {
        type: "context_rewritten",
        step: 2,
        mechanism: "schemas",
        reason: "shown once",
        removed: "prose of 1 tool",
        tokensBefore: 2_000,
        tokensAfter: 800,
      },
      { type: "user_message", step: 2, input: "Be quick." },
      { type: "text_delta", step: 2, text: "Done.\n" },
      { type: "turn_end", reason: "completed", text: "Done.\n", ledger },
    ]).split("\n"),
    [
      "",
      "! a demo model answers",
      "",
      "I look around.",
      "",
      `✗ f a: ${"x".repeat(194)}… · error`,
      "  Cannot do f:\\x1b[2J it is late.",
      "  More of it.",
      "",
      "~ schemas: prose of 1 tool (shown once); 2,000 → 800 tokens",
      "› Be quick.",
      "",
      "Done.",
      "",
      "2 calls · 12,345 prompt tokens (73 % cached) · 67 output · 1,200 removed",
      "",
    ],
  );
});

Deno.test("eventPrinter() prints answers to approvals", () => {
  const answer = {
    type: "approval_answered",
    approvalId: "q-1",
    id: "1",
    decision: "deny",
    by: "user",
  } as const;
  assertEquals(
    printed([
      { type: "approval_requested", step: 1, id: "1", name: "shell", arguments: '{"command":"ls"}' },
      { type: "turn_end", reason: "approval", text: "", ledger },
      { ...answer, reason: "Not\nnow." },
      { ...answer, id: "2", decision: "allow", by: "time" },
    ]).split("\n"),
    ["✗ Run ls: denied by the user: Not now.", "✓ 2: allowed after a timeout", ""],
  );
});

Deno.test("eventPrinter() indents calls in code mode and prints their totals", () => {
  const call = { type: "tool_call", step: 1, arguments: "{}" } as const;
  const result = {
    type: "tool_result",
    step: 1,
    content: "",
    error: false,
    bytes: 7,
    durationMs: 2,
  } as const;
  assertEquals(
    printed([
      { ...call, id: "p", name: "run_program" },
      { ...call, id: "p/1", name: "read_file", arguments: '{"path":"a.ts"}', parent: "p", beganAtMs: 1 },
      { ...result, id: "p/1", name: "read_file", parent: "p", content: "x" },
      { ...result, id: "p", name: "run_program", made: { calls: 12, failed: 1, omittedTokens: 3400 } },
    ]).split("\n"),
    [
      "● Run a program",
      "  ● Read a.ts · 1 line",
      "  12 calls · 1 failed · 3,400 tokens kept out of the prompt",
      "",
    ],
  );
});

Deno.test("eventPrinter() prints why a turn ended early", () => {
  assertEquals(
    printed([{ type: "turn_end", reason: "step_limit", text: "", message: "50 steps are the limit", ledger }])
      .split("\n")[0],
    "! 50 steps are the limit",
  );
});

Deno.test("ledgerLine() reports dollars or cost units, as far as known, and estimated usage", () => {
  const costs = [{}, { costUnits: 1 }, { costUnits: 1, usd: 1.234 }, { usd: 0.01234 }, { usd: 0.00001 }, {
    usd: 0,
  }];
  assertEquals(
    costs.map((more) => ledgerLine({ ...ledger, saved: {}, ...more }).split("2 calls")[0]),
    ["", "1 cost unit · ", "$1.23 · ", "$0.0123 · ", "under $0.0001 · ", "$0.0000 · "],
  );
  assertEquals(
    ledgerLine({ ...ledger, calls: 1, promptTokens: 0, saved: {}, estimated: true }),
    "1 call · 0 prompt tokens (0 % cached) · 67 output · usage estimated",
  );
});

Deno.test("eventPrinter() streams a command's output, escaped", () => {
  const output = (text: string): SessionEvent => ({ type: "tool_output", step: 1, id: "1", text });
  assertEquals(
    printed([output("on\x1b[2Je\r\n\ttw"), output("o"), { type: "step_start", step: 2 }]),
    "● A call\non\\x1b[2Je\n\ttwo",
  );
});

Deno.test("eventPrinter() shows the last rows of running calls above the waiting line", () => {
  let above: readonly string[] | undefined;
  let text = "";
  const print = eventPrinter((piece) => text += piece, {
    columns: () => 13,
    showAbove: (rows) => above = rows?.(12),
  });
  const written = (id: string, ...pieces: string[]) => {
    for (const piece of pieces) print({ type: "tool_output", step: 1, id, text: piece });
    return above;
  };
  const settled = { name: "shell", content: "", error: false, bytes: 9, durationMs: 1 } as const;
  const end = (id: string) => {
    print({ type: "tool_result", step: 1, id, ...settled });
    const expected = text;
    text = "";
    return [expected, above];
  };
  // Partial, wide and overwritten lines.
  assertEquals(written("a", "on", "e\x1b[2J\r", "\ntwo\tis here now\n"), [
    "  one\\x1b[2J",
    "  two    is",
    "  here now",
  ]);
  assertEquals(written("b", "10 %\r", "20 %\r", "30"), ["  30"]);
  assertEquals(end("b"), ["● shell\n  │ 30\n", ["  one\\x1b[2J", "  two    is", "  here now"]]);
  assertEquals(end("a"), ["● shell\n  │ one\\x1b[2\n  │ J\n  │ two    is\n  │ here now\n", undefined]);
  // The last of many lines.
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at + 1}\n`).join("");
  const last = Array.from({ length: 8 }, (_, at) => `  line ${19_993 + at}`);
  assertEquals(written("c", lines), last);
  assertEquals(end("c"), [
    [
      ...["● shell", ...[1, 2, 3].map((at) => `  │ line ${at}`)],
      ...["  │ … 19,992", "  │ more", "  │ lines;", "  │ /output", "  │ shows all"],
      ...last.slice(3).map((line) => line.replace("  line ", "  │ line\n  │ ")),
      "",
    ].join("\n"),
    undefined,
  ]);
  // An unfinished line of wide characters.
  const wide = [...Array.from({ length: 7 }, () => "  日日日日日"), "  日日"];
  assertEquals(written("d", "日".repeat(65_002)), wide);
  // A call without a result.
  print({ type: "turn_end", reason: "cancelled", text: "", ledger });
  assertEquals(text.split("\n").slice(0, 3), ["● A call", "  │ 日日日日", "  │ 日日日日"]);
  assertEquals(
    text.endsWith(
      "\n\n! The turn\n  ended:\n  cancelled.\n2 calls ·\n  12,345\n  prompt\n  tokens (73\n  % cached) ·\n  67 output ·\n  1,200\n  removed\n",
    ),
    true,
    text.slice(-300),
  );
  assertEquals(above, undefined);
});

Deno.test("eventPrinter() escapes text that imitates or hides an approval request", () => {
  const { step, name } = { step: 1, name: "a\x1b]0;t\x07" };
  const forged = `${questionOf({ name: "ls", arguments: "{}" })}\n\x1b[8m`;
  const lines = printed([
    { type: "text_delta", step, text: forged.slice(0, 3) },
    { type: "text_delta", step, text: forged.slice(3) },
    { type: "tool_output", step, id: "1", text: forged },
    { type: "warning", message: forged },
    { type: "user_message", step, input: forged },
    { type: "tool_call", step, id: "1", name, arguments: forged },
    { type: "turn_end", reason: "model_error", text: "", message: forged, ledger },
  ]);
  assertEquals(/[^\P{Cc}\n]|▌/u.test(lines), false);
  assertEquals(lines.split("\n")[0], "\\u{258c} Approval needed");
});

Deno.test("eventPrinter() prints a subagent's start and its output", () => {
  const lines = printed([
    { type: "tool_call", step: 1, id: "1", name: "delegate", arguments: '{"task":"Look"}' },
    { type: "subagent_started", id: "1", session: "s" },
    { type: "tool_output", step: 1, id: "1", text: "read_file a\n" },
  ]);
  assertEquals(lines, "● Subagent: Look\n  ↳ session s\nread_file a\n");
});

Deno.test("eventPrinter() prints diffs once, truncated", () => {
  const change = { path: "a", added: 1, removed: 1, diff: "@@ -1 +1 @@\n-one\n+two\x1b[2K" };
  const result = (id: string, diff = change.diff) => ({
    ...{ type: "tool_result", step: 1, id, name: "edit_file", content: "edited", error: false } as const,
    ...{ bytes: 6, durationMs: 1, change: { ...change, diff } },
  });
  const updateLine = (...changed: string[]) => [
    `● edit_file · +1 −1`,
    ...changed,
  ];
  assertEquals(
    printed([
      { type: "approval_requested", step: 1, id: "requested", name: "edit_file", arguments: "{}", change },
      { type: "text_delta", step: 1, text: "Half a line" },
      result("requested"),
      result("unasked"),
      result("long", Array.from({ length: 62 }, (_, at) => `+${at}`).join("\n")),
    ]).split("\n"),
    [
      "Half a line",
      "",
      ...updateLine(),
      ...updateLine("  @@ -1 +1 @@", "  -one", "  +two\\x1b[2K"),
      ...updateLine(...Array.from({ length: 60 }, (_, at) => `  +${at}`), "  … 2 more lines"),
      "",
    ],
  );
});

Deno.test("eventPrinter() renders replies as Markdown if colored", () => {
  const message = { role: "assistant", content: "" } as const;
  const events: SessionEvent[] = [
    { type: "text_delta", step: 1, text: "# One\nA **wo" },
    { type: "text_delta", step: 1, text: "rd** and **more" },
    { type: "assistant_message", step: 1, message },
    { type: "tool_call", step: 1, id: "1", name: "f", arguments: "**" },
    {
      ...{
        type: "tool_result",
        step: 1,
        id: "1",
        name: "f",
        content: "",
        error: false,
        bytes: 0,
        durationMs: 0,
      },
    },
    { type: "text_delta", step: 2, text: "| a |" },
    { type: "warning", message: "w" },
  ];
  assertEquals(
    printed(events, { isColored: true }),
    "\x1b[1m\x1b[4mOne\x1b[24m\x1b[22m\nA \x1b[1mword\x1b[22m and **more\n\n\x1b[32m●\x1b[0m \x1b[1mf **\x1b[0m\n\n| a |\n\n\x1b[33m!\x1b[0m w\n",
  );
  assertEquals(printed(events), "# One\nA **word** and **more\n\n● f **\n\n| a |\n\n! w\n");
});

Deno.test("eventPrinter() prints the plan after each change, including an earlier plan", () => {
  const call = (args: object) =>
    ({ type: "tool_call", step: 1, id: "1", name: "update_plan", arguments: JSON.stringify(args) }) as const;
  const result = (error: boolean): SessionEvent => ({
    type: "tool_result",
    ...{ step: 1, id: "1", name: "update_plan", content: "", bytes: 0, durationMs: 0, error },
  });
  const plan = { steps: ["Look", "Mend\x1b[2J"], done: 0 };
  assertEquals(
    printed([call({ done: 1 }), result(false), call({ steps: ["Rest"] }), result(false)], { plan }),
    "  ☑ Look\n  ▶ Mend\\x1b[2J\n  ▶ Rest\n",
  );
  assertEquals(
    printed([call({ done: 1 }), result(true)]),
    "✗ Update the plan · error\n",
  );
});

Deno.test("eventPrinter() prints a reply that wasn't streamed", () => {
  const reply = (message: { readonly content?: string; readonly refusal?: string }): SessionEvent => ({
    ...{ type: "assistant_message", step: 1, message: { role: "assistant", ...message } },
  });
  assertEquals(
    printed([
      reply({ content: "Whole." }),
      { type: "step_start", step: 2 },
      { type: "reasoning_delta", step: 2, text: "hm" },
      reply({ refusal: "I won't." }),
      { type: "step_start", step: 3 },
      { type: "text_delta", step: 3, text: "Streamed." },
      { type: "warning", message: "w" },
      reply({ content: "Streamed." }),
    ]),
    "Whole.\n\nI won't.\n\nStreamed.\n\n! w\n",
  );
});

import { assertEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolMessage } from "@tare/messages";
import { countMessageTokens } from "@tare/messages/internal";
import { type Elision, type PruneOptions, selectElisions } from "@tare/prune";
import { say, step, text, user } from "./fixture_test.ts";

const select = (messages: readonly Message[], options: Partial<PruneOptions> = {}) =>
  selectElisions(messages, { countTokens: estimateTokens, protectTokens: 0, ...options });

const reasons = (candidates: readonly Omit<Elision, "ref" | "text">[]) =>
  candidates.map(({ index, reason }) => [index, reason]);

Deno.test("selectElisions() returns old results, oldest first, with the tokens freed", () => {
  const messages = [
    user("go"),
    ...step("shell", { n: 1 }, text(500)),
    ...step("shell", { n: 2 }, text(600)),
    say(""),
  ];
  assertEquals(select(messages), [
    { index: 2, toolCallId: "call", tool: "shell", tokensBefore: 504, tokensAfter: 18, reason: "old" },
    { index: 4, toolCallId: "call", tool: "shell", tokensBefore: 604, tokensAfter: 18, reason: "old" },
  ]);
});

Deno.test("selectElisions() puts superseded results first: the same call made again, a file written later", () => {
  const tools = { read_file: { reads: "path" }, edit_file: { writes: "path" } };
  const messages = [
    ...step("shell", { cmd: "ls" }, text(500)), // 1: old
    ...step("read_file", '{"path":"a","from":1}', text(500)), // 3: the same call again at 5
    ...step("read_file", '{ "from": 1, "path": "a" }', text(500)), // 5: old
    ...step("read_file", { path: "./b" }, text(500)), // 7: written at 9
    ...step("edit_file", { path: "b" }, "done"),
    ...step("read_file", { path: "b" }, text(500)), // 11: read again after it was written
    say("done"),
  ];
  assertEquals(reasons(select(messages, { tools })), [
    [3, "superseded"],
    [7, "superseded"],
    [1, "old"],
    [5, "old"],
    [11, "old"],
  ]);
});

Deno.test("selectElisions() treats a read of several files as superseded once all of them were written", () => {
  const tools = { read_file: { reads: "path" }, edit_file: { writes: "path" } };
  const read = (path: string, also: string) => step("read_file", { path, also: [{ path: also }] }, text(500));
  const messages = [
    ...read("a", "b"), // 1: both written at 5 and 7
    ...read("a", "c"), // 3: only one written
    ...step("edit_file", { path: "a" }, "done"),
    ...step("edit_file", { path: "b" }, "done"),
    say("done"),
  ];
  assertEquals(reasons(select(messages, { tools })), [[1, "superseded"], [3, "old"]]);
});

Deno.test("selectElisions() treats files that a program reports as written as such, failed or not", () => {
  const tools = { read_file: { reads: "path" }, run_program: { replays: true } } as const;
  const read = (path: string) => step("read_file", { path }, text(500));
  const messages = [
    ...read("a"), // 1: written at 11
    ...read("./b c"), // 3: written at 9
    ...read("d"), // 5: only printed at 9
    ...read("e"), // 7: only named by another tool
    ...step("run_program", { code: "1" }, "Error: no\n[Written: d]\n3\n\n[Written: x, b c]"),
    ...step("run_program", { code: "2" }, "3\n\n[Written: a]"),
    ...step("shell", { cmd: "ls" }, "\n\n[Written: e]"),
    say("done"),
  ];
  assertEquals(reasons(select(messages, { tools })), [
    [1, "superseded"],
    [3, "superseded"],
    [5, "old"],
    [7, "old"],
  ]);
});

Deno.test("selectElisions() treats a call of call_tool as one of the named tool", () => {
  const tools = {
    read_file: { reads: "path" },
    edit_file: { writes: "path" },
    ask: { stance: "keep" },
  } as const;
  const through = (name: string, args: unknown, result: string) =>
    step("call_tool", { name, arguments: args }, result);
  const messages = [
    ...through("read_file", { path: "a" }, text(500)), // 1: read again at 3
    ...step("read_file", { path: "a" }, text(500)), // 3: written at 7
    ...through("ask", {}, text(500)), // 5: retained
    ...through("edit_file", { path: "a" }, "done"),
    ...through("shell", {}, text(500)), // 9: old
    say("done"),
  ];
  const found = select(messages, { tools });
  assertEquals(found.map(({ index, tool, reason }) => [index, tool, reason]), [
    [1, "read_file", "superseded"],
    [3, "read_file", "superseded"],
    [9, "shell", "old"],
  ]);
});

Deno.test("selectElisions() doesn't count a failed call as superseding", () => {
  const tools = { read_file: { reads: "path" }, edit_file: { writes: "path" } };
  const messages = [
    ...step("read_file", { path: "a" }, text(500)),
    ...step("edit_file", { path: "a" }, "Cannot edit a: the text to replace is not there"),
    ...step("read_file", { path: "a" }, "Error: disk"),
    say("done"),
  ];
  assertEquals(reasons(select(messages, { tools })), [[1, "old"]]);
});

Deno.test("selectElisions() compares long and broken arguments as the model wrote them", () => {
  const long = JSON.stringify({ patch: "p".repeat(5000) });
  const messages = [
    ...step("patch", long, text(500)),
    ...step("patch", long, text(500)),
    ...step("patch", "{broken", text(500)),
    ...step("patch", "{broken", text(500)),
    ...step("patch", "null", text(500)),
    say("done"),
  ];
  assertEquals(reasons(select(messages)), [[1, "superseded"], [5, "superseded"], [3, "old"], [7, "old"], [
    9,
    "old",
  ]]);
});

Deno.test("selectElisions() retains the protected tail, 16,384 tokens and at most half the window", () => {
  const messages = Array.from({ length: 40 }, (_, n) => step("shell", { n }, text(996))).flat().concat(
    say(""),
  );
  const retained = (options: Partial<PruneOptions>) =>
    40 - selectElisions(messages, { countTokens: estimateTokens, ...options }).length;
  assertEquals(
    [{}, { windowTokens: 20_000 }, { windowTokens: 200_000 }, { protectTokens: 5000 }].map(retained),
    [
      16,
      9,
      16,
      4,
    ],
  );
});

Deno.test("selectElisions() retains results that the model has not seen, however long", () => {
  const messages = [user("go"), ...step("shell", {}, text(50_000))];
  assertEquals(select(messages), []);
  assertEquals(reasons(select([...messages, say("seen")])), [[2, "old"]]);
});

Deno.test("selectElisions() skips small results, counted in UTF-8 bytes", () => {
  const messages = (content: string) => [...step("shell", {}, content), say("")];
  const byCharacter = { countTokens: (content: string) => content.length };
  assertEquals(reasons(select(messages("x".repeat(1023)), byCharacter)), []);
  assertEquals(reasons(select(messages("x".repeat(1024)), byCharacter)), [[1, "old"]]);
  assertEquals(reasons(select(messages("é".repeat(511)), byCharacter)), []);
  assertEquals(reasons(select(messages("é".repeat(512)), byCharacter)), [[1, "old"]]);
  assertEquals(reasons(select(messages("x".repeat(600)), { ...byCharacter, minBytes: 100 })), [[1, "old"]]);
});

Deno.test("selectElisions() skips a result that a placeholder would hardly shorten", () => {
  const messages = [...step("shell", {}, " ".repeat(2000)), say("")];
  assertEquals(select(messages, { countTokens: (content) => content.trim().length + 10 }), []);
});

Deno.test("selectElisions() retains the results of tools with the stance keep", () => {
  const messages = [...step("ask_user", {}, text(500)), ...step("shell", {}, text(500)), say("")];
  assertEquals(reasons(select(messages, { tools: { ask_user: { stance: "keep" } } })), [[3, "old"]]);
});

Deno.test("selectElisions() treats a tool that is no longer registered, or named like an object property, as once", () => {
  const messages = [...step("gone", {}, text(500)), ...step("constructor", {}, text(500)), say("")];
  assertEquals(reasons(select(messages, { tools: { shell: { stance: "keep" } } })), [[1, "old"], [3, "old"]]);
});

Deno.test("selectElisions() retains error results, by its convention or the caller's", () => {
  const messages = [
    ...step("shell", {}, `Error: ${text(500)}`),
    ...step("shell", {}, `exit 1 ${text(500)}`),
    say(""),
  ];
  assertEquals(reasons(select(messages)), [[3, "old"]]);
  const isError = (message: ToolMessage, index: number) => index === 3 && message.tool_call_id === "call";
  assertEquals(reasons(select(messages, { isError })), [[1, "old"]]);
});

Deno.test("selectElisions() retains originals that were recalled twice, and counts only visible recalls", () => {
  const [ref, other] = ["0123456789abcdef", "fedcba9876543210"];
  const truncated = `head\n[elided: middle of log result, 90000 bytes; recall with ref ${ref}]\n${text(500)}`;
  const recalls = [
    ...step("log", {}, truncated), // 1: shows what is recalled twice
    ...step("recall", { ref, lines: "1-9" }, text(500)), // 3: recalled twice
    ...step("recall", { ref: other }, text(500)), // 5: recalled once
    ...step("recall", { ref, find: "x" }, text(500)), // 7: recalled twice
    say("done"),
  ];
  assertEquals(reasons(select(recalls)), [[5, "old"]]);
  assertEquals(reasons(select(recalls.toSpliced(6, 2))), [[1, "old"], [3, "old"], [5, "old"]]);
});

Deno.test("selectElisions() evicts a superseded recall even if it was made twice", () => {
  const args = { ref: "0123456789abcdef" };
  const messages = [...step("recall", args, text(500)), ...step("recall", args, text(500)), say("")];
  assertEquals(reasons(select(messages)), [[1, "superseded"]]);
});

Deno.test("selectElisions() accepts text in parts, and retains results with other parts", () => {
  const [call, result] = step("shell", {}, "");
  const part = { type: "text", text: text(500) } as const;
  const image = { type: "image_url", image_url: { url: "data:" } } as const;
  const messages = (content: ToolMessage["content"]) => [call!, { ...result, content } as Message, say("")];
  assertEquals(reasons(select(messages([part, part]))), [[1, "old"]]);
  assertEquals(reasons(select(messages([part, image]))), []);
});

Deno.test("selectElisions() doesn't touch placeholders, nor an empty array", () => {
  const placeholder = "[elided: shell result, 48213 bytes; recall with ref 0123456789abcdef]";
  assertEquals(select([...step("shell", {}, placeholder), say("")], { minBytes: 0 }), []);
  assertEquals(select([]), []);
});

Deno.test("selectElisions() protects exactly the newest messages that fit into the tail, and into half the window", () => {
  const messages = [
    ...step("a", {}, text(500)),
    ...step("b", {}, text(600)),
    ...step("c", {}, text(700)),
    say(""),
  ];
  const indexes = (options: Partial<PruneOptions>) => select(messages, options).map(({ index }) => index);
  const size = (from: number) =>
    messages.slice(from).reduce((sum, one) => sum + countMessageTokens(one, estimateTokens), 0);
  for (const windowShare of [false, true]) {
    const within = (tokens: number) =>
      windowShare
        ? indexes({ protectTokens: 1e9, windowTokens: 2 * tokens })
        : indexes({ protectTokens: tokens });
    assertEquals(within(size(5)), [1, 3]);
    assertEquals(within(size(5) - 1), [1, 3, 5]);
    assertEquals([within(size(3)), within(size(3) - 1)], [[1], [1, 3]]);
    assertEquals([within(size(1)), within(size(1) - 1)], [[], [1]]);
  }
});

Deno.test("selectElisions() returns a result that frees at least half of its tokens and has minBytes", () => {
  const one = (result: string, options: Partial<PruneOptions> = {}) =>
    select([...step("a", {}, result), say("")], options).length;
  const stand = (result: string) =>
    select([...step("a", {}, result), say("")], { minBytes: 0 })[0]!.tokensAfter;
  const placeholder = stand(text(500));
  const half = text(2 * placeholder - 4);
  assertEquals(
    countMessageTokens({ role: "tool", tool_call_id: "call", content: half }, estimateTokens),
    2 * stand(text(100)),
  );
  assertEquals([one(half, { minBytes: 0 }), one(half.slice(4), { minBytes: 0 })], [1, 0]);
  assertEquals([one("x".repeat(2_000), { minBytes: 2_000 }), one("x".repeat(2_000), { minBytes: 2_001 })], [
    1,
    0,
  ]);
  assertEquals([one("é".repeat(2_000), { minBytes: 4_000 }), one("é".repeat(2_000), { minBytes: 4_001 })], [
    1,
    0,
  ]);
  assertEquals([one("漢".repeat(2_000), { minBytes: 6_000 }), one("漢".repeat(2_000), { minBytes: 6_001 })], [
    1,
    0,
  ]);
});

Deno.test("selectElisions() retains a result that was recalled twice, not one that was recalled once", () => {
  const ref = "0123456789abcdef";
  const recalled = (times: number) => [
    ...Array.from({ length: times }, (_, n) => step("recall", { ref, from: n }, text(500, `r${n}`))).flat(),
    ...step("a", {}, text(500)),
    say(""),
  ];
  const left = (times: number) => select(recalled(times)).map(({ tool }) => tool);
  assertEquals([left(1), left(2), left(3)], [["recall", "a"], ["a"], ["a"]]);
});

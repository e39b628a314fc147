import {
  assert,
  assertEquals,
  assertLess,
  assertLessOrEqual,
  assertNotEquals,
  assertStrictEquals,
  assertStringIncludes,
} from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { applyElisions, type PruneOptions, truncateResults } from "@tare/prune";
import { bytesFromText, parsePlaceholder, truncateText } from "@tare/prune/internal";
import fc from "../../tests/cases.ts";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";
import { codePoints } from "../../tests/code_points.ts";

const truncated = (
  messages: readonly Message[],
  options: Pick<PruneOptions, "archive"> & Partial<Parameters<typeof truncateResults>[1]>,
) => archived(truncateResults(messages, { countTokens: estimateTokens, ...options }));

Deno.test("truncateResults() archives a long new result and replaces it by head, placeholder and tail", async () => {
  const archive = spyArchive();
  const messages = [user("go"), ...step("log", {}, text(9000))];
  const { messages: view, elisions, tokensBefore, tokensAfter } = await truncated(messages, {
    archive,
    recall: true,
  });
  const [{ ref, text: content, ...elision }] = elisions as [typeof elisions[0] & object];
  assertEquals(elision, {
    index: 2,
    toolCallId: "call",
    tool: "log",
    tokensBefore: 9004,
    tokensAfter: 4 + estimateTokens(content),
    reason: "truncated",
  });
  assertEquals(await archive.get(ref), messages[2]?.content);
  assertEquals(view[2]?.content, content);
  assertLessOrEqual(estimateTokens(content), 8000);
  assertEquals(tokensBefore - tokensAfter, 9004 - elision.tokensAfter);
  const line = content.split("\n").find((line) => line.startsWith("[elided"))!;
  assertEquals(parsePlaceholder(line), { of: "middle", tool: "log", bytes: 36_000, ref });
});

Deno.test("truncateResults() truncates parallel results separately, and retains those within the limit", async () => {
  const archive = spyArchive();
  const [call, long] = step("log", {}, text(900));
  const calls = call?.role === "assistant" ? call.tool_calls! : [];
  const messages: Message[] = [
    { role: "assistant", tool_calls: [...calls, ...calls, ...calls] },
    long!,
    { ...long!, content: text(800) } as Message,
    { ...long!, content: text(700, "y") } as Message,
  ];
  const { elisions } = await truncated(messages, { archive, limitTokens: 700 });
  assertEquals(elisions.map(({ index }) => index), [1, 2]);
});

Deno.test("truncateResults() never rewrites results of earlier requests", async () => {
  const archive = spyArchive();
  const messages = [...step("log", {}, text(9000)), say("Seen."), user("More?")];
  assertStrictEquals((await truncated(messages, { archive })).messages, messages);
  assertEquals(archive.puts(), 0);
});

Deno.test("truncateResults() changes nothing the second time, and its elisions return the same view", async () => {
  const archive = spyArchive();
  const messages = step("log", {}, text(9000));
  const first = await truncated(messages, { archive });
  assertStrictEquals((await truncated(first.messages, { archive })).messages, first.messages);
  assertEquals(applyElisions(messages, JSON.parse(JSON.stringify(first.elisions))), [...first.messages]);
  assertEquals(archive.puts(), 1);
});

Deno.test("truncateResults() retains results of keep tools, and those with other parts than text", async () => {
  const archive = spyArchive();
  const [call, result] = step("log", {}, "");
  const parts = [{ type: "text", text: text(9000) }, {
    type: "image_url",
    image_url: { url: "data:" },
  }] as const;
  const retained = step("ask_user", {}, text(9000));
  assertEquals(
    (await truncated(retained, { archive, tools: { ask_user: { stance: "keep" } } })).elisions,
    [],
  );
  assertEquals(
    (await truncated([call!, { ...result, content: parts } as Message], { archive })).elisions,
    [],
  );
});

Deno.test("truncateResults() truncates nothing and returns the failure when archiving fails", async () => {
  const messages = step("log", {}, text(9000));
  const options = { archive: failingArchive(), countTokens: estimateTokens };
  const outcome = await truncateResults(messages, options);
  // @ts-expect-error: before failure has been looked at, there are no messages.
  assertEquals(outcome.messages, undefined);
  assert(outcome.failure);
  assertStrictEquals(outcome.unchanged, messages);
  assertEquals(outcome.failure.message, "Cannot archive a result of log: disk full");
});

Deno.test("truncateResults() works in a history that begins with results", async () => {
  const messages: Message[] = [{ role: "tool", tool_call_id: "x", content: text(9000) }];
  assertEquals((await truncated(messages, { archive: spyArchive() })).elisions, []);
  assertNotEquals((await truncated(step("log", {}, text(9000)), { archive: spyArchive() })).elisions, []);
});

const ref = "0123456789abcdef";
const cut = (text: string, limitTokens?: number, countTokens = estimateTokens) =>
  truncateText(text, { tool: "log", ref, countTokens, ...(limitTokens !== undefined && { limitTokens }) });

function parts(outcome: string): [head: string, line: string, tail: string] {
  const lines = outcome.split("\n");
  const at = lines.findIndex((line) => parsePlaceholder(line)?.of === "middle");
  return [lines.slice(0, at).join("\n"), lines[at]!, lines.slice(at + 1).join("\n")];
}

Deno.test("truncateText() returns a text within the limit unchanged: 8,000 tokens by default", () => {
  const text = "x".repeat(32_000);
  assert(cut(text) === text);
  assertLess(cut(`${text}x`).length, text.length);
});

Deno.test("truncateText() returns head, placeholder and tail, cut at line breaks", () => {
  const text = Array.from({ length: 5000 }, (_, n) => `line ${n}`).join("\n");
  const [head, line, tail] = parts(cut(text, 500));
  assertEquals(line, `[elided: middle of log result, ${text.length} bytes; ref ${ref}]`);
  assertEquals([head.split("\n")[0], tail.split("\n").at(-1)], ["line 0", "line 4999"]);
  assert(text.startsWith(`${head}\n`) && text.endsWith(`\n${tail}`));
  assert(head.length > 850 && tail.length > 850, "most of the limit is used");
});

Deno.test("truncateText() cuts very long single lines, and never within a character", () => {
  for (
    const text of ["x".repeat(1_000_000), "🙂".repeat(100_000), `${"🙂x".repeat(9)}\n${"é🙂".repeat(50_000)}`]
  ) {
    for (const limit of [100, 101, 102, 103]) {
      const outcome = cut(text, limit);
      const [head, , tail] = parts(outcome);
      assert(text.startsWith(head) && text.endsWith(tail) && outcome.isWellFormed());
      assert(estimateTokens(outcome) <= limit && head.length > 100 && tail.length > 100);
    }
  }
});

Deno.test("truncateText() never exceeds the limit and returns only parts of the text, with any counter", () => {
  const counters = [
    estimateTokens,
    (text: string) => text.length,
    (text: string) => bytesFromText(text).length,
  ];
  const texts = fc.array(fc.oneof(fc.string({ unit: codePoints() }), fc.lorem(), fc.constant("\n")), {
    minLength: 1,
  })
    .chain((pieces) => fc.integer({ min: 1, max: 200 }).map((times) => pieces.join("").repeat(times)));
  fc.assert(
    fc.property(
      texts,
      fc.integer({ min: 100, max: 3000 }),
      fc.constantFrom(...counters),
      (text, limit, count) => {
        const outcome = cut(text, limit, count);
        assert(count(outcome) <= limit);
        if (count(text) <= limit) return assertEquals(outcome, text);
        const [head, , tail] = parts(outcome);
        assert(text.startsWith(head) && text.endsWith(tail) && head.length + tail.length < text.length);
      },
    ),
  );
});

Deno.test("truncateText() returns only the placeholder if the limit is too low", () => {
  assertEquals(cut("x".repeat(5000), 10), `[elided: log result, 5000 bytes; ref ${ref}]`);
});

Deno.test("truncateText() is deterministic", () => {
  const text = "some words\n".repeat(10_000);
  assertEquals(cut(text), cut(text));
  assertStringIncludes(cut(text), ref);
});

Deno.test("truncateText() stays within the limit by an exact counter, and near it, for a megabyte of any text", async () => {
  const { count } = await loadTokenizer();
  const words = Array.from({ length: 150_000 }, (_, n) => (n * n % 9973).toString(36)).join(" ");
  for (const text of ["a".repeat(1e6), " ".repeat(1e6), "<|endoftext|>".repeat(80_000), words]) {
    const tokens = count(cut(text, 8000, count));
    assert(tokens <= 8000 && tokens > 6000, `${tokens} tokens of ${text.slice(0, 20)}`);
  }
});

Deno.test("truncateText() retains or removes binary data whole, anywhere in a text", () => {
  const words = (name: string) => fc.nat(40_000).map((length) => `${name} `.repeat(length).slice(0, length));
  const payload = fc.integer({ min: 600, max: 200_000 }).map((length) =>
    Array.from({ length }, (_, at) => "QUJD1GVm9+/x"[(at * 7 + (at >> 4)) % 12]).join("")
  );
  const front = fc.constantFrom('{"image":"', '{"image":"data:image/png;base64,', "data:image/png;base64,");
  fc.assert(
    fc.property(words("before"), front, payload, words("behind"), (before, front, data, behind) => {
      const outcome = cut(`${before}\n${front}${data}" ${behind}`, 8_000);
      const rest = outcome.replaceAll(data, "");
      assert(!rest.includes(data.slice(0, 100)) && !rest.includes(data.slice(-100)), rest.slice(0, 500));
    }),
    { numRuns: 30 },
  );
  assertEquals(cut("QUJD1GVm".repeat(10_000)), `[elided: log result, 80000 bytes; ref ${ref}]`);
});

Deno.test("truncateText() returns as much of head and tail as the limit allows, for texts of every kind", () => {
  const lines = Array.from({ length: 400 }, (_, n) => `line ${n} ${"=".repeat(n % 23)}`).join("\n");
  const base64 = "aB3".repeat(300);
  const texts = {
    lines,
    "one line": "x".repeat(9_000),
    "long last line": `${lines.slice(0, 900)}\n${"y".repeat(6_000)}`,
    emoji: "👍".repeat(3_000),
    "data in its head": `${"h".repeat(300)} "${base64}" ${lines}`,
    "data in its tail": `${lines} data:image/png;base64,${base64} ${"t".repeat(300)}`,
    "data alone": base64.repeat(9),
    "quoted data of one case": `${"h".repeat(300)} "${"a".repeat(900)}" ${lines}`,
    "a long word of one case": `${"h".repeat(300)} ${"a".repeat(900)} ${lines}`,
    "a URL of one case": `${"h".repeat(300)} data:,${"a".repeat(900)} ${lines}`,
  };
  const ref = "0123456789abcdef";
  const cut = (text: string, limitTokens: number, tool?: string) => {
    const made = truncateText(text, { countTokens: estimateTokens, limitTokens, ref, ...(tool && { tool }) });
    const [head = "", tail] = made.split(/\n?\[[^\n]*0123456789abcdef[^\n]*\]\n?/);
    return made === text ? "whole" : `${head.length}+${tail?.length ?? 0}`;
  };
  const cuts = Object.entries(texts).map(([name, text]) =>
    `${name}: ${[20, 60, 150, 400, 1_000, 3_000].map((limit) => cut(text, limit, "read")).join(" ")}, said ${
      cut(text, 150)
    }`
  );
  assertEquals(cuts, [
    "lines: 3+3 76+79 253+247 738+730 1898+1892 whole, said 253+247",
    "one line: 3+3 83+83 258+258 743+743 1907+1907 whole, said 258+258",
    "long last line: 3+3 76+83 253+258 738+743 1907+1907 whole, said 253+258",
    "emoji: 2+2 82+82 258+258 742+742 1906+1906 whole, said 258+258",
    "data in its head: 3+3 83+79 258+247 301+730 1893+1892 whole, said 258+247",
    "data in its tail: 3+3 76+83 253+258 738+301 1898+1895 whole, said 253+258",
    "data alone: 0+0 0+0 0+0 0+0 0+0 whole, said 0+0",
    "quoted data of one case: 3+3 83+79 258+247 301+730 1893+1892 whole, said 258+247",
    "a long word of one case: 3+3 83+79 258+247 743+730 1891+1892 whole, said 258+247",
    "a URL of one case: 3+3 83+79 258+247 301+730 1897+1892 whole, said 258+247",
  ]);
});

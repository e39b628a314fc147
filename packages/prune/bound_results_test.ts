import { assertEquals, assertLessOrEqual, assertNotEquals, assertStrictEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { applyElisions, type BoundOptions, boundResults, parsePlaceholder } from "@tare/prune";
import { failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

const bound = (
  messages: readonly Message[],
  options: Pick<BoundOptions, "archive"> & Partial<BoundOptions>,
) => boundResults(messages, { countTokens: estimateTokens, ...options });

Deno.test("boundResults() archives a long new result whole and shows head, tail and a placeholder", async () => {
  const archive = spyArchive();
  const messages = [user("go"), ...step("log", {}, text(9000))];
  const { messages: view, elisions, tokensBefore, tokensAfter } = await bound(messages, {
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
    reason: "bound",
  });
  assertEquals(await archive.get(ref), messages[2]?.content);
  assertEquals(view[2]?.content, content);
  assertLessOrEqual(estimateTokens(content), 8000);
  assertEquals(tokensBefore - tokensAfter, 9004 - elision.tokensAfter);
  const line = content.split("\n").find((line) => line.startsWith("[elided"))!;
  assertEquals(parsePlaceholder(line), { tool: "log", bytes: 36_000, ref, middle: true });
});

Deno.test("boundResults() bounds parallel results, each by itself, and leaves those within the limit", async () => {
  const archive = spyArchive();
  const [call, long] = step("log", {}, text(900));
  const calls = call?.role === "assistant" ? call.tool_calls! : [];
  const messages: Message[] = [
    { role: "assistant", tool_calls: [...calls, ...calls, ...calls] },
    long!,
    { ...long!, content: text(800) } as Message,
    { ...long!, content: text(700, "y") } as Message,
  ];
  const { elisions } = await bound(messages, { archive, limitTokens: 700 });
  assertEquals(elisions.map(({ index }) => index), [1, 2]);
});

Deno.test("boundResults() never rewrites what a request has already held", async () => {
  const archive = spyArchive();
  const messages = [...step("log", {}, text(9000)), say("Seen."), user("More?")];
  assertStrictEquals((await bound(messages, { archive })).messages, messages);
  assertEquals(archive.puts(), 0);
});

Deno.test("boundResults() changes nothing the second time, and its elisions give the same view again", async () => {
  const archive = spyArchive();
  const messages = step("log", {}, text(9000));
  const first = await bound(messages, { archive });
  assertStrictEquals((await bound(first.messages, { archive })).messages, first.messages);
  assertEquals(applyElisions(messages, JSON.parse(JSON.stringify(first.elisions))), [...first.messages]);
  assertEquals(archive.puts(), 1);
});

Deno.test("boundResults() leaves results of keep tools, and those that hold more than text", async () => {
  const archive = spyArchive();
  const [call, result] = step("log", {}, "");
  const parts = [{ type: "text", text: text(9000) }, {
    type: "image_url",
    image_url: { url: "data:" },
  }] as const;
  const kept = step("ask_user", {}, text(9000));
  assertEquals((await bound(kept, { archive, tools: { ask_user: { stance: "keep" } } })).elisions, []);
  assertEquals((await bound([call!, { ...result, content: parts } as Message], { archive })).elisions, []);
});

Deno.test("boundResults() bounds nothing when archiving fails, and says why", async () => {
  const messages = step("log", {}, text(9000));
  const bounded = await bound(messages, { archive: failingArchive() });
  assertStrictEquals(bounded.messages, messages);
  assertEquals(bounded.failure?.message, "Cannot archive a result of log: disk full");
});

Deno.test("boundResults() works in a history that begins with results", async () => {
  const messages: Message[] = [{ role: "tool", tool_call_id: "x", content: text(9000) }];
  assertEquals((await bound(messages, { archive: spyArchive() })).elisions, []);
  assertNotEquals((await bound(step("log", {}, text(9000)), { archive: spyArchive() })).elisions, []);
});

import { assert, assertEquals, assertStrictEquals } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import {
  contentText,
  countRequestTokens,
  estimateTokens,
  type Message,
  type ToolMessage,
} from "@tare/messages";
import {
  applyElisions,
  applySummary,
  type Archive,
  type Elision,
  memoryArchive,
  type PruneOptions,
  pruneResults,
  summarizeTurns,
  truncateResults,
} from "@tare/prune";
import { callPairs } from "../../tests/call_pairs.ts";
import { archived } from "./fixture_test.ts";
import { conversations, messyConversations } from "../../tests/conversations.ts";

const anyConversation = fc.oneof(conversations(), messyConversations());

const anyOptions: fc.Arbitrary<Omit<PruneOptions, "archive">> = fc.record({
  countTokens: fc.constant(estimateTokens),
  tools: fc.constant(
    {
      read_file: { stance: "rederivable", reads: "path" },
      ask_user: { stance: "keep" },
    } as const,
  ),
  recall: fc.boolean(),
  protectTokens: fc.nat({ max: 2000 }),
  minBytes: fc.nat({ max: 1500 }),
});

const limits = fc.integer({ min: 40, max: 500 });

async function shorten(messages: readonly Message[], options: PruneOptions, limitTokens: number) {
  const elisions: Elision[] = [];
  let view: readonly Message[] = [];
  for (const message of messages) {
    if (message.role === "assistant") {
      const truncated = await archived(truncateResults(view, { ...options, limitTokens }));
      elisions.push(...truncated.elisions);
      view = truncated.messages;
    }
    view = [...view, message];
  }
  const pruned = await archived(pruneResults(view, options));
  return { view: pruned.messages, elisions: [...elisions, ...pruned.elisions] };
}

function property(
  check: (messages: readonly Message[], options: PruneOptions, limitTokens: number) => Promise<void>,
) {
  return fc.assert(
    fc.asyncProperty(
      anyConversation,
      anyOptions,
      limits,
      (messages, options, limitTokens) =>
        check(messages, { ...options, archive: memoryArchive() }, limitTokens),
    ),
    { numRuns: cases(200) },
  );
}

Deno.test("invariant 1, nothing is lost: the archive contains every text that truncating and pruning removed", () =>
  property(async (messages, options, limitTokens) => {
    const { view, elisions } = await shorten(messages, options, limitTokens);
    const latest = new Map(elisions.map((elision) => [elision.index, elision]));
    for (const [index, message] of view.entries()) {
      const elision = latest.get(index);
      if (elision === undefined) assertStrictEquals(message, messages[index]);
      else assert(await options.archive.get(elision.ref) === contentText(messages[index]?.content));
    }
  }));

Deno.test("invariant 1, nothing is lost: the archive contains every message that a summary replaced", () =>
  property(async (messages, { archive, countTokens }) => {
    for (const summarize of [() => Promise.resolve("S"), () => Promise.reject(new Error("failed"))]) {
      const { messages: summarized, summary: done } = await archived(summarizeTurns(messages, {
        archive,
        countTokens,
        summarize,
        keepTokens: 0,
      }));
      if (done === undefined) return assertStrictEquals(summarized, messages);
      const retained = (await archive.get(done.ref))?.split("\n") ?? [];
      const left = messages.filter((message) => !summarized.includes(message));
      for (const message of left) assert(retained.includes(JSON.stringify(message)));
    }
  }));

Deno.test("invariant 2, pairs stay whole: no message is removed, and only the content of results changes", () =>
  property(async (messages, options, limitTokens) => {
    const before = structuredClone(messages);
    const { view } = await shorten(messages, options, limitTokens);
    assertEquals(messages, before);
    assertEquals(view.length, messages.length);
    for (const [index, message] of view.entries()) {
      const original = messages[index] as Message;
      if (original.role !== "tool") assertStrictEquals(message, original);
      else assertEquals({ ...message, content: "" } as ToolMessage, { ...original, content: "" });
    }
  }));

Deno.test("invariant 2, pairs stay whole: in a summarized conversation each call has its answer", () =>
  fc.assert(
    fc.asyncProperty(
      conversations(),
      fc.nat({ max: 1000 }),
      fc.boolean(),
      async (messages, keepTokens, fails) => {
        const { messages: summarized } = await archived(summarizeTurns(messages, {
          archive: memoryArchive(),
          countTokens: estimateTokens,
          summarize: () => fails ? Promise.reject(new Error("failed")) : Promise.resolve("S"),
          keepTokens,
        }));
        const { unanswered, orphans } = callPairs(summarized);
        assertEquals([unanswered, orphans], [[], []]);
        for (const message of summarized) {
          if ("tool_calls" in message) assert(messages.includes(message));
        }
      },
    ),
  ));

Deno.test("invariant 3, prefix: with truncation at ingestion each request begins with the one before", () =>
  property(async (messages, options, limitTokens) => {
    let sent: readonly Message[] = [];
    let view: readonly Message[] = [];
    for (const message of messages) {
      if (message.role === "assistant") {
        view = (await archived(truncateResults(view, { ...options, limitTokens }))).messages;
        for (const [index, before] of sent.entries()) assertStrictEquals(view[index], before);
        sent = view;
      }
      view = [...view, message];
    }
  }));

Deno.test("invariant 4, determinism: the same history and stored elisions give the same bytes", () =>
  property(async (messages, options, limitTokens) => {
    const first = await shorten(messages, options, limitTokens);
    const restarted = structuredClone(messages);
    const elsewhere: Archive = memoryArchive();
    const again = await shorten(restarted, { ...options, archive: elsewhere }, limitTokens);
    assertEquals(again.elisions, first.elisions);
    const stored: Elision[] = JSON.parse(JSON.stringify(first.elisions));
    assertEquals(JSON.stringify(applyElisions(restarted, stored)), JSON.stringify(first.view));
  }));

Deno.test("invariant 4, determinism: a stored summary gives the same bytes again", () =>
  property(async (messages, { archive, countTokens }) => {
    const summarize = () => Promise.resolve("S");
    const { messages: summarized, summary: done } = await archived(summarizeTurns(messages, {
      archive,
      countTokens,
      summarize,
      keepTokens: 0,
    }));
    if (done === undefined) return;
    assertEquals(
      JSON.stringify(applySummary(structuredClone(messages), JSON.parse(JSON.stringify(done)))),
      JSON.stringify(summarized),
    );
  }));

Deno.test("invariant 5, idempotence: pruning and truncating again change nothing and archive nothing", () =>
  property(async (messages, options, limitTokens) => {
    const { view } = await shorten(messages, options, limitTokens);
    const closed: Archive = { ...options.archive, put: () => Promise.reject(new Error("put again")) };
    const again = await archived(pruneResults(view, { ...options, archive: closed }));
    assertEquals(again.elisions, []);
    assertStrictEquals(again.messages, view);

    const truncated = await archived(truncateResults(messages, { ...options, limitTokens }));
    const twice = await archived(
      truncateResults(truncated.messages, { ...options, archive: closed, limitTokens }),
    );
    assertEquals(twice.elisions, []);
  }));

Deno.test("tokens are counted as they are, before and after", () =>
  property(async (messages, options) => {
    const { messages: view, tokensBefore, tokensAfter } = await archived(pruneResults(messages, options));
    assertEquals(tokensBefore, countRequestTokens({ messages }, estimateTokens));
    assertEquals(tokensAfter, countRequestTokens({ messages: view }, estimateTokens));
    assert(tokensAfter <= tokensBefore);
  }));

import { assert, assertEquals, assertGreater, assertLess, assertStrictEquals } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { applyElisions, type Archive, isColdResume, type PruneOptions, pruneResults } from "@tare/prune";
import { callPairs } from "../../tests/call_pairs.ts";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

type Options = Pick<PruneOptions, "archive"> & Partial<PruneOptions>;

const prune = (messages: readonly Message[], options: Options) => archived(tryToPrune(messages, options));

const tryToPrune = (messages: readonly Message[], options: Options) =>
  pruneResults(messages, { countTokens: estimateTokens, protectTokens: 1000, ...options });

const session = [
  user("What is in the log?"),
  ...step("log", {}, text(5000)),
  say("Nothing."),
  user("And now?"),
  ...step("log", { since: "yesterday" }, text(600)),
  say("Still nothing."),
];

Deno.test("pruneResults() prunes one large old result: pairing and count intact, the archive contains the original, a second pass does nothing", async () => {
  const archive = spyArchive();
  const first = await prune(session, { archive });
  assertEquals(first.elisions.map(({ index, reason }) => [index, reason]), [[2, "old"]]);
  assertEquals(first.messages.length, session.length);
  assertEquals(callPairs(first.messages), callPairs(session));
  for (const index of [0, 1, 3, 4, 5, 6, 7]) assertStrictEquals(first.messages[index], session[index]);
  assertEquals(await archive.get(first.elisions[0]!.ref), session[2]?.content);
  assertEquals(first.tokensBefore - first.tokensAfter, 5000 - estimateTokens(first.elisions[0]!.text));

  const second = await prune(first.messages, { archive });
  assertStrictEquals(second.messages, first.messages);
  assertEquals([second.elisions, second.tokensBefore, archive.puts()], [[], first.tokensAfter, 1]);
});

Deno.test("pruneResults() prunes nothing and returns the failure when archiving fails", async () => {
  const messages = [...step("a", {}, text(500, "fine")), ...step("b", {}, text(500, "bad")), ...session];
  const pruned = await tryToPrune(messages, { archive: failingArchive("bad") });
  // @ts-expect-error: before failure has been looked at, there are no messages.
  assertEquals(pruned.messages, undefined);
  assert(pruned.failure);
  assertStrictEquals(pruned.unchanged, messages);
  assertEquals(pruned.failure.message, "Cannot archive a result of b: disk full");
  // Not every thrown value is an Error.
  const refusing: Archive = {
    get: () => Promise.resolve(undefined),
    put: () => Promise.reject("quota exceeded"),
  };
  const refused = await tryToPrune(messages, { archive: refusing });
  assertEquals(refused.failure?.message, "Cannot archive a result of a: quota exceeded");
});

Deno.test("pruneResults() repeats safely after a crash between archive and snapshot", async () => {
  const archive = spyArchive();
  const lost = await prune(session, { archive });
  const again = await prune(session, { archive });
  assertEquals(again, lost);
  assertEquals(archive.contents.size, 1);
});

Deno.test("pruneResults() is sticky: the next request, made from the history and the stored elisions, is as pruned", async () => {
  const archive = spyArchive();
  const { messages, elisions } = await prune(session, { archive });
  const stored = JSON.parse(JSON.stringify(elisions));
  const next = applyElisions([...session, user("Thanks.")], stored);
  assertEquals(JSON.stringify(next.slice(0, -1)), JSON.stringify(messages));
});

Deno.test("pruneResults() doesn't rebuild its placeholders from the originals each time", async () => {
  const archive = spyArchive();
  let { messages } = await prune(session, { archive });
  const placeholder = messages[2];
  for (let turn = 0; turn < 20; turn += 1) {
    messages = [...messages, user("More?"), ...step("log", { turn }, text(700, `${turn} `)), say("No.")];
    messages = (await prune(messages, { archive })).messages;
    assertStrictEquals(messages[2], placeholder);
  }
  assertEquals(archive.puts(), archive.contents.size);
});

Deno.test("pruneResults() counts no message twice when a request is tried again", async () => {
  const archive = spyArchive();
  const first = await prune(session, { archive });
  const again = await prune(session, { archive });
  assertEquals([again.tokensBefore, again.tokensAfter], [first.tokensBefore, first.tokensAfter]);
});

Deno.test("pruneResults() handles unicode and very long single lines", async () => {
  const archive = spyArchive();
  const contents = [
    "🙂".repeat(100_000),
    "x".repeat(1_000_000),
    `${"\ud83d".repeat(2000)}`,
    "한국어\r\n".repeat(500),
  ];
  const messages = [...contents.flatMap((content, n) => step("log", { n }, content)), ...session];
  const { messages: pruned, elisions } = await prune(messages, { archive });
  assertEquals(elisions.length, 5);
  for (const [at, content] of contents.entries()) {
    assert(await archive.get(elisions[at]!.ref) === content);
    assertLess(String(pruned[elisions[at]!.index]?.content).length, 100);
  }
});

Deno.test("pruneResults() on a cold resume prunes and persists; a warm resume changes nothing", async () => {
  const archive = spyArchive();
  const hour = 60 * 60 * 1000;
  const resume = async (lastUsedAtMs: number | undefined) =>
    isColdResume({ lastUsedAtMs, nowMs: 100 * hour }) ? (await prune(session, { archive })).elisions : [];
  assertEquals(await resume(99 * hour), []);
  const stored = JSON.stringify(await resume(70 * hour));
  const view = applyElisions(session, JSON.parse(stored));
  assertGreater(JSON.stringify(session).length - JSON.stringify(view).length, 19_000);
  assertEquals((await prune(view, { archive })).elisions, []);
});

Deno.test("pruneResults() works on the messages of a tool that is no longer registered", async () => {
  const archive = spyArchive();
  const { elisions } = await prune(session, { archive, tools: { other: { stance: "keep" } } });
  assertEquals(elisions.map(({ text, ref }) => [text, ref]), [[
    `[elided: log result, 20000 bytes; ref ${elisions[0]?.ref}]`,
    elisions[0]!.ref,
  ]]);
});

import { assertEquals, assertRejects, assertStrictEquals, assertThrows } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import {
  applyElisions,
  type Archive,
  elide,
  type Elision,
  selectElisions,
  truncateResults,
} from "@tare/prune";
import { archived, failingArchive, say, spyArchive, step, text, user } from "./fixture_test.ts";

async function elideAll(
  messages: readonly Message[],
  archive: Archive,
  options: Partial<Parameters<typeof elide>[2]> = {},
) {
  const all = { countTokens: estimateTokens, protectTokens: 0, archive, ...options };
  return await elide(messages, selectElisions(messages, all), all);
}

Deno.test("elide() archives each original before it returns the elisions with their tokens", async () => {
  const archive = spyArchive();
  const messages = [
    user("go"),
    ...step("log", {}, text(500, "a")),
    ...step("log", {}, text(500, "b")),
    say(""),
  ];
  const elisions = await elideAll(messages, archive, { recall: true });
  assertEquals(elisions.map(({ index, reason, tokensBefore }) => [index, reason, tokensBefore]), [
    [2, "superseded", 504],
    [4, "old", 504],
  ]);
  for (const { ref, text, index, tokensAfter } of elisions) {
    assertEquals(await archive.get(ref), messages[index]?.content);
    assertEquals(text, `[elided: log result, 2000 bytes; recall with ref ${ref}]`);
    assertEquals(tokensAfter, 4 + estimateTokens(text));
  }
});

Deno.test("elide() makes no elision when a single original can't be archived, and names the tool", async () => {
  const messages = [...step("log", 1 + "", text(500)), ...step("dump", "2", text(500, "bad")), say("")];
  await assertRejects(
    () => elideAll(messages, failingArchive("bad")),
    Error,
    "Cannot archive a result of dump: disk full",
  );
});

Deno.test("elide() archives many originals a few at a time", async () => {
  let [open, most] = [0, 0];
  const inner = spyArchive();
  const archive: Archive = {
    ...inner,
    async put(content) {
      most = Math.max(most, ++open);
      const ref = await inner.put(content);
      open -= 1;
      return ref;
    },
  };
  const messages = Array.from({ length: 50 }, (_, n) => step("log", { n }, text(500, `${n} `))).flat();
  assertEquals((await elideAll([...messages, say("")], archive)).length, 50);
  assertEquals([most, inner.contents.size], [16, 50]);
});

Deno.test("elide() refers a result truncated at ingestion to its whole original without archiving", async () => {
  const archive = spyArchive();
  const original = Array.from({ length: 20_000 }, (_, n) => `line ${n}`).join("\n");
  const [cut] = [
    await archived(truncateResults(step("log", {}, original), { archive, countTokens: estimateTokens })),
  ];
  const elisions = await elideAll([...cut.messages, say("")], archive);
  assertEquals(elisions.map(({ ref, text }) => [ref, text]), [
    [cut.elisions[0]?.ref, `[elided: log result, ${original.length} bytes; ref ${cut.elisions[0]?.ref}]`],
  ]);
  assertEquals([await archive.get(elisions[0]!.ref), archive.puts()], [original, 1]);
});

Deno.test("elide() archives a text that only looks truncated", async () => {
  const archive = spyArchive();
  const decoys = [await archive.put("something else"), "0123456789abcdef"];
  for (const decoy of decoys) {
    const content = `a\n[elided: middle of log result, 90000 bytes; ref ${decoy}]\n${text(500)}`;
    const [elision] = await elideAll([...step("log", {}, content), say("")], archive);
    assertEquals(await archive.get(elision!.ref), content);
  }
});

Deno.test("elide() archives a truncated text itself when its whole original can't be read", async () => {
  const archive = spyArchive();
  const cut = await archived(
    truncateResults(step("log", {}, text(20_000)), { archive, countTokens: estimateTokens }),
  );
  const broken: Archive = { ...archive, get: () => Promise.reject(new Error("damaged")) };
  const [elision] = await elideAll([...cut.messages, say("")], broken);
  assertEquals(await archive.get(elision!.ref), cut.messages[1]?.content);
});

Deno.test("elide() names the tool, even if it is no longer registered, and never suggests to run it again", async () => {
  const messages = [...step("gone", {}, text(500)), ...step("read", {}, text(500)), say("")];
  const elisions = await elideAll(messages, spyArchive(), { tools: { read: { stance: "rederivable" } } });
  assertEquals(applyElisions(messages, elisions).map(({ content }) => content).filter(Boolean), [
    `[elided: gone result, 2000 bytes; ref ${elisions[0]?.ref}]`,
    `[elided: read result, 2000 bytes; run again if needed; ref ${elisions[0]?.ref}]`,
  ]);
});

Deno.test("elide() rejects candidates of other messages", async () => {
  const candidates = selectElisions([...step("log", {}, text(500)), say("")], {
    countTokens: estimateTokens,
    protectTokens: 0,
  });
  await assertRejects(
    () => elide([user("go"), say("")], candidates, { archive: spyArchive(), countTokens: estimateTokens }),
    RangeError,
    "Cannot elide message 1",
  );
});

const history = [
  user("go"),
  ...step("read", {}, "long", "a"),
  ...step("read", {}, "longer", "b"),
  say("done"),
];

Deno.test("applyElisions() replaces contents, the last elision winning, and touches nothing else", () => {
  const view = applyElisions(history, [
    { index: 2, toolCallId: "a", text: "first" },
    { index: 4, toolCallId: "b", text: "short" },
    { index: 2, toolCallId: "a", text: "second" },
  ]);
  assertEquals(view.map((message) => message.content), ["go", null, "second", null, "short", "done"]);
  for (const index of [0, 1, 3, 5]) assertStrictEquals(view[index], history[index]);
  assertEquals(history[2]?.content, "long");
});

Deno.test("applyElisions() is sticky: a growing history retains the same bytes and objects", () => {
  const elisions: Elision[] = JSON.parse(JSON.stringify([{
    index: 2,
    toolCallId: "a",
    tool: "read",
    ref: "0123456789abcdef",
    text: "short",
    tokensBefore: 9,
    tokensAfter: 3,
    reason: "old",
  }]));
  const view = applyElisions(history, elisions);
  const later = applyElisions([...history, user("more")], elisions);
  assertEquals(JSON.stringify(later.slice(0, -1)), JSON.stringify(view));
  assertStrictEquals(later[2], view[2]);
});

Deno.test("applyElisions() rejects an elision of another message", () => {
  for (const index of [0, 1, 4, 99]) {
    assertThrows(
      () => applyElisions(history, [{ index, toolCallId: "a", text: "short" }]),
      RangeError,
      `Cannot elide message ${index}: it is no tool result with the id 'a'`,
    );
  }
});

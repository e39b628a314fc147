import { assertEquals, assertRejects } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { archiveRef, memoryArchive } from "@tare/prune";
import type { ElideOptions } from "@tare/prune/internal";
import type { Removal } from "../retention/retention.ts";
import { makeEdits, withEdits } from "./rewrite.ts";
import type { Edit, Way } from "./edit.ts";

const source = "parseHeader() reads. ".padEnd(4_000, "x ");

function step(id: string): Message[] {
  return [
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: "{}" } }],
    },
    { role: "tool", tool_call_id: id, content: `${id} ${source}` },
  ];
}

const history: readonly Message[] = [
  { role: "user", content: "Read." },
  ...step("1"),
  ...step("2"),
  ...step("3"),
  { role: "assistant", content: "Done." },
];
const options: ElideOptions = { countTokens: estimateTokens, archive: memoryArchive() };
const removal = (how: Way): Removal => ({
  start: 0,
  tokens: 1_000,
  parts: [],
  idle: true,
  evicts: true,
  loss: 0,
  how,
});
const drop = (from: number, to: number) => removal({ type: "drop", from, to });
const elide = (index: number) =>
  removal({
    type: "elide",
    candidate: {
      index,
      toolCallId: `${index / 2}`,
      tool: "read",
      tokensBefore: 1_000,
      tokensAfter: 30,
      reason: "old",
    },
  });
const make = (removals: readonly Removal[], edits: readonly Edit[] = []) =>
  makeEdits({ history, edits }, removals, options);
const stretchesOf = (edits: readonly Edit[]) =>
  edits.flatMap((edit) => edit.type === "drop" ? [[edit.from, edit.to]] : []);

Deno.test("makeEdits() archives evicted content, and describes it and its recall in one line", async () => {
  const ref = await archiveRef(`3 ${source}`);
  const dropped = history.slice(1, 3).map((message) => JSON.stringify(message)).join("\n");
  const dropRef = await archiveRef(dropped);
  assertEquals(await make([drop(1, 3), elide(6)]), [
    { type: "drop", from: 1, to: 3, ref: dropRef, text: `[elided: 2 messages; ref ${dropRef}]` },
    { type: "elide", index: 6, toolCallId: "3", ref, text: `[elided: read result, 4002 bytes; ref ${ref}]` },
  ]);
  assertEquals([await options.archive.get(ref), await options.archive.get(dropRef)], [
    `3 ${source}`,
    dropped,
  ]);
});

Deno.test("makeEdits() merges adjacent steps into one line, with earlier ones only after the cut", async () => {
  assertEquals(stretchesOf(await make([drop(1, 3), drop(3, 5)])), [[1, 5]]);
  assertEquals(stretchesOf(await make([drop(1, 3), drop(5, 7)])), [[1, 3], [5, 7]]);
  const before = await make([drop(3, 5)]);
  assertEquals(stretchesOf(await make([drop(5, 7)], before)), [[5, 7]]);
  assertEquals(stretchesOf(await make([drop(1, 3)], before)), [[1, 5]]);
  assertEquals(stretchesOf(await make([drop(1, 3), drop(5, 7)], before)), [[1, 7]]);
});

Deno.test("makeEdits() returns none if anything can't be archived", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  await assertRejects(
    () => makeEdits({ history, edits: [] }, [drop(1, 3), elide(6)], { ...options, archive }),
    Error,
    "Cannot archive 2 messages to drop: the disk is full",
  );
});

Deno.test("withEdits() removes edits of messages evicted since", async () => {
  const before = await make([elide(2), drop(3, 5), elide(6)]);
  const made = await make([drop(1, 3)], before);
  assertEquals(withEdits(before, made).map((edit) => edit.type === "elide" ? edit.index : edit.type), [
    6,
    "drop",
  ]);
  assertEquals(withEdits(before, []), before);
});

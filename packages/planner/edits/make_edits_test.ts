import { assertEquals, assertRejects } from "@std/assert";
import { estimateTokens, type Message } from "@tare/messages";
import { KEEP_WANTED } from "@tare/planner";
import { archiveRef, memoryArchive } from "@tare/prune";
import type { Removal, Seen } from "../retention/find_removals.ts";
import { makeEdits, type MakeEditsOptions } from "./make_edits.ts";
import { placeMessages } from "./view.ts";

const source = "parseHeader() reads; parseHeader() calls readBuffer. ".padEnd(4_000, "x ");
const messages: readonly Message[] = [
  { role: "user", content: "Where is openSocket?" },
  { role: "assistant", content: "In net." },
  { role: "user", content: "Read readBuffer." },
  {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "1", content: source },
  { role: "assistant", content: "Done." },
];
const seen: Seen = {
  history: { messages, tools: [] },
  edits: [],
  placed: placeMessages(messages, []),
  exposed: new Set(),
};
const elide: Removal = {
  start: 0,
  parts: [],
  how: {
    type: "elide",
    candidate: {
      index: 4,
      toolCallId: "1",
      tool: "read",
      tokensBefore: 1_000,
      tokensAfter: 30,
      reason: "old",
    },
  },
};
const drop: Removal = { start: 0, parts: [], how: { type: "drop", from: 0, to: 2 } };
const options: MakeEditsOptions = {
  countTokens: estimateTokens,
  archive: memoryArchive(),
  retention: { ...KEEP_WANTED, nameWorth: 0.3 },
};

Deno.test("makeEdits() archives what leaves and keeps the names that are seen nowhere else", async () => {
  const ref = await archiveRef(source);
  const dropped = messages.slice(0, 2).map((message) => JSON.stringify(message)).join("\n");
  const dropRef = await archiveRef(dropped);
  assertEquals(await makeEdits(seen, [drop, elide], options), [
    {
      type: "drop",
      from: 0,
      to: 2,
      ref: dropRef,
      text: `[elided: 2 messages; ref ${dropRef}]\nIt names: openSocket`,
    },
    {
      type: "elide",
      index: 4,
      toolCallId: "1",
      ref,
      text: `[elided: read result, 4000 bytes; ref ${ref}]\nIt names: parseHeader`,
    },
  ]);
  assertEquals([await options.archive.get(ref), await options.archive.get(dropRef)], [source, dropped]);
});

Deno.test("makeEdits() keeps no names where none are wanted", async () => {
  const [edit] = await makeEdits(seen, [elide], {
    ...options,
    retention: { ...KEEP_WANTED, nameWorth: Infinity },
  });
  assertEquals(edit?.type === "elide" && edit.text.includes("\n"), false);
});

Deno.test("makeEdits() makes none if one thing can't be archived", async () => {
  const archive = { ...memoryArchive(), put: () => Promise.reject(new Error("the disk is full")) };
  await assertRejects(
    () => makeEdits(seen, [drop, elide], { ...options, archive }),
    Error,
    "Cannot archive 2 messages to drop: the disk is full",
  );
});

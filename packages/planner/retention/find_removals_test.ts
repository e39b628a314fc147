import { assertEquals } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { BY_AGE, type Edit, KEEP_WANTED } from "@tare/planner";
import { findRemovals, type RemovalOptions } from "./find_removals.ts";
import { placeMessages } from "../edits/view.ts";

const tool: ToolDefinition = {
  type: "function",
  function: { name: "read", description: "Reads. ".repeat(1_000), parameters: { type: "object" } },
};

/** A turn of so many tokens in one result, and an answer of about ten. */
function turn(id: string, tokens: number): Message[] {
  return [
    { role: "user", content: "Read." },
    {
      role: "assistant",
      tool_calls: [{ id, type: "function", function: { name: "read", arguments: `{"path":"${id}"}` } }],
    },
    { role: "tool", tool_call_id: id, content: "x".repeat(4 * tokens) },
    { role: "assistant", content: "Done." },
  ];
}

const retention = { ...KEEP_WANTED, protectTokens: 1_000, historyTokens: 2_500 };

function find(
  messages: readonly Message[],
  { edits = [], exposed = [], ...options }: Partial<RemovalOptions> & {
    readonly edits?: readonly Edit[];
    readonly exposed?: readonly string[];
  } = {},
) {
  const placed = placeMessages(messages, edits);
  const seen = { history: { messages, tools: [tool] }, edits, placed, exposed: new Set(exposed) };
  return findRemovals(seen, { countTokens: estimateTokens, retention, ...options }).map(({ how, parts }) => {
    if (how.type === "compact") return how.tool;
    if (how.type === "drop") return `drop ${how.from}-${how.to} of ${parts.length}`;
    return how.candidate.index;
  });
}

const messages = [...turn("a", 2_000), ...turn("b", 1_500), ...turn("c", 400), ...turn("d", 500)];

Deno.test("findRemovals() finds old turns and old results, in the order of the prompt", () => {
  assertEquals(find(messages), ["drop 0-4 of 4", 6]);
  assertEquals(find(messages, { retention: { ...retention, historyTokens: Infinity } }), [2, 6]);
  assertEquals(find(messages, { retention: { ...retention, protectTokens: Infinity } }), ["drop 0-4 of 4"]);
  assertEquals(find(messages, { retention: BY_AGE }), []);
});

Deno.test("findRemovals() counts turns as the model sees them, and finds nothing twice", () => {
  const elide: Edit = {
    type: "elide",
    index: 6,
    toolCallId: "b",
    ref: "0123456789abcdef",
    text: "[elided: read result, 6000 bytes; ref 0123456789abcdef]",
  };
  assertEquals(find(messages, { edits: [elide], retention: { ...retention, historyTokens: 2_400 } }), [
    "drop 0-4 of 4",
  ]);
  assertEquals(find(messages, { edits: [elide], retention }), [2]);
  const drop: Edit = { type: "drop", from: 0, to: 4, ref: "r", text: "[gone]" };
  assertEquals(find(messages, { edits: [drop, elide] }), []);
});

Deno.test("findRemovals() bounds the history by a quarter of the window", () => {
  assertEquals(find(messages, { windowTokens: 4_800 })[0], "drop 0-8 of 8");
});

Deno.test("findRemovals() leaves turns alone whose calls still wait for an answer", () => {
  const open = [...messages.slice(0, 2), ...messages.slice(3)];
  assertEquals(find(open).filter((found) => typeof found === "string"), []);
});

Deno.test("findRemovals() finds the tools that the model has seen in full", () => {
  assertEquals(find(messages, { exposed: ["read"] })[0], "read");
  assertEquals(find(messages, { exposed: ["read"], retention: BY_AGE }), []);
});

Deno.test("findRemovals() may still elide what was truncated on arrival", () => {
  const truncated: Edit = { type: "elide", index: 6, toolCallId: "b", ref: "r", text: "head\n".repeat(500) };
  assertEquals(find(messages, { edits: [truncated] }), ["drop 0-4 of 4", 6]);
});

import { assertEquals, assertStrictEquals, assertThrows } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import { hashPiece } from "@tare/messages/internal";
import type { Edit } from "./edit.ts";
import { placedView } from "./view.ts";

const messages: readonly Message[] = [
  { role: "system", content: "Be brief." },
  { role: "user", content: "Read." },
  {
    role: "assistant",
    tool_calls: [{ id: "1", type: "function", function: { name: "read", arguments: "{}" } }],
  },
  { role: "tool", tool_call_id: "1", content: "long" },
  { role: "developer", content: "Note." },
  { role: "assistant", content: "Done." },
  { role: "user", content: "Thanks." },
];
const elide = (index: number, text: string): Edit => ({
  type: "elide",
  index,
  toolCallId: "1",
  ref: "r",
  text,
});
const see = (...edits: readonly Edit[]) => placedView({ messages, tools: [] }, edits).messages;

Deno.test("placedView() replaces only the content of an elided result, by its last edit", () => {
  const seen = see(elide(3, "[a]"), elide(3, "[b]"));
  assertEquals(
    seen,
    messages.map((message, at) => at === 3 ? { ...message, content: "[b]" } as Message : message),
  );
  assertStrictEquals(seen[2], messages[2]);
  assertEquals(messages[3]?.content, "long");
});

Deno.test("placedView() returns the same objects for the same edits each time", () => {
  const drop: Edit = { type: "drop", from: 1, to: 3, ref: "r", text: "[gone]" };
  const [first, second] = [see(elide(3, "[a]"), drop), see(elide(3, "[a]"), drop)];
  for (const [at, message] of (first ?? []).entries()) assertStrictEquals(second?.[at], message);
});

Deno.test("placedView() throws if an edit elides anything but a tool result", () => {
  for (const index of [0, 9]) {
    assertThrows(() => see(elide(index, "x")), RangeError, `Cannot elide message ${index}`);
  }
});

Deno.test("placedView() shows one line for dropped messages, after the remaining system and developer messages", () => {
  assertEquals(see({ type: "drop", from: 1, to: 6, ref: "r", text: "[gone]" }), [
    messages[0],
    messages[4],
    { role: "user", content: "[gone]" },
    messages[6],
  ] as Message[]);
});

Deno.test("placedView() keeps the user messages of summarized turns before the summary", () => {
  assertEquals(see({ type: "summarize", from: 1, to: 6, ref: "r", text: "I read it." }), [
    messages[0],
    messages[1],
    messages[4],
    { role: "assistant", content: "I read it." },
    messages[6],
  ] as Message[]);
});

Deno.test("placedView() replaces the lines of ranges that a later range covers, and keeps others", () => {
  const first: Edit = { type: "drop", from: 1, to: 3, ref: "r", text: "[one]" };
  const covering: Edit = { type: "drop", from: 1, to: 6, ref: "r", text: "[two]" };
  const after: Edit = { type: "drop", from: 3, to: 6, ref: "r", text: "[three]" };
  const texts = (...edits: readonly Edit[]) => see(...edits).map(({ content }) => content);
  assertEquals(texts(first, covering), ["Be brief.", "Note.", "[two]", "Thanks."]);
  assertEquals(texts(first, after), ["Be brief.", "[one]", "Note.", "[three]", "Thanks."]);
});

Deno.test("placedView() throws if a range is not in the history", () => {
  for (const [from, to] of [[-1, 2], [3, 3], [5, 8]] as const) {
    assertThrows(
      () => see({ type: "drop", from, to, ref: "r", text: "x" }),
      RangeError,
      `Cannot drop messages ${from} to ${to}: the history has 7 messages.`,
    );
  }
});

Deno.test("placedView() shows a tool compact until its definition changes", () => {
  const tool = (description: string): ToolDefinition => ({
    type: "function",
    function: { name: "f", description },
  });
  const edit: Edit = { type: "compact", tool: "f", definition: hashPiece(tool("Does f.")) };
  const visible = (tools: readonly ToolDefinition[]) => placedView({ messages: [], tools }, [edit]).tools;
  assertEquals(visible([tool("Does f."), tool("Does g.")]), [
    { type: "function", function: { name: "f" } },
    tool("Does g."),
  ]);
});

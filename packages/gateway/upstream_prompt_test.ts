import { assertEquals, assertStrictEquals } from "@std/assert";
import type { Message, ToolDefinition } from "@tare/messages";
import { RECALL_TOOL } from "@tare/prune";
import { CHAT_FORMAT } from "@tare/wire";
import { KnownJson } from "./known_json.ts";
import { plannedTools, writePrompt } from "./upstream_prompt.ts";
import { readWireBody, readWireRequest } from "@tare/wire";

const known = {
  messages: new KnownJson<Message>({ maxBytes: 10_000 }),
  tools: new KnownJson<ToolDefinition | undefined>({ maxBytes: 10_000 }),
};
const TEXT =
  '{"x":1.0,"messages":[{"role":"user","content":"a"},{"role":"tool","n":2.0,"content":"long","tool_call_id":"c"}],' +
  '"model":"m","tools":[{"type":"function","function":{"name":"f"}},{"type":"custom"}]}';
const request = readWireRequest(readWireBody(new TextEncoder().encode(TEXT)), CHAT_FORMAT, known);
const pieces = request.items.map(({ value: message }, at) => {
  const { start, end } = request.spans[at]!;
  return { message, bytes: request.bytes.subarray(start, end) };
});

Deno.test("writePrompt() gives the client's own bytes if nothing is changed", () => {
  assertStrictEquals(writePrompt(request, { pieces, edits: [], recall: false }), request.bytes);
});

Deno.test("writePrompt() changes an elided result's text and adds the recall tool, and nothing else", () => {
  const edits = [{ type: "elide", index: 1, toolCallId: "c", ref: "r", text: "[elided]" }] as const;
  const { function: recall } = RECALL_TOOL;
  assertEquals(
    new TextDecoder().decode(writePrompt(request, { pieces, edits, recall: true })),
    TEXT.replace('"long"', '"[elided]"').replace(
      '{"type":"custom"}',
      (tool) => `${tool},${JSON.stringify({ type: "function", function: recall })}`,
    ),
  );
});

Deno.test("plannedTools() leaves out what is no function", () => {
  assertEquals(plannedTools(request.tools, true).map(({ function: { name } }) => name), ["f", "recall"]);
  assertEquals(plannedTools(undefined, false), []);
});

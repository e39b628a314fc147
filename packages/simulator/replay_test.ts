import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import type { Message } from "@tare/messages";
import { replay, type SimulatedReply } from "@tare/simulator";

const call = { id: "1", type: "function", function: { name: "f", arguments: "{}" } } as const;
const recorded: (Message & { signature?: string })[] = [
  { role: "user", content: "Do it." },
  { role: "assistant", content: null, reasoning_content: "Hm.", tool_calls: [call], signature: "s" },
  { role: "tool", tool_call_id: "1", content: "done" },
  { role: "assistant", content: [{ type: "text", text: "It is done." }] },
];

const replies: (SimulatedReply & { signature?: string })[] = [
  { content: null, reasoning_content: "Hm.", tool_calls: [call], signature: "s" },
  { content: "It is done.", tool_calls: [] },
];

function question(content: string) {
  return { model: "m", messages: [{ role: "user", content } as const], tools: [] };
}

Deno.test("replay() gives the recorded replies in order for any requests", async () => {
  const model = replay(recorded);
  assertEquals([await model(question("whole")), await model(question("cut down"))], replies);
  await assertRejects(
    async () => await model(question("more")),
    Error,
    "all 2 recorded replies have been given",
  );
});

Deno.test("replay() gives a repeated request the same reply", async () => {
  const model = replay(recorded);
  assertEquals([
    await model(question("a")),
    await model(question("a")),
    await model(question("b")),
    await model(question("b")),
  ], [
    replies[0],
    replies[0],
    replies[1],
    replies[1],
  ]);
});

Deno.test("replay() throws for calls that aren't function calls", () => {
  const custom = { id: "1", type: "custom", custom: { name: "f", input: "" } } as const;
  assertThrows(() => replay([{ role: "assistant", tool_calls: [custom] }]), TypeError, "custom tool call");
});

import { assertEquals } from "@std/assert";
import { ChatWriter } from "@tare/wire";

const chunk = (delta: object, finish_reason: string | null = null, more: object = {}): object => (
  { id: "c", object: "chat.completion.chunk", choices: [{ index: 0, delta, finish_reason }], ...more }
);
const call = (name: string, args: object, id: string): object => (
  { id, type: "function", function: { name, arguments: JSON.stringify(args) } }
);
const encoder = new TextEncoder();
const event = (data: object | string) =>
  encoder.encode(`data: ${typeof data === "string" ? data : JSON.stringify(data)}\n\n`);
const decode = (pieces: readonly Uint8Array[]) =>
  pieces.map((piece) => new TextDecoder().decode(piece)).join("");

Deno.test("ChatWriter keeps the bytes of a stream without recalls, and knows its calls and usage", () => {
  const writer = new ChatWriter({ hidesUsage: false, recall: "recall" });
  const events = [
    chunk({ role: "assistant", content: "Hi" }),
    chunk({ content: " there" }),
    chunk({ tool_calls: [{ index: 0, ...call("read", { path: "a" }, "c1") }] }),
    chunk({}, "tool_calls", { usage: { prompt_tokens: 5, completion_tokens: 2 } }),
    "[DONE]",
  ].map(event);
  const seen = decode([...events.flatMap((bytes) => writer.push(bytes))]);
  const reply = writer.end();
  assertEquals(seen + decode([writer.finish()]), decode(events));
  assertEquals([reply.callsClient, reply.recalls, reply.usage?.promptTokens], [true, [], 5]);
  assertEquals(JSON.parse(reply.items[0] ?? ""), {
    role: "assistant",
    content: "Hi there",
    tool_calls: [call("read", { path: "a" }, "c1")],
  });
  assertEquals(writer.hidden([]), []);
});

Deno.test("ChatWriter joins a streamed recall and what follows it", () => {
  const writer = new ChatWriter({ hidesUsage: true, recall: "recall" });
  const first = [
    chunk({ role: "assistant", content: "One " }),
    chunk({ tool_calls: [{ index: 0, ...call("recall", { ref: "r" }, "r1") }] }),
    chunk({}, "tool_calls"),
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  const { recalls } = writer.end();
  assertEquals(recalls, [{ id: "r1", arguments: '{"ref":"r"}' }]);
  const second = [
    { ...chunk({ role: "assistant", content: "" }), id: "other" },
    { ...chunk({ content: "two." }), id: "other" },
    { ...chunk({}, "stop"), id: "other" },
    "[DONE]",
  ].flatMap((data) => writer.push(event(data)));
  writer.end();
  const text = decode([...first, ...second, writer.finish()]);
  const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data ?? ""));
  assertEquals(chunks.map(({ id }) => id), ["c", "c", "c"]);
  assertEquals(chunks.map(({ choices: [{ delta, finish_reason }] }) => delta.content ?? finish_reason), [
    "One ",
    "two.",
    "stop",
  ]);
});

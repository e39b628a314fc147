import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { contentText, type Message, type Model, type ModelRequest } from "@tare/messages";
import { summariseWith } from "./summarise_with.ts";

const words = (text: string) => text.split(" ").length;

const messages: Message[] = [
  { role: "user", content: "Fix the build." },
  {
    role: "assistant",
    content: "I look.",
    tool_calls: [{
      id: "1",
      type: "function",
      function: { name: "read_file", arguments: '{"path":"a.ts"}' },
    }],
  },
  { role: "tool", tool_call_id: "1", content: "const a = 1;" },
];

Deno.test("summariseWith() sends a transcript without tools, and gives text and usage", async () => {
  const asked: ModelRequest[] = [];
  const usage = { promptTokens: 90, cachedTokens: 0, outputTokens: 3 };
  const model: Model = async function* (request) {
    asked.push(request);
    yield { type: "text_delta", text: "The build" };
    yield {
      type: "completed",
      message: { role: "assistant", content: "The build is red." },
      finishReason: "stop",
      usage,
    };
  };
  assertEquals(await summariseWith(model, words)(messages), { text: "The build is red.", usage });
  const [request] = asked;
  assertEquals([asked.length, request!.messages.length, request!.tools], [1, 1, []]);
  assertStringIncludes(
    contentText(request!.messages[0]!.content),
    'user:\nFix the build.\n\nassistant:\nI look.\n(calls read_file: {"path":"a.ts"})\n\ntool:\nconst a = 1;',
  );
});

Deno.test("summariseWith() counts what the provider doesn't report", async () => {
  const model: Model = async function* () {
    yield { type: "completed", message: { role: "assistant", content: "All is well" }, finishReason: "stop" };
  };
  const { usage } = await summariseWith(model, words)(messages);
  assertEquals([usage.outputTokens, usage.estimated], [3, true]);
});

Deno.test("summariseWith() stops when it is told to, and fails without an end", async () => {
  const model: Model = async function* ({ signal }) {
    signal.throwIfAborted();
    yield { type: "text_delta", text: "The" };
  };
  await assertRejects(() => summariseWith(model, words)(messages), Error, "ended without an end");
  const stopped = new Error("stopped");
  await assertRejects(
    () => summariseWith(model, words)(messages, AbortSignal.abort(stopped)),
    Error,
    "stopped",
  );
});

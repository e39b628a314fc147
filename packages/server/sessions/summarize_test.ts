import type { Summarize } from "@tare/planner";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  type AssistantMessage,
  contentText,
  countRequestTokens,
  type Message,
  type Model,
  type ModelRequest,
  type ToolDefinition,
  type Usage,
} from "@tare/messages";
import { summarizeWith } from "./summarize.ts";

const words = (text: string) => text.split(/\s+/).length;

const messages: readonly Message[] = [
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
  { role: "assistant", content: "It is mended." },
];
const tools: readonly ToolDefinition[] = [{ type: "function", function: { name: "read_file" } }];
const system: Message = { role: "system", content: "Be brief." };
const next: Message = { role: "user", content: 'Now "test" it.' };
const request: Parameters<Summarize>[0] = {
  sent: { messages: [system, ...messages], tools },
  messages,
  users: [],
  next,
};
const usage = { promptTokens: 90, cachedTokens: 80, outputTokens: 3 };

function replies(...given: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", ...given[requests.push(request) - 1] };
    yield { type: "text_delta", text: "The build" };
    yield { type: "completed", message, finishReason: "stop", usage };
  };
  return { model, requests };
}

const OPTIONS = {
  countTokens: words,
  unfinished() {
    throw new Error("unexpected: every reply has an end");
  },
};

Deno.test("summarizeWith() continues the conversation as it was sent, and returns text and usage", async () => {
  const { model, requests } = replies({ content: " The build is red. " });
  assertEquals(await summarizeWith(model, OPTIONS)(request), { text: "The build is red.", usage });
  const [{ messages: sent, tools: offered } = { messages: [], tools: [] }] = requests;
  assertEquals([requests.length, sent.slice(0, -1), offered], [1, request.sent.messages, tools]);
  const instruction = sent.at(-1);
  assertEquals(instruction?.role, "user");
  const text = contentText(instruction?.content);
  assertStringIncludes(text, 'before the message that begins with "Now \\"test\\" it."');
  assertStringIncludes(text, "The user's messages there are kept");
});

Deno.test("summarizeWith() names the user's messages that are evicted", async () => {
  const { model, requests } = replies({ content: "Red." });
  await summarizeWith(model, OPTIONS)({ ...request, users: messages.slice(0, 1) });
  const text = contentText(requests[0]?.messages.at(-1)?.content);
  assertStringIncludes(text, 'the user\'s message that begins with "Fix the build." too');
});

Deno.test("summarizeWith() sends a transcript without tools if the conversation doesn't fit", async () => {
  const long = {
    messages: [system, ...messages, { role: "user", content: "and ".repeat(2_000) } as const],
    tools,
  };
  const { model, requests } = replies({ content: "The build is red." });
  const { text } = await summarizeWith(model, OPTIONS)({ ...request, sent: long, windowTokens: 1_000 });
  assertEquals([text, requests.length, requests[0]?.messages.length, requests[0]?.tools], [
    "The build is red.",
    1,
    1,
    [],
  ]);
  assertStringIncludes(
    contentText(requests[0]?.messages[0]?.content),
    "user:\nFix the build.\n\nassistant:\nI look.\ncalls read_file\npath: a.ts\n\ntool:\nconst a = 1;",
  );
});

Deno.test("summarizeWith() sends a transcript that doesn't fit in parts, each with the summary of earlier ones", async () => {
  const old = Array.from(
    { length: 9 },
    (_, at): Message => ({ role: "assistant", content: `fact-${at} `.repeat(200) }),
  );
  const long: Parameters<Summarize>[0] = {
    sent: { messages: old, tools: [] },
    messages: old,
    users: [],
    windowTokens: 1_000,
  };
  const { model, requests } = replies({ content: "One." }, { content: "Two." }, { content: "Three." }, {
    content: "Four.",
  });
  const { text, usage: paid } = await summarizeWith(model, OPTIONS)(long);
  assertEquals([requests.length, text, paid.promptTokens, paid.outputTokens], [3, "Three.", 270, 9]);
  for (const { messages } of requests) assert(countRequestTokens({ messages }, words) <= 940);
  const prompts = requests.map(({ messages }) => contentText(messages[0]?.content));
  assertEquals(
    prompts.map((prompt) => /to be included in yours:\n(.*)/.exec(prompt)?.[1]),
    [undefined, "One.", "Two."],
  );
  const factCount = prompts.join().match(/fact-\d/g)?.length;
  assertEquals(factCount, 1_800);
});

Deno.test("summarizeWith() splits a message that is longer than a part", async () => {
  const old: readonly Message[] = [{ role: "assistant", content: "word ".repeat(3_000) }];
  const { model, requests } = replies(...Array.from({ length: 20 }, () => ({ content: "Words." })));
  await summarizeWith(model, OPTIONS)({
    sent: { messages: old, tools: [] },
    messages: old,
    users: [],
    windowTokens: 1_000,
  });
  assert(requests.length > 3);
  for (const { messages } of requests) assert(countRequestTokens({ messages }, words) <= 940);
});

Deno.test("summarizeWith() takes no calls for a summary, and reports their usage", async () => {
  const call = { id: "2", type: "function", function: { name: "read_file", arguments: "{}" } } as const;
  const { model } = replies({ content: "I look again.", tool_calls: [call] });
  assertEquals(await summarizeWith(model, OPTIONS)(request), { text: "", usage });
});

Deno.test("summarizeWith() estimates usage that the provider doesn't report", async () => {
  const model: Model = async function* () {
    yield { type: "completed", message: { role: "assistant", content: "All is well" }, finishReason: "stop" };
  };
  const { usage } = await summarizeWith(model, OPTIONS)(request);
  assertEquals([usage.estimated, usage.promptTokens > 20, usage.outputTokens], [true, true, 7]);
});

Deno.test("summarizeWith() stops on abort, and fails on an incomplete reply", async () => {
  const model: Model = async function* ({ signal }) {
    signal.throwIfAborted();
    yield { type: "text_delta", text: "The" };
  };
  const took: Usage[] = [];
  const summarize = summarizeWith(model, { countTokens: words, unfinished: (usage) => took.push(usage) });
  await assertRejects(() => summarize(request), Error, "ended before it was complete");
  const stopped = AbortSignal.abort(new Error("stopped"));
  await assertRejects(() => summarize({ ...request, signal: stopped }), Error, "stopped");
  assertEquals(took.map(({ outputTokens, estimated }) => [outputTokens, estimated]), [[1, true]]);
});

Deno.test("summarizeWith() counts each message of a long transcript a few times, not once for each later one", async () => {
  const messages = Array.from({ length: 2_000 }, (_, at): Message => ({
    role: "user",
    content: `${at} ${"words of a wish ".repeat(20)}`,
  }));
  let counted = 0;
  const count = (text: string) => {
    counted += text.length;
    return words(text);
  };
  const { model, requests } = replies(...Array(20).fill({ content: "All wishes." }));
  const long: Parameters<Summarize>[0] = {
    ...request,
    sent: { messages, tools },
    messages,
    windowTokens: 40_000,
  };
  assertEquals((await summarizeWith(model, { ...OPTIONS, countTokens: count })(long)).text, "All wishes.");
  const [chars, parts] = [JSON.stringify(messages).length, requests.map(({ messages: [part] }) => part!)];
  assert(parts.length > 1 && parts.every((part) => words(contentText(part.content)) <= 40_000));
  assert(counted < 5 * chars, `${counted} characters are counted of ${chars}`);
});

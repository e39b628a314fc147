import { type PromptMessage, tare } from "@tare/adapters/ai-sdk";
import { estimateTokens, type Message } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";

/** Code-like text of so many tokens, at four characters each. */
function text(seed: number, tokens: number): string {
  let all = "";
  for (let at = 0; all.length < 4 * tokens; at++) {
    all += `const someName${seed}_${at % 40} = otherModule.method${(seed * 7 + at) % 90}(argument${at});\n`;
  }
  return all;
}

/** What a loop has said and read so far: its first so many messages. */
function history(length: number): PromptMessage[] {
  const messages: PromptMessage[] = [
    { role: "system", content: "You find out why builds fail." },
    part("user", { type: "text", text: "Find out why the build fails." }),
  ];
  for (let at = 0; messages.length < length; at++) {
    const call = { toolCallId: `${at}`, toolName: at % 3 === 0 ? "read" : "run" };
    const input = { path: `src/module${at % 50}.ts`, symbol: `someName${at >> 1}_3` };
    const output = { type: "text", value: text(at + 100_000, 60 + at * 37 % 900) };
    messages.push(
      {
        role: "assistant",
        content: [{ type: "text", text: text(at, 40) }, { type: "tool-call", ...call, input }] as never,
      },
      part("tool", { type: "tool-result", ...call, output }),
    );
  }
  return messages;
}

function part(
  role: string,
  part: Readonly<Record<string, unknown>> & { readonly type: string },
): PromptMessage {
  return { role, content: [part] };
}

/** The same as the SDK makes it for each call: other objects, the same strings, inputs and outputs. */
function anew(messages: readonly PromptMessage[]): PromptMessage[] {
  return messages.map(({ role, content }) => ({
    role,
    content: typeof content === "string"
      ? content
      : content.map((part) => ({ ...part, providerOptions: undefined })),
    providerOptions: undefined,
  }));
}

const tools = ["read", "run", "recall"].map((name) => ({
  type: "function",
  name,
  description: "Does what its name says.",
  inputSchema: { type: "object", properties: { path: { type: "string" } } },
}));

for (const length of [100, 1_600, 4_000]) {
  const all = history(2 * length + 4_000);
  const usage = { inputTokens: { total: 0, cacheRead: 0 }, outputTokens: { total: 50 } };
  const bare = {
    specificationVersion: "v4",
    modelId: "gpt-5.5",
    doGenerate: (params: { readonly prompt: readonly PromptMessage[] }) => {
      usage.inputTokens = { total: 300 * params.prompt.length, cacheRead: 290 * params.prompt.length };
      return Promise.resolve({ content: [], usage });
    },
    doStream: () => Promise.reject(new Error("nobody streams")),
  };
  let nowMs = 0;
  const { model } = tare({ model: bare, windowTokens: 100_000_000, now: () => nowMs += 10_000 });
  let at = 2;
  const next = async () =>
    await model.doGenerate(
      { prompt: anew(all.slice(0, at += 2)), tools: tools.map((tool) => ({ ...tool })) } as never,
    );
  while (at < length) await next();
  Deno.bench(
    `the AI SDK's next call, of ${length} messages`,
    { group: `${length}`, n: 1_000, warmup: 200 },
    async () => {
      await next();
    },
  );

  const session = plannerSession({
    profile: profileNamed("openai"),
    countTokens: estimateTokens,
    archive: memoryArchive(),
    windowTokens: 100_000_000,
  });
  const messages: Message[] = [{ role: "user", content: "Find out why the build fails." }];
  const planned = async () => {
    const seen = await session.view({ messages, tools: [] }, { nowMs: nowMs += 10_000, recall: true });
    session.sent({
      promptTokens: 300 * seen.messages.length,
      cachedTokens: 290 * seen.messages.length,
      outputTokens: 50,
    });
    const id = `${messages.length}`;
    const call = {
      id,
      type: "function",
      function: { name: "read", arguments: `{"path":"src/module${id}.ts"}` },
    } as const;
    messages.push(
      { role: "assistant", content: text(messages.length, 40), tool_calls: [call] },
      {
        role: "tool",
        tool_call_id: id,
        content: text(messages.length + 100_000, 60 + messages.length * 37 % 900),
      },
    );
  };
  while (messages.length < length) await planned();
  Deno.bench(
    `the planner's next call, of ${length} messages`,
    { group: `${length}`, n: 1_000, warmup: 200 },
    planned,
  );
  Deno.bench(`making the AI SDK's prompt of ${length} messages anew, alone`, { group: `${length}` }, () => {
    anew(all.slice(0, length));
  });
}

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { createOpenAICompatible as provider5 } from "@ai-sdk/openai-compatible-of-5";
import { createOpenAICompatible as provider6 } from "@ai-sdk/openai-compatible-of-6";
import * as ai5 from "ai5";
import * as ai6 from "ai6";
import { tare } from "@tare/adapters/ai-sdk";
import { contentText } from "@tare/messages";
import { scripted, toolCall } from "@tare/simulator";
import { startUpstream, type Upstream } from "../../../gateway/upstream.ts";

const LOG = Array.from({ length: 8_000 }, (_, at) => `error ${at}: no space left on device\n`).join("");
const SCHEMA = { type: "object", properties: {} } as const;
const QUESTION = { prompt: "Why?", system: "You review builds." };

const VERSIONS: Readonly<
  Record<string, (upstream: Upstream) => Promise<readonly [text: string, calls: number]>>
> = {
  async "5"({ baseURL }) {
    const lean = tare({ model: provider5({ name: "test", baseURL })("gpt-5.5") });
    const read_log = ai5.tool({ inputSchema: ai5.jsonSchema<object>(SCHEMA), execute: () => LOG });
    // Its tools don't support Standard JSON Schema.
    const { description, inputSchema, execute } = lean.tools.recall;
    const schema = ai5.jsonSchema<object>(inputSchema["~standard"].jsonSchema.input());
    const { text } = await ai5.generateText({
      ...QUESTION,
      model: lean.model,
      tools: { read_log, recall: ai5.tool({ description, inputSchema: schema, execute }) },
      stopWhen: ai5.stepCountIs(9),
    });
    return [text, lean.total.calls];
  },
  async "6"({ baseURL }) {
    const lean = tare({ model: provider6({ name: "test", baseURL })("gpt-5.5") });
    const read_log = ai6.tool({ inputSchema: ai6.jsonSchema<object>(SCHEMA), execute: () => LOG });
    const { text } = await ai6.generateText({
      ...QUESTION,
      model: lean.model,
      tools: { read_log, ...lean.tools },
      stopWhen: ai6.stepCountIs(9),
    });
    return [text, lean.total.calls];
  },
};

for (const [version, run] of Object.entries(VERSIONS)) {
  Deno.test(`tare() for the AI SDK: version ${version} works with its own types`, async () => {
    await using upstream = await startUpstream(scripted([
      { content: null, tool_calls: [toolCall("read_log", {})] },
      { content: null, tool_calls: [toolCall("recall", { find: "error 4321:" })] },
      { content: "The disk is full." },
    ]));
    assertEquals(await run(upstream), ["The disk is full.", 3]);
    const [first, ...others] = upstream.requests.map(({ messages }) => contentText(messages.at(-1)?.content));
    assertEquals(first, "Why?");
    assertStringIncludes(others[0] ?? "", "[elided: middle of read_log result");
    assert(others[1]?.includes("error 4321: no space left"), others[1]);
  });
}

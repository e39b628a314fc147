import { assert, assertEquals } from "@std/assert";
import fc, { cases } from "../../tests/cases.ts";
import { expand } from "../../tests/expand_compressed.ts";
import { anyResult, type ToolResult } from "../../tests/tool_results.ts";
import { type CallParams, tare as aiSdk } from "./ai_sdk.ts";
import type { PromptMessage } from "./types.ts";
import { optionsWith } from "./fixture_test.ts";
import { type LangChainMessage, tare as langChain } from "./langchain.ts";
import { tare as openAiAgents } from "./openai_agents.ts";
import { memoryArchive } from "@tare/prune";

/** Passes a result to a framework's adapter and returns the text that the model receives. */
type Show = (result: ToolResult, archive: ReturnType<typeof memoryArchive>) => Promise<string>;

const FRAMEWORKS: Readonly<Record<string, Show>> = {
  async "AI SDK"({ tool, args, text }, archive) {
    let seen: readonly PromptMessage[] = [];
    const model = {
      specificationVersion: "v4",
      modelId: "m",
      doGenerate(params: CallParams) {
        seen = params.prompt;
        return Promise.resolve({ content: [], usage: { inputTokens: {}, outputTokens: {} } });
      },
      doStream: () => Promise.reject(new Error("not used")),
    };
    const call = { type: "tool-call", toolCallId: "1", toolName: tool, input: args };
    const output = { type: "text", value: text };
    await aiSdk({ model, ...optionsWith({ archive }) }).model.doGenerate({
      prompt: [
        { role: "user", content: [{ type: "text", text: "Go." }] },
        { role: "assistant", content: [call] },
        { role: "tool", content: [{ type: "tool-result", toolCallId: "1", toolName: tool, output }] },
      ] as PromptMessage[],
      tools: [{ type: "function", name: tool, inputSchema: {} }],
    } as never);
    // deno-lint-ignore no-explicit-any
    return (seen.at(-1)!.content as any)[0].output.value;
  },
  async LangChain({ tool, args, text }, archive) {
    const message = (type: string, fields: object) => ({ type, ...fields }) as unknown as LangChainMessage;
    class Result {
      readonly type = "tool";
      readonly lc_kwargs: object;
      declare content: LangChainMessage["content"];
      constructor(fields: object) {
        this.lc_kwargs = fields;
        Object.assign(this, fields);
      }
    }
    let seen: readonly LangChainMessage[] = [];
    const adapter = langChain({ model: "m", ...optionsWith({ archive }) });
    await adapter.wrapModelCall({
      messages: [
        message("human", { content: "Go." }),
        message("ai", { content: "", tool_calls: [{ id: "1", name: tool, args }] }),
        new Result({ content: text, tool_call_id: "1", status: "success" }) as never,
      ],
      tools: [],
      systemMessage: { content: "" },
      runtime: {},
    } as never, (call: { readonly messages: readonly LangChainMessage[] }) => {
      seen = call.messages;
      return {} as never;
    });
    return seen.at(-1)!.content as string;
  },
  async "OpenAI Agents"({ tool, args, text }, archive) {
    // deno-lint-ignore no-explicit-any
    let seen: readonly any[] = [];
    const model = {
      // deno-lint-ignore no-explicit-any
      getResponse(request: any) {
        seen = request.input;
        return Promise.resolve({ usage: { inputTokens: 0, outputTokens: 0 }, output: [] });
      },
      getStreamedResponse: () => {
        throw new Error("not used");
      },
    };
    await openAiAgents({ model, ...optionsWith({ archive }) }).model.getResponse({
      tools: [],
      input: [
        { role: "user", content: "Go." },
        { type: "function_call", callId: "1", name: tool, arguments: JSON.stringify(args) },
        { type: "function_call_result", callId: "1", name: tool, status: "completed", output: text },
      ],
    } as never);
    const { output } = seen.at(-1);
    return typeof output === "string" ? output : output.text;
  },
};

for (const [framework, show] of Object.entries(FRAMEWORKS)) {
  Deno.test(`compression in ${framework}: every result can be rebuilt from the model's text or recalled`, async () => {
    let compressed = 0;
    await fc.assert(
      fc.asyncProperty(anyResult, async (result) => {
        const archive = memoryArchive();
        const visible = await show(result, archive);
        if (visible === result.text) return;
        compressed++;
        const { text, ref } = expand(visible);
        assertEquals(ref === undefined ? text : await archive.get(ref), result.text);
      }),
      { numRuns: cases(80) },
    );
    assert(compressed > 4, `${compressed}`);
  });
}

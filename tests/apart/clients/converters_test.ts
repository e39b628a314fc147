// Custom loops over the providers' SDKs, planned by a session: input and output of their converters.
import { assert, assertEquals } from "@std/assert";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { plannerSession, type PlanningSession, type Profile, profileNamed } from "@tare/planner";
import { memoryArchive } from "@tare/prune";
import { scripted } from "@tare/simulator";
import { fromAnthropic, fromResponses, readUsage, toAnthropic, toResponses } from "@tare/wire";
import { type Client, play } from "../../gateway/compare.ts";
import { ANSWER, CALLS, parametersOf, QUESTION, SCRIPT, SYSTEM, TOOLS } from "../../gateway/long_session.ts";
import { costOf, startUpstream, type Upstream } from "../../gateway/upstream.ts";

type Loop = (
  client: Client,
  planned?: { readonly session: PlanningSession; readonly upstream: Upstream },
) => Promise<string>;

/** Loop with a breakpoint on the last block, as in the API's documentation. */
const messages: Loop = async ({ baseURL, fetch, run }, planned) => {
  const client = new Anthropic({
    baseURL: baseURL.replace(/\/v1$/, ""),
    fetch,
    apiKey: "key",
    maxRetries: 0,
  });
  const tools = TOOLS.map((tool) => ({
    name: tool.name,
    description: tool.description,
    input_schema: parametersOf(tool),
  }));
  const history: Anthropic.MessageParam[] = [{ role: "user", content: QUESTION }];
  let marked: Anthropic.ToolResultBlockParam | undefined;
  for (;;) {
    const request: Anthropic.MessageCreateParamsNonStreaming = {
      model: "claude-sonnet-5",
      max_tokens: 1_000,
      system: [{ type: "text", text: SYSTEM, cache_control: { type: "ephemeral" } }],
      messages: history,
      tools,
    };
    const view = planned &&
      await planned.session.view(fromAnthropic(request), { nowMs: planned.upstream.now() });
    const { content, usage } = await client.messages.create(view ? toAnthropic(request, view) : request);
    if (view) planned.session.sent(readUsage(usage), view);
    history.push({ role: "assistant", content });
    const results = content.flatMap((block): Anthropic.ToolResultBlockParam[] =>
      block.type === "tool_use"
        ? [{ type: "tool_result", tool_use_id: block.id, content: run(block.name, block.input) }]
        : []
    );
    if (results.length === 0) return content.map((block) => block.type === "text" ? block.text : "").join("");
    if (marked) delete marked.cache_control;
    marked = results.at(-1)!;
    marked.cache_control = { type: "ephemeral" };
    history.push({ role: "user", content: results });
  }
};

const responses: Loop = async ({ baseURL, fetch, run }, planned) => {
  const client = new OpenAI({ baseURL, fetch, apiKey: "key", maxRetries: 0 });
  const input: OpenAI.Responses.ResponseInputItem[] = [{ role: "user", content: QUESTION }];
  for (;;) {
    const request: OpenAI.Responses.ResponseCreateParamsNonStreaming = {
      model: "gpt-5",
      instructions: SYSTEM,
      store: false,
      input,
      tools: TOOLS.map((tool) => ({
        type: "function",
        name: tool.name,
        description: tool.description,
        parameters: parametersOf(tool),
        strict: false,
      })),
    };
    const sent = { ...request, input };
    const view = planned &&
      await planned.session.view(fromResponses(sent), { nowMs: planned.upstream.now() });
    const { output, usage, output_text: text } = await client.responses.create(
      view ? toResponses(sent, view) : request,
    );
    if (view) planned.session.sent(readUsage(usage), view);
    input.push(...output as OpenAI.Responses.ResponseInputItem[]);
    const calls = output.filter((item) => item.type === "function_call");
    if (calls.length === 0) return text;
    input.push(...calls.map(({ call_id, name, arguments: args }) => ({
      type: "function_call_output" as const,
      call_id,
      output: run(name, args),
    })));
  }
};

const LOOPS: readonly (readonly [string, Loop, Profile])[] = [
  ["Anthropic's SDK", messages, profileNamed("anthropic-5m")],
  ["OpenAI's Responses", responses, profileNamed("openai")],
];

for (const [name, loop, profile] of LOOPS) {
  Deno.test(`converters: a custom loop over ${name} answers the same and costs less`, async () => {
    await using direct = await startUpstream(scripted(SCRIPT), { profile });
    const alone = await play(direct.baseURL, (client) => loop(client));
    assertEquals([alone.answer, alone.calls], [ANSWER, CALLS]);

    await using upstream = await startUpstream(scripted(SCRIPT), { profile });
    const { tokenizer: { count: countTokens } } = upstream;
    const session = plannerSession({ profile, archive: memoryArchive(), countTokens, windowTokens: 200_000 });
    const planned = await play(upstream.baseURL, (client) => loop(client, { session, upstream }));
    assertEquals([planned.answer, planned.calls], [alone.answer, alone.calls]);
    const saved = 1 - costOf(upstream) / costOf(direct);
    assert(saved > 0.1, `planning saved ${(100 * saved).toFixed(1)} %`);
  });
}

import { assert, assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import type { LoopEvent } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import { contentText, type Tool } from "@tare/messages";
import { loadTokenizer } from "@tare/tiktoken";
import { type LedgerEntry, profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING } from "@tare/server";
import { replay as replayModel, simulator } from "@tare/simulator";
import { memoryStore } from "@tare/session/sqlite";
import { plannerPolicy, play, type Recording } from "@tare/simulator/economy";
import { generateWorkload, withHugeResult } from "./workload.ts";

const profile = profileNamed("openai");
const windowTokens = 200_000;

function recordedTools({ tools, messages }: Recording): Tool[] {
  const results = new Map<string, string[]>();
  const names = new Map<string, string>();
  for (const message of messages) {
    if (message.role === "assistant") {
      for (const call of message.tool_calls ?? []) {
        if (call.type === "function") names.set(call.id, call.function.name);
      }
    } else if (message.role === "tool") {
      const name = names.get(message.tool_call_id) ?? "";
      results.set(name, [...results.get(name) ?? [], contentText(message.content)]);
    }
  }
  return tools.map((definition) => ({
    definition,
    run: () => results.get(definition.function.name)?.shift() ?? "no result was recorded",
  }));
}

async function playOverHttp(recording: Recording) {
  const { messages, calls } = recording;
  const tokenizer = await loadTokenizer();
  // The clock shows the time of the next call.
  const now = (): number =>
    Math.floor(calls[Math.min(provider.requests.length, calls.length - 1)]?.timeMs ?? 0);
  const provider = simulator({ model: replayModel(messages), tokenizer, profile, now });
  const listening = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen() {} }, provider.fetch);
  const baseURL = `http://127.0.0.1:${listening.addr.port}/v1`;
  const entries: LedgerEntry[] = [];
  const agent = agentHandler({
    models: {
      model: (model) => openaiModel({ model, baseURL, apiKey: "any" }),
      defaultModel: "recorded",
      countTokens: () => Promise.resolve(tokenizer.count),
      profile,
      windowTokens,
    },
    approvals: { rules: ALLOW_EVERYTHING },
    tools: recordedTools(recording),
    store: memoryStore({ now }),
    limits: { turn: { maxSteps: 1_000 } },
  });
  const server = Deno.serve(
    { port: 0, hostname: "127.0.0.1", onListen() {} },
    (request) => agent.fetch(request),
  );
  const url = `http://127.0.0.1:${server.addr.port}/tare/v1/sessions`;
  const post = (path: string, body: unknown) =>
    fetch(url + path, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "content-type": "application/json" },
    });
  try {
    const tools = recording.tools.map((tool) => tool.function.name);
    const instructions = messages[0]?.role === "system" ? contentText(messages[0].content) : "";
    const { id } = await (await post("", { instructions, tools })).json();
    for (const { role, content } of messages) {
      if (role !== "user") continue;
      const stream = await post(`/${id}/turns`, { input: contentText(content) });
      for await (const { data } of stream.body!.pipeThrough(new ServerSentEventParseStream())) {
        const event: LoopEvent = JSON.parse(data!);
        if (event.type === "step_end") entries.push(event.ledger as LedgerEntry);
      }
    }
    return { requests: provider.requests, entries };
  } finally {
    await server.shutdown();
    await agent.close();
    await listening.shutdown();
  }
}

async function playInBenchmark(recording: Recording) {
  const { count: countTokens } = await loadTokenizer();
  const usages: { readonly promptTokens: number; readonly cachedTokens: number }[] = [];
  await play(recording, (options) => {
    const policy = plannerPolicy(options, { recall: false });
    return {
      view: policy.view,
      sent(usage) {
        usages.push({ promptTokens: usage.promptTokens, cachedTokens: usage.cachedTokens });
        policy.sent?.(usage);
      },
    };
  }, { profile, windowTokens, countTokens, recall: false, refetches: false, bare: true });
  return usages;
}

Deno.test("play(): a recorded session costs the same tokens over HTTP as in the benchmark and in the ledger", async () => {
  const recording = withHugeResult(generateWorkload()[3]!);
  const { requests, entries } = await playOverHttp(recording);
  const overHttp = requests.map(({ promptTokens, cachedTokens }) => ({ promptTokens, cachedTokens }));
  assertEquals(overHttp, await playInBenchmark(recording));
  assertEquals(
    entries.map(({ usage: { promptTokens, cachedTokens } }) => ({ promptTokens, cachedTokens })),
    overHttp,
  );
  assert(
    entries.some(({ decision }) => decision?.cause === "price"),
    "the session is long enough to be rewritten",
  );
});

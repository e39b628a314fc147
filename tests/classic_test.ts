// Triggers of the classic policy, through the agent server, its loop and a provider with a window.
import { assert, assertEquals, assertGreater, assertLess } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { memoryStore } from "@tare/session/sqlite";
import type { LoopEvent } from "@tare/loop";
import { openaiModel } from "@tare/loop/openai";
import { programTool } from "@tare/tools/programs";
import { workspaceTools } from "@tare/tools";
import { contentText, type Message, type Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { selectElisions } from "@tare/prune";
import { agentHandler, type AgentOptions, ALLOW_EVERYTHING, type HttpAgent } from "@tare/server";
import { type SimulatedModel, simulator, toolCall } from "@tare/simulator";
import { loadTokenizer } from "@tare/tiktoken";

const tokenizer = await loadTokenizer();

function prose(tokens: number, name: string): string {
  const sentences = Array.from(
    { length: Math.ceil(tokens / 12) },
    (_, at) => `The ${name} of day ${at} met harbour master number ${at * 7919}.`,
  );
  return sentences.join(" ");
}

type Changes = Partial<Omit<AgentOptions, "models">> & { readonly models?: Partial<AgentOptions["models"]> };

/** Starts a server on a provider with a window; returns its requests, and each turn's outcome. */
function serve(
  model: SimulatedModel,
  { windowTokens, ...changes }: Changes & { readonly windowTokens: number },
) {
  let nowMs = 0;
  const provider = simulator({
    model,
    tokenizer,
    windowTokens,
    profile: profileNamed("openai"),
    now: () => nowMs,
  });
  const start = (more: Changes = {}): HttpAgent =>
    agentHandler({
      approvals: { rules: ALLOW_EVERYTHING },
      tools: workspaceTools({ workspace: "." }),
      store: memoryStore({ now: () => nowMs += 1_000 }),
      ...changes,
      ...more,
      models: {
        model: (model) =>
          openaiModel({
            model,
            baseURL: "http://provider/v1",
            fetch: (url, init) => provider.fetch(new Request(url, init)),
          }),
        defaultModel: "simulated",
        countTokens: () => Promise.resolve(tokenizer.count),
        profile: profileNamed("openai"),
        windowTokens,
        ...changes.models,
        ...more.models,
      },
      prompt: { policy: "classic", ...changes.prompt, ...more.prompt },
    });
  const summaries = () => provider.requests.filter(({ messages }) => isInstruction(messages.at(-1)));
  return { provider, start, summaries };
}

function isInstruction(message: Message | undefined): boolean {
  return /summarize the older part|Summarize it\./.test(contentText(message?.content));
}

async function post(
  agent: HttpAgent,
  path: string,
  body: unknown,
  type = "application/json",
): Promise<Response> {
  const text = typeof body === "string" ? body : JSON.stringify(body);
  return await agent.fetch(
    new Request(`http://localhost${path}`, { method: "POST", headers: { "content-type": type }, body: text }),
  );
}

async function newSession(agent: HttpAgent, body: unknown = {}): Promise<string> {
  return (await (await post(agent, "/tare/v1/sessions", body)).json()).id;
}

async function turn(agent: HttpAgent, id: string, input: string): Promise<LoopEvent[]> {
  const response = await post(agent, `/tare/v1/sessions/${id}/turns`, { input });
  const events: LoopEvent[] = [];
  for await (const { data } of response.body!.pipeThrough(new ServerSentEventParseStream())) {
    events.push(JSON.parse(data!));
  }
  return events;
}

function endOf(events: readonly LoopEvent[]): string {
  const end = events.at(-1);
  return end?.type === "turn_end" ? `${end.reason}${end.message ?? ""}` : "none";
}

function rewritesOf(events: readonly LoopEvent[]): string[] {
  return events.flatMap((event) => event.type === "context_rewritten" ? [event.mechanism] : []);
}

Deno.test("classic policy: a file's earlier reads are superseded when a program writes it", async () => {
  const workspace = await Deno.makeTempDir();
  await Deno.writeTextFile(`${workspace}/a.txt`, prose(1_000, "first"));
  const calls = [
    toolCall("read_file", { path: "a.txt" }),
    toolCall("run_program", { code: 'await tools.write_file({ path: "./a.txt", content: "short" })' }),
  ];
  const model: SimulatedModel = ({ messages }) => {
    const next = calls[messages.filter(({ role }) => role === "tool").length];
    return next ? { tool_calls: [next] } : { content: "Written." };
  };
  const tools = [...workspaceTools({ workspace }), programTool()];
  const agent = serve(model, { windowTokens: 100_000, tools }).start();
  const id = await newSession(agent);
  assertEquals(endOf(await turn(agent, id, "Go")), "completed");
  const { messages } = await (await agent.fetch(new Request(`http://localhost/tare/v1/sessions/${id}`)))
    .json();
  const elisions = selectElisions(messages, {
    countTokens: tokenizer.count,
    protectTokens: 0,
    tools: Object.fromEntries(tools.map((tool) => [tool.definition.function.name, tool])),
  });
  assertEquals(elisions.map(({ tool, reason }) => [tool, reason]), [["read_file", "superseded"]]);
  await agent.close();
  await Deno.remove(workspace, { recursive: true });
});

const storyteller: SimulatedModel = ({ messages }) => {
  const last = messages.at(-1);
  if (isInstruction(last)) return { content: "Stories of harbour masters were told." };
  return { content: prose(1_500, contentText(last?.content)) };
};

Deno.test("classic policy: 20 text-heavy turns in a window of 16k all complete with summaries, never two in a row", async () => {
  const { provider, start, summaries } = serve(storyteller, { windowTokens: 16_000 });
  const agent = start();
  const id = await newSession(agent);
  const ends: string[] = [];
  const folded: number[] = [];
  let paid = 0;
  for (let n = 0; n < 20; n++) {
    const events = await turn(agent, id, `story${n}`);
    ends.push(endOf(events));
    const end = events.at(-1);
    paid += end?.type === "turn_end" ? end.ledger.promptTokens : 0;
    if (rewritesOf(events).includes("summarize")) folded.push(n);
    assertEquals(events.filter(({ type }) => type === "warning"), []);
  }
  assertEquals(ends, Array(20).fill("completed"));
  assertEquals(provider.requests.filter(({ status }) => status !== 200), []);
  assertGreater(folded.length, 1);
  for (const [at, n] of folded.entries()) assert(at === 0 || n - folded[at - 1]! > 1, `${folded}`);
  assertEquals(summaries().length, folded.length);
  assertEquals(paid, provider.requests.reduce((sum, { promptTokens }) => sum + promptTokens, 0));
  const { messages } = await (await agent.fetch(new Request(`http://localhost/tare/v1/sessions/${id}`)))
    .json();
  assertEquals(messages.length, 1 + 40);
  await agent.close();
});

/** Makes two calls a turn, each of which returns a unique log. */
const operator: SimulatedModel = ({ messages }) => {
  const start = messages.findLastIndex(({ role }) => role === "user");
  const calls = messages.slice(start).filter(({ role }) => role === "tool").length;
  if (calls === 2) return { content: "Read." };
  return { tool_calls: [toolCall("log", { name: `${contentText(messages[start]?.content)}-${calls}` })] };
};

const log: Tool = {
  definition: {
    type: "function",
    function: { name: "log", parameters: { type: "object", properties: { name: { type: "string" } } } },
  },
  run: ({ name }) => prose(900, String(name)),
};

Deno.test("classic policy: 20 tool-heavy turns in a window of 16k all complete within it, without a summary", async () => {
  const { provider, start, summaries } = serve(operator, { windowTokens: 16_000, tools: [log] });
  const agent = start();
  const id = await newSession(agent);
  const ends: string[] = [];
  const mechanisms = new Set<string>();
  for (let n = 0; n < 20; n++) {
    const events = await turn(agent, id, `log${n}`);
    ends.push(endOf(events));
    for (const mechanism of rewritesOf(events)) mechanisms.add(mechanism);
  }
  assertEquals(ends, Array(20).fill("completed"));
  assertEquals([summaries().length, [...mechanisms]], [0, ["prune"]]);
  const largest = Math.max(...provider.requests.map(({ promptTokens }) => promptTokens));
  assertLess(largest, 0.9 * 16_000);
  await agent.close();
});

function lines(tokens: number, resultTokens: number): string {
  const call = { id: "1", type: "function", function: { name: "log", arguments: "{}" } } as const;
  const words = (count: number) => Array(count).fill("harbour").join(" ");
  const messages = (rest: number): Message[] => [
    { role: "system", content: "Be brief." },
    { role: "user", content: "Read the log." },
    { role: "assistant", tool_calls: [call] },
    { role: "tool", tool_call_id: "1", content: words(resultTokens) },
    { role: "assistant", content: words(rest) },
  ];
  const count = (rest: number) => {
    const all = JSON.stringify([...messages(rest), { role: "user", content: "And?" }]);
    return all.split("harbour").length - 1;
  };
  return messages(tokens - count(0)).map((message) => JSON.stringify(message)).join("\n");
}

Deno.test("classic policy: a prompt of 850 of 1,000 is pruned and never summarized; one of 950 is summarized as well", async () => {
  const seen: unknown[] = [];
  for (const [tokens, resultTokens] of [[850, 500], [950, 500], [850, 30], [750, 500]] as const) {
    // The provider counts everything else as well, and has room for it.
    const { start, summaries } = serve(() => ({ content: "Short." }), {
      windowTokens: 100_000,
      tools: [log],
      // One token for each of these words, none for anything else.
      models: { countTokens: () => Promise.resolve((text) => text.split("harbour").length - 1) },
      prompt: { triggers: { protectTokens: 100 }, mechanisms: { schemas: false } },
    });
    const agent = start({ models: { windowTokens: 1_000 } });
    const imported = await post(
      agent,
      "/tare/v1/sessions/import",
      lines(tokens, resultTokens),
      "application/x-ndjson",
    );
    const { sessions: [{ id }] } = await imported.json();
    const events = await turn(agent, id, "And?");
    seen.push([tokens, rewritesOf(events), summaries().length, endOf(events)]);
    await agent.close();
  }
  assertEquals(seen, [
    [850, ["prune"], 0, "completed"],
    [950, ["prune", "summarize"], 1, "completed"],
    [850, ["summarize"], 1, "completed"],
    [750, [], 0, "completed"],
  ]);
});

Deno.test("classic policy: after a restart a summary stays: the next prompt has the same prefix, without a new summary", async () => {
  const store = memoryStore();
  const { provider, start, summaries } = serve(storyteller, { windowTokens: 16_000 });
  let agent = start({ store });
  const id = await newSession(agent);
  let folds = false;
  for (let n = 0; n < 10 && !folds; n++) {
    folds = rewritesOf(await turn(agent, id, `story${n}`)).includes("summarize");
  }
  assert(folds);
  const before = provider.requests.at(-1)!;
  const requestCount = summaries().length;
  await agent.close();
  agent = start({ store });
  const events = await turn(agent, id, "what now");
  const after = provider.requests.at(-1)!;
  assertEquals([endOf(events), rewritesOf(events), summaries().length], ["completed", [], requestCount]);
  assertEquals(
    JSON.stringify(after.messages.slice(0, before.messages.length)),
    JSON.stringify(before.messages),
  );
  assertEquals(JSON.stringify(after.tools), JSON.stringify(before.tools));
  await agent.close();
});

Deno.test("classic policy: a window that is too small is reported once, and each turn ends with the provider's error", async () => {
  const { start, summaries } = serve(storyteller, { windowTokens: 2_000, tools: [] });
  const agent = start();
  const id = await newSession(agent, { tools: [] });
  const warnings: string[] = [];
  const ends: string[] = [];
  for (let n = 0; n < 2; n++) {
    const events = await turn(agent, id, prose(2_100, "news"));
    ends.push(endOf(events).slice(0, 11));
    for (const event of events) {
      if (event.type === "warning") warnings.push(event.message.replace(/\d+ of/, "N of"));
    }
  }
  assertEquals([ends, summaries().length], [["model_error", "model_error"], 0]);
  assertEquals(warnings, [
    "The window is too small for this turn: with instructions and tools it takes N of 2000 tokens. " +
    "Pruning and summaries pause until more can be freed.",
  ]);
  await agent.close();
});

Deno.test("classic policy: messages omitted by a tool loop are recalled in the same turn", async () => {
  const secret = "The harbour master's name is Ada Quay.";
  const requests: string[] = [];
  const model: SimulatedModel = ({ messages }) => {
    const last = contentText(messages.at(-1)?.content);
    if (last === "Tell me.") return { content: `${secret} ${prose(3_000, "boat")}` };
    if (last === "Who was it?") return { tool_calls: [toolCall("log", { name: "today" })] };
    const [, ref = ""] = /\[elided: 2 messages, \d+ bytes; recall with ref ([0-9a-f]{16})\]/
      .exec(JSON.stringify(messages)) ?? [];
    if (messages.at(-2)?.role !== "tool" && !requests.includes(ref)) {
      requests.push(ref);
      return { tool_calls: [toolCall("recall", { ref, find: "name is" })] };
    }
    return { content: /Ada \w+/.exec(last)?.[0] ?? "Nobody knows." };
  };
  const { provider, start } = serve(model, {
    windowTokens: 100_000,
    tools: [log],
    prompt: { triggers: { historyBudgetTokens: 1_000 } },
  });
  const agent = start();
  const id = await newSession(agent);
  await turn(agent, id, "Tell me.");
  const events = await turn(agent, id, "Who was it?");
  const end = events.at(-1);
  assertEquals([end?.type === "turn_end" && end.text, rewritesOf(events)], ["Ada Quay", ["context"]]);
  assertEquals(provider.requests.map(({ messages }) => JSON.stringify(messages).includes(secret)), [
    false,
    true,
    false,
    true,
  ]);
  assertEquals(requests.every((ref) => ref !== ""), true);
  await agent.close();
});

import { assert, assertEquals, assertLessOrEqual } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { gateway } from "@tare/gateway";
import { openaiModel } from "@tare/loop/openai";
import { contentText, type Message, type Tool } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { agentHandler } from "@tare/server";
import { type SimulatedModel, simulator, toolCall } from "@tare/simulator";
import { loadTokenizer } from "@tare/tiktoken";
import { postSession } from "../post_session.ts";

const profile = profileNamed("openai");
const JOBS = 12;
const STEPS = 10;
const TASK = "Find the fault in all parts.";

function partOf(number: number): string {
  return Array.from(
    { length: 120 },
    (_, at) => `part ${number} has ${(at * 7_919 + number) % 10_007} at ${at}`,
  )
    .join("\n");
}

const reading: SimulatedModel = ({ messages }) => {
  const step = messages.length - 1 - messages.findLastIndex(({ role }) => role === "user");
  if (step >= 2 * STEPS) return { content: "Found." };
  const part = messages.filter(({ role }) => role === "tool").length;
  return { tool_calls: [toolCall("read", { part: `${part}` })] };
};

/** Starts a provider with a faithful cache, whose clock advances with each request. */
async function provider() {
  const tokenizer = await loadTokenizer();
  let nowMs = 0;
  const simulated = simulator({ model: reading, tokenizer, profile, now: () => nowMs });
  return {
    tokenizer,
    now: () => nowMs,
    fetch: (url: string | URL | Request, init?: RequestInit) => {
      nowMs += 5_000;
      return simulated.fetch(new Request(url, init));
    },
    spent: (() => {
      let from = 0;
      return () => {
        const requests = simulated.requests.slice(from);
        from = simulated.requests.length;
        return requests.reduce((sum, usage) => sum + promptCost(profile, usage), 0);
      };
    })(),
  };
}

Deno.test("forks: a session's twelve forks over HTTP each cost what the first does, and none stops rewriting", async () => {
  const upstream = await provider();
  let reads = 0;
  const read: Tool = {
    definition: {
      type: "function",
      function: { name: "read", parameters: { type: "object", properties: { part: { type: "string" } } } },
    },
    stance: "rederivable",
    run: () => partOf(reads++),
  };
  const agent = agentHandler({
    models: {
      model: (model) =>
        openaiModel({ model, baseURL: "http://provider/v1", apiKey: "key", fetch: upstream.fetch }),
      defaultModel: "m",
      countTokens: () => Promise.resolve(upstream.tokenizer.count),
      profile,
      windowTokens: 400_000,
    },
    tools: [read],
    store: memoryStore({ now: upstream.now }),
  });
  const post = (path: string, body: object) => postSession(agent, path, body);
  const turn = async (id: string) => {
    const events = await post(`/${id}/turns`, { input: TASK });
    assert(events.includes('"reason":"completed"'), events.slice(-500));
    assertEquals(events.includes('"stopped":true'), false);
  };
  const { id } = JSON.parse(await post("", { instructions: "Be careful." }));
  for (let count = 0; count < 3; count++) await turn(id);
  upstream.spent();
  for (const body of [{}, { before: 1 + 2 * STEPS + 2 }]) {
    const costs: number[] = [];
    for (let job = 0; job < JOBS; job++) {
      const { session } = JSON.parse(await post(`/${id}/fork`, body));
      await turn(session.id);
      costs.push(upstream.spent());
    }
    assertLessOrEqual(Math.max(...costs), 1.05 * costs[0]!);
  }
  await agent.close();
});

Deno.test("repeated job: the same job twelve times through the gateway costs the same each time, as a separate session", async () => {
  const upstream = await provider();
  const made = gateway({
    upstreams: { chat: { baseURL: "http://provider/v1", profile, windowTokens: 400_000 } },
    countTokens: () => Promise.resolve(upstream.tokenizer.count),
    now: upstream.now,
    fetch: upstream.fetch,
  });
  const tools = [{
    type: "function",
    function: { name: "read", parameters: { type: "object", properties: { part: { type: "string" } } } },
  }];
  let reads = 0;
  const costs: number[] = [];
  const sessions = new Set<string | null>();
  for (let job = 0; job < JOBS; job++) {
    const messages: Message[] = [{ role: "system", content: "Be careful." }, { role: "user", content: TASK }];
    for (let isDone = false; !isDone;) {
      const request = new Request("http://localhost/v1/chat/completions", {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ model: "m", messages, tools }),
      });
      const response = (await made.fetch(request))!;
      sessions.add(response.headers.get("x-tare-session"));
      const { choices: [{ message }] } = await response.json();
      messages.push(message);
      for (const { id } of message.tool_calls ?? []) {
        messages.push({ role: "tool", tool_call_id: `${id}`, content: partOf(reads++) });
      }
      isDone = contentText(message.content) === "Found.";
    }
    costs.push(upstream.spent());
  }
  assertEquals(sessions.size, JOBS);
  assertLessOrEqual(Math.max(...costs), 1.05 * costs[0]!);
  await made.close();
});

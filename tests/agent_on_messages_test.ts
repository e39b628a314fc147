import { assert, assertEquals } from "@std/assert";
import { ServerSentEventParseStream } from "@std/http";
import { join } from "@std/path";
import type { LoopEvent } from "@tare/loop";
import { anthropicModel } from "@tare/loop/anthropic";
import type { Message, Tool } from "@tare/messages";
import { type LedgerEntry, profileNamed } from "@tare/planner";
import { agentHandler, ALLOW_EVERYTHING, type HttpAgent } from "@tare/server";
import { scripted, type SimulatedReply, simulator, toolCall } from "@tare/simulator";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { openStore } from "@tare/session/sqlite";
import { messagesBody } from "@tare/wire";
import fc, { cases } from "./cases.ts";
import { block, call, reply, text, thinking } from "../packages/loop/anthropic/fixture_test.ts";

const profile = profileNamed("anthropic-5m");
const tokenizer = { encode: (text: string) => text.split(" ").map((word) => word.length) };
const words = (tokens: number, word = "w") => Array.from({ length: tokens }, () => word).join(" ");

type Answer = (request: Request) => Promise<Response> | Response;
interface Body {
  readonly messages: readonly { readonly role: string; readonly content: readonly object[] }[];
}

function agentOn(provider: Answer, { tools = [], store = memoryStore(), now = () => 0 }: {
  readonly tools?: readonly Tool[];
  readonly store?: Store;
  readonly now?: () => number;
} = {}): { readonly agent: HttpAgent; readonly bodies: Body[] } {
  const bodies: Body[] = [];
  const fetch = async (input: string | URL | Request, init?: RequestInit) => {
    const request = new Request(input, init);
    bodies.push(await request.clone().json());
    return await provider(request);
  };
  const agent = agentHandler({
    models: {
      model: (model) =>
        anthropicModel({ model, baseURL: "http://provider", apiKey: "key", maxRetries: 0, fetch }),
      defaultModel: "claude-sonnet-5",
      countTokens: () => Promise.resolve((text) => tokenizer.encode(text).length),
      profile: () => profile,
      windowTokens: 200_000,
    },
    approvals: { rules: ALLOW_EVERYTHING },
    tools,
    store: { ...store, now },
  });
  return { agent, bodies };
}

async function post({ fetch }: HttpAgent, path: string, body: object): Promise<Response> {
  const headers = { "content-type": "application/json", host: "127.0.0.1:8787" };
  const url = `http://127.0.0.1:8787/tare/v1/sessions${path}`;
  return await fetch(new Request(url, { method: "POST", headers, body: JSON.stringify(body) }));
}

async function playTurn(agent: HttpAgent, id: string, input: string): Promise<LoopEvent[]> {
  const { body } = await post(agent, `/${id}/turns`, { input });
  const events = await Array.fromAsync(body!.pipeThrough(new ServerSentEventParseStream()));
  return events.map(({ data }) => JSON.parse(data!));
}

const readTool = (run: Tool["run"]): Tool => ({
  definition: {
    type: "function",
    function: { name: "read", description: words(400), parameters: { type: "object" } },
  },
  stance: "rederivable",
  run,
});

function countBreakpoints(body: Body): number {
  return JSON.stringify(body).split('"cache_control"').length - 1;
}

/** Returns the cache reads of each of 40 steps; `keep` may remove breakpoints from a request. */
async function playLongTurn(keep: (body: string) => string = (body) => body) {
  const steps = 40;
  // The tenth step adds more blocks than the provider looks back over.
  const calls = (step: number) => step === 10 ? 24 : 2;
  const replies = Array.from({ length: steps }, (_, step): SimulatedReply => ({
    reasoning_content: `Step ${step}.`,
    tool_calls: Array.from({ length: calls(step) }, (_, at) => toolCall("read", { path: `${step}-${at}` })),
  }));
  let nowMs = 0;
  const provider = simulator({
    model: scripted([...replies, { content: "Done." }]),
    profile,
    tokenizer,
    now: () => nowMs,
  });
  let results = 0;
  const read = readTool(() => words(results < 10 ? 40 : results > 90 ? 60 : 700, `r${results++}`));
  const { agent, bodies } = agentOn(async (request) => {
    nowMs += 5_000;
    return await provider.fetch(new Request(request, { body: keep(await request.text()) }));
  }, { tools: [read], now: () => nowMs });
  const { id } = await (await post(agent, "", { instructions: words(1_500), tools: ["read"] })).json();
  const events = await playTurn(agent, id, words(1_000, "please"));
  await agent.close();
  const entries = events.flatMap((event) => event.type === "step_end" ? [event.ledger as LedgerEntry] : []);
  const rewritten = events.flatMap((event) =>
    event.type === "context_rewritten" && event.mechanism === "planner" ? [event.step - 1] : []
  );
  return { events, entries, rewritten, bodies, requests: provider.requests };
}

function hitRate(
  requests: readonly { readonly promptTokens: number; readonly cachedTokens: number }[],
): number {
  const sum = (field: "promptTokens" | "cachedTokens") =>
    requests.reduce((sum, request) => sum + request[field], 0);
  return Math.round(1_000 * sum("cachedTokens") / sum("promptTokens")) / 1_000;
}

Deno.test("cache reads: a turn of 40 steps with rewrites and a step of 24 calls reads what the planner predicts", async () => {
  const { events, entries, rewritten, bodies, requests } = await playLongTurn();
  const end = events.at(-1);
  assertEquals(end?.type === "turn_end" && [end.reason, end.ledger.calls], ["completed", 41]);
  assertEquals(bodies.map(countBreakpoints), [
    ...Array(11).fill(3),
    4,
    ...Array(12).fill(3),
    ...Array(17).fill(4),
  ]);
  assertEquals(rewritten, [24, 38]);
  // Tokens of a rewritten prompt before the reply with the first call whose result was evicted.
  const lostTokens = entries.map(({ usage, predictedCachedTokens }) =>
    predictedCachedTokens - usage.cachedTokens
  );
  assertEquals(lostTokens, entries.map((_, at) => rewritten.includes(at) ? 10 : 0));
  assertEquals(entries.slice(23, 26).map(({ usage }) => [usage.promptTokens, usage.cachedTokens]), [
    [44_454, 43_036],
    [10_044, 3_398],
    [11_462, 10_044],
  ]);
  assertEquals(
    entries.map(({ usage }) => [usage.promptTokens, usage.cachedTokens, usage.cacheWriteTokens]),
    requests.map((
      { promptTokens, cachedTokens, cacheWriteTokens },
    ) => [promptTokens, cachedTokens, cacheWriteTokens]),
  );
});

Deno.test("cache breakpoints: the places that are marked are worth it", async () => {
  /** Removes all cache breakpoints but those of some blocks. */
  const keeping =
    (keeps: (body: { system: object[]; messages: Body["messages"] }) => readonly unknown[]) =>
    (text: string) => {
      const body = JSON.parse(text);
      const retained = keeps(body);
      return JSON.stringify(body, function (this: unknown, name, value) {
        return name === "cache_control" && !retained.includes(this) ? undefined : value;
      });
    };
  const rates = {
    placed: hitRate((await playLongTurn()).requests),
    systemAndEnd: hitRate(
      (await playLongTurn(
        keeping(({ system, messages }) => [system.at(-1), messages.at(-1)?.content.at(-1)]),
      ))
        .requests,
    ),
    none: hitRate((await playLongTurn(keeping(() => []))).requests),
  };
  assertEquals(rates, { placed: .915, systemAndEnd: .9, none: 0 });
});

Deno.test("cache breakpoints: no request has more than four", () => {
  const property = fc.property(
    fc.record({
      heads: fc.nat(2),
      tools: fc.nat(2),
      replies: fc.array(fc.nat(30), { maxLength: 6 }),
      shared: fc.nat(200),
      edited: fc.nat(200),
      isKnown: fc.boolean(),
    }),
    ({ heads, tools, replies, shared, edited, isKnown }) => {
      const messages: Message[] = [
        ...Array.from({ length: heads }, (): Message => ({ role: "system", content: "s" })),
        ...replies.flatMap((calls, step): Message[] => [
          { role: "user", content: step % 2 === 0 ? "go" : " " },
          {
            role: "assistant",
            content: "",
            tool_calls: Array.from({ length: calls }, (_, at) => ({ ...toolCall("f"), id: `${step}-${at}` })),
          },
          ...Array.from({ length: calls }, (_, at): Message => ({
            role: "tool",
            tool_call_id: `${step}-${at}`,
            content: "r",
          })),
        ]),
      ];
      const definition = { type: "function", function: { name: "f" } } as const;
      const body = messagesBody({
        messages,
        tools: Array.from({ length: tools }, () => definition),
        ...(isKnown && { stable: { shared, edited: Math.min(shared, edited) } }),
      }, { maxTokens: 9 });
      const breakpoints = JSON.stringify(body).split('"cache_control"').length - 1;
      assert(breakpoints <= 4, `${breakpoints} marks`);
      const content = (body.messages as Body["messages"]).at(-1)?.content;
      if (content) assert("cache_control" in content.at(-1)!, "the end is marked");
    },
  );
  fc.assert(property, { numRuns: cases(500) });
});

Deno.test("thinking blocks: thoughts and signatures are sent back byte for byte in the same turn, later turns and after a restart", async () => {
  const hidden = { type: "redacted_thinking", data: "c2VjcmV0IGJ5dGVz" };
  const answers = [
    reply(
      "tool_use",
      ...thinking(0, "I read both — “a” first.\n", "sig/1+=="),
      ...block(1, hidden),
      ...text(2, "Reading."),
      ...call(3, "toolu_1", '{"path": ', '"a" }'),
      ...call(4, "toolu_2", '{"path":"b"}'),
    ),
    reply("end_turn", ...thinking(0, "Done.", "sig/2"), ...text(1, "Both are greetings.")),
    reply("end_turn", ...text(0, "As stated.")),
  ];
  const folder = await Deno.makeTempDir();
  const open = async () => {
    const store = await openStore(join(folder, "tare.db"));
    const tools = [{
      ...readTool(() => "hello"),
      definition: { type: "function", function: { name: "f" } } as const,
    }];
    const { agent, bodies } = agentOn(() => answers.shift()!, { store, tools });
    return { agent, bodies, close: async () => (await agent.close(), await store.close()) };
  };
  try {
    const before = await open();
    const { id } = await (await post(before.agent, "", { tools: ["f"] })).json();
    await playTurn(before.agent, id, "Read a and b.");
    await before.close();
    const after = await open();
    await playTurn(after.agent, id, "Again?");
    await after.close();

    const first = [
      { type: "thinking", thinking: "I read both — “a” first.\n", signature: "sig/1+==" },
      hidden,
      { type: "text", text: "Reading." },
      { type: "tool_use", id: "toolu_1", name: "f", input: { path: "a" } },
      { type: "tool_use", id: "toolu_2", name: "f", input: { path: "b" } },
    ];
    const second = [
      { type: "thinking", thinking: "Done.", signature: "sig/2" },
      { type: "text", text: "Both are greetings." },
    ];
    const replies = ({ messages }: Body) =>
      messages.flatMap(({ role, content }) => role === "assistant" ? [JSON.stringify(content)] : []);
    assertEquals(before.bodies.map(replies), [[], [JSON.stringify(first)]]);
    assertEquals(after.bodies.map(replies), [[JSON.stringify(first), JSON.stringify(second)]]);
    // Apart from breakpoints, the request after the restart begins with what was sent before.
    const [sent, again] = [before.bodies[1], after.bodies[0]].map((body) => plain(body!));
    assertEquals(JSON.stringify(again).startsWith(JSON.stringify(sent).slice(0, -1)), true);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

function plain({ messages }: Body): unknown {
  return JSON.parse(JSON.stringify(messages, (name, value) => name === "cache_control" ? undefined : value));
}

Deno.test("stop reasons: a turn on Messages ends as its provider reports", async () => {
  const endings = async (...replies: SimulatedReply[]) => {
    const provider = simulator({ model: scripted(replies), profile, tokenizer, apiKey: "key" });
    const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
    const url = `http://127.0.0.1:${server.addr.port}/v1/messages`;
    const { agent } = agentOn((request) => fetch(url, request));
    const { id } = await (await post(agent, "", {})).json();
    const end = (await playTurn(agent, id, "Hi.")).at(-1);
    await agent.close();
    await server.shutdown();
    return end?.type === "turn_end" && [end.reason, end.code];
  };
  assertEquals(await endings({ content: "Hi." }), ["completed", undefined]);
  assertEquals(await endings({ content: "Hi", finish_reason: "length" }), ["output_limit", undefined]);
  assertEquals(await endings({ content: "No", finish_reason: "content_filter" }), ["model_error", undefined]);
  const tooLong = { fault: { type: "prompt_too_long" } } as const;
  assertEquals(await endings(tooLong, tooLong), ["model_error", "prompt_too_long"]);
  assertEquals(await endings({ fault: { type: "rate_limit", retryAfterMs: 5 } }), [
    "model_error",
    "rate_limited",
  ]);
  assertEquals(await endings({ fault: { type: "error", status: 401 } }), ["model_error", "bad_key"]);
  assertEquals(await endings({ fault: { type: "error", status: 529 } }), ["model_error", "provider_error"]);
  for (const quietly of [false, true]) {
    const fault = { type: "cut", afterChunks: 5, quietly } as const;
    assertEquals(await endings({ content: words(40), fault }), ["model_error", "bad_response"]);
  }
});

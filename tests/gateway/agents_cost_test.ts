import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { gateway, type GatewayOptions } from "@tare/gateway";
import { type Profile, profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { simulator } from "@tare/simulator";
import type { JsonRecord } from "@tare/wire";
import { needs, RECORDINGS } from "../needs.ts";
import { TITLE_FIRST } from "../recorded_sessions.ts";

const MOST = 1.02;

const GAP_MS = 10_000;

interface Sent {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: JsonRecord;
}

const encoded = new Map<string, readonly number[]>();

/** Tokenizer with four characters a token, so that sizes are known. */
const tokenizer = {
  encode(text: string): readonly number[] {
    const known = encoded.get(text);
    if (known) return known;
    const tokens: number[] = [];
    for (let at = 0, hash = 7; at < text.length; at++) {
      hash = Math.imul(hash, 31) + text.charCodeAt(at) | 0;
      if (at % 4 < 3 && at < text.length - 1) continue;
      tokens.push(hash >>> 0);
      hash = 7;
    }
    encoded.set(text, tokens);
    return tokens;
  },
};

async function play(requests: readonly Sent[], profile: Profile, through?: Partial<GatewayOptions>) {
  let nowMs = 1_000_000;
  const now = () => nowMs;
  const provider = simulator({ model: () => ({ content: "Yes." }), tokenizer, profile, now });
  const upstream = async (...args: Parameters<typeof fetch>) => {
    const request = new Request(...args);
    return /count_tokens|input_tokens/.test(request.url)
      ? Response.json({ input_tokens: 1 })
      : await provider.fetch(request);
  };
  const errors: unknown[] = [];
  const address = { baseURL: "http://provider.example/v1", profile, windowTokens: 200_000 };
  const made = gateway({
    upstreams: { chat: address, responses: address, messages: address },
    fetch: upstream as typeof fetch,
    countTokens: () => Promise.resolve((text) => Math.ceil(text.length / 4)),
    now,
    onError: (error) => void errors.push(error),
    ...through,
  });
  for (const { path, headers, body } of requests) {
    nowMs += GAP_MS;
    const request = new Request(`http://provider.example/v1${path}`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": "key", ...headers },
      body: JSON.stringify(body),
    });
    const response = await (through ? made.fetch(request)! : upstream(request));
    assertEquals(response.status, 200, await response.text());
  }
  await made.close();
  assertEquals(errors, []);
  const cost = provider.requests.reduce((sum, request) => sum + promptCost(profile, request), 0);
  return { cost, ledger: (await made.sessions.ledger()).planned };
}

async function assertAsDirect(requests: readonly Sent[], profile: Profile): Promise<void> {
  const direct = await play(requests, profile);
  const { cost, ledger } = await play(requests, profile, {});
  assert(cost <= MOST * direct.cost, `${Math.round(cost)} units, ${Math.round(direct.cost)} sent directly`);
  assertAlmostEquals(ledger.costUnits, cost, 1e-6 * cost);
  const { baselineCostUnits: baseline, savedTokens } = ledger;
  // Without evictions, the baseline excludes nothing of Tare's additions to a prompt.
  assertAlmostEquals(baseline, savedTokens > 0 ? direct.cost : cost, 0.02 * direct.cost);
  assertEquals(ledger.sessions, 1);
}

function prose(seed: string, chars: number): string {
  const words = [
    "alpha",
    "bravo",
    "delta",
    "gamma",
    "kilo",
    "lima",
    "oscar",
    "papa",
    "sierra",
    "tango",
    "zulu",
  ];
  let [text, at] = [seed, seed.length];
  while (text.length < chars) {
    at = (at * 48_271 + seed.charCodeAt(at % seed.length)) % 2_147_483_647;
    text += ` ${words[at % words.length]}`;
  }
  return text.slice(0, chars);
}

interface Agent {
  readonly protocol: "chat" | "responses" | "messages";
  /** Characters of the instructions, of all tools, and of the context before the user's text. */
  readonly system: number;
  readonly tools: number;
  readonly context?: number;
  readonly results?: readonly number[];
  readonly key?: "metadata" | "prompt_cache_key" | "x-session-id";
  /** Additional requests, by number of the turn's request that they precede. */
  readonly betweenTurns?: Readonly<Record<number, readonly BetweenTurns[]>>;
}

type BetweenTurns = "title" | "quota" | "warm-up" | "count" | "topic" | "title with tools";

const RESULTS = [29_238, 16_375, 55];

/** Observed agents, with replaced texts of similar lengths. */
const AGENTS: Readonly<Record<string, Agent>> = {
  "Claude Code, interactive": {
    ...{ protocol: "messages", key: "metadata", system: 6_375, tools: 35_549, context: 11_900 },
    betweenTurns: { 0: ["title"], 1: ["count"] },
  },
  "Claude Code, which probes its quota and warms the cache": {
    ...{ protocol: "messages", key: "metadata", system: 6_375, tools: 35_549, context: 11_900 },
    betweenTurns: { 0: ["quota", "title", "count", "warm-up"], 1: ["topic"], 3: ["quota", "title"] },
  },
  "Claude Agent SDK": {
    ...{ protocol: "messages", key: "metadata", system: 3_000, tools: 60_000, context: 900 },
  },
  "Codex": { protocol: "responses", key: "prompt_cache_key", system: 14_000, tools: 12_000, context: 5_000 },
  "opencode": {
    ...{ protocol: "chat", key: "x-session-id", system: 12_000, tools: 32_000 },
    betweenTurns: { 0: ["title"] },
  },
  "Kilo": {
    ...{ protocol: "chat", key: "x-session-id", system: 45_000, tools: 30_000, context: 1_200 },
    betweenTurns: { 1: ["title"] },
  },
  "pi, chat": { protocol: "chat", system: 3_500, tools: 5_500 },
  "pi, responses": { protocol: "responses", key: "prompt_cache_key", system: 3_500, tools: 5_500 },
  "Qwen Code": { protocol: "chat", system: 28_000, tools: 24_000, context: 1_500 },
  "Copilot, chat": {
    ...{ protocol: "chat", key: "x-session-id", system: 22_000, tools: 28_000, context: 200 },
    betweenTurns: { 1: ["title with tools"] },
  },
  "Copilot, responses": {
    ...{ protocol: "responses", key: "prompt_cache_key", system: 22_000, tools: 28_000, context: 200 },
    betweenTurns: { 0: ["title with tools"] },
  },
  "Copilot, messages": {
    ...{ protocol: "messages", key: "metadata", system: 22_000, tools: 28_000, context: 200 },
    betweenTurns: { 0: ["title"] },
  },
  "Cline": { protocol: "chat", system: 24_000, tools: 20_000, context: 2_500 },
  "Continue, responses": { protocol: "responses", key: "prompt_cache_key", system: 4_000, tools: 11_000 },
  "Continue, messages": {
    ...{ protocol: "messages", key: "metadata", system: 4_000, tools: 11_000 },
    betweenTurns: { 0: ["title"], 2: ["topic"] },
  },
  "OpenClaw": { protocol: "chat", key: "x-session-id", system: 30_000, tools: 36_000, context: 800 },
  "Kimi Code": { protocol: "chat", key: "prompt_cache_key", system: 18_000, tools: 30_000 },
  "nanocoder": { protocol: "chat", system: 9_000, tools: 14_000 },
  "OpenAI Agents SDK": { protocol: "responses", system: 6_000, tools: 16_000 },
};

const MARK = { cache_control: { type: "ephemeral" } };
const SESSION = "11111111-2222-4333-8444-555555555555";

const WRITERS: Readonly<
  Record<Agent["protocol"], {
    readonly path: string;
    readonly countPath?: string;
    readonly shortest: JsonRecord;
    readonly forbidden: JsonRecord;
    body(system: string, items: readonly JsonRecord[]): JsonRecord;
    tool(name: string, description: string): JsonRecord;
    user(text: string): JsonRecord;
    step(at: number, result: string): readonly JsonRecord[];
  }>
> = {
  chat: {
    path: "/chat/completions",
    shortest: { max_completion_tokens: 1 },
    forbidden: { tool_choice: "none" },
    body: (system, items) => ({
      model: "gpt-5.4",
      messages: [{ role: "system", content: system }, ...items],
    }),
    tool: (name, description) => ({
      type: "function",
      function: { name, description, parameters: { type: "object", properties: {} } },
    }),
    user: (content) => ({ role: "user", content }),
    step: (at, content) => [
      {
        role: "assistant",
        content: `Step ${at}.`,
        tool_calls: [{ id: `c${at}`, type: "function", function: { name: "tool0", arguments: "{}" } }],
      },
      { role: "tool", tool_call_id: `c${at}`, content },
    ],
  },
  responses: {
    path: "/responses",
    countPath: "/responses/input_tokens",
    shortest: { max_output_tokens: 16 },
    forbidden: { tool_choice: "none" },
    body: (instructions, input) => ({ model: "gpt-5.4", instructions, input, store: false }),
    tool: (name, description) => ({
      type: "function",
      ...{ name, description, parameters: { type: "object", properties: {} }, strict: false },
    }),
    user: (text) => ({ type: "message", role: "user", content: [{ type: "input_text", text }] }),
    step: (at, output) => [
      { type: "function_call", call_id: `c${at}`, name: "tool0", arguments: "{}" },
      { type: "function_call_output", call_id: `c${at}`, output },
    ],
  },
  messages: {
    path: "/messages?beta=true",
    countPath: "/messages/count_tokens?beta=true",
    shortest: { max_tokens: 1 },
    forbidden: { tool_choice: { type: "none" } },
    body(system, items) {
      const last = items.at(-1) as { readonly role: string; readonly content: readonly JsonRecord[] };
      const marked = { ...last, content: last.content.map((block) => ({ ...block, ...MARK })) };
      return {
        model: "claude-opus-5-5",
        max_tokens: 32_000,
        system: [
          { type: "text", text: "x-agent: 1" },
          ...system === "" ? [] : [{ type: "text", text: system, ...(system.length > 2_000 && MARK) }],
        ],
        messages: system.length > 2_000 ? [...items.slice(0, -1), marked] : items,
      };
    },
    tool: (name, description) => ({
      name,
      description,
      input_schema: { type: "object", properties: {} },
    }),
    user: (text) => ({ role: "user", content: [{ type: "text", text }] }),
    step: (at, content) => [
      {
        role: "assistant",
        content: [{ type: "text", text: `Step ${at}.` }, {
          type: "tool_use",
          id: `t${at}`,
          name: "tool0",
          input: {},
        }],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: `t${at}`, content }] },
    ],
  },
};

/** Returns a short session of an agent: a task, some read files, and additional requests. */
function trafficOf(
  { protocol, key, system, tools, context = 0, results = RESULTS, betweenTurns = {} }: Agent,
): Sent[] {
  const writer = WRITERS[protocol];
  const { path, countPath = path, shortest } = writer;
  const named: JsonRecord = key === "metadata"
    ? { metadata: { user_id: JSON.stringify({ device_id: "d", session_id: SESSION }) } }
    : key === "prompt_cache_key"
    ? { prompt_cache_key: SESSION }
    : {};
  const headers: Record<string, string> = {
    "user-agent": "agent/1.0",
    ...(key === "x-session-id" && { "x-session-id": SESSION }),
    ...(protocol === "messages" && { "anthropic-version": "2023-06-01" }),
  };
  const task = "Read the files of the folder and explain what they are for.";
  const TOOLS = 12;
  const definitions = Array.from(
    { length: TOOLS },
    (_, at) => writer.tool(`tool${at}`, prose(`tool ${at}`, tools / TOOLS)),
  );
  const sent: Sent[] = [];
  const send = (body: JsonRecord, to = path) =>
    void sent.push({ path: to, headers, body: { ...body, ...named } });
  let items = [writer.user(`${prose("context", context)} ${task}`)];
  const turn = () => ({ ...writer.body(prose("system", system), items), tools: definitions });
  const title = (text: string) =>
    writer.body(prose("Write a title.", 1_500), [writer.user(`<task>${text}</task>`)]);
  const others: Readonly<Record<BetweenTurns, () => void>> = {
    title: () => send(title(task)),
    quota: () => send({ ...writer.body("", [writer.user("quota")]), ...shortest }),
    "warm-up": () => send({ ...turn(), ...shortest }),
    count: () => send(turn(), countPath),
    topic: () => send(title(`Is this a new topic? ${task}`)),
    "title with tools": () => send({ ...title(task), tools: definitions, ...writer.forbidden }),
  };
  for (const [at, result] of [...results, undefined].entries()) {
    for (const kind of betweenTurns[at] ?? []) others[kind]();
    send(turn());
    if (result !== undefined) items = [...items, ...writer.step(at, prose(`result ${at}`, result))];
  }
  return sent;
}

for (const [name, agent] of Object.entries(AGENTS)) {
  const profiles = agent.protocol === "messages" ? ["anthropic-5m"] : ["openai", "deepseek"];
  Deno.test(`gateway: a short session costs what it costs directly, whatever its agent sends beside turns: ${name}`, async () => {
    for (const profile of profiles) await assertAsDirect(trafficOf(agent), profileNamed(profile));
  });
}

Deno.test({
  ...needs(RECORDINGS, "gateway: a recorded session that begins with a title costs what it costs directly"),
  async fn() {
    const recorded: readonly {
      readonly url: string;
      readonly headers: Record<string, string>;
      readonly body: JsonRecord;
    }[] = JSON.parse(await Deno.readTextFile(TITLE_FIRST!));
    const requests = recorded.map(({ url, ...rest }) => ({ ...rest, path: url.replace(/^\/v1/, "") }));
    await assertAsDirect(requests, profileNamed("anthropic-5m"));
  },
});

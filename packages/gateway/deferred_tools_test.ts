import { assert, assertEquals } from "@std/assert";
import type { CallReport } from "@tare/session/internal/report";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import type { JsonRecord } from "@tare/wire";
import { type Forwarded, gatewayed, post, UPSTREAM } from "./fixture_test.ts";

const MARK = { cache_control: { type: "ephemeral" } };
const MIN_TOKENS = 1_024;
const LOOK_BACK = 20;

interface SentRequest {
  readonly tools: readonly JsonRecord[];
  readonly system: readonly JsonRecord[];
  readonly messages: readonly { readonly role: string; readonly content: readonly JsonRecord[] }[];
}

/**
 * Returns a provider according to its documentation: deferred tools are not at the beginning of the prompt but where a
 * reference names them, and the cache contains prompts up to breakpoints, which look back 20 blocks.
 */
function provider() {
  const held = new Set<string>();
  const served: { readonly promptTokens: number; readonly cachedTokens: number }[] = [];
  const answer = ({ body }: Pick<Forwarded, "body">): Response => {
    const { tools, system, messages }: SentRequest = body;
    const bare = ({ cache_control: _, defer_loading: __, ...block }: JsonRecord) => JSON.stringify(block);
    const definitionsOf = (names: readonly unknown[]) =>
      names.map((name) => {
        const found = tools.find((tool) => tool.name === name);
        assert(found, `There is no tool ${name}.`);
        return bare(found);
      });
    const textOf = (block: JsonRecord): string => {
      const { type, text, name, input, content } = block;
      if (type === "text") return String(text);
      if (type === "tool_use") return `${name}\n${JSON.stringify(input)}`;
      const { tool_references: found = content } = (content ?? {}) as JsonRecord;
      if (typeof found === "string") return found;
      const names = (Array.isArray(found) ? found : []).map(({ tool_name }) => tool_name);
      return names.length === 0 ? bare(block) : definitionsOf(names).join("\n");
    };
    const pieces = [
      ...tools.filter((tool) => !tool.defer_loading).map((tool) => ({ block: tool, text: bare(tool) })),
      ...[...system, ...messages.flatMap(({ content }) => content)].map((block) => ({
        block,
        text: textOf(block),
      })),
    ];
    let [prefix, promptTokens] = ["", 0];
    const ends = pieces.map(({ block, text }) => {
      prefix += `\n${text}`;
      promptTokens += 4 + estimateTokens(text);
      return { prefix, tokens: promptTokens, isMarked: block.cache_control !== undefined };
    });
    const breakpoints = ends.flatMap(({ isMarked }, at) => isMarked ? [at] : []);
    const found = breakpoints.flatMap((at) => ends.slice(Math.max(0, at - LOOK_BACK), at + 1))
      .filter(({ prefix, tokens }) => tokens >= MIN_TOKENS && held.has(prefix));
    const cachedTokens = Math.max(0, ...found.map(({ tokens }) => tokens));
    for (const at of breakpoints) held.add(ends[at]!.prefix);
    const written = Math.max(0, (ends[breakpoints.at(-1) ?? -1]?.tokens ?? 0) - cachedTokens);
    served.push({ promptTokens, cachedTokens });
    return Response.json({
      type: "message",
      content: [{ type: "text", text: "On it." }],
      stop_reason: "end_turn",
      usage: {
        input_tokens: promptTokens - cachedTokens - written,
        cache_read_input_tokens: cachedTokens,
        cache_creation_input_tokens: written,
        output_tokens: 5,
      },
    });
  };
  return { answer, served };
}

const describe = (what: string) => `It ${what} as people ask for it, and says what became of that. `;
const tool = (name: string, more: object = {}): JsonRecord => ({
  name,
  description: describe(name).repeat(20),
  input_schema: { type: "object", properties: { query: { type: "string", description: describe("looks") } } },
  ...more,
});

const SERVER_TOOLS = [
  { type: "web_search_20250305", name: "web_search", max_uses: 5 },
  { type: "tool_search_tool_regex_20251119", name: "tool_search_tool_regex" },
];
const CORE = [...["Bash", "Read", "Edit", "ToolSearch"].map((name) => tool(name)), ...SERVER_TOOLS];
const DISCOVERIES = 30;
const LATER = Array.from(
  { length: DISCOVERIES },
  (_, at) => tool(`mcp__tracker__${at}`, { defer_loading: true }),
);

interface Way {
  readonly tools: (found: number) => readonly JsonRecord[];
  readonly find: (at: number) => SentRequest["messages"];
}

const messageOf = (role: string, ...content: JsonRecord[]): SentRequest["messages"][number] => ({
  role,
  content,
});
const text = (text: string) => ({ type: "text", text });
const reference = (at: number) => ({ type: "tool_reference", tool_name: LATER[at]!.name });
const use = (id: string, name: string, input: object) => ({ type: "tool_use", id, name, input });
const result = (id: string, content: unknown) => ({ type: "tool_result", tool_use_id: id, content });

const SEARCHED_BY_CLIENT: Way["find"] = (at) => [
  messageOf("assistant", use(`s${at}`, "ToolSearch", { query: `select:${LATER[at]!.name}` })),
  messageOf("user", result(`s${at}`, [reference(at)])),
];

const WAYS: Readonly<Record<string, Way>> = {
  "a client that lists them all": { tools: () => [...CORE, ...LATER], find: SEARCHED_BY_CLIENT },
  "a client that lists what was found, the newest first": {
    tools: (found) => [...LATER.slice(0, found).toReversed(), ...CORE],
    find: SEARCHED_BY_CLIENT,
  },
  "the provider itself": {
    tools: () => [...LATER, ...CORE],
    find: (at) => [
      messageOf(
        "assistant",
        {
          type: "server_tool_use",
          id: `s${at}`,
          name: "tool_search_tool_regex",
          input: { pattern: `${at}` },
        },
        {
          type: "tool_search_tool_result",
          tool_use_id: `s${at}`,
          content: { type: "tool_search_tool_search_result", tool_references: [reference(at)] },
        },
        use(`b${at}`, "Bash", { command: "ls" }),
      ),
      messageOf("user", result(`b${at}`, `${at}.ts`)),
    ],
  },
};

async function play({ tools, find }: Way) {
  const { answer, served } = provider();
  const { fetch, seen, sessions } = gatewayed(answer, {
    upstreams: { messages: { ...UPSTREAM, profile: profileNamed("anthropic-5m"), windowTokens: 200_000 } },
  });
  const system = [{ ...text("You help people with their work. ".repeat(400)), ...MARK }];
  const messages = [messageOf("user", text("Find out what is open."))];
  const predicted: number[] = [];
  const requests: JsonRecord[] = [];
  for (let at = 0; at <= DISCOVERIES; at++) {
    const { role, content } = messages.at(-1)!;
    const marked = messageOf(role, ...content.slice(0, -1), { ...content.at(-1), ...MARK });
    const body = {
      model: "claude",
      max_tokens: 10,
      system,
      tools: tools(at),
      messages: messages.with(-1, marked),
    };
    requests.push(body);
    const response = await fetch(post(body, { "anthropic-version": "2023-06-01" }, "/messages"));
    await response.text();
    predicted.push(Number(response.headers.get("x-tare-cached-predicted")));
    if (at === DISCOVERIES) break;
    messages.push(
      ...find(at),
      messageOf("assistant", use(`r${at}`, "Read", { path: `${at}.ts` })),
      messageOf("user", result(`r${at}`, `Line of file ${at}. `.repeat(20))),
    );
  }
  const { sessions: [only] } = (await sessions.list({ limit: 10 }))!;
  const calls: readonly CallReport[] = await (await sessions.open(only!.id))!.calls();
  return { served, predicted, calls, requests, sent: seen.map(({ body }) => body) };
}

for (const [name, way] of Object.entries(WAYS)) {
  Deno.test(`deferred tools: the predicted cache matches the served one, with tools found by ${name}`, async () => {
    const { served, predicted, calls, requests, sent } = await play(way);
    for (const [at, { cachedTokens }] of served.entries()) {
      // The provider reads the whole previous prompt from the cache.
      assertEquals(cachedTokens, served[at - 1]?.promptTokens ?? 0);
      const off = Math.abs(predicted[at]! - cachedTokens);
      assert(off <= 0.02 * cachedTokens, `call ${at}: ${predicted[at]} expected, ${cachedTokens} served`);
    }
    // A provider that counts a few tokens less seems to have lost them.
    const causes = calls.map(({ promptTokens, uncached }) =>
      uncached.filter(({ cause, tokens }) => cause !== "provider_lost" || tokens > 0.02 * promptTokens)
        .map(({ cause }) => cause)
    );
    assertEquals(causes, [["first_call"], ...Array.from({ length: DISCOVERIES }, () => ["new"])]);
    assertEquals(calls.flatMap(({ rewrites }) => rewrites), []);
    assertEquals(
      sent.map(({ tools, ...body }) => ({ ...body, tools: tools.slice(0, -1) })),
      requests,
    );
    assertEquals(new Set(sent.map(({ tools }) => tools.at(-1).name)), new Set(["recall"]));
  });
}

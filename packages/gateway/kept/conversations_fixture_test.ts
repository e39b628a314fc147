/**
 * Conversations in three protocols, and gateways that are closed and opened anew while they go on. Holds no tests.
 *
 * @module
 */
import { assertEquals } from "@std/assert";
import { type Gateway, gateway, type GatewayOptions, type Upstream } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import type { Store } from "@tare/store";
import { type JsonRecord, messageBody, messageEvents } from "@tare/wire";
import {
  chatStep,
  codexStep,
  execCommand,
  type Json,
  longResult,
  said,
  SUM_UP,
} from "../agents_fixture_test.ts";
import { call, chunk, completion, OPTIONS, post, READ, sse } from "../fixture_test.ts";
import { responsesUpstream } from "../responses_fixture_test.ts";

/** What a model says, which step it begins, or what it recalls. */
export type Reply =
  | { readonly text: string; readonly id: string }
  | { readonly step: string }
  | { readonly recalls: string };

/** How a client and a provider of a protocol speak. */
export interface Dialect {
  readonly name: string;
  readonly path: string;
  /** What a history begins with. */
  opening(task: string): readonly Json[];
  says(role: "user" | "assistant", text: string, id: string): Json;
  /** A call and its result. */
  step(name: string, output: string): readonly Json[];
  /** The body of a request. */
  body(history: readonly Json[], now: { readonly rules: string; readonly tools: boolean }): JsonRecord;
  /** What a provider answers. */
  answer(body: JsonRecord, reply: Reply, cachedTokens: number): Promise<Response>;
}

/** A request of a client. */
export interface Asked {
  readonly path: string;
  readonly body: JsonRecord;
  readonly headers?: Record<string, string>;
  readonly reply: Exclude<Reply, { readonly recalls: string }>;
  /** Whether the model recalls before that: the first that left of what it sees, or of all that ever left. */
  readonly recalls?: "seen" | "ever";
  /** Time since the request before, in milliseconds. */
  readonly pauseMs?: number;
}

const tokensOf = (body: JsonRecord) => Math.ceil(JSON.stringify(body).length / 4);

export const CHAT: Dialect = {
  name: "chat",
  path: "/chat/completions",
  opening: (task) => [{ role: "user", content: task }],
  says: (role, content) => ({ role, content }),
  step: chatStep,
  body: (history, { rules, tools }) => ({
    model: "gpt-5",
    messages: [{ role: "system", content: rules }, ...history],
    ...(tools && { tools: [READ] }),
  }),
  answer(body, reply, cached_tokens) {
    const prompt_tokens = tokensOf(body);
    const usage = {
      prompt_tokens,
      completion_tokens: 5,
      total_tokens: prompt_tokens + 5,
      prompt_tokens_details: { cached_tokens },
    };
    const calls = "recalls" in reply
      ? [call("recall", { ref: reply.recalls }, `r${reply.recalls}`)]
      : "step" in reply
      ? chatStep(reply.step, "")[0]!.tool_calls as object[]
      : [];
    const message = "text" in reply ? { content: reply.text } : { tool_calls: calls };
    if (!body.stream) {
      return completion(message).json().then((whole) => Response.json({ ...whole, usage }));
    }
    const tool_calls = calls.map((one, index) => ({ index, ...one }));
    const delta = "text" in reply ? message : { tool_calls };
    const end = { id: "c", object: "chat.completion.chunk", choices: [], usage };
    const reason = "text" in reply ? "stop" : "tool_calls";
    return Promise.resolve(sse(chunk(delta), chunk({}, reason), end, "[DONE]"));
  },
};

export const RESPONSES: Dialect = {
  name: "responses",
  path: "/responses",
  opening: (
    task,
  ) => [
    said("user", "<environment_context>/work</environment_context>", "msg_env"),
    said("user", task, "msg_task"),
  ],
  says: said,
  step: (name, output) => codexStep(name, output),
  body: (input, { rules, tools }) => ({
    model: "gpt-5",
    instructions: rules,
    input,
    ...(tools && { tools: [{ ...READ.function, type: "function", strict: false }] }),
    store: false,
  }),
  async answer(body, reply, cached_tokens) {
    const items = "text" in reply
      ? [{ ...said("assistant", reply.text, reply.id), status: "completed" }]
      : "step" in reply
      ? [codexStep(reply.step, "")[0]!, execCommand(reply.step)]
      : [{
        ...execCommand(reply.recalls),
        name: "recall",
        arguments: JSON.stringify({ ref: reply.recalls }),
      }];
    const { fetch } = responsesUpstream([() => items]);
    const answer = await fetch("http://provider.example", { method: "POST", body: JSON.stringify(body) });
    const text = (await answer.text()).replaceAll('"cached_tokens":0', `"cached_tokens":${cached_tokens}`)
      .replaceAll('"resp_1"', JSON.stringify(`resp_${tokensOf(body)}`));
    return new Response(text, { headers: answer.headers });
  },
};

const toolCall = (id: string, name: string, args: object) => ({
  id,
  type: "function" as const,
  function: { name, arguments: JSON.stringify(args) },
});
const MARK = { cache_control: { type: "ephemeral" } };

export const MESSAGES: Dialect = {
  name: "messages",
  path: "/messages",
  opening: (task) => [{ role: "user", content: [{ type: "text", text: task }] }],
  says: (role, text) => ({ role, content: [{ type: "text", text }] }),
  step: (name, output) => [
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: `I look at ${name}.`, signature: `sig-${name}` },
        { type: "tool_use", id: `toolu_${name}`, name: "read", input: { path: name } },
      ],
    },
    { role: "user", content: [{ type: "tool_result", tool_use_id: `toolu_${name}`, content: output }] },
  ],
  body(history, { rules, tools }) {
    const last = history.at(-1) as { role: string; content: readonly Json[] };
    const marked = { ...last, content: [...last.content.slice(0, -1), { ...last.content.at(-1), ...MARK }] };
    const { name, parameters } = READ.function;
    return {
      model: "claude-opus-5",
      max_tokens: 1000,
      system: [{ type: "text", text: rules, ...MARK }],
      messages: [...history.slice(0, -1), marked],
      ...(tools && { tools: [{ name, input_schema: parameters }] }),
    };
  },
  answer(body, reply, cachedTokens) {
    const promptTokens = tokensOf(body);
    const written = {
      id: `msg_${promptTokens}`,
      model: String(body.model),
      message: {
        role: "assistant" as const,
        content: "text" in reply ? reply.text : null,
        ...("step" in reply && {
          reasoning_content: `I look at ${reply.step}.`,
          signature: `sig-${reply.step}`,
        }),
        tool_calls: "text" in reply ? [] : [
          "step" in reply
            ? toolCall(`toolu_${reply.step}`, "read", { path: reply.step })
            : toolCall(`toolu_${reply.recalls}`, "recall", { ref: reply.recalls }),
        ],
      },
      finishReason: "text" in reply ? "stop" as const : "tool_calls" as const,
      usage: {
        promptTokens,
        cachedTokens,
        cacheWriteTokens: promptTokens - cachedTokens,
        hourWriteTokens: 0,
        outputTokens: 5,
      },
    };
    if (!body.stream) return Promise.resolve(Response.json(messageBody(written)));
    const events = messageEvents(written).map((event) =>
      `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`
    );
    return Promise.resolve(
      new Response(events.join(""), { headers: { "content-type": "text/event-stream" } }),
    );
  },
};

export const DIALECTS: readonly Dialect[] = [CHAT, RESPONSES, MESSAGES];

const upstreamFor = (name: string, profile: string): Upstream => ({
  baseURL: `http://${name}.example/v1`,
  profile: profileNamed(profile as "openai"),
  windowTokens: 100_000,
});

/** What a conversation came to: every body that the provider was sent, and every body that its client got. */
export interface Played {
  readonly sent: readonly string[];
  readonly got: readonly string[];
}

/** Plays requests one after the other. `open` gives the gateway for each, which it may open anew. */
export async function play(
  asked: readonly Asked[],
  dialect: Dialect,
  open: (
    at: number,
    options: GatewayOptions,
  ) => Gateway | Promise<Gateway>,
  more: Partial<GatewayOptions> = {},
): Promise<Played> {
  const sent: string[] = [];
  const got: string[] = [];
  let nowMs = 1_000_000;
  let next: Asked | undefined;
  let recalls: Asked["recalls"];
  let ever: string | undefined;
  let before = "";
  const fetch = async (...args: Parameters<typeof globalThis.fetch>) => {
    const text = await new Request(...args).text();
    sent.push(text);
    let shared = 0;
    while (shared < text.length && text[shared] === before[shared]) shared++;
    before = text;
    const [, ref] = /\bref ([0-9a-f]{16})\]/.exec(text) ?? [];
    ever ??= ref;
    const wanted = recalls === "ever" ? ever : recalls && ref;
    const reply = wanted === undefined ? next!.reply : { recalls: wanted };
    recalls = undefined;
    return await dialect.answer(JSON.parse(text), reply, Math.floor(shared / 4));
  };
  const options: GatewayOptions = {
    ...OPTIONS,
    upstreams: {
      chat: upstreamFor("chat", "openai"),
      responses: upstreamFor("responses", "openai"),
      messages: upstreamFor("messages", "anthropic-5m"),
    },
    now: () => nowMs,
    fetch: fetch as typeof globalThis.fetch,
    onError: (error) => {
      throw error;
    },
    ...more,
  };
  for (const [at, one] of asked.entries()) {
    const opened = await open(at, options);
    nowMs += one.pauseMs ?? 10_000;
    next = one;
    recalls = one.recalls;
    const response = await opened.fetch(post(one.body, { ...one.headers }, one.path));
    got.push(await response!.text());
  }
  return { sent, got };
}

/** Rules of which a line changes with each request. */
export function rulesAt(at: number): string {
  const rules = Array.from(
    { length: 40 },
    (_, line) => `Rule ${line}: keep what people said, whatever it is.`,
  );
  return [...rules, `Status of the repository: ${at}.`].join("\n");
}

/** A request of a turn: its history, and what the model replies. */
export type Step = { readonly history: readonly Json[] } & Pick<Asked, "reply">;

/** A task and its steps, request by request, as the client sends them, and the history then. */
export function turn(
  dialect: Dialect,
  history: readonly Json[],
  names: readonly string[],
): { readonly steps: readonly Step[]; readonly after: readonly Json[] } {
  const steps: Step[] = [];
  let now = history;
  for (const name of names) {
    steps.push({ history: now, reply: { step: name } });
    now = [...now, ...dialect.step(name, longResult(name))];
  }
  const reply = { text: `Done with ${names.join()}.`, id: `msg_${names[0]}` };
  return {
    steps: [...steps, { history: now, reply }],
    after: [...now, dialect.says("assistant", reply.text, reply.id)],
  };
}

/** How a client asks. */
export interface Manner {
  readonly name: string;
  readonly stream: boolean;
  /** Whether a line of the rules is another one each time. */
  readonly changes?: boolean;
  /** Fields of the body, and headers, by which it names what it asks about. */
  readonly fields?: Readonly<Record<string, unknown>>;
  readonly headers?: Record<string, string>;
}

export const MANNERS: readonly Manner[] = [
  { name: "streamed", stream: true },
  { name: "whole, with rules that change", stream: false, changes: true },
  { name: "streamed, by name", stream: true, headers: { "x-tare-session": "mine" } },
  {
    name: "streamed, under a key, with rules that change",
    stream: true,
    changes: true,
    fields: { prompt_cache_key: "k", metadata: { user_id: "k" } },
  },
];

const names = (of: string, count: number) => Array.from({ length: count }, (_, at) => `${of}${at}.ts`);

/** What may happen to a conversation: turns, recalls, a fork, a way back, a summary. */
export function conversation(
  dialect: Dialect,
  { stream, changes = false, fields, headers = {} }: Manner,
): Asked[] {
  const asked: Asked[] = [];
  const ask = (
    { history, reply }: Step,
    { tools = true, ...more }: Partial<Asked> & { readonly tools?: boolean } = {},
  ) => {
    const body = dialect.body(history, { rules: rulesAt(changes ? asked.length : 0), tools });
    asked.push({ path: dialect.path, body: { ...body, stream, ...fields }, reply, headers, ...more });
  };
  const says = (text: string) => dialect.says("user", text, `msg_${text}`);
  const first = turn(
    dialect,
    dialect.opening("Find the constants in all files of the folder."),
    names("a", 8),
  );
  for (const step of first.steps) ask(step);
  const second = turn(dialect, [...first.after, says("Now sum them up.")], names("b", 6));
  for (const [at, step] of second.steps.entries()) ask(step, at === 2 || at === 6 ? { recalls: "seen" } : {});
  // Another way from the end of the first turn, then from the middle of it.
  const other = turn(dialect, [...first.after, says("Do something else with them.")], names("c", 3));
  for (const step of other.steps) ask(step, { recalls: "seen" });
  const stopped = says("Stop, and begin anew from here.");
  ask({ history: [...first.steps[3]!.history, stopped], reply: { text: "Well.", id: "msg_w" } });
  // On with the one before, after a while.
  const third = turn(dialect, [...second.after, says("Now write them down.")], names("d", 3));
  for (const [at, step] of third.steps.entries()) ask(step, { pauseMs: at === 0 ? 3_600_000 : 5_000 });
  // The same again, and one that is shorter.
  ask(third.steps.at(-1)!);
  ask(third.steps.at(-2)!, { recalls: "seen" });
  ask(third.steps.at(-1)!);
  // Its client has it summed up, and goes on from the summary; what left before can still be recalled.
  const summary = "This is what was said before: " + "a summary of the conversation so far. ".repeat(3);
  const summing = { history: [...third.after, says(SUM_UP)], reply: { text: summary, id: "msg_summary" } };
  ask(summing, { tools: false });
  const fourth = turn(dialect, [says(`What was: ${summary}`), says("Go on.")], names("e", 4));
  for (const step of fourth.steps) ask(step, { recalls: "ever" });
  return asked;
}

/** Plays a conversation with one gateway that keeps nothing. */
export function whole(asked: readonly Asked[], dialect: Dialect): Promise<Played> {
  let one: Gateway | undefined;
  return play(asked, dialect, (_, options) => one ??= gateway(options));
}

/** Plays it with gateways on one store. `gatewayAt` says which of them is asked, and whether it was opened anew. */
export async function played(
  asked: readonly Asked[],
  dialect: Dialect,
  { store, gatewayAt }: {
    readonly store: (at: number) => Promise<Store> | Store;
    readonly gatewayAt: (at: number) => { readonly which?: number; readonly isAnew?: boolean };
  },
): Promise<Played> {
  const open = new Map<number, Gateway>();
  const all = await play(asked, dialect, async (at, options: GatewayOptions) => {
    const { which = 0, isAnew = false } = gatewayAt(at);
    const { conversations } = await store(at);
    const opened = isAnew ? undefined : open.get(which);
    const now = opened ?? gateway({ ...options, conversations });
    open.set(which, now);
    return now;
  });
  await Promise.all(Array.from(open.values(), (one) => one.close()));
  return all;
}

export function assertSame(actual: Played, expected: Played): void {
  for (const [at, text] of expected.sent.entries()) assertEquals(actual.sent[at], text, `call ${at}`);
  assertEquals([actual.sent.length, actual.got], [expected.sent.length, expected.got]);
}

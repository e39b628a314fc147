import { assert, assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import type { CallReport } from "@tare/session/internal/report";
import { gateway, type HttpGateway } from "@tare/gateway";
import { profileNamed } from "@tare/planner";
import type { JsonRecord } from "@tare/wire";
import fc, { cases } from "../cases.ts";
import { type Json, SUMMARIZE } from "../../packages/gateway/agents_fixture_test.ts";
import { OPTIONS, post, UPSTREAM } from "../../packages/gateway/fixture_test.ts";
import {
  conversation,
  type Manner,
  MANNERS,
  type SentRequest,
} from "../../packages/gateway/sessions/conversations_fixture_test.ts";
import { type Dialect, DIALECTS, type Reply } from "../../packages/gateway/sessions/dialects_fixture_test.ts";

const TITLE_RULES = "You are a title generator. You output ONLY a thread title, in at most 50 characters.";
const TITLE = "Four constants of the folder";
const SET_TITLE = {
  name: "set_title",
  schema: { type: "object", properties: { title: { type: "string" } } },
};

interface Fields {
  readonly list: string;
  readonly shortest: JsonRecord;
  readonly forbidden: JsonRecord;
  readonly forced: JsonRecord;
  readonly countPath?: string;
}

const FIELDS: Readonly<Record<string, Fields>> = {
  chat: {
    list: "messages",
    shortest: { max_completion_tokens: 1 },
    forbidden: { tool_choice: "none" },
    forced: {
      tools: [{ type: "function", function: { name: SET_TITLE.name, parameters: SET_TITLE.schema } }],
      tool_choice: { type: "function", function: { name: SET_TITLE.name } },
    },
  },
  responses: {
    list: "input",
    shortest: { max_output_tokens: 16 },
    forbidden: { tool_choice: "none" },
    forced: {
      tools: [{ type: "function", name: SET_TITLE.name, parameters: SET_TITLE.schema, strict: false }],
      tool_choice: { type: "function", name: SET_TITLE.name },
    },
    countPath: "/responses/input_tokens",
  },
  messages: {
    list: "messages",
    shortest: { max_tokens: 1 },
    forbidden: { tool_choice: { type: "none" } },
    forced: {
      tools: [{ name: SET_TITLE.name, input_schema: SET_TITLE.schema }],
      tool_choice: { type: "tool", name: SET_TITLE.name },
    },
    countPath: "/messages/count_tokens",
  },
};

type Sent = Pick<SentRequest, "path" | "body"> & { readonly reply: Reply };

const assistantReply = (text: string): Reply => ({ text, id: "msg_beside" });

/** Requests that are no turns, made from the turn's request next to which they are sent. */
const KINDS: Readonly<Record<string, (turn: SentRequest, dialect: Dialect, fields: Fields) => Sent>> = {
  title: ({ path }, dialect) => {
    const history = [
      dialect.message("user", "Write a title for: Find the constants in all files.", "msg_title"),
    ];
    return {
      path,
      body: dialect.body(history, { rules: TITLE_RULES, tools: false }),
      reply: assistantReply(TITLE),
    };
  },
  "title of the history": ({ path, body }, dialect, { list }) => {
    const history = dialect.name === "chat" ? listOf(body, list).slice(1) : listOf(body, list);
    const request = [
      ...history,
      dialect.message("user", "Write a title for this conversation.", "msg_title"),
    ];
    return {
      path,
      body: dialect.body(request, { rules: TITLE_RULES, tools: false }),
      reply: assistantReply(TITLE),
    };
  },
  "title by a forced tool": ({ path }, dialect, { forced }) => {
    const history = [
      dialect.message("user", "Write a title for: Find the constants in all files.", "msg_title"),
    ];
    const body = { ...dialect.body(history, { rules: TITLE_RULES, tools: false }), ...forced };
    return { path, body, reply: { step: "title.ts" } };
  },
  "topic with the tools, which it may not call": ({ path, body }, dialect, { list, forbidden }) => {
    const topic = dialect.message("user", "Is this a new topic? Reply with yes or no.", "msg_topic");
    return {
      path,
      body: { ...body, [list]: [...listOf(body, list), topic], ...forbidden },
      reply: assistantReply("No"),
    };
  },
  "quota probe": ({ path }, dialect, { shortest }) => {
    const history = [dialect.message("user", "quota", "msg_quota")];
    const body = { ...dialect.body(history, { rules: "", tools: false }), ...shortest };
    return { path, body, reply: assistantReply("I") };
  },
  "warm-up": ({ path, body }, _, { shortest }) => ({
    path,
    body: { ...body, ...shortest },
    reply: assistantReply("I"),
  }),
  "token count": ({ path, body }, _, { countPath = path, shortest }) => ({
    path: countPath,
    body: countPath === path ? { ...body, ...shortest } : body,
    reply: assistantReply("I"),
  }),
  "summary that is not continued": ({ path, body }, dialect, { list }) => {
    const history = [...listOf(body, list), dialect.message("user", SUMMARIZE, "msg_sum")];
    const { tools: _, ...rest } = body;
    return {
      path,
      body: { ...rest, [list]: history },
      reply: assistantReply(
        "Side summary: the folder was looked through, file by file, and none of it was written yet.",
      ),
    };
  },
};

/** Kinds whose prompts begin as those of turns. */
const ALIKE = Object.keys(KINDS).filter((kind) => /history|topic|warm-up|count|summary/.test(kind));

function assertSameText(actual = "", expected: string, message: string): void {
  if (actual === expected) return;
  const at = Array.from(expected).findIndex((character, at) => character !== actual[at]);
  const near = (text: string) => text.slice(Math.max(0, at - 200), at + 200);
  assertEquals(near(actual), near(expected), message);
}

function listOf(body: JsonRecord, name: string): readonly Json[] {
  return body[name] as readonly Json[];
}

interface BetweenTurns {
  readonly kind: string;
  readonly at: number;
  /** Before that request, during its answer, or before it with a later answer. */
  readonly when: "before" | "during" | "across";
  /** Its session id: the turns', none, or another one. */
  readonly id: "same" | "none" | "other";
}

interface Outcome {
  readonly sent: readonly string[];
  readonly sessions: readonly number[];
  readonly calls: readonly Omit<CallReport, "number">[];
}

const START_MS = 1_000_000;
const TTL_MS = 300_000;

class BlockCache {
  readonly #blocks = new Map<string, { readonly id: number; usedMs: number }>();

  /** Returns the characters that are read from the cache; `store` caches the whole text. */
  serve(text: string, nowMs: number): { readonly chars: number; readonly store: () => void } {
    let [before, chars] = [0, 0];
    for (; chars + BLOCK_CHARS <= text.length; chars += BLOCK_CHARS) {
      const known = this.#blocks.get(`${before} ${text.slice(chars, chars + BLOCK_CHARS)}`);
      if (!known || nowMs - known.usedMs > TTL_MS) break;
      before = known.id;
    }
    const store = () => {
      let before = 0;
      for (let at = 0; at + BLOCK_CHARS <= text.length; at += BLOCK_CHARS) {
        const key = `${before} ${text.slice(at, at + BLOCK_CHARS)}`;
        const { id } = this.#blocks.get(key) ?? { id: this.#blocks.size + 1 };
        this.#blocks.set(key, { id, usedMs: nowMs });
        before = id;
      }
    };
    return { chars: chars < 4 * MIN_TOKENS ? 0 : chars, store };
  }
}

const BLOCK_CHARS = 256;
/** Between the first prompts and all others. */
const MIN_TOKENS = 2_048;

async function outcome(
  turns: readonly SentRequest[],
  { dialect, manner, besides = [], restarts = [] }: {
    readonly dialect: Dialect;
    readonly manner: Manner;
    readonly besides?: readonly BetweenTurns[];
    readonly restarts?: readonly number[];
  },
): Promise<Outcome> {
  let nowMs = START_MS;
  const store = memoryStore({ now: () => nowMs });
  const sent: string[] = [];
  const underWay = new Map<string, UnderWay>();
  const cache = new BlockCache();
  let ever: string | undefined;
  const upstream = async (...args: Parameters<typeof fetch>): Promise<Response> => {
    const request = new Request(...args);
    const text = await request.text();
    const one = underWay.get(request.headers.get("x-number") ?? "")!;
    const { chars, store } = cache.serve(text, nowMs);
    if (one.isTurn) sent.push(text);
    const [, ref] = /\bref ([0-9a-f]{16})\]/.exec(text) ?? [];
    if (one.isTurn) ever ??= ref;
    const wanted = one.recalls === "ever" ? ever : one.recalls && ref;
    one.recalls = undefined;
    one.arrived.resolve();
    await one.mayAnswer.promise;
    const reply = wanted === undefined ? one.reply : { recalls: wanted };
    if (!one.isElsewhere) store();
    return await dialect.answer(JSON.parse(text), reply, Math.floor(chars / 4));
  };
  const { name } = dialect;
  const profile = {
    ...profileNamed(name === "messages" ? "anthropic-5m" : "openai"),
    minTokens: MIN_TOKENS,
  };
  const failures: string[] = [];
  const open = () =>
    gateway({
      ...OPTIONS,
      upstreams: { [name]: { ...UPSTREAM, baseURL: `http://${name}.example/v1`, profile } },
      fetch: upstream as typeof fetch,
      now: () => nowMs,
      store,
      onError(error) {
        const { message } = error as Error;
        // Warnings about the provider's numbers are no failures.
        if (message.startsWith("Cannot ")) failures.push(message);
      },
    });
  let opened: HttpGateway = open();
  const send = (number: string, { path, body }: Pick<SentRequest, "path" | "body">, headers = {}) =>
    opened.fetch(post(body, { ...headers, "x-number": number }, path))!;
  const begin = async ({ kind, id, at }: BetweenTurns, number: string) => {
    const request = KINDS[kind]!(turns[at]!, dialect, FIELDS[name]!);
    const others = id === "other" ? { "x-session-id": "ses_other" } : {};
    const { prompt_cache_key: _, metadata: __, ...anonymous } = request.body;
    const body = id === "same" ? { ...request.body, ...manner.fields } : anonymous;
    // A request that begins like a turn would add to the turn's cache.
    const one = waiting({ reply: request.reply, isElsewhere: ALIKE.includes(kind) });
    underWay.set(number, one);
    const answered = send(number, { path: request.path, body }, id === "same" ? manner.headers : others)
      .then((response) => response.text());
    // A refused request never arrives.
    await Promise.race([one.arrived.promise, answered]);
    return async () => {
      one.mayAnswer.resolve();
      await answered;
    };
  };
  const ids: string[] = [];
  const sessions: number[] = [];
  const times = new Set<number>();
  for (const [at, turn] of turns.entries()) {
    if (restarts.includes(at)) {
      await opened.close();
      opened = open();
    }
    const here = besides.map((beside, index) => ({ ...beside, number: `beside ${index}` }))
      .filter((beside) => beside.at === at);
    nowMs += (turn.pauseMs ?? 10_000) - 1;
    const atMs = nowMs + 1;
    for (const beside of here.filter(({ when }) => when === "before")) {
      await (await begin(beside, beside.number))();
    }
    const later: (() => Promise<void>)[] = [];
    for (const beside of here.filter(({ when }) => when === "across")) {
      later.push(await begin(beside, beside.number));
    }
    nowMs = atMs;
    times.add(nowMs);
    const one = waiting({ isTurn: true, reply: turn.reply, recalls: turn.recalls });
    underWay.set(`turn ${at}`, one);
    const answered = send(`turn ${at}`, turn, turn.headers);
    await one.arrived.promise;
    nowMs += 1;
    for (const beside of here.filter(({ when }) => when === "during")) {
      await (await begin(beside, beside.number))();
    }
    nowMs = atMs;
    one.mayAnswer.resolve();
    const response = await answered;
    await response.text();
    const id = response.headers.get("x-tare-session")!;
    if (!ids.includes(id)) ids.push(id);
    sessions.push(ids.indexOf(id));
    nowMs += 2;
    for (const answer of later) await answer();
    nowMs = atMs;
  }
  const calls: CallReport[] = [];
  for (const id of ids) calls.push(...await (await opened.sessions.open(id))!.calls());
  await opened.close();
  assertEquals(failures, []);
  return {
    sent,
    sessions,
    calls: calls.filter(({ at, purpose }) => purpose === "turn" && times.has(Date.parse(at ?? "")))
      .map(({ number: _, ...call }) => call),
  };
}

interface UnderWay {
  readonly reply: Reply;
  readonly isTurn?: boolean;
  readonly isElsewhere?: boolean;
  recalls?: SentRequest["recalls"];
  readonly arrived: PromiseWithResolvers<void>;
  readonly mayAnswer: PromiseWithResolvers<void>;
}

function waiting(one: Pick<UnderWay, "reply" | "isTurn" | "isElsewhere" | "recalls">): UnderWay {
  return { ...one, arrived: Promise.withResolvers(), mayAnswer: Promise.withResolvers() };
}

/**
 * Returns a request that adds nothing of the next turn's prompt to the cache, which would change costs and rewrites.
 */
const cold = (beside: BetweenTurns): BetweenTurns => {
  if (!ALIKE.includes(beside.kind)) return beside;
  return { ...beside, id: "same", when: beside.at > 0 && beside.when === "before" ? "during" : beside.when };
};

const besidesOf = (turns: number) =>
  fc.array(
    fc.record({
      kind: fc.constantFrom(...Object.keys(KINDS)),
      // Half of them precede the first turn.
      at: fc.oneof(fc.constant(0), fc.nat(turns - 1)),
      when: fc.constantFrom("before" as const, "during" as const, "across" as const),
      id: fc.constantFrom("same" as const, "none" as const, "other" as const),
    }).map(cold),
    { minLength: 1, maxLength: 12 },
  );

for (const dialect of DIALECTS) {
  Deno.test(`gateway: requests that are not turns change neither bytes nor totals of turns: ${dialect.name}`, async () => {
    const known = new Map<Manner, Promise<Outcome>>();
    const { length } = conversation(dialect, MANNERS[0]!);
    const interleavings = fc.record({
      manner: fc.constantFrom(...MANNERS),
      besides: besidesOf(length),
      restarts: fc.oneof(fc.constant([]), fc.array(fc.nat(length - 1), { maxLength: 6 })),
    });
    await fc.assert(
      fc.asyncProperty(interleavings, async ({ manner, besides, restarts }) => {
        const turns = conversation(dialect, manner);
        const isPlain = restarts.length === 0;
        // A restart loses the reasons of cache misses.
        const expected = isPlain && known.get(manner) || outcome(turns, { dialect, manner, restarts });
        if (isPlain) known.set(manner, expected);
        const { sent, sessions, calls } = await expected;
        assert(sent.join().includes("[elided: "));
        const actual = await outcome(turns, { dialect, manner, besides, restarts });
        for (const [at, text] of sent.entries()) assertSameText(actual.sent[at], text, `call ${at}`);
        assertEquals([actual.sent.length, actual.sessions], [sent.length, sessions]);
        assertEquals(actual.calls, calls);
      }),
      { numRuns: cases(4), endOnFailure: true },
    );
  });
}

import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { CacheKeepAlive } from "@tare/session";
import { gateway, type GatewayOptions, type HttpGateway } from "@tare/gateway";
import { listPrice, profileNamed } from "@tare/planner";
import { promptCost } from "@tare/planner/internal/parts";
import { type SimulatedReply, simulator } from "@tare/simulator";

const PROFILE = profileNamed("anthropic-5m");
const MODEL = "claude-opus-4-8";
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const PREFIX = "a b c d ".repeat(6_000);
const KEY = { "x-api-key": "sk" };
const MARK = { cache_control: { type: "ephemeral" } };

type TalkOptions =
  & Partial<GatewayOptions>
  & Pick<Partial<ConstructorParameters<typeof CacheKeepAlive>[0]>, "budgetUsdPerDay">;

/** A user's conversation through a gateway. */
class Talk {
  nowMs = 0;
  readonly gateway: HttpGateway;
  readonly keepAlive: CacheKeepAlive;
  /** Pending timers and their due times. */
  readonly timers = new Map<() => void, number>();
  readonly keepAliveRequests: { readonly atMs: number; readonly body: string; readonly headers: Headers }[] =
    [];
  /** Headers of all responses of the provider. */
  limits: Record<string, string> = {};
  readonly #messages: object[] = [];
  readonly provider: ReturnType<typeof simulator>;

  constructor(
    { budgetUsdPerDay = 0, onError = () => {}, ...options }: TalkOptions = {},
    { reply = () => ({ content: "So it is." }), answer }: {
      readonly reply?: (nowMs: number) => SimulatedReply;
      /** Returns the response to a keep-alive request. Default: the simulator's. */
      readonly answer?: (request: Request) => Promise<Response>;
    } = {},
  ) {
    const now = () => this.nowMs;
    this.provider = simulator({
      model: () => reply(this.nowMs),
      profile: PROFILE,
      tokenizer: { encode: (text) => text.split(" ").map(({ length }) => length) },
      now,
    });
    this.keepAlive = new CacheKeepAlive({
      ...{ now, budgetUsdPerDay, onError },
      after: (ms, callback) => {
        this.timers.set(callback, this.nowMs + ms);
        return () => this.timers.delete(callback);
      },
    });
    this.gateway = gateway({
      upstreams: { messages: { baseURL: "http://upstream.example/v1", profile: PROFILE } },
      countTokens: () => Promise.resolve((text: string) => text.split(" ").length),
      planning: { evict: "lossless" },
      now,
      keepAlive: this.keepAlive,
      fetch: async (...args) => {
        const request = new Request(...args);
        const body = await request.clone().text();
        const isKeepAlive = JSON.parse(body).max_tokens === 0;
        if (isKeepAlive) this.keepAliveRequests.push({ atMs: this.nowMs, body, headers: request.headers });
        const response = isKeepAlive && answer ? await answer(request) : await this.provider.fetch(request);
        for (const [name, value] of Object.entries(this.limits)) response.headers.set(name, value);
        return response;
      },
      ...options,
    });
  }

  async say(text: string, headers: Record<string, string> = KEY, more: object = {}): Promise<void> {
    const content = { role: "user", content: [{ type: "text", text, ...MARK }] };
    const body = {
      ...{ model: MODEL, max_tokens: 2_000, stream: true },
      system: [{ type: "text", text: PREFIX, ...MARK }],
      messages: [...this.#messages, content],
      ...more,
    };
    const response = await this.gateway.fetch(
      new Request("http://gateway/v1/messages", {
        method: "POST",
        headers: { "content-type": "application/json", "anthropic-version": "2023-06-01", ...headers },
        body: JSON.stringify(body),
      }),
    )!;
    assertEquals(response.status, 200);
    await response.text();
    this.#messages.push({ role: "user", content: [{ type: "text", text }] });
    this.#messages.push({ role: "assistant", content: "So it is." });
  }

  async turns(count: number, headers?: Record<string, string>): Promise<void> {
    for (let turn = 0; turn < count; turn++) {
      if (turn > 0) this.nowMs += MINUTE;
      await this.say(`And number ${this.#messages.length / 2}?`, headers);
    }
  }

  /** Runs timers that become due, and waits for their work. */
  async pause(ms: number): Promise<void> {
    const endMs = this.nowMs + ms;
    for (;;) {
      const [next] = [...this.timers].sort(([, a], [, b]) => a - b);
      if (!next || next[1] > endMs) break;
      const [callback, atMs] = next;
      this.timers.delete(callback);
      this.nowMs = atMs;
      callback();
      while (this.keepAlive.waiting > this.timers.size) await new Promise((resolve) => setTimeout(resolve));
    }
    this.nowMs = endMs;
  }

  async booked(): Promise<number> {
    return (await this.gateway.sessions.overview()).all.keepAliveRequests;
  }

  /** The provider's bill in cost units. */
  get bill(): number {
    return this.provider.requests.reduce(
      (sum, { hourWriteTokens = 0, cacheWriteTokens = 0, ...request }) =>
        sum + promptCost(PROFILE, { ...request, cacheWriteTokens, hourWriteTokens }),
      0,
    );
  }

  get served(): number {
    return this.provider.requests.at(-1)!.cachedTokens;
  }
}

async function claimed({ gateway }: Talk): Promise<number> {
  const { all } = await gateway.sessions.overview();
  return all.baselineCostUnits - all.costUnits;
}

/** Returns a conversation that is continued after a pause. */
async function away(ms: number, ...options: ConstructorParameters<typeof Talk>): Promise<Talk> {
  const talk = new Talk(...options);
  await talk.turns(60);
  await talk.pause(ms);
  await talk.say("I am back.");
  await talk.gateway.close();
  return talk;
}

Deno.test("cache keep-alive: an idle user's prompt stays cached within the budget, and the estimated saving matches the bill", async () => {
  const cold = await away(20 * MINUTE, {});
  const warm = await away(20 * MINUTE, { budgetUsdPerDay: 1 });
  assertEquals([cold.keepAliveRequests.length, cold.timers.size, warm.timers.size], [0, 0, 0]);
  assertEquals(warm.keepAliveRequests.map(({ atMs }) => atMs), [59 * MINUTE + 280 * SECOND]);
  const [ping] = warm.keepAliveRequests;
  assertEquals(JSON.parse(ping!.body).messages.slice(-2), [
    {
      role: "assistant",
      content: [{ type: "text", text: "So it is.", cache_control: { type: "ephemeral", ttl: "1h" } }],
    },
    { role: "user", content: "." },
  ]);
  assertEquals([cold.served, warm.served > 24_000], [0, true]);
  const { all } = await warm.gateway.sessions.overview();
  assertEquals([all.keepAliveRequests, all.keepAliveCreditCostUnits > 25_000], [1, true]);
  assertAlmostEquals(all.costUnits, warm.bill, 1e-6);
  // Only tokens that the provider adds around a reply are not claimed.
  const [claim, less] = [await claimed(warm), cold.bill - warm.bill];
  assert(claim <= less && claim > less - 5, `${claim} ${less}`);
  assertEquals(await claimed(cold), 0);
  const { input } = listPrice(MODEL)!;
  assertAlmostEquals(all.keepAliveUsd, all.keepAliveCostUnits * input / 1e6, 1e-9);
});

Deno.test("cache keep-alive: the original request is repeated where a reply can't be continued, as long as it pays", async () => {
  const cut = { reply: () => ({ content: "So it is.", finish_reason: "length" as const }) };
  const cold = await away(16 * MINUTE, {}, cut);
  const warm = await away(16 * MINUTE, { budgetUsdPerDay: 1 }, cut);
  const first = 59 * MINUTE + 280 * SECOND;
  assertEquals(
    warm.keepAliveRequests.map(({ atMs }) => atMs),
    [0, 280, 560].map((more) => first + more * SECOND),
  );
  assertEquals(new Set(warm.keepAliveRequests.map(({ body }) => body)).size, 1);
  const { max_tokens, stream, messages } = JSON.parse(warm.keepAliveRequests[0]!.body);
  assertEquals([max_tokens, stream, messages.length], [0, false, 119]);
  assertEquals([cold.served, warm.served > 24_000], [0, true]);
  assertAlmostEquals(await claimed(warm), cold.bill - warm.bill, 1e-6);
});

Deno.test("cache keep-alive: no requests without a budget, or for deleted and ended conversations", async () => {
  const budget = { budgetUsdPerDay: 1 };
  const upstream = { baseURL: "http://upstream.example/v1", profile: PROFILE };
  const signedIn = { authorization: "Bearer t", "anthropic-beta": "claude-code-1,oauth-2025-04-20" };
  // A cached prompt that can still be requested is kept until its cache expires.
  type Case = [canRequest: boolean, options: TalkOptions, headers?: Record<string, string>];
  const cases: Record<string, Case> = {
    "no budget": [true, {}],
    "a budget of less than a ping": [true, { budgetUsdPerDay: 0.01 }],
    "no price": [true, { ...budget, upstreams: { messages: { ...upstream, price: () => undefined } } }],
    "a subscription": [true, budget, signedIn],
    "left as it is": [false, { ...budget, holdout: 1 }],
    "observed": [false, budget, { ...KEY, "x-tare": "dry-run" }],
  };
  for (const [name, [canRequest, options, headers]] of Object.entries(cases)) {
    const talk = new Talk(options);
    await talk.turns(60, headers);
    assertEquals([name, talk.timers.size], [name, canRequest ? 1 : 0]);
    await talk.pause(20 * MINUTE);
    assertEquals([name, talk.timers.size, talk.keepAliveRequests.length], [name, 0, 0]);
    await talk.gateway.close();
  }

  const talk = new Talk(budget);
  await talk.turns(60);
  assertEquals(talk.timers.size, 1);
  await talk.pause(4 * MINUTE);
  await talk.turns(1);
  assertEquals([talk.timers.size, talk.keepAliveRequests.length], [1, 0]);
  talk.limits = { "anthropic-ratelimit-requests-remaining": "0" };
  await talk.turns(1);
  assertEquals(talk.timers.size, 0);
  talk.limits = { "anthropic-ratelimit-requests-remaining": "7" };
  await talk.say("Think.", KEY, { thinking: { type: "enabled", budget_tokens: 1_024 } });
  assertEquals(talk.timers.size, 0);
  await talk.turns(1);
  assertEquals(talk.timers.size, 1);
  const { sessions } = (await talk.gateway.sessions.list({ limit: 2 }))!;
  assertEquals(sessions.length, 1);
  await (await talk.gateway.sessions.open(sessions[0]!.id))!.delete();
  assertEquals(talk.timers.size, 0);
  await talk.turns(60);
  assertEquals(talk.timers.size, 1);
  await talk.gateway.close();
  assertEquals([talk.timers.size, talk.keepAliveRequests.length], [0, 0]);
});

Deno.test("cache keep-alive: a conversation kept on request stays cached without a budget, at the reported maximum cost", async () => {
  for (const headers of [KEY, { authorization: "Bearer t", "anthropic-beta": "oauth-2025-04-20" }]) {
    const talk = new Talk();
    await talk.turns(60, headers);
    const { sessions: [only] } = (await talk.gateway.sessions.list({ limit: 1 }))!;
    const keepAliveFor = async () => (await talk.gateway.sessions.open(only!.id))!.keepFor(15 * MINUTE);
    const kept = await keepAliveFor();
    assert(typeof kept === "object" && kept.untilMs === talk.nowMs + 15 * MINUTE);
    await talk.pause(15 * MINUTE);
    await talk.say("I am back.", headers);
    // One request extends the cache to an hour.
    assertEquals([talk.keepAliveRequests.length, talk.served > 24_000], [1, true]);
    const { all } = await talk.gateway.sessions.overview();
    assert(all.keepAliveUsd > 0 && all.keepAliveUsd <= kept.maxUsd, `${all.keepAliveUsd} of ${kept.maxUsd}`);
    // The budget of time is used up, and then the cache expires.
    await talk.pause(15 * MINUTE);
    assertEquals([talk.keepAliveRequests.length, talk.timers.size, await keepAliveFor()], [
      1,
      0,
      "nothing held",
    ]);
    await talk.gateway.close();
  }
});

Deno.test("cache keep-alive: requests use the client's key and headers, as separate requests, and a failure isn't retried", async () => {
  const heard: unknown[] = [];
  const talk = new Talk({ budgetUsdPerDay: 1, onError: (error) => heard.push(error) }, {
    answer: () => Promise.resolve(Response.json({ type: "error" }, { status: 529 })),
  });
  await talk.turns(60, { ...KEY, "idempotency-key": "once", "anthropic-beta": "some-beta" });
  await talk.pause(20 * MINUTE);
  assertEquals(
    talk.keepAliveRequests.map(({ headers }) =>
      ["x-api-key", "anthropic-beta", "anthropic-version", "idempotency-key"].map((name) => headers.get(name))
    ),
    [["sk", "some-beta", "2023-06-01", null]],
  );
  assertEquals([talk.timers.size, await talk.booked(), heard], [0, 0, []]);
  await talk.gateway.close();
});

Deno.test("cache keep-alive: a subagent's conversation isn't kept while its parent waits for tools", async () => {
  const calls = [{ type: "function", function: { name: "task", arguments: "{}" } }] as const;
  let reply: SimulatedReply = { content: "So it is." };
  const talk = new Talk({ budgetUsdPerDay: 1 }, { reply: () => reply });
  const keyed = { metadata: { user_id: "one window" } };
  const request = (more: object = {}) => ({ ...keyed, ...more });
  for (let turn = 0; turn < 60; turn++) await talk.say(`And number ${turn}?`, KEY, request());
  assertEquals(talk.timers.size, 1);
  reply = { content: null, tool_calls: calls };
  await talk.say("Give it to a helper.", KEY, request());
  // A conversation that waits for its tools is kept alive.
  assertEquals(talk.timers.size, 1);
  reply = { content: "So it is." };
  const subagentRequest = (turn: number) => ({
    messages: Array.from({ length: 2 * turn + 1 }, (_, at) => ({
      role: at % 2 === 0 ? "user" : "assistant",
      content: [{ type: "text", text: `A task, ${at}.`, ...(at === 2 * turn && MARK) }],
    })),
  });
  for (let turn = 0; turn < 60; turn++) await talk.say("", KEY, request(subagentRequest(turn)));
  assertEquals(talk.timers.size, 1);
  // The same messages without a pending request are a conversation of their own.
  for (let turn = 0; turn < 60; turn++) {
    await talk.say("", KEY, { metadata: { user_id: "another window" }, ...subagentRequest(turn) });
  }
  assertEquals(talk.timers.size, 2);
  await talk.gateway.close();
});

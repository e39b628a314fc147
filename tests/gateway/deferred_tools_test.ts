import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import type { GatewayOptions } from "@tare/gateway";
import type { Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { type SimulatedCall, type SimulatedModel, type SimulatedRequest, toolCall } from "@tare/simulator";
import type { JsonRecord } from "@tare/wire";
import { startGateway } from "./gateway.ts";
import { costOf, startUpstream, type Upstream } from "./upstream.ts";

const PROFILE = profileNamed("anthropic-5m");
const MARK = { cache_control: { type: "ephemeral" } };

const sentence = (what: string) => `Use it where a request is to ${what}, and report the outcome. `;

function tool(name: string, what: string): JsonRecord {
  const about = (field: string) => ({
    type: "string",
    description: `The ${field}. ${sentence(what).repeat(3)}`,
  });
  return {
    name,
    description: sentence(what).repeat(6),
    input_schema: {
      type: "object",
      properties: { id: about("id"), query: about("query"), limit: about("limit") },
      required: ["id"],
    },
  };
}

const OWN = ["Bash", "Read", "Write", "Edit", "Glob", "Grep"].map((name) => tool(name, `do ${name}`));
const SERVERS = ["tracker", "calendar", "drive"].flatMap((server) =>
  ["list", "get", "create", "update", "delete", "move", "share", "copy", "search", "archive", "tag", "count"]
    .concat(["assign", "watch", "export", "import", "merge", "close"])
    .map((verb) => tool(`mcp__${server}__${verb}`, `${verb} things of the ${server}`))
);
const TOOLS = [...OWN, ...SERVERS];

/** Calls of the model in order; it searches for tools that aren't visible. */
const PLAN: readonly string[] = [
  ...["Read", "Read", "mcp__tracker__list", "Read", "Grep", "mcp__tracker__list", "Read", "Bash"],
  ...["mcp__calendar__create", "Read", "mcp__tracker__list", "Edit", "Read", "mcp__calendar__create"],
  ...["Read", "Bash", "Read", "Edit", "Bash", "mcp__tracker__list"],
];

const answersIn = (messages: readonly Message[]) => messages.filter(({ role }) => role === "tool").length;

const planned: SimulatedModel = ({ messages, tools }) => {
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
  const name = PLAN[answersIn(turn)];
  if (name === undefined) return { content: `Done with ${answersIn(messages)} results.` };
  const found = messages.flatMap((message) => "findsTools" in message ? message.findsTools ?? [] : []);
  if ([...tools, ...found].some((tool) => tool.function.name === name)) {
    return { content: "On it.", tool_calls: [toolCall(name, { id: `${answersIn(messages)}` })] };
  }
  assert(tools.some((tool) => tool.function.name.startsWith("tool_search_tool_bm25")), `no way to ${name}`);
  const [, server = "", verb = ""] = name.split("__");
  return {
    content: "I look for a tool.",
    tool_calls: [toolCall("tool_search_tool_bm25", { query: `${verb} things ${server}` })],
  };
};

interface Block extends JsonRecord {
  readonly type: string;
}
interface Turn {
  readonly role: "user" | "assistant";
  readonly content: readonly Block[];
}

const text = (text: string): Block => ({ type: "text", text });

/** Reads a client's view of a reply, which knows no other blocks than these. */
async function replyOf(
  response: Response,
  stream: boolean,
): Promise<{ readonly content: Block[]; readonly stop: string }> {
  const body = await response.text();
  assertEquals(response.status, 200, body);
  assert(!/tool_search|server_tool_use|tool_reference/.test(body), body);
  if (!stream) {
    const { content, stop_reason: stop } = JSON.parse(body);
    return { content, stop };
  }
  const content: Record<string, unknown>[] = [];
  let stop = "";
  let input = "";
  for (const line of body.split("\n")) {
    if (!line.startsWith("data: ")) continue;
    const { type, index, content_block: block, delta } = JSON.parse(line.slice(6));
    if (type === "content_block_start") {
      assertEquals(index, content.length);
      content.push({ ...block });
      input = "";
    } else if (type === "content_block_delta") {
      assertEquals(index, content.length - 1);
      if (delta.type === "text_delta") content[index]!.text += delta.text;
      else input += delta.partial_json;
    } else if (type === "content_block_stop" && input !== "") content[index]!.input = JSON.parse(input);
    else if (type === "message_delta") stop = delta.stop_reason;
  }
  return { content: content as Block[], stop };
}

interface Played {
  readonly messages: readonly Turn[];
  readonly requests: readonly SimulatedCall[];
  readonly cost: number;
  readonly bodies: readonly JsonRecord[];
}

interface Playing {
  readonly stream: boolean;
  readonly tools?: (at: number) => readonly JsonRecord[];
  readonly before?: (at: number) => Promise<void> | void;
  readonly fields?: JsonRecord;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Runs a client that doesn't know tool search until the model is done, for each of these prompts. */
async function client(
  ask: (request: Request) => Promise<Response>,
  prompts: readonly string[],
  { stream, tools = () => TOOLS, before, fields, headers }: Playing,
  history: readonly Turn[] = [],
): Promise<readonly Turn[]> {
  const messages: Turn[] = [...history];
  let at = 0;
  for (const prompt of prompts) {
    messages.push({ role: "user", content: [text(prompt)] });
    for (;;) {
      await before?.(at);
      const { content, role } = messages.at(-1)!;
      const marked = { role, content: content.with(-1, { ...content.at(-1)!, ...MARK }) };
      const listed = tools(at++);
      const body = {
        model: "claude-sonnet-5",
        max_tokens: 1_000,
        stream,
        system: [{ ...text("You help people with their work. ".repeat(100)), ...MARK }],
        tools: listed.with(-1, { ...listed.at(-1)!, ...MARK }),
        messages: messages.with(-1, marked),
        ...fields,
      };
      const response = await ask(
        new Request("http://client.test", {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "x-api-key": "k",
            "anthropic-version": "2023-06-01",
            ...headers,
          },
          body: JSON.stringify(body),
        }),
      );
      const reply = await replyOf(response, stream);
      messages.push({ role: "assistant", content: reply.content });
      const calls = reply.content.filter(({ type }) => type === "tool_use");
      assertEquals(reply.stop, calls.length > 0 ? "tool_use" : "end_turn");
      if (calls.length === 0) break;
      messages.push({
        role: "user",
        content: calls.map(({ id, name, input }) => ({
          type: "tool_result",
          tool_use_id: id,
          content: `${name} ${JSON.stringify(input)} gives ${"a line. ".repeat(30)}`,
        })),
      });
    }
  }
  return messages;
}

function watched(): { readonly bodies: JsonRecord[]; readonly fetch: typeof fetch } {
  const bodies: JsonRecord[] = [];
  return {
    bodies,
    fetch: async (...args: Parameters<typeof fetch>) => {
      const request = new Request(...args);
      bodies.push(await request.clone().json());
      return await fetch(request);
    },
  };
}

const SEARCHING = ({ baseURL }: Upstream) => ({
  upstreams: {
    messages: { baseURL, profile: PROFILE, windowTokens: 200_000, defersTools: () => true },
  },
});

async function play(
  prompts: readonly string[],
  playing: Playing,
  through?: Partial<GatewayOptions>,
): Promise<
  Played & { readonly ledger?: Awaited<ReturnType<Awaited<ReturnType<typeof startGateway>>["ledger"]>> }
> {
  await using upstream = await startUpstream(planned, { profile: PROFILE });
  const { bodies, fetch: watching } = watched();
  await using gateway = through &&
    await startGateway(upstream, { ...SEARCHING(upstream), fetch: watching, ...through });
  const { baseURL } = gateway ?? upstream;
  const ask = (request: Request) => fetch(`${baseURL}/messages`, request);
  const messages = await client(ask, prompts, playing);
  const ledger = await gateway?.ledger();
  assertEquals(gateway?.errors ?? [], []);
  return { messages, requests: upstream.requests, cost: costOf(upstream), bodies, ...(ledger && { ledger }) };
}

function done(messages: readonly Turn[]) {
  return messages.flatMap(({ role, content }) =>
    content.flatMap(({ type, text, name, input }) =>
      type === "tool_use" ? [`${name} ${JSON.stringify(input)}`] : role === "user" && text ? [text] : []
    )
  );
}

const bare = (value: unknown) =>
  JSON.stringify(value, (name, value) => name === "cache_control" ? undefined : value);

/** Checks that each request extends the one before, with the same tools first. */
function assertGrows(bodies: readonly JsonRecord[]): void {
  const inFront = (body: JsonRecord) =>
    bare((body.tools as readonly JsonRecord[]).filter((tool) => !tool.defer_loading));
  const messages = (body: JsonRecord) => body.messages as readonly Turn[];
  for (const [at, body] of bodies.slice(1).entries()) {
    const before = bodies[at]!;
    assertEquals(inFront(body), inFront(before));
    const { length } = messages(before);
    assertEquals(bare(messages(body).slice(0, length)), bare(messages(before)));
  }
}

const PROMPTS = ["Look after what is open.", "And once more."];

for (const stream of [true, false]) {
  const how = stream ? "streamed" : "whole";
  Deno.test(`gateway: 54 of 60 tools of a client without tool search are deferred, ${how}: same work, lower cost`, async () => {
    const direct = await play(PROMPTS, { stream });
    const { messages, requests, cost, bodies, ledger } = await play(PROMPTS, { stream }, {});
    assertEquals(done(messages), done(direct.messages));
    assertEquals(done(messages).length, PROMPTS.length * (PLAN.length + 1));
    assertGrows(bodies);
    const searches = bare(bodies.at(-1)).match(/"server_tool_use"/g);
    assertEquals(searches?.length, 2);
    for (const { tools } of bodies) {
      const listed = tools as readonly JsonRecord[];
      assertEquals(
        listed.filter((tool) => tool.defer_loading).map(({ name }) => name),
        SERVERS.map(({ name }) => name),
      );
      // The client's breakpoint moves to the last listed tool.
      assertEquals(listed.filter((tool) => tool.cache_control).map(({ name }) => name), [
        "tool_search_tool_bm25",
      ]);
    }
    const perCall = (all: readonly SimulatedCall[]) =>
      Math.round(all.reduce((sum, { promptTokens }) => sum + promptTokens, 0) / all.length);
    const [before, now] = [perCall(direct.requests), perCall(requests)];
    assert(now < 0.5 * before, `${now} tokens a call for ${before}`);
    assert(cost < 0.6 * direct.cost, `${cost} for ${direct.cost}`);
    const { costUnits, baselineCostUnits, savedTokens } = ledger!.planned;
    assertAlmostEquals(costUnits, cost, 1e-6 * cost);
    assert(savedTokens > 0);
    const off = Math.abs(baselineCostUnits - direct.cost) / direct.cost;
    assert(off < 0.05, `${baselineCostUnits} claimed, ${direct.cost} paid directly`);
  });
}

Deno.test("deferred tools: gateways reopened for each request retain a session's deferred and found tools", async () => {
  const one = await play(PROMPTS, { stream: true }, {});
  await using upstream = await startUpstream(planned, { profile: PROFILE });
  const { bodies, fetch: watching } = watched();
  const store = memoryStore();
  const open = () => startGateway(upstream, { ...SEARCHING(upstream), fetch: watching, store });
  let running = await open();
  const ask = (request: Request) => fetch(`${running.baseURL}/messages`, request);
  const before = async () => {
    await running[Symbol.asyncDispose]();
    running = await open();
  };
  const messages = await client(ask, PROMPTS, { stream: true, before });
  await running[Symbol.asyncDispose]();
  assertEquals(messages, one.messages);
  assertEquals(bodies, one.bodies);
});

Deno.test("deferred tools: forks continue with the tools that were found before them, and with no others", async () => {
  await using upstream = await startUpstream(planned, { profile: PROFILE });
  const { bodies, fetch: watching } = watched();
  await using gateway = await startGateway(upstream, { ...SEARCHING(upstream), fetch: watching });
  const ask = (request: Request) => fetch(`${gateway.baseURL}/messages`, request);
  const messages = await client(ask, PROMPTS.slice(0, 1), { stream: true });
  const calls = messages.flatMap(({ content }, at) =>
    content.some(({ name }) => name === PLAN[2]) ? [at] : []
  );
  const counted = bodies.length;
  // After the first tool that was found, before the second.
  await client(ask, ["Rather do this."], { stream: true }, messages.slice(0, calls[0]! + 2));
  const fork = bodies.slice(counted);
  const searches = (body: JsonRecord | undefined) => bare(body).match(/"server_tool_use"/g)?.length;
  assertEquals([searches(bodies[counted - 1]), searches(fork[0]), searches(fork.at(-1))], [2, 1, 2]);
  assertGrows(fork);
  assertEquals(
    (fork[0]!.tools as readonly JsonRecord[]).map(({ name }) => name),
    (bodies[0]!.tools as readonly JsonRecord[]).map(({ name }) => name),
  );
  // The original continues as if there were no fork.
  const before = bodies.length;
  await client(ask, ["And once more."], { stream: true }, messages);
  assertEquals(searches(bodies[before]), 2);
  assertEquals(gateway.errors, []);
});

Deno.test("deferred tools: a second session whose tools the cache would have served claims no more than it saves", async () => {
  const both = async (through: boolean) => {
    await using upstream = await startUpstream(planned, { profile: PROFILE });
    await using gateway = through ? await startGateway(upstream, SEARCHING(upstream)) : undefined;
    const ask = (request: Request) => fetch(`${(gateway ?? upstream).baseURL}/messages`, request);
    for (const prompt of ["Look after what is open.", "What is new?"]) {
      await client(ask, [prompt], { stream: true });
    }
    return { cost: costOf(upstream), ledger: await gateway?.ledger() };
  };
  const [direct, deferred] = [await both(false), await both(true)];
  const { sessions, costUnits, baselineCostUnits } = deferred.ledger!.planned;
  assertEquals(sessions, 2);
  assertAlmostEquals(costUnits, deferred.cost, 1e-6 * deferred.cost);
  assertAlmostEquals(baselineCostUnits, direct.cost, 0.05 * direct.cost);
});

Deno.test("deferred tools: later tools are deferred too, and removed ones are never referenced", async () => {
  const isLast = ({ messages }: Pick<SimulatedRequest, "messages">) =>
    messages.filter(({ role }) => role === "user").length > 1;
  await using upstream = await startUpstream(
    (request) => isLast(request) ? { content: "Hm." } : planned(request),
    { profile: PROFILE },
  );
  const { bodies, fetch: watching } = watched();
  await using gateway = await startGateway(upstream, { ...SEARCHING(upstream), fetch: watching });
  const ask = (request: Request) => fetch(`${gateway.baseURL}/messages`, request);
  const known = (at: number) => at < 5 ? [...OWN, ...SERVERS.slice(0, 18)] : TOOLS;
  const messages = await client(ask, PROMPTS.slice(0, 1), { stream: true, tools: known });
  assertEquals(done(messages).length, PLAN.length + 1);
  assertGrows(bodies);
  const gone = [...OWN, ...SERVERS.slice(18)];
  const { length } = bodies;
  const more = await client(ask, ["Thanks."], { stream: true, tools: () => gone }, messages);
  // The provider would have refused a reference to a missing tool.
  assertEquals([more.at(-1)?.content, bodies.length, gateway.errors], [[text("Hm.")], length + 1, []]);
  assert(!bare(bodies.at(-1)).includes('mcp__tracker__list"}'));
});

const SEEN_AS_THEY_CAME: Readonly<
  Record<
    string,
    readonly [playing: Partial<Playing>, through: (upstream: Upstream) => Partial<GatewayOptions>]
  >
> = {
  "the client has tools that it defers itself": [
    { tools: () => [...TOOLS.slice(0, -2), { ...TOOLS.at(-2), defer_loading: false }, TOOLS.at(-1)!] },
    SEARCHING,
  ],
  "tools have examples": [{
    tools: () => [{ ...TOOLS[0], input_examples: [{ id: "1" }] }, ...TOOLS.slice(1)],
  }, SEARCHING],
  "the address isn't known to search": [
    {},
    ({ baseURL }) => ({ upstreams: { messages: { baseURL, profile: PROFILE, windowTokens: 200_000 } } }),
  ],
  "schemas are never shortened": [
    {},
    (upstream) => ({ ...SEARCHING(upstream), planning: { mechanisms: { schemas: false } } }),
  ],
  "all are to be shown in full": [
    {},
    (upstream) => ({
      ...SEARCHING(upstream),
      planning: { alwaysFull: TOOLS.map(({ name }) => String(name)) },
    }),
  ],
  "a session is only observed": [{ headers: { "x-tare": "dry-run" } }, SEARCHING],
  "a request is not to be touched": [{ headers: { "x-tare": "off" } }, SEARCHING],
  "sessions are left alone to be compared with": [{}, (upstream) => ({ ...SEARCHING(upstream), holdout: 1 })],
  "there are few": [{ tools: () => [...OWN, ...SERVERS.slice(0, 8)] }, SEARCHING],
  "their names have nothing in common": [
    { tools: () => TOOLS.map((tool, at) => ({ ...tool, name: `${at}x_${tool.name}` })) },
    SEARCHING,
  ],
};

for (const [why, [playing, through]] of Object.entries(SEEN_AS_THEY_CAME)) {
  Deno.test(`gateway: no tools are deferred where ${why}`, async () => {
    await using upstream = await startUpstream(({ messages }) => ({ content: `${messages.length}` }), {
      profile: PROFILE,
    });
    const { bodies, fetch: watching } = watched();
    await using gateway = await startGateway(upstream, {
      ...through(upstream),
      fetch: watching,
      recall: false,
    });
    const ask = (request: Request) => fetch(`${gateway.baseURL}/messages`, request);
    const tools = playing.tools?.(0) ?? TOOLS;
    await client(ask, ["Go.", "Go on."], { stream: true, ...playing });
    assertEquals(bodies.map(({ tools }) => bare(tools)), [bare(tools), bare(tools)]);
  });
}

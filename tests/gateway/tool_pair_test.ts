import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import type { GatewayOptions } from "@tare/gateway";
import type { Message } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { memoryStore } from "@tare/session/sqlite";
import { type SimulatedModel, toolCall } from "@tare/simulator";
import type { JsonRecord } from "@tare/wire";
import { ReplyAssembler } from "@tare/wire/internal";
import { startGateway } from "./gateway.ts";
import { costOf, startUpstream, type Upstream } from "./upstream.ts";

const PROFILE = profileNamed("openai");

interface Definition {
  readonly name: string;
  readonly description: string;
  readonly parameters: JsonRecord;
}

function define(name: string, what: string): Definition {
  const sentence = `Use it where a request is to ${what}, and report the outcome. `;
  const about = (field: string) => ({ type: "string", description: `The ${field}. ${sentence.repeat(3)}` });
  const properties = { id: about("id"), query: about("query"), limit: about("limit") };
  return {
    name,
    description: sentence.repeat(6),
    parameters: { type: "object", properties, required: ["id"] },
  };
}

const OWN = ["bash", "read", "write", "edit"].map((name) => define(name, `do ${name}`));
const SERVED = ["tracker", "calendar", "drive"].flatMap((server) =>
  ["list", "get", "create", "update", "delete", "move", "share", "copy", "search", "archive", "tag", "count"]
    .map((verb) => define(`${server}_${verb}`, `${verb} things of the ${server}`))
);
const TOOLS = [...OWN, ...SERVED];
const PAIR = ["find_tools", "call_tool"];

/** Calls of the model in order. */
const PLAN: readonly string[] = [
  ...["read", "read", "tracker_list", "read", "bash", "tracker_list", "read", "calendar_create", "read"],
  ...["tracker_list", "edit", "read", "calendar_create", "read", "bash", "tracker_list"],
];

const answersIn = (messages: readonly Message[]) =>
  messages.filter(({ role, content }) => role === "tool" && !isFound(content)).length;
const isFound = (content: unknown) => /^(?:\d+ of \d+ tools\. |\[elided: find_tools)/.test(String(content));

/** Calls a tool as a model does that sees its definition, or finds it. */
function reach(name: string, { messages, tools }: Parameters<SimulatedModel>[0], args: JsonRecord) {
  if (tools.some((tool) => tool.function.name === name)) return toolCall(name, args);
  const wasFound = messages.some(({ role, content }) =>
    role === "tool" && String(content).includes(`{"name":${JSON.stringify(name)},`)
  );
  return wasFound
    ? toolCall("call_tool", { name, arguments: args })
    : toolCall("find_tools", { query: name.replaceAll("_", " ") });
}

const planned: SimulatedModel = (request) => {
  const { messages } = request;
  const turn = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
  const name = PLAN[answersIn(turn)];
  if (name === undefined) return { content: `Done with ${answersIn(messages)} results.` };
  return { content: "On it.", tool_calls: [reach(name, request, { id: `${answersIn(messages)}` })] };
};

interface Called {
  readonly id: string;
  readonly name: string;
  readonly args: string;
}

interface Reply {
  readonly items: readonly JsonRecord[];
  readonly calls: readonly Called[];
  readonly text: string;
}

interface Dialect {
  readonly name: "chat" | "responses";
  readonly path: string;
  readonly body: (items: readonly JsonRecord[], tools: readonly Definition[]) => JsonRecord;
  readonly read: (text: string, stream: boolean) => Reply;
  readonly result: (call: Called, text: string) => JsonRecord;
  readonly forcing: (name: string) => JsonRecord;
}

const eventsIn = (text: string): readonly JsonRecord[] =>
  [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data]) => JSON.parse(data!));

const RULES = "You help users with their work. ".repeat(100);

const CHAT: Dialect = {
  name: "chat",
  path: "/chat/completions",
  body: (messages, tools) => ({
    messages: [{ role: "system", content: RULES }, ...messages],
    tools: tools.map((tool) => ({ type: "function", function: tool })),
  }),
  read(text, stream) {
    const read = () => {
      const assembler = new ReplyAssembler();
      const chunks = eventsIn(text) as { readonly choices: readonly { readonly delta: JsonRecord }[] }[];
      chunks.forEach((chunk) => assembler.read(chunk));
      const indexes = chunks.flatMap(({ choices: [choice] }) =>
        (choice?.delta.tool_calls as readonly JsonRecord[] ?? []).map(({ index }) => Number(index))
      );
      assertEquals(indexes, indexes.toSorted((a, b) => a - b));
      const { message, finishReason } = assembler.finish(new Set())!;
      return { message, finish_reason: finishReason };
    };
    const { message, finish_reason } = stream ? read() : JSON.parse(text).choices[0];
    const { tool_calls: calls = [], content } = message;
    assertEquals(finish_reason, calls.length > 0 ? "tool_calls" : "stop");
    return {
      items: [message],
      calls: calls.map(({ id, function: made }: ReturnType<typeof toolCall>) => ({
        id,
        name: made.name,
        args: made.arguments,
      })),
      text: content ?? "",
    };
  },
  result: ({ id }, content) => ({ role: "tool", tool_call_id: id, content }),
  forcing: (name) => ({ type: "function", function: { name } }),
};

const RESPONSES: Dialect = {
  name: "responses",
  path: "/responses",
  body: (input, tools) => ({
    instructions: RULES,
    input,
    tools: tools.map((tool) => ({ type: "function", strict: false, ...tool })),
    store: false,
  }),
  read(text, stream) {
    const read = () => {
      const events = eventsIn(text);
      assertEquals(events.map(({ sequence_number: number }) => number), events.map((_, at) => at));
      const ofType = (type: string) => events.filter((event) => event.type === `response.${type}`);
      const { output } = ofType("completed")[0]!.response as { readonly output: readonly JsonRecord[] };
      const done = ofType("output_item.done");
      assertEquals(done.map(({ output_index }) => output_index), output.map((_, at) => at));
      assertEquals<unknown>(done.map(({ item }) => item), output);
      const names = (items: readonly unknown[]) => items.map((item) => (item as JsonRecord).name);
      assertEquals(names(ofType("output_item.added").map(({ item }) => item)), names(output));
      return { output };
    };
    const { output } = (stream ? read() : JSON.parse(text)) as { readonly output: readonly JsonRecord[] };
    return {
      items: output,
      calls: output.filter(({ type }) => type === "function_call").map((
        { call_id, name, arguments: args },
      ) => ({
        id: String(call_id),
        name: String(name),
        args: String(args),
      })),
      text: output.flatMap(({ content }) => content as readonly { readonly text: string }[] ?? [])
        .map(({ text }) => text).join(""),
    };
  },
  result: ({ id }, output) => ({ type: "function_call_output", call_id: id, output }),
  forcing: (name) => ({ type: "function", name }),
};

interface Playing {
  readonly dialect: Dialect;
  readonly stream: boolean;
  readonly tools?: readonly Definition[];
  readonly before?: (at: number) => Promise<void> | void;
  readonly fields?: (at: number) => JsonRecord;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Runs a client that doesn't know the pair until the model is done, for each of these prompts. */
async function client(
  baseURL: () => string,
  prompts: readonly string[],
  { dialect, stream, tools = TOOLS, before, fields, headers }: Playing,
  history: readonly JsonRecord[] = [],
): Promise<readonly JsonRecord[]> {
  const items = [...history];
  let at = 0;
  for (const prompt of prompts) {
    items.push({ role: "user", content: prompt });
    for (;;) {
      await before?.(at);
      const body = { model: "gpt-5", stream, ...dialect.body(items, tools), ...fields?.(at++) };
      const response = await fetch(`${baseURL()}${dialect.path}`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer k", ...headers },
        body: JSON.stringify(body),
      });
      const text = await response.text();
      assertEquals(response.status, 200, text);
      assert(!PAIR.some((name) => text.includes(name)), text);
      const { items: replied, calls } = dialect.read(text, stream);
      items.push(...replied);
      if (calls.length === 0) break;
      for (const call of calls) {
        assert(tools.some(({ name }) => name === call.name), call.name);
        items.push(dialect.result(call, `${call.name} ${call.args} gives ${"a line. ".repeat(30)}`));
      }
    }
  }
  return items;
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

/** Nothing but tools is removed from the prompt. */
const KEEPS: Partial<GatewayOptions> = {
  planning: {
    mechanisms: { context: false, prune: false, truncate: false, references: false, normalization: false },
  },
};

function upstreams({ baseURL }: Pick<Upstream, "baseURL">): GatewayOptions["upstreams"] {
  const upstream = { baseURL, profile: PROFILE, windowTokens: 400_000 };
  return { chat: upstream, responses: upstream };
}

async function play(
  prompts: readonly string[],
  playing: Playing,
  { model = planned, through }: {
    readonly model?: SimulatedModel;
    readonly through?: Partial<GatewayOptions>;
  } = {},
) {
  await using upstream = await startUpstream(model, { profile: PROFILE });
  const { bodies, fetch } = watched();
  await using gateway = through &&
    await startGateway(upstream, { upstreams: upstreams(upstream), fetch, ...through });
  const items = await client(() => (gateway ?? upstream).baseURL, prompts, playing);
  const ledger = await gateway?.ledger();
  assertEquals(gateway?.errors ?? [], []);
  return { items, bodies, requests: upstream.requests, cost: costOf(upstream), planned: ledger?.planned };
}

/** Returns the user's texts and the calls that the client ran. */
function done(items: readonly JsonRecord[]): readonly string[] {
  const called = items.flatMap(({ tool_calls, type, name, arguments: args }) =>
    type === "function_call"
      ? [{ name, arguments: args }]
      : (tool_calls as readonly ReturnType<typeof toolCall>[] ?? []).map(({ function: made }) => made)
  );
  return called.map(({ name, arguments: args }) => `${name} ${args}`);
}

const namesIn = ({ tools }: JsonRecord): readonly string[] =>
  (tools as readonly JsonRecord[]).map((tool) => String(((tool.function ?? tool) as JsonRecord).name));
const listOf = ({ messages, input }: JsonRecord) => (messages ?? input) as readonly JsonRecord[];

/** Checks that each request extends the one before, with the same tools. */
function assertGrows(bodies: readonly JsonRecord[]): void {
  for (const [at, body] of bodies.slice(1).entries()) {
    const before = bodies[at]!;
    assertEquals(JSON.stringify(body.tools), JSON.stringify(before.tools));
    const { length } = listOf(before);
    assertEquals(JSON.stringify(listOf(body).slice(0, length)), JSON.stringify(listOf(before)));
  }
}

const PROMPTS = ["Look after what is open.", "And once more."];
const OFFERED = [...OWN.map(({ name }) => name), ...PAIR, "recall"];

for (const dialect of [CHAT, RESPONSES]) {
  for (const stream of [true, false]) {
    const how = `${dialect.name}, ${stream ? "streamed" : "whole"}`;

    Deno.test(`tool pair: 36 of 40 tools are deferred, and the client runs the same calls for less, ${how}`, async () => {
      const direct = await play(PROMPTS, { dialect, stream });
      const { items, bodies, requests, cost, planned } = await play(PROMPTS, { dialect, stream }, {
        through: KEEPS,
      });
      assertEquals(done(items), done(direct.items));
      assertEquals(done(items).length, PROMPTS.length * PLAN.length);
      assertGrows(bodies);
      assertEquals(bodies.map(namesIn), bodies.map(() => OFFERED));
      // Two lookups, each by a call that the client doesn't have.
      assertEquals(requests.length, direct.requests.length + 2);
      assertEquals(JSON.stringify(listOf(bodies.at(-1)!)).match(/"name":"(?:find|call)_tools?"/g)?.length, 2);
      assert(cost < 0.7 * direct.cost, `${cost} for ${direct.cost}`);
      const { costUnits, baselineCostUnits, recalls } = planned!;
      assertEquals(recalls, 0);
      assertAlmostEquals(costUnits, cost, 1e-6 * cost);
      assertAlmostEquals(baselineCostUnits, direct.cost, 0.03 * direct.cost);
    });

    Deno.test(`tool pair: gateways reopened for each request send the same as one, ${how}`, async () => {
      const one = await play(PROMPTS, { dialect, stream }, { through: KEEPS });
      await using upstream = await startUpstream(planned, { profile: PROFILE });
      const { bodies, fetch } = watched();
      const store = memoryStore();
      const open = () => startGateway(upstream, { ...KEEPS, upstreams: upstreams(upstream), fetch, store });
      let running = await open();
      const before = async () => {
        await running[Symbol.asyncDispose]();
        running = await open();
      };
      await client(() => running.baseURL, PROMPTS, { dialect, stream, before });
      await running[Symbol.asyncDispose]();
      assertEquals(
        bodies.map((body) => [namesIn(body), listOf(body).length]),
        one.bodies.map((body) => [
          namesIn(body),
          listOf(body).length,
        ]),
      );
      assertGrows(bodies);
    });

    Deno.test(`tool pair: a failed lookup restores all definitions at once, for the session, ${how}`, async () => {
      const model: SimulatedModel = (request) => {
        const { messages, tools } = request;
        const isOffered = tools.some(({ function: { name } }) => name === "find_tools");
        if (isOffered) return { content: "Hm.", tool_calls: [toolCall("find_tools", { query: "zebra" })] };
        return answersIn(messages) > 1
          ? { content: "Done." }
          : { content: "On it.", tool_calls: [reach("tracker_list", request, { id: "1" })] };
      };
      const { items, bodies } = await play(["Go.", "Go on."], { dialect, stream }, { model, through: KEEPS });
      assertEquals(done(items), ['tracker_list {"id":"1"}']);
      const full = [...TOOLS.map(({ name }) => name), "recall"];
      assertEquals(bodies.map(namesIn), [OFFERED, full, full, full]);
      assertGrows(bodies.slice(1));
    });

    Deno.test(`tool pair: a call of an unknown tool isn't forwarded, and restores all definitions, ${how}`, async () => {
      const model: SimulatedModel = ({ messages, tools }) => {
        const isOffered = tools.some(({ function: { name } }) => name === "find_tools");
        if (!isOffered) return { content: answersIn(messages) > 2 ? "Done." : "Oh." };
        const calls = [
          toolCall("call_tool", { name: "tracker_get", arguments: '{"id":12345678901234567890}' }),
          toolCall("call_tool", { name: "tracker_lost", arguments: {} }),
          toolCall("read", { id: "2" }),
          toolCall("call_tool", { name: "bash" }),
        ];
        return { content: "On it.", tool_calls: calls };
      };
      const { items, bodies } = await play(["Go."], { dialect, stream }, { model, through: KEEPS });
      assertEquals(done(items), ['tracker_get {"id":12345678901234567890}', 'read {"id":"2"}', "bash {}"]);
      assertEquals(bodies.map((body) => namesIn(body).length), [OFFERED.length, TOOLS.length + 1]);
      assertEquals(JSON.stringify(listOf(bodies[1]!)).match(/"name":"call_tool"/g)?.length, 1);
    });

    Deno.test(`tool pair: deferred tools may be called by their own names, ${how}`, async () => {
      const model: SimulatedModel = ({ messages }) =>
        answersIn(messages) > 0
          ? { content: "Done." }
          : { content: null, tool_calls: [toolCall("drive_get", {})] };
      const { items, bodies } = await play(["Go."], { dialect, stream }, { model, through: KEEPS });
      assertEquals([done(items), bodies.map(namesIn)], [["drive_get {}"], [OFFERED, OFFERED]]);
    });
  }

  Deno.test(`tool pair: with evictions too, the client runs the same calls, ${dialect.name}`, async () => {
    const direct = await play(PROMPTS, { dialect, stream: true });
    const { items, bodies, cost, planned } = await play(PROMPTS, { dialect, stream: true }, { through: {} });
    assertEquals(done(items), done(direct.items));
    assertMatch(JSON.stringify(bodies.at(-1)), /\[elided: /);
    assert(cost < 0.65 * direct.cost, `${cost} for ${direct.cost}`);
    assertAlmostEquals(planned!.costUnits, cost, 1e-6 * cost);
    assertAlmostEquals(planned!.baselineCostUnits, direct.cost, 0.05 * direct.cost);
  });

  Deno.test(`tool pair: a chosen tool is sent in full, in that request only, ${dialect.name}`, async () => {
    const model: SimulatedModel = () => ({ content: "Yes." });
    const fields = (at: number) => at === 1 ? { tool_choice: dialect.forcing("drive_get") } : {};
    const { bodies } = await play(["Go.", "Now.", "And?"], { dialect, stream: false, fields }, {
      model,
      through: { recall: false },
    });
    const [own, pair] = [OFFERED.slice(0, OWN.length), PAIR];
    assertEquals(bodies.map(namesIn), [[...own, ...pair], [...own, "drive_get", ...pair], [...own, ...pair]]);
  });

  Deno.test(`tool pair: a refusal of the pair restores the client's own request, ${dialect.name}`, async () => {
    await using upstream = await startUpstream(() => ({ content: "Yes." }), { profile: PROFILE });
    const names: (readonly string[])[] = [];
    const refusing: typeof fetch = async (...args) => {
      const request = new Request(...args);
      const body = await request.clone().json();
      names.push(namesIn(body));
      if (!namesIn(body).includes("call_tool")) return await fetch(request);
      return Response.json({ error: { message: "no" } }, { status: 400 });
    };
    await using gateway = await startGateway(upstream, {
      upstreams: upstreams(upstream),
      fetch: refusing,
      recall: false,
    });
    await client(() => gateway.baseURL, ["Go.", "Go on."], { dialect, stream: true });
    const full = TOOLS.map(({ name }) => name);
    assertEquals(names, [[...OFFERED.slice(0, OWN.length), ...PAIR], full, full]);
  });

  const asTheyCame: Readonly<
    Record<
      string,
      readonly [Partial<Playing>, Partial<GatewayOptions> | ((one: Upstream) => Partial<GatewayOptions>)]
    >
  > = {
    "a session is only observed": [{ headers: { "x-tare": "dry-run" } }, {}],
    "sessions are a holdout": [{}, { holdout: 1 }],
    "the mechanism is off": [{}, { planning: { mechanisms: { schemas: false } } }],
    "the upstream defers none": [{}, (upstream) => {
      const { chat, responses } = upstreams(upstream);
      const defersTools = () => false;
      return { upstreams: { chat: { ...chat!, defersTools }, responses: { ...responses!, defersTools } } };
    }],
    "the instructions name them": [
      {
        fields: () => ({
          [dialect === CHAT ? "x" : "instructions"]: SERVED.map(({ name }) => name).join(", "),
        }),
      },
      {},
    ],
    "the client finds tools itself": [{ tools: [...TOOLS, define("find_tools", "find tools")] }, {}],
    "they are an agent's own": [
      { tools: TOOLS.map((tool) => ({ ...tool, name: `team_${tool.name}` })) },
      {},
    ],
    "they are few": [{ tools: TOOLS.slice(0, 12) }, {}],
  };
  for (const [why, [playing, through]] of Object.entries(asTheyCame)) {
    if (dialect === CHAT && why === "the instructions name them") continue;
    Deno.test(`tool pair: no tools are deferred where ${why}, ${dialect.name}`, async () => {
      await using upstream = await startUpstream(({ messages }) => ({ content: `${messages.length}` }), {
        profile: PROFILE,
      });
      const { bodies, fetch } = watched();
      await using gateway = await startGateway(upstream, {
        upstreams: upstreams(upstream),
        fetch,
        recall: false,
        ...typeof through === "function" ? through(upstream) : through,
      });
      const one = { dialect, stream: false, tools: TOOLS, ...playing };
      await client(() => gateway.baseURL, ["Go.", "Go on."], one).catch((error) => {
        if (why !== "the client finds tools itself") throw error;
      });
      const names = one.tools.map(({ name }) => name);
      assertEquals(bodies.map(namesIn), [names, names]);
    });
  }

  Deno.test(`tool pair: no tools are deferred in a session already in progress, ${dialect.name}`, async () => {
    const direct = await play(["Go."], { dialect, stream: false });
    await using upstream = await startUpstream(planned, { profile: PROFILE });
    const { bodies, fetch } = watched();
    await using gateway = await startGateway(upstream, {
      upstreams: upstreams(upstream),
      fetch,
      recall: false,
    });
    await client(() => gateway.baseURL, ["Go on."], { dialect, stream: true }, direct.items);
    assertEquals(
      new Set(bodies.map((body) => namesIn(body).join())),
      new Set([TOOLS.map(({ name }) => name).join()]),
    );
  });

  Deno.test(`tool pair: a second session begins with the same tools, which the cache serves, ${dialect.name}`, async () => {
    const both = async (through: boolean) => {
      await using upstream = await startUpstream(planned, { profile: PROFILE });
      await using gateway = through
        ? await startGateway(upstream, { ...KEEPS, upstreams: upstreams(upstream) })
        : undefined;
      for (const prompt of ["Look after what is open.", "What is new?"]) {
        await client(() => (gateway ?? upstream).baseURL, [prompt], { dialect, stream: true });
      }
      return { cost: costOf(upstream), planned: (await gateway?.ledger())?.planned };
    };
    const [direct, { cost, planned: booked }] = [await both(false), await both(true)];
    assertEquals(booked!.sessions, 2);
    assertAlmostEquals(booked!.costUnits, cost, 1e-6 * cost);
    assertAlmostEquals(booked!.baselineCostUnits, direct.cost, 0.05 * direct.cost);
  });
}

Deno.test("tool pair: tools that a client's sessions usually call are not deferred, after restarts too", async () => {
  const model: SimulatedModel = (request) => {
    const { messages } = request;
    // Each session calls the first, one in eight the second.
    const names = ["tracker_list", ...JSON.stringify(messages).includes("DRIVE") ? ["drive_get"] : []];
    const name = names[answersIn(messages)];
    return name === undefined
      ? { content: "Done." }
      : { content: null, tool_calls: [reach(name, request, {})] };
  };
  await using upstream = await startUpstream(model, { profile: PROFILE });
  const { bodies, fetch } = watched();
  const store = memoryStore();
  const kept: string[] = [];
  const callCounts: number[] = [];
  for (let at = 0; at < 18; at++) {
    const { length } = bodies;
    await using gateway = await startGateway(upstream, { upstreams: upstreams(upstream), fetch, store });
    const prompts = [`Look after thing ${at}${at % 8 === 0 ? " in the DRIVE" : ""}.`];
    await client(() => gateway.baseURL, prompts, { dialect: CHAT, stream: true });
    const session = bodies.slice(length);
    assertGrows(session);
    kept.push(namesIn(session[0]!).filter((name) => /^(?:tracker|drive)_/.test(name)).join());
    callCounts.push(session.length);
  }
  // Evaluated after 4, 8 and 16 sessions: a quarter of the first 4 called both.
  const both = "tracker_list,drive_get";
  assertEquals(kept, [...Array(4).fill(""), ...Array(4).fill(both), ...Array(10).fill("tracker_list")]);
  assertEquals(callCounts.slice(0, 5), [5, 3, 3, 3, 2]);
});

Deno.test("tool pair: a client of Responses that continues stored responses runs its calls", async () => {
  for (const stream of [true, false]) {
    await using upstream = await startUpstream(planned, { profile: PROFILE });
    const { bodies, fetch: watching } = watched();
    await using gateway = await startGateway(upstream, { upstreams: upstreams(upstream), fetch: watching });
    const calls: string[] = [];
    let input: readonly JsonRecord[] = [{ role: "user", content: "Go." }];
    let previous: unknown;
    while (input.length > 0) {
      const body = { ...RESPONSES.body(input, TOOLS), store: true, previous_response_id: previous };
      const response = await fetch(`${gateway.baseURL}/responses`, {
        method: "POST",
        headers: { "content-type": "application/json", authorization: "Bearer k" },
        body: JSON.stringify({ model: "gpt-5", stream, ...body }),
      });
      const text = await response.text();
      assertEquals(response.status, 200, text);
      const reply = RESPONSES.read(text, stream);
      calls.push(...reply.calls.map(({ name }) => name));
      input = reply.calls.map((call) => RESPONSES.result(call, `${call.name} is done.`));
      const whole = stream ? eventsIn(text).at(-1)!.response as JsonRecord : JSON.parse(text);
      previous = whole.id;
    }
    assertEquals(calls, PLAN);
    assertEquals(bodies.map(namesIn), bodies.map(() => OFFERED));
    assertEquals(gateway.errors, []);
  }
});

Deno.test("tool pair: no tools are deferred where a client of Responses uses the provider's search", async () => {
  await using upstream = await startUpstream(() => ({ content: "Yes." }), { profile: PROFILE });
  const { bodies, fetch } = watched();
  await using gateway = await startGateway(upstream, {
    upstreams: upstreams(upstream),
    fetch,
    recall: false,
  });
  const tools = [...(RESPONSES.body([], TOOLS).tools as readonly JsonRecord[]), { type: "tool_search" }];
  await client(() => gateway.baseURL, ["Go."], {
    dialect: RESPONSES,
    stream: true,
    fields: () => ({ tools }),
  });
  assertEquals(bodies.map((body) => body.tools), [tools]);
});

import { assertEquals, assertMatch, assertNotEquals, assertStringIncludes } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import {
  type AssistantMessage,
  contentText,
  type FunctionToolCall,
  type Message,
  type Model,
  type ModelRequest,
  type Tool,
} from "@tare/messages";
import type { ToolSource } from "@tare/server";
import { CANNOT_ASK } from "../approvals/approvals.ts";
import { agent, call, events, newSession, request, turn } from "../fixture_test.ts";
import { unpaired } from "../script_fixture_test.ts";

const toolCall = (id: string, name: string, args: unknown): FunctionToolCall => ({
  id,
  type: "function",
  function: { name, arguments: JSON.stringify(args) },
});
const delegate = (id: string, task: string, more = {}) => toolCall(id, "delegate", { task, ...more });

function taskOf({ messages }: Pick<ModelRequest, "messages">): string | undefined {
  const text = contentText(messages.findLast(({ role }) => role === "user")?.content);
  return /^You are a subagent now.*Do only this:\n\n(.*?)\n\n/s.exec(text)?.[1];
}

function model(
  reply: (
    task: string | undefined,
    call: number,
    request: ModelRequest,
  ) => Partial<AssistantMessage> | Promise<Partial<AssistantMessage>>,
): Model & { readonly requests: ModelRequest[]; readonly forget: () => void } {
  const calls = new Map<string | undefined, number>();
  const requests: ModelRequest[] = [];
  const ask: Model = async function* (request) {
    requests.push(request);
    const task = taskOf(request);
    calls.set(task, (calls.get(task) ?? 0) + 1);
    const message: AssistantMessage = {
      role: "assistant",
      content: null,
      ...await reply(task, calls.get(task)!, request),
    };
    yield {
      type: "completed",
      message,
      finishReason: message.tool_calls ? "tool_calls" : "stop",
      usage: { promptTokens: 100, cachedTokens: 50, outputTokens: 10 },
    };
  };
  return Object.assign(ask, { requests, forget: () => calls.clear() });
}

const TOOLS = ["echo", "recall", "delegate"];

interface Body {
  readonly id: string;
  readonly messages: readonly Message[];
  readonly subagents: readonly { readonly id: string; readonly session: string }[];
  readonly parent?: { readonly session: string; readonly call: string };
  readonly ledger: { readonly calls: number; readonly promptTokens: number };
  readonly turns: number;
}

async function show(handler: ReturnType<typeof agent>, path: string): Promise<Body> {
  return (await call(handler, "GET", path)).body as Body;
}

const userTexts = (messages: readonly Message[]) =>
  messages.map(({ role, content }) => `${role[0]}: ${contentText(content)}`);

Deno.test("delegate: forks the session for each call in parallel and returns their last texts", async () => {
  const bothRun = Promise.withResolvers<void>();
  let running = 0;
  const ask = model(async (task, call) => {
    if (task === undefined) {
      return call === 1
        ? {
          content: "Two.",
          tool_calls: [delegate("a", "left"), toolCall("e", "echo", { text: "x" }), delegate("b", "right")],
        }
        : { content: "Done." };
    }
    if (call > 1) return { content: `Found ${task}.` };
    if (++running === 2) bothRun.resolve();
    await bothRun.promise;
    return { tool_calls: [toolCall("1", "echo", { text: task })] };
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  const seen = await turn(handler, path, "Look.");
  const parent = await show(handler, path);
  assertEquals(userTexts(parent.messages), [
    "s: Be brief.",
    "u: Look.",
    "a: Two.",
    "t: Found left.",
    "t: x",
    "t: Found right.",
    "a: Done.",
  ]);
  assertEquals(parent.subagents.map(({ id }) => id), ["a", "b"]);
  assertEquals(
    seen.flatMap(({ event }) => (event.type as string) === "subagent_started" ? [event] : []),
    parent.subagents.map((subagent) => ({ type: "subagent_started", ...subagent })) as never,
  );
  for (const [index, task] of ["left", "right"].entries()) {
    const { id, session } = parent.subagents[index]!;
    const subagent = await show(handler, `/tare/v1/sessions/${session}`);
    assertEquals(subagent.parent, { session: parent.id, call: id });
    assertEquals(subagent.messages.slice(0, 3), parent.messages.slice(0, 3));
    assertEquals(unpaired(subagent.messages), []);
    assertEquals(userTexts(subagent.messages).slice(3, 6), [
      "t: A subagent works on this task, with this conversation up to here.",
      "t: The result of echo isn't known here: the call is made once, elsewhere. Make another one if you need it.",
      "t: A subagent works on this task, with this conversation up to here.",
    ]);
    assertEquals(userTexts(subagent.messages).slice(7), ["a: ", `t: ${task}`, `a: Found ${task}.`]);
    assertEquals([subagent.turns, subagent.ledger.calls], [1, 2]);
  }
  assertEquals([parent.ledger.calls, parent.ledger.promptTokens], [6, 600]);
});

Deno.test("delegate: a session and its subagents share one cache key, also after a restart", async () => {
  const ask = model((task, call) =>
    task === undefined && call === 1 ? { tool_calls: [delegate("a", "left")] } : { content: "Done." }
  );
  const store = memoryStore();
  const before = agent(ask, { store });
  const path = await newSession(before, { tools: TOOLS });
  await turn(before, path, "Look.");
  await before.close();
  const after = agent(ask, { store });
  await turn(after, path, "Again.");
  await turn(after, await newSession(after, { tools: TOOLS }), "Write.");
  const keys = ask.requests.map(({ cacheKey }) => cacheKey);
  const [key, other] = [keys[0], keys.at(-1)];
  assertEquals([typeof key, keys], ["string", [key, key, key, key, other]]);
  assertNotEquals(key, other);
});

Deno.test("delegate: a subagent's first request shares its prefix with its parent's newest one and its siblings'", async () => {
  const ask = model((task, call) =>
    task !== undefined || call > 1
      ? { content: "Done." }
      : { tool_calls: [delegate("a", "left"), delegate("b", "right")] }
  );
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  await turn(handler, path, "Look.");
  const [parent, left, right] = ask.requests;
  const { length } = parent!.messages;
  assertEquals(left!.messages.slice(0, length), parent!.messages);
  assertEquals([left!.tools, right!.tools], [parent!.tools, parent!.tools]);
  assertEquals(left!.messages.length, length + 4);
  assertEquals(left!.messages.slice(0, -1), right!.messages.slice(0, -1));
});

Deno.test("delegate: a subagent has only the named tools and no subagents, in an unchanged list", async () => {
  const ask = model((task, call) => {
    if (task === undefined) {
      return call === 1
        ? {
          tool_calls: [
            delegate("a", "narrow", { tools: ["recall"] }),
            delegate("b", "odd", { tools: ["none"] }),
          ],
        }
        : { content: "Done." };
    }
    return call === 1
      ? { tool_calls: [toolCall("1", "echo", { text: "x" }), delegate("2", "more")] }
      : { content: "Narrow." };
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  await turn(handler, path, "Look.");
  const parent = await show(handler, path);
  assertEquals(userTexts(parent.messages).slice(3), [
    "t: Narrow.",
    't: Cannot delegate: there is no tool "none". The tools are: echo, recall, delegate.',
    "a: Done.",
  ]);
  const subagent = await show(handler, `/tare/v1/sessions/${parent.subagents[0]!.session}`);
  assertStringIncludes(
    contentText(subagent.messages.at(-5)?.content),
    "You may use only these tools: recall.",
  );
  const refused = (name: string) =>
    `t: Cannot run ${name}: subagents may not use it. Continue without it, or report what is missing.`;
  assertEquals(userTexts(subagent.messages).slice(-3), [refused("echo"), refused("delegate"), "a: Narrow."]);
  assertEquals(ask.requests.map(({ tools }) => tools.length), [3, 3, 3, 3]);
});

Deno.test("delegate: a subagent at its step limit reports it with its last text", async () => {
  const ask = model((task, call) => {
    if (task !== undefined) {
      return { content: `Step ${call}.`, tool_calls: [toolCall("1", "echo", { text: "x" })] };
    }
    return call === 1 ? { tool_calls: [delegate("a", "long", { max_steps: 2 })] } : { content: "Done." };
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  await turn(handler, path, "Look.");
  const { messages, subagents, ledger } = await show(handler, path);
  assertEquals(
    contentText(messages[3]?.content),
    "The subagent ended without an answer. The turn's budget is exhausted: maxSteps is 2, used: 2. " +
      `Its session is ${subagents[0]!.session}. Its last text:\n\nStep 2.`,
  );
  assertEquals(ledger.calls, 4);
});

Deno.test("delegate: subagents spend their parent's budget once", async () => {
  const ask = model((task, call) => {
    if (task !== undefined) return { tool_calls: [toolCall("1", "echo", { text: "x" })] };
    return call === 1 ? { tool_calls: [delegate("a", "left")] } : { content: "Done." };
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS, budget: { maxTokens: 440 } });
  const seen = await turn(handler, path, "Look.");
  const { ledger, subagents } = await show(handler, path);
  const subagent = await show(handler, `/tare/v1/sessions/${subagents[0]!.session}`);
  assertEquals([ledger.calls, subagent.ledger.calls, ask.requests.length], [4, 3, 4]);
  const end = seen.at(-1)!.event;
  assertEquals(end.type === "turn_end" && [end.reason, end.message], [
    "budget",
    "The session's budget is exhausted: maxTokens is 440, used: 440.",
  ]);
});

Deno.test("delegate: cancelling a turn cancels its subagents, and deleting the session deletes theirs", async () => {
  const requested = Promise.withResolvers<void>();
  const ask = model(async (task, _call, { signal }) => {
    if (task === undefined) return { tool_calls: [delegate("a", "left")] };
    requested.resolve();
    await new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    return {};
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  const running = turn(handler, path, "Look.");
  await requested.promise;
  assertEquals((await call(handler, "POST", `${path}/cancel`)).status, 200);
  await running;
  const { messages, subagents } = await show(handler, path);
  assertEquals(
    userTexts(messages).at(-1),
    "t: Cannot finish delegate: the turn was stopped before it ended.",
  );
  const subagent = `/tare/v1/sessions/${subagents[0]!.session}`;
  assertEquals(userTexts((await show(handler, subagent)).messages).length, 5);
  const ended = await events(await handler.fetch(request("GET", `${subagent}/events`)));
  const { event: end } = ended.at(-1)!;
  assertEquals(end.type === "turn_end" && end.reason, "cancelled");
  assertEquals((await call(handler, "DELETE", path)).status, 204);
  assertEquals((await call(handler, "GET", subagent)).status, 404);
});

Deno.test("delegate: lists omit subagents unless requested", async () => {
  const ask = model((task, call) =>
    task !== undefined || call > 1 ? { content: "Done." } : { tool_calls: [delegate("a", "left")] }
  );
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  await turn(handler, path, "Look.");
  const list = async (query: string) => {
    const { sessions } = (await call(handler, "GET", `/tare/v1/sessions${query}`)).body as {
      sessions: { title: string; parent?: { call: string } }[];
    };
    return sessions.map(({ title, parent }) => [title, parent?.call]);
  };
  assertEquals(await list(""), [["Look.", undefined]]);
  assertEquals(await list("?subagents=true"), [["left", "a"], ["Look.", undefined]]);
});

Deno.test("delegate: sessions have subagents only if they name the tool or the server enables it", async () => {
  const tools = async (delegates: boolean) => {
    const handler = agent(model(() => ({ content: "Done." })), { delegates });
    return (await call(handler, "POST", "/tare/v1/sessions", {})).body as { tools: string[] };
  };
  assertEquals([(await tools(false)).tools, (await tools(true)).tools], [["echo", "recall"], TOOLS]);
});

Deno.test("delegate: a subagent recalls what was evicted from its parent's prompt", async () => {
  const huge = `${"word ".repeat(2_000)}the end`;
  const ask = model((task, call, { messages }) => {
    if (task === undefined) {
      if (call === 1) return { tool_calls: [toolCall("e", "echo", { text: huge })] };
      return call === 2 ? { tool_calls: [delegate("a", "recall it")] } : { content: "Done." };
    }
    if (call > 1) {
      const answers = messages.slice(-2).map(({ content }) => contentText(content));
      return { content: answers.map((text) => `${text.slice(0, 40)} … ${text.slice(-40)}`).join("\n") };
    }
    const ref = /ref ([0-9a-f]{16})/.exec(contentText(messages[3]?.content))?.[1];
    return {
      tool_calls: [
        toolCall("1", "recall", { ref, find: "the end" }),
        toolCall("2", "recall", { find: "THE END" }),
      ],
    };
  });
  const handler = agent(ask, { truncateTokens: 500 });
  const path = await newSession(handler, { tools: TOOLS });
  await turn(handler, path, "Look.");
  const { messages } = await show(handler, path);
  assertMatch(
    contentText(messages.at(-2)?.content),
    /^1, offset 9900: … .* the end …\nref [0-9a-f]{16}, echo \{"text":"word .* the end …$/m,
  );
});

Deno.test("delegate: watchers of a turn see the progress of its subagents", async () => {
  const visible = Promise.withResolvers<void>();
  const ask = model(async (task, call) => {
    if (task === undefined) {
      return call === 1 ? { tool_calls: [delegate("a", "left")] } : { content: "Done." };
    }
    if (call === 1) return { content: "I look.", tool_calls: [toolCall("1", "echo", { text: "x" })] };
    await visible.promise;
    return { content: "Found." };
  });
  const handler = agent(ask);
  const path = await newSession(handler, { tools: TOOLS });
  const { body } = await handler.fetch(request("POST", `${path}/turns`, { input: "Look." }));
  let text = "";
  for await (const piece of body!.pipeThrough(new TextDecoderStream())) {
    text += piece;
    if (text.includes('"tool_output"')) visible.resolve();
  }
  const outputs = [...text.matchAll(/"tool_output".*"text":(".*")/g)].map(([, json]) => JSON.parse(json!));
  assertEquals(outputs, ['I look.\necho {"text":"x"}\n']);
});

Deno.test("delegate: a call is refused above the limit of turns or sessions", async () => {
  const results = async (options: Parameters<typeof agent>[1]) => {
    const ask = model((_, call) =>
      call === 1 ? { tool_calls: [delegate("a", "left")] } : { content: "Done." }
    );
    const handler = agent(ask, options);
    const path = await newSession(handler, { tools: TOOLS });
    await turn(handler, path, "Look.");
    const { messages, subagents } = await show(handler, path);
    return [...userTexts(messages).filter((text) => text.startsWith("t")), subagents.length];
  };
  assertEquals(await results({ maxRunningTurns: 1 }), [
    "t: Cannot start a turn: the limit of running turns (1) is reached. Retry when one has ended.",
    0,
  ]);
  assertEquals(await results({ maxSessions: 1 }), [
    "t: Cannot create a session: 1 of at most 1 are stored. Delete some, or let idle ones expire.",
    0,
  ]);
});

Deno.test("delegate: a subagent has its parent's permissions and requests no approval", async () => {
  const ask = model((task, call) => {
    if (task === undefined) {
      return call === 1 ? { tool_calls: [delegate("a", "left")] } : { content: "Done." };
    }
    return call === 1 ? { tool_calls: [toolCall("1", "echo", { text: "x" })] } : { content: "Found." };
  });
  const handler = agent(ask, { approvals: {} });
  const play = async (approvalRules: readonly object[]) => {
    const path = await newSession(handler, { tools: TOOLS, approvalRules });
    await turn(handler, path, "Look.");
    const { subagents } = await show(handler, path);
    return userTexts((await show(handler, `/tare/v1/sessions/${subagents[0]!.session}`)).messages).at(-2);
  };
  assertEquals(await play([]), `t: Cannot run echo: ${CANNOT_ASK}`);
  ask.forget();
  assertEquals(await play([{ tool: "echo", decision: "allow" }]), "t: x");
});

Deno.test("delegate: a subagent has the tools of its parent's turn, even after their servers changed them", async () => {
  const find: Tool = {
    definition: { type: "function", function: { name: "docs__find", parameters: { type: "object" } } },
    stance: "rederivable",
    run: () => "result of find",
  };
  let tools = [find];
  const toolSource: ToolSource = {
    names: ["docs"],
    known: () => tools,
    take: () => Promise.resolve({ tools, warnings: [] }),
  };
  const ask = model((task, call) => {
    if (task === undefined) {
      if (call > 1) return { content: "Done." };
      tools = [];
      return { tool_calls: [delegate("a", "left"), delegate("b", "narrow", { tools: ["echo"] })] };
    }
    return call === 1 ? { tool_calls: [toolCall("1", "docs__find", {})] } : { content: "Found." };
  });
  const handler = agent(ask, { toolSource });
  const path = await newSession(handler, { tools: [...TOOLS, "docs__*"] });
  await turn(handler, path, "Look.");
  const [parent, ...others] = ask.requests.map(({ tools }) => tools.map(({ function: { name } }) => name));
  assertEquals(parent, [...TOOLS, "docs__find"]);
  assertEquals(others, Array(5).fill(parent));
  const { subagents } = await show(handler, path);
  const results = await Promise.all(
    subagents.map(async ({ session }) =>
      userTexts((await show(handler, `/tare/v1/sessions/${session}`)).messages).at(-2)
    ),
  );
  assertEquals(results, [
    "t: result of find",
    "t: Cannot run docs__find: subagents may not use it. Continue without it, or report what is missing.",
  ]);
});

Deno.test("delegate: of 200 parallel calls 16 run at a time, none starts after the budget, and 100 is the maximum", async () => {
  const many = Array.from({ length: 200 }, (_, at) => delegate(`d${at}`, `task ${at}`));
  const play = async (budget: Record<string, number>) => {
    let [working, most] = [0, 0];
    const ask = model(async (task, call) => {
      if (task === undefined) return call === 1 ? { tool_calls: many } : { content: "Done." };
      most = Math.max(most, ++working);
      await new Promise((resolve) => setTimeout(resolve));
      working--;
      return { content: `Found ${task}.` };
    });
    const handler = agent(ask, { store: memoryStore() });
    const path = await newSession(handler, { tools: TOOLS, budget });
    const received = await turn(handler, path, "Go.");
    const results = received.flatMap(({ event }) =>
      event.type === "tool_result" ? [String(event.content)] : []
    );
    const { subagents } = await show(handler, path);
    await handler.close();
    return { most, subagents: subagents.length, results };
  };
  // The requesting reply costs 110, as does each subagent.
  const spent = await play({ maxTokens: 110 });
  assertEquals([spent.most, spent.subagents, new Set(spent.results)], [
    0,
    0,
    new Set([
      "Cannot delegate: The session's budget is exhausted: maxTokens is 110, used: 110.",
      "Cannot delegate: this turn has had 100 subagents, the maximum. Do the rest yourself.",
    ]),
  ]);
  const some = await play({ maxTokens: 1_000 });
  assertEquals([some.most <= 16, some.subagents < 16 + 10], [true, true]);
  const all = await play({});
  assertEquals([all.most <= 16, all.subagents], [true, 100]);
  assertEquals(all.results.filter((result) => result.includes("the maximum")).length, 100);
});

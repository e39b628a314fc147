import { assertEquals, assertObjectMatch } from "@std/assert";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { programTool } from "@tare/tools/programs";
import { workspaceTools } from "@tare/tools";
import { openCheckpoints } from "@tare/tools/undo";
import { contentText, type Model, type Tool } from "@tare/messages";
import type { ApprovalOptions, HttpAgent } from "@tare/server";
import { sharedMemory } from "../../../tests/shared_memory.ts";
import {
  answerCall,
  asking,
  follow,
  outline,
  readTurn,
  recorder,
  toolCall,
} from "../approvals/fixture_test.ts";
import { ALLOW_EVERYTHING } from "../approvals/rules.ts";
import {
  agent,
  call,
  events,
  newSession,
  request,
  scriptedModel,
  type TestOptions,
  turn,
} from "../fixture_test.ts";
import { recordedStore } from "../sessions/store_fixture_test.ts";

function running(code: string): Model {
  return scriptedModel([{ tool_calls: [toolCall("p", "run_program", { code })] }, { content: "Done." }]);
}

const results = async (handler: HttpAgent, path: string) => {
  const { messages } = (await call(handler, "GET", path)).body as {
    messages: { role: string; content: string }[];
  };
  return messages.filter(({ role }) => role === "tool").map(({ content }) => contentText(content));
};

Deno.test("code mode: a program waits for approvals and continues without repeating calls", async () => {
  const [write, read] = [recorder("write"), recorder("read", { stance: "rederivable" })];
  const model = running(`
    const seen = await tools.read({});
    const [a, b] = await Promise.allSettled([tools.write({ n: 1 }), tools.write({ n: 2 }), tools.read({ n: 3 })]);
    print(seen, a.value, b.reason.message);
    print(await tools.write({ n: 4 }));
  `);
  const store = memoryStore();
  const options = asking({ store, tools: [write.tool, read.tool, programTool()], now: () => 5 });
  const handler = agent(model, options);
  const session = await newSession(handler);
  const stopped = await turn(handler, session, "Go");
  assertEquals(outline(stopped), [
    ...["turn_start", "step_start", "assistant_message", "tool_call p"],
    ...["tool_call p/1", "tool_result p/1 read ran", "tool_call p/4", "tool_result p/4 read ran"],
    ...["step_end", "approval_requested p/2", "approval_requested p/3", "turn_end approval"],
  ]);
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as { approvals: unknown };
  const about = { name: "write", parent: "p", requestedAtMs: 5, expiresAtMs: 5 + 24 * 60 * 60_000 };
  const ids = stopped.flatMap(({ event }) => event.type === "approval_requested" ? [event.approvalId] : []);
  assertEquals(approvals, [
    { id: ids[0], callId: "p/2", arguments: '{"n":1}', ...about },
    { id: ids[1], callId: "p/3", arguments: '{"n":2}', ...about },
  ]);
  await handler.close();

  const next = agent(scriptedModel([{ content: "Done." }]), options);
  const { id: last } = stopped.at(-1)!;
  const following = follow(next, session, last);
  await answerCall(next, session, { callId: "p/2", decision: "always" });
  await answerCall(next, session, { callId: "p/3", decision: "deny", reason: "Not that." });
  assertEquals(outline(await following), [
    ...["approval_answered p/2 allow user", "approval_answered p/3 Not that. deny user", "turn_start"],
    ...["tool_call p/3", "tool_result p/3 Cannot run write: the user denied it: Not that."],
    ...["tool_call p/2", "tool_result p/2 write ran"],
    ...["tool_call p/5", "tool_result p/5 write ran"],
    "tool_result p read ran write ran Cannot run write: the user denied it: Not that.\nwrite ran",
    ...["step_start", "text_delta", "assistant_message", "step_end", "turn_end completed"],
  ]);
  assertEquals([read.ran, write.ran], [[{}, { n: 3 }], [{ n: 1 }, { n: 4 }]]);
  assertEquals(await results(next, session), [
    "read ran write ran Cannot run write: the user denied it: Not that.\nwrite ran",
  ]);
});

/** Writes each line once, whatever happens to the calls; one requires approval. */
const CAREFUL = `
  const put = async (name, line) => {
    try {
      return await tools[name]({ line });
    } catch {
      // Unknown outcomes are checked.
      return (await tools.look({})).split(" ").includes(line) ? line + " put" : await tools[name]({ line });
    }
  };
  const first = await put("put", "a");
  const both = await Promise.all([put("guarded", "b"), tools.look({}).then(() => "looked"), put("guarded", "c")]);
  print(first, both.join(), await put("put", "d"), Math.random() < 1, Date.now());
  return (await tools.look({})).split(" ").sort().join(" ");
`;

const PUT = "a put b put,looked,c put d put true 7\na b c d";

function world(store: { readonly writes: number }, before: readonly string[] = []) {
  const lines = before.map((line) => ({ line, at: 0 }));
  const put = (name: string): Tool => ({
    definition: {
      type: "function",
      function: { name, parameters: { type: "object", properties: { line: { type: "string" } } } },
    },
    run({ line }) {
      lines.push({ line: String(line), at: store.writes });
      return `${line} put`;
    },
  });
  const look: Tool = {
    definition: { type: "function", function: { name: "look", parameters: { type: "object" } } },
    stance: "rederivable",
    run: () => lines.map(({ line }) => line).join(" "),
  };
  return { lines, tools: [put("put"), put("guarded"), look, programTool()] };
}

const GUARDED: TestOptions = {
  now: () => 7,
  approvals: { rules: [{ tool: "guarded", decision: "ask" }, ...ALLOW_EVERYTHING] },
  after: () => () => {},
};

async function untilDone(handler: HttpAgent, path: string): Promise<number> {
  let requestCount = 0;
  for (let rounds = 0; rounds < 20; rounds++) {
    const { status, approvals, lastEvent, ...body } = (await call(handler, "GET", path)).body as {
      status: string;
      approvals: readonly { id: string }[];
      lastEvent: number;
      messages: readonly { role: string; content?: unknown }[];
    };
    if (status === "running") {
      await readTurn(handler, path, lastEvent);
    } else if (approvals.length > 0) {
      requestCount++;
      const answered = await call(handler, "POST", `${path}/approvals/${approvals[0]!.id}`, {
        decision: "allow",
      });
      const { approvals: left, after } = answered.body as { approvals: unknown[]; after: number };
      if (left.length === 0) await readTurn(handler, path, after);
    } else if (body.messages.at(-1)?.content === "Done.") return requestCount;
    else throw new Error(`The turn ended without an answer: ${JSON.stringify(body.messages.at(-1))}`);
  }
  throw new Error("The turn doesn't end.");
}

const careful: Model = async function* ({ messages }) {
  const isDone = messages.at(-1)?.role === "tool";
  yield {
    type: "completed",
    message: {
      role: "assistant",
      content: isDone ? "Done." : null,
      ...(!isDone && { tool_calls: [toolCall("p", "run_program", { code: CAREFUL })] }),
    },
    finishReason: isDone ? "stop" : "tool_calls",
    usage: { promptTokens: 10, cachedTokens: 5, outputTokens: 2 },
  };
};

Deno.test("code mode: a program has the same result wherever its server is killed, without repeated or lost writes", async () => {
  const store = recordedStore();
  const { lines, tools } = world(store);
  const handler = agent(careful, { ...GUARDED, store, tools });
  const path = await newSession(handler);
  const from = store.writes;
  await turn(handler, path, "Go");
  assertEquals(await untilDone(handler, path), 2);
  await handler.close();
  assertEquals([lines.map(({ line }) => line), await results(handler, path)], [["a", "b", "c", "d"], [PUT]]);
  const kills = [];
  for (let writes = from + 1; writes < store.writes; writes++) {
    // Effects after the last commit may be missing.
    for (const latest of new Set([writes - 1, writes])) kills.push({ writes, latest });
  }
  for (const { writes, latest } of kills) {
    const reopened: Store = await store.upTo(writes);
    const done = lines.filter(({ at }) => at <= latest).map(({ line }) => line);
    const next = world(store, done);
    const handler = agent(careful, { ...GUARDED, store: reopened, tools: next.tools });
    await untilDone(handler, path);
    const seen = [next.lines.map(({ line }) => line).sort(), await results(handler, path)];
    assertEquals(seen, [["a", "b", "c", "d"], [PUT]], `killed after write ${writes}, with ${done} written`);
    await handler.close();
  }
});

Deno.test("code mode: the model learns of unanswered approvals from a message or the cancellation", async () => {
  const write = recorder("write");
  const code = "await tools.write({ n: 1 }); await tools.write({ n: 2 });";
  const model = scriptedModel([
    { tool_calls: [toolCall("p", "run_program", { code })] },
    { tool_calls: [toolCall("p", "run_program", { code })] },
    { content: "Done." },
  ]);
  const handler = agent(model, asking({ tools: [write.tool, programTool()] }));
  const session = await newSession(handler);
  await turn(handler, session, "Go");
  const { id: last } = (await turn(handler, session, "Something else")).at(-1)!;
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(outline(await follow(handler, session, last)), [
    "approval_answered p/1 deny cancel",
    "message_added",
  ]);
  assertEquals(write.ran, []);
  const stopped = (why: string) =>
    `Cannot finish run_program: it had called write, and ${why} Its earlier calls were made.`;
  assertEquals(await results(handler, session), [
    stopped("the user continued without approving it."),
    stopped("the user cancelled instead of approving it."),
  ]);
});

/** A server that ended during a program's call, and one that continues. */
async function cutOff(unknownOutcome: NonNullable<ApprovalOptions["unknownOutcome"]>, name: string) {
  const store = recordedStore();
  const begun = Promise.withResolvers<void>();
  const made = (name: string, run: Tool["run"], more: Partial<Tool> = {}): Tool => ({
    definition: { type: "function", function: { name, parameters: { type: "object" } } },
    ...{ run, ...more },
  });
  const more = (name: string): Partial<Tool> =>
    name === "look" ? { stance: "rederivable" } : name === "put" ? { hints: { idempotentHint: true } } : {};
  const ran: string[] = [];
  const tools = (run: (name: string, signal: AbortSignal) => Promise<string> | string) => [
    ...["act", "look", "put"].map((name) => made(name, (_, { signal }) => run(name, signal), more(name))),
    programTool(),
  ];
  const options = {
    approvals: { rules: ALLOW_EVERYTHING, unknownOutcome },
    clock: { now: () => 0, after: () => () => {} },
    after: () => () => {},
  };
  const code = `
    print(await tools.${name}({}).catch((error) => error.message));
    print(await tools.act({}), await tools.look({}));
  `;
  const hanging = tools((_, signal) => {
    begun.resolve();
    return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  });
  const before = agent(running(code), { ...options, store, tools: hanging });
  const path = await newSession(before);
  await before.fetch(request("POST", `${path}/turns`, { input: "q" }));
  await begun.promise;
  const reopened = await store.upTo(store.writes);
  await before.close();
  const working = tools((name) => (ran.push(name), `${name} ran`));
  const handler = agent(scriptedModel([{ content: "Done." }]), {
    ...options,
    store: reopened,
    tools: working,
  });
  return { handler, path, ran };
}

const UNKNOWN =
  "Cannot report the result: interrupted, outcome unknown. It may have taken effect: check before calling it again.";

for (
  const [unknownOutcome, name, first, ran] of [
    ["report", "act", UNKNOWN, ["act", "look"]],
    ["report", "look", "look ran", ["look", "act", "look"]],
    ["repeat", "put", "put ran", ["put", "act", "look"]],
    ["repeat", "act", UNKNOWN, ["act", "look"]],
  ] as const
) {
  Deno.test(`code mode: a program gets the unknown outcome of its call of ${name}: ${unknownOutcome}`, async () => {
    const { handler, path, ran: made } = await cutOff(unknownOutcome, name);
    assertEquals(outline(await follow(handler, path, 0)).at(-1), "turn_end completed");
    assertEquals(await results(handler, path), [`${first}\nact ran look ran`]);
    assertEquals(made, [...ran]);
  });
}

Deno.test("code mode: only an interrupted call requests approval to run again", async () => {
  const { handler, path, ran } = await cutOff("ask", "act");
  const { id: last } = (await readTurn(handler, path, 0)).at(-1)!;
  const { approvals } = (await call(handler, "GET", `${path}/approvals`)).body as {
    approvals: { callId: string; begun?: boolean }[];
  };
  assertEquals(approvals.map(({ callId, begun }) => [callId, begun]), [["p/1", true]]);
  const following = follow(handler, path, last);
  await answerCall(handler, path, { callId: "p/1", decision: "allow" });
  assertEquals(outline(await following).at(-1), "turn_end completed");
  assertEquals(ran, ["act", "act", "look"]);
  assertEquals(await results(handler, path), ["act ran\nact ran look ran"]);
});

Deno.test("code mode: a program finds and calls tools that the prompt doesn't define", async () => {
  const prose = "A long description that only callers of the tool need to know. ".repeat(10);
  const many = Array.from({ length: 40 }, (_, at): Tool => ({
    definition: {
      type: "function",
      function: {
        name: `make_${at}`,
        description: `Makes ${at}. ${prose}`,
        parameters: { type: "object", properties: { id: { type: "integer" } }, required: ["id"] },
      },
    },
    mayDefer: true,
    run: ({ id }) => `made ${at} of ${id}`,
  }));
  const code = `
    const found = await tools.find_tools({ query: "make_7" });
    print(found.includes('"name":"make_7"'));
    print(await tools.call_tool({ name: "make_7", arguments: { id: 1 } }), await tools.make_8({ id: 2 }));
    print(await tools.make_9({ id: "nine" }).catch((error) => error.message.split(":")[0]));
  `;
  const handler = agent(running(code), { tools: [...many, programTool()] });
  const session = await newSession(handler);
  const seen = await turn(handler, session, "Go");
  assertEquals(await results(handler, session), [
    "true\nmade 7 of 1 made 8 of 2\nCannot run make_9",
  ]);
  assertEquals(outline(seen).filter((line) => line.startsWith("tool_call")), [
    ...["tool_call p", "tool_call p/1", "tool_call p/2", "tool_call p/3", "tool_call p/4"],
  ]);
  const made = seen.flatMap(({ event }) => event.type === "tool_result" ? event.made ?? [] : []);
  assertEquals(made.map(({ calls, failed, omittedTokens }) => [calls, failed, omittedTokens > 100]), [[
    4,
    1,
    true,
  ]]);
  const spend = (await call(handler, "GET", `${session}/spend`)).body as { programs: unknown };
  assertEquals(spend.programs, { programs: 1, ...made[0] });
  const { calls, failed, omittedTokens } = made[0]!;
  const totals = {
    programs: 1,
    programCalls: calls,
    failedProgramCalls: failed,
    programOmittedTokens: omittedTokens,
  };
  type Reports = { all: object; rows: object[]; today: object };
  const ofDays = (await call(handler, "GET", "/tare/v1/spend?by=day")).body as Reports;
  const overview = (await call(handler, "GET", "/tare/v1/overview")).body as Reports;
  for (const report of [ofDays.all, ofDays.rows[0]!, overview.all, overview.today]) {
    assertObjectMatch(report, totals);
  }
});

Deno.test("code mode: a program's writes can be undone, and rules apply to each of its calls", async () => {
  const folder = await Deno.realPath(await Deno.makeTempDir());
  const workspace = `${folder}/workspace`;
  await Deno.mkdir(workspace);
  const checkpoints = openCheckpoints({ workspace, folder: `${folder}/undo` });
  const code = `
    for (const path of ["a.txt", "b.txt"]) await tools.write_file({ path, content: path });
    print(await tools.shell({ command: "ls" }).catch((error) => error.message));
  `;
  const handler = agent(running(code), {
    ...{ checkpoints, tools: [...workspaceTools({ workspace }), programTool()] },
    approvals: { rules: [{ tool: "shell", decision: "deny" }, ...ALLOW_EVERYTHING], workspace },
  });
  try {
    const session = await newSession(handler);
    await turn(handler, session, "Go");
    assertEquals(await results(handler, session), [
      "Cannot run shell: a rule forbids it. Find another way, or report that it can't be done.\n\n[Written: a.txt, b.txt]",
    ]);
    const names = () => [...Deno.readDirSync(workspace)].map(({ name }) => name).toSorted();
    assertEquals(names(), ["a.txt", "b.txt"]);
    const { body } = await call(handler, "POST", `${session}/undo`, {});
    assertEquals((body as { files: unknown }).files, [
      { path: "a.txt", change: "deleted" },
      { path: "b.txt", change: "deleted" },
    ]);
    assertEquals(names(), []);
  } finally {
    await handler.close();
    await checkpoints.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("code mode: a program may delegate to subagents, which request no approval", async () => {
  const write = recorder("write");
  const code =
    `print((await Promise.all([1, 2].map((n) => tools.delegate({ task: "Part " + n })))).join(" and "));`;
  const model: Model = async function* ({ messages }) {
    const text = String(messages.findLast(({ role }) => role === "user")?.content);
    const answered = messages.at(-1)?.role === "tool";
    const content = text.includes("Part 1") ? "one" : text.includes("Part 2") ? "two" : "Done.";
    const own = { tool_calls: [toolCall("p", "run_program", { code })] };
    const delegating = { tool_calls: [toolCall("h", "run_program", { code: "await tools.write({})" })] };
    yield {
      type: "completed",
      message: {
        role: "assistant",
        content: answered ? content : null,
        ...(!answered && (content === "Done." ? own : delegating)),
      },
      finishReason: answered ? "stop" : "tool_calls",
    };
  };
  const handler = agent(model, asking({ tools: [write.tool, programTool()], delegates: true }));
  const session = await newSession(handler);
  await turn(handler, session, "Go");
  assertEquals([await results(handler, session), write.ran], [["one and two"], []]);
  const { subagents } = (await call(handler, "GET", session)).body as { subagents: { id: string }[] };
  assertEquals(subagents.map(({ id }) => id).toSorted(), ["p/1", "p/2"]);
});

Deno.test("code mode: cancelling a turn stops its program", async () => {
  const begun = Promise.withResolvers<void>();
  const hangs: Tool = {
    definition: { type: "function", function: { name: "hangs" } },
    run: (_, { signal }) => {
      begun.resolve();
      return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    },
  };
  const handler = agent(running("await tools.hangs({});"), { tools: [hangs, programTool()] });
  const session = await newSession(handler);
  const response = await handler.fetch(request("POST", `${session}/turns`, { input: "Go" }));
  const seen = events(response);
  await begun.promise;
  await call(handler, "POST", `${session}/cancel`);
  assertEquals(outline(await seen).slice(-4), [
    "tool_result p/1 Cannot finish hangs: the turn was stopped before it ended.",
    "tool_result p Cannot finish run_program: the turn was stopped before it ended.",
    ...["step_end", "turn_end cancelled"],
  ]);
});

Deno.test("code mode: a shutdown leaves a program between two of its calls, none of unknown outcome", async () => {
  const memory = sharedMemory();
  const begun = Promise.withResolvers<void>();
  const free = Promise.withResolvers<void>();
  const ran: string[] = [];
  const code = `for (const n of [1, 2, 3]) print(await tools.step({ n }));`;
  const server = (where: string) => {
    const opening = memory.open();
    const step: Tool = {
      definition: { type: "function", function: { name: "step" } },
      async run({ n }) {
        ran.push(`${n} ${where}`);
        begun.resolve();
        await free.promise;
        return `step ${n}`;
      },
    };
    const model = where === "a" ? running(code) : scriptedModel([{ content: "Done." }]);
    return {
      opening,
      handler: agent(model, { after: () => () => {}, store: opening.store, tools: [step, programTool()] }),
    };
  };
  const [a, b] = [server("a"), server("b")];
  const path = await newSession(a.handler);
  const onA = await a.handler.fetch(request("POST", `${path}/turns`, { input: "Go" }));
  await begun.promise;
  const onB = follow(b.handler, path, 0);
  const closed = a.handler.close({ leaveWithinMs: 20_000 });
  free.resolve();
  await closed;
  await onA.text();
  await a.opening.store.close();
  assertEquals(outline(await onB).filter((line) => /^(tool|turn)/.test(line)), [
    ...["turn_start", "tool_call p", "tool_call p/1", "tool_result p/1 step 1", "turn_resumed"],
    ...["tool_call p/2", "tool_result p/2 step 2", "tool_call p/3", "tool_result p/3 step 3"],
    ...["tool_result p step 1\nstep 2\nstep 3", "turn_end completed"],
  ]);
  assertEquals(ran, ["1 a", "2 b", "3 b"]);
  await b.handler.close();
});

import { assertEquals } from "@std/assert";
import { memoryStore, type Store } from "@tare/conversation";
import { programTool } from "@tare/loop/programs";
import { contentText, type Model, type Tool } from "@tare/messages";
import type { AgentHandler, AgentOptions } from "@tare/server";
import { asking, follow, outline, readTurn, recorder, toolCall } from "../approvals/fixture_test.ts";
import { ALLOW_EVERYTHING } from "../approvals/rules.ts";
import { agent, call, newSession, request, scriptedModel, turn } from "../fixture_test.ts";
import { recordedStore } from "../sessions/store_fixture_test.ts";

/** A model that runs this program and then answers. */
function running(code: string): Model {
  return scriptedModel([{ tool_calls: [toolCall("p", "run_program", { code })] }, { content: "Done." }]);
}

const results = async (handler: AgentHandler, path: string) => {
  const { messages } = (await call(handler, "GET", path)).body as {
    messages: { role: string; content: string }[];
  };
  return messages.filter(({ role }) => role === "tool").map(({ content }) => contentText(content));
};

Deno.test("a program waits for whoever is asked about its calls, and goes on without making any twice", async () => {
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
  const asked = await turn(handler, session, "Go");
  assertEquals(outline(asked), [
    ...["turn_start", "step_start", "assistant_message", "tool_call p"],
    ...["tool_call p/1", "tool_result p/1 read ran", "tool_call p/4", "tool_result p/4 read ran"],
    ...["step_end", "approval_asked p/2", "approval_asked p/3", "turn_end approval"],
  ]);
  const { approvals } = (await call(handler, "GET", `${session}/approvals`)).body as { approvals: unknown };
  const about = { name: "write", parent: "p", askedAtMs: 5, expiresAtMs: 5 + 24 * 60 * 60_000 };
  assertEquals(approvals, [
    { callId: "p/2", arguments: '{"n":1}', ...about },
    { callId: "p/3", arguments: '{"n":2}', ...about },
  ]);
  await handler.close();

  // Another server, which knows nothing but what is stored.
  const next = agent(scriptedModel([{ content: "Done." }]), options);
  const answer = (id: string, body: unknown) =>
    call(next, "POST", `${session}/approvals/${encodeURIComponent(id)}`, body);
  const { id: last } = asked.at(-1)!;
  const following = follow(next, session, last);
  await answer("p/2", { decision: "always" });
  await answer("p/3", { decision: "deny", reason: "Not that." });
  assertEquals(outline(await following), [
    ...["approval_answered p/2 allow person", "approval_answered p/3 Not that. deny person", "turn_start"],
    ...["tool_call p/3", "tool_result p/3 Cannot run write: the user said no: Not that."],
    ...["tool_call p/2", "tool_result p/2 write ran"],
    ...["tool_call p/5", "tool_result p/5 write ran"],
    "tool_result p read ran write ran Cannot run write: the user said no: Not that.\nwrite ran",
    ...["step_start", "text_delta", "assistant_message", "step_end", "turn_end completed"],
  ]);
  assertEquals([read.ran, write.ran], [[{}, { n: 3 }], [{ n: 1 }, { n: 4 }]]);
  assertEquals(await results(next, session), [
    "read ran write ran Cannot run write: the user said no: Not that.\nwrite ran",
  ]);
});

/** Writes each line once, whatever becomes of the calls, and one that somebody has to allow. */
const CAREFUL = `
  const put = async (name, line) => {
    try {
      return await tools[name]({ line });
    } catch {
      // What nobody knows is looked up.
      return (await tools.look({})).split(" ").includes(line) ? line + " put" : await tools[name]({ line });
    }
  };
  const first = await put("put", "a");
  const both = await Promise.all([put("guarded", "b"), tools.look({}).then(() => "looked"), put("guarded", "c")]);
  print(first, both.join(), await put("put", "d"), Math.random() < 1, Date.now());
  return (await tools.look({})).split(" ").sort().join(" ");
`;

const PUT = "a put b put,looked,c put d put true 7\na b c d";

/** Lines that are written, with how much was stored then. */
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

const GUARDED: Partial<AgentOptions> = {
  now: () => 7,
  approvals: {
    rules: [{ tool: "guarded", decision: "ask" }, ...ALLOW_EVERYTHING],
    after: () => () => {},
  },
};

/** Lets the session's turn come to its end, and allows whatever is asked meanwhile. Gives how often that was. */
async function untilDone(handler: AgentHandler, path: string): Promise<number> {
  let asked = 0;
  for (let rounds = 0; rounds < 20; rounds++) {
    const { status, approvals, lastEvent, ...body } = (await call(handler, "GET", path)).body as {
      status: string;
      approvals: readonly { callId: string }[];
      lastEvent: number;
      messages: readonly { role: string; content?: unknown }[];
    };
    if (status === "running") {
      await readTurn(handler, path, lastEvent);
    } else if (approvals.length > 0) {
      const { callId } = approvals[0]!;
      asked++;
      const answered = await call(handler, "POST", `${path}/approvals/${encodeURIComponent(callId)}`, {
        decision: "allow",
      });
      const { approvals: left, after } = answered.body as { approvals: unknown[]; after: number };
      if (left.length === 0) await readTurn(handler, path, after);
    } else if (body.messages.at(-1)?.content === "Done.") return asked;
    else throw new Error(`The turn ended without an answer: ${JSON.stringify(body.messages.at(-1))}`);
  }
  throw new Error("The turn doesn't end.");
}

/** Runs a program, or answers. */
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

Deno.test("a program ends the same wherever its server is killed: nothing is written twice or lost", async () => {
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
    // What ran behind the last commit may have taken effect, or not.
    for (const latest of new Set([writes - 1, writes])) kills.push({ writes, latest });
  }
  for (const { writes, latest } of kills) {
    const kept: Store = await store.upTo(writes);
    const done = lines.filter(({ at }) => at <= latest).map(({ line }) => line);
    const next = world(store, done);
    const handler = agent(careful, { ...GUARDED, store: kept, tools: next.tools });
    await untilDone(handler, path);
    const seen = [next.lines.map(({ line }) => line).sort(), await results(handler, path)];
    assertEquals(seen, [["a", "b", "c", "d"], [PUT]], `killed after write ${writes}, with ${done} written`);
    await handler.close();
  }
});

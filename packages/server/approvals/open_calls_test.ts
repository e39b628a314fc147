import { assertEquals } from "@std/assert";
import type {
  AssistantMessage,
  FunctionToolCall,
  Message,
  Model,
  Tool,
  ToolDefinition,
} from "@tare/messages";
import type { Store } from "@tare/session";
import { memoryStore } from "@tare/session/sqlite";
import { makeSession, scriptedSessions, unpaired } from "../script_fixture_test.ts";
import { openCalls } from "./approvals.ts";
import type { AgentSession } from "../sessions/agent_session.ts";
import type { TurnRequest } from "../sessions/session_types.ts";
import { recordedStore } from "../sessions/store_fixture_test.ts";

const PICK: ToolDefinition = { type: "function", function: { name: "pick" } };
const call = (id: string, name: string): FunctionToolCall => ({
  id,
  type: "function",
  function: { name, arguments: "{}" },
});
const BOTH = [call("p", "pick"), call("e", "count")];
const PICKED = { role: "tool", tool_call_id: "p", content: "blue" } as const;
const UNTOLD = "Cannot report the result of pick: the client sent none.";

function harness(store: Store, onCount: () => unknown = () => {}) {
  const prompts: Message[][] = [];
  let runs = 0;
  const count: Tool = {
    definition: { type: "function", function: { name: "count" } },
    async run() {
      await onCount();
      return `run ${++runs}`;
    },
  };
  const model: Model = async function* ({ messages }) {
    await Promise.resolve();
    prompts.push([...messages]);
    const isFirst = !messages.some(({ role }) => role === "tool");
    const message: AssistantMessage = {
      role: "assistant",
      content: isFirst ? null : "Done.",
      ...(isFirst && { tool_calls: BOTH }),
    };
    yield { type: "completed", message, finishReason: isFirst ? "tool_calls" : "stop" };
  };
  return {
    sessions: scriptedSessions({ store, model: () => model, tools: [count] }),
    prompts,
    runs: () => runs,
  };
}

async function play(session: AgentSession, request: TurnRequest): Promise<void> {
  const turn = await session.start({ clientTools: [PICK], ...request });
  await turn.done;
}

const judgedWith = (messages: readonly Message[] = []) =>
  messages.map(({ role, content }) => `${role[0]}: ${content}`);

Deno.test("AgentSession.start() continues with the results of calls that the last turn left open", async () => {
  const { sessions, prompts, runs } = harness(memoryStore());
  const session = await makeSession(sessions);
  await play(session, { input: "q" });
  assertEquals(openCalls(session.history).map(({ id }) => id), ["p"]);
  await play(session, { results: [PICKED] });
  assertEquals(judgedWith(prompts[1]), ["s: Be brief.", "u: q", "a: null", "t: run 1", "t: blue"]);
  assertEquals([judgedWith(session.history).at(-1), runs()], ["a: Done.", 1]);
});

Deno.test("openCalls() returns calls without a result, also in the first message of a history", () => {
  const calling = { role: "assistant", tool_calls: BOTH } as const;
  assertEquals(openCalls([calling]), BOTH);
  assertEquals(openCalls([calling, PICKED]), BOTH.slice(1));
  assertEquals(openCalls([]), []);
});

Deno.test("AgentSession.start() answers open calls with an error if the client sends no results", async () => {
  for (const request of [{}, { input: "r" }]) {
    const { sessions, prompts } = harness(memoryStore());
    const session = await makeSession(sessions);
    await play(session, { input: "q" });
    await play(session, request);
    const more = "input" in request ? ["u: r"] : [];
    assertEquals(judgedWith(prompts[1]).slice(3), ["t: run 1", `t: ${UNTOLD}`, ...more]);
    assertEquals(unpaired(session.history), []);
  }
});

Deno.test(
  "AgentSession.steerOrStart() keeps an input with open calls until their results are there, also over a restart",
  async () => {
    for (const restarts of [false, true]) {
      const store = memoryStore();
      let steer = (): unknown => undefined;
      const first = harness(store, () => steer());
      const session = await makeSession(first.sessions);
      steer = () => session.steerOrStart({ input: "also" });
      await play(session, { input: "q" });
      assertEquals(judgedWith(session.history), ["s: Be brief.", "u: q", "a: null", "t: run 1"]);
      const next = restarts ? harness(store) : first;
      await play(restarts ? await next.sessions.get(session.id) : session, { results: [PICKED] });
      const heard = ["s: Be brief.", "u: q", "a: null", "t: run 1", "t: blue", "u: also"];
      assertEquals(judgedWith(next.prompts.at(-1)), heard);
    }
  },
);

Deno.test("open calls: a crash between two writes leaves no call of client or agent open, and none runs twice", async () => {
  const store = recordedStore();
  const whole = harness(store);
  const session = await makeSession(whole.sessions);
  await play(session, { input: "q" });
  await play(session, { results: [PICKED] });
  const history = judgedWith(session.history);
  for (let writes = 2; writes <= store.writes; writes++) {
    const after = harness(await store.upTo(writes));
    const found = await after.sessions.get(session.id);
    const isReplyStored = found.history.some(({ role }) => role === "assistant");
    const waits = openCalls(found.history).length > 0;
    while (openCalls(found.history).length > 0 || found.history.at(-1)?.role !== "assistant") {
      await play(found, { results: [PICKED] });
    }
    const what = `after ${writes} writes`;
    assertEquals([unpaired(found.history), after.runs()], [[], isReplyStored ? 0 : 1], what);
    if (waits) assertEquals(judgedWith(found.history), history, what);
  }
});

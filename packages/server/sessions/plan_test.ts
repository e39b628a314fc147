import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { workspaceTools } from "@tare/tools";
import type { AssistantMessage, Model, ModelRequest } from "@tare/messages";
import { describeCall } from "@tare/messages/internal";
import { agent, call, echo, newSession, turn } from "../fixture_test.ts";

const plan = workspaceTools({ workspace: "/" }).filter(({ definition }) =>
  definition.function.name === "update_plan"
);

function planning(replies: readonly Partial<AssistantMessage>[]): { model: Model; plans: () => string[] } {
  let newest: ModelRequest | undefined;
  let next = 0;
  const model: Model = async function* (request) {
    newest = request;
    const message: AssistantMessage = { role: "assistant", content: "ok", ...replies[next++] };
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  const plans = () =>
    newest!.messages.flatMap((message) => message.role === "assistant" ? message.tool_calls ?? [] : [])
      .map(describeCall).flatMap(({ name, arguments: text }) => name === "update_plan" ? [text] : []);
  return { model, plans };
}

let ids = 0;
const calling = (name: string, args: unknown): Partial<AssistantMessage> => ({
  content: "",
  tool_calls: [{
    id: `c${++ids}`,
    type: "function",
    function: { name, arguments: JSON.stringify(args) },
  }],
});
const update = (args: unknown) => calling("update_plan", args);
const planOf = async (handler: Parameters<typeof call>[0], session: string) =>
  ((await call(handler, "GET", session)).body as { plan?: unknown }).plan;

Deno.test("plan: the newest plan stays in the prompt after its turn is evicted, and the earlier one is evicted", async () => {
  const steps = (what: string) =>
    Array.from({ length: 12 }, (_, at) => `${what} all that is in part ${at} of it`);
  const first = { steps: steps("Look at") };
  const second = { steps: steps("Mend"), done: 1 };
  const talk = Array.from({ length: 12 }, (_, at) => [
    calling("echo", { text: `${at} `.repeat(1_200) }),
    { content: `Nothing in ${at}.` },
  ]).flat();
  const { model, plans } = planning([
    ...[update(first), { content: "a" }, update(second), update({ done: 2 }), { content: "b" }],
    ...talk,
  ]);
  const store = memoryStore();
  const options = { store, tools: [...plan, echo], windowTokens: 6_000 };
  const handler = agent(model, options);
  const session = await newSession(handler);
  await turn(handler, session, "Go");
  await turn(handler, session, "Otherwise");
  assertEquals(plans(), [first, second, { done: 2 }].map((args) => JSON.stringify(args)));
  for (let at = 0; at < 12; at++) await turn(handler, session, `What of ${at}?`);
  assertEquals(plans(), [second, { done: 2 }].map((args) => JSON.stringify(args)));
  const now = { steps: second.steps, done: 2 };
  assertEquals(await planOf(handler, session), now);
  assertEquals(await planOf(agent(model, options), session), now);
});

Deno.test("update_plan reports invalid steps", async () => {
  const { model } = planning([
    update({ steps: ["Look", "Mend"] }),
    update({ steps: ["Look"], done: 2 }),
    update({}),
    update({ done: 9 }),
    { content: "done" },
  ]);
  const handler = agent(model, { tools: plan });
  const session = await newSession(handler);
  const results = (await turn(handler, session, "Go")).flatMap(({ event }) =>
    event.type === "tool_result" ? [event.content] : []
  );
  assertEquals(results, [
    "The user sees it.",
    "Cannot keep the plan: done is 2, and the number of steps is 1.",
    "Cannot keep the plan: steps and done are both missing.",
    "The user sees it.",
  ]);
});

import { assertEquals } from "@std/assert";
import { type AssistantMessage, contentText, type Model } from "@tare/messages";
import { makeSession, scriptedSessions, unpaired } from "../script_fixture_test.ts";
import { recordedStore } from "../sessions/store_fixture_test.ts";
import { lineOf } from "./subagents.ts";
import { resultOfSubagent } from "../sessions/history.ts";

const toolCall = (id: string, name: string, args: unknown) =>
  ({ id, type: "function", function: { name, arguments: JSON.stringify(args) } }) as const;

const model: Model = async function* ({ messages }) {
  await Promise.resolve();
  const history = messages.slice(messages.findLastIndex(({ role }) => role === "user"));
  const isSubagent = contentText(history[0]?.content).startsWith("You are a subagent now");
  const first = isSubagent
    ? toolCall("h", "read", { size: 10 })
    : toolCall("d", "delegate", { task: "Find it." });
  const message: AssistantMessage = history.length === 1
    ? { role: "assistant", content: null, tool_calls: [first] }
    : { role: "assistant", content: isSubagent ? "It is here." : "Done." };
  yield {
    type: "completed",
    message,
    finishReason: history.length === 1 ? "tool_calls" : "stop",
    usage: { promptTokens: 100, cachedTokens: 50, outputTokens: 10 },
  };
};

Deno.test("delegate: a turn that ended after any write reports its subagent's cost, and its answer or session", async () => {
  const store = recordedStore();
  const sessions = scriptedSessions({ store, model: () => model });
  const session = await makeSession(sessions, { tools: ["read", "delegate"] });
  await (await session.start({ input: "q" })).done;
  const whole = session.ledger;
  assertEquals([whole.calls, session.subagents.links.length], [4, 1]);
  const subagentId = session.subagents.links[0]!.session;
  const unknown =
    `Cannot report the result: interrupted, outcome unknown. The subagent's work until then is in its ` +
    `session, ${subagentId}. It may have taken effect: check before calling it again.`;
  const results = new Set<string>();
  for (let writes = 2; writes <= store.writes; writes++) {
    const cut = await store.upTo(writes);
    const after = scriptedSessions({ store: cut, model: () => model });
    const found = await after.get(session.id);
    await Array.fromAsync(found.events.read());
    assertEquals(unpaired(found.history), [], `after ${writes} writes`);
    const result = found.history.find(({ role }) => role === "tool");
    if (result) results.add(contentText(result.content));
    const ids = [session.id, ...found.subagents.links.map((link) => link.session)];
    const calls = await Promise.all(ids.map(async (id) => {
      const isThere = await cut.getSession(id) !== undefined;
      return isThere ? (await cut.readEvents(id, { types: ["step_end"] })).length : 0;
    }));
    const { ledger } = found;
    assertEquals(ledger.calls, calls.reduce((sum, count) => sum + count, 0), `after ${writes} writes`);
    await (await found.start({ input: "r" })).done;
    const again = await scriptedSessions({ store: cut, model: () => model }).get(session.id);
    assertEquals([again.ledger, again.subagents.links], [found.ledger, found.subagents.links]);
  }
  assertEquals([...results].sort(), [
    "Cannot report the result: interrupted, outcome unknown. It may have taken effect: check before calling it again.",
    unknown,
    "It is here.",
  ]);
});

Deno.test("resultOfSubagent() reports why there is no answer, and the last text", () => {
  const resultFor = (end: Partial<Parameters<typeof resultOfSubagent>[0]>) =>
    resultOfSubagent({ reason: "model_error", text: "", ...end }, "s").content;
  assertEquals(
    resultFor({ message: "The key is wrong." }),
    "The subagent ended without an answer. The key is wrong. Its session is s. It returned no text.",
  );
  assertEquals(
    resultFor({ reason: "completed" }),
    "The subagent ended without an answer. Its turn ended (completed). Its session is s. It returned no text.",
  );
});

Deno.test("lineOf() returns a subagent's texts and calls, but no results", () => {
  const call = { type: "tool_call", step: 1, id: "1", name: "read", arguments: '{"path":"a"}' } as const;
  const result = { type: "tool_result", step: 1, id: "1", name: "read", bytes: 0, durationMs: 0 } as const;
  const reply = (content: string | null) =>
    ({ type: "assistant_message", step: 1, message: { role: "assistant", content } }) as const;
  assertEquals(lineOf(call), 'read {"path":"a"}\n');
  assertEquals(lineOf(reply("First\n  this.")), "First this.\n");
  assertEquals([lineOf(reply(null)), lineOf({ type: "step_start", step: 1 })], [undefined, undefined]);
  assertEquals(lineOf({ ...result, content: "long", error: false }), undefined);
  assertEquals(
    lineOf({ ...result, content: "No such file.\nMore.", error: true }),
    "read failed: No such file.\n",
  );
});

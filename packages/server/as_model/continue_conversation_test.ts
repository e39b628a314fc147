import type { RunLimits } from "@tare/loop";
import { assertEquals, assertRejects } from "@std/assert";
import type { AssistantMessage, Content, FunctionToolCall, ToolDefinition } from "@tare/messages";
import { ApiError } from "@tare/wire/internal";
import { silentModel } from "../fixture_test.ts";
import { HttpError } from "../http/http_error.ts";
import type { FlatOptions } from "../options_fixture_test.ts";
import { continueConversation, type ConversationRequest } from "./continue_conversation.ts";
import { echoCall, routeOptions, scriptedModel } from "./fixture_test.ts";
import type { DialogueMessage } from "./known_conversations.ts";
import { readAnswer } from "./turn_answer.ts";

const user = (content: Content): DialogueMessage => ({ role: "user", content });
const agent = (content: string): DialogueMessage => ({ role: "assistant", content });

function harness(
  replies: readonly (Partial<AssistantMessage> | Error)[],
  changes: FlatOptions = {},
) {
  const { model, requests } = scriptedModel(replies);
  let options = routeOptions(model, changes);
  const ask = (dialogue: readonly DialogueMessage[], request: Partial<ConversationRequest> = {}) =>
    continueConversation({ dialogue, instructions: "", user: "", metadata: {}, ...request }, options);
  return {
    options,
    ask,
    restart() {
      const { store } = options;
      options = { ...routeOptions(model, { ...changes, store }), store };
    },
    async play(dialogue: readonly DialogueMessage[], request: Partial<ConversationRequest> = {}) {
      const turn = await ask(dialogue, request);
      const { text, calls } = await readAnswer(turn);
      await turn.remember({ text, calls });
      const prompt = requests.at(-1)!.messages.map(({ role, content }) =>
        role === "tool" ? `tool ${content}` : content
      );
      return { id: turn.sessionId, text, calls, prompt, point: await turn.done };
    },
  };
}

Deno.test("continueConversation() continues in the session of a known conversation", async () => {
  const { play, options } = harness([echoCall("x"), { content: "a" }, { content: "b" }, { content: "c" }]);
  const first = await play([user("1")]);
  const second = await play([user("1"), agent("a"), user("2")]);
  const third = await play([user("1"), agent(" a\n"), user("2"), agent("b"), user("3"), user("4")]);
  assertEquals([second.id, third.id], [first.id, first.id]);
  assertEquals(third.prompt, ["Be brief.", "1", "", "tool x", "a", "2", "b", "3\n\n4"]);
  const session = await options.sessions.get(first.id);
  assertEquals([session.totals.turns, session.ledger.calls], [3, 4]);
});

Deno.test("continueConversation() creates a session with the history of an unknown conversation", async () => {
  const { play } = harness([{ content: "b" }, { content: "c" }]);
  const first = await play([user("1"), agent("a"), user("2")], { instructions: "Be kind." });
  assertEquals(first.prompt, ["Be brief.\n\nBe kind.", "1", "a", "2"]);
  const second = await play([user("1"), agent("a"), user("2"), agent("b"), user("3")], {
    instructions: "Be kind.",
  });
  assertEquals(second.id, first.id);
});

Deno.test("continueConversation() creates no sessions above the limit and continues existing ones", async () => {
  const { play, ask } = harness([{ content: "a" }, { content: "b" }], { maxSessions: 1 });
  const first = await play([user("1")]);
  const error = await assertRejects(() => ask([user("other")]), HttpError);
  assertEquals([error.status, error.code], [507, "too_many_sessions"]);
  assertEquals((await play([user("1"), agent("a"), user("2")])).id, first.id);
});

Deno.test("continueConversation() forks where the client goes back, with the tool results up to there", async () => {
  const { play } = harness([
    echoCall("x"),
    { content: "a" },
    { content: "b" },
    { content: "c" },
    { content: "d" },
    { content: "e" },
  ]);
  const first = await play([user("1")]);
  await play([user("1"), agent("a"), user("2")]);
  const fork = await play([user("1"), agent("a"), user("other")]);
  assertEquals(fork.prompt, ["Be brief.", "1", "", "tool x", "a", "other"]);
  assertEquals(fork.id === first.id, false);
  const both = [
    await play([user("1"), agent("a"), user("2"), agent("b"), user("3")]),
    await play([user("1"), agent("a"), user("other"), agent("c"), user("3")]),
  ];
  assertEquals(both.map(({ id }) => id), [first.id, fork.id]);
});

Deno.test("continueConversation() adds unknown messages to the known start", async () => {
  const { play } = harness([echoCall("x"), { content: "a" }, { content: "b" }]);
  const first = await play([user("1")]);
  const second = await play([user("1"), agent("a"), user("2"), agent("half an ans"), user("3")]);
  assertEquals(second.prompt, ["Be brief.", "1", "", "tool x", "a", "2", "half an ans", "3"]);
  assertEquals(second.id === first.id, false);
});

Deno.test("continueConversation() separates users and instructions", async () => {
  const replies = Array.from({ length: 5 }, () => ({ content: "a" }));
  const { play } = harness(replies);
  const next = [user("1"), agent("a"), user("2")];
  const ids = [
    await play([user("1")], { user: "ann" }),
    await play(next, { user: "bob" }),
    await play(next, { user: "ann", instructions: "Be kind." }),
    await play(next, { user: "ann" }),
  ].map(({ id }) => id);
  assertEquals([new Set(ids).size, ids[3]], [3, ids[0]]);
});

Deno.test("continueConversation() forks while the known session is busy", async () => {
  const { model, requested } = silentModel();
  let isFirst = true;
  const answering = scriptedModel([{ content: "a" }]).model;
  const { ask, options } = harness([], { model: () => isFirst ? answering : model });
  const first = await ask([user("1")]);
  await first.remember(await readAnswer(first));
  isFirst = false;
  const next = [user("1"), agent("a"), user("2")];
  const [second, third] = [await ask(next), await ask(next)];
  assertEquals([second.sessionId === first.sessionId, third.sessionId === first.sessionId], [true, false]);
  await requested;
  const { history } = await options.sessions.get(third.sessionId);
  assertEquals(history.map(({ content }) => content), ["Be brief.", "1", "a"]);
  for (const turn of [second, third]) {
    turn.cancel();
    await turn.done;
    await assertRejects(() => readAnswer(turn), Error, "cancelled");
  }
});

Deno.test("continueConversation() starts again after the known session was deleted", async () => {
  const { play, ask, options } = harness([{ content: "a" }, { content: "b" }]);
  const first = await play([user("1")]);
  await options.sessions.delete(first);
  const second = await play([user("1"), agent("a"), user("2")]);
  assertEquals(second.prompt, ["Be brief.", "1", "a", "2"]);
  await assertRejects(() => ask([user("2")], { after: first.point }), HttpError, "there is no such session");
});

Deno.test("continueConversation() deletes a new session in which the model never answered", async () => {
  const failing = new Error("No.");
  const { ask, play, options } = harness([failing, { content: "a" }, failing, echoCall("x"), failing]);
  const fail = async (dialogue: readonly DialogueMessage[]) => {
    const turn = await ask(dialogue);
    await assertRejects(() => readAnswer(turn), ApiError);
    return await options.sessions.get(turn.sessionId).then(({ totals }) => totals.turns, () => "deleted");
  };
  assertEquals(await fail([user("1")]), "deleted");
  await play([user("1")]);
  assertEquals(await fail([user("1"), agent("a"), user("2")]), 2);
  assertEquals(await fail([user("2")]), 1);
});

Deno.test("continueConversation() continues at a point in a session or forks there", async () => {
  const { play } = harness([{ content: "a" }, { content: "b" }, { content: "c" }, { content: "d" }]);
  const first = await play([user("1")]);
  const second = await play([user("2")], { after: first.point });
  const fork = await play([user("3")], { after: first.point });
  assertEquals([second.id === first.id, fork.id === first.id], [true, false]);
  assertEquals(fork.prompt, ["Be brief.", "1", "a", "3"]);
  const changed = await play([user("4")], { after: second.point, instructions: "Be kind." });
  assertEquals(changed.prompt, ["Be brief.\n\nBe kind.", "1", "a", "2", "b", "4"]);
});

Deno.test("continueConversation() describes each session's own environment and continues after it changed", async () => {
  let now = 1;
  const replies = ["a", "b", "c", "d"].map((content) => ({ content }));
  const { play } = harness(replies, {
    place: {
      describe: () => Promise.resolve(`Place ${now}.`),
      changes: (reported) =>
        Promise.resolve(reported.at(-1)?.endsWith(`Place ${now}.`) ? undefined : `Place ${now}.`),
    },
  });
  const more = { instructions: "Be kind." };
  const first = await play([user("1")], more);
  now = 2;
  const second = await play([user("1"), agent("a"), user("2")], more);
  assertEquals(second.id, first.id);
  const begun = "Be brief.\n\nBe kind.\n\nPlace";
  assertEquals(second.prompt, [`${begun} 1.`, "1", "a", "Place 2.", "2"]);
  const fork = await play([user("3")], { ...more, after: first.point });
  assertEquals(fork.prompt, [`${begun} 2.`, "1", "a", "3"]);
  const later = await play([user("4")], { ...more, instructions: "", after: second.point });
  assertEquals(later.prompt, ["Be brief.\n\nPlace 2.", "1", "a", "2", "b", "4"]);
});

Deno.test("continueConversation() merges several messages of the user into one input", async () => {
  const { play } = harness([{ content: "a" }]);
  const image = { type: "image_url", image_url: { url: "x" } } as const;
  const { prompt } = await play([user("1"), user([image])]);
  assertEquals(prompt, ["Be brief.", [{ type: "text", text: "1" }, image]] as unknown as typeof prompt);
});

Deno.test("continueConversation() takes a slot for the duration of the turn", async () => {
  const { model, requested } = silentModel();
  const { ask, options } = harness([], { maxRunningTurns: 1, model: () => model });
  const turn = await ask([user("1")]);
  await requested;
  const error = await assertRejects(() => ask([user("2")]), HttpError);
  assertEquals(error.status, 429);
  turn.cancel();
  await turn.done;
  await assertRejects(() => readAnswer(turn), Error, "cancelled");
  options.sessions.slots.take();
});

Deno.test("continueConversation() ends the turn at the smaller limit of output tokens", async () => {
  const replies = () => [echoCall("x"), echoCall("y"), { content: "a" }];
  const finish = async (limits: RunLimits, maxOutputTokens?: number) => {
    const { ask } = harness(replies(), { turn: limits });
    const turn = await ask([user("1")], maxOutputTokens === undefined ? {} : { maxOutputTokens });
    const { finish, ledger } = await readAnswer(turn);
    return [finish, ledger.calls];
  };
  assertEquals(await finish({}), ["stop", 3]);
  assertEquals(await finish({ maxOutputTokens: 4 }), ["length", 2]);
  assertEquals(await finish({ maxOutputTokens: 4 }, 1), ["length", 1]);
  assertEquals(await finish({ maxOutputTokens: 1 }, 4), ["length", 1]);
});

Deno.test("continueConversation() resumes a turn that ended without an answer", async () => {
  const failing = new Error("No.");
  const { ask, play, options } = harness([echoCall("x"), failing, { content: "a" }, failing, {
    content: "b",
  }]);
  const ann = { user: "ann" };
  const first = await ask([user("1")], ann);
  await assertRejects(() => readAnswer(first), ApiError);
  const again = await play([user("1")], ann);
  assertEquals([again.id, again.text, again.prompt], [
    first.sessionId,
    "a",
    ["Be brief.", "1", "", "tool x"],
  ]);
  const next = [user("1"), agent("a"), user("2")];
  await assertRejects(async () => readAnswer(await ask(next, ann)), ApiError);
  const second = await play(next, ann);
  assertEquals([second.id, second.prompt], [first.sessionId, ["Be brief.", "1", "", "tool x", "a", "2"]]);
  const { totals: { ledger, turns } } = await options.sessions.get(first.sessionId);
  assertEquals([ledger.calls, turns], [3, 2]);
});

Deno.test("continueConversation() answers an answered conversation again", async () => {
  const { play } = harness([{ content: "a" }, { content: "b" }, { content: "c" }, { content: "d" }]);
  const first = await play([user("1")]);
  await play([user("1"), agent("a"), user("2")]);
  const anew = await play([user("1"), agent("a"), user("2")]);
  assertEquals([anew.text, anew.prompt, anew.id === first.id], ["c", ["Be brief.", "1", "a", "2"], false]);
  assertEquals((await play([user("1")])).prompt, ["Be brief.", "1"]);
});

Deno.test("continueConversation() continues in sessions that were unloaded", async () => {
  const others = Array.from({ length: 20 }, () => ({ content: "o" }));
  const { play } = harness([echoCall("x"), { content: "a" }, { content: "b" }, ...others, { content: "c" }]);
  await play([user("1")]);
  const fork = await play([user("1"), agent("a"), user("2"), agent("half"), user("3")]);
  for (const index of others.keys()) await play([user(`other ${index}`)]);
  const next = await play(
    [user("1"), agent("a"), user("2"), agent("half"), user("3"), agent("b"), user("4")],
  );
  assertEquals([next.id, next.prompt], [
    fork.id,
    ["Be brief.", "1", "", "tool x", "a", "2", "half", "3", "b", "4"],
  ]);
});

Deno.test("continueConversation() never resumes the turn of a stranger with the same words", async () => {
  const failing = new Error("No.");
  const replies = [echoCall("x"), failing, { content: "a" }, failing, { content: "b" }];
  const { ask, play } = harness(replies);
  const first = await ask([user("1")]);
  await assertRejects(() => readAnswer(first), ApiError);
  const stranger = await play([user("1")]);
  assertEquals([stranger.id === first.sessionId, stranger.prompt], [false, ["Be brief.", "1"]]);
  // Quoting an answer from here proves that the client received it.
  const next = [user("1"), agent("a"), user("2")];
  await assertRejects(async () => readAnswer(await ask(next)), ApiError);
  assertEquals((await play(next)).id, stranger.id);
});

Deno.test("continueConversation() retains a question whose answer the client has changed", async () => {
  const { play } = harness([{ content: "a" }, { content: "b" }]);
  await play([user("1")]);
  const { prompt } = await play([user("1"), agent("changed"), user("2")]);
  assertEquals(prompt, ["Be brief.", "1", "changed", "2"]);
});

const PICK: ToolDefinition = { type: "function", function: { name: "pick" } };
const PICKS = { clientTools: [PICK] };
const call = (id: string, name: string) =>
  ({ id, type: "function", function: { name, arguments: '{"text":"x"}' } }) as const;
const called = (...calls: readonly FunctionToolCall[]): DialogueMessage => ({
  role: "assistant",
  content: null,
  tool_calls: calls,
});
const result = (id: string, content: string): DialogueMessage => ({
  role: "tool",
  tool_call_id: id,
  content,
});

Deno.test(
  "continueConversation() continues with the results of the client's calls after a restart in the same " +
    "session",
  async () => {
    const { play, restart } = harness([
      { tool_calls: [call("p", "pick"), call("e", "echo")] },
      { tool_calls: [call("q", "pick")] },
      { content: "Done." },
    ]);
    const first = await play([user("1")], PICKS);
    assertEquals(first.calls, [call("p", "pick")]);
    restart();
    const next = [user("1"), called(call("p", "pick")), result("p", "blue")];
    const second = await play(next, PICKS);
    assertEquals([second.id, second.calls], [first.id, [call("q", "pick")]]);
    assertEquals(second.prompt, ["Be brief.", "1", "", "tool x", "tool blue"]);
    restart();
    const third = await play([...next, called(call("q", "pick")), result("q", "red"), user("2")], PICKS);
    assertEquals([third.id, third.text], [first.id, "Done."]);
    assertEquals(third.prompt, ["Be brief.", "1", "", "tool x", "tool blue", "", "tool red", "2"]);
  },
);

Deno.test("continueConversation() forks before results that were sent already and resumes a turn that they began", async () => {
  const { play, ask } = harness([
    { tool_calls: [call("p", "pick")] },
    echoCall("x"),
    new Error("No."),
    { content: "a" },
    { content: "b" },
    { content: "c" },
  ]);
  const first = await play([user("1")], PICKS);
  const next = [user("1"), called(call("p", "pick")), result("p", "blue")];
  await assertRejects(async () => readAnswer(await ask(next, PICKS)), ApiError);
  const resumed = await play(next, PICKS);
  const whole = ["Be brief.", "1", "", "tool blue", "", "tool x"];
  assertEquals([resumed.id, resumed.text, resumed.prompt], [first.id, "a", whole]);
  const other = [...next.slice(0, 2), result("p", "red")];
  for (const dialogue of [next, other]) {
    const fork = await play(dialogue, PICKS);
    assertEquals(fork.id === first.id, false);
    assertEquals(fork.prompt, ["Be brief.", "1", "", `tool ${dialogue.at(-1)?.content}`]);
  }
});

Deno.test("continueConversation() accepts unknown calls as the client sends them", async () => {
  const { play } = harness([{ content: "a" }]);
  const { prompt } = await play([user("1"), called(call("p", "pick")), result("p", "blue")], PICKS);
  assertEquals(prompt, ["Be brief.", "1", null, "tool blue"] as unknown as typeof prompt);
});

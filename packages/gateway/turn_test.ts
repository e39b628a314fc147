import { assertEquals, assertStringIncludes } from "@std/assert";
import { estimateTokens, type Message, type ToolDefinition } from "@tare/messages";
import { Planner, profileNamed } from "@tare/planner";
import { CHAT_FORMAT } from "@tare/wire";
import { call } from "./fixture_test.ts";
import { GatewaySessions } from "./sessions.ts";
import { GatewayTurn } from "./turn.ts";
import { KnownJson } from "./known_json.ts";
import { readWireBody, readWireRequest } from "@tare/wire";

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

Deno.test("GatewayTurn answers recalls from the session's archive and goes on behind them", async () => {
  const known = {
    messages: new KnownJson<Message>({ maxBytes: 10_000 }),
    tools: new KnownJson<ToolDefinition | undefined>({ maxBytes: 10_000 }),
  };
  const sessions = new GatewaySessions({
    planner: ({ archive }, state) =>
      new Planner({ profile: profileNamed("none"), countTokens: estimateTokens, archive }, state),
    control: 0,
    begun() {},
  });
  const body = { model: "m", messages: [{ role: "user", content: "Go." }] };
  const request = readWireRequest(readWireBody(encode(body)), CHAT_FORMAT, known);
  const keys = request.items.map(({ key }) => key);
  const session = sessions.find({ scope: "", keys, messages: request.items.map(({ value }) => value) });
  const ref = await session.archive.put("the original");
  const options = { session, request, recall: true, stateful: false, countTokens: estimateTokens, known };
  const turn = new GatewayTurn({ ...options, now: () => 0 });
  const { signal } = new AbortController();
  const sent = async () => JSON.parse(new TextDecoder().decode(await turn.prompt(signal)));
  assertEquals((await sent()).messages, body.messages);
  const calls = [call("recall", { ref }, "r1"), call("recall", { ref: 5 }, "r2")];
  const choices = [{
    message: { role: "assistant", content: null, tool_calls: calls },
    finish_reason: "tool_calls",
  }];
  const reply = turn.writer.read(encode({ choices, usage: { prompt_tokens: 9, completion_tokens: 1 } }));
  assertEquals(turn.sent(reply)?.usage.promptTokens, 9);
  await turn.recall(reply);
  const [, assistant, first, second] = (await sent()).messages;
  assertEquals([assistant.tool_calls, first.content], [calls, "the original"]);
  assertStringIncludes(second.content, "ref must be string");
  turn.remember();
  assertEquals(session.hidden.map(({ after, pieces }) => [after, pieces.length]), [[1, 3]]);
});

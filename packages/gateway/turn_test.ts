import { assertEquals, assertStringIncludes } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { plannerSession, profileNamed } from "@tare/planner";
import { CHAT_PROTOCOL, readRequest, readWireBody } from "@tare/wire/internal";
import { call } from "./fixture_test.ts";
import { HeldPrompts } from "@tare/planner/internal/parts";
import { RequestCache } from "./request_cache.ts";
import { GatewaySessions } from "./sessions/sessions.ts";
import { GatewayTurn } from "./turn.ts";

const encode = (value: unknown) => new TextEncoder().encode(JSON.stringify(value));

Deno.test("GatewayTurn.recall() answers from the session's archive and continues after it", async () => {
  const maxBytes = 100_000;
  const readers = new RequestCache({ maxBytes }).readers("c");
  const sessions = new GatewaySessions({ maxBytes });
  const body = { model: "m", messages: [{ role: "user", content: "Go." }] };
  const request = readRequest(readWireBody(encode(body)), CHAT_PROTOCOL, readers);
  const session = sessions.sessionOf({
    basis: { model: "m" },
    countTokens: estimateTokens,
    scope: "",
    items: request.items,
    prompts: ({ archive }) =>
      plannerSession({ profile: profileNamed("none"), countTokens: estimateTokens, archive }),
  });
  const ref = await session.archive.put("the original");
  const options = { client: "c", session, request, recall: true, prompts: session.session, readers };
  const held = new HeldPrompts({ maxBytes: 1_000 });
  const turn = new GatewayTurn({ ...options, held, countTokens: estimateTokens, now: () => 0 });
  const { signal } = new AbortController();
  const sent = async () => JSON.parse(new TextDecoder().decode(await turn.prompt(signal)));
  assertEquals((await sent()).messages, body.messages);
  const calls = [call("recall", { ref }, "r1"), call("recall", { ref: 5 }, "r2")];
  const choices = [{
    message: { role: "assistant", content: null, tool_calls: calls },
    finish_reason: "tool_calls",
  }];
  const reply = turn.writer.read(encode({ choices, usage: { prompt_tokens: 9, completion_tokens: 1 } }));
  assertEquals(turn.sent(reply, 0).usage.promptTokens, 9);
  await turn.recall(reply);
  const [, assistant, first, second] = (await sent()).messages;
  assertEquals([assistant.tool_calls, first.content], [calls, "the original"]);
  assertStringIncludes(second.content, "request.ref is 5; it must be a string");
  turn.remember();
  assertEquals(session.hidden.map(({ after, items }) => [after, items.length]), [[1, 3]]);
});

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import type { AssistantMessage, Model, ModelRequest, Tool } from "@tare/messages";
import { agent, call, echo, newSession, turn } from "../fixture_test.ts";

const PROSE = "It says at length what nobody needs to know who does not call it. ".repeat(10);

/** A tool of a kind of which there are many. */
function thing(name: string, more: Partial<Tool> = {}): Tool {
  return {
    definition: {
      type: "function",
      function: {
        name,
        description: `Does ${name.replaceAll("_", " ")}. ${PROSE}`,
        parameters: {
          type: "object",
          properties: { id: { type: "integer", description: `Which ${name}.` } },
          required: ["id"],
        },
      },
    },
    mayDefer: true,
    run: ({ id }) => `${name} ${id}`,
    ...more,
  };
}

const MANY = Array.from({ length: 40 }, (_, at) => thing(`make_${at}`));

function calling(name: string, args: unknown, id: string): Partial<AssistantMessage> {
  const text = JSON.stringify(args);
  return { tool_calls: [{ id, type: "function", function: { name, arguments: text } }] };
}

/** A model that gives these replies, and the requests that it got. */
function recorded(replies: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[requests.length] };
    requests.push(request);
    const finishReason = message.tool_calls ? "tool_calls" : "stop";
    yield { type: "completed", message, finishReason };
  };
  return { model, requests };
}

const names = ({ tools }: ModelRequest) => tools.map((tool) => tool.function.name);

Deno.test("many tools are known by a line each, found, called, and taught", async () => {
  const { model, requests } = recorded([
    calling("find_tools", { query: "make_7" }, "a"),
    calling("call_tool", { name: "make_7", arguments: { id: "seven" } }, "b"),
    calling("call_tool", { name: "make_7", arguments: { id: 7 } }, "c"),
    calling("make_8", { id: 8 }, "d"),
    calling("call_tool", { name: "make_77" }, "e"),
    { content: "Done." },
  ]);
  const handler = agent(model, { tools: [echo, ...MANY] });
  const session = await newSession(handler);
  const seen = await turn(handler, session, "Make 7 and 8.");
  assertEquals(requests.map(names), requests.map(() => ["echo", "recall", "find_tools", "call_tool"]));
  const [first] = requests;
  assertEquals(first!.messages.map(({ role }) => role), ["system", "system", "user"]);
  const list = String(first!.messages[1]!.content).split("\n");
  assertEquals(list.length, 41);
  assertEquals(list[8], "make_7: Does make 7.");
  const results = seen.flatMap(({ event }) => event.type === "tool_result" ? [event.content] : []);
  assertStringIncludes(results[0]!, JSON.stringify(MANY[7]!.definition.function));
  assertStringIncludes(results[1]!, "its arguments are invalid");
  assertStringIncludes(results[1]!, JSON.stringify(MANY[7]!.definition.function));
  assertEquals(results.slice(2, 4), ["make_7 7", "make_8 8"]);
  assertStringIncludes(results[4]!, 'Cannot call "make_77": there is no such tool.');
  const { body } = await call(handler, "GET", session);
  const { ledger: { saved } } = body as { ledger: { saved: Record<string, number> } };
  assert(saved.deferred! > 0);
});

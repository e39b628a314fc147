import { assertEquals } from "@std/assert";
import { memoryStore } from "@tare/session/sqlite";
import { BackgroundCommands } from "@tare/tools/shell";
import type { AssistantMessage, Model, ModelRequest, Tool } from "@tare/messages";
import { agent, call, newSession, turn } from "../fixture_test.ts";

function recorded(replies: readonly Partial<AssistantMessage>[]): { model: Model; requests: ModelRequest[] } {
  const requests: ModelRequest[] = [];
  const model: Model = async function* (request) {
    const message: AssistantMessage = { role: "assistant", content: "", ...replies[requests.length] };
    requests.push(request);
    yield { type: "completed", message, finishReason: message.tool_calls ? "tool_calls" : "stop" };
  };
  return { model, requests };
}

Deno.test("background commands: a session's calls reach them, a turn starts with their news, and they end with it", async () => {
  const calls: string[] = [];
  const tool: Tool = {
    definition: { type: "function", function: { name: "start" } },
    run: (_args, { session = "" }) => {
      calls.push(`start in ${session}`);
      return "bg_00000a runs";
    },
  };
  const start = { id: "1", type: "function", function: { name: "start", arguments: "{}" } } as const;
  const { model, requests } = recorded([{ tool_calls: [start] }, { content: "a" }, { content: "b" }, {
    content: "c",
  }]);
  const commands = new BackgroundCommands();
  const handler = agent(model, {
    store: memoryStore(),
    tools: [tool],
    background: {
      news(session, running) {
        calls.push(`news of ${running} in ${session}`);
        return commands.news(session, running);
      },
      end: (session) => Promise.resolve(void calls.push(`end of ${session}`)),
    },
  });
  const session = await newSession(handler);
  const id = session.split("/").at(-1)!;
  for (const text of ["1", "2", "3"]) await turn(handler, session, text);
  const lost = commands.news(id, ["bg_00000a"]);
  assertEquals(requests.at(-1)?.messages.slice(1).map(({ content }) => content), [
    ...["1", "", "bg_00000a runs", "a"],
    ...[lost, "2", "b"],
    "3",
  ]);
  assertEquals((await call(handler, "DELETE", session)).status, 204);
  assertEquals(calls, [`start in ${id}`, `news of bg_00000a in ${id}`, `end of ${id}`]);
});

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { toolCall } from "@tare/simulator";
import { agentServer } from "./agent_server.ts";
import { oddServer } from "./mcp_programs.ts";

Deno.test("many tools: the prompt contains the names of a server's tools, and new ones are announced at its end", async () => {
  await using server = await agentServer({
    mcp: { odd: oddServer("many") },
    replies: [
      { tool_calls: [toolCall("find_tools", { query: "odd__many_42" })] },
      {
        tool_calls: [
          toolCall("call_tool", { name: "odd__many_42", arguments: { why: "requested" } }),
          toolCall("call_tool", { name: "odd__many_43" }),
          toolCall("odd__many_44", { why: "directly" }),
          toolCall("call_tool", { name: "odd__change" }),
        ],
      },
      { content: "One." },
      { tool_calls: [toolCall("call_tool", { name: "odd__sleep" }), toolCall("odd__fresh")] },
      { content: "Two." },
    ],
  });
  const session = await server.session();
  const results = [...await server.turn(session), ...await server.turn(session)]
    .flatMap((event) => event.type === "tool_result" ? [event.content] : []);
  assertStringIncludes(results[0]!, '"name":"odd__many_42"');
  assertStringIncludes(results[0]!, "here they are.");
  const done = new Set(results.slice(1, 5));
  assert(done.isSupersetOf(new Set(["did 42: requested", "did 44: directly", "changed"])));
  assertStringIncludes(results.slice(1, 5).join(), "must have required property 'why'");
  assertStringIncludes(results.slice(5).join(), 'Cannot call "odd__sleep": there is no such tool.');
  assertStringIncludes(results.slice(5).join(), "new here");

  const { requests } = server;
  const { tools, messages } = requests[0]!;
  assertEquals(tools.filter((name) => name.startsWith("odd__")), []);
  assertEquals(tools.slice(-2), ["find_tools", "call_tool"]);
  assertStringIncludes(String(messages[1]!.content), "\nodd__many_42: Does 42.\n");
  for (const [at, request] of requests.slice(1).entries()) {
    const before = requests[at]!;
    assertEquals(request.tools, tools);
    assertEquals(request.messages.slice(0, before.messages.length), before.messages);
  }
  const notice = requests[3]!.messages.at(-2)!;
  assertEquals(notice.role, "system");
  assertStringIncludes(String(notice.content), "New:\nodd__fresh");
  assertStringIncludes(String(notice.content), "Removed: odd__sleep");
});

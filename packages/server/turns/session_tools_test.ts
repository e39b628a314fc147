import { assert, assertEquals, assertMatch } from "@std/assert";
import type { Model, Tool } from "@tare/messages";
import type { ToolSource } from "@tare/server";
import { withoutUse } from "./session_tools.ts";
import { agent, call, error, events, newSession, request, scriptedModel, turn } from "../fixture_test.ts";

function tool(name: string): Tool {
  return {
    definition: { type: "function", function: { name, parameters: { type: "object" } } },
    stance: "rederivable",
    run: () => `result of ${name}`,
  };
}

function testSource() {
  const servers: Record<string, readonly Tool[]> = {
    docs: [tool("docs__find"), tool("docs__read")],
    slow: [],
  };
  const waited: string[] = [];
  const hold = Promise.withResolvers<void>();
  const source: ToolSource = {
    names: ["docs", "slow"],
    known: (names) => names.flatMap((name) => servers[name] ?? []),
    async take(names, signal) {
      waited.push(...names);
      if (names.includes("slow")) {
        await Promise.race([hold.promise, new Promise((done) => signal?.addEventListener("abort", done))]);
      }
      return {
        tools: source.known(names),
        warnings: names.includes("slow") ? ["MCP server slow isn't there."] : [],
      };
    },
  };
  return { source, servers, waited, release: hold.resolve };
}

function noting(model: Model) {
  const offered: string[][] = [];
  const noted: Model = (request) => {
    offered.push(request.tools.map(({ function: { name } }) => name));
    return model(request);
  };
  return { offered, model: noted };
}

Deno.test("SessionTools offers the tools that a session names of each server, and waits for no other server", async () => {
  const { source, waited } = testSource();
  const { offered, model } = noting(scriptedModel([]));
  const handler = agent(model, { toolSource: source });
  const sessions = [
    { tools: ["docs__*"] },
    { tools: ["docs__read", "echo"] },
    { tools: ["recall"] },
    { tools: ["docs__no_longer"] },
  ];
  for (const body of sessions) {
    const { body: { tools } } = await call(handler, "POST", "/tare/v1/sessions", body) as {
      body: { tools: string[] };
    };
    assertEquals(tools, body.tools.toSorted((a, b) => Number(b === "echo") - Number(a === "echo")));
    await turn(handler, await newSession(handler, body), "q");
  }
  assertEquals(offered, [["docs__find", "docs__read"], ["echo", "docs__read"], ["recall"], []]);
  assertEquals(waited, ["docs", "docs", "docs"]);
});

Deno.test("SessionTools offers all tools to a session that names none, and warns of missing ones", async () => {
  const { source, release } = testSource();
  const { offered, model } = noting(scriptedModel([{ content: "a" }]));
  const handler = agent(model, { toolSource: source, notice: "a notice" });
  release();
  const seen = await turn(handler, await newSession(handler), "q");
  assertEquals(offered, [["echo", "recall", "docs__find", "docs__read"]]);
  const warnings = seen.flatMap(({ event }) => event.type === "warning" ? event.message : []);
  assertEquals(warnings, ["a notice", "MCP server slow isn't there."]);
});

Deno.test("SessionTools keeps a turn's tools while it runs, and reads them again for the next one", async () => {
  const { source, servers } = testSource();
  const asks = { id: "1", type: "function", function: { name: "docs__find", arguments: "{}" } } as const;
  const replies = scriptedModel([{ tool_calls: [asks] }, { content: "a" }, { content: "b" }]);
  const { offered, model } = noting((request) => {
    servers.docs = [tool("docs__fresh")];
    return replies(request);
  });
  const handler = agent(model, { toolSource: source });
  const session = await newSession(handler, { tools: ["docs__*"] });
  const seen = await turn(handler, session, "q");
  const results = seen.flatMap(({ event }) => event.type === "tool_result" ? event.content : []);
  assertEquals(results, ["result of docs__find"]);
  await turn(handler, session, "q");
  assertEquals(offered, [["docs__find", "docs__read"], ["docs__find", "docs__read"], ["docs__fresh"]]);
});

Deno.test("SessionTools lets a turn be cancelled while it waits for a server", async () => {
  const { source } = testSource();
  const handler = agent(scriptedModel([]), { toolSource: source });
  const session = await newSession(handler);
  const running = await handler.fetch(request("POST", `${session}/turns`, { input: "q" }));
  await call(handler, "POST", `${session}/cancel`);
  const end = (await events(running)).at(-1)!.event;
  assertEquals(end.type === "turn_end" && end.reason, "cancelled");
});

Deno.test("Sessions.create() refuses tools of missing servers, and client tools of their names", async () => {
  const { source } = testSource();
  const handler = agent(scriptedModel([]), { toolSource: source });
  const { status, body } = await call(handler, "POST", "/tare/v1/sessions", { tools: ["other__find"] });
  assertEquals(
    { status, body },
    error(
      400,
      "invalid_request",
      'Cannot use tool "other__find": the tools are echo, recall, delegate, docs__*, slow__*.',
    ),
  );
  const reply = await handler.fetch(request("POST", "/v1/chat/completions", {
    model: "agent",
    messages: [{ role: "user", content: "q" }],
    tools: [{ type: "function", function: { name: "docs__mine" } }],
  }));
  assertEquals([reply.status, (await reply.json()).error.message], [
    400,
    "Cannot use tools[0]: the agent has its own tool docs__mine; rename yours.",
  ]);
});

Deno.test("withoutUse() lists each tool unchanged, and runs only the named ones", async () => {
  const [may, mayNot] = withoutUse([tool("one"), tool("two")], ["one"]);
  assertEquals([may!.definition, mayNot!.definition], [tool("one").definition, tool("two").definition]);
  const context = { signal: new AbortController().signal, progress: () => {}, callId: "1" };
  assertEquals(await may!.run({}, context), "result of one");
  const refused = await mayNot!.run({}, context);
  assert(typeof refused === "object" && refused.error);
  assertMatch(refused.content, /^Cannot run two: subagents may not use it\./);
});

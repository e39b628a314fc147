import { assertEquals, assertRejects } from "@std/assert";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { memoryStore } from "@tare/session/sqlite";
import { agentClient, type AgentInfo, RefusedError, serverAddress } from "./agent_client.ts";

async function withServer(use: (url: string) => Promise<void>): Promise<void> {
  const agent = agentHandler({
    models: {
      model: () =>
        async function* () {
          yield {
            type: "completed",
            message: { role: "assistant", content: "Hello." },
            finishReason: "stop",
          };
        },
      defaultModel: "greeter",
      countTokens: () => Promise.resolve(estimateTokens),
      profile: profileNamed("none"),
      windowTokens: 1000,
    },
    tools: [],
    store: memoryStore(),
    workspace: { folder: "/w" },
  });
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    (request) => agent.fetch(request),
  );
  try {
    await use(`http://127.0.0.1:${server.addr.port}`);
  } finally {
    await agent.close();
    await server.shutdown();
  }
}

Deno.test("agentClient() creates sessions, streams turns and cancels them", async () => {
  await withServer(async (url) => {
    const client = agentClient(url);
    const session = await client.createSession();
    const types: string[] = [];
    for await (const { event } of await client.startTurn(session, "Hi.")) types.push(event.type);
    assertEquals(types, ["turn_start", "step_start", "assistant_message", "step_end", "turn_end"]);
    await client.cancel(session);
  });
});

Deno.test("agentClient() numbers and replays events, lists and deletes sessions", async () => {
  await withServer(async (url) => {
    const client = agentClient(url);
    const [first, second] = [await client.createSession(), await client.createSession()];
    const parts = [{ type: "text", text: "Hi." }] as const;
    const events = await Array.fromAsync(await client.startTurn(first, parts));
    assertEquals(events.map(({ number, event }) => [number, event.type]), [
      [1, "turn_start"],
      [2, "step_start"],
      [3, "assistant_message"],
      [4, "step_end"],
      [5, "turn_end"],
    ]);
    assertEquals(await Array.fromAsync(await client.follow(first, 3)), events.slice(3));
    const { status, lastEvent } = await client.session(first);
    assertEquals([status, lastEvent], ["idle", 5]);
    const ids = async (after?: string) => {
      const { sessions, hasMore } = await client.pageOfSessions(after);
      return [sessions.map(({ id }) => id), hasMore];
    };
    assertEquals([await ids(), await ids(second)], [[[second, first], false], [[first], false]]);
    assertEquals(await client.findSession(first.slice(0, 12)), first);
    await assertRejects(
      () => client.findSession("zz"),
      Error,
      "Cannot find session zz: there is no such session.",
    );
    await assertRejects(
      () => client.findSession(""),
      Error,
      `several ids begin with . Use a longer one:\n`,
    );
    await client.deleteSession(first);
    assertEquals((await assertRejects(() => client.session(first), RefusedError)).status, 404);
    assertEquals(
      await client.agent(),
      { workspace: "/w", model: "greeter", windowTokens: 1000, approvalRules: [] } as AgentInfo,
    );
  });
});

Deno.test("agentClient() exports sessions and imports them", async () => {
  await withServer(async (url) => {
    const client = agentClient(url);
    const session = await client.createSession();
    await Array.fromAsync(await client.startTurn(session, "Hi."));
    const lines = await new Response(await client.exportSession(session)).bytes();
    const [copy, ...none] = await client.importSessions(lines);
    assertEquals(none, []);
    assertEquals(await new Response(await client.exportSession(copy!)).bytes(), lines);
    const bad = new TextEncoder().encode("3\n");
    await assertRejects(() => client.importSessions(bad), Error, "line 1: it isn't a JSON object");
  });
});

Deno.test("agentClient() rejects with the server's error, or if it can't be reached", async () => {
  let url = "";
  await withServer(async (running) => {
    url = running;
    const client = agentClient(running);
    await assertRejects(
      () => client.cancel("none"),
      Error,
      "Cannot find session none: there is no such session.",
    );
    await assertRejects(() => client.startTurn("none", "Hi."), Error, "Cannot find session none");
  });
  await assertRejects(
    () => agentClient(url).createSession(),
    Error,
    `Cannot reach the server at ${url}. Start it with tare start, or deno task start.`,
  );
});

Deno.test("serverAddress() prefers the given address to host and port", async () => {
  const at = (variables: Readonly<Record<string, string>>, url?: string) =>
    serverAddress((name) => variables[name], url);
  assertEquals(await at({ TARE_HOST: "::1", TARE_PORT: "1", TARE_TOKEN: "t" }), {
    url: "http://[::1]:1",
    token: "t",
  });
  assertEquals(await at({ TARE_HOST: "", TARE_PORT: "1", TARE_TOKEN: "" }), { url: "http://127.0.0.1:1" });
  assertEquals(await at({ TARE_HOST: "127.0.0.2" }), { url: "http://127.0.0.2:8787" });
  assertEquals(await at({ TARE_HOST: "h", TARE_TOKEN: "t" }, "http://x"), { url: "http://x", token: "t" });
  // The server records the free port; no server runs here.
  const home = { XDG_DATA_HOME: "/nowhere", TARE_WORKSPACE: "/nowhere" };
  for (const more of [{}, { TARE_HOST: "127.0.0.1" }]) {
    const free = at({ TARE_PORT: "0", ...more, ...home });
    await assertRejects(() => free, Error, "Cannot find a server for /nowhere");
  }
  await assertRejects(
    () => at({ TARE_PORT: "tcp://10.0.0.1:80" }),
    RangeError,
    'Cannot find the server: TARE_PORT is "tcp://10.0.0.1:80". Use a whole number from 0 to 65535.',
  );
});

import { assert, assertEquals, assertMatch } from "@std/assert";
import { call, tryServers } from "./mcp_client.ts";

const MIB = 2 ** 20;

/** Answer of a server to a call; all other requests are answered correctly. */
type Answer = (id: unknown) => Response;

/** Starts a server over streamable HTTP without a library, whose one tool answers as the test needs. */
function oddHttpServer(answers: Record<string, Answer>) {
  let initialized = 0;
  const headers: string[] = [];
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {}, onError: () => new Response() },
    async (request) => {
      headers.push(`${request.headers.get("authorization")}`);
      if (request.method !== "POST") return new Response(null, { status: 405 });
      const { id, method, params } = await request.json();
      if (id === undefined) return new Response(null, { status: 202 });
      const result = (value: unknown) => Response.json({ jsonrpc: "2.0", id, result: value });
      switch (method) {
        case "initialize":
          initialized++;
          return result({
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {} },
            serverInfo: { name: "odd", version: "1" },
          });
        case "tools/list":
          return result({
            tools: Object.keys(answers).map((name) => ({ name, inputSchema: { type: "object" } })),
          });
        default:
          return answers[params.name]!(id);
      }
    },
  );
  return {
    url: `http://127.0.0.1:${server.addr.port}/mcp`,
    headers,
    initialized: () => initialized,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

const answer = (id: unknown, text: string) =>
  JSON.stringify({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } });

/** Returns a body of 100 MiB of `x` after `head`, and counts what was read. */
function flood(head: string, read: { mib: number }): ReadableStream<Uint8Array> {
  const piece = new TextEncoder().encode("x".repeat(MIB));
  return new ReadableStream({
    start: (controller) => controller.enqueue(new TextEncoder().encode(head)),
    pull(controller) {
      if (++read.mib === 100) return controller.close();
      controller.enqueue(piece);
    },
  });
}

const STREAM = { headers: { "content-type": "text/event-stream" } };
const JSON_TEXT = { headers: { "content-type": "application/json" } };

async function untilFine(tools: Parameters<typeof call>[0]): Promise<void> {
  while (await call(tools, "web__fine") !== "fine") await new Promise((resolve) => setTimeout(resolve, 10));
}

Deno.test("MCP over HTTP: a flood of 100 MB is read to 16 MiB, whole or streamed, and fails its call", async () => {
  const read = { mib: 0 };
  await using server = oddHttpServer({
    fine: (id) => new Response(answer(id, "fine"), JSON_TEXT),
    whole: () => new Response(flood('{"', read), JSON_TEXT),
    stream: () => new Response(flood("data: ", read), STREAM),
  });
  await using servers = tryServers({ web: { url: server.url } }, { restartMs: 10 });
  const tools = await servers.tools();
  for (const name of ["whole", "stream"]) {
    read.mib = 0;
    assertEquals(await call(tools, `web__${name}`), {
      content:
        `Cannot return the result of web__${name}: MCP server web was lost during the call, because its response is ` +
        "larger than 16 MiB: request less per call. It may have taken effect: find out before you call it again.",
      error: true,
    });
    assert(read.mib < 60, `${read.mib} MiB were read`);
    await untilFine(tools);
  }
});

Deno.test("MCP over HTTP: many events of 16 MiB in all are no flood", async () => {
  await using server = oddHttpServer({
    chatty: (id) => {
      const note = {
        jsonrpc: "2.0",
        method: "notifications/message",
        params: { level: "info", data: "n".repeat(MIB) },
      };
      const event = `data: ${JSON.stringify(note)}\n\n`;
      return new Response(`${event.repeat(20)}data: ${answer(id, "done")}\n\n`, STREAM);
    },
  });
  await using servers = tryServers({ web: { url: server.url } });
  assertEquals(await call(await servers.tools(), "web__chatty"), "done");
});

Deno.test("MCP over HTTP: an answer of too many values, or an event of too many lines, is not read", async () => {
  const values = (id: unknown) =>
    JSON.stringify({ jsonrpc: "2.0", id, result: { content: Array(200_000).fill({}) } });
  await using server = oddHttpServer({
    fine: (id) => new Response(answer(id, "fine"), JSON_TEXT),
    whole: (id) => new Response(values(id), JSON_TEXT),
    stream: (id) => new Response(`data: ${values(id)}\n\n`, STREAM),
    lines: () => new Response(`data: ${"x".repeat(MIB)}\r\n`.repeat(20), STREAM),
  });
  await using servers = tryServers({ web: { url: server.url } }, { restartMs: 10 });
  const tools = await servers.tools();
  for (
    const [name, why] of [
      ["whole", "its response can't be parsed: it holds more than 100000 values"],
      ["stream", "its response can't be parsed: it holds more than 100000 values"],
      ["lines", "its response is larger than 16 MiB: request less per call"],
    ] as const
  ) {
    assertEquals(
      Object(await call(tools, `web__${name}`)).content,
      `Cannot return the result of web__${name}: MCP server web was lost during the call, because ${why}. It may have ` +
        "taken effect: find out before you call it again.",
    );
    await untilFine(tools);
  }
});

Deno.test("MCP over HTTP: other calls are answered during a flood of notifications", async () => {
  const note =
    `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}\n\n`;
  await using server = oddHttpServer({
    flood: (id) => new Response(`${note.repeat(20_000)}data: ${answer(id, "done")}\n\n`, STREAM),
  });
  await using servers = tryServers({ web: { url: server.url } });
  await using other = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response("ok"));
  const tools = await servers.tools();
  let isOver = false;
  const calling = call(tools, "web__flood").finally(() => isOver = true);
  let answered = 0;
  while (!isOver) {
    await (await fetch(`http://127.0.0.1:${other.addr.port}`)).text();
    answered++;
  }
  assertEquals(await calling, "done");
  assert(answered > 100, `${answered} were answered`);
});

Deno.test("MCP over HTTP: a server that dies during a call, or lost its session, gets a new session", async () => {
  await using server = oddHttpServer({
    fine: (id) => new Response(answer(id, "fine"), JSON_TEXT),
    die: () => {
      let pulls = 0;
      const body = new ReadableStream({
        pull(controller) {
          if (pulls++ > 0) controller.error(new Error("gone"));
          else controller.enqueue(new TextEncoder().encode(": wait\n\n"));
        },
      });
      return new Response(body, STREAM);
    },
    forget: () => new Response("no such session", { status: 404 }),
  });
  await using servers = tryServers(
    { web: { url: server.url, headers: { authorization: "Bearer of a test" } } },
    { restartMs: 10 },
  );
  const tools = await servers.tools();
  const lost =
    /^Cannot return the result of web__\w+: MCP server web was lost during the call, because .+ It may have taken/;
  assertMatch(`${Object(await call(tools, "web__die")).content}`, lost);
  await untilFine(tools);
  assertMatch(`${Object(await call(tools, "web__forget")).content}`, lost);
  await untilFine(tools);
  assertEquals(server.initialized(), 3);
  assertEquals(new Set(server.headers), new Set(["Bearer of a test"]));
});

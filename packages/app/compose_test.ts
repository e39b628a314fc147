import { assertEquals, assertMatch, assertRejects, assertStringIncludes } from "@std/assert";
import { agentClient } from "@tare/cli/parts";
import { fromFileUrl, join } from "@std/path";
import type { SessionEvent } from "@tare/server";
import { openStore } from "@tare/session/sqlite";
import { profileNamed } from "@tare/planner";
import { scripted, simulator, toolCall } from "@tare/simulator";
import { ownerOf } from "../../tests/crash/owner.ts";
import { readSettings } from "./settings/settings.ts";
import { connectTls, startServer } from "./compose.ts";
import { DEMO_NOTICE } from "./offline_demo.ts";

async function longestFile(folder: string): Promise<{ path: string; lines: number }> {
  let longest = { path: "", lines: 0 };
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const found = isDirectory
      ? await longestFile(join(folder, name))
      : name.endsWith(".ts")
      ? { path: "", lines: (await Deno.readTextFile(join(folder, name))).split("\n").length - 1 }
      : longest;
    if (found.lines > longest.lines) longest = { ...found, path: join(name, found.path) };
  }
  return longest;
}

async function withData(use: (data: string) => Promise<void>): Promise<void> {
  const data = await Deno.makeTempDir();
  try {
    await use(data);
  } finally {
    await Deno.remove(data, { recursive: true });
  }
}

Deno.test("startServer() without a key reports it and answers with the offline demo model, in at least five steps over real files", () =>
  withData(async (data) => {
    const workspace = fromFileUrl(new URL("../../", import.meta.url));
    const logged: string[] = [];
    const settings = readSettings(["--port", "0", "--workspace", workspace, "--data", data], {});
    const server = await startServer(settings, (line) => logged.push(line));
    try {
      assertStringIncludes(server.greeting, DEMO_NOTICE);
      assertStringIncludes(server.greeting, server.url);
      assertEquals((await (await fetch(`${server.url}/health`)).json()).status, "ok");
      const client = agentClient(server.url);
      const session = await client.createSession();
      const events: SessionEvent[] = [];
      for await (const { event } of await client.startTurn(session, "Review packages/loop file by file.")) {
        events.push(event);
      }
      const end = events.at(-1);
      assertEquals(end?.type === "turn_end" && end.reason, "completed");
      assertEquals(end?.type === "turn_end" && end.ledger.calls >= 5 && end.ledger.cachedTokens > 0, true);
      assertEquals(
        events.filter((event) => event.type === "warning").map((event) => event.message),
        [DEMO_NOTICE],
      );
      const { path, lines } = await longestFile(join(workspace, "packages/loop"));
      assertStringIncludes(
        end?.type === "turn_end" ? end.text : "",
        `\n- packages/loop/${path}: ${lines} lines; first declares: `,
      );
      assertEquals(
        (await fetch(`${server.url}/tare/v1/sessions/${session}`, { method: "DELETE" })).status,
        204,
      );
    } finally {
      await server.close();
    }
    assertEquals(logged, []);
  }));

Deno.test("startServer() counts images by their size", () =>
  withData(async (data) => {
    const server = await startServer(readSettings(["--port", "0", "--data", data], {}), () => {});
    try {
      const client = agentClient(server.url);
      const session = await client.createSession();
      for (const size of ["@\0@\0", "\0\x04\0\x02"]) {
        const url = `data:image/gif;base64,${btoa(`GIF89a${size}`)}`;
        const input = [{ type: "image_url", image_url: { url } }] as const;
        for await (const _ of await client.startTurn(session, input));
      }
      const { blocks } = await client.prompt(session);
      assertEquals(
        blocks.flatMap(({ role, tokens }) => role === "user" ? [tokens] : []),
        [4 + 85 + 170, 4 + 85 + 2 * 170],
      );
    } finally {
      await server.close();
    }
  }));

Deno.test("startServer() reports host and port when another program listens there", () =>
  withData(async (data) => {
    const taken = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
    try {
      const { port } = taken.addr;
      await assertRejects(
        () => startServer(readSettings(["--port", String(port), "--data", data], {}), () => {}),
        RangeError,
        `Cannot start: TARE_HOST is "127.0.0.1" and TARE_PORT is ${port}: another program listens there`,
      );
    } finally {
      await taken.shutdown();
    }
  }));

Deno.test("startServer() with a provider reports its model and address, and returns an error to clients if it is unreachable", () =>
  withData(async (data) => {
    const closed = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
    const baseUrl = `http://127.0.0.1:${closed.addr.port}/v1`;
    await closed.shutdown();
    const environment = { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: "sk-planted", TARE_MODEL: "m" };
    const logged: string[] = [];
    const profile = `${data}/profile.json`;
    await Deno.writeTextFile(profile, '{"profile": "deepseek", "name": "deepseek, measured"}');
    const server = await startServer(
      readSettings(["--port", "0", "--data", data, "--without", "prune", "--profile", profile], environment),
      (line) => logged.push(line),
    );
    try {
      assertStringIncludes(server.greeting, `m at ${baseUrl}`);
      assertStringIncludes(server.greeting, "tokens     estimated: the tokenizer of m is unknown");
      assertStringIncludes(server.greeting, "off        prune");
      assertStringIncludes(server.greeting, "profile    deepseek, measured");
      const client = agentClient(server.url);
      const session = await client.createSession();
      const events: SessionEvent[] = [];
      for await (const { event } of await client.startTurn(session, "Hi.")) events.push(event);
      const end = events.at(-1);
      assertEquals(end?.type === "turn_end" && [end.reason, end.code], ["model_error", "unreachable"]);
      assertEquals(JSON.stringify([events, logged, server.greeting]).includes("sk-planted"), false);
      await fetch(`${server.url}/tare/v1/sessions/${session}`, { method: "DELETE" });
    } finally {
      await server.close();
    }
  }));

Deno.test("startServer() defers other agents' tools if the settings enable the provider's tool search", () =>
  withData(async (data) => {
    const sent: { readonly tools: readonly Record<string, unknown>[] }[] = [];
    const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      sent.push(await request.json());
      return Response.json({ type: "message", role: "assistant", content: [{ type: "text", text: "Hi." }] });
    });
    const tools = Array.from({ length: 40 }, (_, at) => ({
      name: `tracker_${at}`,
      description: "Looks after what is open, and says what became of it. ".repeat(20),
      input_schema: { type: "object" },
    }));
    const ask = async (model: string, more: Record<string, string>) => {
      const environment = { ANTHROPIC_BASE_URL: `http://127.0.0.1:${upstream.addr.port}`, ...more };
      const server = await startServer(readSettings(["--port", "0", "--data", data], environment), () => {});
      try {
        const response = await fetch(`${server.url}/v1/messages`, {
          method: "POST",
          headers: {
            "content-type": "application/json",
            "x-api-key": "k",
            "anthropic-version": "2023-06-01",
          },
          body: JSON.stringify({
            model,
            max_tokens: 9,
            tools,
            messages: [{ role: "user", content: `${sent.length}` }],
          }),
        });
        await response.text();
      } finally {
        await server.close();
      }
      return sent.at(-1)?.tools.filter((tool) => tool.defer_loading).length;
    };
    try {
      const on = { TARE_DEFER_TOOLS: "on" };
      assertEquals([
        await ask("claude-sonnet-5", on),
        await ask("claude-3-5-haiku", on),
        await ask("claude-sonnet-5", { TARE_DEFER_TOOLS: "off" }),
        await ask("claude-sonnet-5", {}),
      ], [40, 0, 0, 0]);
    } finally {
      await upstream.shutdown();
    }
  }));

Deno.test("startServer() with a key for Messages runs its agent there, and plans by its cache", () =>
  withData(async (data) => {
    const provider = simulator({
      model: scripted([
        { reasoning_content: "I look.", tool_calls: [toolCall("list_files", { path: "." })] },
        { content: "There are none." },
      ]),
      tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
      profile: { ...profileNamed("anthropic-5m"), minTokens: 100 },
      apiKey: "sk-planted",
    });
    const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
    const messagesUrl = `http://127.0.0.1:${upstream.addr.port}`;
    const environment = {
      ANTHROPIC_API_KEY: "sk-planted",
      ANTHROPIC_BASE_URL: messagesUrl,
      TARE_MODEL: "claude-sonnet-5",
    };
    const logged: string[] = [];
    const instructions = join(data, "instructions.md");
    await Deno.writeTextFile(instructions, "Be brief.");
    const args = ["--port", "0", "--data", join(data, "data"), "--workspace", data];
    const settings = readSettings([...args, "--instructions", instructions], environment);
    const server = await startServer(settings, (line) => logged.push(line));
    try {
      const [, agent, gateway] = server.greeting.split("\n");
      assertStringIncludes(agent ?? "", `claude-sonnet-5 at ${messagesUrl}; works in ${data}`);
      assertStringIncludes(gateway ?? "", "gateway    off: ");
      assertStringIncludes(server.greeting, "\nprofile    anthropic-5m");
      const client = agentClient(server.url);
      const session = await client.createSession();
      const events: SessionEvent[] = [];
      for await (const { event } of await client.startTurn(session, "Which files are there?")) {
        events.push(event);
      }
      const end = events.at(-1);
      assertEquals(end?.type === "turn_end" && [end.reason, end.text, end.ledger.calls], [
        "completed",
        "There are none.",
        2,
      ]);
      // Prompts below the planner's minimum for caching: a compacted tool rewrites all of it.
      const written = provider.requests.map(({ model, promptTokens, cacheWriteTokens }) => [
        model,
        cacheWriteTokens === promptTokens,
      ]);
      assertEquals(written, [["claude-sonnet-5", true], ["claude-sonnet-5", true]]);
      assertEquals(JSON.stringify([events, logged, server.greeting]).includes("sk-planted"), false);
    } finally {
      await server.close();
      await upstream.shutdown();
    }
    assertEquals(logged, []);
  }));

Deno.test("startServer() limits a turn to TARE_MAX_STEPS model calls, and allows more than fifty by default", () =>
  withData(async (data) => {
    const provider = simulator({
      model: ({ messages }) =>
        messages.filter(({ role }) => role === "tool").length === 60
          ? { content: "Done." }
          : { tool_calls: [toolCall("update_plan", { done: 0 })] },
      tokenizer: { encode: (text) => text.split(" ").map((word) => word.length) },
    });
    const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, provider.fetch);
    const play = async (more: Readonly<Record<string, string>>) => {
      const settings = readSettings(["--port", "0", "--data", join(data, "data"), "--workspace", data], {
        OPENAI_BASE_URL: `http://127.0.0.1:${upstream.addr.port}/v1`,
        TARE_MODEL: "m",
        ...more,
      });
      const server = await startServer(settings, () => {});
      const client = agentClient(server.url);
      let last: SessionEvent | undefined;
      for await (const { event } of await client.startTurn(await client.createSession(), "Go on.")) {
        last = event;
      }
      await server.close();
      return last?.type === "turn_end" && [last.reason, last.ledger.calls, last.message];
    };
    try {
      assertEquals(await play({}), ["completed", 61, undefined]);
      assertEquals(await play({ TARE_MAX_STEPS: "3" }), [
        "step_limit",
        3,
        "The turn reached its limit of 3 model calls. The next message continues from here.",
      ]);
    } finally {
      await upstream.shutdown();
    }
  }));

Deno.test("startServer() with a provider and no model is a gateway without an agent, and reports the missing setting", () =>
  withData(async (data) => {
    const requests: string[] = [];
    const provider = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const { method } = request;
      if (method === "POST") requests.push(new URL(request.url).pathname);
      await request.body?.cancel();
      return Response.json({ data: [{ id: "m", object: "model" }], choices: [] });
    });
    const baseUrl = `http://127.0.0.1:${provider.addr.port}/v1`;
    const settings = readSettings(["--port", "0", "--data", data], { OPENAI_BASE_URL: baseUrl });
    const server = await startServer(settings, () => {});
    try {
      const [first, agent, gateway] = server.greeting.split("\n");
      const [, visible = ""] = /^page .*: (\S+)$/m.exec(server.greeting) ?? [];
      assertEquals(visible, `${server.url}/`);
      const page = await fetch(visible);
      assertEquals([page.status, page.headers.get("content-type")], [200, "text/html; charset=utf-8"]);
      await page.body?.cancel();
      assertEquals([first, agent], [
        `Tare listens on ${server.url}`,
        "agent      off: set TARE_MODEL to the agent's model",
      ]);
      const pointed =
        `gateway    to ${baseUrl}, with your agent's own key: OPENAI_BASE_URL=${server.url}/v1 your-agent`;
      assertEquals(gateway, pointed);
      const post = (path: string, body: object) =>
        fetch(server.url + path, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify(body),
        });
      const messages = [{ role: "user", content: "Hi." }];
      assertEquals(await (await post("/v1/chat/completions", { model: "m", messages })).json(), {
        data: [{ id: "m", object: "model" }],
        choices: [],
      });
      await (await post("/v1/embeddings", { input: "x" })).body?.cancel();
      assertEquals(requests, ["/v1/chat/completions", "/v1/embeddings"]);
      const refused = await (await post("/v1/chat/completions", { model: "agent", messages })).json();
      assertStringIncludes(refused.error.message, "TARE_MODEL isn't set");
      const { sessions } = await (
        await fetch(`${server.url}/tare/v1/sessions?kind=gateway`, { headers: ownerOf(data) })
      ).json();
      assertEquals(sessions.length, 1);
    } finally {
      await server.close();
      await provider.shutdown();
    }
  }));

Deno.test("startServer() forwards Messages without another provider, including the model list, and reports how to connect", () =>
  withData(async (data) => {
    const requests: string[] = [];
    const claude = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      const { pathname, search } = new URL(request.url);
      requests.push(`${request.method} ${pathname}${search} ${request.headers.get("x-api-key")}`);
      await request.body?.cancel();
      return Response.json(
        request.method === "GET"
          ? { data: [{ type: "model", id: "claude" }], has_more: false }
          : { type: "message", content: [] },
      );
    });
    const environment = { ANTHROPIC_BASE_URL: `http://127.0.0.1:${claude.addr.port}/` };
    const server = await startServer(readSettings(["--port", "0", "--data", data], environment), () => {});
    try {
      assertStringIncludes(
        server.greeting,
        `ANTHROPIC_BASE_URL=${server.url} ENABLE_TOOL_SEARCH=true claude`,
      );
      const headers = {
        "content-type": "application/json",
        "x-api-key": "client",
        "anthropic-version": "2023-06-01",
      };
      const body = JSON.stringify({ model: "claude", messages: [{ role: "user", content: "Hi." }] });
      const post = (path: string) =>
        fetch(server.url + path, { method: "POST", headers, body }).then((response) => response.json());
      assertEquals(await post("/v1/messages?beta=true"), { type: "message", content: [] });
      assertEquals(await post("/v1/messages/count_tokens"), { type: "message", content: [] });
      const listed = await (await fetch(`${server.url}/v1/models?limit=1000`, { headers })).json();
      assertEquals(listed, { data: [{ type: "model", id: "claude" }], has_more: false });
      // The agent's clients see only its own model.
      const { data: own } = await (await fetch(`${server.url}/v1/models`)).json();
      assertEquals(own.map(({ id }: { id: string }) => id), ["agent"]);
      assertEquals(requests, [
        "POST /v1/messages?beta=true client",
        "POST /v1/messages/count_tokens client",
        "GET /v1/models?limit=1000 client",
      ]);
    } finally {
      await server.close();
      await claude.shutdown();
    }
  }));

Deno.test("startServer() answers WebSocket requests at once, and HEAD /", () =>
  withData(async (data) => {
    const environment = { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", TARE_TOKEN: "secret" };
    const server = await startServer(readSettings(["--port", "0", "--data", data], environment), () => {});
    const { port } = new URL(server.url);
    const ask = async (start: string, headers: string) => {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
      const lines = `${start} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${headers}\r\n\r\n`;
      await connection.write(new TextEncoder().encode(lines));
      const buffer = new Uint8Array(10_000);
      return new TextDecoder().decode(buffer.subarray(0, await connection.read(buffer) ?? 0));
    };
    const upgrade = "connection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n" +
      "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==";
    try {
      const authorization = "authorization: Bearer secret";
      assertStringIncludes(await ask("GET /v1/responses", `${upgrade}\r\n${authorization}`), "HTTP/1.1 426 ");
      assertStringIncludes(await ask("GET /v1/responses", upgrade), "HTTP/1.1 401 ");
      assertStringIncludes(await ask("HEAD /", authorization), "HTTP/1.1 200 ");
      assertStringIncludes(
        await ask("GET /tare/v1/sessions?kind=gateway", "connection: close"),
        "HTTP/1.1 401 ",
      );
    } finally {
      await server.close();
    }
  }));

Deno.test("startServer() applies the configured policy and limits to the gateway", () =>
  withData(async (data) => {
    const requests: string[] = [];
    const upstream = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
      if (request.method === "POST") requests.push(await request.text());
      return Response.json({
        choices: [{ index: 0, message: { role: "assistant", content: "ok" }, finish_reason: "stop" }],
      });
    });
    const environment = { OPENAI_BASE_URL: `http://127.0.0.1:${upstream.addr.port}/v1`, TARE_MODEL: "m" };
    const flags = ["--policy", "classic", "--truncate-at", "100"];
    const settings = readSettings(["--port", "0", "--data", data, ...flags], environment);
    const server = await startServer(settings, () => {}, { triggers: { historyBudgetTokens: 0 } });
    try {
      assertStringIncludes(server.greeting, "policy     classic");
      const call = { id: "1", type: "function", function: { name: "read", arguments: "{}" } };
      const response = await fetch(`${server.url}/v1/chat/completions`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({
          model: "m",
          tools: [{ type: "function", function: { name: "read" } }],
          messages: [
            { role: "user", content: "Hello." },
            { role: "assistant", content: "Hi." },
            { role: "user", content: "Read." },
            { role: "assistant", tool_calls: [call] },
            { role: "tool", tool_call_id: "1", content: "a line of the log\n".repeat(100) },
          ],
        }),
      });
      await response.body?.cancel();
      assertEquals(response.headers.get("x-tare-saved-cost-units"), null);
      assertMatch(
        requests[0] ?? "",
        /\[elided: 2 messages, \d+ bytes; recall with ref .*\[elided: middle of read result/,
      );
    } finally {
      await server.close();
      await upstream.shutdown();
    }
  }));

Deno.test("startServer() requires a token on an address that other machines can reach", async () => {
  for (const host of ["0.0.0.0", "::", "agent.example"]) {
    await assertRejects(
      () => startServer(readSettings(["--host", host, "--port", "0"], {}), () => {}),
      RangeError,
      `Cannot start: TARE_HOST is "${host}", which other machines can reach. Set TARE_TOKEN`,
    );
  }
});

Deno.test("startServer() accepts requests with the token and a host name of its own", () =>
  withData(async (data) => {
    const environment = {
      TARE_HOST: "0.0.0.0",
      TARE_TOKEN: "secret",
      TARE_ALLOWED_HOSTS: "agent.example",
      TARE_CORS_ORIGINS: "https://chat.example",
    };
    const server = await startServer(readSettings(["--port", "0", "--data", data], environment), () => {});
    const { port } = new URL(server.url);
    const url = `http://127.0.0.1:${port}`;
    // Written by hand: fetch() sets the host itself.
    const status = async (headers: Record<string, string>, target = "/tare/v1/sessions"): Promise<number> => {
      using connection = await Deno.connect({ hostname: "127.0.0.1", port: Number(port) });
      const lines = Object.entries({ host: `127.0.0.1:${port}`, connection: "close", ...headers })
        .map(([name, value]) => `${name}: ${value}\r\n`);
      await connection.write(new TextEncoder().encode(`GET ${target} HTTP/1.1\r\n${lines.join("")}\r\n`));
      const [start] = await Array.fromAsync(connection.readable);
      return Number(new TextDecoder().decode(start).split(" ")[1]);
    };
    try {
      const authorization = "Bearer secret";
      assertEquals(await status({}), 401);
      assertEquals(await Promise.all([status({}, "/"), status({}, "/page.js")]), [200, 200]);
      assertEquals(await status({ authorization }), 200);
      assertEquals(await status({ authorization, host: "agent.example" }), 200);
      assertEquals(await status({ authorization, host: "evil.example" }), 421);
      assertEquals(await status({ authorization }, "http://evil.example/tare/v1/sessions"), 421);
      assertEquals(await status({ authorization, origin: "https://chat.example" }), 200);
      assertEquals(await status({ authorization, origin: "https://evil.example" }), 403);
      const session = await agentClient(url, "secret").createSession();
      await assertRejects(() => agentClient(url).cancel(session), Error, "Unauthorized: send a server key");
    } finally {
      await server.close();
    }
  }));

Deno.test("startServer() deletes nothing and logs a warning if the clock is years ahead of the stored data", () =>
  withData(async (data) => {
    const at = Date.UTC(2020, 0, 1);
    const store = await openStore(join(data, "tare.db"), { now: () => at });
    for (const id of ["a", "b"]) {
      const settings = { model: "m", instructions: "", tools: [], budget: {}, metadata: {} };
      await store.commit([{ type: "session", kind: "agent", id, createdAtMs: at, settings }]);
    }
    await store.close();
    const logged: string[] = [];
    const workspace = await Deno.makeTempDir();
    const folders = ["--workspace", workspace, "--data", data];
    const settings = readSettings(["--port", "0", ...folders, "--expire-after", "30"], {});
    for (let start = 0; start < 2; start++) {
      await (await startServer(settings, (line) => logged.push(line))).close();
    }
    await Deno.remove(workspace);
    const after = await openStore(join(data, "tare.db"));
    assertEquals(await after.countSessions("agent"), 2);
    await after.close();
    assertEquals(logged.length, 1);
    assertMatch(
      logged[0]!,
      /^The clock is \d+ days ahead of its last reading, 2020-01-01: sessions expire as if 7 /,
    );
  }));

Deno.test("connectTls() requires TLS with the host at its address", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const first = (async () => {
    using connection = await listener.accept();
    const bytes = new Uint8Array(1024);
    const length = await connection.read(bytes) ?? 0;
    await connection.write(new TextEncoder().encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
    return { kind: bytes[0], text: new TextDecoder("latin1").decode(bytes.subarray(0, length)) };
  })();
  await assertRejects(async () => {
    using connection = await connectTls({ host: "hooks.example", address: "127.0.0.1", port });
    await connection.handshake();
  });
  const { kind, text } = await first;
  assertEquals([kind, text.includes("hooks.example")], [22, true]);
});

Deno.test("connectTls() rejects an invalid host name and closes the connection", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  const closed = (async () => {
    using connection = await listener.accept();
    return await connection.read(new Uint8Array(1));
  })();
  await assertRejects(() => connectTls({ host: "not a host", address: "127.0.0.1", port }));
  assertEquals(await closed, null);
});

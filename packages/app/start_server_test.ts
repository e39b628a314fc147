import { assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import type { LoopEvent } from "@tare/loop";
import { agentClient } from "./agent_client.ts";
import { readSettings } from "./settings.ts";
import { REHEARSAL_NOTICE, startServer } from "./start_server.ts";

const QUESTION =
  "Which package of this repository has the most lines of code, and which files does it consist of?";

async function largestPackage(folder: string): Promise<{ path: string; lines: number; files: number }> {
  let largest = { path: "", lines: 0, files: 0 };
  for await (const { name: path } of Deno.readDir(folder)) {
    let [lines, files] = [0, 0];
    for await (const { name } of Deno.readDir(join(folder, path))) {
      if (!name.endsWith(".ts")) continue;
      lines += (await Deno.readTextFile(join(folder, path, name))).split("\n").length - 1;
      files += 1;
    }
    if (lines > largest.lines) largest = { path, lines, files };
  }
  return largest;
}

Deno.test("startServer() without a key says so and answers by a rehearsal of at least five steps over real files", async () => {
  const workspace = fromFileUrl(new URL("../../", import.meta.url));
  const logged: string[] = [];
  const settings = readSettings(["--port", "0", "--workspace", workspace], {});
  const server = await startServer(settings, (line) => logged.push(line));
  try {
    assertStringIncludes(server.greeting, REHEARSAL_NOTICE);
    assertStringIncludes(server.greeting, server.url);
    assertEquals(await (await fetch(`${server.url}/health`)).json(), { status: "ok" });
    const client = agentClient(server.url);
    const session = await client.createSession();
    const events: LoopEvent[] = [];
    for await (const event of client.startTurn(session, QUESTION)) events.push(event);
    const end = events.at(-1);
    assertEquals(end?.type === "turn_end" && end.reason, "completed");
    assertEquals(end?.type === "turn_end" && end.ledger.calls >= 5 && end.ledger.cachedTokens > 0, true);
    assertEquals(
      events.filter((event) => event.type === "warning").map((event) => event.message),
      [REHEARSAL_NOTICE],
    );
    const { path, lines, files } = await largestPackage(join(workspace, "packages"));
    assertStringIncludes(
      end?.type === "turn_end" ? end.text : "",
      `packages/${path} is the package with the most lines of code, ${lines} lines in ${files} files.`,
    );
    assertEquals((await fetch(`${server.url}/v1/sessions/${session}`, { method: "DELETE" })).status, 204);
  } finally {
    await server.close();
  }
  assertEquals(logged, []);
});

Deno.test("startServer() names host and port when another program listens there", async () => {
  const taken = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
  try {
    const { port } = taken.addr;
    await assertRejects(
      () => startServer(readSettings(["--port", String(port)], {}), () => {}),
      RangeError,
      `Cannot start: TARE_HOST is "127.0.0.1" and TARE_PORT is ${port}: another program listens there`,
    );
  } finally {
    await taken.shutdown();
  }
});

Deno.test("startServer() with a provider names its model and address, and tells a client that it can't be reached", async () => {
  const closed = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, () => new Response());
  const baseUrl = `http://127.0.0.1:${closed.addr.port}/v1`;
  await closed.shutdown();
  const environment = { OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: "sk-planted", TARE_MODEL: "m" };
  const logged: string[] = [];
  const server = await startServer(
    readSettings(["--port", "0", "--no-prune"], environment),
    (line) => logged.push(line),
  );
  try {
    assertStringIncludes(server.greeting, `m at ${baseUrl}`);
    assertStringIncludes(server.greeting, "off        prune");
    const client = agentClient(server.url);
    const session = await client.createSession();
    const events: LoopEvent[] = [];
    for await (const event of client.startTurn(session, "Hi.")) events.push(event);
    const end = events.at(-1);
    assertEquals(end?.type === "turn_end" && [end.reason, end.code], ["model_error", "unreachable"]);
    assertEquals(JSON.stringify([events, logged, server.greeting]).includes("sk-planted"), false);
    await fetch(`${server.url}/v1/sessions/${session}`, { method: "DELETE" });
  } finally {
    await server.close();
  }
});

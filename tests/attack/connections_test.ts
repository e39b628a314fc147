import { assert, assertEquals, assertMatch } from "@std/assert";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { type AttackedServer, startAttacked } from "./attacked_server.ts";
import { flood, HALF_BODY, HALF_HEAD, requestFor } from "./flood.ts";
import { cases } from "../cases.ts";

async function attacked(
  { maxConnections, descriptors }: { readonly maxConnections?: number; readonly descriptors?: number },
  use: (server: AttackedServer) => Promise<void>,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(`${folder}/workspace`);
  try {
    await using server = await startAttacked(
      ["--workspace", `${folder}/workspace`, "--data", `${folder}/data`],
      {
        ...(descriptors !== undefined && { descriptors }),
        ...(maxConnections !== undefined && { parts: { maxConnections } }),
      },
    );
    await use(server);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function assertHealthy({ url }: AttackedServer): Promise<void> {
  const response = await fetch(`${url}/health`, { headers: { connection: "close" } });
  const { status } = await response.json();
  assertEquals([response.status, status], [200, "ok"]);
}

async function playTurn({ url }: AttackedServer): Promise<void> {
  const client = agentClient(url);
  const session = await client.createSession();
  const events = await Array.fromAsync(await client.startTurn(session, "Which files are there?"));
  const end = events.at(-1)?.event;
  assertEquals(end?.type === "turn_end" && end.reason, "completed");
  await (await fetch(`${url}/tare/v1/sessions/${session}`, { method: "DELETE" })).body?.cancel();
}

Deno.test("connections: a server without descriptors for 1,100 idle connections keeps serving, and reports the limit once", () =>
  attacked({ maxConnections: 100_000, descriptors: 256 }, async (server) => {
    await playTurn(server);
    {
      using _idle = await flood(server.url, 1100);
      using _half = await flood(server.url, 200, HALF_HEAD);
      using _bodies = await flood(server.url, 200, HALF_BODY);
      for (let times = 0; times < 5; times++) await assertHealthy(server);
      await playTurn(server);
    }
    await playTurn(server);
    server.signal("SIGTERM");
    const { code, stderr } = await server.ended;
    assertEquals([code, stderr.match(/^Error: .*/gm)?.length], [0, 1]);
    assertMatch(stderr, /^Error: Cannot accept a connection: Too many open files .*ulimit -n/);
  }));

Deno.test("connections: a server with 1,024 descriptors uses half of them for connections, the others for its work", () =>
  attacked({ descriptors: 1024 }, async (server) => {
    using _idle = await flood(server.url, 1100);
    await assertHealthy(server);
    await playTurn(server);
    assert((await server.state()).descriptors < 600);
    server.signal("SIGTERM");
    assertEquals(await server.ended, { code: 0, stderr: "" });
  }));

Deno.test("connections: with 10,000 idle, 1,000 slow bodies and 200 stalled readers health and turns work, and resources are freed", () =>
  attacked({}, async (server) => {
    const text = "A line that is not read.\n".repeat(40_000);
    const [long = ""] = await agentClient(server.url).importSessions(
      new TextEncoder().encode(JSON.stringify({ role: "user", content: text })),
    );
    for (let times = 0; times < 5; times++) await playTurn(server);
    const before = await server.state();
    let during = before;
    {
      using _stalled = await flood(server.url, cases(20), requestFor(`/tare/v1/sessions/${long}/export`));
      using _idle = await flood(server.url, cases(1_000));
      await assertHealthy(server);
      using _bodies = await flood(server.url, cases(100), HALF_BODY);
      for (let times = 0; times < 20; times++) await assertHealthy(server);
      await playTurn(server);
      during = await server.state();
    }
    assert(during.descriptors > cases(100), JSON.stringify({ before, during }));
    let after = during;
    const hasReturned = () =>
      after.descriptors < before.descriptors + 20 && after.memoryMiB < 2 * before.memoryMiB;
    // V8 frees memory after some idle seconds.
    for (let seconds = 0; seconds < 60 && !hasReturned(); seconds++) {
      await new Promise((resume) => setTimeout(resume, 1000));
      after = await server.state();
    }
    assert(hasReturned(), JSON.stringify({ before, during, after }));
    server.signal("SIGTERM");
    assertEquals(await server.ended, { code: 0, stderr: "" });
  }));

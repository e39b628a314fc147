import { assertEquals } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { agentClient } from "../../packages/cli/agent_client.ts";
import { startAttacked } from "./attacked_server.ts";
import { flood, HALF_BODY, requestFor } from "./flood.ts";
import { closed } from "../crash/closed.ts";

/** Starts a provider that accepts requests and never answers; `asked` resolves after this many. */
function silentProvider(times: number) {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const held: Deno.Conn[] = [];
  const requested = (async () => {
    while (held.length < times) {
      const conn = await listener.accept();
      held.push(conn);
      await conn.read(new Uint8Array(1024));
    }
  })();
  // Rejections are only reported to callers that await it.
  requested.catch(() => {});
  return {
    url: `http://127.0.0.1:${listener.addr.port}/v1`,
    requested,
    [Symbol.dispose]() {
      listener.close();
      for (const conn of held) conn.close();
    },
  };
}

async function withHanging(
  use: (server: { readonly url: string; readonly signal: (signal: Deno.Signal) => void }) => Promise<void>,
): Promise<{ readonly code: number; readonly stderr: string }> {
  const folder = await Deno.makeTempDir();
  try {
    using provider = silentProvider(2);
    await using server = await startAttacked([
      ...["--workspace", folder, "--data", `${folder}/data`],
      ...["--base-url", provider.url, "--model", "m", "--profile", "openai"],
    ]);
    const text = "A line that is not read.\n".repeat(200_000);
    const [long = ""] = await agentClient(server.url).importSessions(
      new TextEncoder().encode(JSON.stringify({ role: "user", content: text })),
    );
    using _bodies = await flood(server.url, 5, HALF_BODY);
    using _stalled = await flood(server.url, 5, requestFor(`/tare/v1/sessions/${long}/export`));
    const client = agentClient(server.url);
    const turn = client.startTurn(await client.createSession(), "Hi.")
      .then((events) => Array.fromAsync(events)).catch(() => []);
    const call = fetch(`${server.url}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ model: "other", messages: [{ role: "user", content: "Hi." }] }),
    }).then((response) => response.body?.cancel(), () => {});
    await provider.requested;
    await use(server);
    const ended = await server.ended;
    await Promise.all([turn, call]);
    return ended;
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

for (const signal of ["SIGTERM", "SIGINT"] as const) {
  Deno.test(`shutdown: ${signal} ends a server in order, whatever hangs: half a body, stalled readers, a silent provider`, async () => {
    const ended = await withHanging((server) => Promise.resolve(server.signal(signal)));
    assertEquals(ended, { code: 0, stderr: "" });
  });
}

Deno.test("shutdown: a second signal ends a server at once", async () => {
  const ended = await withHanging(async (server) => {
    server.signal("SIGTERM");
    await closed(server.url);
    server.signal("SIGTERM");
  });
  assertEquals(ended, { code: 1, stderr: "" });
});

Deno.test("shutdown: a server ends with the start command, even if that is killed", async () => {
  const folder = await Deno.makeTempDir();
  await using server = await startAttacked(["--workspace", folder, "--data", `${folder}/data`], {
    by: "start",
  });
  server.signal("SIGKILL");
  await closed(server.url);
  await server.ended;
  await Deno.remove(folder, { recursive: true });
});

Deno.test("shutdown: a server ends with the launcher of its start command, such as npx, even if only that is killed", async () => {
  const folder = await Deno.makeTempDir();
  const start = fromFileUrl(new URL("../../packages/app/start.ts", import.meta.url));
  const flags = ["--port", "0", "--workspace", folder, "--data", `${folder}/data`];
  const command = [Deno.execPath(), "run", "--allow-read", "--allow-run", "--allow-env", start, ...flags];
  // The shell stays in between, as npx's does.
  const shell = ["-c", '"$@"; exit $?', "sh", ...command];
  const launch = `await new Deno.Command("sh", { args: ${JSON.stringify(shell)} }).spawn().status`;
  const launcher = new Deno.Command(Deno.execPath(), {
    args: ["eval", launch],
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  const reader = launcher.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!/listens on \S+\n/.test(text)) text += (await reader.read()).value ?? "";
  launcher.kill("SIGKILL");
  await launcher.status;
  await closed(/listens on (\S+)\n/.exec(text)![1]!);
  while (!(await reader.read()).done);
  await Deno.remove(folder, { recursive: true });
});

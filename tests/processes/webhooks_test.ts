// The real server sends to the webhook receiver of docs/operation.md.
import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { ownerKeyIn } from "../../packages/cli/server/find_owner_key.ts";
import { startProcess } from "../../packages/app/server_process_fixture_test.ts";

const ROOT = fromFileUrl(new URL("../..", import.meta.url));

/** Reads lines until one matches. Resolves to its match. */
async function lineOf(lines: ReadableStreamDefaultReader<string>, pattern: RegExp): Promise<string> {
  for (let text = "";;) {
    const { value, done } = await lines.read();
    text += value ?? "";
    const found = pattern.exec(text)?.[1];
    if (found !== undefined) return found;
    assert(!done, `It ended with: ${text}`);
  }
}

Deno.test("docs/operation.md: the webhook receiver accepts signed requests only", async () => {
  const folder = await Deno.makeTempDir();
  const data = join(folder, "data");
  const args = ["--port", "0", "--workspace", folder, "--data", data, "--webhook-hosts", "127.0.0.1"];
  const server = await startProcess(args);
  const ask = async (path: string, body: unknown) => {
    const headers = { "authorization": `Bearer ${ownerKeyIn(data)}`, "content-type": "application/json" };
    const answer = await fetch(`${server.url}${path}`, {
      ...{ method: "POST", headers },
      body: JSON.stringify(body),
    });
    const text = await answer.text();
    assert(answer.ok, text);
    return text;
  };
  const types = ["turn.ended"];
  const { webhook: { id }, secret } = JSON.parse(
    await ask("/tare/v1/webhooks", { url: "http://127.0.0.1:9000", types }),
  );

  const page = Deno.readTextFileSync(join(ROOT, "docs/operation.md"));
  const example = /^```ts ignore\n([^]*?)^```$/m.exec(page)![1]!;
  assert(example.includes("port: 9000"));
  await Deno.writeTextFile(join(folder, "receiver.ts"), example.replace("port: 9000", "port: 0"));
  const receiver = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--frozen", "--no-prompt", "--config", join(ROOT, "deno.json"), "--allow-net=127.0.0.1"],
      ...["--allow-env=WEBHOOK_SECRET", join(folder, "receiver.ts")],
    ],
    env: { WEBHOOK_SECRET: secret, NO_COLOR: "1" },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const [stderr, heard] = [receiver.stderr, receiver.stdout].map((stream) =>
    stream.pipeThrough(new TextDecoderStream()).getReader()
  );
  const url = await lineOf(stderr!, /Listening on (http:\S+)/);
  await ask(`/tare/v1/webhooks/${id}`, { url });

  const unsigned = await fetch(url, { method: "POST", body: "{}" });
  assertEquals([unsigned.status, await unsigned.text()], [401, "Invalid signature."]);
  const { id: session } = JSON.parse(await ask("/tare/v1/sessions", {}));
  await ask(`/tare/v1/sessions/${session}/turns`, { input: "Which files are there?" });
  assertEquals(await lineOf(heard!, /^turn\.ended (\S+ completed)/m), `${session} completed`);

  receiver.kill();
  await receiver.status;
  await Promise.all([stderr!.cancel(), heard!.cancel()]);
  await server.end("SIGTERM");
  await Deno.remove(folder, { recursive: true });
});

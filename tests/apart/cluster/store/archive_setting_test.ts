import { assert, assertEquals } from "@std/assert";
import { join } from "@std/path";
import { agentClient } from "../../../../packages/cli/agent_client.ts";
import { startCommand, startProcess } from "../../../../packages/app/server_process_fixture_test.ts";
import { createHash } from "node:crypto";
import { ownerOf } from "../../../crash/owner.ts";
import { startPostgres } from "../postgres.ts";
import { startS3 } from "../s3.ts";

const postgres = await startPostgres();

Deno.test("TARE_ARCHIVE: large texts are stored in a bucket; an unusable bucket is refused", async () => {
  await using s3 = await startS3();
  const top = await Deno.makeTempDir();
  const url = await postgres.makeDatabase();
  const [workspace, data] = [join(top, "workspace"), join(top, "data")];
  await Deno.mkdir(workspace);
  const args = ["--port", "0", "--workspace", workspace, "--data", data];
  const environment = {
    TARE_DATABASE: url,
    TARE_ARCHIVE: `s3://${s3.options.bucket}/tare?region=eu-central-1&endpoint=${s3.url}`,
    AWS_ACCESS_KEY_ID: s3.options.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.options.secretAccessKey,
  };
  try {
    const { code, stderr } = await startCommand(args, { ...environment, AWS_SECRET_ACCESS_KEY: "planted" })
      .output();
    const output = new TextDecoder().decode(stderr);
    assertEquals([code, output.split("\n").length, output.includes("planted")], [1, 2, false], output);
    assert(output.includes("in s3://archive/tare/: it answered 403 SignatureDoesNotMatch"), output);

    const server = await startProcess(args, environment);
    const client = agentClient(server.url, ownerOf(data).authorization?.replace("Bearer ", ""));
    let content = "";
    for (let line = 0; line < 3000; line++) {
      content += `${createHash("sha256").update(String(line)).digest("hex")}\n`;
    }
    const call = {
      id: "c",
      type: "function",
      function: { name: "shell", arguments: '{"command":"totals"}' },
    };
    const messages = [
      { role: "user", content: "Sum up all." },
      { role: "assistant", content: null, tool_calls: [call] },
      { role: "tool", tool_call_id: "c", content },
      { role: "assistant", content: "Done." },
    ];
    const lines = messages.map((message) => JSON.stringify(message)).join("\n");
    const [session = ""] = await client.importSessions(new TextEncoder().encode(lines));
    const answer = await fetch(`${server.url}/tare/v1/sessions/${session}/turns`, {
      method: "POST",
      headers: { ...ownerOf(data), "content-type": "application/json" },
      body: JSON.stringify({ input: "And now?" }),
    });
    await answer.text();
    const names = await s3.names();
    assertEquals(names.length, 1);
    const ref = /^tare\/([0-9a-f]+)-/.exec(names[0]!)?.[1];
    const original = await fetch(`${server.url}/tare/v1/sessions/${session}/archive/${ref}`, {
      headers: ownerOf(data),
    });
    assertEquals(await original.text(), content);
    const removed = await fetch(`${server.url}/tare/v1/sessions/${session}`, {
      method: "DELETE",
      headers: ownerOf(data),
    });
    await removed.body?.cancel();
    assertEquals([removed.ok, await s3.names()], [true, []]);
    const ended = await server.end("SIGTERM");
    assertEquals([ended.code, ended.stderr], [0, ""]);
    assert(ended.stdout.includes("archive    large texts in s3://archive/tare/\n"), ended.stdout);
  } finally {
    await postgres.dropDatabase(url);
    await Deno.remove(top, { recursive: true });
  }
});

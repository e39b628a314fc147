import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { openaiModel } from "@tare/loop/openai";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { openStore } from "@tare/session/sqlite";
import {
  Client,
  makeOthers,
  onSmallDisk,
  type Send,
  talkativeProvider,
  throughFullDisk,
} from "./full_disk.ts";
import { needs, SMALL_DISK } from "../needs.ts";
import { jsonPost } from "./json_post.ts";
import { type ServerProcess, startServerProcess } from "./server_process.ts";

Deno.test("disk full: a server whose store has reached its size reports it, loses nothing, and continues once there is room", async () => {
  const folder = await Deno.makeTempDir();
  const provider = talkativeProvider();
  const store = await openStore(join(folder, "tare.db"), { maxBytes: 4_000_000 });
  const agent = agentHandler({
    models: {
      model: (model) => openaiModel({ model, baseURL: provider.url, apiKey: "any" }),
      defaultModel: "simulated",
      countTokens: () => Promise.resolve(estimateTokens),
      profile: profileNamed("none"),
      windowTokens: 1_000_000,
    },
    tools: [],
    store,
    prompt: {
      mechanisms: {
        context: false,
        prune: false,
        schemas: false,
        truncate: false,
        references: false,
        normalization: false,
      },
    },
  });
  const send: Send = async (path, init) => await agent.fetch(new Request(`http://localhost${path}`, init));
  try {
    const other = await send("/tare/v1/sessions", jsonPost({ instructions: "large ".repeat(100_000) }));
    const { id } = await other.json();
    await throughFullDisk(await Client.create(send), {
      async makeRoom() {
        assertEquals((await send(`/tare/v1/sessions/${id}`, { method: "DELETE" })).status, 204);
      },
    });
  } finally {
    await agent.close();
    await store.close();
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test(
  needs(
    SMALL_DISK,
    "disk full: a server on a full disk reports it, restarts, loses nothing, and continues once there is room",
  ),
  () => onSmallDisk("40m", serveOn),
);

async function serveOn(disk: string): Promise<void> {
  const ballast = join(disk, "ballast");
  await Deno.writeFile(ballast, new Uint8Array(8_000_000));
  const provider = talkativeProvider();
  const args = [
    ...["--port", "0", "--workspace", disk, "--data", join(disk, "data")],
    ...["--base-url", provider.url, "--model", "simulated"],
  ];
  let server: ServerProcess = await startServerProcess(args);
  const send: Send = (path, init) => fetch(server.url + path, init);
  try {
    const others = await makeOthers(send, [0, 1, 20]);
    const client = await Client.create(send);
    await throughFullDisk(client, {
      async whileFull() {
        assertStringIncludes(await server.kill(), "database or disk is full");
        server = await startServerProcess(args);
        await client.assertNothingLost();
        await client.fill();
        for (const id of others) {
          const headers = { "idempotency-key": id };
          assertEquals((await send(`/tare/v1/sessions/${id}`, { method: "DELETE", headers })).status, 204);
        }
        assert(await client.fill() > 0);
      },
      makeRoom: () => Deno.remove(ballast),
    });
  } finally {
    await server.kill();
    await provider.close();
  }
}

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { openaiModel } from "@tare/loop/openai";
import { estimateTokens } from "@tare/messages";
import { profileNamed } from "@tare/planner";
import { agentHandler } from "@tare/server";
import { openStore } from "@tare/store";
import { jsonPost } from "./json_post.ts";
import { readEvents } from "./read_events.ts";
import { recordingProvider } from "./recording_provider.ts";
import { type ServerProcess, startServerProcess } from "./server_process.ts";

/** Sends a request to the server at hand. */
type Send = (path: string, init?: RequestInit) => Promise<Response>;

/** One session, and the data of each event that was received of it, by its number. */
class Client {
  readonly #acknowledged = new Map<number, string>();
  readonly #path: string;
  readonly send: Send;

  constructor(id: string, send: Send) {
    this.#path = `/v1/sessions/${id}`;
    this.send = send;
  }

  static async create(send: Send): Promise<Client> {
    return new Client((await (await send("/v1/sessions", { method: "POST" })).json()).id, send);
  }

  /** Plays a turn. Gives how it ended, or the error that was told instead, by status or in the stream. */
  async turn(): Promise<{ readonly end?: string; readonly status?: number; readonly message?: string }> {
    const response = await this.send(`${this.#path}/turns`, jsonPost({ input: "Go on." }));
    if (!response.ok) return (await response.json()).error;
    let end = {};
    try {
      for await (const { number, data } of readEvents(response)) {
        this.#acknowledged.set(number, data);
        const { type, reason, message } = JSON.parse(data);
        if (type === "turn_end") end = { end: reason, message };
      }
    } catch (error) {
      return JSON.parse((error as Error).message).error;
    }
    return end;
  }

  /**
   * Plays turns until three in a row don't come to their ends, since behind one the store may find room for another.
   * Gives how many did.
   */
  async fill(): Promise<number> {
    let completed = 0;
    for (let full = 0; full < 3;) {
      const told = await this.turn();
      if (told.end === "completed") {
        completed++;
        full = 0;
      } else {
        assertFull(told);
        full++;
      }
    }
    return completed;
  }

  async assertNothingLost(): Promise<void> {
    const events = await Array.fromAsync(readEvents(await this.send(`${this.#path}/events`)));
    assertEquals(events.map(({ number }) => number), events.map((_, index) => index + 1));
    for (const [number, data] of this.#acknowledged) assertEquals(events[number - 1]?.data, data);
  }
}

/** The error says what the matter is and what to do; where the turn's end still fits, it says so too. */
function assertFull({ end, status, message = "" }: Awaited<ReturnType<Client["turn"]>>): void {
  assertEquals(end ?? status, end === undefined ? 507 : "internal_error");
  assertStringIncludes(
    message,
    "database or disk is full. Nothing of this write was kept; make room for it.",
  );
}

/** While the disk is full, the server says so again and again; once there is room, it goes on. */
async function throughFullDisk(
  client: Client,
  { whileFull = () => Promise.resolve(), makeRoom }: {
    readonly whileFull?: () => Promise<void>;
    readonly makeRoom: () => Promise<void>;
  },
): Promise<void> {
  const completed = await client.fill();
  assert(completed > 2, `Only ${completed} turns fit.`);
  assertEquals(await (await client.send("/health")).json(), { status: "ok" });
  await whileFull();
  await makeRoom();
  assertEquals((await client.turn()).end, "completed");
  await client.assertNothingLost();
}

Deno.test("a server whose store has reached its size says so, loses nothing, and goes on once there is room", async () => {
  const folder = await Deno.makeTempDir();
  const provider = talkativeProvider();
  const store = await openStore(join(folder, "tare.db"), { maxBytes: 4_000_000 });
  const agent = agentHandler({
    model: (model) => openaiModel({ model, baseURL: provider.url, apiKey: "any" }),
    defaultModel: "simulated",
    tools: [],
    store,
    countTokens: () => Promise.resolve(estimateTokens),
    profile: profileNamed("none"),
    windowTokens: 1_000_000,
    mechanisms: { context: false, prune: false, schemas: false, truncate: false },
  });
  const send: Send = async (path, init) => await agent.fetch(new Request(`http://localhost${path}`, init));
  try {
    const other = await send("/v1/sessions", jsonPost({ instructions: "large ".repeat(100_000) }));
    const { id } = await other.json();
    await throughFullDisk(await Client.create(send), {
      async makeRoom() {
        assertEquals((await send(`/v1/sessions/${id}`, { method: "DELETE" })).status, 204);
      },
    });
  } finally {
    await agent.close();
    await store.close();
    await provider.close();
    await Deno.remove(folder, { recursive: true });
  }
});

Deno.test("a server on a full disk says so, starts again, loses nothing, and goes on once there is room", async (t) => {
  const disk = await Deno.makeTempDir();
  const mounted = await run("mount", "-t", "tmpfs", "-o", "size=40m", "tmpfs", disk);
  await t.step({
    name: mounted ? "on a small disk of its own" : "skipped: mounting a small disk isn't permitted",
    ignore: !mounted,
    async fn() {
      try {
        await onSmallDisk(disk);
      } finally {
        await run("umount", disk);
      }
    },
  });
  await Deno.remove(disk);
});

async function onSmallDisk(disk: string): Promise<void> {
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
    const others = await makeOthers(send);
    const client = await Client.create(send);
    await throughFullDisk(client, {
      async whileFull() {
        assertStringIncludes(await server.kill(), "database or disk is full");
        server = await startServerProcess(args);
        await client.assertNothingLost();
        await client.fill();
        for (const id of others) {
          const headers = { "idempotency-key": id };
          assertEquals((await send(`/v1/sessions/${id}`, { method: "DELETE", headers })).status, 204);
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

/** Sessions to be deleted when the disk is full: one without a turn, with one, and with several. */
async function makeOthers(send: Send): Promise<string[]> {
  const ids: string[] = [];
  for (const turns of [0, 1, 20]) {
    const { id } = await (await send("/v1/sessions", { method: "POST" })).json();
    const other = new Client(id, send);
    for (let played = 0; played < turns; played++) assertEquals((await other.turn()).end, "completed");
    ids.push(id);
  }
  return ids;
}

/** A provider whose replies are of 100 kB. */
function talkativeProvider() {
  return recordingProvider(() => ({ content: "more words ".repeat(9_000) }), () => 0);
}

async function run(command: string, ...args: string[]): Promise<boolean> {
  try {
    return (await new Deno.Command(command, { args, stderr: "null" }).output()).success;
  } catch {
    return false;
  }
}

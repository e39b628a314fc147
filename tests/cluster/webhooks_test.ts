import { assert, assertEquals } from "@std/assert";
import { jsonPost } from "../crash/json_post.ts";
import { get, isBroken, postOnce, send, until } from "./client.ts";
import { Cluster } from "./cluster.ts";
import { startPostgres } from "./postgres.ts";

const postgres = await startPostgres();

const SESSIONS = 6;

/** How long what was claimed by a server that is killed is left to it, and then some, in milliseconds. */
const CLAIMED_MS = 60_000;

/** What a request tells of, in a word. */
type Told = `${string} ${number}`;

/** Receives webhooks; each third one it refuses once, and the others it tells apart. */
function startReceiver() {
  /** What was told, by the id under which it was. */
  const told = new Map<string, Set<Told>>();
  const refused = new Set<string>();
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    const id = request.headers.get("webhook-id")!;
    const { data: { session, event } } = await request.json();
    const known = told.get(id) ?? new Set();
    told.set(id, known.add(`${session.id} ${event}`));
    const isRefused = told.size % 3 === 0 && !refused.has(id);
    refused.add(id);
    return new Response(null, { status: isRefused ? 503 : 204 });
  });
  return {
    url: `http://127.0.0.1:${server.addr.port}/`,
    told,
    [Symbol.asyncDispose]: () => server.shutdown(),
  };
}

/** Plays turns one after the other, whatever becomes of the server that plays them, until it is told to stop. */
async function talk(url: string, id: string, isOver: () => boolean): Promise<void> {
  const at = `${url}/v1/sessions/${id}`;
  for (let turn = 1; !isOver(); turn++) {
    try {
      const response = await send(`${at}/turns`, jsonPost({ input: `Turn ${turn}.` }));
      await response.text();
    } catch (error) {
      if (!isBroken(error)) throw error;
    }
    await until(`the end of turn ${turn} of ${id}`, async () => {
      return (await get(at)).body.status === "idle" || undefined;
    });
  }
}

Deno.test("each turn that ends is told under one id, and no other, while servers are killed and end", async () => {
  await using cluster = await Cluster.start(postgres, { seed: 5 });
  await using receiver = startReceiver();
  const { balancer, members } = cluster;
  const made = await postOnce(`${balancer.url}/v1/webhooks`, { url: receiver.url, types: ["turn.ended"] });
  assertEquals(made.status, 201);
  // Each server knows of it from here on.
  for (const url of cluster.urls) await get(`${url}/v1/webhooks`);
  const ids = await Promise.all(Array.from({ length: SESSIONS }, async () => {
    return (await postOnce(`${balancer.url}/v1/sessions`, { instructions: "Talk." })).body.id as string;
  }));
  let isOver = false;
  const talking = Promise.all(ids.map((id) => talk(balancer.url, id, () => isOver)));
  for (const [round, signal] of (["SIGKILL", "SIGTERM", "SIGKILL", "SIGKILL"] as const).entries()) {
    const before = receiver.told.size;
    await until(
      "another turn that ends",
      () => Promise.resolve(receiver.told.size > before + 3 || undefined),
    );
    const member = members[round % members.length]!;
    await cluster.endMember(member, signal);
    await cluster.startMember(member);
  }
  isOver = true;
  await talking;
  const waiting = async () => {
    const [row] = await cluster.query<{ count: number }>(
      "SELECT count(*)::integer AS count FROM tare.deliveries WHERE due_at_ms IS NOT NULL",
    );
    return row!.count;
  };
  await until("the last delivery", async () => await waiting() === 0 || undefined, CLAIMED_MS);

  const rows = await cluster.query<{ id: string; first: number; json: string }>(
    `SELECT id, first::integer, e.json FROM tare.events e JOIN tare.sessions s ON s.key = e.session
     WHERE s.parent IS NULL`,
  );
  const ended = rows.flatMap(({ id, first, json }) =>
    (JSON.parse(json) as { type: string }[]).flatMap(({ type }, at): Told[] =>
      type === "turn_end" ? [`${id} ${first + at}`] : []
    )
  );
  assert(ended.length > SESSIONS);
  const told = [...receiver.told.values()].map((one) => [...one]);
  assertEquals(told.map(({ length }) => length), told.map(() => 1));
  assertEquals(told.flat().sort(), ended.sort());
});

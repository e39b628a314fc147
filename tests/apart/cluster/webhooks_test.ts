import { jsonPost } from "../../crash/json_post.ts";
import { get, isBroken, postOnce, send, until } from "./client.ts";
import { Cluster } from "./cluster.ts";
import { startPostgres } from "./postgres.ts";
import { WebhookReceiver } from "./webhook_receiver.ts";

const postgres = await startPostgres();

const SESSIONS = 6;

async function talk(url: string, id: string, isOver: () => boolean): Promise<void> {
  const at = `${url}/tare/v1/sessions/${id}`;
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

Deno.test("webhooks: each turn end is delivered under one unique id while servers are killed and shut down", async () => {
  await using cluster = await Cluster.start(postgres, { seed: 5 });
  await using receiver = new WebhookReceiver();
  const { balancer, members } = cluster;
  await receiver.begin(cluster);
  const ids = await Promise.all(Array.from({ length: SESSIONS }, async () => {
    return (await postOnce(`${balancer.url}/tare/v1/sessions`, { instructions: "Talk." })).body.id as string;
  }));
  let isOver = false;
  const talking = Promise.all(ids.map((id) => talk(balancer.url, id, () => isOver)));
  for (const [round, signal] of (["SIGKILL", "SIGTERM", "SIGKILL", "SIGKILL"] as const).entries()) {
    const before = receiver.size;
    await until("more turns that end", () => Promise.resolve(receiver.size > before + 3 || undefined));
    const member = members[round % members.length]!;
    await cluster.endMember(member, signal);
    await cluster.startMember(member);
  }
  isOver = true;
  await talking;
  await receiver.check(cluster);
});

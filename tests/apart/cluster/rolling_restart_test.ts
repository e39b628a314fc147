import { assert, assertEquals } from "@std/assert";
import { Cluster } from "./cluster.ts";
import { Conversation, PROTOCOLS } from "./conversation.ts";
import { startPostgres } from "./postgres.ts";
import type { RecordedRequest } from "../../recording_provider.ts";

const postgres = await startPostgres();

/** Exchanges between two restarts: all servers restart within a conversation. */
const EXCHANGES_PER_RESTART = 8;

/** Attempts: on a busy machine the store may exceed the gateway's time limit, which changes the bytes. */
const MAX_ATTEMPTS = 5;

async function sentOf(conversation: Conversation): Promise<readonly RecordedRequest[]> {
  const { name } = conversation;
  return (await conversation.requests()).map(({ messages, ...request }) => ({
    ...request,
    messages: messages.map((message) => message.replaceAll(name, "")),
  }));
}

/** Plays a whole conversation; `between` is called before each exchange. */
async function talk(
  conversation: Conversation,
  url: () => string,
  between?: (exchange: number) => Promise<void>,
): Promise<readonly RecordedRequest[]> {
  for (let exchange = 0; !conversation.isOver; exchange++) {
    await between?.(exchange);
    await conversation.exchange(url());
  }
  assertEquals(conversation.retries, 0);
  return await sentOf(conversation);
}

/** Checks for the same bytes and the same cache reads; the message contains the first difference. */
function assertSame(moved: readonly RecordedRequest[], expected: readonly RecordedRequest[]): void {
  assertEquals(moved.length, expected.length);
  for (const [request, one] of moved.entries()) {
    const other = expected[request]!;
    const piece = one.messages.findIndex((message, at) => message !== other.messages[at]);
    const show = ({ messages }: RecordedRequest) => messages[piece]?.slice(0, 200);
    assertEquals(
      [piece, show(one)],
      [-1, show(other)],
      `request ${request} has other bytes in message ${piece}`,
    );
    assertEquals(one, other, `request ${request}`);
  }
}

Deno.test("rolling restart: gateway conversations keep their bytes while they move between servers and all restart", async (t) => {
  await using cluster = await Cluster.start(postgres, { seed: 1, probeMs: 60_000 });
  const { provider, balancer, members } = cluster;
  for (const protocol of PROTOCOLS) {
    await t.step(protocol, async () => {
      const expected = await talk(new Conversation(protocol, "alone", provider), () => cluster.urls[0]!);
      assert(expected.some(({ cachedTokens }) => cachedTokens > 0), "nothing was read from the cache");
      for (let attempt = 1;; attempt++) {
        const slowBefore = cluster.slowReads;
        let restarted = 0;
        const conversation = new Conversation(protocol, `try ${attempt}`, provider);
        const moved = await talk(conversation, () => balancer.url, async (exchange) => {
          if (exchange % EXCHANGES_PER_RESTART !== EXCHANGES_PER_RESTART - 1) return;
          const member = members[restarted++ % members.length]!;
          await cluster.endMember(member, "SIGTERM");
          await cluster.startMember(member);
        });
        assert(restarted >= members.length);
        if (cluster.slowReads > slowBefore && attempt < MAX_ATTEMPTS) continue;
        return assertSame(moved, expected);
      }
    });
  }
});

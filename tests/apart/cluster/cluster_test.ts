import { assert, assertArrayIncludes, assertEquals } from "@std/assert";
import type { SessionEvent } from "@tare/server";
import { seeded } from "../../seeded.ts";
import type { ReceivedEvent } from "../../crash/read_events.ts";
import { Audit } from "./audit.ts";
import { awaitedLater, pause } from "./client.ts";
import { Cluster, type Member } from "./cluster.ts";
import { readRuns, tokensIn } from "./cluster_model.ts";
import { Conversation, type Protocol, PROTOCOLS } from "./conversation.ts";
import { type Fault, FAULTS } from "./faults.ts";
import { cases, SEED } from "../../cases.ts";
import { FAKETIME, needs } from "../../needs.ts";
import { Importer } from "./importer.ts";
import { startPostgres } from "./postgres.ts";
import { Talker } from "./talker.ts";
import { WebhookReceiver } from "./webhook_receiver.ts";

/** Number of rounds. Default: the first faults of the list, once each. */
const ROUNDS = cases(8);

/** Number of rounds after which every event is expected to have happened. */
const MANY_ROUNDS = 20;

/** Rounds before new sessions take over, so that each stays short enough to be checked as a whole. */
const ROUNDS_OF_SESSION = 5;

const AFTER_MS = 500;

/** Tolerance for a command's recorded time, in milliseconds. */
const CLOCK_MS = 20;

const postgres = await startPostgres();

/** Yields the faults of each round: first the list, then random ones, often two. */
function* faults(random: () => number): Generator<readonly Fault[], never> {
  const possible = FAULTS.filter(({ killsDatabase }) => postgres.isOurs || !killsDatabase);
  for (const fault of possible) yield [fault];
  for (;;) yield shuffled(possible, random).slice(0, random() < 0.4 ? 2 : 1);
}

function shuffled<T>(list: readonly T[], random: () => number): T[] {
  return list.map((item) => ({ item, at: random() })).sort((a, b) => a.at - b.at).map(({ item }) => item);
}

function newTalkers(cluster: Cluster, round: number): Promise<Talker[]> {
  return Promise.all([false, false, true].map((asks, place) =>
    Talker.create(cluster.balancer.url, {
      instructions: `Session ${place} of round ${round}.`,
      asks,
      provider: cluster.provider,
      random: seeded(SEED + 100 * round + place),
    })
  ));
}

/** Conversations of gateway clients: one per protocol, replaced when over. */
class Conversations {
  readonly #cluster: Cluster;
  readonly #current = new Map<Protocol, Conversation>();
  readonly #undisturbed: ReadonlyMap<Protocol, Conversation>;
  #made = 0;
  #slowReads = 0;

  private constructor(cluster: Cluster, undisturbed: ReadonlyMap<Protocol, Conversation>) {
    this.#cluster = cluster;
    this.#undisturbed = undisturbed;
  }

  /** Starts with a reference conversation per protocol, without faults on one server. */
  static async start(cluster: Cluster): Promise<Conversations> {
    const { provider, urls: [url] } = cluster;
    const undisturbed = PROTOCOLS.map((protocol) => new Conversation(protocol, "alone", provider));
    for (const conversation of undisturbed) {
      while (!conversation.isOver) await conversation.exchange(url!);
    }
    return new Conversations(
      cluster,
      new Map(PROTOCOLS.map((protocol, index) => [protocol, undisturbed[index]!])),
    );
  }

  async work(isOver: () => boolean): Promise<void> {
    const { balancer, provider } = this.#cluster;
    await Promise.all(PROTOCOLS.map(async (protocol) => {
      const known = this.#current.get(protocol);
      const conversation = known && !known.isOver
        ? known
        : new Conversation(protocol, `number ${++this.#made}`, provider);
      this.#current.set(protocol, conversation);
      await conversation.work(balancer.url, isOver);
    }));
  }

  /** Checks that there are no additional rewrites, unless a request or the database was lost. */
  async check(faults: readonly Fault[]): Promise<void> {
    const { slowReads } = this.#cluster;
    const isSlow = slowReads > this.#slowReads;
    // Nothing could be read or stored: the gateway fails open, with other bytes.
    if (isSlow || faults.some(({ hidesDatabase }) => hidesDatabase)) this.#current.clear();
    this.#slowReads = slowReads;
    for (const [protocol, conversation] of this.#current) {
      const { exchanges, retries, name } = conversation;
      const expected = await this.#undisturbed.get(protocol)!.breaks(exchanges);
      const breaks = await conversation.breaks();
      assert(
        breaks.length <= expected.length + 2 * retries,
        `breaks of the prefix at ${breaks}, not at ${expected}, ${retries} retries: ${name}`,
      );
    }
  }
}

/**
 * Checks that every call ran at most once, after its reply was stored and approved, and every result has a
 * run.
 */
async function checkRuns(
  cluster: Cluster,
  { talkers, received, audit }: {
    readonly talkers: readonly Talker[];
    readonly received: readonly (readonly ReceivedEvent[])[];
    readonly audit: Audit;
  },
): Promise<void> {
  const runs = readRuns(await cluster.log());
  const ran = new Map(runs.map((run) => [run.token, run]));
  for (const run of runs) assertEquals(ran.get(run.token), run, "a call ran twice");
  for (const [index, talker] of talkers.entries()) {
    const timeOf = await audit.timesOf(talker.id);
    assertEquals(
      received[index]!.map(({ data }) => data),
      await audit.eventsOf(talker.id),
      "not what is stored",
    );
    const tokens = new Map<string, string>();
    for (const { number, data } of received[index]!) {
      const event: SessionEvent = JSON.parse(data);
      if (event.type === "tool_call" && event.name === "shell") {
        const [token = ""] = tokensIn(event.arguments);
        tokens.set(event.id, token);
        assert(
          timeOf(number)! <= (ran.get(token)?.atMs ?? Infinity),
          `${token} ran before its call was stored`,
        );
      } else if (event.type === "tool_result" && event.name === "shell") {
        const token = tokens.get(event.id)!;
        if (!event.error) assert(ran.has(token), `${token} has a result and didn't run`);
        // Taken over by another server: it never runs here again.
        const isLate = (ran.get(token)?.atMs ?? 0) > timeOf(number)! + CLOCK_MS;
        assert(!isLate, `${token} ran after its result was stored: ${data}`);
      }
    }
    talker.checkRuns([...tokens.values()].filter((token) => ran.has(token)));
  }
}

interface Happening {
  readonly fault: Fault;
  readonly member: Member;
}

async function work(
  cluster: Cluster,
  { talkers, conversations, importer, faults, random, audit }: {
    readonly talkers: readonly Talker[];
    readonly conversations: Conversations;
    readonly importer: Importer;
    readonly faults: readonly Happening[];
    readonly random: () => number;
    readonly audit: Audit;
  },
): Promise<void> {
  let isOver = false;
  const working = awaitedLater(Promise.all([
    ...talkers.map((talker) => talker.work(cluster.balancer.url, () => isOver)),
    conversations.work(() => isOver),
    importer.work(() => isOver),
  ]));
  await Promise.race([working, pause(500 + random() * 1500)]);
  const sinceMs = Date.now();
  await Promise.all(
    faults.map(({ fault, member }) => fault.happen(cluster, member, seeded(Math.floor(1e6 * random())))),
  );
  await Promise.race([working, pause(AFTER_MS)]);
  isOver = true;
  await working;
  // Turns can't be ended without the database.
  if (faults.some(({ fault }) => fault.killsDatabase)) return;
  const sessions = talkers.map(({ id }) => id);
  for (const { fault: { breaksWithinMs }, member } of faults) {
    if (breaksWithinMs === undefined) continue;
    for (const tookMs of await audit.cacheBreakpointsOf(member.user, { sinceMs, sessions })) {
      assert(
        tookMs !== undefined && tookMs < breaksWithinMs,
        `a turn that was left went on after ${tookMs} ms`,
      );
    }
  }
}

Deno.test(`cluster: servers on one database retain everything acknowledged, in ${ROUNDS} rounds of faults`, async () => {
  const random = seeded(SEED);
  await using cluster = await Cluster.start(postgres, { seed: SEED });
  const audit = await Audit.install(cluster);
  await cluster.restart();
  await using receiver = new WebhookReceiver();
  await receiver.begin(cluster);
  const conversations = await Conversations.start(cluster);
  const importer = new Importer(cluster, seeded(SEED + 1));
  const queue = faults(random);
  let talkers: Talker[] = [];
  const all: Talker[] = [];
  let text = "";
  try {
    for (let round = 0; round < ROUNDS; round++) {
      if (round % ROUNDS_OF_SESSION === 0) all.push(...talkers = await newTalkers(cluster, round));
      const members = shuffled(cluster.members, random);
      const faults = queue.next().value.map((fault, index) => ({ fault, member: members[index]! }));
      const names = faults.map(({ fault: { name }, member: { user } }) => `${name} (${user})`);
      text = `round ${round}: ${names.join(", ")}`;
      await work(cluster, { talkers, conversations, importer, faults, random, audit });
      const received = await Promise.all(talkers.map((talker) => talker.check(cluster.urls)));
      await checkRuns(cluster, { talkers, received, audit });
      await audit.check(talkers.map(({ id }) => id));
      await conversations.check(faults.map(({ fault }) => fault));
      await importer.check();
    }
    // New servers know only what is stored.
    text = "after the last round";
    await cluster.restart();
    await Promise.all(all.map((talker) => talker.check(cluster.urls)));
    await importer.check();
    importer.assertWorked();
    await receiver.check(cluster);
    for (const end of ["completed", "approval"]) {
      assert(all.some(({ ends }) => ends.has(end)), `no turn ended with ${end}`);
    }
    // In few rounds, perhaps no server died within a turn and no client waited.
    if (ROUNDS < MANY_ROUNDS) return;
    assert(all.some(({ resumed }) => resumed > 0), "no turn went on elsewhere");
    assert(all.some(({ queued }) => queued > 0), "no turn waited");
  } catch (cause) {
    const log = cluster.complaints.slice(-5000);
    throw new Error(`Failed with TARE_TEST_SEED=${SEED}, ${text}\n${log}`, { cause });
  }
});

Deno.test(needs(FAKETIME, "faults: the list includes a server with a wrong clock"), () => {
  assertArrayIncludes(FAULTS.map(({ name }) => name), ["a server's clock is 25 hours ahead"]);
});

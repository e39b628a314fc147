import { FAKETIME, FAKETIME_LIBRARY } from "../../needs.ts";
import { pause } from "./client.ts";
import type { Cluster, Member } from "./cluster.ts";

export interface Fault {
  readonly name: string;
  readonly happen: (cluster: Cluster, member: Member, random: () => number) => Promise<void>;
  /** Time limit for other servers to end the turns of a server that loses its sessions, in milliseconds. */
  readonly breaksWithinMs?: number;
  readonly killsDatabase?: boolean;
  /** Whether some servers can't reach the database in time: their gateway fails open. Default: false. */
  readonly hidesDatabase?: boolean;
}

/** Lease of a silent server, in milliseconds: the store's default. */
const LEASE_MS = 10_000;

/** Time to find and end another server's turns, in addition to the lease, in milliseconds. */
const MARK_SLACK_MS = 5000;

/** Longest absence of a server that returns unchanged: without a takeover it continues by itself. */
const MAX_AWAY_MS = 1.4 * LEASE_MS;

function longerThanLease(random: () => number): number {
  return LEASE_MS + random() * (MAX_AWAY_MS - LEASE_MS);
}

/** Returns a fault with a server clock far ahead, if libfaketime is available. */
function wrongClocks(): readonly Fault[] {
  if (!FAKETIME.isMet()) return [];
  return [{
    name: "a server's clock is 25 hours ahead",
    async happen(cluster, member) {
      await cluster.endMember(member, "SIGTERM");
      await cluster.startMember(member, {
        LD_PRELOAD: FAKETIME_LIBRARY,
        FAKETIME: "+25h",
        FAKETIME_DONT_FAKE_MONOTONIC: "1",
      });
      await pause(3000);
      await cluster.endMember(member, "SIGTERM");
      await cluster.startMember(member);
    },
  }];
}

export const FAULTS: readonly Fault[] = [
  {
    name: "a server is killed",
    breaksWithinMs: LEASE_MS + MARK_SLACK_MS,
    async happen(cluster, member, random) {
      await cluster.endMember(member, "SIGKILL");
      // The replacement starts before or after the lease ends.
      const awayMs = random() < 0.5 ? 0 : LEASE_MS;
      await pause(awayMs);
      await cluster.startMember(member);
      await pause(LEASE_MS - awayMs);
    },
  },
  {
    name: "the database is killed",
    killsDatabase: true,
    hidesDatabase: true,
    async happen({ postgres }, _member, random) {
      await postgres.kill();
      await pause(random() * 2000);
      await postgres.start();
    },
  },
  {
    name: "a server sleeps longer than its lease and wakes up",
    breaksWithinMs: MAX_AWAY_MS + MARK_SLACK_MS,
    async happen(_cluster, { program }, random) {
      program!.signal("SIGSTOP");
      await pause(longerThanLease(random));
      program!.signal("SIGCONT");
    },
  },
  {
    name: "what a server and the database send arrives after the lease",
    hidesDatabase: true,
    breaksWithinMs: MAX_AWAY_MS + MARK_SLACK_MS,
    async happen(_cluster, { network }, random) {
      network.set({ type: "stuck" });
      await pause(longerThanLease(random));
      network.set({ type: "open" });
    },
  },
  {
    name: "the connections of a server are slow",
    hidesDatabase: true,
    async happen(_cluster, { network }, random) {
      network.set({ type: "slow", delayMs: 50 + random() * 250 });
      await pause(3000);
      network.set({ type: "open" });
    },
  },
  {
    name: "the connections of a server are cut for a moment",
    hidesDatabase: true,
    async happen(_cluster, { network }, random) {
      for (let cuts = 0; cuts < 3; cuts++) {
        network.set({ type: "cut" });
        await pause(random() * 1000);
        network.set({ type: "open" });
        await pause(random() * 1000);
      }
    },
  },
  ...wrongClocks(),
  {
    name: "a server ends in order",
    breaksWithinMs: MARK_SLACK_MS,
    async happen(cluster, member) {
      await cluster.endMember(member, "SIGTERM");
      await cluster.startMember(member);
    },
  },
  {
    name: "the connections of a server are cut for longer than the lease",
    hidesDatabase: true,
    breaksWithinMs: MAX_AWAY_MS + MARK_SLACK_MS,
    async happen(_cluster, { network }, random) {
      network.set({ type: "cut" });
      await pause(longerThanLease(random));
      network.set({ type: "open" });
    },
  },
  {
    name: "a server sleeps shorter than its lease",
    async happen(_cluster, { program }, random) {
      program!.signal("SIGSTOP");
      await pause(LEASE_MS * 0.5 * random());
      program!.signal("SIGCONT");
    },
  },
];

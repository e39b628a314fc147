import { assert, assertAlmostEquals, assertEquals, assertNotEquals } from "@std/assert";
import { type Costs, type Fleet, simulate } from "./simulate.ts";

const COSTS: Costs = {
  stepCpuMs: 20,
  commits: 8,
  reads: 0,
  commitCpuMs: 0.5,
  commitBytes: 1000,
  flushMs: 1,
  notifyCpuMs: 0,
  wakeCpuMs: 0.05,
  renewCpuMs: 0.3,
  renewCpuMsPerServer: 0.002,
  roundTripMs: 0.5,
};

const FLEET: Fleet = {
  servers: 4,
  running: 100,
  thinkMs: 1000,
  speakMs: 500,
  followed: 0,
  databaseCores: 4,
  connections: 4,
  renewMs: 3000,
  measuredMs: 20_000,
  seed: 1,
};

Deno.test("simulate() gives the same figures for the same seed", () => {
  assertEquals(simulate(COSTS, FLEET), simulate(COSTS, FLEET));
  assertNotEquals(simulate(COSTS, FLEET), simulate(COSTS, { ...FLEET, seed: 2 }));
});

Deno.test("simulate() adds to a session that is alone what its step takes, and nothing else", () => {
  // 16 of the 20 ms are in front of the request and behind the reply, and two commits are waited for: .5 + .5 + 1 each.
  const { addedP50Ms, stepsPerSecond } = simulate(COSTS, { ...FLEET, servers: 1, running: 1 });
  assertAlmostEquals(addedP50Ms, 20, 1e-6);
  assertAlmostEquals(stepsPerSecond, 1000 / 1520, 0.03);
});

Deno.test("simulate() uses of everything what the steps take of it", () => {
  const { stepsPerSecond, commitsPerSecond, logBytesPerSecond, serverShare, databaseShare, wakesPerSecond } =
    simulate(
      COSTS,
      FLEET,
    );
  assertAlmostEquals(commitsPerSecond / stepsPerSecond, 8, 0.1);
  assertEquals(logBytesPerSecond, commitsPerSecond * 1000);
  assertAlmostEquals(serverShare * 4, stepsPerSecond * 0.02, 0.02);
  assertAlmostEquals(databaseShare * 4, commitsPerSecond * 0.0005, 0.005);
  assertEquals(wakesPerSecond, 0);
});

Deno.test("simulate() lets many commits share a flush, but those that notify wait for one another", () => {
  const many: Fleet = { ...FLEET, servers: 20, running: 1000, databaseCores: 16, measuredMs: 5000 };
  const slow = { ...COSTS, flushMs: 2 };
  const shared = simulate(slow, many);
  assert(shared.commitsPerSecond > 5000, `${shared.commitsPerSecond}`);
  assert(shared.addedP99Ms < 100, `${shared.addedP99Ms}`);
  const told = simulate(slow, { ...many, followed: 1 });
  // One in two milliseconds.
  assertAlmostEquals(told.commitsPerSecond, 500, 10);
  assert(told.notifyShare > 0.99 && told.stepsPerSecond < shared.stepsPerSecond / 2);
});

Deno.test("simulate() wakes each listener once, however many notifications it has to look at", () => {
  const few = simulate(COSTS, { ...FLEET, running: 20, followed: 1 });
  const notifications = few.commitsPerSecond;
  assertAlmostEquals(few.wakesPerSecond / notifications, 4, 0.2);
  const costly = simulate({ ...COSTS, wakeCpuMs: 20 }, { ...FLEET, running: 20, followed: 1 });
  assert(costly.wakesPerSecond < 4 * 50 + 1, `${costly.wakesPerSecond}`);
});

Deno.test("simulate() shows what is full: a database's cores, a server, and leases that are renewed late", () => {
  const slow = { ...COSTS, commitCpuMs: 10 };
  const database = simulate(slow, { ...FLEET, running: 400, databaseCores: 1 });
  assertAlmostEquals(database.commitsPerSecond, 100, 3);
  assert(database.databaseShare > 0.99 && database.serverShare < 0.5);
  assert(database.slowestRenewalMs > 100, `${database.slowestRenewalMs}`);
  const servers = simulate(COSTS, { ...FLEET, servers: 1, running: 200 });
  assertAlmostEquals(servers.stepsPerSecond, 50, 2);
  assert(servers.serverShare > 0.99 && servers.databaseShare < 0.3);
});

Deno.test("simulate() has servers and database share a machine's cores", () => {
  const { stepsPerSecond } = simulate(COSTS, {
    ...FLEET,
    running: 400,
    databaseCores: 2,
    sharedCores: 2,
    measuredMs: 100_000,
  });
  // 20 ms of a server and 8 commits of half a millisecond, on two cores; what has begun and is no step yet took some too.
  assertAlmostEquals(stepsPerSecond, 2000 / 24, 1.5);
});

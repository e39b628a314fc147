/**
 * Simulates a hundred servers on one database, with the costs that were measured of small ones, and says what breaks first:
 * which of what they share is used up with how many running sessions.
 *
 *     deno task bench:hundred_servers [--servers 100] [--cores 16] [--followed 0.01] [--flush 1]
 *       [--seed 1] [--json] [--measured FILE]
 *
 * With a FILE that `deno task bench:cluster --json --parts latency` has written, the row of one server gives the costs, and
 * the others are simulated and shown beside what was measured of them.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { parseArgs } from "node:util";
import { type Costs, type Fleet, simulate, type Simulated } from "./bench/cluster/simulate.ts";
import { formatTable } from "./bench/format_table.ts";

const { values } = parseArgs({
  options: {
    servers: { type: "string", default: "100" },
    cores: { type: "string", default: "16" },
    followed: { type: "string", default: "0.01" },
    flush: { type: "string", default: "1" },
    seed: { type: "string", default: "1" },
    json: { type: "boolean", default: false },
    measured: { type: "string" },
  },
});

/**
 * As docs/sizing.md has them: of a step and its commits by `bench:cluster` (40 words and a call), of notifications and
 * renewals by `bench:shared`. What a flush and a way take is a network disk's and a data centre's.
 */
const COSTS: Costs = {
  stepCpuMs: 18,
  commits: 8.4,
  reads: 0.8,
  commitCpuMs: 0.5,
  commitBytes: 820,
  flushMs: Number(values.flush),
  notifyCpuMs: 0.055,
  wakeCpuMs: 0.045,
  renewCpuMs: 0.35,
  renewCpuMsPerServer: 0.0026,
  roundTripMs: 0.5,
};

const FLEET: Fleet = {
  servers: Number(values.servers),
  running: 0,
  thinkMs: 5000,
  speakMs: 500,
  followed: Number(values.followed),
  databaseCores: Number(values.cores),
  connections: 4,
  renewMs: 10_000 / 3,
  measuredMs: 5000,
  seed: Number(values.seed),
};

/** What may be used up, and how much of it a simulation used. */
const SHARED: Readonly<Record<string, (simulated: Simulated) => number>> = {
  "cores of the servers": ({ serverShare }) => serverShare,
  "cores of the database": ({ databaseShare }) => databaseShare,
  "the lock of notifications": ({ notifyShare }) => notifyShare,
  "connections": ({ connectionShare }) => connectionShare,
};

/** Where something is called used up: what comes next waits for long. */
const FULL = 0.8;

const percent = (share: number) => `${(100 * share).toFixed(0)} %`;

if (values.measured === undefined) hundred();
else compare(JSON.parse(await Deno.readTextFile(values.measured)));

function hundred(): void {
  const loads = [1000, 2000, 5000, 10_000, 15_000, 20_000, 25_000];
  const rows = loads.map((running) => ({ running, ...simulate(COSTS, { ...FLEET, running }) }));
  // What is shared is used in proportion, as long as nothing is full.
  const small = rows.findLast((row) => Object.values(SHARED).every((of) => of(row) < FULL)) ?? rows[0]!;
  const breaks = Object.entries(SHARED)
    .map(([name, of]) => ({ name, at: small.running * FULL / of(small) }))
    .filter(({ at }) => Number.isFinite(at))
    .sort((a, b) => a.at - b.at);
  if (values.json) return console.log(JSON.stringify({ rows, breaks }));
  console.log([
    `${FLEET.servers} servers, ${FLEET.databaseCores} cores of a database, ${
      percent(FLEET.followed)
    } of the sessions ` +
    "followed elsewhere",
    formatTable([
      [
        ...["running", "steps/s", "added p50", "p99", "commits/s", "statements/s", "wakes/s", "log MB/s"],
        ...["servers", "database", "lock", "connections", "renewal"],
      ],
      ...rows.map((row) => [
        ...[row.running, row.stepsPerSecond].map((value) => value.toFixed(0)),
        ...[row.addedP50Ms, row.addedP99Ms].map((value) => value.toFixed(0)),
        ...[row.commitsPerSecond, row.statementsPerSecond, row.wakesPerSecond].map((value) =>
          value.toFixed(0)
        ),
        (row.logBytesPerSecond / 1e6).toFixed(1),
        ...Object.values(SHARED).map((of) => percent(of(row))),
        row.slowestRenewalMs.toFixed(0),
      ]),
    ]),
    "",
    `What is ${percent(FULL)} used first, by what ${small.running} running sessions use of it:`,
    ...breaks.map(({ name, at }) =>
      `  ${name}: with ${(Math.round(at / 100) * 100).toFixed(0)} running sessions`
    ),
    `Connections to the database: ${FLEET.servers * 5}, of which ${FLEET.servers} listen.`,
  ].join("\n"));
}

/** A row of `bench:cluster`. */
interface Measured {
  readonly servers: number;
  readonly sessions: number;
  readonly stepsPerSecond: number;
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  readonly serverCpuMs: number;
  readonly databaseCpuMs: number;
  readonly statements: number;
  readonly commits: number;
  readonly bytes: number;
}

/**
 * Costs of one server, and what follows of several on its machine, beside what these did. Clients and the provider, which
 * are there too, and whatever else is, aren't simulated: where they leave little, what is added is more than that.
 */
function compare({ latency: [one, ...others] }: { readonly latency: readonly Measured[] }): void {
  if (!one || one.servers !== 1 || others.length === 0) {
    throw new Error(
      "Cannot compare: the file must hold the rows of one server and of several (--servers 1,4).",
    );
  }
  const costs: Costs = {
    ...COSTS,
    stepCpuMs: one.serverCpuMs,
    commits: one.commits,
    reads: one.statements - one.commits,
    commitCpuMs: one.databaseCpuMs / one.commits,
    commitBytes: one.bytes / one.commits,
    // Everything is on one machine, and its disk has a cache.
    flushMs: 0.2,
    roundTripMs: 0.2,
  };
  const sharedCores = navigator.hardwareConcurrency;
  const perStep = (row: Simulated, of: number) => of / row.stepsPerSecond;
  const rows = others.map((row) => {
    const simulated = simulate(costs, {
      ...FLEET,
      ...{ servers: row.servers, running: row.sessions, followed: 0, measuredMs: 20_000 },
      ...{ databaseCores: sharedCores, sharedCores },
    });
    return [
      { name: "steps a second", measured: row.stepsPerSecond, simulated: simulated.stepsPerSecond },
      {
        name: "statements a step",
        measured: row.statements,
        simulated: perStep(simulated, simulated.statementsPerSecond),
      },
      {
        name: "commits a step",
        measured: row.commits,
        simulated: perStep(simulated, simulated.commitsPerSecond),
      },
      {
        name: "log a step, kB",
        measured: row.bytes / 1e3,
        simulated: perStep(simulated, simulated.logBytesPerSecond) / 1e3,
      },
      {
        name: "CPU of servers a step, ms",
        measured: row.serverCpuMs,
        simulated: perStep(simulated, simulated.serverShare * row.servers * 1000),
      },
      {
        name: "CPU of the database a step, ms",
        measured: row.databaseCpuMs,
        simulated: perStep(simulated, simulated.databaseShare * sharedCores * 1000),
      },
      { name: "added to a step, p50, ms", measured: row.addedP50Ms, simulated: simulated.addedP50Ms },
      { name: "… p99, ms", measured: row.addedP99Ms, simulated: simulated.addedP99Ms },
    ].map((figure) => ({ servers: row.servers, ...figure }));
  }).flat();
  if (values.json) return console.log(JSON.stringify({ sharedCores, rows }));
  console.log(formatTable([
    ["servers", "", "measured", "simulated"],
    ...rows.map(({ servers, name, measured, simulated }) => [
      String(servers),
      name,
      measured.toFixed(1),
      simulated.toFixed(1),
    ]),
  ]));
}

import { percentile } from "../percentile.ts";
import { seeded } from "../seeded.ts";

/** What one thing takes, as it was measured. Milliseconds are of one core's time. */
export interface Costs {
  /** Of a server, for a step and all that comes of it. */
  readonly stepCpuMs: number;
  /** Commits of a step; two of them are waited for. */
  readonly commits: number;
  /** Statements of a step that write nothing: what they take is counted with the commits. */
  readonly reads: number;
  /** Of the database, for one commit. */
  readonly commitCpuMs: number;
  /** Of its log, for one commit. */
  readonly commitBytes: number;
  /** What the database's disk takes to flush its log, however much that is. */
  readonly flushMs: number;
  /** Of the database, for a commit that notifies, beside the commit. */
  readonly notifyCpuMs: number;
  /** Of the database, for each that listens and has to be woken. */
  readonly wakeCpuMs: number;
  /** Of the database, for the renewal of a lease, and for each server that there is. */
  readonly renewCpuMs: number;
  readonly renewCpuMsPerServer: number;
  /** There and back between a server and the database. */
  readonly roundTripMs: number;
}

/** Who is at work, and on what. */
export interface Fleet {
  readonly servers: number;
  /** Sessions in which a turn runs, spread evenly over the servers. */
  readonly running: number;
  /** How long a model thinks before its first word, and how long it speaks. */
  readonly thinkMs: number;
  readonly speakMs: number;
  /** Share of the sessions that somebody follows on another server: their commits notify. */
  readonly followed: number;
  readonly databaseCores: number;
  /** Connections of a server for statements. */
  readonly connections: number;
  /** How often a lease is renewed. */
  readonly renewMs: number;
  /** How long is simulated, behind a step's time in which all begins. */
  readonly measuredMs: number;
  readonly seed: number;
  /** Where servers and database share the cores of one machine: how many are left for them. Default: each has its own. */
  readonly sharedCores?: number;
}

/** What a simulation showed. Shares are of what there is: 1 is all of it. */
export interface Simulated {
  readonly stepsPerSecond: number;
  readonly commitsPerSecond: number;
  readonly statementsPerSecond: number;
  /** Listeners that were woken. */
  readonly wakesPerSecond: number;
  readonly logBytesPerSecond: number;
  /** What a step takes beyond the model's part. */
  readonly addedP50Ms: number;
  readonly addedP99Ms: number;
  readonly slowestRenewalMs: number;
  readonly serverShare: number;
  readonly databaseShare: number;
  /** Of the time that one commit after the other may notify. */
  readonly notifyShare: number;
  /** Of the servers' connections. */
  readonly connectionShare: number;
}

/** Commits of a step that it waits for. */
const WAITED = 2;

/** Shares of a step's work in front of the request, behind the reply, and spread over what is said. */
const WORK = { before: 0.5, behind: 0.3, spread: 0.2 };

/** What happens at what time, the soonest first. */
class Agenda {
  nowMs = 0;
  readonly #times: number[] = [];
  readonly #acts: (() => void)[] = [];

  in(ms: number, act: () => void): void {
    const [times, acts] = [this.#times, this.#acts];
    const time = this.nowMs + ms;
    let at = times.length;
    for (; at > 0; at = (at - 1) >> 1) {
      const above = (at - 1) >> 1;
      if (times[above]! <= time) break;
      times[at] = times[above]!;
      acts[at] = acts[above]!;
    }
    times[at] = time;
    acts[at] = act;
  }

  /** Does what comes before a time. */
  run(untilMs: number): void {
    const [times, acts] = [this.#times, this.#acts];
    while (times.length > 0 && times[0]! <= untilMs) {
      const act = acts[0]!;
      this.nowMs = times[0]!;
      const [time, last] = [times.pop()!, acts.pop()!];
      if (times.length > 0) {
        let at = 0;
        for (let below = 1; below < times.length; below = 2 * at + 1) {
          if (below + 1 < times.length && times[below + 1]! < times[below]!) below++;
          if (times[below]! >= time) break;
          times[at] = times[below]!;
          acts[at] = acts[below]!;
          at = below;
        }
        times[at] = time;
        acts[at] = last;
      }
      act();
    }
    this.nowMs = untilMs;
  }
}

/** So many can be had at a time; who comes later waits in line. */
class Places {
  busyMs = 0;
  readonly #agenda: Agenda;
  readonly #waiting: (() => void)[] = [];
  #head = 0;
  #free: number;

  constructor(agenda: Agenda, count: number) {
    this.#agenda = agenda;
    this.#free = count;
  }

  /** Has one as long as `use` doesn't say that it is done. */
  take(use: (done: () => void) => void): void {
    if (this.#free === 0) return void this.#waiting.push(() => this.#begin(use));
    this.#free--;
    this.#begin(use);
  }

  /** Has one for a time. */
  work(ms: number, then: () => void): void {
    this.take((done) =>
      this.#agenda.in(ms, () => {
        done();
        then();
      })
    );
  }

  #begin(use: (done: () => void) => void): void {
    const fromMs = this.#agenda.nowMs;
    use(() => {
      this.busyMs += this.#agenda.nowMs - fromMs;
      const next = this.#waiting[this.#head];
      if (!next) return void this.#free++;
      this.#head++;
      if (this.#head > 1000 && this.#head * 2 > this.#waiting.length) {
        this.#waiting.splice(0, this.#head);
        this.#head = 0;
      }
      next();
    });
  }
}

/** A log that is flushed for all who wait for it at once. */
class Log {
  readonly #agenda: Agenda;
  readonly #flushMs: number;
  #waiting: (() => void)[] = [];
  #isFlushing = false;

  constructor(agenda: Agenda, flushMs: number) {
    this.#agenda = agenda;
    this.#flushMs = flushMs;
  }

  flush(then: () => void): void {
    this.#waiting.push(then);
    this.#next();
  }

  #next(): void {
    if (this.#isFlushing || this.#waiting.length === 0) return;
    this.#isFlushing = true;
    const flushed = this.#waiting;
    this.#waiting = [];
    this.#agenda.in(this.#flushMs, () => {
      this.#isFlushing = false;
      for (const then of flushed) then();
      this.#next();
    });
  }
}

/**
 * Simulates servers on one database, event by event: the same seed gives the same figures. A statement has a connection of
 * its server's, in line, until it is done; the database's cores work on it; a commit then waits for the log, with all that
 * come meanwhile; one that notifies does so while no other one may, as PostgreSQL's lock has it, and wakes each server's
 * listener, unless that is about to look anyway. A follower elsewhere reads what it is notified of by a statement.
 */
export function simulate(costs: Costs, fleet: Fleet): Simulated {
  const { servers: count, running, thinkMs, speakMs, followed, connections, renewMs, measuredMs } = fleet;
  const random = seeded(fleet.seed);
  const agenda = new Agenda();
  const machine = fleet.sharedCores === undefined ? undefined : new Places(agenda, fleet.sharedCores);
  const database = new Places(agenda, fleet.databaseCores);
  const notifying = new Places(agenda, 1);
  const log = new Log(agenda, costs.flushMs);
  const tally = { steps: 0, commits: 0, statements: 0, wakes: 0, bytes: 0 };
  const added: number[] = [];
  let slowestRenewalMs = 0;
  /** Work on a core of something that has few, on a machine that has few. */
  const workOn = (cores: Places, ms: number, then: () => void) => {
    if (!machine) return cores.work(ms, then);
    cores.take((done) =>
      machine.work(ms, () => {
        done();
        then();
      })
    );
  };
  const servers = Array.from({ length: count }, () => ({
    cpu: new Places(agenda, 1),
    pool: new Places(agenda, connections),
    isWoken: false,
  }));
  type Server = (typeof servers)[number];

  const statement = (
    server: Server,
    { cpuMs, writes, notifies }: {
      readonly cpuMs: number;
      readonly writes: boolean;
      readonly notifies: boolean;
    },
    then: () => void,
  ) =>
    server.pool.take((free) => {
      tally.statements++;
      const answer = () => {
        free();
        agenda.in(costs.roundTripMs / 2, then);
      };
      const commit = () => {
        if (!writes) return answer();
        tally.commits++;
        tally.bytes += costs.commitBytes;
        if (!notifies) return log.flush(answer);
        notifying.take((done) =>
          log.flush(() => {
            done();
            answer();
            wakeAll(server);
          })
        );
      };
      agenda.in(costs.roundTripMs / 2, () =>
        workOn(database, cpuMs + (notifies ? costs.notifyCpuMs : 0), commit));
    });
  const wakeAll = (from: Server) => {
    for (const server of servers) {
      if (server.isWoken) continue;
      server.isWoken = true;
      tally.wakes++;
      workOn(database, costs.wakeCpuMs, () => server.isWoken = false);
    }
    // One of the others follows.
    const follower = servers[(servers.indexOf(from) + 1) % count]!;
    if (follower !== from) {
      statement(follower, { cpuMs: costs.commitCpuMs, writes: false, notifies: false }, () => {});
    }
  };
  const renew = (server: Server) => {
    const fromMs = agenda.nowMs;
    const cpuMs = costs.renewCpuMs + costs.renewCpuMsPerServer * count;
    // On a connection of its own.
    tally.statements++;
    workOn(database, cpuMs, () =>
      log.flush(() => {
        slowestRenewalMs = Math.max(slowestRenewalMs, agenda.nowMs - fromMs);
        agenda.in(renewMs, () => renew(server));
      }));
  };
  const step = (server: Server, isFollowed: boolean) => {
    const commit = (then: () => void) =>
      statement(server, { cpuMs: costs.commitCpuMs, writes: true, notifies: isFollowed }, then);
    const about = (number: number) => Math.max(0, Math.floor(number + random()));
    const deltas = about(costs.commits - WAITED);
    for (let read = about(costs.reads); read > 0; read--) {
      statement(server, { cpuMs: 0, writes: false, notifies: false }, () => {});
    }
    const readyMs = agenda.nowMs;
    workOn(server.cpu, costs.stepCpuMs * WORK.before, () => {
      const beforeMs = agenda.nowMs - readyMs;
      const speaksInMs = thinkMs * (0.9 + 0.2 * random());
      for (let delta = 1; delta <= deltas; delta++) {
        agenda.in(
          speaksInMs + speakMs * delta / (deltas + 1),
          () => workOn(server.cpu, costs.stepCpuMs * WORK.spread / deltas, () => commit(() => {})),
        );
      }
      agenda.in(speaksInMs + speakMs, () => {
        const endMs = agenda.nowMs;
        workOn(server.cpu, costs.stepCpuMs * WORK.behind, () =>
          commit(() =>
            commit(() => {
              tally.steps++;
              added.push(beforeMs + agenda.nowMs - endMs);
              step(server, isFollowed);
            })
          ));
      });
    });
  };

  for (const server of servers) agenda.in(random() * renewMs, () => renew(server));
  const stepMs = thinkMs + speakMs;
  for (let session = 0; session < running; session++) {
    const isFollowed = session % 1000 < followed * 1000;
    agenda.in(random() * stepMs, () => step(servers[session % count]!, isFollowed));
  }
  // Once every session has begun, all is as it goes on.
  agenda.run(1.5 * stepMs);
  const before = { ...tally };
  const places = [...servers.map(({ cpu }) => cpu), database, notifying, ...servers.map(({ pool }) => pool)];
  for (const place of places) place.busyMs = 0;
  added.length = 0;
  slowestRenewalMs = 0;
  agenda.run(agenda.nowMs + measuredMs);
  const perSecond = (name: keyof typeof tally) => (tally[name] - before[name]) * 1000 / measuredMs;
  const share = (some: readonly Places[], each: number) =>
    some.reduce((sum, { busyMs }) => sum + busyMs, 0) / (some.length * each * measuredMs);
  return {
    stepsPerSecond: perSecond("steps"),
    commitsPerSecond: perSecond("commits"),
    statementsPerSecond: perSecond("statements"),
    wakesPerSecond: perSecond("wakes"),
    logBytesPerSecond: perSecond("bytes"),
    addedP50Ms: percentile(added, 0.5),
    addedP99Ms: percentile(added, 0.99),
    slowestRenewalMs,
    serverShare: share(servers.map(({ cpu }) => cpu), 1),
    databaseShare: share([database], fleet.databaseCores),
    notifyShare: share([notifying], 1),
    connectionShare: share(servers.map(({ pool }) => pool), connections),
  };
}

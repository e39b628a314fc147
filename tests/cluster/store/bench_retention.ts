/**
 * What it takes of the database to let sessions go: their events row by row, as the store does it, and as partitions of a
 * table that is partitioned by when sessions were made; and what such partitions cost whoever writes and reads meanwhile.
 * Each figure is the median of rounds that were made by turns.
 *
 * @module
 */
// deno-lint-ignore-file no-console
import { openPostgresStore } from "@tare/conversation/postgres";
import { Client } from "pg";
import { startPostgres } from "../postgres.ts";

const SESSIONS = 2000;
const EVENTS = 40;
const ROUNDS = 3;
const WRITES = 5000;
const READS = 5000;

/** How many partitions the sessions are in; 0: the table as it is. */
const PARTITIONS = [0, 12, 52];

// As a server that is used is set up; vacuum comes when it is told to.
const postgres = await startPostgres({
  settings: {
    fsync: "on",
    full_page_writes: "on",
    shared_buffers: "256MB",
    max_wal_size: "4GB",
    autovacuum: "off",
  },
});

const JSON_OF_A_COMMIT =
  `'[' || repeat('{"type":"text_delta","text":"' || md5(random()::text) || '"},', 10) || '{}]'`;

const PROCEDURES = `
  CREATE PROCEDURE write_events(n integer) LANGUAGE plpgsql AS $$ BEGIN
    FOR i IN 0..n - 1 LOOP
      PERFORM tare.put_events(
        's' || (1 + i % ${SESSIONS}), NULL, NULL, NULL, gen_random_uuid(), 1, ${EVENTS} + i / ${SESSIONS}, 1, '{text_delta}',
        ${JSON_OF_A_COMMIT}
      );
      COMMIT;
    END LOOP;
  END $$;
  CREATE PROCEDURE read_ends(n integer) LANGUAGE plpgsql AS $$ BEGIN
    FOR i IN 1..n LOOP
      PERFORM e.json FROM tare.sessions s JOIN tare.events e ON e.session = s.key
        WHERE s.id = 's' || (1 + (i * 7919) % ${SESSIONS}) AND e.first > ${EVENTS - 2} ORDER BY e.first;
    END LOOP;
  END $$;
  CREATE PROCEDURE sweep_all() LANGUAGE plpgsql AS $$ BEGIN
    WHILE tare.sweep(1000) LOOP COMMIT; END LOOP;
  END $$`;

interface Taken {
  readonly ms: number;
  readonly walBytes: number;
}

/** One round on a database of its own. */
async function round(partitions: number): Promise<Readonly<Record<string, Taken>>> {
  const url = await postgres.makeDatabase();
  await (await openPostgresStore(url)).close();
  const client = new Client({ connectionString: url });
  await client.connect();
  const take = async (sql: string): Promise<Taken> => {
    const wal = async (from: string) =>
      (await client.query(`SELECT pg_current_wal_insert_lsn() - '${from}' AS n`)).rows[0].n;
    const before = (await client.query("SELECT pg_current_wal_insert_lsn() AS at")).rows[0].at;
    const startMs = performance.now();
    await client.query(sql);
    return { ms: performance.now() - startMs, walBytes: Number(await wal(before)) };
  };
  const each = (sql: (partition: number) => string) =>
    Array.from({ length: partitions }, (_, at) => sql(at)).join(";");
  try {
    await client.query("SET synchronous_commit = off");
    if (partitions > 0) {
      const step = Math.ceil((SESSIONS + 1) / partitions);
      await client.query(
        `CREATE TABLE tare.parts (LIKE tare.events INCLUDING ALL) PARTITION BY RANGE (session);
        DROP TABLE tare.events; ALTER TABLE tare.parts RENAME TO events;` +
          each((at) =>
            `CREATE TABLE tare.events_${at} PARTITION OF tare.events FOR VALUES FROM (${at * step}) TO (${
              (at + 1) * step
            })`
          ),
      );
    }
    await client.query(`
      INSERT INTO tare.sessions (id, json, commit_id)
        SELECT 's' || g, '{}', gen_random_uuid() FROM generate_series(1, ${SESSIONS}) g;
      INSERT INTO tare.heads (session, kind, touched_at_ms, last) SELECT key, 'agent', 0, ${EVENTS} FROM tare.sessions;
      INSERT INTO tare.events SELECT key, g, 1, '{text_delta}', ${JSON_OF_A_COMMIT}
        FROM generate_series(1, ${EVENTS}) g, tare.sessions`);
    await client.query("VACUUM ANALYZE");
    await client.query(PROCEDURES);
    await client.query("CALL read_ends(500)");
    const write = await take(`CALL write_events(${WRITES})`);
    const read = await take(`CALL read_ends(${READS})`);
    await client.query("SELECT tare.remove(key) FROM tare.sessions");
    await client.query("CHECKPOINT");
    const go = partitions === 0
      ? await take("CALL sweep_all()")
      : await take(each((at) => `DROP TABLE tare.events_${at}`));
    return { write, read, go };
  } finally {
    await client.end();
    await postgres.dropDatabase(url);
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)]!;
}

const taken = new Map(
  PARTITIONS.map((partitions) => [partitions, [] as Awaited<ReturnType<typeof round>>[]]),
);
for (let at = 0; at < ROUNDS; at++) {
  for (const [partitions, rounds] of taken) rounds.push(await round(partitions));
}
const rows = SESSIONS * EVENTS + WRITES;
for (const [partitions, rounds] of taken) {
  const of = (what: string, how: keyof Taken) => median(rounds.map((round) => round[what]![how]));
  const microseconds = (ms: number, count: number) => `${(ms * 1000 / count).toFixed(1)} µs`;
  console.log([
    partitions === 0 ? "one table     " : `${String(partitions).padStart(2)} partitions`,
    `a commit's row ${microseconds(of("write", "ms"), WRITES)}, ${
      (of("write", "walBytes") / WRITES).toFixed(0)
    } bytes of log`,
    `a read ${microseconds(of("read", "ms"), READS)}`,
    `to let a row go ${microseconds(of("go", "ms"), rows)}, ${
      (of("go", "walBytes") / rows).toFixed(0)
    } bytes of log`,
  ].join("; "));
}
Deno.exit(0);

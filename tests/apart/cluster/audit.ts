import { assertEquals } from "@std/assert";
import type { Cluster } from "./cluster.ts";
import { runSql } from "./postgres.ts";

/** One commit of events. */
export interface Write {
  readonly session: string;
  /** Number of its first event. */
  readonly first: number;
  readonly count: number;
  /** Whether it begins a turn. */
  readonly starts: boolean;
  /** Whether it goes on with a turn that another server has left. */
  readonly resumes: boolean;
  /** Whether it ends a turn, perhaps the same. */
  readonly ends: boolean;
  /** The server that wrote, as the database knows it. */
  readonly writer: string;
  /** The server that held the session then. */
  readonly holder: string | null;
  readonly fence: number;
  /** When it was written, in milliseconds since the epoch, by this machine's clock. */
  readonly atMs: number;
}

/**
 * What the database itself writes down of each commit of events: which server's connection it came over, and who held the
 * session with which number. The servers know nothing of it.
 */
const NOTES = `
CREATE SCHEMA audit;
CREATE TABLE audit.openings (opening text PRIMARY KEY, server text);
CREATE TABLE audit.writes (
  position bigserial, session text, first int, count int, starts boolean, resumes boolean, ends boolean, writer text, opening text, fence bigint,
  at timestamptz
);
CREATE INDEX ON audit.writes (session, position);
CREATE FUNCTION audit.note_opening() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit.openings VALUES (NEW.id, session_user);
  RETURN NULL;
END $$;
CREATE FUNCTION audit.note_write() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO audit.writes (session, first, count, starts, resumes, ends, writer, opening, fence, at)
  SELECT id, NEW.first, NEW.count, 'turn_start' = ANY (NEW.types), 'turn_resumed' = ANY (NEW.types),
    'turn_end' = ANY (NEW.types), session_user, holder,
    fence, clock_timestamp()
  FROM tare.sessions JOIN tare.heads ON session = key WHERE key = NEW.session;
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT ON tare.servers FOR EACH ROW EXECUTE FUNCTION audit.note_opening();
CREATE TRIGGER note AFTER INSERT ON tare.events FOR EACH ROW EXECUTE FUNCTION audit.note_write();
`;

/** What was written to the database by whom, and whether they might. */
export class Audit {
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Begins to write down what is written by servers that are started from then on. There must be tables. */
  static async install(cluster: Cluster): Promise<Audit> {
    await runSql(cluster.database, NOTES);
    return new Audit(cluster);
  }

  /** Checks what was written of these sessions: see {@linkcode checkWrites}. */
  async check(sessions: readonly string[]): Promise<void> {
    checkWrites(await this.#writes(sessions));
  }

  /**
   * The turns that a server had not ended at a time: how long it took until each ended or went on, by whomever, in
   * milliseconds; nothing if it hangs.
   */
  async marksOf(
    server: string,
    { sinceMs, sessions }: { readonly sinceMs: number; readonly sessions: readonly string[] },
  ): Promise<readonly (number | undefined)[]> {
    const bySession = Map.groupBy(await this.#writes(sessions), ({ session }) => session);
    return [...bySession.values()].flatMap((writes) => {
      const mark = writes.findLast(({ atMs, starts, resumes, ends }) =>
        atMs < sinceMs && (starts || resumes || ends)
      );
      if (!mark || mark.writer !== server || mark.ends) return [];
      const end = writes.find(({ atMs, resumes, ends }) => atMs >= sinceMs && (ends || resumes));
      return [end && end.atMs - sinceMs];
    });
  }

  /** The events of a session as they stand in the database, in their order. */
  async eventsOf(session: string): Promise<readonly string[]> {
    const rows = await this.#cluster.query<{ readonly json: string }>(
      "SELECT e.json FROM tare.events e JOIN tare.sessions s ON e.session = s.key WHERE s.id = $1 ORDER BY first",
      [session],
    );
    return rows.flatMap(({ json }) => JSON.parse(json)).map((event) => JSON.stringify(event));
  }

  /** When an event was written, in milliseconds since the epoch. */
  async timesOf(session: string): Promise<(number: number) => number | undefined> {
    const writes = await this.#writes([session]);
    return (number) => writes.find(({ first, count }) => first <= number && number < first + count)?.atMs;
  }

  async #writes(sessions: readonly string[]): Promise<readonly Write[]> {
    return await this.#cluster.query<Write>(
      `
      SELECT session, first, count, starts, resumes, ends, writer, server AS holder, fence::int,
        extract(epoch FROM at)::float8 * 1000 AS "atMs"
      FROM audit.writes LEFT JOIN audit.openings USING (opening) WHERE session = ANY ($1) ORDER BY position`,
      [sessions],
    );
  }
}

/**
 * Each write is by the server that held the session then, no number of a hold is less than one before or another
 * server's, and events follow one another.
 */
export function checkWrites(writes: Iterable<Write>): void {
  const last = new Map<string, Write>();
  for (const write of writes) {
    const { session, writer, holder, fence, first, starts } = write;
    const told = JSON.stringify(write);
    // What a fork begins with is written as it is made, before anybody can hold it; its turns aren't.
    const isMade = holder === null && fence === 0 && first === 1 && !starts;
    if (!isMade) {
      assertEquals(writer, holder, `written by one that doesn't hold the session: ${told}`);
    }
    const before = last.get(session);
    assertEquals(
      first,
      (before?.first ?? 1) + (before?.count ?? 0),
      `events are missing or doubled: ${told}`,
    );
    if (before) {
      const isRight = fence > before.fence || fence === before.fence && writer === before.writer;
      assertEquals(isRight, true, `an old number: ${told} after ${JSON.stringify(before)}`);
    }
    last.set(session, write);
  }
}

import { assertEquals } from "@std/assert";
import type { Cluster } from "./cluster.ts";
import { runSql } from "./postgres.ts";

export interface Write {
  readonly session: string;
  readonly first: number;
  readonly count: number;
  readonly starts: boolean;
  readonly resumes: boolean;
  readonly ends: boolean;
  readonly writer: string;
  readonly holder: string | null;
  readonly fence: number;
  /** Time in milliseconds since the epoch, by this machine's clock. */
  readonly atMs: number;
}

/** Triggers that record each commit: the connection's server, and the session's holder and fencing number. */
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

/** Record of all database writes, and of the right to make them. */
export class Audit {
  readonly #cluster: Cluster;

  private constructor(cluster: Cluster) {
    this.#cluster = cluster;
  }

  /** Begins to record the writes of servers that start later. Requires the tables. */
  static async install(cluster: Cluster): Promise<Audit> {
    await runSql(cluster.database, NOTES);
    return new Audit(cluster);
  }

  async check(sessions: readonly string[]): Promise<void> {
    checkWrites(await this.#writes(sessions));
  }

  /** Returns the time until each open turn ended or resumed, in milliseconds; `undefined` if it hangs. */
  async cacheBreakpointsOf(
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

  async eventsOf(session: string): Promise<readonly string[]> {
    const rows = await this.#cluster.query<{ readonly json: string }>(
      "SELECT e.json FROM tare.events e JOIN tare.sessions s ON e.session = s.key WHERE s.id = $1 ORDER BY first",
      [session],
    );
    return rows.flatMap(({ json }) => JSON.parse(json)).map((event) => JSON.stringify(event));
  }

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
 * Checks that only holders write, fencing numbers never decrease or change servers, and events are
 * consecutive.
 */
export function checkWrites(writes: Iterable<Write>): void {
  const last = new Map<string, Write>();
  for (const write of writes) {
    const { session, writer, holder, fence, first, starts } = write;
    const text = JSON.stringify(write);
    // A fork's first events are written at its creation, before it can be held; its turns aren't.
    const isMade = holder === null && fence === 0 && first === 1 && !starts;
    if (!isMade) {
      assertEquals(writer, holder, `written by a server that doesn't hold the session: ${text}`);
    }
    const before = last.get(session);
    assertEquals(
      first,
      (before?.first ?? 1) + (before?.count ?? 0),
      `events are missing or duplicated: ${text}`,
    );
    if (before) {
      const isRight = fence > before.fence || fence === before.fence && writer === before.writer;
      assertEquals(isRight, true, `a stale fencing number: ${text} after ${JSON.stringify(before)}`);
    }
    last.set(session, write);
  }
}

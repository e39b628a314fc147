import { StoreError } from "../store_error.ts";
import type { OwnConnection } from "./connections.ts";

/** What a connection says of itself. */
interface Session {
  readonly pid: number;
  readonly name: string | null;
}

const LOOK = "SELECT pg_backend_pid() AS pid, current_setting('tare.session', true) AS name";

/**
 * Finds out whether each connection is one with the database. What pools them by transaction lets others use it in between,
 * and keeps notifications to itself; most statements go well then, one here and there, and it takes a while until
 * anybody sees why.
 *
 * @throws {StoreError} if it isn't, with what to do.
 */
export async function assertSessions(
  open: () => Promise<OwnConnection>,
  { place, waitMs }: {
    readonly place: string;
    /** How long a notification may take, in milliseconds. */
    readonly waitMs: number;
  },
): Promise<void> {
  const refusal = (found: string) =>
    new StoreError(
      "io",
      `Cannot open the store ${place}: ${found}. Something on the way to it hands out connections by transaction, such as ` +
        "pgbouncer with pool_mode = transaction, and the store listens and prepares statements, which takes connections of " +
        "its own. Let it pool by session (pool_mode = session), or connect to the database itself.",
    );
  const one = await open();
  try {
    const other = await open();
    try {
      const name = `tare_${crypto.randomUUID().replaceAll("-", "")}`;
      await one.query(`SELECT set_config('tare.session', '${name}', false)`);
      const [mine] = await one.query<Session>(LOOK);
      // While this one is in a transaction the first has to get another connection, if it is given one each time.
      await other.query("BEGIN").catch((error) => {
        throw /pooling/.test(String(error)) ? refusal("it takes no transactions") : error;
      });
      const [theirs] = await other.query<Session>(LOOK);
      const isShared = theirs!.pid === mine!.pid || theirs!.name === name;
      const [again] = isShared ? [mine] : await one.query<Session>(LOOK);
      await other.query("COMMIT");
      if (isShared || again!.pid !== mine!.pid || again!.name !== name) {
        throw refusal("two of its connections are one, or one of them is several");
      }
      if (!await hears(one, { name, notify: () => other.query(`NOTIFY ${name}, '${name}'`), waitMs })) {
        throw refusal("its notifications don't arrive");
      }
    } finally {
      await other.close();
    }
  } finally {
    await one.close();
  }
}

/** Whether a connection hears what another one tells while it does nothing itself. */
async function hears(
  connection: OwnConnection,
  { name, notify, waitMs }: {
    readonly name: string;
    readonly notify: () => Promise<unknown>;
    readonly waitMs: number;
  },
): Promise<boolean> {
  const heard = Promise.withResolvers<boolean>();
  connection.onEvent({
    notified: (payload) => payload === name && heard.resolve(true),
    ended: () => heard.resolve(false),
  });
  await connection.query(`LISTEN ${name}`);
  await notify();
  const timer = setTimeout(() => heard.resolve(false), waitMs);
  try {
    return await heard.promise;
  } finally {
    clearTimeout(timer);
  }
}
